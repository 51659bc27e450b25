"""The profile of a table: what the metadata of its files says of their columns, and what indexes prune.

Knows how the numbers of stripes become those of a table: counts, bounds, sizes, encodings. Must not know who
looks at which file. No row is decoded: bounds and counts are what the writers recorded.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial, reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import orcstream
from orcstream import OrcFile
from orcstream.schema.column_statistics import ColumnStatistics
from orcstream.schema.types import Kind, Type
from orcstream.spark.access import Access, run
from orcstream.spark.jobs.distributing import Distribute, Progress, SparkTasks
from orcstream.spark.jobs.looking import Looking, Piece, hold
from orcstream.spark.jobs.tables import check_report, distinct_counts, write_table
from orcstream.spark.write.target import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Row groups of one piece whose bounds are looked at; of more, every so many.
_MOST_GROUPS: Final = 1000
_SAMPLES: Final = 1000
_PARTS: Final = 10
# Bytes of one value where nothing is compressed or encoded.
_WIDTHS: Final[Mapping[Kind, int]] = {
    Kind.BOOLEAN: 1,
    Kind.BYTE: 1,
    Kind.SHORT: 2,
    Kind.INT: 4,
    Kind.LONG: 8,
    Kind.FLOAT: 4,
    Kind.DOUBLE: 8,
    Kind.DATE: 4,
    Kind.TIMESTAMP: 8,
    Kind.TIMESTAMP_INSTANT: 8,
    Kind.DECIMAL: 16,
}
_REPEATED: Final = (Kind.LIST, Kind.MAP)
_FIELDS: Final = {
    "name": "string",
    "type": "string",
    "value_count": "bigint",
    "null_count": "bigint",
    "minimum": "string",
    "maximum": "string",
    "distinct": "bigint",
    "stored_bytes": "bigint",
    "plain_bytes": "bigint",
    "compression_ratio": "double",
    "stream_bytes": "map<string, bigint>",
    "encodings": "map<string, bigint>",
    "row_group_count": "bigint",
    "point_share": "double",
    "range_share": "double",
}
PROFILE_SCHEMA: Final = ", ".join(f"`{name}` {type_}" for name, type_ in _FIELDS.items())
PIECE_BYTES: Final = 1 << 30

Interval = tuple[Any, Any]


@dataclass(frozen=True, slots=True)
class ColumnProfile:
    """One column of a table, by its dotted name.

    `value_count` counts values that are not null, `null_count` the rows without one; it is None below lists
    and maps. Both are None where a file does not say. `minimum` and `maximum` are as recorded, in text.
    `distinct` is an estimate, and None where it was not asked for. `stored_bytes` are those of all streams,
    `stream_bytes` by their kinds; `plain_bytes` is what the values take uncompressed, None where it is not
    known. `encodings` counts stripes. `point_share` is the share of row groups that may hold one value of
    the column, on average, and `range_share` that of those that may hold values of a tenth of it.
    """

    name: str
    type: str
    value_count: int | None
    null_count: int | None
    minimum: str | None
    maximum: str | None
    distinct: int | None
    stored_bytes: int
    plain_bytes: int | None
    stream_bytes: Mapping[str, int]
    encodings: Mapping[str, int]
    row_group_count: int
    point_share: float | None
    range_share: float | None

    @property
    def compression_ratio(self) -> float | None:
        """Plain bytes to stored bytes."""
        return self.plain_bytes / self.stored_bytes if self.plain_bytes and self.stored_bytes else None


@dataclass(frozen=True, slots=True)
class ProfileResult:
    """All `columns`, in the order of the files' schemas.

    `file_count` files have `row_count` rows, and `length` bytes together.
    """

    file_count: int
    row_count: int
    length: int
    columns: tuple[ColumnProfile, ...]

    def __getitem__(self, name: str) -> ColumnProfile:
        return next(one for one in self.columns if one.name == name)

    def to_df(self, spark: SparkSession) -> DataFrame:
        """The columns as a table."""
        rows = [tuple(getattr(one, name) for name in _FIELDS) for one in self.columns]
        return spark.createDataFrame(rows, PROFILE_SCHEMA)


# --- the job ----------------------------------------------------------------------------------------


def profile(
    spark: SparkSession,
    paths: str | Sequence[str],
    *,
    distinct: bool = True,
    report: str | None = None,
    journal: str | None = None,
    storage_options: dict[str, object] | None = None,
    keys: str | None = None,
    progress: Progress | None = None,
) -> ProfileResult:
    """What the columns of all files below `paths` hold, what they cost, and which of them indexes prune.

    Everything but `distinct` comes from metadata: no row is decoded. With it, rows are read, and the numbers
    of different values estimated by Spark's `approx_count_distinct`. `report` is a folder that gets the
    columns as a table of ORC files, in place of an earlier one; it is one of its own (`UsageError`). With
    `journal`, a folder, what was looked at is recorded there: a job that was killed and is started again with
    it goes on.

    Raises what `orcstream.open` raises.
    """
    access = Access(storage_options or {}, keys)
    listed = [paths] if isinstance(paths, str) else list(paths)
    check_report(report, listed)
    counts = distinct_counts(spark, listed, access) if distinct else None
    folder = None if journal is None else Folder(journal, access)
    found = profile_with(SparkTasks(spark, progress), listed, access, distinct=counts, journal=folder)
    if report is not None:
        write_table(found.to_df(spark), report, access)
    return found


def profile_with(
    distribute: Distribute,
    paths: Sequence[str],
    access: Access,
    *,
    distinct: Mapping[str, int] | None = None,
    piece_bytes: int = PIECE_BYTES,
    journal: Folder | None = None,
) -> ProfileResult:
    """As `profile`, on anything that does units of work."""
    work = Looking("profiling", profile_piece, access, piece_bytes, journal)
    pieces, found = work.through(distribute, paths)
    lengths = {piece.url: piece.length for piece in pieces}
    return ProfileResult(
        len(lengths),
        sum(one["rows"] for one in found),
        sum(lengths.values()),
        tuple(merged_columns(found, distinct)),
    )


# --- one piece -------------------------------------------------------------------------------------


def profile_piece(access: Access, piece: Piece) -> Mapping[str, Any]:
    """What the metadata of some stripes says, as values of JSON. Raises what `open` raises."""
    if piece.error:
        raise orcstream.FormatError(piece.error, url=piece.url)
    return run(partial(_profile, access, piece))


async def _profile(access: Access, piece: Piece) -> Mapping[str, Any]:
    async with orcstream.open(piece.url, **await access.open_options()) as file:
        hold(file, piece)
        numbers = range(len(file.stripes)) if piece.stripes is None else range(*piece.stripes)
        columns = {int(type_.column_id): _Column(path, type_) for path, type_ in file.schema.walk() if path}
        below = _below_repeated(file.schema.root)
        by_stripe = await file.stripe_statistics()
        rows = 0
        for number in numbers:
            rows += file.stripes[number].row_count
            statistics = by_stripe[number] if number < len(by_stripe) else None
            await _look(file, number, statistics, columns)
    return {
        "rows": rows,
        "columns": [column.to_json(rows, has_rows=id_ not in below) for id_, column in columns.items()],
    }


async def _look(file: OrcFile, number: int, statistics: Any, columns: Mapping[int, _Column]) -> None:
    footer = await file.stripe_footer(number)
    for stream in footer.streams:
        if (column := columns.get(int(stream.column))) is not None:
            column.stream_bytes[stream.kind.name] += stream.length
    for id_, encoding in enumerate(footer.encodings):
        if id_ in columns:
            columns[id_].encodings[encoding.kind.name] += 1
    indexes = await file.row_index(number)
    for id_, column in columns.items():
        column.add(None if statistics is None else statistics.get(id_))
        if (index := indexes.get(id_)) is not None:
            column.add_groups([index.statistics(at) for at in range(len(index))])


def _below_repeated(root: Type) -> set[int]:
    """Columns that have other counts than the rows have."""
    return {
        int(below.column_id)
        for _, type_ in root.walk()
        if type_.kind in _REPEATED
        for path, below in type_.walk()
        if path
    }


@dataclass
class _Column:
    """The numbers of one column, while stripes are looked at."""

    path: tuple[str, ...]
    type: Type
    value_count: int | None = 0
    plain_bytes: int | None = 0
    bounds: Interval | None = None
    are_known: bool = True
    stream_bytes: Counter[str] = field(default_factory=Counter)
    encodings: Counter[str] = field(default_factory=Counter)
    groups: list[Interval | None] = field(default_factory=list)

    def add(self, claim: ColumnStatistics | None) -> None:
        if claim is None or claim.value_count is None:
            self.value_count = self.plain_bytes = None
            self.are_known = False
            return
        if self.value_count is not None:
            self.value_count += claim.value_count
        width = _WIDTHS.get(self.type.kind)
        plain = claim.sum if claim.kind in ("string", "binary") and width is None else None
        size = width * claim.value_count if width else plain
        if not claim.value_count:
            return
        self.plain_bytes = None if size is None or self.plain_bytes is None else self.plain_bytes + int(size)
        found = _interval(claim)
        self.are_known = self.are_known and found is not None
        self.bounds = _hull(self.bounds, found)

    def add_groups(self, claims: Iterable[ColumnStatistics | None]) -> None:
        """Bounds of row groups; None for one that says nothing. Those without values hold nothing to find."""
        for claim in claims:
            is_empty = claim is not None and claim.value_count == 0 and claim.has_null
            if not is_empty:
                self.groups.append(None if claim is None else _interval(claim))

    def to_json(self, rows: int, *, has_rows: bool) -> dict[str, Any]:
        step = -(-len(self.groups) // _MOST_GROUPS) or 1
        nulls = rows - self.value_count if has_rows and self.value_count is not None else None
        return {
            "name": ".".join(self.path),
            "type": str(self.type),
            "value_count": self.value_count,
            "null_count": nulls,
            "plain_bytes": self.plain_bytes,
            "bounds": _interval_json(self.bounds if self.are_known else None),
            "has_values": bool(self.value_count),
            "stream_bytes": dict(self.stream_bytes),
            "encodings": dict(self.encodings),
            "groups": [_interval_json(one) for one in self.groups[::step]],
            "group_count": len(self.groups),
        }


def _interval(claim: ColumnStatistics) -> Interval | None:
    low = claim.lower_bound if claim.minimum is None else claim.minimum
    high = claim.upper_bound if claim.maximum is None else claim.maximum
    for one in (low, high):
        if one is None or (isinstance(one, float) and math.isnan(one)):
            return None
    return low, high


def _hull(one: Interval | None, other: Interval | None) -> Interval | None:
    if one is None or other is None:
        return one or other
    return min(one[0], other[0]), max(one[1], other[1])


def _interval_json(one: Interval | None) -> list[Any] | None:
    return None if one is None else [_to_json(value) for value in one]


def _to_json(value: Any) -> Any:
    return {"decimal": str(value)} if isinstance(value, Decimal) else value


def _of_json(value: Any) -> Any:
    return Decimal(value["decimal"]) if isinstance(value, dict) else value


# --- many ------------------------------------------------------------------------------------------


def merged_columns(
    pieces: Iterable[Mapping[str, Any]], distinct: Mapping[str, int] | None = None
) -> list[ColumnProfile]:
    """The columns of all pieces, in the order in which they are met."""
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for piece in pieces:
        for column in piece["columns"]:
            by_name.setdefault(column["name"], []).append(column)
    return [_merged(name, found, distinct or {}) for name, found in by_name.items()]


def _merged(name: str, found: Sequence[Mapping[str, Any]], distinct: Mapping[str, int]) -> ColumnProfile:
    streams: Counter[str] = Counter()
    encodings: Counter[str] = Counter()
    groups: list[Interval | None] = []
    for one in found:
        streams.update(one["stream_bytes"])
        encodings.update(one["encodings"])
        groups += [_interval_of(each) for each in one["groups"]]
    low, high = _bounds(found) or (None, None)
    return ColumnProfile(
        name=name,
        type=found[0]["type"],
        value_count=_total(found, "value_count"),
        null_count=_total(found, "null_count"),
        minimum=None if low is None else str(low),
        maximum=None if high is None else str(high),
        distinct=distinct.get(name),
        stored_bytes=streams.total(),
        plain_bytes=_total(found, "plain_bytes"),
        stream_bytes=dict(streams),
        encodings=dict(encodings),
        row_group_count=sum(one["group_count"] for one in found),
        point_share=point_share(groups),
        range_share=range_share(groups),
    )


def _total(found: Iterable[Mapping[str, Any]], name: str) -> int | None:
    values = [one[name] for one in found]
    return None if None in values else sum(values)


def _interval_of(one: Any) -> Interval | None:
    return None if one is None else (_of_json(one[0]), _of_json(one[1]))


def _bounds(found: Sequence[Mapping[str, Any]]) -> Interval | None:
    """None where a file does not say, and of files whose types cannot be compared."""
    if any(one["bounds"] is None and one["has_values"] for one in found):
        return None
    try:
        return reduce(_hull, (_interval_of(one["bounds"]) for one in found), None)
    except TypeError:
        return None


def point_share(groups: Sequence[Interval | None]) -> float | None:
    """Which share of row groups a predicate ``column = value`` leaves, on average over values that there are.

    None where there are no groups, or bounds that cannot be compared. Groups without bounds are always left.
    """
    return _share(groups, lambda values: [(value, value) for value in values])


def range_share(groups: Sequence[Interval | None]) -> float | None:
    """As `point_share`, of a predicate that is true of a tenth of the row groups, if they were in order."""

    def ranges(values: Sequence[Any]) -> list[Interval]:
        cuts = [values[at * (len(values) - 1) // _PARTS] for at in range(_PARTS + 1)]
        return list(pairwise(cuts))

    return _share(groups, ranges)


def _share(groups: Sequence[Interval | None], questions: Any) -> float | None:
    known = [one for one in groups if one is not None]
    if not groups:
        return None
    if not known:
        return 1.0
    try:
        lows, highs = sorted(one[0] for one in known), sorted(one[1] for one in known)
        ends = sorted([*lows, *highs])
    except TypeError:
        return None
    middles = sorted(_middle(one, ends) for one in known)
    asked = questions(middles[:: -(-len(middles) // _SAMPLES)])
    unknown = len(groups) - len(known)
    left = [bisect_right(lows, high) - bisect_left(highs, low) + unknown for low, high in asked]
    return sum(left) / len(left) / len(groups)


def _middle(one: Interval, ends: Sequence[Any]) -> Any:
    """A value as rows of a group have it: bounds are the rarest of all. Of texts, a bound of some group."""
    low, high = one
    if isinstance(low, str):
        return ends[(bisect_left(ends, low) + bisect_left(ends, high)) // 2]
    return low + (high - low) / 2
