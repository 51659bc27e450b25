"""One file of a transactional table: where its ids stand, and its batches brought to rows and ids.

Knows the six columns of a file of events, and files without them (from before the table was transactional,
loaded by hand, or of a table that only takes inserts), whose rows get their ids from where they stand. Must
not know which rows are deleted, nor other files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from orcstream.acid.read.row_ids import Ints, Longs, RowIds
from orcstream.codec.vectors.column import Mask, items_of, validity_bits
from orcstream.errors import ColumnNotFound, FormatError, Unsupported
from orcstream.plan.acid.names import bucket_property, event_columns
from orcstream.plan.acid.snapshot import AcidFile
from orcstream.reader.opening import Opening
from orcstream.schema.schema import Schema, numbered

if TYPE_CHECKING:
    from orcstream.batch import Batch
    from orcstream.codec.vectors.column import Vector
    from orcstream.plan.acid.names import AcidDirectory
    from orcstream.plan.acid.write_ids import WriteIds
    from orcstream.reader.file import OrcFile
    from orcstream.reader.opening import OpenOptions

INSERT, UPDATE, DELETE = range(3)
# Between two looks at a file that grows, for who follows it.
KEY_INDEX = "hive.acid.key.index"
_KEY = re.compile(r"(-?[0-9]{1,19}),(-?[0-9]{1,10}),(-?[0-9]{1,19});", re.ASCII)
_POLL_S = 1.0

# Of the ids, in the order in which they are read.
_DTYPES = ("i8", "i4", "i8", "i8", "i4")


@dataclass(frozen=True, slots=True)
class Events:
    """The rows of a batch and their ids, where these were wanted.

    `vectors` are of the columns of the table that were read, in their order. `operations` is None where all
    are inserts.
    """

    vectors: tuple[Vector, ...]
    row_count: int
    ids: RowIds | None = None
    operations: Ints | None = None


@dataclass(frozen=True, slots=True)
class KeyBounds:
    """Write ids and row ids that keys lie within, all four included."""

    first_write_id: int
    last_write_id: int
    first_row_id: int
    last_row_id: int

    def within(self, last_keys: Sequence[tuple[int, int, int]], stripes: Sequence[int]) -> KeyBounds:
        """Of some stripes, where the last key of each is known."""
        if not last_keys or not stripes:
            return self
        first, last = min(stripes), max(stripes)
        begin = last_keys[first - 1] if first else None
        write_id, _, row_id = last_keys[last]
        lowest = self.first_write_id if begin is None else max(self.first_write_id, begin[0])
        highest = min(self.last_write_id, write_id)
        rows = (self.first_row_id, self.last_row_id)
        # Row ids ascend within one write id and bucket only.
        if begin is not None and begin[:2] == last_keys[last][:2]:
            rows = (begin[2], row_id)
        return KeyBounds(lowest, highest, *rows)

    def joined(self, other: KeyBounds) -> KeyBounds:
        """Of both."""
        return KeyBounds(
            min(self.first_write_id, other.first_write_id),
            max(self.last_write_id, other.last_write_id),
            min(self.first_row_id, other.first_row_id),
            max(self.last_row_id, other.last_row_id),
        )


def opening_of(url: str, file: AcidFile, options: OpenOptions) -> Opening:
    """What opens a file of a table: as far as its writer has flushed it, where that goes on."""
    return Opening(url, options, None, _POLL_S if file.is_growing else None)


class EventFile:
    """An open file of a table. Where rows get their ids by their place, the first one's is `first_row_id`."""

    def __init__(self, file: AcidFile, orc: OrcFile) -> None:
        self.file = file
        self.orc = orc
        self.columns = event_columns(orc.schema)
        self.first_row_id = 0

    @property
    def row_schema(self) -> Schema:
        """The table's columns as this file has them."""
        if self.columns is None:
            return self.orc.schema
        return numbered(self.orc.schema.root.children[-1], attributes=False)

    @property
    def prefix(self) -> tuple[str, ...]:
        """Where in the file the table's columns lie."""
        return () if self.columns is None else (self.columns.row,)

    @property
    def has_only_inserts(self) -> bool:
        """Whether the statistics prove it; what Hive 3 and newer write always has them."""
        return self.columns is None or self._range_of(self.columns.operation) == (INSERT, INSERT)

    def needs_ids(self, write_ids: WriteIds) -> bool:
        """Whether ids say which of its events are rows that a reader sees."""
        directory = self.file.directory
        if directory is None or directory.is_base:
            return not self.has_only_inserts
        is_seen = write_ids.visible(directory.first_write_id, directory.last_write_id) == "all"
        return not (is_seen and self.has_only_inserts)

    def bounds(self, stripes: Sequence[int]) -> KeyBounds | None:
        """What the keys of some stripes' rows lie within; None where the statistics do not say it."""
        if self.columns is None:
            rows = range(self.first_row_id, self.first_row_id + self.orc.row_count)
            return KeyBounds(self._write_id, self._write_id, rows.start, rows.stop)
        write_ids = self._range_of(self.columns.original_write_id)
        row_ids = self._range_of(self.columns.row_id)
        if write_ids is None or row_ids is None:
            return None
        return KeyBounds(*write_ids, *row_ids).within(self._last_keys(write_ids[1]), stripes)

    def _last_keys(self, last: int) -> Sequence[tuple[int, int, int]]:
        """Of each stripe the last key, as the writer noted them; none where it did not, or not well.

        `last` is the greatest write id by the statistics.
        """
        text = self.orc.user_metadata.get(KEY_INDEX, b"").decode("ascii", "replace")
        keys = [tuple(map(int, found.groups())) for found in _KEY.finditer(text)]
        found = [(write_id, bucket, row_id) for write_id, bucket, row_id in keys]
        is_whole = len(found) == len(self.orc.stripes) and sorted(found) == found
        if not found or not is_whole or found[-1][0] != last:
            return ()
        return found

    @property
    def _write_id(self) -> int:
        """Of all rows, where they get their ids by their place."""
        directory = self.file.directory
        return 0 if directory is None else directory.last_write_id

    def _range_of(self, column: str) -> tuple[int, int] | None:
        try:
            found = self.orc.statistics[column]
        except ColumnNotFound:
            return None
        least, most = found.minimum, found.maximum
        return (least, most) if type(least) is int and type(most) is int else None

    @property
    def id_columns(self) -> list[str]:
        """The columns to be read before the table's for the ids of rows; none where they have row numbers."""
        names = self.columns
        if names is None:
            return []
        found = [names.original_write_id, names.bucket, names.row_id, names.current_write_id]
        return found if self.has_only_inserts else [*found, names.operation]

    def events(self, batch: Batch, *, with_ids: bool) -> Events:
        """A batch of `id_columns`, or row numbers at its end, if `with_ids`, and of the table's columns."""
        count = batch.num_rows
        if self.columns is None:
            vectors = batch.vectors
            if not with_ids:
                return Events(vectors, count)
            return Events(vectors[:-1], count, self._placed(items_of(vectors[-1], "i8")))
        id_count = len(self.id_columns) if with_ids else 0
        held = batch.vectors[id_count:]
        vectors = held[0].struct_children() if held else ()
        if not with_ids:
            return Events(vectors, count)
        write_ids, buckets, row_ids, versions, *operations = map(
            self._numbers, batch.vectors[:id_count], _DTYPES
        )
        ids = RowIds(write_ids, buckets, row_ids, versions, self._statements(count))
        if operations and count and not 0 <= operations[0].min() <= operations[0].max() <= DELETE:
            raise FormatError("an event of no known operation", url=self.orc.url)
        return Events(vectors, count, ids, operations[0] if operations else None)

    def _numbers(self, vector: Vector, dtype: str) -> NDArray[Any]:
        if validity_bits(vector) is not None:
            raise FormatError("an event without ids", url=self.orc.url)
        return items_of(vector, dtype)

    def _placed(self, row_numbers: Longs) -> RowIds:
        """The ids of rows that get them by their place."""
        count = len(row_numbers)
        directory = self.file.directory
        bucket = bucket_property(self.file.bucket or 0, -1 if directory is None else directory.statement)
        write_ids = np.full(count, self._write_id, np.int64)
        buckets = np.full(count, bucket, np.int32)
        return RowIds(write_ids, buckets, row_numbers + self.first_row_id, write_ids, self._statements(count))

    def _statements(self, count: int) -> Ints:
        directory = self.file.directory
        return np.full(count, -1 if directory is None else directory.statement, np.int32)


def visible_events(file: EventFile, write_ids: WriteIds, ids: RowIds) -> Mask | None:
    """Which events of a file a reader sees; None for all of them."""
    directory = file.file.directory
    if directory is None or directory.is_base:
        return None
    if write_ids.visible(directory.first_write_id, directory.last_write_id) == "all":
        return None
    if file.columns is None:
        _check_closed(directory, write_ids)
        return None
    versions = ids.versions
    assert versions is not None
    seen: Mask = versions <= write_ids.high_watermark
    hidden = write_ids.hidden
    return seen & ~np.isin(versions, hidden) if hidden else seen


def _check_closed(directory: AcidDirectory, write_ids: WriteIds) -> None:
    """Rows do not say here whose they are. Those of aborted writes were left out when they were compacted."""
    if write_ids.has_open(directory.first_write_id, directory.last_write_id):
        raise Unsupported(
            f"{directory.name} does not tell the rows of its write ids apart; read the table as of write id "
            f"{directory.last_write_id} or later",
            reason="history_is_gone",
        )
