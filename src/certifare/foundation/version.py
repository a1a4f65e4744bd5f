"""The version of this distribution, for the files that name it."""

__version__ = "0.1.0"
