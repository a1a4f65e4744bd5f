"""Databases that count their own records."""
