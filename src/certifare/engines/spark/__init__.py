"""Spark dataframes: records stay on the executors."""
