"""Spark imports packages that are named so and registers their `DefaultSource`: no `register` is needed."""

from orcstream.spark.source import OrcStreamDataSource as DefaultSource

__all__ = ["DefaultSource"]
