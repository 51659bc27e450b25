"""Streams of Spark, read and written."""
