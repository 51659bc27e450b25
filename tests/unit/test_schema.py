"""The schema's text form, its numbering, and selection by name."""

from __future__ import annotations

import contextlib
import copy
import pickle
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orcstream.errors import ColumnNotFound, SchemaMismatch, Unsupported, UsageError
from orcstream.schema.schema import Schema, numbered
from orcstream.schema.types import MAX_DEPTH, Kind, Type

EVERYTHING = (
    "struct<b:boolean,t:tinyint,s:smallint,i:int,l:bigint,f:float,d:double,str:string,bin:binary,"
    "ts:timestamp,tz:timestamp with local time zone,day:date,dec:decimal(10,2),old:decimal,c:char(5),"
    "v:varchar(7),list:array<int>,m:map<string,struct<x:int,y:array<double>>>,u:uniontype<int,string>,"
    "`odd ``name`:int,empty:struct<>,g:geometry(OGC:CRS84),e:geography(EPSG:4326,KARNEY)>"
)


def select(text: str, columns: list[str | tuple[str, ...]] | None, *, case_sensitive: bool = True) -> str:
    return str(Schema.parse(text).select(columns, case_sensitive))


def test_text_round_trip() -> None:
    schema = Schema.parse(EVERYTHING)
    assert str(schema) == EVERYTHING
    assert Schema.parse(str(schema)) == schema
    assert {node.kind for _, node in schema.walk()} == set(Kind)


def test_column_ids_are_pre_order() -> None:
    schema = Schema.parse("struct<a:array<int>,m:map<int,struct<x:int>>,z:int>")
    walked = [(".".join(path), int(node.column_id), int(node.last_column_id)) for path, node in schema.walk()]
    assert walked == [
        ("", 0, 7),
        ("a", 1, 2),
        ("a._elem", 2, 2),
        ("m", 3, 6),
        ("m._key", 4, 4),
        ("m._value", 5, 6),
        ("m._value.x", 6, 6),
        ("z", 7, 7),
    ]
    assert schema.column_count == 8
    assert [node.column_id for node in schema.types] == list(range(8))


def test_schema_is_a_collection_of_top_level_fields() -> None:
    schema = Schema.parse("struct<a:int,b:struct<x:int>>")
    assert schema.names == tuple(schema) == ("a", "b")
    assert len(schema) == 2
    assert "b.x" in schema
    assert "b.y" not in schema
    assert 3 not in schema
    assert str(schema["b"]) == "struct<x:int>"
    assert schema["b", "x"].column_id == 3
    assert Schema.parse("int").names == ()
    assert not list(Schema.parse("int"))
    assert Schema.parse("struct<>")  # an empty collection, but a schema


def test_values() -> None:
    schema = Schema.parse(EVERYTHING)
    same = Schema.parse(EVERYTHING)
    assert schema == same
    assert hash(schema) == hash(same)
    assert schema != Schema.parse("struct<b:boolean>")
    assert pickle.loads(pickle.dumps(schema)) == schema
    assert copy.deepcopy(schema.root) == schema.root
    projected = schema.select(["m._value.y", "i"])
    assert pickle.loads(pickle.dumps(projected)) == projected
    assert projected != schema.root
    assert schema.root != EVERYTHING
    assert repr(Schema.parse("struct<a:int>")) == "Schema.parse('struct<a:int>')"
    with pytest.raises(UsageError, match="pre-order"):
        Schema(projected)
    with pytest.raises(AttributeError):
        schema.root = projected  # type: ignore[misc]
    with pytest.raises(AttributeError):
        del schema.root


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (" STRUCT < a : INT , `b c` : Array< String > > ", "struct<a:int,`b c`:array<string>>"),
        ("struct<a.b:int,c-d:int,é:int>", "struct<`a.b`:int,`c-d`:int,`é`:int>"),
        ("timestamp  with local\ttime zone", "timestamp with local time zone"),
        ("decimal(5)", "decimal(5,0)"),
        ("geometry", "geometry(OGC:CRS84)"),  # as ORC Java prints its default
        ("geography", "geography(OGC:CRS84,SPHERICAL)"),
        ("geography(EPSG:1, karney)", "geography(EPSG:1,KARNEY)"),
        ("struct<1a:int,``:int>", "struct<1a:int,``:int>"),
    ],
)
def test_lenient_text(text: str, canonical: str) -> None:
    assert str(Schema.parse(text)) == canonical


