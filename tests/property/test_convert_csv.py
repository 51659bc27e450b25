"""CSV and JSON mean the same to pyarrow and to Python's modules, as `orcstream convert` uses them."""

from __future__ import annotations

import io
import math
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import orcstream.blocking
from orcstream.cli.convert import rows as cli_rows
from orcstream.cli.convert.arrow import arrow_csv_rows, arrow_json_rows, reads_json
from orcstream.cli.convert.input import Input, Origin, open_input
from orcstream.cli.convert.rows import CsvOptions, Rows, csv_rows, json_rows
from orcstream.errors import FormatError, OrcError, SchemaMismatch, UsageError
from orcstream.schema.schema import Schema

ORIGIN = Origin("the source", 1 << 20)


def _csv_by(read: Callable[..., Rows | None], source: Input, schema: Schema | None) -> Rows | None:
    return read(source, CsvOptions(), schema, ORIGIN)


def _json_by_arrow(source: Input, schema: Schema | None) -> Rows | None:
    if not reads_json(schema) or source.head(1).startswith(b"["):
        return None
    return arrow_json_rows(source, schema, ORIGIN)


def _json_by_python(source: Input, schema: Schema | None) -> Rows:
    return json_rows(source, schema, ORIGIN)


_READERS: dict[str, list[Callable[[Input, Schema | None], Rows | None]]] = {
    "csv": [partial(_csv_by, csv_rows), partial(_csv_by, arrow_csv_rows)],
    "jsonl": [_json_by_python, _json_by_arrow],
    "json": [_json_by_python],
}


