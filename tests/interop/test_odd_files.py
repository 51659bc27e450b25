"""Files at the edges of what writers write: odd schemas, values and settings, read in every way.

A case is drawn from one number. What a file holds is told by the plain-Python reader, once it agrees with
what was written or, where the writer at hand changes it, with a second reader.
"""

from __future__ import annotations

import random
import zoneinfo
from pathlib import Path
from typing import Any

import hypothesis
import pyorc
import pytest
from hypothesis import strategies as st
from pyarrow import orc

import orcstream
from tests.generators import arrow, odd_reading
from tests.generators.odd import JAVA_NAMES, NAMES, PLAIN_NAMES, Shape, draw_table
from tests.generators.strategies import CPP_COMPRESSIONS, JAVA_COMPRESSIONS, PLAIN, Table
from tests.interop.test_pyarrow_written import struct_in_nullable
from tests.interop.test_written_statistics import check_columns
from tests.reference import compare, java_orc, peers, reader
from tests.reference.types import T
from tests.support import writing

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("java")]

SEEDS = st.integers(0, 2**40)
ZONES = ("UTC", "Europe/Berlin", "America/Los_Angeles", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kolkata")
# Those that the parser of pyorc's schemas takes.
CPP_NAMES = ("a.b", "a.b.c", "größe", "名前", "with space", "key", "value", "A", "a", "0", "_col0", "x" * 300)
COUNTS = (0, 1, 7, 512, 1000, 1001, 3000)
COMPRESSION_KINDS = {
    "uncompressed": pyorc.CompressionKind.NONE,
    "zlib": pyorc.CompressionKind.ZLIB,
    "snappy": pyorc.CompressionKind.SNAPPY,
    "lz4": pyorc.CompressionKind.LZ4,
    "zstd": pyorc.CompressionKind.ZSTD,
}


def some(rng: random.Random, **options: tuple[Any, ...]) -> dict[str, Any]:
    """A value for about half of the options."""
    return {name: rng.choice(values) for name, values in options.items() if rng.random() < 0.5}


def names(rng: random.Random, odd: tuple[str, ...]) -> tuple[str, ...]:
    return odd if rng.random() < 0.4 else PLAIN_NAMES


# --- ORC Java ----------------------------------------------------------------------------------------


def java_case(folder: Path, seed: int) -> None:
    rng = random.Random(seed)
    zone = rng.choice(ZONES)
    unit = rng.choice(("ns", "us"))
    shape = Shape(
        zone=zone, unions=True, names=names(rng, JAVA_NAMES), empty_structs=True, unit=unit,
        big=rng.random() < 0.03,
    )  # fmt: skip
    count = rng.choice(COUNTS)
    batch_rows = rng.choice((64, 1024)) if count > 512 else rng.choice((1, 64, 1024))
    table = draw_table(rng, shape, count)
    path = folder / "java.orc"
    options = java_options(rng, table.type_)
    if options.get("orc.stripe.row.count") == 1 and count > 7:
        options["orc.stripe.row.count"] = 100
    java_orc.write(path, table.type_, table.rows, options=options, zone=zone, batch_rows=batch_rows)
    type_, rows = reader.read(path.read_bytes())
    assert type_ == table.type_
    if zone == "UTC" and not near_switch(table):
        compare.assert_same_rows(type_, rows, table.rows)
    compare.assert_same_rows(type_, rows, java_orc.read(path, type_))
    odd_reading.run(path, type_, rows, seed, unit)
    merge_case(folder, path, type_, rows, seed, unit)


def merge_case(folder: Path, path: Path, type_: T, rows: list[Any], seed: int, unit: str) -> None:
    """Now and then, the file with itself."""
    if seed % 4 == 0 and rows:
        merged = folder / "merged.orc"
        orcstream.blocking.merge([path, path], merged)
        compare.assert_same_rows(type_, java_orc.read(merged, type_), [*rows, *rows])
        odd_reading.run(merged, type_, [*rows, *rows], seed, unit)


def java_options(rng: random.Random, type_: T) -> dict[str, object]:
    options: dict[str, object] = {
        "orc.compress": rng.choice(JAVA_COMPRESSIONS),
        "orc.rows.between.memory.checks": rng.choice((1, 100, 5000)),
        **some(
            rng,
            **{
                "orc.compress.size": (100, 1023, 1024, 4096, 262_144, 1 << 20),
                "orc.stripe.size": (1, 1024, 20_000),
                "orc.stripe.row.count": (1, 999, 1000, 1001),
                "orc.row.index.stride": (1000, 1000, 1_000_000),
                "orc.create.index": (False, True),
                "orc.dictionary.key.threshold": (0.0, 0.5, 1.0),
                "orc.dictionary.early.check": (False, True),
                "orc.dictionary.implementation": ("rbtree", "hash"),
                "orc.dictionary.max.size.bytes": (100, 10_000),
                "orc.write.format": ("0.11", "0.12", "UNSTABLE-PRE-2.0"),
                "orc.encoding.strategy": ("SPEED", "COMPRESSION"),
                "orc.compression.strategy": ("SPEED", "COMPRESSION"),
                "orc.compression.zstd.level": (1, 19),
                "orc.proleptic.gregorian": (False, True),
                "orc.block.padding": (False, True),
                "orc.block.size": (4096, 65_536),
                "orc.block.padding.tolerance": (0.0, 1.0),
                "orc.base.delta.ratio": (1, 8),
                "orc.bloom.filter.write.version": ("original", "utf8"),
                "orc.bloom.filter.fpp": (0.5, 0.0001),
            },
        ),
    }
    plain = [name for name in type_.names if name.isalnum() and name.isascii()]
    if rng.random() < 0.5:
        options["orc.bloom.filter.columns"] = ",".join(plain)
    if rng.random() < 0.2:
        options["orc.column.encoding.direct"] = ",".join(plain)
    return options


def near_switch(table: Table) -> bool:
    """Whether a day may be of those that only the proleptic calendar has."""
    kinds = table.type_.walk_kinds()
    return bool(kinds & {"date", "timestamp", "timestamp with local time zone"})


# --- ORC C++ -----------------------------------------------------------------------------------------


def pyarrow_case(folder: Path, seed: int) -> None:
    rng = random.Random(seed)
    unit = rng.choice(("ns", "ns", "us"))
    stride = rng.choice((10, 100, 1000, 10_000))
    shape = Shape(
        kinds=(*PLAIN, "timestamp with local time zone"), stride=stride, names=names(rng, NAMES),
        unions=False, big=rng.random() < 0.03,
    )  # fmt: skip
    unit = "ns"
    table = draw_table(rng, shape, rng.choice(COUNTS))
    options = some(
        rng,
        compression_block_size=(65_536, 131_072),
        stripe_size=(1, 1024, 16_384, 1 << 20),
        batch_size=(1, 10, 1000, 1024),
        dictionary_key_size_threshold=(0.0, 0.01, 0.5, 1.0),
        compression_strategy=("speed", "compression"),
        padding_tolerance=(0.0, 1.0),
        bloom_filter_columns=(list(range(len(table.type_.names))),),
        bloom_filter_fpp=(0.5, 0.0001),
        file_version=("0.11", "0.12"),
    )
    options |= {"compression": rng.choice(CPP_COMPRESSIONS), "row_index_stride": stride}
    path = folder / "pyarrow.orc"
    orc.write_table(arrow.table_of(table.type_, table.rows), path, **options)
    type_, rows = reader.read(path.read_bytes())
    if not struct_in_nullable(type_):
        compare.assert_same_rows(type_, rows, table.rows)
    compare.assert_same_rows(type_, peers.pyorc_rows(path, type_), rows)
    odd_reading.run(path, type_, rows, seed, unit)


def pyorc_case(folder: Path, seed: int) -> None:
    rng = random.Random(seed)
    zone, unit = rng.choice(ZONES), rng.choice(("ns", "us"))
    stride = rng.choice((0, 10, 100, 1000, 10_000, 1_000_000))
    shape = Shape(
        zone=zone, stride=stride or 1000, first_day=-141_425, unit=unit, names=names(rng, CPP_NAMES),
        big=rng.random() < 0.03,
    )  # fmt: skip
    table = draw_table(rng, shape, rng.choice(COUNTS))
    options = some(
        rng,
        compression_block_size=(1024, 4096, 262_144),
        stripe_size=(1, 1024, 16_384),
        batch_size=(1, 10, 1024),
        dict_key_size_threshold=(0.0, 0.5, 1.0),
        compression_strategy=(pyorc.CompressionStrategy.SPEED, pyorc.CompressionStrategy.COMPRESSION),
        padding_tolerance=(0.0, 1.0),
        bloom_filter_columns=(list(range(1, 1 + len(table.type_.names))),),
        bloom_filter_fpp=(0.5, 0.0001),
    )
    if "compression_block_size" in options:
        options["memory_block_size"] = options["compression_block_size"]
    options |= {"compression": COMPRESSION_KINDS[rng.choice(CPP_COMPRESSIONS)], "row_index_stride": stride}
    path = folder / "pyorc.orc"
    peers.write_pyorc(path, table.type_, table.rows, timezone=zoneinfo.ZoneInfo(zone), **options)
    type_, rows = reader.read(path.read_bytes())
    if zone == "UTC" or "timestamp" not in type_.walk_kinds():
        compare.assert_same_rows(type_, rows, table.rows)
    compare.assert_same_rows(type_, rows, java_orc.read(path, type_))
    odd_reading.run(path, type_, rows, seed, unit)


# --- our own writer ----------------------------------------------------------------------------------


def our_case(folder: Path, seed: int) -> None:
    rng = random.Random(seed)
    zone, unit = rng.choice(ZONES), rng.choice(("ns", "us"))
    stride = rng.choice((0, 1, 7, 8, 100, 1000, 1_000_000))
    calendar = rng.choice(("proleptic", "proleptic", "hybrid"))
    shape = Shape(
        zone=zone, stride=stride if stride > 1 else 8, unit=unit, unions=rng.random() < 0.5,
        names=names(rng, NAMES), empty_structs=rng.random() < 0.5, big=rng.random() < 0.03,
        first_day=-719_162 if calendar == "proleptic" else -141_427,
    )  # fmt: skip
    table = draw_table(rng, shape, rng.choice(COUNTS[:5] if stride == 1 else COUNTS))
    options = our_options(rng, table.type_) | {
        "timezone": zone, "calendar": calendar, "row_index_stride": stride,
    }  # fmt: skip
    options["blooms"] = blooms(rng, table.type_) if stride else None
    path = folder / "ours.orc"
    form = rng.choice(list(writing.FORMS)) if unit == "ns" else rng.choice(("tuples", "dicts"))
    parts = writing.pieces(table.type_, table.rows, table.seed, form)
    writing.write(path, table.type_, parts, **options)
    type_, rows = reader.read(path.read_bytes())
    assert type_ == table.type_
    expected = [writing.in_file(table.type_, row) for row in table.rows]
    compare.assert_same_rows(type_, rows, expected)
    if options["compression"] != "brotli":
        judge(path, type_, rows, options, rng)
        if not any("`" in name for node in type_.flatten() for name in node.names):
            merge_case(folder, path, type_, rows, seed, unit)
    odd_reading.run(path, type_, rows, seed, unit)


def our_options(rng: random.Random, type_: T) -> dict[str, Any]:
    return {
        "compression": rng.choice((*writing.COMPRESSIONS, "brotli")),
        **some(
            rng,
            block_bytes=(1024, 1025, 4095, 65_536, (1 << 23) - 1),
            stripe_bytes=(1024, 5000, 100_000),
            dictionary_threshold=(0, 0.01, 0.5, 1),
            encoding_strategy=("speed", "compression"),
            file_version=("0.11", "0.12", "UNSTABLE-PRE-2.0"),
            original_blooms=(False, True),
            memory_limit=(16 << 20,),
            encode_threads=(1, 3),
        ),
    }


def blooms(rng: random.Random, type_: T) -> dict[Any, float]:
    return {
        (name,): rng.choice((0.5, 0.01, 0.00001))
        for name, child in zip(type_.names, type_.children, strict=True)
        if not child.children and child.kind not in ("boolean", "struct") and rng.random() < 0.5
    }


def judge(path: Path, type_: T, rows: list[Any], options: dict[str, Any], rng: random.Random) -> None:
    if not any("`" in name for node in type_.flatten() for name in node.names):
        compare.assert_same_rows(type_, java_orc.read(path, type_), rows)
        check_statistics(path, type_, rows)
        # Java cannot seek to the end of a stream without compression, of which it needs no byte.
        if options["compression"] != "none":
            check_pruning(path, type_, rows, rng)
    kinds = type_.walk_kinds()
    if options["compression"] == "lzo" or "uniontype" in kinds or empty_struct(type_):
        return
    if kinds & {"timestamp", "timestamp with local time zone"} or options["calendar"] == "hybrid":
        return
    compare.assert_same_rows(type_, peers.pyorc_rows(path, type_), rows)
    compare.assert_same_rows(type_, peers.pyarrow_rows(path, type_), rows)


def check_statistics(path: Path, type_: T, rows: list[Any]) -> None:
    """Of the file, of stripes and of row groups: what Java makes of them, against the values."""
    told = java_orc.statistics(path)
    check_columns(type_, rows, told["file"])
    tail = reader.read_tail(path.read_bytes())
    first = 0
    for number, span in enumerate(tail.stripes):
        inside = rows[first : first + span.row_count]
        check_columns(type_, inside, told["stripes"][number])
        groups = told["groups"][number] if told["groups"] else []
        stride = tail.stride
        for group, found in enumerate(groups):
            check_columns(type_, inside[group * stride : (group + 1) * stride], found)
        first += span.row_count


PRUNED = {"float": "FLOAT", "double": "FLOAT", "string": "STRING", "varchar": "STRING", "date": "DATE"}
PRUNED |= dict.fromkeys(("tinyint", "smallint", "int", "bigint"), "LONG")
PRUNED |= {"decimal": "DECIMAL", "timestamp": "TIMESTAMP", "timestamp with local time zone": "TIMESTAMP"}


def check_pruning(path: Path, type_: T, rows: list[Any], rng: random.Random) -> None:
    """Java, which drops row groups by our statistics and filters, drops no row that matches."""
    leaves = [
        i for i, child in enumerate(type_.children) if child.kind in PRUNED and type_.names[i].isalnum()
    ]
    for index in rng.sample(leaves, min(3, len(leaves))):
        child = type_.children[index]
        values = [row[index] for row in rows if row[index] is not None and row[index] == row[index]]
        # Java's literals of days and times before 1582 are of the hybrid calendar; times end with 64 bits.
        low, high = {"DATE": (-141_427, 1 << 62), "TIMESTAMP": (-(1 << 63), (1 << 63) - 1)}.get(
            PRUNED[child.kind], (None, None)
        )
        if low is not None:
            values = [value for value in values if low <= value <= high]
        if not values:
            continue
        operator = rng.choice(("EQUALS", "LESS_THAN", "LESS_THAN_EQUALS", "NOT_LESS_THAN", "BETWEEN", "IN"))
        literals = [rng.choice(values) for _ in range({"BETWEEN": 2, "IN": 3}.get(operator, 1))]
        literals = sorted(literals) if operator == "BETWEEN" else literals
        wanted = [row for row in rows if row[index] is not None and _holds(operator, row[index], literals)]
        kind = PRUNED[child.kind]
        written = [str(value).replace("inf", "Infinity") if kind == "FLOAT" else value for value in literals]
        found: list[Any] = java_orc.read_groups(path, type_, type_.names[index], kind, operator, written)
        left = [row for row in found if row[index] is not None and _holds(operator, row[index], literals)]
        compare.assert_same_rows(type_, left, wanted)


def _holds(operator: str, value: Any, literals: list[Any]) -> bool:
    if operator in ("EQUALS", "IN"):
        return value in literals
    if operator == "BETWEEN":
        return bool(literals[0] <= value <= literals[1])
    if operator == "LESS_THAN":
        return bool(value < literals[0])
    return bool(value <= literals[0]) if operator == "LESS_THAN_EQUALS" else bool(value >= literals[0])


def empty_struct(type_: T) -> bool:
    return any(node.kind == "struct" and not node.names for node in type_.flatten())


CASES = {"java": java_case, "pyarrow": pyarrow_case, "pyorc": pyorc_case, "ours": our_case}


@pytest.mark.parametrize("writer", CASES)
@hypothesis.settings(max_examples=max(1, hypothesis.settings().max_examples // 6))
@hypothesis.given(seed=SEEDS)
def test_odd_files(tmp_path_factory: pytest.TempPathFactory, writer: str, seed: int) -> None:
    CASES[writer](tmp_path_factory.mktemp("odd"), seed)
