"""Where the columns of a table are in its files, and what of a file it has no room for."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

import orcstream
from orcstream.plan.projection import RowColumns, keeps_values
from orcstream.schema.schema import Schema
from orcstream.schema.types import Type

# The values that are hardest to keep.
EXTREMES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [False, True]),
    "tinyint": (pa.int8(), [-128, -127, 0, 126, 127]),
    "smallint": (pa.int16(), [-(2**15), 1 - 2**15, 0, 2**15 - 2, 2**15 - 1]),
    "int": (pa.int32(), [-(2**31), 1 - 2**31, 0, 2**31 - 2, 2**31 - 1]),
    "bigint": (pa.int64(), [-(2**63), 1 - 2**63, 0, 2**63 - 2, 2**63 - 1]),
    "float": (pa.float32(), [-(2.0**100), -1.0, 0.5, 1.0, 1.0000001, 3.4e38]),
    "double": (pa.float64(), [-(2.0**1000), -1.0, 0.5, 1.0, 1.0000000000000002, 1.7e308]),
    "decimal(5,2)": (pa.decimal128(5, 2), [Decimal(one) for one in ("-999.99", "-999.98", "0.00", "0.01")]),
    "decimal(38,0)": (
        pa.decimal128(38, 0),
        [Decimal(one) for one in (1 - 10**38, 0, 10**38 - 2, 10**38 - 1)],
    ),
    "string": (pa.string(), ["", " ", "a", "a ", "12", "012", "x" * 40, "x" * 41]),
    "date": (pa.date32(), [date(1, 1, 1), date(1969, 12, 31), date(2200, 1, 1)]),
}
TARGETS = (
    *EXTREMES,
    "decimal(7,4)",
    "decimal(38,18)",
    "varchar(4)",
    "char(12)",
    "varchar(20)",
    "timestamp",
    "binary",
)


def kind(text: str) -> Type:
    return Schema.parse(f"struct<a:{text}>").root.children[0]


KEPT = [pair for pair in product(EXTREMES, TARGETS) if keeps_values(*map(kind, pair))]


@pytest.mark.parametrize(("source", "target"), KEPT)
def test_what_keeps_values_keeps_them_apart(source: str, target: str, tmp_path: Path) -> None:
    type_, values = EXTREMES[source]
    orc.write_table(pa.table({"a": pa.array(values, type_)}), tmp_path / "x.orc")
    with orcstream.blocking.open(tmp_path / "x.orc") as file:
        found = file.read(schema=f"struct<a:{target}>", timestamp_unit="us").to_pylist()
    converted = [row["a"] for row in found]
    assert None not in converted
    assert len(set(converted)) == len(values)


@pytest.mark.parametrize(
    ("source", "target", "keeps"),
    [
        ("int", "bigint", True),
        ("bigint", "int", False),
        ("int", "double", True),
        ("bigint", "double", False),
        ("int", "float", False),
        ("int", "decimal(10,0)", True),
        ("int", "decimal(10,1)", False),
        ("decimal(5,2)", "decimal(7,4)", True),
        ("decimal(5,2)", "decimal(6,4)", False),
        ("decimal(5,2)", "decimal(5,1)", False),
        ("int", "string", True),
        ("int", "varchar(10)", False),
        ("string", "int", False),
        ("string", "varchar(10)", False),
        ("varchar(5)", "char(5)", False),
        ("char(5)", "varchar(5)", True),
        ("date", "timestamp", True),
        ("timestamp", "date", False),
    ],
)
def test_which_types_keep_values(source: str, target: str, keeps: bool) -> None:
    assert keeps_values(kind(source), kind(target)) is keeps


def columns(written: str, schema: str | None = None, *, by_position: bool = True) -> RowColumns:
    return RowColumns(Schema.parse(written), Schema.parse(schema or written), by_position)


@pytest.mark.parametrize(
    ("written", "file", "by_position", "expected"),
    [
        ("struct<a:int,b:int>", "struct<b:int,a:int>", True, {"a": "b", "b": "a"}),
        ("struct<a:int,b:int>", "struct<b:int,a:int>", False, {"a": "a", "b": "b"}),
        ("struct<a:int,b:int>", "struct<_col0:int,_col1:int>", False, {"a": "_col0", "b": "_col1"}),
        ("struct<b:int,a:int>", "struct<a:int>", True, {"b": "a", "a": "a_"}),
        ("struct<a:int,a_:int,b:int>", "struct<b:int>", True, {"a": "b", "a_": "a_", "b": "b_"}),
        ("struct<a:int>", "struct<b:int,a:int>", True, {"a": "b"}),
    ],
)
def test_names_in_a_file(written: str, file: str, by_position: bool, expected: dict[str, str]) -> None:
    placed = columns(written, by_position=by_position).placed(Schema.parse(file))
    assert placed.names == expected
    assert placed.path(("a", "x")) == (expected["a"], "x")
    assert set(placed.schema.names) == {*Schema.parse(file).names, *expected.values()}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("struct<b:int,a:int>", {"b": "y", "a": "x"}),
        ("struct<b:int>", {"b": "y"}),
        ("struct<b:int,c:int,a:int>", {"b": "y", "c": "c", "a": "x"}),
        ("struct<a:int,new:int>", {"a": "x", "new": "y"}),
    ],
)
def test_a_schema_of_the_users(schema: str, expected: dict[str, str]) -> None:
    """By name where it can be, by position where columns were renamed."""
    found = columns("struct<a:int,b:int>", schema).placed(Schema.parse("struct<x:int,y:int>"))
    assert found.names == expected


@pytest.mark.parametrize(
    ("written", "file", "by_position", "expected"),
    [
        ("struct<a:int,c:int>", "struct<a:int,b:int>", True, []),
        ("struct<a:int,c:int>", "struct<a:int,b:int>", False, ["the column 'b'"]),
        ("struct<a:int>", "struct<a:int,b:int,c:int>", True, ["the column 'b'", "the column 'c'"]),
        ("struct<a:struct<x:int>>", "struct<a:struct<x:int,y:int>>", True, ["the field 'a.y'"]),
        (
            "struct<m:map<int,array<struct<x:int>>>>",
            "struct<m:map<int,array<struct<y:int>>>>",
            True,
            ["the field 'm.y'"],
        ),
        (
            "struct<a:array<int>>",
            "struct<a:array<bigint>>",
            True,
            ["values of 'a', which is bigint in the file and int in the table"],
        ),
        ("struct<a:bigint>", "int", True, []),
    ],
)
def test_what_would_be_lost(written: str, file: str, by_position: bool, expected: list[str]) -> None:
    assert columns(written, by_position=by_position).lost(Schema.parse(file)) == expected
