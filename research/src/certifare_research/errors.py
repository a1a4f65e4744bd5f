"""Errors of the research, below certifare's own."""

from certifare.errors import CertifareError


class DataFileError(CertifareError):
    """A data set's file is missing, broken, or could not be downloaded."""


class BaselineError(CertifareError):
    """A baseline cannot work on this data, or was not fitted."""


class ExperimentError(CertifareError):
    """An experiment is unknown, or lacks what it needs."""
