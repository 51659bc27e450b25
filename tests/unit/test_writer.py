"""What a writer makes of unusual data: empty files, wide and deep ones, times that no file holds."""

from __future__ import annotations

import io
import os
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import anyio
import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

import orcstream
import orcstream.blocking
from orcstream.byterange import BytesLike
from orcstream.codec.encode.file_encoder import FileEncoder, StripeEncoder
from orcstream.errors import SchemaMismatch, UsageError
from orcstream.writer.creating import WholeFile
from orcstream.writer.workers import Outflow
from tests.reference import reader
from tests.reference.types import T, parse
from tests.support import reading

MIB = 1 << 20


async def written(*parts: object, schema: object = None, **options: Any) -> bytes:
    buffer = io.BytesIO()
    async with orcstream.create(buffer, schema, **options) as out:
        for part in parts:
            await out.write(part)
    return buffer.getvalue()


async def read(data: bytes, folder: Path, **options: Any) -> pa.Table:
    (folder / "a.orc").write_bytes(data)
    return await reading.read_table(folder / "a.orc", **options)


# --- nothing, and little ---------------------------------------------------------------------------


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize("parts", [[], [[]], [[], {"a": np.empty(0, "i4")}, []]], ids=["none", "one", "many"])
async def test_no_rows(tmp_path: Path, parts: list[Any], compression: str) -> None:
    schema = "struct<a:int,s:string,l:array<map<string,date>>,b:boolean,u:uniontype<int,string>>"
    data = await written(*parts, schema=schema, compression=compression, user_metadata={"k": "v"})
    assert reader.read(data) == (parse(schema), [])
    table = await read(data, tmp_path)
    assert (table.num_rows, table.num_columns) == (0, 5)
    judge = pa.orc.ORCFile(pa.BufferReader(data))
    assert (judge.nrows, judge.nstripes) == (0, 0)
    async with orcstream.open(str(tmp_path / "a.orc")) as file:
        assert file.statistics["a"].value_count == 0


async def test_nothing_at_all() -> None:
    with pytest.raises(UsageError, match=r"\bschema\b.*\bcreate\(\)"):
        await written()
    out = await orcstream.create(io.BytesIO())
    with pytest.raises(UsageError, match=r"\bschema\b.*\bcreate\(\)"):
        await out.prepare()
    await out.abort()


async def test_no_columns(tmp_path: Path) -> None:
    data = await written([(), {}, ()], schema="struct<>", row_index_stride=2)
    assert reader.read(data) == (T("struct"), [(), (), ()])
    assert (await read(data, tmp_path)).num_rows == 3
    assert pa.orc.ORCFile(pa.BufferReader(data)).nrows == 3


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        ("bigint", [5, None, 7]),
        ("string", ["a", None]),
        ("array<int>", [[1, None], None, []]),
        ("boolean", [True] * 9),
    ],
)
async def test_a_root_that_is_no_struct(tmp_path: Path, schema: str, values: list[Any]) -> None:
    data = await written(values, schema=schema, row_index_stride=2)
    assert reader.read(data) == (parse(schema), values)
    assert (await read(data, tmp_path)).column(0).to_pylist() == values


async def test_batches_without_rows_change_nothing() -> None:
    rows = [(n, str(n)) for n in range(25)]
    schema = "struct<a:int,s:string>"
    plain = await written(rows[:9], rows[9:], schema=schema, row_index_stride=10)
    more = await written([], rows[:9], [], rows[9:], [], schema=schema, row_index_stride=10)
    assert more == plain


