"""Random histories of transactional tables: what was done, the files it left, and the rows at each snapshot.

A history is a list of changes to rows by key, kept plainly; `rows` replays it. Files are written beside, with
compactions of the simplest kind: events of several directories together, or the rows that are left. Must not
know how this package reads tables.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orcstream.acid import WriteIds
from tests.generators.acid import (
    DELETE,
    INSERT,
    UPDATE,
    Event,
    Row,
    key_of,
    put_compacted,
    put_events,
    put_flushed,
    put_rows,
)

__all__ = ["History", "Options"]

Key = tuple[int, int, int]
_CODED = 1 << 29


@dataclass(frozen=True)
class Options:
    """What a history is made of."""

    version: int = 2
    partitions: tuple[str, ...] = ("",)
    buckets: int = 2
    inserts_only: bool = False
    originals: bool = False
    compactions: bool = True
    visibilities: bool = True  # of compactions: whether names may say whose they are
    flushed: bool = False
    steps: int = 8


@dataclass
class _Directory:
    """On disk; `kind` is base, delta or delete_delta, `events` are by bucket."""

    partition: str
    kind: str
    first: int
    last: int
    statement: int
    events: dict[int, list[Event]]
    is_compacted: bool = False
    visibility: int = 0

    @property
    def name(self) -> str:
        ids = f"{self.last:07d}" if self.kind == "base" else f"{self.first:07d}_{self.last:07d}"
        statement = "" if self.statement < 0 else f"_{self.statement:04d}"
        return f"{self.kind}_{ids}{statement}" + (f"_v{self.visibility:07d}" if self.visibility else "")


@dataclass
class History:
    """A table and what was done to it. `folder` is where it lies."""

    folder: Path
    seed: int
    options: Options = field(default_factory=Options)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        # By write id: the changes of each, in their order, by partition; None for an overwrite before it.
        self._changes: dict[int, list[tuple[str, Key, Row | None] | tuple[str]]] = {}
        self._originals: dict[tuple[str, Key], Row] = {}
        self._directories: list[_Directory] = []
        self._next_row: dict[tuple[object, ...], int] = {}
        self._compactions = 100
        self.open: list[int] = []
        self.aborted: list[int] = []
        self.last = 0
        if self.options.originals:
            self._put_originals()
        for _ in range(self.options.steps):
            self._step()

    # --- the model

    def directories(self, write_id: int) -> list[str]:
        """What is left of those that a transaction wrote, by their paths."""
        return [
            f"{one.partition}/{one.name}" if one.partition else one.name
            for one in self._directories
            if one.last == write_id and not one.is_compacted
        ]

    def snapshots(self) -> Iterator[WriteIds]:
        """As of every write id."""
        for mark in range(self.last + 1):
            yield WriteIds(mark, tuple(self.open), tuple(self.aborted))

    def rows(self, ids: WriteIds) -> dict[tuple[str, Key], Row]:
        """By partition and key."""
        found = dict(self._originals)
        for write_id, changes in sorted(self._changes.items()):
            if not ids.is_visible(write_id):
                continue
            for change in changes:
                if len(change) == 1:
                    found = {key: row for key, row in found.items() if key[0] != change[0]}
                    continue
                partition, key, row = change
                if row is None:
                    found.pop((partition, key), None)
                else:
                    found[partition, key] = row
        return found

    def ever(self, ids: WriteIds) -> set[tuple[str, Key]]:
        """All keys of rows that were there at some time before a snapshot."""
        found = set(self._originals)
        for write_id, changes in self._changes.items():
            if ids.is_visible(write_id):
                found.update(change[:2] for change in changes if len(change) == 3 and change[2] is not None)
        return found

    def is_gone(self, ids: WriteIds) -> bool:
        """Whether a compaction has swallowed what a snapshot needs."""
        return any(self._is_gone(partition, ids) for partition in self.options.partitions)

    def _is_gone(self, partition: str, ids: WriteIds) -> bool:
        bases = [one for one in self._directories if one.kind == "base" and one.partition == partition]
        if any(
            one.last <= ids.high_watermark if one.is_compacted else ids.is_visible(one.last) for one in bases
        ):
            return False
        return any(one.is_compacted for one in bases)

    # --- what happens

    def _step(self) -> None:
        if self.last > 1 and self.options.compactions and self._rng.random() < 0.3:
            self._compact(self._rng.choice(self.options.partitions))
        else:
            self._transaction()

    def _transaction(self) -> None:
        rng = self._rng
        self.last += 1
        write_id = self.last
        outcome = rng.choices(("committed", "aborted", "open"), (8, 1, 1))[0]
        if outcome != "committed":
            (self.aborted if outcome == "aborted" else self.open).append(write_id)
        there = self.rows(WriteIds(write_id - 1, tuple(self.open), tuple(self.aborted)))
        self._changes[write_id] = []
        if self.options.version == 2 and rng.random() < 0.1:
            self._overwrite(write_id, rng.choice(self.options.partitions))
            return
        for statement in range(rng.choice((1, 1, 2))):
            self._statement(write_id, statement, there)

    def _overwrite(self, write_id: int, partition: str) -> None:
        self._changes[write_id].append((partition,))
        events: dict[int, list[Event]] = {}
        for _ in range(self._rng.choice((0, 3))):
            self._insert(write_id, 0, partition, events)
        self._write(_Directory(partition, "base", 0, write_id, -1, events))

    def _statement(self, write_id: int, statement: int, there: dict[tuple[str, Key], Row]) -> None:
        rng, options = self._rng, self.options
        for partition in options.partitions:
            inserts: dict[int, list[Event]] = {}
            deletes: dict[int, list[Event]] = {}
            if not options.inserts_only:
                mine = [key for key in there if key[0] == partition]
                for _, key in rng.sample(mine, rng.randrange(0, len(mine) // 2 + 1)):
                    there.pop((partition, key))  # a transaction changes a row once
                    self._change(write_id, statement, partition, key, inserts, deletes)
            for _ in range(rng.randrange(0, 5)):
                self._insert(write_id, statement, partition, inserts)
            for kind, events in (("delta", inserts), ("delete_delta", deletes)):
                if events:
                    self._write(_Directory(partition, kind, write_id, write_id, statement, events))

    def _change(
        self,
        write_id: int,
        statement: int,
        partition: str,
        key: Key,
        inserts: dict[int, list[Event]],
        deletes: dict[int, list[Event]],
    ) -> None:
        """Delete or update a row."""
        is_update = self._rng.random() < 0.5
        bucket = key[1] >> 16 & 4095 if key[1] >= _CODED else key[1]
        if self.options.version == 1:
            row = self._row() if is_update else None
            self._changes[write_id].append((partition, key, row))
            event = Event(UPDATE if is_update else DELETE, key, write_id, row)
            inserts.setdefault(bucket, []).append(event)
            return
        self._changes[write_id].append((partition, key, None))
        deletes.setdefault(bucket, []).append(Event(DELETE, key, write_id, None))
        if is_update:
            self._insert(write_id, statement, partition, inserts)

    def _insert(self, write_id: int, statement: int, partition: str, events: dict[int, list[Event]]) -> None:
        bucket = self._rng.randrange(self.options.buckets)
        count = self._next_row.get((partition, write_id, bucket, statement), 0)
        self._next_row[partition, write_id, bucket, statement] = count + 1
        if self.options.version == 2:
            key = key_of(write_id, count, bucket, statement)
        else:
            key = (write_id, bucket, statement * 1000 + count)
        row = self._row()
        self._changes[write_id].append((partition, key, row))
        events.setdefault(bucket, []).append(Event(INSERT, key, write_id, row))

    def _row(self) -> Row:
        rng = self._rng
        text = rng.choice((None, "", "a", "é", "b" * rng.randrange(30)))
        return {"k": rng.choice((None, *range(-3, 20))), "v": text}

    # --- files

    def _put_originals(self) -> None:
        for partition in self.options.partitions:
            for bucket in range(self.options.buckets):
                number = 0
                for copy in ("", "_copy_1", "_copy_10", "_copy_2")[: self._rng.randrange(5)]:
                    rows = [self._row() for _ in range(self._rng.randrange(1, 4))]
                    put_rows(self.folder / partition / f"{bucket:06d}_0{copy}", rows)
                    for row in rows:
                        key = key_of(0, number, bucket) if self.options.version == 2 else (0, bucket, number)
                        self._originals[partition, key] = row
                        number += 1

    def _write(self, one: _Directory) -> None:
        path = self.folder / one.partition / one.name
        path.mkdir(parents=True)
        rng = self._rng
        for bucket, events in one.events.items():
            # Of rows without events, keys are where they stand.
            is_raw = one.kind != "delete_delta" and not one.is_compacted and self.options.version == 2
            if self.options.inserts_only or (
                is_raw and rng.random() < 0.2 and _is_in_place(events, bucket, one)
            ):
                put_rows(path / f"{bucket:06d}_0", [event.row or {} for event in events])
                continue
            file = path / f"bucket_{bucket:05d}"
            stripe_rows = rng.choice((None, 2))
            put_events(file, events, stripe_rows=stripe_rows, version=self.options.version == 2)
            if self.options.flushed and one.kind == "delta" and rng.random() < 0.5:
                put_flushed(file)
        if one.is_compacted and one.kind == "base" and not one.visibility:
            put_compacted(path)
        self._directories.append(one)

    def _compact(self, partition: str) -> None:
        closed = min(self.open, default=self.last + 1) - 1
        first = self._rng.randrange(1, self.last + 1)
        last = self._rng.randrange(first, self.last + 1)
        mine = [one for one in self._directories if one.partition == partition]
        visibility = self._rng.choice((0, 1)) if self.options.visibilities else 0
        if visibility:
            self._compactions += 1
            visibility = self._compactions
        if self._rng.random() < 0.4:
            last = min(last, closed)
            cut = any(one.first <= last < one.last for one in mine if one.kind != "base")
            if last < 1 or cut or any(one.kind == "base" and one.last >= last for one in mine):
                return
            self._major(partition, last, visibility)
        elif not any(first <= one <= last for one in self.open):
            inside = [one for one in mine if one.kind != "base" and first <= one.first <= one.last <= last]
            cut = any(
                one.kind == "base" or one.first < first <= one.last or one.first <= last < one.last
                for one in mine
            )
            if inside and not cut:
                self._minor(partition, first, last, visibility, inside)

    def _minor(
        self, partition: str, first: int, last: int, visibility: int, inside: Sequence[_Directory]
    ) -> None:
        if any((one.first, one.last) == (first, last) and one.statement < 0 for one in inside):
            return
        for kind in ("delta", "delete_delta"):
            merged: dict[int, dict[tuple[Any, ...], Event]] = {}
            for one in inside:
                if one.kind != kind:
                    continue
                for bucket, events in one.events.items():
                    merged.setdefault(bucket, {}).update(
                        {event.order: event for event in events if event.write_id not in self.aborted}
                    )
            # A compaction makes both, be there rows or not, in all buckets that there are.
            kept = {bucket: list(some.values()) for bucket, some in merged.items()}
            self._write(_Directory(partition, kind, first, last, -1, kept, True, visibility))
        self._clean(inside)

    def _major(self, partition: str, last: int, visibility: int) -> None:
        ids = WriteIds(last, tuple(self.open), tuple(self.aborted))
        events: dict[int, list[Event]] = {}
        for (of, key), row in self.rows(ids).items():
            if of == partition:
                bucket = key[1] >> 16 & 4095 if key[1] >= _CODED else key[1]
                operation = self._rng.choice((INSERT, UPDATE)) if self.options.version == 1 else INSERT
                events.setdefault(bucket, []).append(Event(operation, key, self._written(of, key, ids), row))
        swallowed = [one for one in self._directories if one.partition == partition and one.last <= last]
        self._write(_Directory(partition, "base", 0, last, -1, events, True, visibility))
        self._clean(swallowed)

    def _written(self, partition: str, key: Key, ids: WriteIds) -> int:
        """The last write id that changed a row."""
        found = 0
        for write_id, changes in self._changes.items():
            if ids.is_visible(write_id) and any(change[:2] == (partition, key) for change in changes):
                found = max(found, write_id)
        return found

    def _clean(self, obsolete: Sequence[_Directory]) -> None:
        """Now and then: what a compaction has replaced may stay for a while."""
        if self._rng.random() < 0.5:
            for one in obsolete:
                shutil.rmtree(self.folder / one.partition / one.name)
                self._directories.remove(one)


def _is_in_place(events: Sequence[Event], bucket: int, one: _Directory) -> bool:
    keys = [event.key for event in events]
    return keys == [key_of(one.last, at, bucket, max(one.statement, 0)) for at in range(len(keys))]
