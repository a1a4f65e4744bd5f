"""The whole job: a table goes in; an encoder, its certificate and a report come out.

:mod:`~certifare.bundle.producing` runs the job; :mod:`~certifare.bundle.result` is what comes out, with what was
measured on the certification records (:mod:`~certifare.bundle.measuring`) and what would help
(:mod:`~certifare.bundle.advice`); :mod:`~certifare.bundle.folder` writes it.
"""

from certifare.bundle.advice import Advice
from certifare.bundle.folder import BUNDLE_FILES, check_output, is_bundle, write_private_folder, write_rows
from certifare.bundle.measuring import Measured
from certifare.bundle.producing import produce
from certifare.bundle.result import Bundle, Tested

__all__ = [
    "BUNDLE_FILES",
    "Advice",
    "Bundle",
    "Measured",
    "Tested",
    "check_output",
    "is_bundle",
    "produce",
    "write_private_folder",
    "write_rows",
]
