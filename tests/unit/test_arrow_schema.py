"""Schemas as users give them: text, our own, those of Arrow libraries, and capsules made by hand.

Which ORC type an Arrow type becomes is written down here; that nothing of ours is lost on the way out and
back in is checked with schemas of every ORC type, through our own export and through pyarrow's.
"""

from __future__ import annotations

import contextlib
import ctypes
import struct
import sys
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orcstream.batch import BatchSchema
from orcstream.codec.arrow._arrow_c import export_schema
from orcstream.codec.arrow._arrow_import import import_schema
from orcstream.codec.arrow.schema import schema_of
from orcstream.codec.vectors.column import VectorOptions, field_of
from orcstream.errors import SchemaMismatch, Unsupported, UsageError
from orcstream.schema.schema import Schema
from orcstream.schema.types import MAX_DEPTH, Kind, Type
from tests.generators.strategies import EVERYTHING, schemas
from tests.support.arrow_structs import CSchema, opened
from tests.support.errors import because

EVERY_TYPE = (
    "struct<b:boolean,t:tinyint,s:smallint,i:int,l:bigint,f:float,d:double,str:string,bin:binary,"
    "ts:timestamp,tz:timestamp with local time zone,day:date,dec:decimal(10,2),c:char(5),v:varchar(7),"
    "list:array<char(3)>,m:map<varchar(2),struct<x:int,y:array<double>>>,u:uniontype<int,char(4)>,"
    "`odd ``name`:int,``:int,empty:struct<>,g:geometry(OGC:CRS84),e:geography(EPSG:4326,KARNEY)>"
)


class Given:
    """An object of some library that answers this capsule."""

    def __init__(self, capsule: object) -> None:
        self.capsule = capsule

    def __arrow_c_schema__(self) -> object:
        return self.capsule


def text_of(type_: pa.DataType) -> str:
    """The ORC type of a column of this Arrow type."""
    return str(schema_of(pa.schema([("x", type_)]))["x"])


def exported(schema: Schema, options: VectorOptions | None = None) -> Given:
    return Given(export_schema(field_of("", schema.root, options or VectorOptions())))


# --- what is accepted ------------------------------------------------------------------------------


def test_a_schema_and_its_text() -> None:
    schema = Schema.parse("struct<a:int,b:string>")
    assert schema_of(schema) is schema
    assert schema_of("struct<a:int,b:string>") == schema
    assert schema_of("array<int>") == Schema.parse("array<int>")
    with pytest.raises(SchemaMismatch, match="'nonsense'"):
        schema_of("struct<a:nonsense>")


@pytest.mark.parametrize(
    "value",
    [None, 3, ["a"], {"a": "int"}, b"struct<a:int>", pa.schema, pa.Schema, pa.int8, Schema.parse("int").root],
    ids=lambda value: type(value).__name__,
)
def test_other_things_are_refused(value: object) -> None:
    with pytest.raises(
        UsageError, match=r"struct<a:int,b:string>.*\bSchema\b.*\b__arrow_c_schema__\b"
    ) as caught:
        schema_of(value)
    assert not str(caught.value).endswith("schema"), "a hint for objects that have one"


@pytest.mark.parametrize(
    "data",
    [pa.table({"a": [1]}), pa.record_batch({"a": [1]}), pl.DataFrame({"a": [1]}), pa.array([{"a": 1}])],
    ids=lambda data: type(data).__name__,
)
def test_data_is_pointed_to_its_schema(data: object) -> None:
    with pytest.raises(UsageError, match=r"\bschema$"):
        schema_of(data)


def test_objects_of_ours_answer_the_schema_they_carry() -> None:
    root = Schema.parse("array<char(3)>").root
    batches = BatchSchema(field_of("", root, VectorOptions()))
    assert schema_of(batches) is batches.schema
    # While others see its columns.
    assert pa.schema(batches) == pa.schema([("value", pa.list_(pa.string()))])