async def test_an_empty_list_says_nothing_of_the_schema(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    async with orcstream.create(buffer) as out:
        nothing: list[Any] = [[], (), {}]
        for empty in nothing:
            assert await out.write(empty) == 0
        assert out.schema is None
        await out.write([{"a": 1}])
        await out.write([])
    assert (await read(buffer.getvalue(), tmp_path)).to_pylist() == [{"a": 1}]


async def test_the_schema_of_the_first_data() -> None:
    @dataclass
    class Row:
        a: int
        s: str | None

    for first in (
        pa.table({"a": pa.array([1], pa.int64()), "s": ["x"]}),
        {"a": np.array([1]), "s": ["x"]},
        [Row(1, "x")],
        [{"a": 1, "s": "x"}],
    ):
        data = await written(first, [{"a": 2}])
        assert reader.read(data) == (parse("struct<a:bigint,s:string>"), [(1, "x"), (2, None)])


# --- large, wide, deep -----------------------------------------------------------------------------


async def test_a_thousand_columns(tmp_path: Path) -> None:
    names = [f"c{n}" for n in range(1000)]
    table = pa.table({name: pa.array(range(n, n + 50), pa.int64()) for n, name in enumerate(names)})
    data = await written(table, table, row_index_stride=20, memory_limit=16 * MIB)
    assert (await read(data, tmp_path)).equals(pa.concat_tables([table, table]))
    assert pa.orc.read_table(pa.BufferReader(data)).equals(pa.concat_tables([table, table]))


@pytest.mark.parametrize(
    "options", [{"row_index_stride": 1}, {"blooms": {"a": 0.0001}, "row_index_stride": 10}]
)
async def test_row_groups_and_filters_are_held_memory(options: dict[str, Any]) -> None:
    """And so is what becomes of them at the end of the stripe."""
    column = {"a": np.zeros(10_000, "i8")}
    out = await orcstream.create(io.BytesIO(), "struct<a:bigint>", **options)
    try:
        before = out.held_bytes
        for _ in range(4):
            await out.write(column)
        held = out.held_bytes - before
        tracemalloc.start()
        await out.end_stripe()
        peak = tracemalloc.get_traced_memory()[1]
        groups = 40_000 // options["row_index_stride"]
        # Five numbers of positions, and at the end the statistics with their bytes.
        assert max(peak, groups * 5 * 8) < held < 8 * peak
    finally:
        tracemalloc.stop()
        await out.abort()


async def test_a_stripe_that_waits_for_the_one_before_is_held_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, waits, may_write = [], anyio.Event(), anyio.Event()
    begin_stripe, start, write = FileEncoder.begin_stripe, Outflow.start, WholeFile.write

    def begin(encoder: FileEncoder) -> StripeEncoder:
        begun.append(begin_stripe(encoder))
        return begun[-1]

    async def start_noted(outflow: Outflow, pieces: Iterator[Any], size: int) -> None:
        if len(begun) > 1:
            waits.set()
        await start(outflow, pieces, size)

    async def write_late(file: WholeFile, data: BytesLike) -> None:
        await may_write.wait()
        await write(file, data)

    monkeypatch.setattr(FileEncoder, "begin_stripe", begin)
    monkeypatch.setattr(Outflow, "start", start_noted)
    monkeypatch.setattr(WholeFile, "write", write_late)
    schema, rows = "struct<s:string>", [(os.urandom(MIB // 2).hex(),), ("x",)]
    options: dict[str, Any] = {"compression": "none", "dictionary_threshold": 1}
    async with orcstream.create(io.BytesIO(), schema, **options) as out:
        await out.write(rows)
        await out.end_stripe()
        await out.write(rows)
        async with anyio.create_task_group() as group:
            group.start_soon(out.end_stripe)
            await waits.wait()
            assert 2 * MIB < out.held_bytes < 2.1 * MIB, "the bytes of both stripes"
            assert begun[1].held_bytes < MIB // 10, "the dictionary is let go"
            may_write.set()


@pytest.mark.parametrize("threshold", [0, 1])
async def test_a_row_of_ten_megabytes(tmp_path: Path, threshold: int) -> None:
    values = [os.urandom(5 * MIB).hex(), None, "", "small", "x" * (10 * MIB)]
    data = await written(
        [(value,) for value in values],
        schema="struct<s:string>",
        dictionary_threshold=threshold,
        memory_limit=16 * MIB,
    )
    assert (await read(data, tmp_path)).column(0).to_pylist() == values
    assert pa.orc.read_table(pa.BufferReader(data)).column(0).to_pylist() == values


async def test_long_lists_and_deep_ones(tmp_path: Path) -> None:
    deep = "array<" * 20 + "int" + ">" * 20
    value: Any = 7
    for _ in range(20):
        value = [value, value] if not isinstance(value, list) or len(str(value)) < 100 else [value]
    rows = [(list(range(300_000)), value), (None, None), ([], [])]
    data = await written(rows, schema=f"struct<l:array<bigint>,d:{deep}>", memory_limit=16 * MIB)
    table = await read(data, tmp_path)
    assert [tuple(row.values()) for row in table.to_pylist()] == rows


# --- stripes and metadata --------------------------------------------------------------------------


async def test_stripes_end_where_they_are_told_to(tmp_path: Path) -> None:
    async with orcstream.create(str(tmp_path / "a.orc"), "struct<a:int>", row_index_stride=10) as out:
        await out.end_stripe()  # of no rows: there is none
        for count in (3, 25, 10):
            await out.write([(n,) for n in range(count)])
            assert out.stripe_count < 3
            await out.end_stripe()
            await out.end_stripe()
        assert (out.row_count, out.stripe_count) == (38, 3)
    assert (out.result.row_count, out.result.stripe_count) == (38, 3)
    tail = reader.read_tail((tmp_path / "a.orc").read_bytes())
    assert [span.row_count for span in tail.stripes] == [3, 25, 10]
    assert pa.orc.ORCFile(tmp_path / "a.orc").nstripes == 3


async def test_user_metadata(tmp_path: Path) -> None:
    given: dict[str, str | bytes] = {"text": "größe", "raw": b"\x00\xff"}
    async with orcstream.create(str(tmp_path / "a.orc"), "struct<a:int>", user_metadata=given) as out:
        out.add_user_metadata({"late": "1", "text": "other"})
        with pytest.raises(UsageError):
            out.add_user_metadata({"a": 1})  # type: ignore[dict-item]
        for half in ({"\ud800": b""}, {"a": "\ud800"}):
            with pytest.raises(UsageError, match="surrogate"):
                out.add_user_metadata(half)
    assert pa.orc.ORCFile(tmp_path / "a.orc").metadata == {
        b"text": b"other",
        b"raw": b"\x00\xff",
        b"late": b"1",
    }


@pytest.mark.parametrize("data", [[{"\ud800": 1}], {"\ud800": np.arange(3)}], ids=["rows", "numpy"])
async def test_names_are_what_utf_8_can_hold(tmp_path: Path, data: object) -> None:
    path = tmp_path / "a.orc"
    with pytest.raises(UsageError, match="surrogate"):
        async with orcstream.create(str(path)) as out:
            await out.write(data)
    assert not path.exists()


async def test_tags_end_with_those_of_arrow(tmp_path: Path) -> None:
    """A file may have 256 children of a union; one byte of Arrow's tags has a sign."""
    path = tmp_path / "a.orc"
    schema = f"struct<u:uniontype<{','.join(['int'] * 129)}>>"
    last = orcstream.UnionValue(127, 5)
    async with orcstream.create(str(path), schema) as out:
        await out.write([{"u": last}])
        with pytest.raises(UsageError, match=r"\b127\b"):
            await out.write([{"u": orcstream.UnionValue(128, 5)}])
    async with orcstream.open(str(path)) as file:
        assert (await file.read()).to_pylist() == [{"u": last}]


# --- the same bytes --------------------------------------------------------------------------------

WORDS = [None if n % 7 == 0 else f"w{n * n % 50}" for n in range(3000)]
LAYOUTS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "plain": lambda array: array,
    "dictionary": lambda array: array.dictionary_encode(),
    "another dictionary": lambda array: pa.DictionaryArray.from_arrays(
        pa.array([None if w is None else 99 - int(w[1:]) for w in array.to_pylist()], pa.int16()),
        pa.array([f"w{99 - n}" for n in range(100)]),
    ),
    "large": lambda array: array.cast(pa.large_string()),
    # What older versions of pyarrow cast to views, they cannot export.
    "view": lambda array: pa.array(array.to_pylist(), pa.string_view()),
}


@pytest.mark.parametrize("threshold", [0, 0.8, 1])
async def test_the_layout_of_texts_does_not_show(threshold: float) -> None:
    texts = pa.array(WORDS)
    options: dict[str, Any] = {"row_index_stride": 700, "dictionary_threshold": threshold, "blooms": ["s"]}
    found = [
        await written(pa.table({"s": relaid(texts)}), schema="struct<s:string>", **options)
        for relaid in LAYOUTS.values()
    ]
    assert all(data == found[0] for data in found)


@pytest.mark.parametrize("threads", [1, 2, 5])
async def test_the_same_bytes_whatever_the_threads(threads: int) -> None:
    table = pa.table({f"c{n}": pa.array(WORDS[n:] + WORDS[:n]) for n in range(9)})
    options: dict[str, Any] = {"stripe_bytes": 4096, "block_bytes": 1024}
    parts = [table.slice(start, 500) for start in range(0, 3000, 500)]
    first = await written(*parts, encode_threads=3, **options)
    assert await written(*parts, encode_threads=threads, **options) == first


async def test_how_data_is_cut_does_not_show_in_stripes_that_are_told() -> None:
    """But for sums of floating point, which are added up as they come."""
    table = pa.table(
        {"s": pa.array(WORDS), "n": pa.array(range(3000)), "l": [[n] * (n % 4) for n in range(3000)]}
    )
    options: dict[str, Any] = {"row_index_stride": 700, "blooms": ["s"]}
    whole = await written(table, **options)
    for step in (1000, 333):
        parts = [table.slice(start, step) for start in range(0, 3000, step)]
        assert await written(*parts, **options) == whole


@pytest.mark.parametrize("distinct", [True, False])
async def test_a_dictionary_is_judged_by_values_and_not_by_nulls(tmp_path: Path, distinct: bool) -> None:
    """Row groups of nulls come first; then all values are different, or few are."""
    values = [None] * 250 + [f"{n if distinct else n % 3:05}" for n in range(1000)]
    rows = [(value,) for value in values]
    path = tmp_path / "a.orc"
    async with orcstream.create(str(path), "struct<s:string>", row_index_stride=100) as out:
        await out.write(rows[:120])
        await out.write(rows[120:])
    async with orcstream.open(str(path)) as file:
        encoding = (await file.stripe_footer(0)).encodings[1]
        assert encoding.kind.name == ("DIRECT_V2" if distinct else "DICTIONARY_V2")
        assert encoding.dictionary_size == (0 if distinct else 3)
        for start in range(0, len(rows), 50):
            found = pa.table(await file.read(rows=range(start, start + 20)))
            assert found.column(0).to_pylist() == values[start : start + 20]


# --- what does not fit -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [
        [(1, "x"), (2, 3)],
        [(1 << 31, "x")],
        [{"a": 1, "z": 2}],
        {"a": np.array([1.5]), "s": ["x"]},
        pa.table({"a": [1], "z": [2]}),
    ],
)
async def test_data_that_does_not_fit_leaves_no_trace(bad: object) -> None:
    schema = "struct<a:int,s:string>"
    buffer = io.BytesIO()
    async with orcstream.create(buffer, schema) as out:
        await out.write([(1, "x")])
        with pytest.raises(SchemaMismatch):
            await out.write(bad)
        assert out.row_count == 1
        await out.write([(2, "y")])
    assert buffer.getvalue() == await written([(1, "x")], [(2, "y")], schema=schema)


HALF = np.datetime64("1969-12-31T23:59:59.500", "ms")
FINE = np.datetime64("1969-12-31T23:59:59.000999", "us")


async def test_times_of_the_last_second_before_1970(tmp_path: Path) -> None:
    schema = "struct<t:timestamp>"
    with pytest.raises(SchemaMismatch, match="lossy_timestamps") as caught:
        await written([(FINE,), (None,), (HALF,)], schema=schema)
    assert (caught.value.row, caught.value.column) == (2, 1)
    table = await read(await written([(FINE,)], schema=schema), tmp_path)
    assert table.column(0).cast(pa.int64()).to_pylist() == [-999_001_000]
    data = await written([(HALF,), (FINE,)], schema=schema, lossy_timestamps=True)
    found = (await read(data, tmp_path)).column(0).cast(pa.int64()).to_pylist()
    assert found == [500_000_000, -999_001_000]
    assert pa.orc.read_table(pa.BufferReader(data)).column(0).cast(pa.int64()).to_pylist() == found


@pytest.mark.parametrize(
    ("options", "time"),
    [
        ({"timezone": "Europe/Berlin"}, "2024-03-31T02:30:00"),
        ({"timezone": "America/Los_Angeles"}, "2024-03-10T02:00:00"),
        ({"calendar": "hybrid"}, "1582-10-05T00:00:00"),
        ({"calendar": "hybrid"}, "1582-10-14T23:59:59"),
    ],
)
async def test_times_that_never_were(options: dict[str, Any], time: str) -> None:
    value = np.datetime64(time, "s")
    with pytest.raises(SchemaMismatch, match=r"'t'.*\btimezone='UTC'.*\bcalendar='proleptic'") as caught:
        await written([(np.datetime64(0, "s"),), (value,)], schema="struct<t:timestamp>", **options)
    assert caught.value.row == 1
    await written([(value,)], schema="struct<t:timestamp>")


@pytest.mark.parametrize(
    ("options", "late", "never"),
    [
        ({"timezone": "America/Los_Angeles"}, "1969-12-31T15:59:59.500", "2024-03-10T02:30:00.000"),
        ({"calendar": "hybrid"}, "1969-12-31T23:59:59.500", "1582-10-10T00:00:00.000"),
    ],
)
async def test_a_late_time_that_is_let_pass_hides_no_other(
    options: dict[str, Any], late: str, never: str
) -> None:
    """`lossy_timestamps` is about the last second before 1970 and nothing else."""
    table = pa.table({"t": pa.array(np.array([late, never], "M8[ms]"))})
    await written(table.slice(0, 1), lossy_timestamps=True, **options)
    with pytest.raises(SchemaMismatch, match=r"'t'.*\btimezone='UTC'.*\bcalendar='proleptic'") as caught:
        await written(table, lossy_timestamps=True, **options)
    assert caught.value.row == 1


def hidden_times() -> dict[str, pa.Array]:
    """A time that no file holds, where nobody can see it."""
    bad = -500
    times = pa.array([bad, 1000, bad, 2000], pa.timestamp("ms"))
    seen = pa.array([False, True, False, True])
    hidden = pa.array([True, False, True, False])
    plain = pa.Array.from_buffers(times.type, 4, [seen.buffers()[1], times.buffers()[1]])
    items = pa.ListArray.from_arrays(pa.array([1, 2, 2, 2, 2], pa.int32()), times)
    nulls = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3, 4], pa.int32()), times, mask=hidden)
    struct = pa.StructArray.from_arrays([times], ["t"], mask=hidden)
    entries = pa.MapArray.from_arrays(pa.array([0, 1, 2, 3, 4], pa.int32()), pa.array(range(4)), times)
    bits = [seen.buffers()[1], entries.buffers()[1]]
    inner = pa.StructArray.from_arrays(
        [entries.keys, entries.items], fields=[entries.type.key_field, entries.type.item_field]
    )
    return {
        "null": plain,
        "before the list": items,
        "in a null list": nulls,
        "in a null struct": struct,
        "in a null map": pa.Array.from_buffers(entries.type, 4, bits, children=[inner]),
        "outside of the slice": times.slice(1, 1),
        "in lists outside of the slice": pa.ListArray.from_arrays(
            pa.array([0, 1, 2, 3, 4], pa.int32()), times
        ).slice(1, 1),
        "in a struct in a null struct": pa.StructArray.from_arrays([struct], ["s"], mask=hidden),
        "of a union, unused": pa.UnionArray.from_dense(
            pa.array([0, 0], pa.int8()), pa.array([1, 3], pa.int32()), [times, pa.array(["x"])]
        ),
    }


