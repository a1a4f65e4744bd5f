"""Encoders: how records become cells."""

import lazy_loader

# Names are loaded when first asked for: each needs scikit-learn, and a compiler that is slow to import.
# The stub beside this file lists them, for this loader and for type checkers.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
