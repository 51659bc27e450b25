"""Transactional tables made by hand: files of events, and of plain rows, written by pyorc.

Knows Hive's six columns and names. Must not know how this package reads them.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyorc

__all__ = [
    "DELETE",
    "INSERT",
    "ROWS",
    "UPDATE",
    "Event",
    "key_of",
    "put_compacted",
    "put_events",
    "put_flushed",
    "put_rows",
]

INSERT, UPDATE, DELETE = range(3)
ROWS = "struct<k:int,v:string>"
NAMES = ("operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row")
_CODED = 1 << 29

Row = dict[str, Any]


def key_of(write_id: int, row_id: int, bucket: int = 0, statement: int = 0) -> tuple[int, int, int]:
    """The id of a row as Hive 3 writes it: write id, bucket column, row id."""
    return write_id, _CODED | bucket << 16 | statement, row_id


@dataclass(frozen=True)
class Event:
    """What happened to a row; `row` is None for deletes."""

    operation: int
    key: tuple[int, int, int]
    write_id: int
    row: Row | None

    @property
    def order(self) -> tuple[Any, ...]:
        """As they stand in files: by key, the newest of a key first."""
        return (*self.key, -self.write_id)


def put_events(
    path: Path,
    events: Iterable[Event],
    row: str = ROWS,
    *,
    stripe_rows: int | None = None,
    version: bool = False,
    names: Sequence[str] = NAMES,
) -> None:
    """A file of events, in the order of their keys; with a `version`, its directory says it is of Hive 3."""
    found = sorted(events, key=lambda event: event.order)
    rows = [(one.operation, *one.key, one.write_id, one.row) for one in found]
    kinds = ("int", "bigint", "int", "bigint", "bigint", row)
    schema = ",".join(f"{name}:{kind}" for name, kind in zip(names, kinds, strict=True))
    _put(path, f"struct<{schema}>", [dict(zip(names, one, strict=True)) for one in rows], stripe_rows)
    if version:
        (path.parent / "_orc_acid_version").write_text("2")


def put_rows(path: Path, rows: Sequence[Row], row: str = ROWS, stripe_rows: int | None = None) -> None:
    """A file without events: original, loaded, or of a table that only takes inserts."""
    _put(path, row, rows, stripe_rows)


def _put(path: Path, schema: str, rows: Sequence[Row], stripe_rows: int | None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # By pyorc: pyarrow does not keep the rows beside structs that are null.
    options: dict[str, Any] = {} if stripe_rows is None else {"stripe_size": 1, "batch_size": stripe_rows}
    with (
        path.open("wb") as file,
        pyorc.Writer(file, schema, struct_repr=pyorc.StructRepr.DICT, **options) as writer,
    ):
        writer.writerows(rows)


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
