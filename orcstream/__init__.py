"""orcstream: an asynchronous streaming I/O engine for Apache ORC.

Re-exports only. Names are imported when they are first used, so that `import orcstream` costs next to
nothing where only a schema or an error class is needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orcstream import acid as acid
    from orcstream import blocking
    from orcstream import errors as errors
    from orcstream import io as io
    from orcstream.batch import Batch, Column, ReadResult
    from orcstream.batch_values import UnionValue
    from orcstream.datasets.dataset import DatasetFile, OrcDataset
    from orcstream.datasets.opening import dataset
    from orcstream.datasets.splitting import Split
    from orcstream.encryption import Encrypt, Mask
    from orcstream.errors import (
        ColumnNotFound,
        CommitFailed,
        CommitUnknown,
        CorruptStream,
        CorruptStripe,
        CorruptTail,
        FormatError,
        KeyUnavailable,
        NotOrcFile,
        OrcError,
        RetriesExhausted,
        SchemaMismatch,
        ShortRead,
        SinkError,
        SourceChanged,
        SourceError,
        Unsupported,
        UsageError,
    )
    from orcstream.file.unlocking import EncryptedColumn
    from orcstream.io.contract.byte_sink import Leftover, Prepared, SinkOptions
    from orcstream.io.options import IoOptions
    from orcstream.io.sink import cleanup, commit, discard
    from orcstream.plan.tail import Tail
    from orcstream.query.expr import Expr, col
    from orcstream.reader.engine.observing import (
        DecodeSpan,
        ReadObserver,
        ReadTracer,
        RequestSpan,
        TracedRead,
    )
    from orcstream.reader.engine.read_statistics import ReadStatistics
    from orcstream.reader.explain import Explanation
    from orcstream.reader.file import OrcFile
    from orcstream.reader.many import FileStream, open_many
    from orcstream.reader.opening import open  # noqa: A004  # the name users expect
    from orcstream.reader.stream import BatchStream
    from orcstream.reader.verifying import Fault, Verification
    from orcstream.schema.schema import Schema
    from orcstream.table.stream import TableStream
    from orcstream.writer.creating import create
    from orcstream.writer.ingested import IngestedFile
    from orcstream.writer.ingester import Ingester
    from orcstream.writer.ingesting import ingest
    from orcstream.writer.merge import MergeResult, SkippedFile, merge
    from orcstream.writer.writer import OrcWriter, WriteResult

__all__ = [
    "Batch",
    "BatchStream",
    "Column",
    "ColumnNotFound",
    "CommitFailed",
    "CommitUnknown",
    "CorruptStream",
    "CorruptStripe",
    "CorruptTail",
    "DatasetFile",
    "DecodeSpan",
    "Encrypt",
    "EncryptedColumn",
    "Explanation",
    "Expr",
    "Fault",
    "FileStream",
    "FormatError",
    "IngestedFile",
    "Ingester",
    "IoOptions",
    "KeyUnavailable",
    "Leftover",
    "Mask",
    "MergeResult",
    "NotOrcFile",
    "OrcDataset",
    "OrcError",
    "OrcFile",
    "OrcWriter",
    "Prepared",
    "ReadObserver",
    "ReadResult",
    "ReadStatistics",
    "ReadTracer",
    "RequestSpan",
    "RetriesExhausted",
    "Schema",
    "SchemaMismatch",
    "ShortRead",
    "SinkError",
    "SinkOptions",
    "SkippedFile",
    "SourceChanged",
    "SourceError",
    "Split",
    "TableStream",
    "Tail",
    "TracedRead",
    "UnionValue",
    "Unsupported",
    "UsageError",
    "Verification",
    "WriteResult",
    "blocking",
    "cleanup",
    "col",
    "commit",
    "create",
    "dataset",
    "discard",
    "ingest",
    "merge",
    "open",
    "open_many",
]

_HOMES = {
    "Batch": "orcstream.batch",
    "BatchStream": "orcstream.reader.stream",
    "Column": "orcstream.batch",
    "ColumnNotFound": "orcstream.errors",
    "CommitFailed": "orcstream.errors",
    "CommitUnknown": "orcstream.errors",
    "CorruptStream": "orcstream.errors",
    "CorruptStripe": "orcstream.errors",
    "CorruptTail": "orcstream.errors",
    "DatasetFile": "orcstream.datasets.dataset",
    "DecodeSpan": "orcstream.reader.engine.observing",
    "Encrypt": "orcstream.encryption",
    "EncryptedColumn": "orcstream.file.unlocking",
    "Explanation": "orcstream.reader.explain",
    "Expr": "orcstream.query.expr",
    "Fault": "orcstream.reader.verifying",
    "FileStream": "orcstream.reader.many",
    "FormatError": "orcstream.errors",
    "IngestedFile": "orcstream.writer.ingested",
    "Ingester": "orcstream.writer.ingester",
    "IoOptions": "orcstream.io.options",
    "KeyUnavailable": "orcstream.errors",
    "Leftover": "orcstream.io.contract.byte_sink",
    "Mask": "orcstream.encryption",
    "MergeResult": "orcstream.writer.merge",
    "NotOrcFile": "orcstream.errors",
    "OrcDataset": "orcstream.datasets.dataset",
    "OrcError": "orcstream.errors",
    "OrcFile": "orcstream.reader.file",
    "OrcWriter": "orcstream.writer.writer",
    "Prepared": "orcstream.io.contract.byte_sink",
    "ReadObserver": "orcstream.reader.engine.observing",
    "ReadResult": "orcstream.batch",
    "ReadStatistics": "orcstream.reader.engine.read_statistics",
    "ReadTracer": "orcstream.reader.engine.observing",
    "RequestSpan": "orcstream.reader.engine.observing",
    "RetriesExhausted": "orcstream.errors",
    "Schema": "orcstream.schema.schema",
    "SchemaMismatch": "orcstream.errors",
    "ShortRead": "orcstream.errors",
    "SinkError": "orcstream.errors",
    "SinkOptions": "orcstream.io.contract.byte_sink",
    "SkippedFile": "orcstream.writer.merge",
    "SourceChanged": "orcstream.errors",
    "SourceError": "orcstream.errors",
    "Split": "orcstream.datasets.splitting",
    "TableStream": "orcstream.table.stream",
    "Tail": "orcstream.plan.tail",
    "TracedRead": "orcstream.reader.engine.observing",
    "UnionValue": "orcstream.batch_values",
    "Unsupported": "orcstream.errors",
    "UsageError": "orcstream.errors",
    "Verification": "orcstream.reader.verifying",
    "WriteResult": "orcstream.writer.writer",
    "cleanup": "orcstream.io.sink",
    "col": "orcstream.query.expr",
    "commit": "orcstream.io.sink",
    "create": "orcstream.writer.creating",
    "dataset": "orcstream.datasets.opening",
    "discard": "orcstream.io.sink",
    "merge": "orcstream.writer.merge",
    "ingest": "orcstream.writer.ingesting",
    "open": "orcstream.reader.opening",
    "open_many": "orcstream.reader.many",
}
_MODULES = ("acid", "blocking", "errors", "io")

if TYPE_CHECKING:
    __version__: str


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name == "__version__":
        return import_module("importlib.metadata").version(__name__)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES, "__version__"})
