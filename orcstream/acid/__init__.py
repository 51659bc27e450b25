"""Hive's transactional tables: read as of a snapshot, written, compacted.

Names are imported when they are first used: a read needs nothing of what writes and compacts.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orcstream.acid.cleaning import Cleaned
    from orcstream.acid.compacting import CompactedPartition, Compaction, TableCompaction
    from orcstream.acid.compaction_piece import CompactionPiece
    from orcstream.acid.describing import DirectoryDescription
    from orcstream.acid.opening import create_table, open_table
    from orcstream.acid.piece_opening import write_piece
    from orcstream.acid.streaming import StreamingWriter
    from orcstream.acid.table import AcidTable
    from orcstream.acid.writing import TableTransaction
    from orcstream.plan.acid import AcidFile, Partition
    from orcstream.plan.acid_names import AcidDirectory, DirectoryKind
    from orcstream.plan.write_ids import WriteIds
    from orcstream.reader.table_stream import TableStream

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
    "AcidDirectory": "orcstream.plan.acid_names",
    "AcidFile": "orcstream.plan.acid",
    "AcidTable": "orcstream.acid.table",
    "Cleaned": "orcstream.acid.cleaning",
    "CompactedPartition": "orcstream.acid.compacting",
    "Compaction": "orcstream.acid.compacting",
    "CompactionPiece": "orcstream.acid.compaction_piece",
    "DirectoryDescription": "orcstream.acid.describing",
    "DirectoryKind": "orcstream.plan.acid_names",
    "Partition": "orcstream.plan.acid",
    "StreamingWriter": "orcstream.acid.streaming",
    "TableCompaction": "orcstream.acid.compacting",
    "TableStream": "orcstream.reader.table_stream",
    "TableTransaction": "orcstream.acid.writing",
    "WriteIds": "orcstream.plan.write_ids",
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
