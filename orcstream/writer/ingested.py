"""Values of an ingest: options, rows that wait, files under construction, committed files.

Knows writers and partitions. Must not know tasks or queues.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import anyio

from orcstream.codec.ingest.ingest import IngestedRows
from orcstream.io.contract.byte_sink import Prepared
from orcstream.schema.schema import Schema
from orcstream.writer.creating import Creating
from orcstream.writer.partitions import Partition
from orcstream.writer.template import UrlTemplate
from orcstream.writer.writer import OrcWriter

Pieces: TypeAlias = list[tuple[Partition, IngestedRows]]


@dataclass(frozen=True, slots=True)
class IngestedFile:
    """A file that was committed: its `url`, `row_count`, `stripe_count` and `length` in bytes.

    `partition` has the values of its partition columns by name.

    `low_water` counts rows in the order in which `write` took them: the first `low_water` rows are all in
    committed files. A source that starts again there loses no row.

    With `prepare_only` it is not committed: `prepared` is for `commit` or `discard`.
    """

    url: str
    partition: Mapping[str, Any]
    row_count: int
    stripe_count: int
    length: int
    prepared: Prepared | None = None
    low_water: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestOptions:
    """What `ingest` was told, checked. `new_file` makes a file of a URL and a schema."""

    template: UrlTemplate
    keep_partition_columns: bool
    max_bytes: int
    max_rows: int | None
    max_age_s: float | None
    flush_deadline_s: float | None
    memory_limit: int
    max_open_files: int
    on_file: Callable[[IngestedFile], object] | None
    new_file: Callable[[str, Schema], Creating]
    growing: bool
    prepare_only: bool
    overwrite: bool
    storage_options: Mapping[str, Any] | None
    hides_values: bool


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the data of one `write`."""

    row_count: int
    size_bytes: int
    pieces: Pieces
    is_last: bool = False


@dataclass(slots=True)
class Item:
    """What the queue holds: rows, sorted already or single ones, or the wish for a flush.

    `first_row` is the number of the first row, in the order of `write`.
    """

    since: float
    first_row: int
    size_bytes: int = 0
    pieces: Pieces | None = None
    rows: Any = None
    flushed: anyio.Event | None = None


@dataclass(slots=True, eq=False)
class OpenFile:
    """A file under construction. Rows came first at `since`, and those not flushed at `unflushed_since`.

    No row of it was written before row `first_row` of the ingest. `before` is the partition's file before it,
    if that was not committed when this one was complete.
    """

    partition: Partition
    since: float
    first_row: int
    writer: OrcWriter | None = None
    pieces: list[IngestedRows] = field(default_factory=list)
    row_count: int = 0
    waiting_bytes: int = 0
    unflushed_since: float | None = None
    before: OpenFile | None = None
    is_lost: bool = False
    ended: anyio.Event = field(default_factory=anyio.Event)

    @property
    def held_bytes(self) -> int:
        return self.waiting_bytes + (self.writer.held_bytes if self.writer is not None else 0)
