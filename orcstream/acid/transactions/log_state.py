"""What a table's transaction log says: outcomes of write ids, folded from entries in their order.

Knows which entry counts, what conflicts with what, and the records' contents as JSON. Must not know where
records lie, nor clocks. Pure functions over values; what is no record is `ValueError`, `KeyError` or
`TypeError`, which `acid.transactions.log` makes a `FormatError`.

One sequence of ids serves writes and compactions. Entry k is appended by whoever creates it first, and is
never changed, so the outcome of an id, the first entry that names it, is decided by one atomic step. One
entry may give up several ids: those of them that have an outcome keep it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal, Self, TypeAlias, cast

from orcstream.acid.transactions.contract import (
    MOST_TRANSACTIONS,
    Outcome,
    Purpose,
    Snapshot,
    TableDefinition,
    Work,
)
from orcstream.io.urls import inner_path
from orcstream.plan.acid.names import parse_directory
from orcstream.plan.acid.snapshot import WriteIds
from orcstream.schema.schema import Schema

_MOST_ID = 10**10 - 1
_PURPOSES = ("write", "compaction")
# Of ids, both ends included, ascending and apart.
_Ranges: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """Somebody took `count` ids, one after the other; `token` tells who from others that tried."""

    purpose: Purpose
    token: str
    count: int = 1

    def record(self) -> dict[str, Any]:
        """As JSON."""
        count = {"count": self.count} if self.count > 1 else {}
        return {"purpose": self.purpose, "token": self.token, **count}

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """The reverse."""
        count = _whole(record.get("count", 1), 1, MOST_TRANSACTIONS)
        return cls(_purpose(record["purpose"]), _text(record["token"]), count)


@dataclass(frozen=True, slots=True)
class Entry:
    """An outcome of an id; or, with the id 0, directories that are going to be removed.

    `claimed` is the last id of the claim that the id is of, 0 for the id itself. An entry that gives up the
    `rest` is about all ids up to it.
    """

    id: int
    outcome: Literal["committed", "aborted", "removed"]
    purpose: Purpose = "write"
    work: Work = field(default_factory=Work)
    claimed: int = 0
    rest: bool = False

    @property
    def ids(self) -> range:
        """The ids that it is about."""
        return range(self.id, max(self.id, self.claimed if self.rest else 0) + 1)

    def record(self) -> dict[str, Any]:
        """As JSON."""
        said: dict[str, Any] = {
            "claimed": self.claimed,
            "rest": self.rest,
            "directories": list(self.work.directories),
            "deletes_in": list(self.work.deletes_in),
            "replaces": list(self.work.replaces),
        }
        return {
            "id": self.id,
            "outcome": self.outcome,
            "purpose": self.purpose,
            **{name: value for name, value in said.items() if value},
        }

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """The reverse."""
        outcome = record["outcome"]
        if outcome not in ("committed", "aborted", "removed"):
            raise ValueError(f"{outcome!r} is no outcome")
        number = _whole(record["id"], 0 if outcome == "removed" else 1)
        work = Work(
            _paths(record.get("directories", [])),
            _paths(record.get("deletes_in", []), may_be_empty=True),
            _paths(record.get("replaces", [])),
        )
        claimed = record.get("claimed", 0)
        claimed = _whole(claimed, number, number + MOST_TRANSACTIONS - 1) if claimed else 0
        rest = record.get("rest", False)
        if type(rest) is not bool or (rest and (outcome != "aborted" or not claimed)):
            raise ValueError(f"{rest!r} says nothing about the rest of a claim")
        return cls(number, outcome, _purpose(record["purpose"]), work, claimed, rest)


@dataclass(frozen=True, slots=True)
class _Kept:
    """A commit of which directories may still be there, and where it stands."""

    number: int
    entry: Entry


@dataclass(frozen=True, slots=True)
class LogState:
    """The entries 1 to `entry`, folded.

    `committed` are ranges of ids, both ends included; `compactions` says of which outcomes the ids were
    compactions'. `claimed` is the highest id that is taken, by what they say. `kept` are the commits whose
    directories were not removed. For each partition, `changed` has the last entry that deleted rows there and
    the highest id that did; `removed` the last entry that said that directories are gone on purpose, and the
    write ids that they were of, as ranges.
    """

    entry: int = 0
    committed: _Ranges = ()
    aborted: frozenset[int] = frozenset()
    compactions: frozenset[int] = frozenset()
    claimed: int = 0
    kept: tuple[_Kept, ...] = ()
    changed: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    removed: Mapping[str, tuple[int, _Ranges]] = field(default_factory=dict)

    def outcome(self, id: int) -> Outcome:
        """Of an id; "open" for one that no entry names."""
        if id in self.aborted:
            return "aborted"
        return "committed" if _has(self.committed, id) else "open"

    @property
    def highest(self) -> int:
        """The highest id that is known to be taken; 0 for none."""
        return max(self.claimed, self.committed[-1][1] if self.committed else 0, max(self.aborted, default=0))

    def is_settled(self, entry: Entry) -> bool:
        """Whether an entry changes nothing any more: each id that it is about has an outcome."""
        return all(self.outcome(one) != "open" for one in entry.ids)

    def open_up_to(self, highest: int, *, most: int) -> list[int]:
        """The ids without an outcome. Raises `ValueError` for more than `most`."""
        found, after = [], 0
        for first, last in (*self.committed, (highest + 1, highest + 1)):
            gap = range(after + 1, min(first, highest + 1))
            if len(gap) > most + len(self.aborted):
                raise ValueError(f"the ids {gap.start} to {gap.stop - 1} were never taken")
            found += [one for one in gap if one not in self.aborted]
            after = last
        if len(found) > most:
            raise ValueError(f"{len(found)} ids were never taken")
        return found

    def add(self, entry: Entry) -> LogState:
        """The state after one more entry."""
        number = self.entry + 1
        if entry.outcome == "removed":
            return replace(self._without(entry.work.directories, number), entry=number)
        claimed = max(self.claimed, entry.claimed, entry.id)
        new = {one for one in entry.ids if self.outcome(one) == "open"}  # else the first one counts
        compactions = self.compactions | new if entry.purpose == "compaction" else self.compactions
        if entry.outcome == "aborted" or not new:
            return replace(
                self, entry=number, aborted=self.aborted | new, compactions=compactions, claimed=claimed
            )
        changed = dict(self.changed)
        for partition in entry.work.deletes_in:
            highest = max(entry.id, changed.get(partition, (0, 0))[1])
            changed[partition] = (number, highest)
        kept = (*self.kept, _Kept(number, entry)) if entry.work.directories else self.kept
        return replace(
            self,
            entry=number,
            committed=_with(self.committed, entry.id),
            compactions=compactions,
            claimed=claimed,
            kept=kept,
            changed=changed,
        )

    def _without(self, directories: Collection[str], number: int) -> LogState:
        gone, kept, removed = set(directories), [], dict(self.removed)
        for one in self.kept:
            work = one.entry.work
            left = tuple(path for path in work.directories if path not in gone)
            if len(left) < len(work.directories):
                is_write = one.entry.purpose == "write"
                for partition in {_partition(path) for path in gone.intersection(work.directories)}:
                    ids = removed.get(partition, (0, ()))[1]
                    is_new = is_write and not _has(ids, one.entry.id)
                    removed[partition] = (number, _with(ids, one.entry.id) if is_new else ids)
            if left:
                kept.append(replace(one, entry=replace(one.entry, work=replace(work, directories=left))))
        return replace(self, kept=tuple(kept), removed=removed)

    def conflict(self, id: int, begun_at: int, work: Work) -> str | None:
        """Why a transaction that began at entry `begun_at` may not commit; None where it may."""
        for partition in work.deletes_in:
            number, highest = self.changed.get(partition, (0, 0))
            if number > begun_at or highest > id:
                return f"another transaction changed rows {_of(partition)} meanwhile"
        if not work.replaces:
            overwritten = next((one for one in work.partitions if self._is_overwritten(one, id)), None)
            return None if overwritten is None else f"rows {_of(overwritten)} were overwritten meanwhile"
        mine = set(work.replaces)
        for one in self.kept:
            if one.number > begun_at and mine.intersection(one.entry.work.replaces):
                return "another compaction replaces the same directories"
        for partition in work.partitions:
            if self.removed.get(partition, (0, ()))[0] > begun_at:
                return f"directories {_of(partition)} were removed meanwhile"
        return None

    def _is_overwritten(self, partition: str, id: int) -> bool:
        """Whether a base hides what this id has written; it is kept as long as the id is open."""
        return any(
            one.entry.id > id and _partition(path) == partition and _is_overwrite(path)
            for one in self.kept
            for path in one.entry.work.directories
        )

    def record(self) -> dict[str, Any]:
        """As JSON: a checkpoint."""
        return {
            "entry": self.entry,
            "committed": [list(one) for one in self.committed],
            "aborted": sorted(self.aborted),
            "compactions": sorted(self.compactions),
            "claimed": self.claimed,
            "kept": [{"number": one.number, **one.entry.record()} for one in self.kept],
            "changed": {name: list(value) for name, value in self.changed.items()},
            "removed": {
                name: {"number": number, "ids": [list(one) for one in ids]}
                for name, (number, ids) in self.removed.items()
            },
        }

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """The reverse."""
        committed = _ranges(record["committed"])
        aborted = frozenset(_whole(one, 1) for one in _list(record["aborted"]))
        state = cls(
            _whole(record["entry"], 1),
            committed,
            aborted,
            frozenset(_whole(one, 1) for one in _list(record["compactions"])),
            _whole(record.get("claimed", 0), 0),
            tuple(_Kept(_whole(one["number"], 1), Entry.of(one)) for one in _list(record["kept"])),
            _pairs(record["changed"]),
            {
                _path(name, may_be_empty=True): (_whole(one["number"], 1), _ranges(one["ids"]))
                for name, one in _object(record["removed"]).items()
            },
        )
        if any(_has(committed, one) for one in aborted):
            raise ValueError("an id is both committed and aborted")
        return state


def snapshot_of(
    state: LogState, highest: int, is_open: Mapping[int, Purpose], *, up_to: int | None = None
) -> Snapshot:
    """What is seen of a log whose `highest` id is taken and that has these ids open."""
    mark = highest if up_to is None else min(up_to, highest)
    writes = [one for one, purpose in is_open.items() if purpose == "write" and one <= mark]
    aborted = [one for one in state.aborted - state.compactions if one <= mark]
    write_ids = WriteIds(mark, tuple(writes), tuple(aborted))
    transactions = WriteIds(highest, tuple(is_open), tuple(state.aborted))
    made: dict[str, set[str]] = {}
    for one in state.kept:
        if one.entry.purpose == "write" and write_ids.is_visible(one.entry.id):
            for path in one.entry.work.directories:
                made.setdefault(_partition(path), set()).add(path)
    directories = {name: frozenset(paths) for name, paths in made.items()}
    removed = {name: ids for name, (_, ids) in state.removed.items()}
    removals = max((number for number, _ in state.removed.values()), default=0)
    return Snapshot(write_ids, transactions, directories, removed, removals)


# --- the table's own record ------------------------------------------------------------------------


def definition_record(definition: TableDefinition) -> dict[str, Any]:
    """A table's definition as JSON."""
    return {
        "schema": str(definition.schema),
        "partitions": [list(one) for one in definition.partitions],
        "bucket_columns": list(definition.bucket_columns),
        "bucket_count": definition.bucket_count,
        "insert_only": definition.insert_only,
    }


