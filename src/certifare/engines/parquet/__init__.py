"""Parquet files of any size, read in pieces on one machine."""
