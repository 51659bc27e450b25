"""What users hand in: which values each type takes, what is refused and where, and every form of data.

Expected values are pyarrow's, numpy's and the input's own.
"""

# ruff: noqa: DTZ001 - wall clock times have no zone
from __future__ import annotations

import datetime
import io
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import orcstream
from orcstream import blocking
from orcstream.codec.arrow._arrow_c import export_array
from orcstream.codec.ingest.ingest import UserData
from orcstream.codec.vectors.column import Field, Vector, VectorOptions, field_of
from orcstream.errors import SchemaMismatch, Unsupported, UsageError
from orcstream.schema.schema import Schema
from orcstream.schema.types import MAX_DEPTH
from tests.generators.arrow_vectors import batch_of, memory

UTC = datetime.UTC


def taken(data: object, schema: str | None = None) -> pa.Table:
    """The data as pyarrow sees what we make of it."""
    user = UserData(data)
    wanted = user.schema() if schema is None else Schema.parse(schema)
    batches = [pa.record_batch(batch_of(rows)) for rows in user.vectors(wanted)]
    table = pa.Table.from_batches(batches)
    table.validate(full=True)
    return table


def column(values: Any, type_: pa.DataType | None, orc: str) -> list[Any]:
    """The values of one column of this Arrow type, taken as this ORC type."""
    table = pa.table({"x": pa.array(values, type_)})
    found: list[Any] = taken(table, f"struct<x:{orc}>")["x"].to_pylist()
    return found


# --- values that fit, and values that do not ----------------------------------------------------------

SMALL_DECIMAL = getattr(pa, "decimal32", pa.decimal128)  # from pyarrow 19 on
WIDENED = [
    (pa.int8(), "bigint", [1, None, -128]),
    (pa.uint32(), "bigint", [4294967295, None]),
    (pa.int64(), "tinyint", [-128, None, 127]),
    (pa.uint64(), "bigint", [(1 << 63) - 1, 0]),
    (pa.uint64(), "decimal(20,0)", [Decimal((1 << 64) - 1), Decimal(0), None]),
    (pa.int64(), "decimal(21,2)", [Decimal(-(1 << 62)), None]),
    (pa.int32(), "double", [2**31 - 1, None]),
    (pa.int64(), "float", [1 << 24, -(1 << 24)]),
    (pa.float64(), "float", [0.5, float("inf"), None]),
    (pa.float16(), "double", [np.float16(0.5), None]),
    (pa.decimal256(70, 30), "decimal(38,3)", [Decimal("123456.789"), Decimal(-1), None]),
    (pa.decimal128(10, -2), "decimal(12,0)", [Decimal(1200), Decimal(-300)]),
    (SMALL_DECIMAL(9, 4), "decimal(5,1)", [Decimal("1.5"), Decimal("-9999.9"), None]),
    (pa.date64(), "date", [datetime.date(1969, 12, 31), None]),
    (pa.binary(), "string", ["ß".encode(), None]),
    (pa.string(), "binary", ["ß", None]),
    (pa.string(), "varchar(2)", ["ßß", "", None]),
    (pa.binary(2), "string", [b"ab", None]),
    (pa.null(), "array<uniontype<int,string>>", [None, None]),
    (pa.null(), "uniontype<uniontype<int,string>,string>", [None, None]),
    (pa.null(), "map<int,struct<a:string>>", [None, None]),
]


@pytest.mark.parametrize(("type_", "orc", "values"), WIDENED, ids=str)
def test_values_that_fit(type_: pa.DataType, orc: str, values: list[Any]) -> None:
    source = [None if v is None else int(v) for v in values] if pa.types.is_integer(type_) else values
    found = column(source, type_, orc)
    if orc in ("string", "varchar(2)"):
        found = [None if v is None else v.encode() for v in found]
        values = [v.encode() if isinstance(v, str) else v for v in values]
    if orc == "binary":
        values = [None if v is None else v.encode() for v in values]
    assert found == values


