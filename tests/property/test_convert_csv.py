"""CSV means the same to pyarrow and to Python's csv, as `orcstream convert` uses them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orcstream.cli_arrow import arrow_csv_rows
from orcstream.cli_discretion import Discretion
from orcstream.cli_input import open_input
from orcstream.cli_rows import CsvOptions, csv_rows
from orcstream.cli_values import text_type
from orcstream.schema import Schema

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
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "in.csv"
        path.write_text(text, newline="")
        with open_input(str(path), {}) as source:
            slow = [
                dict(zip(batch, row, strict=True))
                for batch in csv_rows(source, CsvOptions(), schema, Discretion()).batches
                for row in zip(*batch.values(), strict=True)
            ]
        with open_input(str(path), {}) as source:
            found = arrow_csv_rows(source, CsvOptions(), schema, 1 << 20, Discretion())
            assert found is not None
            fast = [row for batch in found.batches for row in batch.to_pylist()]
    assert slow == rows
    assert fast == rows


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        *((text, "bigint") for text in ("0", "-5", " 5 ", "007", "9223372036854775807")),
        *((text, "double") for text in ("+5", ".5", "5.", "1e5", "nan", "NaN", "inf", "-Infinity")),
        ("9223372036854775808", "double"),
        *((text, "boolean") for text in ("true", "False", "TRUE")),
        *((text, "date") for text in ("2020-01-31", " 2020-01-31", "0001-01-01", "9999-12-31")),
        *((text, "timestamp") for text in ("2020-01-31 12:00:00", "2020-01-31T12:00", "2020-01-31 12")),
        *((text, "timestamp") for text in ("2020-01-31 12:00:00.5", "2020-01-31 12:00:00.123456789")),
        ("2020-01-31T12:00:00Z", "timestamp with local time zone"),
        ("2020-01-31 12:00:00.25+02:00", "timestamp with local time zone"),
        *(
            (text, "string")
            for text in ("x", "t", "1_0", "-", "12:30:00", "2020-13-01", "2020-1-1", "٣", "1 2")
        ),
    ],
)
def test_both_readers_guess_the_same_types(text: str, type_: str, tmp_path: Path) -> None:
    arrow_types = {
        "bigint": "int64",
        "double": "double",
        "boolean": "bool",
        "date": "date32[day]",
        "string": "string",
    }
    (tmp_path / "in.csv").write_text(f"a\n{text}\n")
    with open_input(str(tmp_path / "in.csv"), {}) as source:
        found = arrow_csv_rows(source, CsvOptions(), None, 1 << 20, Discretion())
    assert found is not None
    theirs = found.schema.field(0).type
    assert text_type([text]) == type_
    if type_.startswith("timestamp"):
        assert pa.types.is_timestamp(theirs)
        assert (theirs.tz is None) == (type_ == "timestamp")
    else:
        assert str(theirs) == arrow_types[type_]
