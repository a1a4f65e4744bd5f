"""certifare: representations of tables about people that come with a certificate.

``fit`` an encoder, ``certify`` it on records it has not seen, ``transform`` anything: with the stated confidence no
classifier trained on the result can treat the groups more differently than the certificate's bound T*.
"""

import lazy_loader

from certifare.engines import register_engines
from certifare.foundation.version import __version__ as __version__

register_engines()

# Names are loaded when first asked for, so that `import certifare` stays quick: compilers and learners are slow.
# The stub beside this file lists them, for this loader and for type checkers.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
