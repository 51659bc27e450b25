"""Batches and read results: their values, slices and shapes, and what Arrow cannot hold."""

from __future__ import annotations

import datetime
import subprocess
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc

from orcstream.batch import Batch, BatchSchema, ReadResult, stream_capsule
from orcstream.batch_values import UnionValue
from orcstream.codec.vectors.column import Field, Vector, VectorOptions, field_of
from orcstream.errors import ColumnNotFound, Unsupported, UsageError
from orcstream.schema.schema import Schema
from tests.generators.arrow_vectors import (
    LEAVES,
    arrays,
    batch_from,
    batches_from,
    memory,
    patient,
    sliced_arrays,
)
from tests.support.errors import because

MAP = pa.map_(pa.string(), pa.int64())
UNION = pa.UnionArray.from_dense(
    pa.array([0, 1, 0, 1], pa.int8()),
    pa.array([0, 0, 1, 1], pa.int32()),
    [pa.array([5, None]), pa.array(["a", "b"])],
    ["_union_0", "_union_1"],
)
# Wall clocks: without a zone on purpose.
FIRST = datetime.datetime.min  # noqa: DTZ901
EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001
LAST = datetime.datetime(9999, 12, 31, 23, 59, 59)  # noqa: DTZ001
MICROSECOND = datetime.timedelta(microseconds=1)


def values_of(array: pa.Array) -> list[Any]:
    """Our values of one column, once as objects and once through numpy."""
    column = batch_from({"x": array}).column("x")
    values = column.to_pylist()
    through_numpy = column.to_numpy()
    assert len(through_numpy) == len(values)
    assert plain(through_numpy.tolist()) == plain(values)
    return values


def plain(value: Any) -> Any:
    if isinstance(value, UnionValue):
        return plain(value.value)
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


# --- values ---------------------------------------------------------------------------------------


@patient
@given(sliced_arrays())
def test_random_values_are_pyarrows(array: pa.Array) -> None:
    assert plain(values_of(array)) == plain(array.to_pylist())


@patient
@given(arrays(), st.data())
def test_slices_hold_the_rows_of_the_whole(array: pa.Array, data: st.DataObject) -> None:
    batch = batch_from({"x": array})
    start, stop = data.draw(st.integers(-14, 14)), data.draw(st.none() | st.integers(-14, 14))
    part = batch.slice(start, stop)
    assert part.to_pylist() == batch.to_pylist()[start:stop]
    assert pa.record_batch(part).to_pylist() == pa.record_batch(batch).to_pylist()[start:stop]
    inner = part.slice(1)
    assert inner.to_pylist() == batch.to_pylist()[start:stop][1:]


def test_unions_tell_their_tag() -> None:
    assert values_of(UNION) == [UnionValue(0, 5), UnionValue(1, "a"), None, UnionValue(1, "b")]
    assert values_of(UNION.slice(1, 1)) == [(1, "a")]


def test_unions_with_more_children_than_arrow_takes() -> None:
    type_ = Schema.parse("uniontype<" + ",".join(["int"] * 256) + ">").root
    field = field_of("", type_, VectorOptions())
    children = tuple(Vector(1, (None, memory([tag], "i4")), 0) for tag in range(256))
    vector = Vector(256, (bytes(range(256)), bytes(1024)), 0, children=children)
    assert Batch(BatchSchema(field), (vector,), 256).to_pylist() == [(tag, tag) for tag in range(256)]


def test_structs_lists_and_maps() -> None:
    assert values_of(pa.array([{"a": 1, "b": [1]}, None])) == [{"a": 1, "b": [1]}, None]
    assert values_of(pa.array([[("k", 1), ("k", None)], None, []], MAP)) == [
        [("k", 1), ("k", None)],
        None,
        [],
    ]
    assert values_of(pa.array([{}, None], pa.struct([]))) == [{}, None]