@pytest.mark.parametrize(
    "root", [pa.int8(), pa.list_(pa.int8()), pa.field("a", pa.map_(pa.int8(), pa.int8()))]
)
def test_the_root_is_a_struct(root: object) -> None:
    with pytest.raises(SchemaMismatch, match=r"\bstruct\b"):
        schema_of(root)


def test_a_struct_type_or_field_will_do() -> None:
    struct_type = pa.struct([("a", pa.int8())])
    assert str(schema_of(struct_type)) == str(schema_of(pa.field("s", struct_type))) == "struct<a:tinyint>"
    assert str(schema_of(pa.schema([]))) == "struct<>"


# --- every Arrow type ------------------------------------------------------------------------------


NEWER_THAN_PYARROW_18 = (
    [(pa.json_(), "string"), (pa.decimal32(9, 2), "decimal(9,2)"), (pa.decimal64(18, 18), "decimal(18,18)")]
    if hasattr(pa, "decimal32")
    else []
)


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (pa.bool_(), "boolean"),
        (pa.int8(), "tinyint"),
        (pa.int16(), "smallint"),
        (pa.int32(), "int"),
        (pa.int64(), "bigint"),
        (pa.uint8(), "smallint"),
        (pa.uint16(), "int"),
        (pa.uint32(), "bigint"),
        (pa.float16(), "float"),
        (pa.float32(), "float"),
        (pa.float64(), "double"),
        (pa.string(), "string"),
        (pa.large_string(), "string"),
        (pa.string_view(), "string"),
        (pa.binary(), "binary"),
        (pa.large_binary(), "binary"),
        (pa.binary_view(), "binary"),
        (pa.binary(16), "binary"),
        (pa.uuid(), "binary"),
        *NEWER_THAN_PYARROW_18,
        (pa.decimal128(38, 0), "decimal(38,0)"),
        (pa.date32(), "date"),
        (pa.date64(), "date"),
        *((pa.timestamp(unit), "timestamp") for unit in ("s", "ms", "us", "ns")),
        *((pa.timestamp(unit, "UTC"), "timestamp with local time zone") for unit in ("s", "ms", "us", "ns")),
        (pa.timestamp("us", "America/Argentina/Buenos_Aires"), "timestamp with local time zone"),
        (pa.timestamp("us", "+05:30"), "timestamp with local time zone"),
        (pa.list_(pa.int8()), "array<tinyint>"),
        (pa.large_list(pa.int8()), "array<tinyint>"),
        (pa.list_(pa.int8(), 3), "array<tinyint>"),
        (pa.list_view(pa.int8()), "array<tinyint>"),
        (pa.large_list_view(pa.int8()), "array<tinyint>"),
        (pa.map_(pa.string(), pa.list_(pa.int8())), "map<string,array<tinyint>>"),
        (pa.map_(pa.string(), pa.int8(), keys_sorted=True), "map<string,tinyint>"),
        (pa.struct([("a b", pa.int8()), ("c", pa.struct([]))]), "struct<`a b`:tinyint,c:struct<>>"),
        (
            pa.dense_union([pa.field("p", pa.int8()), pa.field("q", pa.string())]),
            "uniontype<tinyint,string>",
        ),
        (
            pa.sparse_union([pa.field("p", pa.int8()), pa.field("q", pa.string())], type_codes=[7, 127]),
            "uniontype<tinyint,string>",
        ),
        (pa.dictionary(pa.int8(), pa.string()), "string"),
        (pa.dictionary(pa.uint64(), pa.decimal128(5, 2), ordered=True), "decimal(5,2)"),
        (pa.run_end_encoded(pa.int32(), pa.date32()), "date"),
        (pa.run_end_encoded(pa.int16(), pa.struct([("a", pa.int8())])), "struct<a:tinyint>"),
        (pa.run_end_encoded(pa.int16(), pa.dictionary(pa.int8(), pa.binary())), "binary"),
        (pa.list_(pa.dictionary(pa.int8(), pa.list_(pa.bool_()))), "array<array<boolean>>"),
    ],
    ids=str,
)
def test_types(type_: pa.DataType, text: str) -> None:
    assert text_of(type_) == text


