"""The errors that a user can cause, below :class:`CertifareError`: one class for each thing that a caller may handle.

A message names the column, group or value that is wrong and says what to do about it.
"""


class CertifareError(ValueError):
    """Base of all errors that certifare raises on purpose."""


class ArgumentError(CertifareError):
    """An argument or option is out of range, unknown, or contradicts another one."""


class UnprovedClaimError(ArgumentError):
    """The claim does not follow from the certificate's metric, or not in this form."""


class FileError(CertifareError):
    """A file cannot be read or written: absent, not allowed, damaged, or not of the expected kind."""


class TableError(CertifareError):
    """A table cannot be used: it is empty or lazy, or a column holds the wrong kind of values."""


class MissingColumnError(TableError):
    """The table has no column of the given name."""


class RoleError(CertifareError):
    """A column cannot have the role that it was given, or two roles contradict each other."""


class GroupError(CertifareError):
    """Groups are missing, unknown, too few or too small for the claim."""


class RepeatedRecordsError(CertifareError):
    """Records repeat each other more often than chance explains: they are not independent."""


class TrainingOverlapError(CertifareError):
    """Records to certify on were used to fit the encoder."""


class CountsError(CertifareError):
    """Counts are malformed, or two tables of counts cannot be added up."""


class EncoderError(CertifareError):
    """An encoder cannot be fitted with these parameters and data, or lacks what was asked of it."""


class DocumentError(CertifareError):
    """A document is not a valid certificate."""


class ExpiredVersionError(DocumentError):
    """A certificate was written in a version of the format that is no longer accepted."""


class LooksError(CertifareError):
    """No look at these certification records is left, or looks cannot be counted.

    Attributes
    ----------
    left : float or None
        A confidence that all looks together can still have; None if none is worth it.
    """

    def __init__(self, message: str, left: float | None = None) -> None:
        super().__init__(message)
        self.left = left


class DatabaseError(CertifareError):
    """A database cannot be reached or refuses a query."""


class MissingPackageError(CertifareError):
    """An optional package that is needed is not installed."""