def test_dictionaries_with_nulls_in_both_places() -> None:
    indices = pa.array([0, None, 1, 2], pa.int32())
    array = pa.DictionaryArray.from_arrays(indices, pa.array(["x", None, "y"]))
    assert values_of(array) == ["x", None, None, "y"]


@pytest.mark.parametrize("number", [0, -1, 2**63, -(2**63) - 1, 10**38 - 1, 1 - 10**38])
def test_decimals_are_exact(number: int) -> None:
    for scale in (0, 2, 38):
        value = Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale))
        (result,) = batch_from({"x": pa.array([value], pa.decimal128(38, scale))}).column(0).to_pylist()
        assert result.as_tuple() == value.as_tuple()


def test_dates_outside_of_python_come_as_numpys() -> None:
    days = pa.array([-719163, -719162, 2932896, 2932897, None], pa.int32()).cast(pa.date32())
    assert batch_from({"x": days}).column(0).to_pylist() == [
        np.datetime64("0000-12-31"),
        datetime.date.min,
        datetime.date.max,
        np.datetime64("10000-01-01"),
        None,
    ]


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_times_outside_of_python_come_as_numpys(unit: Literal["s", "ms", "us"]) -> None:
    per_second = {"s": 1, "ms": 10**3, "us": 10**6}[unit]
    first = int((FIRST - EPOCH).total_seconds()) * per_second
    last = int((LAST - EPOCH).total_seconds())
    ticks = [first - 1, first, last * per_second, (last + 1) * per_second, None, 2**63 - 1]
    values = batch_from({"x": pa.array(ticks, pa.timestamp(unit))}).column(0).to_pylist()
    assert values[0] == np.datetime64(first - 1, unit)
    assert values[1:3] == [FIRST, LAST]
    assert values[3:5] == [np.datetime64("10000-01-01T00:00:00", unit), None]
    assert values[5] == np.datetime64(2**63 - 1, unit)
    assert [type(value) for value in values[:2]] == [np.datetime64, datetime.datetime]


def test_nanoseconds_are_kept() -> None:
    ticks = pa.array([1_000, 1_001, -1_000, -1, None, 2**63 - 1], pa.timestamp("ns"))
    values = batch_from({"x": ticks}).column(0).to_pylist()
    assert values == [
        EPOCH + MICROSECOND,
        np.datetime64(1_001, "ns"),
        EPOCH - MICROSECOND,
        np.datetime64(-1, "ns"),
        None,
        np.datetime64(2**63 - 1, "ns"),
    ]


def test_instants_know_that_they_are_utc_and_wall_clocks_know_no_zone() -> None:
    instants, walls = (pa.array([0], pa.timestamp("us", zone)) for zone in ("UTC", None))
    instant = batch_from({"x": instants}).column("x")
    assert instant.to_pylist() == [datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)]
    assert instant.to_numpy().tolist() == [EPOCH]  # numpy has no zones
    assert values_of(walls) == [EPOCH]  # naive is the point


def test_duplicate_names_are_not_swallowed() -> None:
    array = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"])
    with pytest.raises(Unsupported) as caught:
        batch_from({"x": array}).to_pylist()
    assert caught.value.reason == "duplicate_names"


# --- numpy ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "array",
    [pa.array([1, 2, 3], type_) for type_ in LEAVES if pa.types.is_integer(type_)]
    + [pa.array([1.5, 2, 3], pa.float32()), pa.array([1.5, 2, 3]), pa.array([1, 2, 3], pa.timestamp("us"))],
    ids=lambda array: str(array.type),
)
def test_fixed_widths_are_views(array: pa.Array) -> None:
    result = batch_from({"x": array.slice(1)}).to_numpy("x")
    assert not isinstance(result, np.ma.MaskedArray)
    width = result.dtype.itemsize
    assert result.__array_interface__["data"][0] == array.buffers()[1].address + width
    assert not result.flags.writeable
    assert result.tolist() == array.slice(1).to_pylist()


