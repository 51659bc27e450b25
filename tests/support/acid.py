"""Transactional tables made by hand: files of events, and of plain rows, written by pyarrow.

Knows Hive's six columns and names. Must not know how this package reads them.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import orc

__all__ = ["DELETE", "INSERT", "ROWS", "UPDATE", "Event", "key_of", "put_events", "put_flushed", "put_rows"]

INSERT, UPDATE, DELETE = range(3)
ROWS = pa.struct([("k", pa.int32()), ("v", pa.string())])
_CODED = 1 << 29


def key_of(write_id: int, row_id: int, bucket: int = 0, statement: int = 0) -> tuple[int, int, int]:
    """The id of a row as Hive 3 writes it: write id, bucket column, row id."""
    return write_id, _CODED | bucket << 16 | statement, row_id


@dataclass(frozen=True)
class Event:
    """What happened to a row; `row` is None for deletes."""

    operation: int
    key: tuple[int, int, int]
    write_id: int
    row: dict[str, Any] | None

    @property
    def order(self) -> tuple[Any, ...]:
        """As they stand in files: by key, the newest of a key first."""
        return (*self.key, -self.write_id)


def put_events(path: Path, events: Iterable[Event], row: pa.DataType = ROWS, **options: Any) -> None:
    """A file of events, in the order of their keys; its directory says that it is of Hive 3."""
    found = sorted(events, key=lambda event: event.order)
    columns = {
        "operation": pa.array([one.operation for one in found], pa.int32()),
        "originalTransaction": pa.array([one.key[0] for one in found], pa.int64()),
        "bucket": pa.array([one.key[1] for one in found], pa.int32()),
        "rowId": pa.array([one.key[2] for one in found], pa.int64()),
        "currentTransaction": pa.array([one.write_id for one in found], pa.int64()),
        "row": pa.array([one.row for one in found], row),
    }
    _put(path, pa.table(columns), **options)


def put_rows(path: Path, rows: Sequence[dict[str, Any]], row: pa.DataType = ROWS, **options: Any) -> None:
    """A file without events: original, loaded, or of a table that only takes inserts."""
    array = pa.array(rows, row)
    names = [row.field(at).name for at in range(row.num_fields)]
    _put(path, pa.table(array.flatten(), names=names), **options)


def _put(path: Path, table: pa.Table, *, stripe_rows: int | None = None, version: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if stripe_rows is None:
        orc.write_table(table, path, compression="zlib")
    else:
        with orc.ORCWriter(path, batch_size=stripe_rows, stripe_size=1, compression="zlib") as writer:
            for first in range(0, max(len(table), 1), stripe_rows):
                writer.write(table.slice(first, stripe_rows))
    if version:
        (path.parent / "_orc_acid_version").write_text("2")


def put_compacted(base: Path) -> None:
    """Before Hive 4, the file that says that a compaction made a base."""
    base.mkdir(parents=True, exist_ok=True)
    (base / "_metadata_acid").write_text(json.dumps({"thisFileVersion": "0", "dataFormat": "compacted"}))


def put_flushed(path: Path, beyond: bytes = b"x" * 500) -> None:
    """A writer that goes on: what is flushed ends where the file ended, and more stands behind it."""
    length = path.stat().st_size
    with path.open("ab") as file:
        file.write(beyond)
    path.with_name(f"{path.name}_flush_length").write_bytes(struct.pack(">2q", min(17, length), length))
