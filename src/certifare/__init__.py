"""certifare: fair representations of tables about people, with a certificate.

``fit`` an encoder, ``certify`` it on other records, ``transform`` any table: with the stated confidence no
classifier trained on the result has selection rates that differ between groups by more than the certificate's bound T*.
"""

import lazy_loader

from certifare.engines import register_engines
from certifare.foundation.version import __version__ as __version__

register_engines()

# Names are loaded on first use, so that `import certifare` stays fast: compilers and learners are slow.
# The stub next to this file lists them, for this loader and for type checkers.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