REFUSED: list[tuple[Any, str, list[Any], int | None]] = [
    (pa.int64(), "tinyint", [0, None, 128], 2),
    (pa.int64(), "int", [0, -(1 << 31) - 1], 1),
    (pa.uint64(), "bigint", [0, 1 << 63], 1),
    (pa.uint8(), "tinyint", [200], 0),
    (pa.int64(), "double", [(1 << 53) + 1], 0),
    (pa.float64(), "float", [0.5, 0.1], 1),
    (pa.float64(), "float", [1e300], 0),
    (pa.float64(), "int", [1.0], None),
    (pa.int64(), "decimal(3,1)", [99, 100], 1),
    (pa.decimal128(10, 2), "decimal(10,1)", [Decimal("1.10"), Decimal("1.11")], 1),
    (pa.decimal256(76, 0), "decimal(38,0)", [Decimal("9" * 38), Decimal(10) ** 38], 1),
    (pa.decimal256(76, 0), "decimal(38,0)", [-(Decimal(2) ** 200)], 0),
    (pa.string(), "varchar(2)", ["ab", "ßßß"], 1),
    (pa.string(), "char(2)", ["ab   ", "abc"], 1),
    (pa.binary(), "string", [b"ok", b"\xff"], 1),
    (pa.string(), "int", ["1"], None),
    (pa.bool_(), "int", [True], None),
    (pa.int32(), "boolean", [1], None),
    (pa.timestamp("us"), "timestamp with local time zone", [0], None),
    (pa.timestamp("us", "UTC"), "timestamp", [0], None),
    (pa.time64("us"), "bigint", [0], None),
    (pa.duration("us"), "bigint", [0], None),
    (pa.list_(pa.int32()), "array<tinyint>", [[1], None, [2, 300]], 2),
    (pa.list_view(pa.int32()), "array<tinyint>", [[1], None, [2, 300]], 2),
    (pa.dictionary(pa.int8(), pa.int64()), "tinyint", [1, 300, 300], 1),
    (pa.dictionary(pa.int8(), pa.string()), "varchar(1)", ["a", "a", "bb", "bb"], 2),
    (pa.run_end_encoded(pa.int32(), pa.int64()), "tinyint", [1, 1, 300, 300], 2),
    (pa.struct([("y", pa.int32())]), "struct<y:tinyint>", [{"y": 1}, {"y": 1000}], 1),
    (pa.struct([("y", pa.int32())]), "struct<z:int>", [{"y": 1}], None),
    (pa.list_(pa.int32()), "map<int,int>", [[1]], None),
    (pa.string(), "double", ["1"], None),
    (pa.string(), "decimal(3,1)", ["1"], None),
    (pa.int32(), "date", [1], None),
    (pa.int64(), "timestamp", [1], None),
    (pa.int64(), "string", [1], None),
    (pa.int64(), "array<int>", [1], None),
    (pa.int64(), "struct<a:int>", [1], None),
    (pa.int64(), "uniontype<int,string>", [1], None),
]


@pytest.mark.parametrize(("type_", "orc", "values", "row"), REFUSED, ids=str)
def test_values_that_do_not_fit(type_: Any, orc: str, values: list[Any], row: int | None) -> None:
    with pytest.raises(SchemaMismatch, match="'x") as caught:
        column(values, type_, orc)
    assert caught.value.row == row
    assert caught.value.column is not None


def test_rows_are_counted_over_all_batches_and_earlier_batches_are_answered() -> None:
    table = pa.Table.from_batches([pa.record_batch({"x": [1, 2, 3]}), pa.record_batch({"x": [4, 500]})])
    found = UserData(table).vectors(Schema.parse("struct<x:tinyint>"))
    assert next(found).row_count == 3
    with pytest.raises(SchemaMismatch) as caught:
        next(found)
    assert caught.value.row == 4


