"""Pieces of a compaction, written where the table is not open: in other processes, on other machines.

Knows that a piece has all there is to know of what is read. Must not know how it is written, nor by whom
it was handed out.
"""

from __future__ import annotations

from typing import Unpack

from orcstream.acid.compact.piece import CompactionPiece, PieceWriter
from orcstream.acid.table import AcidTable
from orcstream.acid.transactions.contract import partition_schema
from orcstream.reader.opening import OpenOptions
from orcstream.table.partition_values import PartitionColumns
from orcstream.writer.budget import DEFAULT_MEMORY_LIMIT
from orcstream.writer.options import FileOptions


async def write_piece(
    piece: CompactionPiece, *, memory_limit: int = DEFAULT_MEMORY_LIMIT, **options: Unpack[FileOptions]
) -> int:
    """Write a `piece`, one file of a compaction that another process has begun; answers how many rows it has.

    `memory_limit` is in bytes. `options` are those of `orcstream.create`; what is read takes its
    `storage_options` and `keys` from them. The file appears whole. It may be written again, and by several
    processes at once: the first file stays, and the others are the same. Raises what reading and writing
    raise; then nothing is left of it.
    """
    opening = OpenOptions(storage_options=options.get("storage_options"), keys=options.get("keys"))
    columns = PartitionColumns.of(piece.snapshot.listing.partitions, partition_schema(piece.definition))
    writer = PieceWriter(options, memory_limit=memory_limit, overwrite=False)
    async with AcidTable(piece.snapshot, piece.definition.row_columns, columns, opening) as table:
        return await writer.write(table, piece)