@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        ("", 0, r"\btype\b"),
        ("struct<a:long>", 9, "'bigint'"),
        ("struct<a:strng>", 9, "'string'"),
        ("timestamp with time zone", 0, "'timestamp with local time zone'"),
        ("struct<a int>", 9, "':'"),
        ("struct<a:int", 12, "'>'"),
        ("struct<a:int,>", 13, r"\bname\b"),
        ("struct<`a:int>", 14, r"\bname\b"),
        ("int>", 3, r"\bend\b"),
        ("array<int,int>", 14, r"\barray\b.*\b1\b.*\b2\b"),
        ("map<int>", 8, r"\bmap\b.*\b2\b.*\b1\b"),
        ("uniontype<" + ",".join(["int"] * 257) + ">", 1038, r"\buniontype\b.*\b256\b.*\b257\b"),
        ("decimal(39,0)", 8, r"\bprecision\b.*\b38\b"),
        ("decimal(5,6)", 10, r"\bscale\b.*\b5\b"),
        ("char", 4, r"'\('"),
        ("varchar(0)", 8, r"\blength\b.*\b2147483647\b"),
        ("geography(X, FLAT)", 13, r"\bSPHERICAL\b"),
        ("geometry()", 9, r"\breference system\b"),
    ],
)
def test_bad_text(text: str, position: int, problem: str) -> None:
    with pytest.raises(SchemaMismatch, match=rf"\b{position}\b.*{problem}"):
        Schema.parse(text)


def test_text_must_be_text() -> None:
    with pytest.raises(UsageError, match=r"\bstr\b.*\bbytes\b"):
        Schema.parse(b"int")  # type: ignore[arg-type]  # what the test is about


@pytest.mark.parametrize(
    "text", ["struct<`\ud800`:int>", "array<struct<a:int,`x\udfff`:int>>", "geometry(\ud800)"]
)
def test_text_is_what_utf_8_can_hold(text: str) -> None:
    with pytest.raises(SchemaMismatch, match="surrogate"):
        Schema.parse(text)


def test_depth() -> None:
    def nested(levels: int) -> str:
        return "array<" * (levels - 1) + "int" + ">" * (levels - 1)

    schema = Schema.parse(nested(MAX_DEPTH))
    assert str(schema) == nested(MAX_DEPTH)
    assert pickle.loads(pickle.dumps(schema)) == schema
    assert hash(schema) == hash(Schema.parse(nested(MAX_DEPTH)))
    assert repr(schema.root)
    with pytest.raises(Unsupported) as caught:
        Schema.parse(nested(MAX_DEPTH + 1))
    assert caught.value.reason == "schema_too_deep"


NESTED = "struct<a:struct<x:int,y:int,z:int>,b:int,c:array<struct<p:int,q:int>>>"


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (None, NESTED),
        ([], "struct<>"),
        (["b", "a"], "struct<b:int,a:struct<x:int,y:int,z:int>>"),
        (["a.y", "b", "a.x"], "struct<a:struct<y:int,x:int>,b:int>"),
        (["b", "b", ("b",)], "struct<b:int>"),
        (["a.x", "a"], "struct<a:struct<x:int,y:int,z:int>>"),
        (["a", "a.x"], "struct<a:struct<x:int,y:int,z:int>>"),
        (["c._elem.q"], "struct<c:array<struct<q:int>>>"),
        (["c._elem"], "struct<c:array<struct<p:int,q:int>>>"),
        ([("a", "z"), "b"], "struct<a:struct<z:int>,b:int>"),
    ],
)
def test_select(columns: list[str | tuple[str, ...]] | None, expected: str) -> None:
    assert select(NESTED, columns) == expected


def test_select_keeps_the_file_s_column_ids() -> None:
    root = Schema.parse(NESTED).select(["c._elem.q", "a.y"])
    ids = [(int(node.column_id), int(node.last_column_id)) for _, node in root.walk()]
    assert ids == [(0, 9), (6, 9), (7, 9), (9, 9), (1, 4), (3, 3)]


def test_select_in_maps_and_unions() -> None:
    text = "struct<m:map<struct<k:int,l:int>,struct<x:int,y:int>>,u:uniontype<int,struct<x:int>>>"
    pruned = "struct<m:map<struct<k:int,l:int>,struct<y:int>>>"
    assert select(text, ["m._value.y"]) == pruned
    assert select(text, ["m._key.l"]) == "struct<m:map<struct<l:int>,struct<x:int,y:int>>>"
    assert select(text, ["m._key.l", "m._value.x"]) == "struct<m:map<struct<l:int>,struct<x:int>>>"
    assert select(text, ["m._key"]) == "struct<m:map<struct<k:int,l:int>,struct<x:int,y:int>>>"
    assert select(text, ["u._union_1.x"]) == "struct<u:uniontype<int,struct<x:int>>>"
    with pytest.raises(ColumnNotFound):
        select(text, ["u._union_2"])


def test_select_names_that_hold_dots() -> None:
    text = "struct<col.dot:bigint,col:struct<dot:int,b.c:int>,a.b:struct<c.d:int>>"
    assert select(text, ["col.dot"]) == "struct<`col.dot`:bigint>"
    assert select(text, [("col", "dot")]) == "struct<col:struct<dot:int>>"
    assert select(text, ["col.b.c"]) == "struct<col:struct<`b.c`:int>>"
    assert select(text, ["a.b.c.d"]) == "struct<`a.b`:struct<`c.d`:int>>"


