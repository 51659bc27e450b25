"""Spark imports every package whose name begins so and registers its `DefaultSource`: no `register` is needed."""

from orcstream.spark.source import OrcStreamDataSource as DefaultSource

__all__ = ["DefaultSource"]