def test_what_is_under_a_null_is_not_looked_at() -> None:
    hidden = pa.array([True, False])
    children = [
        pa.array([1000, 1]),
        pa.array(["long", "s"]),
        pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [pa.array([1000, 2])]),
    ]
    struct = pa.StructArray.from_arrays(children, ["a", "b", "c"], mask=hidden)
    table = pa.table({"x": struct, "l": pa.ListArray.from_arrays([0, 1, 2], struct, mask=hidden)})
    item = "struct<a:tinyint,b:varchar(1),c:uniontype<tinyint>>"
    found = taken(table, f"struct<x:{item},l:array<{item}>>")
    assert found["x"].to_pylist() == [None, {"a": 1, "b": "s", "c": 2}]
    assert found["l"].to_pylist() == [None, [{"a": 1, "b": "s", "c": 2}]]


def test_chars_lose_the_blanks_beyond_their_length() -> None:
    assert column(["ab   ", "c ", None, "ßß "], pa.string(), "char(2)") == ["ab", "c", None, "ßß"]


def test_only_entries_that_rows_have_must_fit() -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([0, None, 0], pa.int8()), pa.array(["a", "too long"]))
    assert column(array, None, "varchar(1)") == ["a", None, "a"]
    numbers = pa.DictionaryArray.from_arrays(pa.array([0, None, 0], pa.int8()), pa.array([1, 1000]))
    assert column(numbers, None, "tinyint") == [1, None, 1]


def test_dictionaries_of_texts_stay() -> None:
    array = pa.array(["a", "b", None, "a"]).dictionary_encode()
    (rows,) = UserData(pa.table({"x": array})).vectors(Schema.parse("struct<x:string>"))
    assert rows.vectors[0].dictionary is not None
    assert pa.record_batch(batch_of(rows))["x"].type == pa.dictionary(pa.int32(), pa.string())
    nulls_inside = pa.DictionaryArray.from_arrays(pa.array([0, 1, 1], pa.int8()), pa.array(["a", None]))
    assert column(nulls_inside, None, "string") == ["a", None, None]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_keep_their_unit_and_range(unit: str) -> None:
    for type_ in (pa.timestamp(unit), pa.timestamp(unit, "Asia/Tokyo")):
        array = pa.array([-(1 << 63), (1 << 63) - 1, None, 0], type_)
        found = taken(pa.table({"x": array}))["x"]
        assert found.type == pa.timestamp(unit, "UTC" if type_.tz else None)
        assert found.cast(pa.int64()).to_pylist() == array.cast(pa.int64()).to_pylist()


def test_fixed_memory_is_shared() -> None:
    values = pa.array(range(1000), pa.int64())
    (rows,) = UserData(pa.table({"x": values})).vectors(Schema.parse("struct<x:bigint>"))
    at = np.frombuffer(rows.vectors[0].buffers[1], "i8").ctypes.data  # type: ignore[arg-type, call-overload, unused-ignore]
    assert at == values.buffers()[1].address


# --- indices that lead astray -----------------------------------------------------------------------------


def raw(values: Any, dtype: str) -> pa.Buffer:
    return pa.py_buffer(np.array(values, dtype))


ASTRAY = [
    pa.DictionaryArray.from_arrays(pa.array([0, 2], pa.int8()), pa.array(["a", "b"]), safe=False),
    pa.DictionaryArray.from_arrays(pa.array([0, -1], pa.int8()), pa.array([1, 2]), safe=False),
    pa.DictionaryArray.from_arrays(pa.array([0, 1 << 63], pa.uint64()), pa.array([1, 2]), safe=False),
    *(
        pa.Array.from_buffers(pa.string_view(), 1, [None, raw(view, "i4"), pa.py_buffer(b"x" * 24)])
        for view in (
            [20, 0, 1, 0],
            [20, 0, -1, 0],
            [20, 0, 0, 5],
            [20, 0, 0, -1],
            [-1, 0, 0, 0],
            [25, 0, 0, 0],
        )
    ),
    *(
        pa.Array.from_buffers(
            pa.list_view(pa.int64()),
            1,
            [None, raw(start, "i4"), raw(size, "i4")],
            children=[pa.array([1, 2])],
        )
        for start, size in (([-1], [1]), ([0], [-1]), ([0], [3]), ([2], [1]), ([2**31 - 1], [2**31 - 1]))
    ),
]


