"""Certificate files: the signed statement, its keys, and the policy that accepts or rejects it.

:mod:`~certifare.document.statement` defines the content; :mod:`~certifare.document.envelopes` writes and reads it;
:mod:`~certifare.document.keys` makes keys; :mod:`~certifare.document.suppression` pools small cells before
publication; :mod:`~certifare.document.verification` decides whether a certificate is accepted, by a
:class:`~certifare.document.policy.Policy`.
"""

from certifare.document.envelopes import Document, digest, read_document, sign, write_document
from certifare.document.keys import load_private_key, load_public_key, new_key
from certifare.document.policy import Policy
from certifare.document.statement import Selection, Statement, Terms, make_statement, schema, with_terms
from certifare.document.suppression import Suppression, suppress
from certifare.document.verification import Check, Outcome, Verdict, verify_document

__all__ = [
    "Check",
    "Document",
    "Outcome",
    "Policy",
    "Selection",
    "Statement",
    "Suppression",
    "Terms",
    "Verdict",
    "digest",
    "load_private_key",
    "load_public_key",
    "make_statement",
    "new_key",
    "read_document",
    "schema",
    "sign",
    "suppress",
    "verify_document",
    "with_terms",
    "write_document",
]