def test_dtypes() -> None:
    batch = batch_from(
        {
            "tiny": pa.array([1], pa.int8()),
            "bool": pa.array([True]),
            "date": pa.array([datetime.date(2020, 2, 29)]),
            "milli": pa.array([1], pa.timestamp("ms")),
            "instant": pa.array([1], pa.timestamp("ns", "UTC")),
            "text": pa.array(["x"]),
            "list": pa.array([[1, 2]]),
            "decimal": pa.array([Decimal("1.5")]),
        }
    )
    dtypes = {name: array.dtype.str for name, array in batch.to_numpy().items()}
    assert dtypes == {
        "tiny": "|i1",
        "bool": "|b1",
        "date": "<M8[D]",
        "milli": "<M8[ms]",
        "instant": "<M8[ns]",
        "text": "|O",
        "list": "|O",
        "decimal": "|O",
    }


def test_nulls_are_masked() -> None:
    batch = batch_from(
        {"n": pa.array([1, None, 3]), "b": pa.array([None, True, False]), "t": pa.array(["x", None, "y"])}
    )
    arrays_ = batch.to_numpy()
    assert isinstance(arrays_["n"], np.ma.MaskedArray)
    assert arrays_["n"].tolist() == [1, None, 3]
    assert np.ma.getmaskarray(arrays_["b"]).tolist() == [True, False, False]
    assert arrays_["t"].tolist() == ["x", None, "y"]
    assert not isinstance(batch.slice(2).to_numpy("n"), np.ma.MaskedArray)


def test_lists_of_equal_length_stay_lists() -> None:
    array = batch_from({"l": pa.array([[1, 2], [3, 4]])}).to_numpy("l")
    assert array.shape == (2,)
    assert array[1] == [3, 4]


def test_views_outlive_the_batch() -> None:
    owner = memory(range(1000))
    count = sys.getrefcount(owner)
    type_ = Schema.parse("struct<n:bigint>").root
    batch = Batch(BatchSchema(field_of("", type_, VectorOptions())), (Vector(1000, (None, owner), 0),), 1000)
    array = batch.to_numpy("n")
    del batch
    assert sys.getrefcount(owner) > count
    assert array.sum() == 499_500
    del array
    assert sys.getrefcount(owner) == count


# --- the batch itself -----------------------------------------------------------------------------


def test_shape_and_columns() -> None:
    batch = batch_from({"a": pa.array([1, 2]), "b.c": pa.array(["x", "y"])})
    assert (batch.num_rows, batch.num_columns, len(batch)) == (2, 2, 2)
    assert batch.schema == Schema.parse("struct<a:bigint,`b.c`:string>")
    assert repr(batch) == "<Batch of 2 rows: struct<a:bigint,`b.c`:string>>"
    column = batch.column("b.c")
    assert (column.name, str(column.type), len(column)) == ("b.c", "string", 2)
    assert repr(column) == "<Column 'b.c': 2 x string>"
    assert batch.column(-1).to_pylist() == ["x", "y"]
    assert pa.array(batch.column(0)).to_pylist() == [1, 2]
    assert pa.schema(batch) == pa.schema({"a": pa.int64(), "b.c": pa.string()})
    assert pa.field(column) == pa.field("b.c", pa.string())


def test_unknown_columns() -> None:
    batch = batch_from({"a": pa.array([1]), "b": pa.array([1])})
    with pytest.raises(ColumnNotFound, match=r"'c'.*\ba, b\b"):
        batch.column("c")
    for index in (2, -3):
        with pytest.raises(ColumnNotFound, match=r"\b2\b"):
            batch.column(index)