@pytest.mark.parametrize("array", ASTRAY, ids=lambda array: str(array.type))
def test_indices_that_lead_astray(array: pa.Array) -> None:
    table = pa.record_batch({"x": array})
    with pytest.raises(SchemaMismatch, match="'x'"):
        list(UserData(table).vectors(UserData(table).schema()))


# --- columns --------------------------------------------------------------------------------------------


def test_columns_go_by_name() -> None:
    found = taken(pa.table({"b": [1], "a": ["x"]}), "struct<a:string,gone:array<int>,b:bigint>")
    assert found.to_pylist() == [{"a": "x", "gone": None, "b": 1}]


def test_a_column_too_many() -> None:
    for data in (
        pa.table({"a": [1], "b": [2]}),
        {"a": np.array([1]), "b": np.array([2])},
        [{"a": 1, "b": 2}],
    ):
        with pytest.raises(SchemaMismatch, match="'b'"):
            taken(data, "struct<a:bigint>")


def test_names_twice() -> None:
    twice = pa.table([pa.array([1]), pa.array(["x"])], ["a", "a"])
    found = taken(twice, "struct<a:bigint,a:string>")
    assert [c.to_pylist() for c in found.columns] == [[1], ["x"]]
    with pytest.raises(SchemaMismatch, match=r"\bnames\b.*\border\b"):
        taken(twice, "struct<a:bigint,b:string>")


def test_no_columns_have_rows() -> None:
    (rows,) = UserData(pa.record_batch({"x": [1, 2]}).select([])).vectors(Schema.parse("struct<>"))
    assert (rows.row_count, rows.vectors) == (2, ())


def test_a_root_that_is_no_struct() -> None:
    schema = Schema.parse("array<int>")
    (rows,) = UserData(pa.array([[1], None], pa.list_(pa.int32()))).vectors(schema)
    assert batch_of(rows).column(0).to_pylist() == [[1], None]
    (rows,) = UserData([[1], None]).vectors(schema)
    assert batch_of(rows).column(0).to_pylist() == [[1], None]
    with pytest.raises(SchemaMismatch, match=r"\bArrow array\b.*\bstruct\b"):
        taken(pa.array([1]), "struct<a:bigint>")


def test_rows_that_are_null() -> None:
    with pytest.raises(SchemaMismatch, match="null"):
        taken(pa.array([{"a": 1}, None]), "struct<a:bigint>")


class Exported:
    """What pyarrow cannot make: it ends the process on null keys."""

    def __init__(self, field: Field, vector: Vector) -> None:
        self.capsules = export_array(field, vector)

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self.capsules


def test_null_keys() -> None:
    schema = Schema.parse("struct<x:map<int,int>>")
    numbers = memory([1, 2, 3], "i4")
    keys, values = Vector(3, (b"\5", numbers)), Vector(3, (None, numbers))
    entries = Vector(3, (None,), children=(keys, values))
    map_ = Vector(2, (None, memory([0, 1, 3], "i4")), children=(entries,))
    root = field_of("", schema.root, VectorOptions())
    with pytest.raises(SchemaMismatch, match=r"'x'.*\bnull\b") as caught:
        list(UserData(Exported(root, Vector(2, (None,), children=(map_,)))).vectors(schema))
    assert caught.value.row == 1


# --- other libraries --------------------------------------------------------------------------------------

RECORDS = {"n": [1, None, 3], "t": ["a", "ß", None], "l": [[1, 2], [], None], "f": [0.5, None, 1.5]}