@pytest.mark.parametrize(
    ("type_", "reason"),
    [
        (pa.uint64(), r"\bunsigned\b.*decimal\(20,0\)"),
        (pa.null(), r"\bnull\b"),
        (pa.time32("s"), "time of day"),
        (pa.time32("ms"), "time of day"),
        (pa.time64("us"), "time of day"),
        (pa.time64("ns"), "time of day"),
        (pa.duration("s"), r"duration\b.*\bbigint\b"),
        (pa.duration("ns"), "duration"),
        (pa.month_day_nano_interval(), "interval"),
        (pa.decimal128(5, -2), "scale -2"),
        (pa.decimal128(5, 7), r"decimal\(5,7\)"),
        (pa.decimal256(10, 2), r"\b256\b.*\bdecimal128\b"),
        (pa.dense_union([]), r"'\+ud:'"),
        (pa.dictionary(pa.int8(), pa.null()), r"\bnull\b"),
    ],
    ids=str,
)
def test_types_without_a_place(type_: pa.DataType, reason: str) -> None:
    with pytest.raises(SchemaMismatch, match=f"'x'.*{reason}"):
        text_of(type_)


@pytest.mark.parametrize(
    ("type_", "path"),
    [
        (pa.list_(pa.uint64()), "x._elem"),
        (pa.map_(pa.uint64(), pa.int8()), "x._key"),
        (pa.map_(pa.int8(), pa.struct([("deep", pa.uint64())])), "x._value.deep"),
        (pa.dense_union([pa.field("p", pa.int8()), pa.field("q", pa.uint64())]), "x._union_1"),
    ],
    ids=str,
)
def test_errors_name_the_field(type_: pa.DataType, path: str) -> None:
    with pytest.raises(SchemaMismatch, match=rf"'{path}'.*\bunsigned\b"):
        text_of(type_)


def test_column_ids_are_pre_order() -> None:
    schema = schema_of(
        pa.schema(
            [
                ("m", pa.map_(pa.string(), pa.list_(pa.int8()))),
                ("r", pa.run_end_encoded(pa.int32(), pa.struct([("a", pa.int8())]))),
                ("z", pa.int8()),
            ]
        )
    )
    walked = [(".".join(path), int(node.column_id), int(node.last_column_id)) for path, node in schema.walk()]
    assert walked == [
        ("", 0, 7),
        ("m", 1, 4),
        ("m._key", 2, 2),
        ("m._value", 3, 4),
        ("m._value._elem", 4, 4),
        ("r", 5, 6),
        ("r.a", 6, 6),
        ("z", 7, 7),
    ]


# --- other libraries -------------------------------------------------------------------------------


def test_polars() -> None:
    schema = pl.Schema(
        {
            "i": pl.UInt8(),
            "s": pl.String(),
            "b": pl.Binary(),
            "d": pl.Date(),
            "t": pl.Datetime("us", "Europe/Berlin"),
            "n": pl.Datetime("ms"),
            "dec": pl.Decimal(5, 2),
            "e": pl.Enum(["x", "y"]),
            "c": pl.Categorical(),
            "l": pl.List(pl.Array(pl.Int8(), 3)),
            "st": pl.Struct({"größe": pl.Float32()}),
        }
    )
    parsed = schema_of(schema)
    assert str(parsed) == (
        "struct<i:smallint,s:string,b:binary,d:date,t:timestamp with local time zone,n:timestamp,"
        "dec:decimal(5,2),e:string,c:string,l:array<array<tinyint>>,st:struct<`größe`:float>>"
    )
    # The categories of polars are no attributes of a string.
    assert all(node.attributes == () for node in parsed.types)
    with pytest.raises(SchemaMismatch, match=r"'x'.*'_pli128'"):
        schema_of(pl.Schema({"x": pl.Int128()}))
    with pytest.raises(SchemaMismatch, match="'x'"):
        schema_of(pl.Schema({"x": pl.Time()}))


