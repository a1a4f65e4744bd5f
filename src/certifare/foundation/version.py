"""The version of certifare, which its files state, and the address at which they can be checked."""

__version__ = "0.1.0"
#: The page that verifies certificates in a browser (``docs/verify.html``).
VERIFY_PAGE = "https://certifare.readthedocs.io/verify.html"