@pytest.mark.parametrize(
    "make",
    [
        pl.DataFrame,
        lambda records: pl.DataFrame(records).with_columns(pl.col("t").cast(pl.Categorical)),
        lambda records: pl.DataFrame(records)[0:3],
        pa.table,
        lambda records: pa.table(records).to_reader(),
        lambda records: duckdb.from_arrow(pa.table(records)),
        lambda records: pa.table(records).to_pandas(types_mapper=pd.ArrowDtype),
    ],
    ids=["polars", "categorical", "slice", "pyarrow", "reader", "duckdb", "pandas"],
)
def test_other_libraries(make: Callable[[Any], Any]) -> None:
    user = UserData(make(RECORDS))
    batches = [pa.record_batch(batch_of(rows)) for rows in user.vectors(user.schema())]
    assert pa.Table.from_batches(batches).to_pydict() == RECORDS


@pytest.mark.parametrize("schema", [None, "struct<a:string>"])
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (pd.DataFrame({"a": [1, "x"]}), "Could not convert 'x'"),
        (pd.DataFrame([["x", "y"]], columns=["a", "a"]), "Duplicate"),
        (pd.DataFrame({"a": pd.arrays.SparseArray([0, 1])}), "Sparse"),
        (pd.DataFrame({"a": [1j]}), "numpy type"),
    ],
    ids=["mixed", "names", "sparse", "complex"],
)
def test_data_that_its_library_cannot_export(data: object, reason: str, schema: str | None) -> None:
    with pytest.raises(SchemaMismatch, match=rf"\bDataFrame\b.*{reason}"):
        taken(data, schema)


def test_our_own_batches_keep_their_schema() -> None:
    schema = Schema.parse("struct<c:char(3),v:varchar(2),u:uniontype<int,string>>")
    (rows,) = UserData([("a", "b", orcstream.UnionValue(1, "x"))]).vectors(schema)
    assert UserData(batch_of(rows)).schema() == schema
    (again,) = UserData(batch_of(rows)).vectors(schema)
    assert batch_of(again).to_pylist() == [{"c": "a", "v": "b", "u": orcstream.UnionValue(1, "x")}]


# --- numpy ------------------------------------------------------------------------------------------------


def test_numpy() -> None:
    data = {
        "i": np.array([1, 2, 3], ">i4"),
        "u": np.arange(6, dtype="u2")[::2],
        "b": np.array([True, False, True]),
        "f": np.ma.array([1.5, 2.5, 3.5], mask=[False, True, False], dtype="f4"),
        "d": np.array(["1969-12-31", "NaT", "2020-02-29"], "M8[D]"),
        "t": np.array(["1969-12-31T23:59:59.5", "NaT", "2020-02-29"], "M8[ms]"),
        "h": np.array(["1969-12-31T23", "NaT", "2020-02-29"], "M8[h]"),
        "s": np.array(["a", "ßß", ""]),
        "z": np.array([b"a", b"b\0c", b""]),
        "o": np.array(["x", None, "z"], object),
        "m": np.array([Decimal("1.25"), None, Decimal(-3)], object),
        "p": [1, None, 3],
    }
    found = taken(data)
    assert found.to_pydict() == {
        "i": [1, 2, 3],
        "u": [0, 2, 4],
        "b": [True, False, True],
        "f": [1.5, None, 3.5],
        "d": [datetime.date(1969, 12, 31), None, datetime.date(2020, 2, 29)],
        "t": [datetime.datetime(1969, 12, 31, 23, 59, 59, 500000), None, datetime.datetime(2020, 2, 29)],
        "h": [datetime.datetime(1969, 12, 31, 23), None, datetime.datetime(2020, 2, 29)],
        "s": ["a", "ßß", ""],
        "z": [b"a", b"b\0c", b""],
        "o": ["x", None, "z"],
        "m": [Decimal("1.25"), None, Decimal("-3.00")],
        "p": [1, None, 3],
    }
    types = [str(field) for field in UserData(data).schema().root.children]
    assert types[:8] == ["int", "int", "boolean", "float", "date", "timestamp", "timestamp", "string"]