@pytest.mark.parametrize("where", hidden_times())
async def test_times_that_nobody_sees_are_not_refused(tmp_path: Path, where: str) -> None:
    table = pa.table({"x": hidden_times()[where]})
    data = await written(table)
    found = (await read(data, tmp_path)).column(0).to_pylist()
    assert found == table.column(0).to_pylist()


async def test_times_that_do_show_are_refused_wherever_they_are() -> None:
    bad = pa.array([1000, -500], pa.timestamp("ms"))
    ends = pa.array([0, 1, 2], pa.int32())
    for array in (
        pa.ListArray.from_arrays(ends, bad),
        pa.StructArray.from_arrays([bad], ["t"]),
        pa.MapArray.from_arrays(ends, pa.array([1, 2]), bad),
        pa.UnionArray.from_dense(pa.array([0, 0], pa.int8()), pa.array([0, 1], pa.int32()), [bad]),
        bad.dictionary_encode(),
    ):
        with pytest.raises(SchemaMismatch, match="1970"):
            await written(pa.table({"x": array}))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("options", [{}, {"calendar": "hybrid"}, {"timezone": "Europe/Berlin"}])
@pytest.mark.parametrize("value", [(1 << 63) - 1, -(1 << 63) + 1, 1 << 62, -(1 << 62)])
async def test_the_ends_of_time(tmp_path: Path, unit: str, value: int, options: dict[str, Any]) -> None:
    """What is written is read back; what cannot be is refused."""
    table = pa.table({"t": pa.array([value], pa.timestamp(unit))})
    try:
        data = await written(table, **options)
    except SchemaMismatch:
        assert unit != "ns" or options
        return
    found = await read(data, tmp_path, timestamp_unit=unit)
    assert found.column(0).cast(pa.int64()).to_pylist() == [value]


