"""Verifying a file: every stripe is decoded, and what its statistics claim is compared with the values.

Knows which claims follow from which values, and which writers are known to get a claim wrong. Must not know
how files are read or statistics stored: it reads as any program would.

A claim that holds but says less than it could (bounds that are wider than the values, as of texts that were
cut) is no fault. Times are compared to the microsecond. Sums of floating point depend on the order of
addition, so they may differ in their last digits; totals of children are not compared, since ORC Java records
those of its batches. Not looked at: bloom filters, whether positions lead where they should, and the masked
form of encrypted columns where the keys are there (open the file without keys to verify that).

Specification: "Column Statistics", "Row Index".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal, Protocol, Unpack

import anyio.lowlevel

from orcstream.batch import Batch
from orcstream.codec.encode.statistics import statistics_of
from orcstream.codec.metadata.indexes import RowIndex, parse_entry_statistics
from orcstream.codec.metadata.structure import StatisticsList, StripeFooter, StripeInformation
from orcstream.codec.vectors.column import Field
from orcstream.errors import FormatError, OrcError, Unsupported, UsageError
from orcstream.file.unlocking import EncryptedColumn
from orcstream.file.zones import FileTimes
from orcstream.io.loop.uncancelled import run_in_thread
from orcstream.plan.tail import Tail, trust_in
from orcstream.reader.engine.budget import TOO_MANY_COLUMNS
from orcstream.reader.options import ANY_TIME, ReadKeywords
from orcstream.reader.stream import BatchStream
from orcstream.schema.column_statistics import ColumnStatistics, Trust, merge
from orcstream.schema.schema import Schema
from orcstream.schema.types import Kind, Type

FaultKind = Literal[
    "unreadable", "row_count", "value_count", "has_null", "minimum", "maximum", "sum", "children", "kind"
]
Statistics = dict[int, ColumnStatistics]

_TIME_UNIT_NS = 1000
# Relative to the sum of absolute values, which no sum of doubles in another order misses by more.
_SUM_TOLERANCE = 1e-9
# Claims about earlier times are in the calendar they were written in, values in the proleptic one.
_FIRST_GREGORIAN: Final[Mapping[str | None, int]] = {"date": -141_427, "timestamp": -141_427 * 86_400 * 10**9}
_JAVA: Final = 0
_COUNTS_SINCE: Final = 2


@dataclass(frozen=True, slots=True)
class Fault:
    """One claim of a file that its values contradict.

    `kind` is ``unreadable``, ``row_count``, ``value_count``, ``has_null``, ``minimum``, ``maximum``, ``sum``,
    ``children`` (of lists and maps), or ``kind`` where statistics are those of another type.
    `stripe` is None for what the file's footer claims, `row_group` for what a stripe does. `column` is the
    dotted name, empty for the rows. `recorded` and `found` are text; both are empty for columns that are
    encrypted. `is_known` says that the writer is known to get this wrong: then it is not believed, and no
    read is harmed.
    """

    kind: FaultKind
    stripe: int | None
    row_group: int | None
    column: str
    recorded: str
    found: str
    is_known: bool

    def __str__(self) -> str:
        places = [] if self.stripe is None else [f"stripe {self.stripe}"]
        places += [] if self.row_group is None else [f"row group {self.row_group}"]
        where = ", ".join(places) or "file"
        column = f", {self.column}" if self.column else ""
        if self.kind == "unreadable":
            return f"{where}{column}: {self.found}"
        values = f" is {self.recorded}, the values say {self.found}" if self.found else " is wrong"
        known = "; this writer is known for it" if self.is_known else ""
        return f"{where}{column}: {self.kind.replace('_', ' ')}{values}{known}"


@dataclass(frozen=True, slots=True)
class Verification:
    """What was looked at, and what was found.

    `url` is shown without credentials. `row_count`, `stripe_count` and `row_group_count` are what could be
    read, `claim_count` the statistics that were compared with values, `faults` those that are wrong.
    """

    url: str
    row_count: int
    stripe_count: int
    row_group_count: int
    claim_count: int
    faults: tuple[Fault, ...]

    @property
    def is_sound(self) -> bool:
        """Whether everything can be read and nothing is wrong that a reader would believe."""
        return all(fault.is_known for fault in self.faults)


class _File(Protocol):
    """What verifying needs of an `OrcFile`, which imports this module."""

    @property
    def url(self) -> str: ...
    @property
    def tail(self) -> Tail: ...
    @property
    def schema(self) -> Schema: ...
    @property
    def stripes(self) -> tuple[StripeInformation, ...]: ...
    @property
    def encrypted_columns(self) -> tuple[EncryptedColumn, ...]: ...
    async def stripe_statistics(self) -> tuple[StatisticsList, ...]: ...
    async def stripe_footer(self, stripe: int) -> StripeFooter: ...
    async def row_index(self, stripe: int) -> Mapping[int, RowIndex]: ...
    def batches(self, **options: Unpack[ReadKeywords]) -> BatchStream: ...


async def verify_file(
    file: _File,
    times: FileTimes,
    *,
    statistics: StatisticsList,
    stripes: range | None = None,
    on_rows: Callable[[int], None] | None = None,
    memory_limit: int,
) -> Verification:
    """Decode the stripes of a file and compare its statistics; see the module.

    `statistics` are those of the whole file, by column id, of the form of encrypted columns that is read.
    With `stripes`, only those are looked at, and what the footer claims of the whole file is not.
    `on_rows` is told how many rows were looked at, now and then. `memory_limit` is for decoding. Raises
    `SourceError` where the store fails; what is wrong with the file itself is in the answer.
    """
    count = len(file.stripes)
    for number in (min(stripes), max(stripes)) if stripes else ():
        if not 0 <= number < count:
            raise UsageError(f"no stripe {number}: the file has {count}", url=file.url)
    # Of thousands of columns, preparing takes long.
    told = on_rows or (lambda _: None)
    prepare = partial(_Verifier, file, times, statistics, stripes, told, memory_limit)
    verifier = await run_in_thread(prepare)
    return await verifier.run()


class _Verifier:
    def __init__(
        self,
        file: _File,
        times: FileTimes,
        statistics: StatisticsList,
        stripes: range | None,
        on_rows: Callable[[int], None],
        memory_limit: int,
    ) -> None:
        self._file = file
        self._times = times
        self._statistics = statistics
        self._wanted = range(len(file.stripes)) if stripes is None else stripes
        self._is_whole = stripes is None
        self._on_rows = on_rows
        self._memory_limit = memory_limit
        self._trust = trust_in(file.tail)
        self._types = {int(type_.column_id): (path, type_) for path, type_ in file.schema.walk()}
        hidden = [one.path for one in file.encrypted_columns]
        self._hidden = {
            column
            for column, (path, _) in self._types.items()
            if any(path[: len(one)] == one for one in hidden)
        }
        self._faults: list[Fault] = []
        self._rows = self._stripes = self._groups = self._claims = 0

    async def run(self) -> Verification:
        by_stripe = await self._stripe_statistics()
        whole: Statistics | None = {}
        for number in self._wanted:
            await anyio.lowlevel.checkpoint()  # damaged stripes are found out without waiting for anything
            found = await self._stripe(self._file.stripes[number], by_stripe)
            if found is None or whole is None:
                whole = None
            else:
                whole = await run_in_thread(partial(_merged, whole, found)) if whole else found
        if self._is_whole and whole is not None:
            await run_in_thread(partial(self._footer, whole))
        return Verification(
            self._file.url, self._rows, self._stripes, self._groups, self._claims, tuple(self._faults)
        )

    async def _stripe_statistics(self) -> Sequence[StatisticsList]:
        try:
            return await self._file.stripe_statistics()
        except (FormatError, Unsupported) as error:
            self._unreadable(error, None)
            return ()

    async def _stripe(
        self, stripe: StripeInformation, by_stripe: Sequence[StatisticsList]
    ) -> Statistics | None:
        """What the values of a stripe say; None where they cannot be read."""
        place = _Place(stripe.index, self._times.trust(self._trust, None))
        try:
            footer = await self._file.stripe_footer(stripe.index)
            place = _Place(stripe.index, self._times.trust(self._trust, footer.writer_timezone))
            groups = _RowGroups(_claims_of(await self._file.row_index(stripe.index)), self._stride())
            found = await self._decoded(stripe, groups, place)
        except (FormatError, Unsupported) as error:
            if isinstance(error, Unsupported) and error.reason == TOO_MANY_COLUMNS:
                raise  # a larger limit is needed, whatever the stripe
            self._unreadable(error, stripe.index)
            return None
        self._stripes += 1
        if stripe.index < len(by_stripe):
            await run_in_thread(partial(self._compare, by_stripe[stripe.index].get, found, place))
        return found

    def _stride(self) -> int:
        return self._file.tail.footer.row_index_stride

    async def _decoded(self, stripe: StripeInformation, groups: _RowGroups, place: _Place) -> Statistics:
        rows = range(stripe.first_row, stripe.first_row + stripe.row_count)
        found: Statistics = {}
        group: Statistics = {}
        row = 0
        stream = self._file.batches(rows=rows, memory_limit=self._memory_limit, **ANY_TIME)
        async with stream:
            async for batch in stream:
                fields = stream.batch_schema.fields
                for start, stop in groups.cut(row, batch.num_rows):
                    ends = groups.ends_at(row + stop) or row + stop == stripe.row_count
                    number = (row + stop - 1) // groups.stride if ends else None
                    piece = partial(self._piece, fields, batch.slice(start, stop), groups, number, place)
                    # Of many columns it takes longer than a loop may be held up.
                    found, group = await run_in_thread(partial(piece, found, group))
                row += batch.num_rows
                self._rows += batch.num_rows
                self._on_rows(self._rows)
        if row != stripe.row_count:
            self._say("row_count", place, None, str(stripe.row_count), str(row), is_known=False)
        return await run_in_thread(partial(_merged, found, group)) if group else found

    def _piece(
        self,
        fields: Sequence[Field],
        batch: Batch,
        groups: _RowGroups,
        ended: int | None,
        place: _Place,
        found: Statistics,
        group: Statistics,
    ) -> tuple[Statistics, Statistics]:
        """What values say, with those of `batch`: of the stripe, and of a row group that has not ended."""
        group = _merged(group, _statistics(self._file.schema.root, fields, batch))
        if ended is None:
            return found, group
        self._group(groups, ended, group, place)
        return _merged(found, group), {}

    def _group(self, groups: _RowGroups, number: int, found: Statistics, place: _Place) -> None:
        if groups.are_recorded:
            self._groups += 1
            self._compare(
                lambda column: groups.claim(column, number), found, replace(place, row_group=number)
            )

    def _footer(self, found: Statistics) -> None:
        place = _Place(None, self._times.trust(self._trust, None))
        self._compare(self._statistics.get, found, place)

    def _compare(self, claim_of: _ClaimOf, found: Statistics, place: _Place) -> None:
        for column, values in found.items():
            try:
                claim = claim_of(column)
            except FormatError as error:
                self._unreadable(error.locate(column=column), place.stripe)
                continue
            if claim is None:
                continue
            self._claims += 1
            for kind, recorded, real in _contradictions(claim, values, place.trust.zone_margin_ns):
                is_known = self._is_known(kind, column, claim, place.trust)
                self._say(kind, place, column, recorded, real, is_known=is_known)

    def _is_known(self, kind: FaultKind, column: int, claim: ColumnStatistics, trust: Trust) -> bool:
        if kind in ("minimum", "maximum"):
            return claim.kind not in trust.bounds
        version = self._file.tail.postscript.writer_version
        if self._file.tail.footer.writer != _JAVA:
            return not trust.counts and kind in ("value_count", "has_null")
        # ORC Java counts the children of its batches, adds decimals of stripes up wrongly, and counts unions
        # with their nulls.
        if kind == "sum":
            return claim.kind == "decimal" or version < _COUNTS_SINCE
        if kind in ("value_count", "has_null"):
            return self._types[column][1].kind is Kind.UNION or version < _COUNTS_SINCE
        return kind == "children"

    def _say(
        self, kind: FaultKind, place: _Place, column: int | None, recorded: str, found: str, *, is_known: bool
    ) -> None:
        name = "" if column is None else ".".join(self._types[column][0])
        if column in self._hidden:
            recorded = found = ""
        self._faults.append(Fault(kind, place.stripe, place.row_group, name, recorded, found, is_known))

    def _unreadable(self, error: OrcError, stripe: int | None) -> None:
        path = () if error.column is None else self._types.get(error.column, ((), None))[0]
        self._faults.append(Fault("unreadable", stripe, None, ".".join(path), "", error.message, False))


_ClaimOf = Callable[[int], ColumnStatistics | None]


@dataclass(frozen=True, slots=True)
class _Place:
    """What a claim is about, and what is believed of it there."""

    stripe: int | None
    trust: Trust
    row_group: int | None = None


class _RowGroups:
    """The row groups of one stripe, and what its index claims of them."""

    def __init__(self, claims: Mapping[int, tuple[bytes, ...]], stride: int) -> None:
        self._claims = claims
        self.are_recorded = bool(claims) and stride > 0
        self.stride = stride if self.are_recorded else 1 << 62

    def cut(self, first: int, count: int) -> Iterator[tuple[int, int]]:
        """A batch's rows in pieces, none of which is of two row groups; `first` is its first row's number."""
        start = 0
        while start < count:
            stop = min(count, ((first + start) // self.stride + 1) * self.stride - first)
            yield start, stop
            start = stop

    def ends_at(self, row: int) -> bool:
        return row % self.stride == 0

    def claim(self, column: int, number: int) -> ColumnStatistics | None:
        recorded = self._claims.get(column, ())
        return parse_entry_statistics(recorded[number]) if number < len(recorded) else None


def _claims_of(indexes: Mapping[int, RowIndex]) -> Mapping[int, tuple[bytes, ...]]:
    """The serialised statistics by column: positions take 1 KB a column, and are not looked at."""
    return {column: index.serialized_statistics for column, index in indexes.items()}


def _statistics(root: Type, fields: Sequence[Field], batch: Batch) -> Statistics:
    found: Statistics = {}
    for field, vector in zip(fields, batch.vectors, strict=True):
        found |= {int(column): one for column, one in statistics_of(field, vector).items()}
    if root.kind is Kind.STRUCT:
        found[int(root.column_id)] = ColumnStatistics(value_count=batch.num_rows, has_null=False)
    return found


def _merged(one: Statistics, other: Statistics) -> Statistics:
    if not one:
        return other
    return {column: merge(one[column], other[column]) for column in one} if other else one


_Contradiction = tuple[FaultKind, str, str]


def _contradictions(
    claim: ColumnStatistics, found: ColumnStatistics, zone_margin_ns: int
) -> Iterator[_Contradiction]:
    """What is recorded against what is found, where the values contradict it."""
    if claim.kind is not None and found.kind is not None and claim.kind != found.kind:
        yield "kind", claim.kind, found.kind
        return
    count = found.value_count or 0
    if claim.value_count == 0 and not claim.has_null:
        return  # nobody counted (HIVE-20604; ORC Java without indexes), or there is nothing to be counted
    if claim.value_count is not None and claim.value_count != count:
        yield "value_count", f"{claim.value_count:,}", f"{count:,}"
    if claim.has_null is False and found.has_null:
        yield "has_null", "false", "true"
    if count:
        yield from _bounds(claim, found, zone_margin_ns)
        yield from _sums(claim, found)
        yield from _children(claim, found)


def _bounds(
    claim: ColumnStatistics, found: ColumnStatistics, zone_margin_ns: int
) -> Iterator[_Contradiction]:
    slack: Any = 0
    if claim.kind == "timestamp":
        slack = _TIME_UNIT_NS + zone_margin_ns
    if not _is_gregorian(claim):
        return
    lower, upper = _bound(claim.minimum, claim.lower_bound), _bound(claim.maximum, claim.upper_bound)
    least, largest = _bound(found.minimum, found.lower_bound), _bound(found.maximum, found.upper_bound)
    # Of texts that were cut, both are bounds of bounds, which say less.
    if lower is not None and least is not None and found.lower_bound is None and _above(lower, least, slack):
        yield "minimum", str(lower), str(least)
    if (
        upper is not None
        and largest is not None
        and found.upper_bound is None
        and _above(largest, upper, slack)
    ):
        yield "maximum", str(upper), str(largest)


def _is_gregorian(claim: ColumnStatistics) -> bool:
    """Whether a claim is of no times, or of those that both calendars give the same number to."""
    first: Any = _FIRST_GREGORIAN.get(claim.kind)
    minimum: Any = claim.minimum
    return first is None or minimum is None or bool(minimum >= first)


def _bound(exact: Any, cut: Any) -> Any:
    found = cut if exact is None else exact
    return None if isinstance(found, float) and math.isnan(found) else found


def _above(one: Any, other: Any, slack: Any) -> bool:
    if isinstance(one, str):
        return bool(one.encode() > other.encode())
    return bool(one > other + slack if slack else one > other)  # adding would round decimals


def _sums(claim: ColumnStatistics, found: ColumnStatistics) -> Iterator[_Contradiction]:
    recorded, real = claim.sum, found.sum
    if recorded is None or real is None:
        return
    if isinstance(recorded, float) or isinstance(real, float):
        if _are_near(float(recorded), float(real), found):
            return
    elif recorded == real:
        return
    yield "sum", str(recorded), str(real)


def _are_near(one: float, other: float, found: ColumnStatistics) -> bool:
    if not (math.isfinite(one) and math.isfinite(other)):
        return True  # which of NaN and the infinities comes out depends on the order
    bounds = [abs(bound) for bound in (found.minimum, found.maximum) if isinstance(bound, float)]
    most = max(bounds, default=0.0) * (found.value_count or 0)
    return abs(one - other) <= _SUM_TOLERANCE * max(most, abs(one), abs(other))


def _children(claim: ColumnStatistics, found: ColumnStatistics) -> Iterator[_Contradiction]:
    least, largest = claim.min_children, claim.max_children
    if least is not None and found.min_children is not None and least > found.min_children:
        yield "children", f"at least {least}", f"{found.min_children}"
    if largest is not None and found.max_children is not None and largest < found.max_children:
        yield "children", f"at most {largest}", f"{found.max_children}"
