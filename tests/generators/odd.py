"""Schemas and values that nobody tunes for, drawn from a seed: the second opinion to `strategies`.

Where `strategies` makes what is usual, in many mixtures, this makes what lies at edges: deep and wide
schemas, odd names, structs without fields; integers whose differences overflow, whose widths alternate and
whose runs end at the lengths where encodings change; words by Zipf's law, long common prefixes, texts as
long as a block; clocks that are put forward; nulls that fill row groups exactly; empty lists at the edges of
groups and single lists of thousands.

Values are neutral, as those of `tests.reference`.
"""

from __future__ import annotations

import itertools
import math
import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tests.generators.strategies import EVERYTHING, INTEGERS, Table
from tests.reference import values
from tests.reference.types import T, Union

__all__ = ["Shape", "draw_table"]

NANOS = values.NANOS
# Of all columns together: tests read a file many times, and value by value.
MOST_VALUES = 7000
DAY = 86_400
NAMES = (
    "a", "A", "aA", "id", "ID ", " id", "a.b", "a.b.c", "`", "a`b", "``", "...", ".", "0", "9x", "-",
    "select", "null", "a,b", "a:b", "<x>", "a>b", "(", "\u00e9", "e\u0301", "\ufb01", "名前", "🦀",
    "\u202e", "tab\t", "q'\"", "%20", "/", "\\", "_col0", "_col1", "key", "value", "element", "x" * 300,
)  # fmt: skip
# ORC Java takes what stands before a backtick for the name.
JAVA_NAMES = tuple(name for name in NAMES if "`" not in name)
PLAIN_NAMES = tuple(f"{letter}{number}" for number in range(10) for letter in "abcdefgh")
KEY_KINDS = ("tinyint", "smallint", "int", "bigint", "string", "date", "boolean", "decimal")
# Lengths at which encodings of runs change, and their neighbours.
RUNS = (1, 2, 3, 9, 10, 11, 127, 128, 129, 130, 131, 255, 256, 257, 511, 512, 513)
# Instants at which clocks are changed or calendars and counters end, in seconds since 1970.
MOMENTS = (
    0, 1, -1, 1_420_070_400, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32,  # 1970, 2015, 2038, 1901, 2106
    1_711_846_800, 1_729_990_800,  # Berlin, in spring and autumn of 2024
    1_710_064_800, 1_730_624_400,  # Los Angeles
    1_712_415_600, 1_728_142_200,  # Lord Howe, by half an hour
    -1_830_383_032, 1_325_239_200,  # Monrovia, by 43:08 (1919); Apia leaves a day out (2011)
    -12_219_292_800, -12_219_292_800 - 10 * DAY, -2_208_988_800, -62_135_596_800, 253_402_300_799,
)  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """What the writer at hand can take; `stride` is how long its row groups are."""

    kinds: tuple[str, ...] = EVERYTHING
    zone: str = "UTC"
    first_day: int = -719_162
    unions: bool = False
    null_unions: bool = True
    names: tuple[str, ...] = PLAIN_NAMES
    empty_structs: bool = False
    stride: int = 1000
    unit: str = "ns"
    big: bool = False


