"""What a consumer might train on a representation, and how unfair it can get.

``outcomes`` holds what a classifier did as counts; ``protocol`` trains ``classifiers`` as the paper does, and an
adversary; ``stacked`` trains the paper's network for many representations at once (PyTorch).
"""