@pytest.mark.parametrize("calendar", ["proleptic", "hybrid"])
@pytest.mark.parametrize("day", [(1 << 31) - 1, -(1 << 31)])
async def test_the_ends_of_days(tmp_path: Path, day: int, calendar: str) -> None:
    table = pa.table({"d": pa.array([day], pa.int32()).cast(pa.date32())})
    try:
        data = await written(table, calendar=calendar)
    except SchemaMismatch:
        assert calendar == "hybrid"
        return
    found = await read(data, tmp_path)
    assert found.column(0).cast(pa.int32()).to_pylist() == [day]


# --- what the loop does ----------------------------------------------------------------------------


async def test_wide_stripes_and_tails_are_not_made_on_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: dict[str, int] = {}

    def noted(name: str) -> Callable[..., Any]:
        called = getattr(FileEncoder, name)

        def call(*values: Any) -> Any:
            threads[name] = threading.get_ident()
            return called(*values)

        return call

    for name in ("begin_stripe", "lay_out", "tail"):
        monkeypatch.setattr(FileEncoder, name, noted(name))
    await written([(1,)], schema="struct<a:int>")
    assert len(threads) == 3
    assert threading.get_ident() not in threads.values()


# --- options that cannot be ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("compression", ["zstd"]),
        ("compression_level", "9"),
        ("file_version", ["0.12"]),
        ("timezone", None),
        ("timezone", ZoneInfo("Europe/Berlin")),
        ("timezone", "Mars/Olympus"),
        ("blooms", 5),
        ("blooms", {"a": "0.1"}),
        ("blooms", {"a": 2.0}),
        ("dictionary_threshold", 1.5),
        ("user_metadata", "key"),
    ],
)
def test_options_of_other_types_are_told_apart(name: str, value: Any) -> None:
    options: dict[str, Any] = {name: value}
    with pytest.raises(UsageError, match=name.replace("_", "[_ ]")):
        orcstream.create(io.BytesIO(), "struct<a:int>", **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compression": "none", "compression_level": 1}, r"\bcompression\b.*\bcompression_level\b"),
        ({"blooms": ["a"], "row_index_stride": 0}, r"\brow_index_stride\b"),
        ({"blooms": ["l"]}, r"'l'.*array<int>"),
    ],
    ids=str,
)
def test_options_that_exclude_each_other(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        orcstream.create(io.BytesIO(), "struct<a:int,l:array<int>>", **options)


def test_systems_that_do_not_tell_their_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    assert orcstream.create(io.BytesIO(), "struct<a:int>").options.threads >= 1


@pytest.mark.parametrize("stripe_bytes", [64 << 10, 1 << 20, 4 << 20])
def test_a_large_write_keeps_the_size_of_stripes(stripe_bytes: int) -> None:
    """Random numbers do not compress, so a stripe is as long as its rows."""
    numbers = np.random.default_rng(0).integers(0, 2**62, 2_000_000)
    into = io.BytesIO()
    orcstream.blocking.write(into, {"x": numbers}, "struct<x:bigint>", stripe_bytes=stripe_bytes)
    with orcstream.blocking.open(into.getvalue()) as file:
        lengths = [stripe.data_length for stripe in file.stripes]
    assert max(lengths) <= stripe_bytes * 1.25
    assert min(lengths[:-1]) >= stripe_bytes * 0.9
