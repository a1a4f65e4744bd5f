"""The version of certifare, which its files state."""

__version__ = "0.1.0"
