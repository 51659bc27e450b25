"""Whether what statistics and bloom filters are said to prove holds for the rows of a file.

Reads a file's indexes through the package, its rows too, evaluates predicates on the rows in plain Python,
and compares. The judge of the values themselves is `judging`, with the programs that wrote them.
"""

from __future__ import annotations

import datetime
import operator
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

import orcstream
from orcstream.codec.metadata.bloom import BloomIndex
from orcstream.codec.metadata.indexes import RowIndex, parse_bloom_index
from orcstream.codec.metadata.structure import StatisticsList, StreamKind, stream_ranges
from orcstream.plan.prune.proof import Outcome
from orcstream.plan.prune.prune import Questions, group_outcomes, stripe_outcomes
from orcstream.plan.tail import decompress_message
from orcstream.query.predicate import AllOf, AnyOf, Leaf, Negation, Op, Predicate
from orcstream.schema.column_statistics import Trust, trust_of
from orcstream.schema.types import FileColumn, Kind, Type
from tests.support.effort import share

UNITS = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}
COMPARED = frozenset(Kind) - {Kind.STRUCT, Kind.LIST, Kind.MAP, Kind.UNION, Kind.GEOMETRY, Kind.GEOGRAPHY}
FLOATS = (Kind.FLOAT, Kind.DOUBLE)
Verdict = bool | None


@dataclass
class Stripe:
    row_counts: list[int]
    indexes: dict[FileColumn, RowIndex]
    blooms: dict[FileColumn, BloomIndex]
    zone: str | None


@dataclass
class Known:
    """A file's rows as canonical values by path, and what it says about them."""

    root: Type
    unit: str
    trust: Trust
    row_count: int
    stripes: list[Stripe]
    statistics: Sequence[StatisticsList]
    values: dict[tuple[str, ...], list[Any]] = field(default_factory=dict)

    def columns(self) -> Iterator[tuple[tuple[str, ...], Type]]:
        """Those that can be asked about: reached through structs only."""
        stack: list[tuple[tuple[str, ...], Type]] = [((), self.root)]
        while stack:
            path, type_ = stack.pop()
            if path:
                yield path, type_
            if type_.kind is Kind.STRUCT:
                stack += [((*path, n), t) for n, t in zip(type_.field_names, type_.children, strict=True)]

    def leaf(self, path: tuple[str, ...], op: Op, *literals: Any) -> Leaf:
        type_ = dict(self.columns())[path]
        return Leaf(path, type_, op, literals, UNITS[self.unit])


async def load(path: Path, *, unit: str = "ns", original_blooms: bool = False, **options: Any) -> Known:
    """All of it; `original_blooms` prefers BLOOM_FILTER streams where there are both."""
    async with orcstream.open(str(path), **options) as file:
        footer, postscript = file.tail.footer, file.tail.postscript
        trust = trust_of(
            footer.writer, postscript.writer_version, footer.software_version, postscript.version
        )
        data = path.read_bytes()
        stripes = []
        for stripe in file.stripes:
            stripe_footer = await file.stripe_footer(stripe.index)
            stride = footer.row_index_stride or max(1, stripe.row_count)
            counts = [min(stride, stripe.row_count - at) for at in range(0, stripe.row_count, stride)]
            blooms: dict[FileColumn, BloomIndex] = {}
            for stream, range_ in stream_ranges(stripe, stripe_footer):
                original = stream.kind is StreamKind.BLOOM_FILTER
                if original or stream.kind is StreamKind.BLOOM_FILTER_UTF8:
                    if stream.column in blooms and original is not original_blooms:
                        continue
                    content = decompress_message(file.tail, memoryview(data)[range_.start : range_.stop])
                    blooms[stream.column] = parse_bloom_index(
                        content,
                        2 * len(counts) + 2,
                        utf8=not original,
                        encoding=stripe_footer.encodings[stream.column].bloom_encoding,
                    )
            indexes = {FileColumn(c): index for c, index in (await file.row_index(stripe.index)).items()}
            stripes.append(Stripe(counts, indexes, blooms, stripe_footer.writer_timezone))
        rows: list[Any] = []
        async with file.batches(timestamp_unit=unit, invalid_utf8="binary") as stream_:
            async for batch in stream_:
                rows += batch.to_pylist()
        statistics = await file.stripe_statistics()
        known = Known(file.schema.root, unit, trust, file.row_count, stripes, statistics)
    for name_path, type_ in known.columns():
        known.values[name_path] = [_canonical(type_, _reach(row, name_path)) for row in rows]
    return known


