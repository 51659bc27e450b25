"""orcstream: an asynchronous streaming I/O engine for Apache ORC."""

from orcstream.batch import Batch, Column, ReadResult, UnionValue
from orcstream.errors import (
    ColumnNotFound,
    CorruptStream,
    CorruptStripe,
    CorruptTail,
    FormatError,
    NotOrcFile,
    OrcError,
    RetriesExhausted,
    ShortRead,
    SourceChanged,
    SourceError,
    Unsupported,
    UsageError,
)
from orcstream.io.options import IoOptions
from orcstream.reader.explain import Explanation
from orcstream.reader.file import OrcFile, open
from orcstream.reader.stream import BatchStream, ReadStatistics
from orcstream.schema import Schema

__all__ = [
    "Batch",
    "BatchStream",
    "Column",
    "ColumnNotFound",
    "CorruptStream",
    "CorruptStripe",
    "CorruptTail",
    "Explanation",
    "FormatError",
    "IoOptions",
    "NotOrcFile",
    "OrcError",
    "OrcFile",
    "ReadResult",
    "ReadStatistics",
    "RetriesExhausted",
    "Schema",
    "ShortRead",
    "SourceChanged",
    "SourceError",
    "UnionValue",
    "Unsupported",
    "UsageError",
    "open",
]