def test_numpy_times_may_be_instants() -> None:
    data = {"t": np.array(["2020-02-29T12:00"], "M8[ns]")}
    found = taken(data, "struct<t:timestamp with local time zone>")["t"]
    assert found.type == pa.timestamp("ns", "UTC")
    assert found.cast(pa.int64()).to_pylist() == [1582977600 * 10**9]


@pytest.mark.parametrize(
    "array",
    [
        np.array([1], "m8[s]"),
        np.array([1j]),
        np.zeros((2, 2)),
        np.array([(1, 2)], [("a", "i4"), ("b", "i4")]),
        np.array(["2020"], "M8[Y]"),
        np.array([1 << 40], "i8").view("M8[D]"),
        np.array([1 << 60], "i8").view("M8[h]"),
        np.array(["\ud800"]),
        np.frombuffer(b"\xff\xff\xff\x7f", "U1"),
        np.ma.array([(1, 2)], dtype=[("a", "i4"), ("b", "i4")], mask=[(True, False)]),
        np.array(5),
    ],
    ids=lambda array: str(array.dtype),
)
def test_arrays_that_are_no_columns(array: Any) -> None:
    with pytest.raises(SchemaMismatch, match="'x'"):
        taken({"x": array}, "struct<x:timestamp>")


def test_texts_under_a_mask_may_be_anything() -> None:
    texts = np.array([0x110000, ord("x"), 0xD800, 0], "u4").view("U1")
    found = taken({"x": np.ma.array(texts, mask=[True, False, True, False])}, "struct<x:string>")["x"]
    assert found.to_pylist() == [None, "x", None, ""]
    with pytest.raises(SchemaMismatch, match=r"'x'.*\bUnicode\b") as caught:
        taken({"x": np.ma.array(texts, mask=[True, False, False, False])}, "struct<x:string>")
    assert caught.value.row == 2


def test_columns_of_different_lengths() -> None:
    with pytest.raises(SchemaMismatch, match=r"'a'.*\b2\b.*'b'.*\b3\b"):
        taken({"a": np.arange(2), "b": np.arange(3)})


# --- rows -------------------------------------------------------------------------------------------------


@dataclass
class Point:
    x: int
    label: str | None = None


EVERYTHING = (
    "struct<b:boolean,t:tinyint,i:bigint,f:float,d:double,s:string,z:binary,ts:timestamp,"
    "tz:timestamp with local time zone,day:date,dec:decimal(10,2),c:char(3),l:array<array<int>>,"
    "m:map<string,int>,p:struct<x:int,label:string>,u:uniontype<int,string>>"
)
ROW = {
    "b": True,
    "t": -128,
    "i": 1 << 62,
    "f": 0.5,
    "d": 0.1,
    "s": "ß",
    "z": b"\xff",
    "ts": datetime.datetime(1969, 12, 31, 23, 59, 59, 1),
    "tz": datetime.datetime(2020, 2, 29, tzinfo=UTC),
    "day": datetime.date(1, 1, 1),
    "dec": Decimal("-99999999.99"),
    "c": "abc",
    "l": [[1], None, []],
    "m": [("a", 1), ("b", None)],
    "p": {"x": 1, "label": None},
    "u": orcstream.UnionValue(1, "x"),
}


def test_rows_of_every_type() -> None:
    nothing = dict.fromkeys(ROW)
    rows = [ROW, nothing, {}, tuple(ROW.values()), {**ROW, "p": Point(1), "m": dict(ROW["m"])}]  # type: ignore[call-overload]
    (found,) = UserData(rows).vectors(Schema.parse(EVERYTHING))
    assert batch_of(found).to_pylist() == [ROW, nothing, nothing, ROW, ROW]
    pa.record_batch(batch_of(found)).validate(full=True)


class Named(NamedTuple):
    label: str | None
    x: int