def test_duckdb() -> None:
    query = (
        "select 1::tinyint as i, 'x' as s, 1.5::decimal(7,3) as d, now() as t, {'a': [1, 2]} as st, "
        "map {'k': date '2020-01-01'} as m, 'a'::enum('a', 'b') as e, union_value(n := 2) as u"
    )
    with duckdb.connect() as connection:
        relation = connection.sql(query)
        with pytest.raises(UsageError, match=r"\bschema$"):
            schema_of(relation)
        schema = relation.to_arrow_table().schema
    assert str(schema_of(schema)) == (
        "struct<i:tinyint,s:string,d:decimal(7,3),t:timestamp with local time zone,st:struct<a:array<int>>,"
        "m:map<string,date>,e:string,u:uniontype<int>>"
    )


# --- metadata --------------------------------------------------------------------------------------


def one_field(type_: pa.DataType, metadata: dict[bytes, bytes]) -> Type:
    return schema_of(pa.schema([pa.field("x", type_, metadata=metadata)]))["x"]


@pytest.mark.parametrize(
    ("type_", "declared"),
    [
        (pa.string(), "char(5)"),
        (pa.large_string(), "varchar(65535)"),
        (pa.dictionary(pa.int8(), pa.string()), "varchar(3)"),
        (pa.binary(), "char(5)"),
        (pa.binary(), "geometry(OGC:CRS84)"),
        (pa.binary(), 'geometry({"type": "GeographicCRS", "id": (1, 2)})'),
        (pa.large_binary(), "geography(a,KARNEY,b,SPHERICAL)"),
    ],
    ids=str,
)
def test_declared_types(type_: pa.DataType, declared: str) -> None:
    assert str(one_field(type_, {b"orc.type": declared.encode()})) == declared


def test_the_last_comma_of_a_geography_is_ours() -> None:
    found = one_field(pa.binary(), {b"orc.type": b"geography(a,KARNEY,b,VINCENTY)"})
    assert (found.crs, found.algorithm) == ("a,KARNEY,b", "VINCENTY")


@pytest.mark.parametrize(
    ("type_", "declared", "reason"),
    [
        (pa.int64(), b"char(5)", r"\bbigint\b"),
        (pa.string(), b"geometry(OGC:CRS84)", r"\bstring\b"),
        (pa.list_(pa.string()), b"char(5)", r"\barray\b"),
        (pa.string(), b"char(0)", r"\bvarchar\b"),
        (pa.string(), b"char(4294967296)", r"\bvarchar\b"),
        (pa.string(), b"bigint", r"\bvarchar\b"),
        (pa.string(), b"", r"\bvarchar\b"),
        (pa.binary(), b"geography(OGC:CRS84,EUCLID)", r"\bvarchar\b"),
    ],
    ids=str,
)
def test_declared_types_that_contradict(type_: pa.DataType, declared: bytes, reason: str) -> None:
    with pytest.raises(SchemaMismatch, match=rf"'x'.*\borc\.type=.*{reason}"):
        one_field(type_, {b"orc.type": declared})


def test_other_metadata_are_attributes() -> None:
    metadata = {
        b"iceberg.id": b"3",
        b"": "ß".encode(),
        b"ARROW:extension:name": b"somebody.type",
        b"picture": b"\xff\xd8",
        b"\xff": b"x",
    }
    assert one_field(pa.int8(), metadata).attributes == (("iceberg.id", "3"), ("", "ß"))
    inner = pa.field("item", pa.int8(), metadata={b"k": b"v"})
    (elem,) = one_field(pa.list_(inner), {}).children
    assert elem.attributes == (("k", "v"),)


def test_metadata_of_a_table_are_no_attributes() -> None:
    schema = schema_of(pa.schema([("x", pa.int8())], metadata={b"pandas": b"{}"}))
    assert schema == Schema.parse("struct<x:tinyint>")


# --- out and in again ------------------------------------------------------------------------------


def with_attributes(schema: Schema) -> Schema:
    """The same tree where each type but the root has attributes of its own."""
    kind, *rows = schema.root._rows()
    tagged = [(*row[:6], (("id", str(n)), ("name", "größe")), *row[7:]) for n, row in enumerate(rows)]
    rebuild, _ = schema.root.__reduce__()
    assert callable(rebuild)
    return Schema(rebuild((kind, *tagged)))


