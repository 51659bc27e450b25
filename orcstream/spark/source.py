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


class OrcStreamDataSource(DataSource):
    """``spark.read.format("orcstream")`` and its like, once registered: ``spark.dataSource.register``."""

    @classmethod
    def name(cls) -> str:
        return "orcstream"

    def schema(self) -> StructType:
        from orcstream.spark.read.reading import schema_of
        from orcstream.spark.stream.options import without_stream_options

        # Spark does not say here whether it is for a batch or a stream.
        return schema_of(without_stream_options(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        from orcstream.spark.read.reading import reader_of

        return reader_of(schema, self.options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from orcstream.spark.write.writing import writer_of

        return writer_of(schema, self.options, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from orcstream.spark.stream.reading import stream_reader_of

        return stream_reader_of(schema, self.options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        from orcstream.spark.stream.writing import stream_writer_of

        return stream_writer_of(schema, self.options, overwrite=overwrite)