def test_named_tuples_go_by_name() -> None:
    rows = [Named("a", 1), Named(None, 2)]
    expected = [{"x": 1, "label": "a"}, {"x": 2, "label": None}]
    (found,) = UserData(rows).vectors(Schema.parse("struct<x:int,label:string>"))
    assert batch_of(found).to_pylist() == expected
    nested = [{"p": row} for row in rows] + [(row,) for row in rows]
    (found,) = UserData(nested).vectors(Schema.parse("struct<p:struct<x:int,label:string>>"))
    assert batch_of(found).to_pylist() == [{"p": row} for row in expected * 2]
    with pytest.raises(SchemaMismatch, match="'label'"):
        list(UserData(rows).vectors(Schema.parse("struct<x:int,name:string>")))


def test_named_tuples_name_the_columns_of_a_file() -> None:
    target = io.BytesIO()
    blocking.write(target, [Named("a", 1)])
    assert blocking.read(target.getvalue()).to_pylist() == [{"label": "a", "x": 1}]


async def test_named_tuples_are_ingested_by_name(tmp_path: Path) -> None:
    async with orcstream.ingest(f"{tmp_path}/{{number}}.orc", "struct<x:int,label:string>") as ingest:
        await ingest.write([Named("a", 1)])
    found = [blocking.read(str(path)).to_pylist() for path in tmp_path.rglob("*.orc")]
    assert found == [[{"x": 1, "label": "a"}]]


WRONG_VALUES = [
    ("int", True),
    ("int", 1 << 31),
    ("int", 1.0),
    ("float", 1e300),
    ("float", 16_777_217),
    ("float", np.int64(-(2**40) - 1)),
    ("float", "1"),
    ("double", (1 << 53) + 1),
    ("string", b"x"),
    ("string", "\ud800"),
    ("varchar(2)", "abc"),
    ("binary", "x"),
    ("boolean", 1),
    ("date", datetime.datetime(2020, 1, 1)),
    ("date", "2020-01-01"),
    ("timestamp", datetime.datetime(2020, 1, 1, tzinfo=UTC)),
    ("timestamp with local time zone", datetime.datetime(2020, 1, 1)),
    ("timestamp", "2020-01-01"),
    ("decimal(5,2)", Decimal("1.234")),
    ("decimal(5,2)", Decimal(1000)),
    ("decimal(5,2)", Decimal("NaN")),
    ("decimal(5,2)", Decimal("1e-999999")),
    ("decimal(5,2)", Decimal("1e999999")),
    ("decimal(5,2)", 1.5),
    ("array<int>", "ab"),
    ("array<tinyint>", [1, 128]),
    ("map<int,int>", {None: 1}),
    ("map<int,int>", [1]),
    ("struct<a:int>", 1),
    ("struct<a:int>", {"b": 1}),
    ("struct<a:int>", {"a": 1, "b": 1}),
    ("struct<a:int>", (1, 2)),
    ("uniontype<int,string>", (2, 1)),
    ("uniontype<int,string>", (1, 1)),
    ("uniontype<int,string>", 1),
]


@pytest.mark.parametrize(("orc", "value"), WRONG_VALUES, ids=str)
def test_values_that_are_no_values_of_their_type(orc: str, value: Any) -> None:
    with pytest.raises(SchemaMismatch, match="'x") as caught:
        list(UserData([{"x": None}, {"x": value}]).vectors(Schema.parse(f"struct<x:{orc}>")))
    assert caught.value.row == 1


def test_names_twice_need_tuples() -> None:
    schema = Schema.parse("struct<x:struct<a:int,a:int>>")
    with pytest.raises(SchemaMismatch, match=r"'x'.*\btuples\b"):
        list(UserData([{"x": {"a": 1}}]).vectors(schema))
    (found,) = UserData([{"x": (1, 2)}]).vectors(schema)
    assert [child.length for child in found.vectors[0].children] == [1, 1]


