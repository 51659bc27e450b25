"""What a task reads: stripes shared out, each row once; files that change, are damaged, or differ."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import types as spark_types
from pyspark.sql.datasource import EqualTo, GreaterThan, IsNotNull

import orcstream
from orcstream.errors import CorruptTail, NotOrcFile, OrcError, SchemaMismatch, SourceChanged, UsageError
from orcstream.io.keys import write_key_file
from orcstream.spark.planning import Piece, PieceOptions, packed, target_bytes
from orcstream.spark.reading import reader_of, schema_of
from tests.support.servers import MotoServer


def write(path: Path | str, schema: str, rows: list[tuple[object, ...]], **options: object) -> str:
    with orcstream.blocking.create(str(path), schema, **options) as out:  # type: ignore[arg-type]
        out.write(rows)
    return str(path)


def stripes(path: Path, count: int, rows: int = 1000) -> str:
    """A file of `count` stripes with numbers that rise."""
    with orcstream.blocking.create(str(path), "struct<id:bigint,text:string>", stripe_bytes=1 << 12) as out:
        for stripe in range(count):
            first = stripe * rows
            out.write([(first + row, str(first + row)) for row in range(rows)])
            out.flush() if out.growing else None
    return str(path)


def read(options: dict[str, str], schema: spark_types.StructType | None = None, *filters: object) -> pa.Table:
    reader = reader_of(schema or schema_of(options), options)
    left = list(reader.pushFilters(list(filters))) if filters else []
    assert len(left) <= len(filters)
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return pa.Table.from_batches(batches) if batches else pa.table({})