def test_select_case() -> None:
    text = "struct<Name:int,Inner:struct<X:int>>"
    assert select(text, ["name", "INNER.x"], case_sensitive=False) == "struct<Name:int,Inner:struct<X:int>>"
    with pytest.raises(ColumnNotFound, match="'Name'"):
        select(text, ["name"])
    both = "struct<a:int,A:string>"
    assert select(both, ["A"], case_sensitive=False) == "struct<A:string>"
    with pytest.raises(UsageError, match=r"'AB'.*'aB', 'Ab'"):
        select("struct<aB:int,Ab:string>", ["AB"], case_sensitive=False)
    with pytest.raises(UsageError, match=r"'a'.*'a', 'a'"):
        select("struct<a:int,a:string>", ["a"])


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("amuont", r"'amuont'.*'amount', 'inner'.*'amount'"),
        ("inner.vlaue", r"'inner\.vlaue'.*'inner'.*'value'.*'value'"),
        ("amount.x", r"'amount\.x'.*'amount'.*\bint\b"),
        (("inner", "X"), r"\('inner', 'X'\).*'inner'.*'value'$"),
        ("", r"''.*'amount', 'inner'$"),
        ("inner.", r"'inner\.'.*'inner'.*'value'$"),
    ],
)
def test_unknown_column(column: str | tuple[str, ...], message: str) -> None:
    schema = Schema.parse("struct<amount:int,inner:struct<value:int>>")
    with pytest.raises(ColumnNotFound, match=message):
        schema.select([column])
    with pytest.raises(ColumnNotFound):
        schema[column]


def test_select_refuses_what_it_cannot_mean() -> None:
    schema = Schema.parse("struct<a:int>")
    with pytest.raises(UsageError, match=r"\['a'\]"):
        schema.select("a")
    for column in ((), 3, ("a", 1)):
        with pytest.raises(UsageError, match=r"\bcolumn\b.*\bname\b"):
            schema.select([column])  # type: ignore[list-item]  # what the test is about
    scalar = Schema.parse("timestamp")
    assert scalar.select(None) is scalar.root
    for columns in (["a"], []):
        with pytest.raises(UsageError, match=r"\btimestamp\b.*\bstruct\b"):
            scalar.select(columns)


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)
types = st.recursive(
    st.sampled_from(["int", "string", "decimal(3,1)", "char(2)", "timestamp with local time zone"]),
    lambda inner: st.one_of(
        inner.map(lambda child: f"array<{child}>"),
        st.tuples(inner, inner).map(lambda pair: f"map<{pair[0]},{pair[1]}>"),
        st.lists(inner, min_size=1, max_size=3).map(lambda all_: f"uniontype<{','.join(all_)}>"),
        st.dictionaries(names, inner, max_size=4).map(
            lambda fields: (
                "struct<" + ",".join(f"`{n.replace('`', '``')}`:{t}" for n, t in fields.items()) + ">"
            )
        ),
    ),
    max_leaves=12,
)


@given(types)
def test_any_schema_round_trips(text: str) -> None:
    schema = Schema.parse(text)
    assert Schema.parse(str(schema)) == schema
    assert pickle.loads(pickle.dumps(schema)) == schema


@given(types)
def test_selecting_every_path_selects_everything(text: str) -> None:
    schema = Schema.parse(f"struct<r:{text}>")
    assert schema.select([path for path, _ in schema.walk() if path]) == schema.root
    for path, node in schema.walk():
        if path:
            assert schema[path] == node


@given(st.text())
def test_any_text_parses_or_is_a_schema_mismatch(text: str) -> None:
    with contextlib.suppress(SchemaMismatch, Unsupported):
        Schema.parse(text)


def test_thousands_of_columns_are_found_at_once() -> None:
    """Names are looked up once for each column, not compared with all: that took minutes."""
    names = [f"c{number}" for number in range(20_000)]
    schema = Schema.parse(f"struct<{','.join(f'{name}:int' for name in names)}>")
    began = time.process_time()
    assert schema.select(names[::-1]).field_names == tuple(names[::-1])
    assert [schema[name].column_id for name in names] == list(range(1, 20_001))
    assert time.process_time() - began < 5


def test_types_are_numbered_anew() -> None:
    schema = Schema.parse("struct<a:int,b:struct<c:map<string,date>,d:int>>")
    noted = replace(schema["b"], attributes=(("key", "value"),))
    found = numbered(noted)
    assert found == Schema(replace(numbered(noted, attributes=False).root, attributes=noted.attributes))
    assert numbered(noted, attributes=False) == Schema.parse(str(noted))
    deep = schema["a"]
    for _ in range(MAX_DEPTH):
        deep = Type(Kind.LIST, (deep,))
    with pytest.raises(Unsupported) as raised:
        numbered(deep)
    assert raised.value.reason == "schema_too_deep"