def test_nanoseconds_of_rows() -> None:
    times = [pd.Timestamp("2020-01-01T00:00:00.000000001"), np.datetime64("1960-01-01", "D"), pd.NaT, None]
    found = taken([{"x": time} for time in times], "struct<x:timestamp>")["x"]
    assert found.type == pa.timestamp("ns")
    assert found.cast(pa.int64()).to_pylist() == [1577836800 * 10**9 + 1, -315619200 * 10**9, None, None]


def test_the_schema_of_rows() -> None:
    rows = [{"a": 1, "b": [{"x": 0.5}, {"y": "t"}]}, {"a": None, "c": Decimal("1.250"), "b": []}]
    assert (
        str(UserData(rows).schema()) == "struct<a:bigint,b:array<struct<x:double,y:string>>,c:decimal(38,3)>"
    )
    day, time = datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1)
    rows = [{"d": day, "t": time, "i": time.replace(tzinfo=UTC)}]
    assert str(UserData(rows).schema()) == "struct<d:date,t:timestamp,i:timestamp with local time zone>"
    for bad in (
        [(1,)],
        [{"a": None}],
        [{"a": 1}, {"a": "x"}],
        [{"a": True}, {"a": 1}],
        [{1: 2}],
        [{"a": Decimal("NaN")}],
        [{"a": Decimal("1e38")}],
    ):
        with pytest.raises(SchemaMismatch, match=r"\bschema\b"):
            UserData(bad).schema()


@pytest.mark.parametrize(
    "data", [1, "text", b"bytes", None, pa.Table, {1: np.arange(2)}, {"a": "text"}], ids=str
)
def test_no_data(data: object) -> None:
    with pytest.raises(UsageError):
        taken(data, "struct<a:int>")


# --- vectors too large --------------------------------------------------------------------------------------


def test_batches_are_split_where_vectors_are_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orcstream.codec.ingest.fitting_values.MAX_VECTOR_BYTES", 10)
    data = pa.table({"x": pa.array(["abcd"] * 8, pa.large_string()), "o": pa.array(range(8))})
    found = list(UserData(data).vectors(Schema.parse("struct<x:string,o:bigint>")))
    assert [rows.row_count for rows in found] == [2, 2, 2, 2]
    assert [row for rows in found for row in batch_of(rows).to_pylist()] == data.to_pylist()


@pytest.mark.parametrize("null_count", [0, 900])
def test_texts_of_dictionaries_count_as_often_as_rows_have_them(null_count: int) -> None:
    texts: list[str | None] = ["a" * 1000, "b" * 3000] * 10_000
    texts[:null_count] = [None] * null_count
    plain = pa.table({"x": texts})
    coded = plain.set_column(0, "x", plain["x"].dictionary_encode())
    wide = pa.table({"x": pa.chunked_array([pa.StructArray.from_arrays([coded["x"].chunk(0)], ["y"])])})
    for data in (coded, wide):
        (rows,) = UserData(data).vectors(UserData(data).schema())
        assert rows.size_bytes == pytest.approx(plain.nbytes, rel=0.05)


@pytest.mark.parametrize("data", [[], (), {}])
def test_nothing_has_no_schema(data: Any) -> None:
    with pytest.raises(SchemaMismatch, match=r"\bschema\b"):
        UserData(data).schema()


def test_values_that_nest_without_end() -> None:
    around: list[Any] = []
    around.append(around)
    deep: Any = 1
    for _ in range(5000):
        deep = {"a": deep}
    for data in ([{"x": around}], {"x": [around]}, [{"x": deep}], {"x": [deep]}):
        with pytest.raises(Unsupported, match="'x'") as caught:
            UserData(data).schema()
        assert caught.value.reason == "schema_too_deep"
    almost: Any = 1
    for _ in range(MAX_DEPTH - 2):
        almost = [almost]
    assert str(UserData([{"x": almost}]).schema()).count("array") == MAX_DEPTH - 2
