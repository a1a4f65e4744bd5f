"""Every error that a user can cause, one class each, below :class:`CertifareError`.

A message names the column, group or value that is wrong and says what to do about it.
"""


class CertifareError(ValueError):
    """Base of all errors that certifare raises on purpose."""


class CountsError(CertifareError):
    """A table of counts is not one: negative, fractional, ragged, or of the wrong shape."""


class NegativeCountError(CountsError):
    """A count is below zero."""


class FractionalCountError(CountsError):
    """A count is not a whole number."""


class RaggedTableError(CountsError):
    """Rows of a table of counts differ in length, or its shape does not fit its groups and labels."""


class CellCountMismatchError(CountsError):
    """Two tables of counts do not describe the same cells."""


class CellIdError(CertifareError):
    """A cell id lies outside 0 … n_cells − 1, or is no whole number."""


class LengthMismatchError(CertifareError):
    """Columns that describe the same records differ in length."""


class GroupError(CertifareError):
    """A group that a claim needs cannot be used."""


class MissingGroupError(GroupError):
    """Fewer than two groups, or a group that was named does not occur."""


class EmptyGroupError(GroupError):
    """A group has no record where the claim needs some."""


class SmallGroupError(GroupError):
    """A group has fewer records than ``min_group_size``."""


class MissingValueError(CertifareError):
    """Records lack a group or a label, and the caller did not say what to do with them."""


class ConfidenceError(CertifareError):
    """A confidence or level outside the range in which bounds are proved, or an error budget that does not add up."""


class UnknownMetricError(CertifareError):
    """A metric that certifare does not know."""


class UnknownMethodError(CertifareError):
    """A method of certification that certifare does not know."""


class LabelsRequiredError(CertifareError):
    """The metric conditions on labels, and the counts have none."""


class PositiveLabelError(CertifareError):
    """The label that counts as positive is unknown or ambiguous."""


class ArgumentError(CertifareError):
    """An argument is outside the range in which the statement holds."""


class UnprovedClaimError(ArgumentError):
    """Something is asked of a certificate that does not follow from its metric, or not in this form."""


class CertificateFormatError(CertifareError):
    """A document is not a certificate: fields are missing, unknown or of the wrong type."""


class CertificateMismatchError(CertifareError):
    """A certificate states figures that its own counts do not support."""


class RepeatedRecordsError(CertifareError):
    """Most records equal another one, more often than chance explains: they are no independent draws."""


class TrainingOverlapError(CertifareError):
    """Records offered for certification were used to fit the encoder."""


class InfiniteValueError(CertifareError):
    """A numeric column holds an infinite value."""


class ColumnTypeError(CertifareError):
    """A column holds another kind of value (text, numbers) than is wanted there."""


class GrowthError(CertifareError):
    """What a tree is asked to grow from (classes, weights, limits, orderings) is out of range."""


class TableError(CertifareError):
    """What was given as a table cannot be read as one: lazy, sparse, complex, or not two-dimensional."""


class EmptyTableError(TableError):
    """A table has no rows or no columns."""


class DuplicateColumnError(TableError):
    """Several columns have the same name."""


class MissingColumnError(TableError):
    """A column that is needed is not in the table."""


class SensitiveFeatureError(CertifareError):
    """The groups are not given, given twice, or left among the features."""


class UnknownGroupError(SensitiveFeatureError):
    """Records have a group that a group-aware encoder was not fitted with, or none."""


class EncoderError(CertifareError):
    """An encoder's parameter or its training data (labels, groups) is out of range."""


class NotPublishableError(CertifareError):
    """An encoder has no form of the kind asked for: a score model without JSON, cells without SQL."""


class MissingPackageError(CertifareError):
    """A package that is not installed is needed for what was asked."""


class NoScoresError(CertifareError):
    """An encoder has no scores: it was fitted without labels, or saved without its cells' statistics."""


class EncoderFileError(CertifareError):
    """A file is not an encoder or a fingerprint that this version can read."""


class NewerVersionError(CertificateFormatError):
    """A certificate was written in a version of the format that is newer than this program."""


class ExpiredVersionError(CertificateFormatError):
    """A certificate was written in a version of the format that is no longer accepted."""


class SuppressionError(CertifareError):
    """Small cells cannot be pooled as asked."""


class KeyFileError(CertifareError):
    """A key file is missing, broken, of another kind, locked by a passphrase, or would be overwritten."""


class FileError(CertifareError):
    """A file cannot be read or written: absent, not allowed, not a regular file, or broken."""


class EmptyFileError(FileError):
    """A file has no bytes, or a header and no records."""


class FileFormatError(FileError):
    """A file is of a kind that certifare does not read as a table, or is damaged."""


class EncodingError(FileError):
    """The bytes of a text file do not fit the encoding that was named, or that a name of is unknown."""


class RaggedFileError(FileError):
    """Rows of a CSV file have different numbers of columns, or a quotation mark is never closed."""


class OutputError(FileError):
    """A result cannot be written where it should go."""


class RoleError(CertifareError):
    """Roles of columns contradict each other, or a column cannot play the role that it was given."""


class ExpressionError(RoleError):
    """A role such as "age>=60" cannot be understood, or compares what cannot be compared."""


class SplitError(CertifareError):
    """A table cannot be split as asked: fractions out of range, or parts left without records."""


class LedgerError(FileError):
    """The ledger of looks is damaged, of another version, or held by another run."""


class HistoryError(FileError):
    """A history of periods cannot be read, or a period cannot be added to it: there already, or not planned."""


class LooksError(CertifareError):
    """More looks at the same certification records than were planned, or planned looks that cannot be counted."""


class CandidateError(CertifareError):
    """No encoder is left to choose from, or a point is not of this frontier."""


class WarehouseError(CertifareError):
    """A database cannot be reached or asked: unknown address, missing driver, refused query."""


class CountsFileError(FileError):
    """A file is not a counts file that this version can read."""


class DuplicateCountsError(CertifareError):
    """Two counts files hold the same records, which would be counted twice."""


class EncoderMismatchError(CertifareError):
    """Counts come from another encoder, or from other columns, than those they are to be added to."""


class PluginError(CertifareError):
    """A command that another distribution brings cannot be used."""


class DrawError(CertifareError):
    """Counts of records drawn by weights or clusters do not make one sample."""


class PrinterError(CertifareError):
    """A report cannot be printed: Chromium is missing, or fails."""
