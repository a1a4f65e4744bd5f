"""Dask DataFrames: records stay on their cluster."""