def _reach(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = None if value is None else value[name]
    return value


def _canonical(type_: Type, value: Any) -> Any:
    if value is None:
        return None
    match type_.kind:
        case Kind.DECIMAL:
            assert isinstance(value, Decimal)
            sign, digits, exponent = value.as_tuple()
            assert isinstance(exponent, int)
            number = int("".join(map(str, digits))) * 10 ** (exponent + (type_.scale or 0))
            return -number if sign else number
        case Kind.DATE:
            if isinstance(value, np.datetime64):
                return int(value.astype("datetime64[D]").astype(np.int64))
            return value.toordinal() - 719_163
        case Kind.TIMESTAMP | Kind.TIMESTAMP_INSTANT:
            if isinstance(value, np.datetime64):
                amount, unit = int(value.astype(np.int64)), np.datetime_data(value.dtype)[0]
                return amount * UNITS[unit]
            since = value.replace(tzinfo=datetime.UTC) - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
            return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000
        case Kind.STRING | Kind.CHAR | Kind.VARCHAR:
            return value if isinstance(value, bytes) else value.encode()
    return value if type_.kind in COMPARED else object()


# --- plain evaluation ------------------------------------------------------------------------------


def evaluate(known: Known, predicate: Predicate, *, nan_is_largest: bool) -> list[Verdict]:
    """The predicate for every row. Of NaN both habits: no comparison holds, or it is the largest number."""
    if isinstance(predicate, Leaf):
        return _leaf(predicate, known.values[predicate.path], nan_is_largest)
    if isinstance(predicate, Negation):
        verdicts = evaluate(known, predicate.part, nan_is_largest=nan_is_largest)
        return [None if verdict is None else not verdict for verdict in verdicts]
    decisive = isinstance(predicate, AnyOf)
    if not predicate.parts:
        return [not decisive] * known.row_count
    parts = [evaluate(known, part, nan_is_largest=nan_is_largest) for part in predicate.parts]
    return [
        decisive if decisive in row else None if None in row else not decisive
        for row in zip(*parts, strict=True)
    ]


def _leaf(leaf: Leaf, values: list[Any], nan_is_largest: bool) -> list[Verdict]:
    if leaf.op is Op.IS_NULL:
        return [value is None for value in values]
    literals: list[Any] = list(leaf.literals)
    if nan_is_largest and leaf.type.kind in FLOATS:
        values = [None if x is None else _largest(x) for x in values]
        literals = [_largest(x) for x in literals]
    if leaf.op is Op.IN and leaf.type.kind not in FLOATS:
        among = frozenset(literals)
        return [None if value is None else value in among for value in values]
    if leaf.op is Op.IN:  # a set would find a NaN that is the same object
        return [None if value is None else any(value == x for x in literals) for value in values]
    holds, (literal,) = _HOLDS[leaf.op], literals
    return [None if value is None else bool(holds(value, literal)) for value in values]


def _largest(number: float) -> tuple[bool, float]:
    """Such that it is ordered as if NaN were the largest number, and equal to itself."""
    return (number != number, 0 if number != number else number)  # noqa: PLR0124


_HOLDS: dict[Op, Callable[[Any, Any], Any]] = {
    Op.LESS: operator.lt,
    Op.LESS_EQUAL: operator.le,
    Op.GREATER: operator.gt,
    Op.GREATER_EQUAL: operator.ge,
    Op.STARTS_WITH: lambda value, start: value.startswith(start),
}


def _about_floats(predicate: Predicate) -> bool:
    if isinstance(predicate, Leaf):
        return predicate.type.kind in FLOATS
    if isinstance(predicate, Negation):
        return _about_floats(predicate.part)
    return any(map(_about_floats, predicate.parts))


# --- random predicates -----------------------------------------------------------------------------


def random_predicate(known: Known, rng: random.Random, depth: int = 2) -> Predicate:
    choice = rng.randrange(6) if depth else 0
    if choice < 3:
        return _random_leaf(known, rng)
    if choice == 3:
        return Negation(random_predicate(known, rng, depth - 1))
    parts = tuple(random_predicate(known, rng, depth - 1) for _ in range(rng.randint(0, 3)))
    return AllOf(parts) if choice == 4 else AnyOf(parts)


def _random_leaf(known: Known, rng: random.Random) -> Leaf:
    path, type_ = rng.choice(list(known.columns()))
    ops = [Op.IS_NULL]
    if type_.kind in COMPARED:
        ops += [Op.IN] * 4 + [Op.LESS, Op.LESS_EQUAL, Op.GREATER, Op.GREATER_EQUAL]
    if type_.kind in (Kind.STRING, Kind.CHAR, Kind.VARCHAR, Kind.BINARY):
        ops += [Op.STARTS_WITH] * 3
    op = rng.choice(ops)
    count = 0 if op is Op.IS_NULL else rng.choice((0, 1, 1, 2, 30)) if op is Op.IN else 1
    there = [value for value in known.values[path] if value is not None]
    found: list[Any] = [_random_literal(type_, there, rng) for _ in range(count)]
    if op is Op.STARTS_WITH and rng.random() < 0.7:
        found = [text[: rng.randint(0, len(text))] for text in found]
    if op is Op.IN:
        found = sorted({(x != x, 0.0 if x != x else x, x) for x in found})  # noqa: PLR0124
        found = [x for _, _, x in found]
    return Leaf(path, type_, op, tuple(found), UNITS[known.unit])


def _random_literal(type_: Type, there: list[Any], rng: random.Random) -> Any:
    base = rng.choice(there) if there else None
    match type_.kind:
        case Kind.BOOLEAN:
            return rng.random() < 0.5
        case Kind.FLOAT | Kind.DOUBLE:
            near = 0.0 if base is None else base
            return rng.choice((near, -near, near + 1, near * 2, float("nan"), float("inf"), 0.0, 1e300))
        case Kind.STRING | Kind.CHAR | Kind.VARCHAR | Kind.BINARY:
            near = b"" if base is None else base
            return rng.choice(
                (near, near + b"\x00", near[:-1], near + b" ", near.rstrip(b" "), b"\xff", b"a")
            )
    near = 0 if base is None else base
    steps = (0, 1, -1, 10**3, 10**6, -(10**6), 10**9, -(10**9), 3600 * 10**9, 1 << 70)
    return near + rng.choice(steps)


# --- the check -------------------------------------------------------------------------------------


def outcomes_of(known: Known, predicate: Predicate) -> tuple[list[Outcome], list[list[Outcome]]]:
    """What is said to be possible in each stripe, and in each of its row groups."""

    def column_of(leaf: Leaf) -> FileColumn:
        return leaf.type.column_id

    counts = [sum(stripe.row_counts) for stripe in known.stripes]
    return stripe_outcomes(predicate, column_of, known.statistics, counts, known.trust), [
        group_outcomes(
            predicate,
            column_of,
            stripe.indexes,
            stripe.blooms,
            stripe.row_counts,
            known.trust.in_zone(stripe.zone),
            Questions(),
        )
        for stripe in known.stripes
    ]


MARKS = {True: Outcome.TRUE, False: Outcome.FALSE, None: Outcome.NULL}


def check(known: Known, predicate: Predicate) -> None:
    """Every truth value that occurs in a stripe or row group was said to be possible there."""
    by_stripe, by_group = outcomes_of(known, predicate)
    # Without floats there are no two habits.
    for nan_is_largest in (False, True) if _about_floats(predicate) else (False,):
        verdicts = evaluate(known, predicate, nan_is_largest=nan_is_largest)
        assert len(verdicts) == known.row_count
        row = 0
        for index, stripe in enumerate(known.stripes):
            for group, count in enumerate(stripe.row_counts):
                for verdict in set(verdicts[row : row + count]):
                    truth = MARKS[verdict]
                    for said in (by_stripe[index], by_group[index][group]):
                        assert truth in said, (
                            f"{truth} is not in {said}: stripe {index}, group {group}, {predicate}"
                        )
                row += count


def check_many(known: Known, seed: int, count: int = share(60, 4)) -> None:
    rng = random.Random(seed)
    for _ in range(count):
        check(known, random_predicate(known, rng))
