"""Hive's transactional tables: read as of a snapshot, written, compacted.

Names are imported when they are first used: a read needs nothing of what writes and compacts.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orcstream.acid.compact.cleaning import Cleaned
    from orcstream.acid.compact.compacting import CompactedPartition, Compaction, TableCompaction
    from orcstream.acid.compact.piece import CompactionPiece
    from orcstream.acid.opening import create_table, open_table
    from orcstream.acid.piece_opening import write_piece
    from orcstream.acid.read.describing import DirectoryDescription
    from orcstream.acid.table import AcidTable
    from orcstream.acid.write.streaming import StreamingWriter
    from orcstream.acid.write.writing import TableTransaction
    from orcstream.plan.acid.names import AcidDirectory, DirectoryKind
    from orcstream.plan.acid.snapshot import AcidFile, Partition
    from orcstream.plan.acid.write_ids import WriteIds
    from orcstream.table.stream import TableStream

__all__ = [
    "AcidDirectory",
    "AcidFile",
    "AcidTable",
    "Cleaned",
    "CompactedPartition",
    "Compaction",
    "CompactionPiece",
    "DirectoryDescription",
    "DirectoryKind",
    "Partition",
    "StreamingWriter",
    "TableCompaction",
    "TableStream",
    "TableTransaction",
    "WriteIds",
    "create_table",
    "open_table",
    "write_piece",
]

_HOMES = {
    "AcidDirectory": "orcstream.plan.acid.names",
    "AcidFile": "orcstream.plan.acid.snapshot",
    "AcidTable": "orcstream.acid.table",
    "Cleaned": "orcstream.acid.compact.cleaning",
    "CompactedPartition": "orcstream.acid.compact.compacting",
    "Compaction": "orcstream.acid.compact.compacting",
    "CompactionPiece": "orcstream.acid.compact.piece",
    "DirectoryDescription": "orcstream.acid.read.describing",
    "DirectoryKind": "orcstream.plan.acid.names",
    "Partition": "orcstream.plan.acid.snapshot",
    "StreamingWriter": "orcstream.acid.write.streaming",
    "TableCompaction": "orcstream.acid.compact.compacting",
    "TableStream": "orcstream.table.stream",
    "TableTransaction": "orcstream.acid.write.writing",
    "WriteIds": "orcstream.plan.acid.write_ids",
    "create_table": "orcstream.acid.opening",
    "open_table": "orcstream.acid.opening",
    "write_piece": "orcstream.acid.piece_opening",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
