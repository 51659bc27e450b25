"""Random schemas, rows and writer options, for tests that write with one implementation and read with ours.

Hypothesis draws the shape (types, row count, options) and a seed; the values come from the seed, column
by column, each with a texture of its own (constant, runs, steps, few distinct, outliers, ...), because it
is textures that make writers choose their encodings. So failures shrink in shape, and large columns stay
cheap.
"""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from tests.reference import values
from tests.reference.types import T, Union
from tests.support.effort import ALL

INTEGERS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
PLAIN = ("boolean", *INTEGERS, "float", "double", "string", "binary", "date", "timestamp", "decimal")
EVERYTHING = (*PLAIN, "char", "varchar", "timestamp with local time zone")
# At most two row groups, stripes or pieces of what is cut at 1,000 rows: the third takes most of the time.
ROW_COUNTS = (0, 1, 2, 10, 100, 1100, *((3000,) if ALL else ()))
NAMES = ("a", "b", "C", "a_b", "x1", "größe", "with space", "do.t", "_", "order")


def leaves(kinds: tuple[str, ...]) -> st.SearchStrategy[T]:
    return st.sampled_from(kinds).flatmap(_leaf)


def _leaf(kind: str) -> st.SearchStrategy[T]:
    if kind in ("char", "varchar"):
        return st.integers(1, 40).map(lambda length: T(kind, max_length=length))
    if kind == "decimal":
        shapes = st.integers(1, 38).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, p)))
        return shapes.map(lambda shape: T(kind, precision=shape[0], scale=shape[1]))
    return st.just(T(kind))


def structs(
    children: st.SearchStrategy[T], *, most: int = 4, plain_names: bool = False
) -> st.SearchStrategy[T]:
    names = NAMES[:5] if plain_names else NAMES
    fields = st.lists(
        st.tuples(st.sampled_from(names), children), min_size=1, max_size=most, unique_by=_lower
    )
    return fields.map(lambda found: T("struct", tuple(t for _, t in found), tuple(n for n, _ in found)))


def _lower(field: tuple[str, T]) -> str:
    return field[0].lower()


def schemas(
    kinds: tuple[str, ...] = PLAIN,
    *,
    unions: bool = False,
    depth: int = 4,
    plain_names: bool = False,
) -> st.SearchStrategy[T]:
    """A root struct over columns nested up to `depth` levels."""
    level = leaves(kinds)
    keys = leaves(tuple(kind for kind in kinds if kind in ("int", "bigint", "string", "date")))
    for _ in range(depth - 1):
        inner = level
        nested = [
            inner.map(lambda child: T("array", (child,))),
            st.tuples(keys, inner).map(lambda pair: T("map", pair)),
            structs(inner, most=3, plain_names=plain_names),
        ]
        if unions:
            nested.append(st.lists(inner, min_size=1, max_size=3).map(lambda c: T("uniontype", tuple(c))))
        level = st.one_of(leaves(kinds), *nested)
    return structs(level, plain_names=plain_names)


class Table:
    """A schema and its rows; no dataclass, because hypothesis prints those with all their rows."""

    def __init__(self, type_: T, rows: list[tuple[object, ...]], seed: int) -> None:
        self.type_ = type_
        self.rows = rows
        self.seed = seed

    def __repr__(self) -> str:
        text = str(self.type_)
        if len(text) > 2000:  # hypothesis warns of larger ones
            text = f"{text[:2000]}... ({len(text)} characters)"
        return f"Table({text!r}, {len(self.rows)} rows of seed {self.seed})"


@dataclass(frozen=True)
class Limits:
    """What the writer at hand can take."""

    zone: str = "UTC"
    first_day: int = -719_162
    last_day: int = 2_932_896
    null_unions: bool = True


@st.composite
def tables(draw: st.DrawFn, types: st.SearchStrategy[T], limits: Limits | None = None) -> Table:
    count = draw(st.sampled_from(ROW_COUNTS))
    return make_table(draw(types), count, draw(st.integers(0, 2**32)), limits or Limits())


def make_table(type_: T, count: int, seed: int, limits: Limits) -> Table:
    rng = random.Random(seed)
    cells = _Columns(rng, limits)
    columns = [cells.column(child, count) for child in type_.children]
    return Table(type_, list(zip(*columns, strict=True)), seed)