def test_duplicate_columns_are_taken_by_index() -> None:
    leaf = batch_from({"a": pa.array([1])})._schema.fields[0]
    type_ = Schema.parse("struct<a:bigint,a:bigint>").root
    schema = BatchSchema(Field("", "+s", type_, children=(leaf, leaf)))
    vectors = tuple(Vector(1, (None, memory([value])), 0) for value in (1, 2))
    batch = Batch(schema, vectors, 1)
    assert [batch.column(i).to_pylist() for i in range(2)] == [[1], [2]]
    assert [column.to_pylist() for column in pa.record_batch(batch).columns] == [[1], [2]]
    with pytest.raises(UsageError, match=r"'a'.*\bindex\b"):
        batch.column("a")
    with pytest.raises(Unsupported, check=because("duplicate_names")):
        batch.to_numpy()
    with pytest.raises(Unsupported, check=because("duplicate_names")):
        ReadResult(schema, [batch]).to_numpy()
    with pytest.raises(Unsupported, check=because("duplicate_names")):
        batch.to_pylist()


def test_a_projected_schema_is_numbered_anew() -> None:
    file_schema = Schema.parse("struct<a:int,b:struct<c:int,d:array<int>>,e:map<int,int>>")
    projected = file_schema.select(["e", "b.d"])
    schema = BatchSchema(field_of("", projected, VectorOptions())).schema
    assert str(schema) == "struct<e:map<int,int>,b:struct<d:array<int>>>"
    assert [node.last_column_id for node in schema.types] == [6, 3, 2, 3, 6, 6, 6]


def test_no_columns_keep_the_row_count() -> None:
    schema, batches = batches_from([{}])
    batch = Batch(schema, (), 5)
    assert batches[0].num_rows == 0
    assert pa.record_batch(batch).num_rows == 5
    assert batch.to_pylist() == [{}] * 5
    assert batch.to_numpy() == {}
    assert batch.slice(1, 3).num_rows == 2
    assert len(batch.to_pandas()) == 5
    result = ReadResult(schema, [batch, batch])
    assert pa.table(result).num_rows == result.to_arrow().num_rows == 10
    assert result.to_pandas().shape == (10, 0)


def test_a_root_that_is_no_struct() -> None:
    type_ = Schema.parse("array<bigint>").root
    schema = BatchSchema(field_of("", type_, VectorOptions()))
    items = Vector(3, (None, memory(range(3))), 0)
    batch = Batch(schema, (Vector(2, (None, memory([0, 1, 3], "i4")), 0, children=(items,)),), 2)
    assert str(batch.schema) == "array<bigint>"
    assert batch.to_pylist() == [[0], [1, 2]]
    assert pa.record_batch(batch).to_pydict() == {"value": [[0], [1, 2]]}
    assert batch.to_numpy()["value"].tolist() == [[0], [1, 2]]
    assert ReadResult(schema, [batch, batch]).to_pylist() == [[0], [1, 2]] * 2


def test_requested_schemas_are_left_to_the_consumer() -> None:
    batch = batch_from({"a": pa.array([1, 2])})
    wanted = pa.schema({"a": pa.int32()})
    _, capsule = batch.__arrow_c_array__(wanted.__arrow_c_schema__())
    assert "arrow_array" in repr(capsule)
    assert pa.record_batch(batch).cast(wanted).to_pydict() == {"a": [1, 2]}


# --- null keys of maps ----------------------------------------------------------------------------


def map_batch(*, null_key: bool, nested: bool = False) -> Batch:
    """Two rows of a map whose second key may be null; pyarrow could not even hold it."""
    keys = Vector(2, (bytes([1 if null_key else 3]), memory([7, 8])))
    entries = Vector(2, (None,), 0, children=(keys, Vector(2, (None, memory(range(2))), 0)))
    vector = Vector(2, (None, memory([0, 1, 2], "i4")), 0, children=(entries,))
    text = "map<bigint,bigint>"
    if nested:
        vector = Vector(1, (None, memory([0, 2], "i4")), 0, children=(vector,))
        text = f"array<{text}>"
    field = field_of("", Schema.parse(f"struct<a:struct<m:{text}>>").root, VectorOptions())
    return Batch(BatchSchema(field), (Vector(vector.length, (None,), 0, children=(vector,)),), vector.length)


