"""Engines: the same growth and the same counts where one machine's memory is not enough.

An engine holds the pieces of a table (row groups of Parquet files, partitions of a Dask frame) and answers the grower's
questions; the grower does not know which engine it asks, so the trees are equal.
"""
