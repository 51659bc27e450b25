"""orcstream: an asynchronous streaming I/O engine for Apache ORC.

Re-exports only. Names are imported when they are first used, so that `import orcstream` costs next to
nothing where only a schema or an error class is needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from orcstream._lazy import lazy_names

if TYPE_CHECKING:
    from orcstream import acid as acid
    from orcstream import blocking
    from orcstream import errors as errors
    from orcstream import io as io
    from orcstream.batch import Batch, Column, ReadResult
    from orcstream.batch_values import UnionValue
    from orcstream.datasets.dataset import DatasetFile, OrcDataset
    from orcstream.datasets.listing import Split
    from orcstream.datasets.opening import dataset
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
    from orcstream.io.contract.byte_source import IoOptions
    from orcstream.io.sink import cleanup, commit, discard
    from orcstream.plan.tail import Tail
    from orcstream.query.expr import Expr, col
    from orcstream.reader.engine.session import (
        DecodeSpan,
        ReadObserver,
        ReadStatistics,
        ReadTracer,
        RequestSpan,
        TracedRead,
    )
    from orcstream.reader.explain import Explanation
    from orcstream.reader.file import OrcFile
    from orcstream.reader.opening import (
        FileStream,
        open,  # noqa: A004  # the name users expect
        open_many,
    )
    from orcstream.reader.stream import BatchStream
    from orcstream.reader.verifying import Fault, Verification
    from orcstream.schema.schema import Schema
    from orcstream.table.lanes import TableStream
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

_get, _names = lazy_names(
    __name__,
    {
        ".batch": ("Batch", "Column", "ReadResult"),
        ".batch_values": ("UnionValue",),
        ".datasets.dataset": ("DatasetFile", "OrcDataset"),
        ".datasets.listing": ("Split",),
        ".datasets.opening": ("dataset",),
        ".encryption": ("Encrypt", "Mask"),
        ".errors": (
            *("ColumnNotFound", "CommitFailed", "CommitUnknown", "CorruptStream", "CorruptStripe"),
            *("CorruptTail", "FormatError", "KeyUnavailable", "NotOrcFile", "OrcError", "RetriesExhausted"),
            *("SchemaMismatch", "ShortRead", "SinkError", "SourceChanged", "SourceError", "Unsupported"),
            "UsageError",
        ),
        ".file.unlocking": ("EncryptedColumn",),
        ".io.contract.byte_sink": ("Leftover", "Prepared", "SinkOptions"),
        ".io.contract.byte_source": ("IoOptions",),
        ".io.sink": ("cleanup", "commit", "discard"),
        ".plan.tail": ("Tail",),
        ".query.expr": ("Expr", "col"),
        ".reader.engine.session": (
            *("DecodeSpan", "ReadObserver", "ReadStatistics", "ReadTracer", "RequestSpan", "TracedRead"),
        ),
        ".reader.explain": ("Explanation",),
        ".reader.file": ("OrcFile",),
        ".reader.opening": ("FileStream", "open", "open_many"),
        ".reader.stream": ("BatchStream",),
        ".reader.verifying": ("Fault", "Verification"),
        ".schema.schema": ("Schema",),
        ".table.lanes": ("TableStream",),
        ".writer.creating": ("create",),
        ".writer.ingested": ("IngestedFile",),
        ".writer.ingester": ("Ingester",),
        ".writer.ingesting": ("ingest",),
        ".writer.merge": ("MergeResult", "SkippedFile", "merge"),
        ".writer.writer": ("OrcWriter", "WriteResult"),
    },
    modules=("acid", "blocking", "errors", "io"),
)

if TYPE_CHECKING:
    __version__: str


def __getattr__(name: str) -> object:
    if name == "__version__":
        return import_module("importlib.metadata").version(__name__)
    return _get(name)


def __dir__() -> list[str]:
    return sorted({*_names(), "__version__"})