def draw_table(rng: random.Random, shape: Shape, count: int) -> Table:
    """A table of some type of this shape, and `count` rows unless it is too wide for these."""
    type_ = _Types(rng, shape).root()
    count = min(count, 1 + MOST_VALUES // len(type_.flatten()))
    cells = _Columns(rng, shape)
    columns = [cells.column(child, count) for child in type_.children]
    rows: list[tuple[object, ...]] = list(zip(*columns, strict=True)) if columns else [()] * count
    return Table(type_, rows, rng.randrange(2**32))


class _Types:
    """Draws types: wide and flat, narrow and deep, or in between."""

    def __init__(self, rng: random.Random, shape: Shape) -> None:
        self.rng = rng
        self.shape = shape

    def root(self) -> T:
        manner = self.rng.choice(("wide", "deep", "mixed", "mixed", "lonely"))
        if manner == "wide":
            return self.struct(self.rng.randint(20, 60), 1)
        if manner == "deep":
            return self.struct(self.rng.randint(1, 2), 8)
        if manner == "lonely":
            return self.struct(1, self.rng.randint(1, 3))
        return self.struct(self.rng.randint(2, 7), 4)

    def struct(self, width: int, depth: int) -> T:
        pool = self.shape.names
        names: list[str] = self.rng.sample(pool, min(width, len(pool)))
        names += [f"w{number}" for number in range(width - len(names))]
        # One way down is enough in deep ones: else they would have thousands of columns.
        deep = self.rng.randrange(width) if width else 0
        children = [self.any(depth if index == deep else min(depth, 2)) for index in range(width)]
        return T("struct", tuple(children), tuple(names))

    def any(self, depth: int) -> T:
        if depth <= 1 or (depth < 5 and self.rng.random() < 0.3):
            return self.leaf(self.shape.kinds)
        kinds = ["array", "map", "struct", "struct"] + ["uniontype"] * self.shape.unions
        kind = self.rng.choice(kinds)
        if kind == "array":
            return T("array", (self.any(depth - 1),))
        if kind == "map":
            keys = tuple(kind for kind in KEY_KINDS if kind in self.shape.kinds)
            return T("map", (self.leaf(keys), self.any(depth - 1)))
        if kind == "uniontype":
            width = self.rng.choice((1, 2, 2, 3, 9))
            return T("uniontype", tuple(self.any(depth - 1 if i < 1 else 1) for i in range(width)))
        if self.shape.empty_structs and self.rng.random() < 0.15:
            return T("struct")
        return self.struct(self.rng.choice((1, 1, 2, 3)), depth - 1)

    def leaf(self, kinds: tuple[str, ...]) -> T:
        kind = self.rng.choice(kinds)
        if kind == "decimal":
            precision = self.rng.choice((1, 9, 17, 18, 19, 20, 37, 38))
            return T(kind, precision=precision, scale=self.rng.choice((0, 1, precision // 2, precision)))
        if kind in ("char", "varchar"):
            return T(kind, max_length=self.rng.choice((1, 2, 3, 255)))
        return T(kind)


class _Columns:
    """Makes columns; each has a manner of its own."""

    def __init__(self, rng: random.Random, shape: Shape) -> None:
        self.rng = rng
        self.shape = shape
        self.big_left = shape.big

    def column(self, type_: T, count: int, *, nullable: bool = True) -> list[Any]:
        nullable = nullable and (type_.kind != "uniontype" or self.shape.null_unions)
        null = self.nulls(count) if nullable else [False] * count
        found = iter(self.some(type_, null.count(False)))
        return [None if flag else next(found) for flag in null]

    def nulls(self, count: int) -> list[bool]:
        rng, stride = self.rng, self.shape.stride
        manner = rng.choice(("none", "none", "all", "groups", "edges", "first", "last", "bytes", "rare"))
        if manner == "all":
            return [True] * count
        if manner == "groups":  # whole row groups, exactly
            chosen = [rng.random() < 0.5 for _ in range(count // stride + 1)]
            return [chosen[row // stride] for row in range(count)]
        if manner == "edges":  # the first or last row of each group, or all but these
            inverted, at = rng.random() < 0.3, rng.choice((0, stride - 1))
            return [(row % stride == at) != inverted for row in range(count)]
        if manner == "first":
            return [row < count - 1 for row in range(count)]
        if manner == "last":
            return [row > 0 for row in range(count)]
        if manner == "bytes":  # bits in runs of bytes
            flags: list[bool] = []
            while len(flags) < count:
                flags += [rng.random() < 0.5] * (8 * rng.choice((1, 2, 3, 130, 131)) + rng.choice((0, 0, 1)))
            return flags[:count]
        share = 0.003 if manner == "rare" else 0
        return [rng.random() < share for _ in range(count)]

    def some(self, type_: T, count: int) -> list[Any]:
        kind = type_.kind
        if kind == "struct":
            fields = [self.column(child, count) for child in type_.children]
            return list(zip(*fields, strict=True)) if fields else [()] * count
        if kind in ("array", "map"):
            return self.collections(type_, count)
        if kind == "uniontype":
            tags = self.tags(len(type_.children), count)
            parts = [iter(self.column(t, tags.count(i))) for i, t in enumerate(type_.children)]
            return [Union(tag, next(parts[tag])) for tag in tags]
        if kind in INTEGERS:
            return integers(self.rng, INTEGERS[kind], count)
        if kind == "date":
            return self.days(count)
        if kind.startswith("timestamp"):
            return self.times(type_, count)
        maker: Callable[[T], Iterator[Any]] = getattr(self, kind)
        return self.paced(maker(type_), count)

    def paced(self, fresh: Iterator[Any], count: int) -> list[Any]:
        """Values of an endless source: each new, in runs of telling lengths, or by Zipf's law from a few."""
        rng = self.rng
        manner = rng.choice(("fresh", "runs", "zipf", "sorted", "constant"))
        if manner in ("fresh", "sorted"):
            found = list(itertools.islice(fresh, count))
            return sorted(found, key=_order) if manner == "sorted" else found
        if manner == "zipf":
            words = list(itertools.islice(fresh, rng.choice((2, 50, 1000))))
            weights = [1 / rank for rank in range(1, len(words) + 1)]
            return rng.choices(words, weights, k=count)
        if manner == "constant":
            return [next(fresh)] * count
        out: list[Any] = []
        while len(out) < count:
            out += [next(fresh)] * rng.choice(RUNS)
        return out[:count]

    def tags(self, width: int, count: int) -> list[int]:
        rng = self.rng
        if rng.random() < 0.3:
            return [row % width for row in range(count)]
        return self.paced((rng.randrange(width) for _ in itertools.count()), count)

    def collections(self, type_: T, count: int) -> list[Any]:
        sizes = self.sizes(count)
        items = self.column(type_.children[0], sum(sizes), nullable=type_.kind == "array")
        if type_.kind == "map":
            items = list(zip(items, self.column(type_.children[1], sum(sizes)), strict=True))
        out, at = [], 0
        for size in sizes:
            cut = items[at : at + size]
            out.append(list(dict(cut).items()) if type_.kind == "map" else cut)
            at += size
        return out

    def sizes(self, count: int) -> list[int]:
        rng, stride = self.rng, self.shape.stride
        manner = rng.choice(("empty", "edges", "one", "few", "single"))
        if manner == "empty":
            return [0] * count
        if manner == "edges":  # nothing around the borders of groups
            return [rng.randint(1, 3) * (3 < row % stride < stride - 3) for row in range(count)]
        if manner == "one":
            return [1] * count
        sizes = [rng.choice((0, 0, 1, 2, 3)) for _ in range(count)]
        if manner == "single" and count:
            sizes = [0] * count
            sizes[rng.randrange(count)] = 100_000 if self.big_left else 3000
            self.big_left = False
        return sizes

    # --- leaves: endless sources ----------------------------------------------------------------------

    def boolean(self, _: T) -> Iterator[bool]:
        return (self.rng.random() < 0.5 for _ in itertools.count())

    def double(self, _: T) -> Iterator[float]:
        rng = self.rng
        edges = (
            0.0,
            -0.0,
            math.inf,
            -math.inf,
            5e-324,
            -5e-324,
            2.2250738585072014e-308,
            2.0**53,
            2.0**53 + 2,
        )
        while True:
            manner = rng.random()
            if manner < 0.3:
                yield rng.choice(edges)
            elif manner < 0.4:  # a NaN with a payload, quiet or signalling, of either sign
                payload = rng.randrange(1, 1 << 52) | 0x7FF << 52 | rng.randrange(2) << 63
                yield struct.unpack("<d", struct.pack("<Q", payload))[0]
            else:  # any bits
                yield struct.unpack("<d", rng.randbytes(8))[0]

    def float(self, _: T) -> Iterator[float]:
        rng = self.rng
        edges = (0.0, -0.0, math.inf, -math.inf, 1.401298464324817e-45, -1.1754942106924411e-38, 16_777_216.0)
        while True:
            yield rng.choice(edges) if rng.random() < 0.3 else struct.unpack("<f", rng.randbytes(4))[0]

    def string(self, _: T) -> Iterator[str]:
        rng = self.rng
        manner = rng.choice(("paths", "numbers", "edges", "long", "points", "nothing"))
        prefix = "/warehouse/tables/ключ=значение/" * rng.choice((1, 3, 40))
        for number in itertools.count():
            if manner == "paths":
                yield f"{prefix}{number // 3:x}"
            elif manner == "numbers":
                yield str(rng.randrange(10 ** rng.randint(1, 30)))
            elif manner == "edges":  # one byte less, one more than what statistics and blocks hold
                most = rng.choice((1024, 1024, 4096)) + rng.choice((-1, 0, 1))
                yield rng.choice(("", "a" * most, "\U0010ffff" * (most // 4), "é" * (most // 2)))
            elif manner == "long":
                length = rng.choice((0, 1, 5, 20_000)) if rng.random() < 0.02 else rng.choice((0, 1, 7))
                yield rng.choice("xyz") * length
            elif manner == "points":  # ends of what one to four bytes hold
                yield "".join(
                    rng.choices("\0\x7f\x80\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff", k=3)
                )
            else:
                yield rng.choice(("", "\0", " ", "\0\0"))

    def binary(self, _: T) -> Iterator[bytes]:
        rng = self.rng
        while True:
            yield rng.choice((b"", b"\0", b"\xff", b"\xff\xff", rng.randbytes(3), b"\xc3", bytes(1025)))

    def varchar(self, type_: T) -> Iterator[str]:
        assert type_.max_length is not None
        while True:
            length = self.rng.choice((0, 1, type_.max_length // 2, type_.max_length))
            yield "".join(self.rng.choices("a\0 é\U0010ffff", k=min(length, type_.max_length)))

    def char(self, type_: T) -> Iterator[str]:
        return (text.rstrip(" ") for text in self.varchar(type_))

    def decimal(self, type_: T) -> Iterator[Decimal]:
        rng = self.rng
        assert type_.precision is not None and type_.scale is not None
        most: int = 10**type_.precision - 1
        while True:
            zeros = 10 ** rng.randrange(type_.precision)  # ends of many lengths
            number = rng.choice(
                (most, most - 1, 2**63, 2**63 - 1, 2**64, 2**126, zeros, zeros * 7, rng.randint(0, most))
            )
            number = min(number, most) * rng.choice((1, -1))
            yield Decimal(number).scaleb(-type_.scale, values.EXACT)

    def days(self, count: int) -> list[int]:
        rng = self.rng
        first, last = self.shape.first_day, 2_932_896
        if rng.random() < 0.5:
            near = (first, last, -141_427, -141_438, 0, -719_162, 2**15, 24_855)
            return self.paced(
                (max(first, min(last, rng.choice(near) + rng.randint(-2, 2))) for _ in itertools.count()),
                count,
            )
        return [max(first, min(last, day)) for day in integers(rng, 22, count)]

    def times(self, type_: T, count: int) -> list[int]:
        rng = self.rng
        zone = self.shape.zone if type_.kind == "timestamp" else "UTC"
        grain = 1 if self.shape.unit == "ns" else 1000
        first, last = self.shape.first_day * DAY, 253_402_300_799
        if self.shape.unit == "ns":
            first, last = max(first, -9_223_285_000), 9_223_285_000  # in every zone

        def fresh() -> Iterator[int]:
            while True:
                second = rng.choice(MOMENTS) + rng.choice(
                    (0, 0, 1, -1, 1800, -1800, 3599, 3600, -3600, 7200, rng.randint(-DAY, DAY))
                )
                if rng.random() < 0.2:
                    second = rng.randint(first, last)
                second = max(first, min(last, second))
                nanos = rng.choice(
                    (0, 0, 1, 999_999, 1_000_000, 999_999_999, 500_000_000, 123_456_000, rng.randrange(NANOS))
                )
                value = (second * NANOS + nanos) // grain * grain
                if values.survives(value, zone):
                    yield value

        return self.paced(fresh(), count)


def _order(value: Any) -> Any:
    """An order of any values of one kind; that of NaN does not matter."""
    return value.encode() if isinstance(value, str) else value


def integers(rng: random.Random, bits: int, count: int) -> list[int]:
    """Integers of so many bits, in a manner at which encoders stumble."""
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    manner = rng.choice(list(_MANNERS))
    found = list(itertools.islice(_MANNERS[manner](rng, bits, low, high), count))
    return [max(low, min(high, number)) for number in found]


def _overflowing(rng: random.Random, bits: int, low: int, high: int) -> Iterator[int]:
    """Differences just within and just beyond the width."""
    steps = (high, low, 1 << bits - 2, -(1 << bits - 2), high - 1, low + 1, 1, -1)
    number = rng.choice((low, high, 0))
    while True:
        for _ in range(rng.choice((2, 3, 4, 10, 600))):
            yield number
            number = (number + rng.choice(steps) - low) % (1 << bits) + low


def _alternating(rng: random.Random, bits: int, _: int, __: int) -> Iterator[int]:
    """Narrow and wide values by turns, each a few or exactly a run."""
    while True:
        width = rng.randint(1, bits)
        for _run in range(rng.choice(RUNS)):
            yield rng.getrandbits(width) - (1 << width - 1)


def _climbing(rng: random.Random, bits: int, low: int, high: int) -> Iterator[int]:
    """Up from one end to the other and down again, by steps that grow."""
    number, step = low, 1
    while True:
        yield number
        number += step + rng.choice((0, 0, 1))
        step = min(step * 2, 1 << bits - 1)
        if not low <= number <= high:
            number, step = rng.choice((low, high, low + 1, 0)), rng.choice((1, -1, 3))


def _plateaus(rng: random.Random, bits: int, low: int, high: int) -> Iterator[int]:
    number = rng.randint(low // 2, high // 2)
    direction = rng.choice((1, -1))
    while True:
        yield from itertools.repeat(number, rng.choice(RUNS))
        number += direction * rng.choice((1, 2, 1000, 1 << bits // 2))


def _gapped(rng: random.Random, bits: int, low: int, high: int) -> Iterator[int]:
    """Mostly small, with outliers more than 255 values apart, or many in one run."""
    base = rng.choice((low, high - 200, 0, -100, low // 2))
    outlier = rng.choice((high, low, base + (1 << bits // 2)))
    while True:
        for _ in range(rng.choice((1, 2, 20, 250, 255, 256, 300))):
            yield base + rng.randint(0, 100)
        yield outlier


def _stepped(rng: random.Random, _: int, low: int, high: int) -> Iterator[int]:
    """Fixed differences that break off."""
    while True:
        number, step = rng.randint(low, high), rng.choice((0, 1, -1, 127, 128, -129, high // 600))
        for _run in range(rng.choice(RUNS)):
            yield number
            number += step


def _powers(rng: random.Random, bits: int, _: int, __: int) -> Iterator[int]:
    while True:
        yield rng.choice((1, -1)) * (1 << rng.randrange(bits)) + rng.choice((-1, 0, 1))


_MANNERS: dict[str, Callable[[random.Random, int, int, int], Iterator[int]]] = {
    "overflowing": _overflowing,
    "alternating": _alternating,
    "climbing": _climbing,
    "plateaus": _plateaus,
    "gapped": _gapped,
    "stepped": _stepped,
    "powers": _powers,
}
