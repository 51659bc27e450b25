"""Keys of rows, as arrays: who a row is, and whether it was deleted.

Knows how keys are compared, sorted, looked up, and put aside on disk where they are too many for the memory.
Must not know files of events. A key is the triple (original write id, bucket, row id); the bucket is the
number that stands in the column, statement and all; where Hive 2 wrote that as a bare number, it is the same
key as with the number in its newer form.

Before Hive 3 an update is an event with the key of the row it replaces. There, events have versions, and an
event hides those of lower versions; a delete of Hive 3 and newer hides the row of its key whatever its
version.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from orcstream.codec.hive._row_keys import are_ascending, find_keys
from orcstream.codec.vectors.column import Mask
from orcstream.errors import OrcError, SinkError
from orcstream.io.stores.local.source import read_at
from orcstream.plan.acid.names import BUCKET_SHIFT, MOST_BUCKET, VERSION_SHIFT, bucket_property

Longs: TypeAlias = NDArray[np.int64]
Ints: TypeAlias = NDArray[np.int32]
_Key: TypeAlias = tuple[int, int, int]

# Sorting holds the keys once more, and the order.
_SORTING = 3
_BLOCK_KEYS = 1 << 16
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_FIRST, _LAST = (_LEAST, _LEAST, _LEAST), (_MOST, _MOST, _MOST)


@dataclass(frozen=True, slots=True)
class RowIds:
    """The keys of some rows, one after the other, in arrays of one length.

    `versions` are the write ids of the events and `statements` their statements, which decide between events
    of one key; None where no two events share a key.
    """

    write_ids: Longs
    buckets: Ints
    row_ids: Longs
    versions: Longs | None = None
    statements: Ints | None = None

    def __len__(self) -> int:
        return len(self.write_ids)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for array in self.arrays())

    def key(self, row: int) -> _Key:
        """One key."""
        return int(self.write_ids[row]), int(self.buckets[row]), int(self.row_ids[row])

    def take(self, rows: NDArray[np.intp] | slice | Mask) -> RowIds:
        """Some rows."""
        return RowIds(
            self.write_ids[rows],
            self.buckets[rows],
            self.row_ids[rows],
            None if self.versions is None else self.versions[rows],
            None if self.statements is None else self.statements[rows],
        )

    def bounds(self) -> tuple[_Key, _Key]:
        """Two keys between which all are, if not the closest."""
        if are_ascending(self.write_ids, self.buckets, self.row_ids, len(self)):
            return self.key(0), self.key(-1)
        first, last = int(self.write_ids.min()), int(self.write_ids.max())
        return (first, _LEAST, _LEAST), (last, _MOST, _MOST)

    def count_up_to(self, key: _Key) -> int:
        """How many of keys that ascend are not above this one."""
        write_id, bucket, row_id = key
        is_in_bucket = (self.buckets < bucket) | ((self.buckets == bucket) & (self.row_ids <= row_id))
        return int(
            np.count_nonzero((self.write_ids < write_id) | ((self.write_ids == write_id) & is_in_bucket))
        )

    def arrays(self) -> list[Longs | Ints]:
        """Those that are there, in their order."""
        given = (self.write_ids, self.buckets, self.row_ids, self.versions, self.statements)
        return [array for array in given if array is not None]

    @staticmethod
    def joined(parts: Sequence[RowIds]) -> RowIds:
        """All rows of several, of which all have versions or none."""
        if len(parts) == 1:
            return parts[0]
        has_versions = bool(parts) and parts[0].versions is not None
        return RowIds(
            np.concatenate([part.write_ids for part in parts] or [np.empty(0, np.int64)]),
            np.concatenate([part.buckets for part in parts] or [np.empty(0, np.int32)]),
            np.concatenate([part.row_ids for part in parts] or [np.empty(0, np.int64)]),
            np.concatenate([_there(part.versions) for part in parts]) if has_versions else None,
            np.concatenate([_there(part.statements) for part in parts]) if has_versions else None,
        )


def _there(array: NDArray[np.generic] | None) -> NDArray[np.generic]:
    assert array is not None
    return array


def _with_coded_buckets(keys: RowIds) -> RowIds:
    are_bare = keys.buckets >> VERSION_SHIFT != 1
    if not are_bare.any():
        return keys
    coded = bucket_property(0) | (keys.buckets & MOST_BUCKET) << BUCKET_SHIFT
    return replace(keys, buckets=np.where(are_bare, coded, keys.buckets))


def _sorted(keys: RowIds) -> RowIds:
    """Ascending, each key once: with the highest of its versions."""
    if are_ascending(keys.write_ids, keys.buckets, keys.row_ids, len(keys)):
        return keys
    by: tuple[NDArray[Any], ...] = (keys.row_ids, keys.buckets, keys.write_ids)
    if keys.versions is not None and keys.statements is not None:
        by = (keys.statements, keys.versions, *by)
    keys = keys.take(np.lexsort(by))
    is_last = np.ones(len(keys), np.bool_)
    is_last[:-1] = (
        (keys.write_ids[1:] != keys.write_ids[:-1])
        | (keys.buckets[1:] != keys.buckets[:-1])
        | (keys.row_ids[1:] != keys.row_ids[:-1])
    )
    return keys if is_last.all() else keys.take(is_last)


class KeyBudget:
    """Bytes that the keys of all buckets under way may take together; for any number of threads."""

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        """Whether so many more bytes may be held; if so, they count."""
        with self._lock:
            if size > self._left:
                return False
            self._left -= size
            return True

    def give_back(self, size: int) -> None:
        with self._lock:
            self._left += size


class _Run:
    """Ascending keys in memory."""

    def __init__(self, keys: RowIds, size: int) -> None:
        self._keys = keys
        self.size = size

    def blocks(self, first: _Key, last: _Key) -> Iterator[RowIds]:
        """Those with keys from `first` to `last`."""
        if len(self._keys) and first <= self._keys.key(-1) and last >= self._keys.key(0):
            yield self._keys

    def close(self) -> None:
        """Nothing is held but memory."""


class _SpilledRun:
    """Ascending keys in a file without a name, a block of which is in memory at a time."""

    size = 0

    def __init__(self, keys: RowIds) -> None:
        with temporary_errors():
            self._file: IO[bytes] = tempfile.TemporaryFile(prefix="orcstream-")  # noqa: SIM115 - closed below
        self._has_versions = keys.versions is not None
        self._count = len(keys)
        self._bounds: list[tuple[_Key, _Key]] = []
        try:
            with temporary_errors():
                self._write(keys)
        except BaseException:
            with suppress(OSError):  # it may try to write the rest
                self._file.close()
            raise
        self._held: tuple[int, RowIds] | None = None

    def _write(self, keys: RowIds) -> None:
        for start in range(0, len(keys), _BLOCK_KEYS):
            block = keys.take(slice(start, start + _BLOCK_KEYS))
            self._bounds.append((block.key(0), block.key(-1)))
            for array in block.arrays():
                self._file.write(np.ascontiguousarray(array).data)
        self._file.flush()

    def blocks(self, first: _Key, last: _Key) -> Iterator[RowIds]:
        for at, (start, end) in enumerate(self._bounds):
            if first <= end and last >= start:
                yield self._block(at)

    def _block(self, at: int) -> RowIds:
        held = self._held  # another thread may put another block there
        if held is None or held[0] != at:
            held = self._held = at, self._read(at)
        return held[1]

    def _read(self, at: int) -> RowIds:
        row_bytes = 32 if self._has_versions else 20
        count = min(_BLOCK_KEYS, self._count - at * _BLOCK_KEYS)
        data = bytearray(count * row_bytes)
        with temporary_errors():
            read_at(self._file.fileno(), memoryview(data), at * _BLOCK_KEYS * row_bytes)
        write_ids = np.frombuffer(data, np.int64, count)
        buckets = np.frombuffer(data, np.int32, count, 8 * count)
        row_ids = np.frombuffer(data, np.int64, count, 12 * count)
        if not self._has_versions:
            return RowIds(write_ids, buckets, row_ids)
        versions = np.frombuffer(data, np.int64, count, 20 * count)
        return RowIds(write_ids, buckets, row_ids, versions, np.frombuffer(data, np.int32, count, 28 * count))

    def close(self) -> None:
        self._file.close()


class DeletedKeys:
    """Keys of rows that are hidden; any number of threads may look at once. Has to be closed."""

    def __init__(self, runs: Sequence[_Run | _SpilledRun], count: int, budget: KeyBudget) -> None:
        self._runs = runs
        self._budget = budget
        self.count = count

    @property
    def is_spilled(self) -> bool:
        """Whether some are on disk."""
        return any(isinstance(run, _SpilledRun) for run in self._runs)

    def hides(self, rows: RowIds) -> Mask:
        """Which of the rows are hidden."""
        hidden = np.zeros(len(rows), np.bool_)
        if not len(rows) or not self._runs:
            return hidden
        rows = _with_coded_buckets(rows)
        first, last = rows.bounds()
        for run in self._runs:
            for keys in run.blocks(first, last):
                hidden |= _found(rows, keys)
        return hidden

    def parts(self) -> Iterator[RowIds]:
        """All keys, ascending, a part at a time."""
        runs = [run.blocks(_FIRST, _LAST) for run in self._runs]
        current = [next(run, None) for run in runs]
        while any(keys is not None for keys in current):
            # What all runs have reached: no smaller key can come any more.
            bound = min(keys.key(-1) for keys in current if keys is not None)
            parts: list[RowIds] = []
            for at, keys in enumerate(current):
                if keys is None:
                    continue
                count = keys.count_up_to(bound)
                parts.append(keys.take(slice(0, count)))
                rest = keys.take(slice(count, None))
                current[at] = rest if len(rest) else next(runs[at], None)
            yield _sorted(RowIds.joined(parts))

    def close(self) -> None:
        """Give back memory and files."""
        for run in self._runs:
            self._budget.give_back(run.size)
            run.close()
        self._runs = ()


def _found(rows: RowIds, keys: RowIds) -> Mask:
    found = find_keys(
        rows.write_ids,
        rows.buckets,
        rows.row_ids,
        len(rows),
        keys.write_ids,
        keys.buckets,
        keys.row_ids,
        len(keys),
    )
    places = np.frombuffer(memoryview(found), np.int64, len(rows))
    is_there: Mask = places >= 0
    if keys.versions is None or keys.statements is None:
        return is_there
    assert rows.versions is not None
    assert rows.statements is not None
    versions, statements = keys.versions[places], keys.statements[places]
    is_newer = (versions > rows.versions) | ((versions == rows.versions) & (statements > rows.statements))
    found_newer: Mask = is_there & is_newer
    return found_newer


class KeyCollector:
    """Brings keys together, in memory as long as the budget lets it. Not for several threads at once."""

    def __init__(self, budget: KeyBudget) -> None:
        self._budget = budget
        self._parts: list[RowIds] = []
        self._charged = 0
        self._runs: list[_Run | _SpilledRun] = []
        self._count = 0

    def add(self, keys: RowIds) -> None:
        """More keys; the collector holds on to their arrays."""
        if not len(keys):
            return
        keys = _with_coded_buckets(keys)
        if not self._charge(_SORTING * keys.nbytes):
            self._spill()
            # Alone it is held even where there is no room for it: sorting and writing it needs that.
            self._charge(_SORTING * keys.nbytes)
        self._parts.append(keys)

    def finish(self) -> DeletedKeys:
        """All that were added; the collector is empty again."""
        if self._parts:
            keys = _sorted(RowIds.joined(self._parts))
            self._parts = []
            self._count += len(keys)
            # What sorting took is free again.
            self._budget.give_back(self._charged)
            self._charged = 0
            size = keys.nbytes
            self._runs.append(_Run(keys, size) if self._budget.take(size) else _SpilledRun(keys))
        found = DeletedKeys(self._runs, self._count, self._budget)
        self._runs, self._count = [], 0
        return found

    def discard(self) -> None:
        """Give everything back that was not finished."""
        self._parts = []
        self._budget.give_back(self._charged)
        self._charged = 0
        self.finish().close()

    def _charge(self, size: int) -> bool:
        if not self._budget.take(size):
            return False
        self._charged += size
        return True

    def _spill(self) -> None:
        if self._parts:
            keys = _sorted(RowIds.joined(self._parts))
            self._parts = []
            self._count += len(keys)
            self._runs.append(_SpilledRun(keys))
            self._budget.give_back(self._charged)
            self._charged = 0


@contextmanager
def temporary_errors() -> Iterator[None]:
    """Raises SinkError, with the folder's name, where a temporary file cannot be written or read."""
    try:
        yield
    except OSError as error:
        reason = error.message if isinstance(error, OrcError) else error.strerror or str(error)
        folder = tempfile.tempdir or "the system's folder for temporary files"
        text = f"what does not fit into the memory limit cannot be put into {folder}: {reason}"
        raise SinkError(f"{text}; give a larger memory limit, or name another folder by TMPDIR") from error