EXPORTS: list[Callable[[Batch], object]] = [
    lambda batch: pa.record_batch(batch),
    lambda batch: pa.array(batch.column("a")),
    lambda batch: pa.table(ReadResult(batch._schema, [batch])),
    lambda batch: batch.to_pandas(),
    lambda batch: batch.to_arrow(),
    lambda batch: ReadResult(batch._schema, [batch]).to_arrow(),
]


@pytest.mark.parametrize("export", EXPORTS)
@pytest.mark.parametrize("nested", [False, True])
def test_null_keys_stop_the_export(export: Callable[[Batch], object], nested: bool) -> None:
    with pytest.raises(Unsupported, match=r"'a'.*\bto_pylist\b") as caught:
        export(map_batch(null_key=True, nested=nested))
    assert caught.value.reason == "null_map_key"
    export(map_batch(null_key=False, nested=nested))


def test_null_keys_are_values_in_python() -> None:
    batch = map_batch(null_key=True)
    assert batch.to_pylist() == [{"a": {"m": [(7, 0)]}}, {"a": {"m": [(None, 1)]}}]
    assert batch.to_numpy("a").tolist()[1] == {"m": [(None, 1)]}


def test_null_keys_in_a_stream() -> None:
    batches = iter([map_batch(null_key=False), map_batch(null_key=True)])
    schema = map_batch(null_key=False)._schema

    class Source:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return stream_capsule(schema, lambda: next(batches, None))

    reader = pa.RecordBatchReader.from_stream(Source())
    assert reader.read_next_batch().num_rows == 2
    with pytest.raises(OSError, match=r"Unsupported: .*'a'"):
        reader.read_next_batch()


def test_keys_that_are_unions_have_no_nulls() -> None:
    keys = Vector(1, (bytes(1), bytes(4)), -1, children=(Vector(1, (None, bytes(8)), 0),))
    entries = Vector(1, (None,), 0, children=(keys, Vector(1, (None, bytes(8)), 0)))
    vector = Vector(1, (None, memory([0, 1], "i4")), 0, children=(entries,))
    field = field_of("", Schema.parse("struct<m:map<uniontype<bigint>,bigint>>").root, VectorOptions())
    batch = Batch(BatchSchema(field), (vector,), 1)
    assert pa.record_batch(batch).num_rows == 1
    assert batch.to_pylist() == [{"m": [((0, 0), 0)]}]


# --- pandas ---------------------------------------------------------------------------------------

FRAME = {"n": pa.array([1, 2, 3]), "t": pa.array(["x", None, "y"]), "f": pa.array([1.5, None, 2.5])}


def without(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)


def test_arrow_is_what_pyarrow_makes_of_it() -> None:
    schema, batches = batches_from([FRAME, FRAME])
    assert batches[0].to_arrow().equals(pa.record_batch(FRAME))
    assert ReadResult(schema, batches).to_arrow().equals(pa.table(ReadResult(schema, batches)))
    assert ReadResult(schema, []).to_arrow().schema == pa.table(FRAME).schema


def test_arrow_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    schema, batches = batches_from([FRAME])
    without(monkeypatch, "pyarrow")
    for rows in (batches[0], ReadResult(schema, batches)):
        with pytest.raises(ImportError, match=r"\bpip install pyarrow\b"):
            rows.to_arrow()


def test_arrow_does_not_import_pandas(tmp_path: Path) -> None:
    """`pyarrow.table` of anything with an Arrow stream does, which takes 0.2 s."""
    orc.write_table(pa.table(FRAME), tmp_path / "a.orc")
    code = (
        "import sys, orcstream, pyarrow\n"
        "rows = orcstream.blocking.read(sys.argv[1])\n"
        "print(rows.to_arrow().num_rows, rows.batches[0].to_arrow().num_rows, 'pandas' in sys.modules)"
    )
    printed = subprocess.check_output([sys.executable, "-c", code, str(tmp_path / "a.orc")], text=True)
    assert printed == "3 3 False\n"


