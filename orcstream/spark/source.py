"""The data source, as Spark asks for it: each of its parts is made by the module that knows it.

Spark makes this object, and what its methods answer, in processes of its own and pickles it to others:
nothing is opened here.
"""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

__all__ = ["OrcStreamDataSource"]


class OrcStreamDataSource(DataSource):
    """``spark.read.format("orcstream")`` and its like, once registered: ``spark.dataSource.register``."""

    @classmethod
    def name(cls) -> str:
        return "orcstream"

    def schema(self) -> StructType:
        from orcstream.spark.reading import schema_of

        return schema_of(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        from orcstream.spark.reading import reader_of

        return reader_of(schema, self.options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from orcstream.spark.writing import writer_of

        return writer_of(schema, self.options, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from orcstream.spark.stream_reading import stream_reader_of

        return stream_reader_of(schema, self.options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        from orcstream.spark.stream_writing import stream_writer_of

        return stream_writer_of(schema, self.options, overwrite=overwrite)