def both(ending: str, text: str, schema: Schema | None) -> list[Any]:
    """What Python's readers and pyarrow's make of a text: the schema and rows, or the kind of the error."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"in.{ending}"
        path.write_text(text, newline="")
        found = [_outcome(path, read, schema) for read in _READERS[ending]]
    return [each if each is not None else found[0] for each in found]


def _outcome(path: Path, read: Callable[[Input, Schema | None], Rows | None], schema: Schema | None) -> Any:
    """None where the reader leaves this text to the other one."""
    written = io.BytesIO()
    try:
        with open_input(str(path), {}) as source:
            rows = read(source, schema)
            if rows is None:
                return None
            with orcstream.blocking.create(written, rows.schema) as out:
                for batch in rows.batches:
                    out.write(batch)
        with orcstream.blocking.open(written.getvalue()) as file:
            # Of floats, the text, which tells -0 from 0 and is the same for two NaN.
            return str(file.schema), repr(file.read(timestamp_unit="us").to_pylist())
    except OrcError as error:
        return type(error)


PLAIN = st.text("ab \t'é\\", max_size=4)
QUOTED = st.text('a",\r\n é', max_size=6)


@st.composite
def tables(draw: st.DrawFn) -> tuple[str, list[dict[str, str | None]]]:
    """A text of CSV, and its rows."""
    names = "pqrs"[: draw(st.integers(1, 4))]
    end = draw(st.sampled_from(["\n", "\r\n"]))
    lines = [",".join(names)]
    rows: list[dict[str, str | None]] = []
    for _ in range(draw(st.integers(0, 5))):
        fields: list[str] = []
        row: dict[str, str | None] = {}
        for name in names:
            is_quoted = draw(st.booleans())
            value = draw(QUOTED if is_quoted else PLAIN)
            fields.append('"' + value.replace('"', '""') + '"' if is_quoted else value)
            row[name] = value if is_quoted else value or None
        lines.append(",".join(fields))
        rows.append(row)
    # The last line need not have an end, unless it is empty, which would be none then.
    last = draw(st.sampled_from(["", end])) if lines[-1] else end
    return end.join(lines) + last, rows


@given(tables())
def test_both_readers_see_the_same_rows(table: tuple[str, list[dict[str, str | None]]]) -> None:
    text, rows = table
    names = text.splitlines()[0].split(",")
    schema = Schema.parse("struct<" + ",".join(f"{name}:string" for name in names) + ">")
    slow, fast = both("csv", text, schema)
    assert slow == fast == (str(schema), repr(rows))


FIELDS = st.one_of(
    st.sampled_from(
        [
            *("", "0", "-0", "+5", " 5", "007", "0x10", "1_0", "9007199254740993", "9223372036854775808"),
            *("1.5", "-0.0", ".5", "5.", "1e5", "1e400", "-1e-400", "nan", "inf", "-Infinity", "1e39"),
            *("true", "True", " true", "t", "1.10", "1.555", "NaN", "NULL", "12:30:00", "x", "YWI="),
            *("2020-01-31", "2020-1-1", "2020-02-30", "0000-01-01", "0001-01-01", "9999-12-31"),
            *("2020-01-31 12:00:00 ", "2020-01-31T12:00", "2020-01-31 24:00:00", "2020-01-31 23:59:60"),
            *("2300-01-01 00:00:00.1", "2020-01-31 12:00:00.123456789", "2300-01-01 00:00:00.1234567"),
            *("2020-01-31T12:00:00Z", "2020-01-31 12:00:00.25+02:00", "2020-01-31 12:00:00-0530"),
            *("0001-01-01 00:00:00+14:00", "2020-01-31 12:00:00+24:00", "1e999999999999999999999"),
        ]
    ),
    st.integers(-(10**20), 10**20).map(str),
    st.floats().map(str),
    st.datetimes().map(str),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.text('ab ,"\r\n0-', max_size=4),
)
TYPES = (
    *("tinyint", "int", "bigint", "float", "double", "boolean", "string", "varchar(3)", "decimal(10,2)"),
    *("date", "timestamp", "timestamp with local time zone", "binary"),
)


@given(st.lists(FIELDS, min_size=1, max_size=4), st.sampled_from([None, *TYPES]), st.booleans())
def test_both_readers_of_csv_mean_the_same(fields: list[str], type_: str | None, is_quoted: bool) -> None:
    """Schema and values, or the kind of the error."""
    if is_quoted:
        fields = ['"' + text.replace('"', '""') + '"' for text in fields]
    text = "a,b\n" + "".join(f"{field},1\n" for field in fields)
    schema = None if type_ is None else Schema.parse(f"struct<a:{type_}>")
    slow, fast = both("csv", text, schema)
    assert slow == fast


@given(st.text('a",\n\r 1', max_size=12))
def test_both_readers_split_any_text_alike(text: str) -> None:
    """Beyond the rows that types are taken from, each by itself."""
    schema = Schema.parse("struct<a:string>")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cli_rows, "_BATCH_ROWS", 1)
        slow, fast = both("csv", f"a,b\n1,1\n{text}", schema)
    assert slow == fast


VALUES = st.recursive(
    st.one_of(
        st.sampled_from(
            [
                *("null", "0", "-0", "-0.0", "9007199254740993", "9007199254740993.0", "16777217", "1e400"),
                *("9223372036854775808", "1e39", "1.0", "true", "NaN", "-Infinity", "01", "1.", '"x"'),
                *(
                    '"2020-01-31 12:00:00"',
                    '"2020-01-31"',
                    '"YWI="',
                    r'"\ud800"',
                    r'"\u0000"',
                    '"1.5"',
                    "tru",
                ),
            ]
        ),
        st.integers(-(10**20), 10**20).map(str),
        st.floats().map(str),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: "[" + ",".join(items) + "]"),
        st.lists(st.tuples(st.sampled_from("xy"), inner), max_size=3).map(
            lambda pairs: "{" + ",".join(f'"{key}":{value}' for key, value in pairs) + "}"
        ),
    ),
    max_leaves=4,
)
JSON_TYPES = (*TYPES, "array<double>", "array<bigint>", "struct<x:float,y:bigint>", "map<string,double>")


@given(
    st.lists(VALUES, min_size=1, max_size=3),
    st.sampled_from([None, *JSON_TYPES]),
    st.sampled_from(["\n", "\r\n", "\n\n", "", " ", ","]),
)
def test_both_readers_of_json_mean_the_same(values: list[str], type_: str | None, end: str) -> None:
    text = "".join(f'{{"a":{value}}}{end}' for value in values)
    schema = None if type_ is None else Schema.parse(f"struct<a:{type_}>")
    slow, fast = both("jsonl", text, schema)
    assert slow == fast


@pytest.mark.parametrize(
    ("ending", "text", "schema", "expected"),
    [
        ("csv", "a\n1e400\n", None, [{"a": "1e400"}]),
        ("csv", "a\n1e400\n", "struct<a:double>", SchemaMismatch),
        ("csv", "a\n-inf\n", None, [{"a": -math.inf}]),
        ("csv", 'a\nx"y"z\n', None, [{"a": 'x"y"z'}]),
        ("csv", 'a\n"x"y"z\n', None, [{"a": 'xy"z'}]),
        ("csv", 'a,b\n1,"2\n', None, FormatError),
        ("jsonl", '{"a":1e400}\n', None, FormatError),
        ("jsonl", '{"a":9007199254740993}\n{"a":1.5}\n', None, SchemaMismatch),
        ("jsonl", '{"a":9007199254740992}\n{"a":1.5}\n', None, [{"a": 2.0**53}, {"a": 1.5}]),
        ("jsonl", '{"a":9223372036854775808}\n', None, SchemaMismatch),
        ("jsonl", '{"a":NaN}\n', None, FormatError),
        ("jsonl", '{"a":1}{"a":2}\n', None, FormatError),
    ],
)
def test_values_are_taken_exactly_or_not_at_all(
    ending: str, text: str, schema: str | None, expected: Any
) -> None:
    for found in both(ending, text, None if schema is None else Schema.parse(schema)):
        assert (found if isinstance(found, type) else found[1]) == (
            expected if isinstance(expected, type) else repr(expected)
        )


@pytest.mark.parametrize(
    ("ending", "text"),
    [
        ("csv", "a,b\n" + "x" * (3 << 20) + ",1\n"),
        ("csv", 'a,b\n"' + "x\n" * (3 << 20) + '",1\n'),
        ("csv", "a,b\n1,1\n" + "x" * (3 << 20)),
        ("jsonl", '{"a":"' + "x" * (3 << 20) + '"}\n'),
        ("jsonl", '{"a":"x"}\n{"a":"' + "x" * (3 << 20)),
        ("json", '[{"a":1},{"a":"' + "x" * (9 << 20) + '"}]'),
    ],
)
def test_a_row_that_is_too_long(ending: str, text: str) -> None:
    """It is not held: a few bytes may decompress to many."""
    for found in both(ending, text, None):
        assert found is UsageError