def test_pandas_is_what_pyarrow_makes_of_it() -> None:
    pd.testing.assert_frame_equal(batch_from(FRAME).to_pandas(), pa.table(FRAME).to_pandas())


def test_pandas_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = pa.table(FRAME).to_pandas()
    schema, batches = batches_from([FRAME])
    without(monkeypatch, "pyarrow")
    pd.testing.assert_frame_equal(batches[0].to_pandas(), expected)
    pd.testing.assert_frame_equal(ReadResult(schema, batches).to_pandas(), expected)


def test_pandas_of_unions() -> None:
    frame = batch_from({"u": UNION}).to_pandas()
    assert frame["u"].tolist() == [(0, 5), (1, "a"), None, (1, "b")]


def test_pandas_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "pandas")
    with pytest.raises(ImportError, match=r"\bpandas\b"):
        batch_from(FRAME).to_pandas()


# --- read results ---------------------------------------------------------------------------------


def result_of(parts: Sequence[dict[str, pa.Array]]) -> ReadResult:
    return ReadResult(*batches_from(parts))


def test_result_joins_its_batches() -> None:
    first = {"n": pa.array([1, 2]), "t": pa.array(["x", None])}
    second = {"n": pa.array([None, 4]), "t": pa.array(["y", "z"])}
    result = result_of([first, second])
    assert (result.num_rows, len(result), result.num_columns, len(result.batches)) == (4, 4, 2, 2)
    assert repr(result) == "<ReadResult of 4 rows in 2 batches: struct<n:bigint,t:string>>"
    assert result.schema == Schema.parse("struct<n:bigint,t:string>")
    expected = pa.Table.from_batches([pa.record_batch(first), pa.record_batch(second)])
    for _ in range(2):
        assert pa.table(result).equals(expected)
    assert pa.schema(result) == expected.schema
    assert result.to_pylist() == expected.to_pylist()
    assert result.to_numpy("n").tolist() == [1, 2, None, 4]
    assert result.to_numpy()["t"].tolist() == ["x", None, "y", "z"]
    pd.testing.assert_frame_equal(result.to_pandas(), expected.to_pandas())


def test_result_of_batches_without_nulls_is_not_masked() -> None:
    joined = result_of([{"n": pa.array([1])}, {"n": pa.array([2])}]).to_numpy("n")
    assert not isinstance(joined, np.ma.MaskedArray)
    assert joined.tolist() == [1, 2]


def test_result_of_one_batch_is_not_copied() -> None:
    array = pa.array([1, 2])
    joined = result_of([{"n": array}]).to_numpy("n")
    assert joined.__array_interface__["data"][0] == array.buffers()[1].address


EMPTY_COLUMNS = {
    f"c{index}": pa.array([], type_)
    for index, type_ in enumerate(
        [
            *LEAVES,
            pa.dictionary(pa.int32(), pa.string()),
            pa.list_(pa.int64()),
            MAP,
            pa.struct({"a": pa.string()}),
        ]
    )
}


@pytest.mark.parametrize("batches", [0, 2])
def test_result_without_rows(batches: int) -> None:
    columns = EMPTY_COLUMNS | {"u": UNION[:0]}
    schema, parts = batches_from([columns])
    result = ReadResult(schema, parts * batches)
    table = pa.table(result)
    table.validate(full=True)
    assert table.equals(pa.table(columns))
    assert result.to_pylist() == []
    arrays_ = result.to_numpy()
    assert [len(array) for array in arrays_.values()] == [0] * len(columns)
    assert arrays_["c0"].dtype == np.int8
    assert len(result.to_pandas()) == 0