def definition_of(record: Mapping[str, Any]) -> TableDefinition:
    """The reverse."""
    partitions = []
    for one in _list(record["partitions"]):
        name, text = _list(one)
        partitions.append((_text(name), _text(text)))
    if type(record["insert_only"]) is not bool:
        raise ValueError("insert_only is true or false")
    return TableDefinition(
        Schema.parse(_text(record["schema"])),
        tuple(partitions),
        tuple(_text(one) for one in _list(record["bucket_columns"])),
        record["bucket_count"],
        record["insert_only"],
    )


# --- parts of records ------------------------------------------------------------------------------


def _has(ranges: _Ranges, id: int) -> bool:
    at = bisect_right(ranges, (id, _MOST_ID)) - 1
    return at >= 0 and id <= ranges[at][1]


def _with(ranges: _Ranges, id: int) -> _Ranges:
    """Ranges with one more id, which is in none of them."""
    at = bisect_right(ranges, (id, id))
    first = last = id
    start, stop = at, at
    if at and ranges[at - 1][1] == id - 1:
        start, first = at - 1, ranges[at - 1][0]
    if at < len(ranges) and ranges[at][0] == id + 1:
        stop, last = at + 1, ranges[at][1]
    return (*ranges[:start], (first, last), *ranges[stop:])