@pytest.mark.parametrize("dictionaries", [False, True])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_every_orc_type_comes_back(unit: str, dictionaries: bool) -> None:
    schema = Schema.parse(EVERY_TYPE)
    assert {node.kind for node in schema.types} == set(Kind)
    options = VectorOptions(unit, dictionaries=dictionaries)
    for tree in (schema, with_attributes(schema)):
        ours = exported(tree, options)
        assert schema_of(ours) == tree
        assert schema_of(ours) == tree  # reading takes nothing away
        assert schema_of(pa.schema(ours)) == tree  # which consumes the capsule


def test_char_without_length_comes_back() -> None:
    # No text says it, but files do.
    rows = list(Schema.parse("struct<c:char(5),v:varchar(5)>").root._rows())
    rows[1:] = [(*row[:3], None, *row[4:]) for row in rows[1:]]
    rebuild, _ = Schema.parse("int").root.__reduce__()
    assert callable(rebuild)
    schema = Schema(rebuild(tuple(rows)))
    assert str(schema) == "struct<c:char,v:varchar>"
    assert schema_of(exported(schema)) == schema


def test_text_as_binary_comes_back_where_its_type_is_declared() -> None:
    options = VectorOptions(invalid_utf8="binary")
    given = exported(Schema.parse("struct<c:char(5),s:string>"), options)
    assert str(schema_of(given)) == "struct<c:char(5),s:binary>"


def test_undeclared_decimals_come_back_as_they_are_read() -> None:
    assert str(schema_of(exported(Schema.parse("struct<d:decimal>")))) == "struct<d:decimal(38,6)>"


@given(schemas(EVERYTHING, unions=True))
def test_random_schemas_come_back(type_: Any) -> None:
    schema = Schema.parse(str(type_))
    assert schema_of(exported(schema)) == schema
    assert schema_of(pa.schema(exported(schema))) == schema


@pytest.mark.parametrize("open_", ["array<", "map<int,", "struct<a:", "uniontype<"])
def test_depth(open_: str) -> None:
    deepest = Schema.parse("struct<x:" + open_ * (MAX_DEPTH - 2) + "string" + ">" * (MAX_DEPTH - 1))
    assert schema_of(exported(deepest)) == deepest
    assert schema_of(exported(deepest, VectorOptions(dictionaries=True))) == deepest
    type_ = {"a": pa.list_, "m": lambda t: pa.map_(pa.int32(), t), "s": lambda t: pa.struct([("a", t)])}
    if wrap := type_.get(open_[0]):
        deep = pa.string()
        for _ in range(MAX_DEPTH - 1):
            deep = wrap(deep)
        with pytest.raises(Unsupported) as caught:
            schema_of(pa.schema([("x", deep)]))
        assert caught.value.reason == "schema_too_deep"


# --- capsules made by hand -------------------------------------------------------------------------

ctypes.pythonapi.PyCapsule_New.restype = ctypes.py_object
ctypes.pythonapi.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def never_called(address: int) -> None:
    raise AssertionError(address)  # a consumer that only looks releases nothing


RELEASE = ctypes.cast(never_called, ctypes.c_void_p)


def made(format_: bytes | None, *children: CSchema | None, name: bytes | None = b"", **rest: Any) -> CSchema:
    node = CSchema(format=format_, name=name, n_children=len(children), release=RELEASE)
    if children:
        pointer = ctypes.POINTER(CSchema)
        node.children = (pointer * len(children))(*(ctypes.pointer(c) if c else pointer() for c in children))
    for key, value in rest.items():
        setattr(node, key, value)
    return node


class HandMade:
    def __init__(self, root: CSchema, capsule_name: bytes = b"arrow_schema") -> None:
        self.root, self.capsule_name = root, capsule_name

    def __arrow_c_schema__(self) -> object:
        return ctypes.pythonapi.PyCapsule_New(ctypes.addressof(self.root), self.capsule_name, None)