class _Columns:
    """Makes columns: each call decides on a texture and keeps it."""

    def __init__(self, rng: random.Random, limits: Limits) -> None:
        self.rng = rng
        self.limits = limits

    def column(self, type_: T, count: int, *, nullable: bool = True) -> list[Any]:
        share = self.rng.choice((0, 0, 0.02, 0.3, 0.95, 1)) if nullable else 0
        if type_.kind == "uniontype" and not self.limits.null_unions:
            share = 0
        blocks = self.rng.random() < 0.4
        null = [False] * count
        at = 0
        while share and at < count:
            length = self.rng.randint(1, 700) if blocks else 1
            if self.rng.random() < share:
                null[at : at + length] = [True] * len(null[at : at + length])
            at += length
        there = self.some(type_, null.count(False))
        if type_.kind == "string" and there and self.rng.random() < 0.1:
            there[self.rng.randrange(len(there))] = "huge " * 20_000
        found = iter(there)
        return [None if flag else next(found) for flag in null]

    def some(self, type_: T, count: int) -> list[Any]:
        kind = type_.kind
        if kind == "struct":
            return list(zip(*(self.column(child, count) for child in type_.children), strict=True))
        if kind in ("array", "map"):
            return self.collections(type_, count)
        if kind == "uniontype":
            tags = self.textured(lambda: self.rng.randrange(len(type_.children)), count)
            parts = [iter(self.column(t, tags.count(i))) for i, t in enumerate(type_.children)]
            return [Union(tag, next(parts[tag])) for tag in tags]
        if kind in INTEGERS:
            return self.integers(INTEGERS[kind], count)
        maker = getattr(self, f"one_{kind.split(' ')[0]}")
        return self.textured(lambda: maker(type_), count)

    def collections(self, type_: T, count: int) -> list[Any]:
        longest = self.rng.choice((0, 1, 3, 5))
        sizes = [self.rng.randint(0, longest) for _ in range(count)]
        if count and longest and self.rng.random() < 0.1:
            sizes[self.rng.randrange(count)] = 600
        items = self.column(type_.children[0], sum(sizes), nullable=type_.kind == "array")
        if type_.kind == "map":
            items = list(zip(items, self.column(type_.children[1], sum(sizes)), strict=True))
        out = []
        at = 0
        for size in sizes:
            cut = items[at : at + size]
            out.append(list(dict(cut).items()) if type_.kind == "map" else cut)
            at += size
        return out

    def textured(self, make: Callable[[], Any], count: int) -> list[Any]:
        texture = self.rng.choice(("random", "random", "constant", "few", "runs"))
        if texture == "random":
            return [make() for _ in range(count)]
        if texture == "constant":
            return [make()] * count
        if texture == "few":
            words = [make() for _ in range(self.rng.randint(1, 20))]
            return [self.rng.choice(words) for _ in range(count)]
        out: list[Any] = []
        while len(out) < count:
            out += [make()] * self.rng.randint(1, 300)
        return out[:count]

    def integers(self, bits: int, count: int) -> list[int]:
        low, high = -(1 << bits - 1), (1 << bits - 1) - 1
        rng = self.rng
        texture = rng.randrange(7)
        small = min(high, 1 << rng.randrange(1, bits))
        if texture == 0:
            return self.textured(lambda: rng.randint(low, high), count)
        if texture == 1:
            return [rng.randint(0, small) for _ in range(count)]
        if texture == 2:  # outliers: patched base
            base = rng.randint(low // 2, high // 2)
            wide = [
                rng.choice((low, high)) if rng.random() < 0.02 else base + rng.randint(0, 30)
                for _ in range(count)
            ]
            return [max(low, min(high, number)) for number in wide]
        if texture in (3, 4):  # steps, fixed or varying, up or down
            step = rng.choice((1, -1, 0, 7, -3)) if bits > 8 else 0
            start = rng.randint(low // 4, high // 4)
            noise = 5 if texture == 4 and bits > 16 and step else 0
            out = []
            for _ in range(count):
                out.append(max(low, min(high, start)))
                start += step + (rng.randint(0, noise) if step >= 0 else -rng.randint(0, noise))
            return out
        if texture == 5:
            return self.textured(lambda: rng.choice((low, high, 0, -1, 1)), count)
        return self.textured(lambda: rng.randint(max(low, -small), small), count)

    def one_boolean(self, _: T) -> bool:
        return self.rng.random() < 0.5

    def one_double(self, _: T) -> float:
        special = (0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, 1.7976931348623157e308, 1.0)
        return self.rng.choice(special) if self.rng.random() < 0.3 else self.rng.gauss(0, 1e6)

    def one_float(self, _: T) -> float:
        special = (0.0, -0.0, math.inf, -math.inf, math.nan, 1.401298464324817e-45, 3.4028234663852886e38)
        value = self.rng.choice(special) if self.rng.random() < 0.3 else self.rng.gauss(0, 1e6)
        return float(struct.unpack("<f", struct.pack("<f", value))[0])

    def one_string(self, _: T) -> str:
        rng = self.rng
        alphabet = rng.choice(("ab", "0123456789", "äöü€𝄞日本", " \x00\n\t"))
        return "".join(rng.choice(alphabet) for _ in range(rng.choice((0, 1, 3, 20, 100))))

    def one_binary(self, _: T) -> bytes:
        return self.rng.randbytes(self.rng.choice((0, 1, 5, 70)))

    def one_varchar(self, type_: T) -> str:
        assert type_.max_length is not None
        return "".join(self.rng.choice("aé日 ") for _ in range(self.rng.randint(0, type_.max_length)))

    def one_char(self, type_: T) -> str:
        return self.one_varchar(type_).rstrip(" ")

    def one_date(self, _: T) -> int:
        low, high = self.limits.first_day, self.limits.last_day
        return self.rng.choice((0, -1, low, high, self.rng.randint(low, high), self.rng.randint(0, 20_000)))

    def one_decimal(self, type_: T) -> Decimal:
        assert type_.precision is not None and type_.scale is not None
        most: int = 10**type_.precision - 1
        digits = 10 ** self.rng.randint(1, type_.precision)
        number = self.rng.choice(
            (0, 1, -1, most, -most, self.rng.randrange(digits), -self.rng.randrange(digits))
        )
        return Decimal(number).scaleb(-type_.scale, values.EXACT)

    def one_timestamp(self, type_: T) -> int:
        """Within 64-bit nanoseconds, and such that the format can hold it."""
        zone = self.limits.zone if type_.kind == "timestamp" else "UTC"
        while True:
            rng = self.rng
            span = rng.choice((10**9, 86_400 * 10**9, 10**18, 9_190_000_000 * 10**9))
            value = rng.randint(-span, span)
            grain = rng.choice((1, 1000, 10**6, 10**9))
            value = value // grain * grain
            if values.survives(value, zone):
                return value


JAVA_COMPRESSIONS = ("NONE", "ZLIB", "SNAPPY", "LZO", "LZ4", "ZSTD")
CPP_COMPRESSIONS = ("uncompressed", "zlib", "snappy", "lz4", "zstd")
ZONES = ("UTC", "America/Los_Angeles", "Asia/Shanghai", "Europe/Dublin", "Australia/Lord_Howe")


def java_options() -> st.SearchStrategy[dict[str, object]]:
    return st.fixed_dictionaries(
        {"orc.compress": st.sampled_from(JAVA_COMPRESSIONS)},
        optional={
            "orc.compress.size": st.sampled_from((1024, 4096, 65536)),
            "orc.stripe.row.count": st.sampled_from((1000, 2000)),
            "orc.row.index.stride": st.sampled_from((1000, 10_000)),
            "orc.create.index": st.just(value=False),
            "orc.dictionary.key.threshold": st.sampled_from((0.0, 0.5, 1.0)),
            "orc.write.format": st.sampled_from(("0.11", "0.12")),
            "orc.encoding.strategy": st.sampled_from(("SPEED", "COMPRESSION")),
            "orc.proleptic.gregorian": st.booleans(),
            "bloom": st.just(value=True),
        },
    )


def cpp_options() -> st.SearchStrategy[dict[str, Any]]:
    """Options of pyarrow's writer; pyorc's are made of them."""
    return st.fixed_dictionaries(
        {"compression": st.sampled_from(CPP_COMPRESSIONS)},
        optional={
            "compression_block_size": st.sampled_from((1024, 4096, 65536)),
            "stripe_size": st.sampled_from((1024, 16_384, 1 << 20)),
            "batch_size": st.sampled_from((10, 100, 1024)),
            "row_index_stride": st.sampled_from((0, 10, 100, 1000, 10_000)),
            "dictionary_key_size_threshold": st.sampled_from((0.0, 0.5, 1.0)),
            "bloom": st.just(value=True),
        },
    )