def _partition(path: str) -> str:
    return path.rpartition("/")[0]


def _is_overwrite(path: str) -> bool:
    directory = parse_directory(path.rpartition("/")[2])
    return directory is not None and directory.is_overwrite


def _of(partition: str) -> str:
    return f"of {partition}" if partition else "of the table"


def _purpose(value: Any) -> Purpose:
    if value not in _PURPOSES:
        raise ValueError(f"{value!r} is nothing that an id is taken for")
    return cast("Purpose", value)


def _whole(value: Any, least: int, most: int = _MOST_ID) -> int:
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{value!r} is no number of {least} to {most}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is no list")
    return value


def _ranges(value: Any) -> _Ranges:
    found = tuple(_pair(one) for one in _list(value))
    ends = [end for one in found for end in one]
    if sorted(ends) != ends or any(a[1] >= b[0] for a, b in pairwise(found)):
        raise ValueError("ranges of ids are out of order")
    return found


def _pair(value: Any) -> tuple[int, int]:
    first, second = _list(value)
    return _whole(first, 0), _whole(second, 0)


def _pairs(value: Any) -> dict[str, tuple[int, int]]:
    return {_path(name, may_be_empty=True): _pair(pair) for name, pair in _object(value).items()}


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r} is no object")
    return value


def _paths(value: Any, *, may_be_empty: bool = False) -> tuple[str, ...]:
    return tuple(_path(one, may_be_empty=may_be_empty) for one in _list(value))


def _path(value: Any, *, may_be_empty: bool = False) -> str:
    """Below the table: what removes directories by these paths must not leave it."""
    return "" if may_be_empty and value == "" else inner_path(value)