KEPT: list[object] = []  # a struct holds the addresses of metadata, not the memory


def pairs(*texts: bytes, count: int | None = None) -> ctypes.c_void_p:
    raw = struct.pack("=i", len(texts) // 2 if count is None else count)
    raw += b"".join(struct.pack("=i", len(text)) + text for text in texts)
    return at_address(raw)


def at_address(raw: bytes) -> ctypes.c_void_p:
    KEPT.append(buffer := ctypes.create_string_buffer(raw))
    return ctypes.cast(buffer, ctypes.c_void_p)


def test_hand_made_schemas_are_read() -> None:
    leaf = made(b"u", name=b"c", metadata=pairs(b"odd", b"length", b"orc.type", b"char(3)"))
    schema = schema_of(HandMade(made(b"+s", leaf, made(b"i", name=None), name=None)))
    assert str(schema) == "struct<c:char(3),``:int>"
    assert schema["c"].attributes == (("odd", "length"),)


@pytest.mark.parametrize("answer", [None, 3, object(), (1, 2)])
def test_answers_that_are_no_capsules(answer: object) -> None:
    with pytest.raises(UsageError, match="'arrow_schema'"):
        schema_of(Given(answer))


def test_other_capsules() -> None:
    with pytest.raises(UsageError, match="'arrow_schema'"):
        schema_of(HandMade(made(b"+s"), b"arrow_array"))
    array = pa.array([{"a": 1}]).__arrow_c_array__()[1]
    with pytest.raises(UsageError, match="'arrow_schema'"):
        schema_of(Given(array))


def test_errors_of_the_object_pass_through() -> None:
    class Broken:
        def __arrow_c_schema__(self) -> object:
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        schema_of(Broken())


def test_a_consumed_capsule() -> None:
    given_once = exported(Schema.parse("struct<a:int>"))
    pa.schema(given_once)
    with pytest.raises(SchemaMismatch, match=r"\breleased\b"):
        schema_of(given_once)


INT = made(b"i", name=b"n")


@pytest.mark.parametrize(
    ("root", "problem"),
    [
        (made(None), r"\bschema\b.*\bformat\b"),
        (made(b"+s", made(None, name=b"n")), r"'n'.*\bformat\b"),
        (made(b"+s", made(b"+s", INT, None, name=b"s")), r"'s\.\[1\]'.*\bNULL\b"),
        (made(b"+s", made(b"i", name=b"n", release=None)), r"'\[0\]'.*\breleased\b"),
        (made(b"+s", n_children=1), r"\b1 children\b"),
        (made(b"+s", INT, n_children=-1), "-1 children"),
        (made(b"+s", INT, n_children=2**62), r"\b250000\b"),
        (made(b"+s", made(b"i", name=b"\xff")), r"\bname\b.*'\[0\]'.*\bUTF-8\b"),
        (made(b"+s", made(b"i\xff", name=b"n")), r"\bformat\b.*'n'.*\bUTF-8\b"),
        (made(b"+s", made(b"i", name=b"n", metadata=pairs(count=-1))), r"\bmetadata\b.*'n'.* -1\b"),
        (made(b"+s", made(b"i", name=b"n", metadata=pairs(count=2**31 - 1))), r"'n'.*\b2147483647\b"),
        (
            made(b"+s", made(b"i", name=b"n", metadata=at_address(struct.pack("=ii", 1, -5)))),
            "'n'.* -5 bytes",
        ),
        (made(b"+s", made(b"", name=b"n")), "'n'.* ''"),
        (made(b"+s", made(b"int", name=b"n")), "'n'.*'int'"),
        (made(b"+s", made(b"tsx:", name=b"n")), "'n'.*'tsx:'"),
        (made(b"+s", made(b"w:-1", name=b"n")), "'n'.*'w:-1'"),
        (made(b"+s", made(b"d:5", name=b"n")), "'n'.*'d:5'"),
        (made(b"+s", made(b"d:0,0", name=b"n")), r"decimal\(0,0\)"),
        (made(b"+s", made(b"d:39,0", name=b"n")), r"decimal\(39,0\)"),
        (made(b"+s", made(b"d:5,2,16", name=b"n")), r"'n'.*\b16\b"),
        (made(b"+s", made(b"i", INT, name=b"n")), r"'i'.*\b1 children\b.*\b0\b"),
        (made(b"+s", made(b"+l", name=b"n")), r"'\+l'.*\b0 children\b.*\b1\b"),
        (made(b"+s", made(b"+l", INT, INT, name=b"n")), r"'\+l'.*\b2 children\b.*\b1\b"),
        (made(b"+s", made(b"+m", name=b"n")), r"'\+m'.*\b0 children\b.*\b1\b"),
        (made(b"+s", made(b"+m", INT, name=b"n")), r"\bmap\b.*\bstructs?\b.*'i'"),
        (made(b"+s", made(b"+m", made(b"+s", INT), name=b"n")), r"'\+s'.*\b1 children\b.*\b2\b"),
        (made(b"+s", made(b"+r", INT, name=b"n")), r"'\+r'.*\b1 children\b.*\b2\b"),
        (made(b"+s", made(b"+ud:0,1", INT, name=b"n")), r"'\+ud:0,1'.*\b1 children\b.*\b2\b"),
        (made(b"+s", made(b"+ud:0,0", INT, INT, name=b"n")), r"'\+ud:0,0'.*\b2 children\b.*\b1\b"),
        (made(b"+s", made(b"+us:", name=b"n")), r"'n'.*'\+us:'"),
        (made(b"+s", made(b"+us:0,x", INT, INT, name=b"n")), r"'n'.*'\+us:0,x'"),
        (made(b"+s", made(b"+us:128", INT, name=b"n")), r"'n'.*'\+us:128'"),
        (made(b"+s", made(b"u", name=b"n", dictionary=ctypes.pointer(INT))), r"'n'.*\bdictionary\b.*'u'"),
        (
            made(b"+s", made(b"i", name=b"n", dictionary=ctypes.pointer(made(b"u", release=None)))),
            r"'n\.\[dictionary\]'.*\breleased\b",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_malformed_schemas(root: CSchema, problem: str) -> None:
    with pytest.raises(SchemaMismatch, match=problem):
        schema_of(HandMade(root))


def test_a_schema_that_holds_itself() -> None:
    root = made(b"+l", INT)
    root.children[0] = ctypes.pointer(root)
    with pytest.raises(Unsupported, check=because("schema_too_deep")):
        schema_of(HandMade(root))
    values = made(b"i")
    values.dictionary = ctypes.pointer(values)
    with pytest.raises(Unsupported, check=because("schema_too_deep")):
        schema_of(HandMade(made(b"+s", values)))


def test_a_tree_that_doubles_at_each_level() -> None:
    node = INT
    for _ in range(100):
        node = made(b"+s", node, node)
    with pytest.raises(SchemaMismatch, match=r"\b250000\b"):
        schema_of(HandMade(node))


def test_wide_schemas() -> None:
    names = [f"c{n}" for n in range(20_000)]
    assert schema_of(pa.schema([(name, pa.int8()) for name in names])).names == tuple(names)


def test_the_capsule_is_not_consumed() -> None:
    field = field_of("", Schema.parse("struct<a:int>").root, VectorOptions())
    capsule = export_schema(field)
    references = sys.getrefcount(capsule)
    found = import_schema(capsule, 10)
    assert found.children[0]._asdict() == {
        "format": "i",
        "name": "a",
        "metadata": (),
        "children": (),
        "dictionary": None,
    }
    assert sys.getrefcount(capsule) == references
    assert opened(capsule, b"arrow_schema", CSchema).release is not None


@given(st.binary(max_size=12).filter(lambda raw: b"\0" not in raw))
def test_any_format_is_read_or_refused(raw: bytes) -> None:
    with contextlib.suppress(SchemaMismatch):
        schema_of(HandMade(made(b"+s", made(raw, name=b"n"))))
