"""Every row that was written is in its partition's files, once and in order, however files are rolled."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
from hypothesis import given, settings
from hypothesis import strategies as st

import orcstream
from orcstream.codec.encode.grouping import code, groups_of, joined, without_columns
from orcstream.codec.encode.options import EncodeOptions
from orcstream.codec.encode.row_gathering import RowGatherer
from orcstream.codec.ingest.ingest import IngestedRows, UserData
from orcstream.errors import SchemaMismatch
from orcstream.schema.schema import Schema
from orcstream.writer.template import text_of
from tests.support.effort import share

SCHEMA = "struct<t:string,n:bigint,i:int,l:array<int>>"
ARROW = pa.schema([("t", pa.string()), ("n", pa.int64()), ("i", pa.int32()), ("l", pa.list_(pa.int32()))])


@st.composite
def writes(draw: st.DrawFn) -> list[tuple[str, list[dict[str, Any]]]]:
    texts = st.sampled_from(["a", "b/c", "", "ß", None])
    small = st.integers(0, 2) | st.none()
    found = []
    number = 0
    for _ in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from(["rows", "table", "categories", "flush", "single"]))
        count = 1 if kind == "single" else draw(st.integers(0, 60))
        rows = []
        for _ in range(count):
            lists = draw(st.just([1]) | st.none()) if kind != "single" else None
            rows.append({"t": draw(texts), "n": number, "i": draw(small), "l": lists})
            number += 1
        found.append((kind, rows))
    return found


@given(
    writes(),
    st.sampled_from([["t"], ["i"], ["t", "i"], []]),
    st.integers(1, 30) | st.none(),
    st.sampled_from([1, 500, 1 << 20]),
    st.integers(1, 6),
)
@settings(max_examples=share(20))
def test_every_row_once_and_in_order(
    written: list[tuple[str, list[dict[str, Any]]]],
    columns: list[str],
    max_rows: int | None,
    max_bytes: int,
    max_open_files: int,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = asyncio.run(_ingest(folder, written, columns, max_rows, max_bytes, max_open_files))
        expected: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for row in (row for _, rows in written for row in rows):
            expected[tuple(text_of(row[name]) for name in columns)].append(row["n"])
        found: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for one in sorted(files, key=lambda one: int(Path(one.url).stem)):
            table = pyarrow.orc.ORCFile(one.url).read()
            assert table.column_names == [name for name in ARROW.names if name not in columns]
            assert max_rows is None or 1 <= table.num_rows <= max_rows
            found[tuple(text_of(one.partition[name]) for name in columns)] += table["n"].to_pylist()
        assert found == expected
        assert len([path for path in Path(folder).rglob("*") if path.is_file()]) == len(files)


async def _ingest(
    folder: str,
    written: list[tuple[str, list[dict[str, Any]]]],
    columns: list[str],
    max_rows: int | None,
    max_bytes: int,
    max_open_files: int,
) -> tuple[orcstream.IngestedFile, ...]:
    async with orcstream.ingest(
        f"{folder}/{{number:05}}.orc",
        SCHEMA,
        partition_by=columns,
        max_rows=max_rows,
        max_bytes=max_bytes,
        max_open_files=max_open_files,
        compression="none",
    ) as out:
        for kind, rows in written:
            table = pa.Table.from_pylist(rows, ARROW)
            if kind == "flush":
                await out.flush()
            if kind == "categories":
                table = table.set_column(0, "t", table["t"].dictionary_encode())
            await out.write(table if kind in ("table", "categories") else rows)
    return out.files


# --- parts -----------------------------------------------------------------------------------------

_KEYS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "tinyint": (pa.int8(), st.integers(-3, 3)),
    "bigint": (pa.int64(), st.sampled_from([-(1 << 63), 0, 5, (1 << 63) - 1])),
    "boolean": (pa.bool_(), st.booleans()),
    "date": (pa.date32(), st.sampled_from([datetime.date(1, 1, 1), datetime.date(2024, 2, 29)])),
    "decimal(10,2)": (
        pa.decimal128(10, 2),
        st.sampled_from([decimal.Decimal("-1.50"), decimal.Decimal(2)]),
    ),
    "string": (pa.string(), st.text("aß", max_size=2)),
    "varchar(3)": (pa.string(), st.text("ab", max_size=2)),
}


@given(st.data(), st.sampled_from(sorted(_KEYS)), st.sampled_from(sorted(_KEYS)))
def test_groups(data: st.DataObject, first: str, second: str) -> None:
    """As a dictionary of Python's makes them."""
    rows = data.draw(
        st.lists(st.tuples(_KEYS[first][1] | st.none(), _KEYS[second][1] | st.none()), max_size=40)
    )
    start = data.draw(st.integers(0, len(rows)))
    table = pa.table(
        [
            pa.array(values, _KEYS[name][0])
            for name, values in zip((first, second), _columns(rows), strict=True)
        ],
        names=["a", "b"],
    ).slice(start)
    expected: dict[Any, list[int]] = defaultdict(list)
    for at, row in enumerate(rows[start:]):
        expected[row].append(at)
    for ingested in UserData(table).vectors(Schema.parse(f"struct<a:{first},b:{second}>")):
        columns = [code(*pair) for pair in zip(ingested.fields, ingested.vectors, strict=True)]
        found = {
            tuple(column.values[number] for number, column in zip(numbers, columns, strict=True)): list(at)
            for numbers, at in groups_of(columns, ingested.row_count)
        }
        assert found == expected
        assert list(found) == list(expected)


def _columns(rows: list[tuple[Any, Any]]) -> tuple[list[Any], list[Any]]:
    return [row[0] for row in rows], [row[1] for row in rows]


@given(st.lists(st.lists(st.integers(0, 9), max_size=5), max_size=6))
def test_joined_pieces(parts: list[list[int]]) -> None:
    schema = Schema.parse("struct<n:int>")
    pieces: list[IngestedRows] = []
    for part in parts:
        pieces += UserData([{"n": number} for number in part]).vectors(schema)
    (*found,) = joined(pieces)
    assert len(found) == min(1, len(pieces))
    assert sum(piece.row_count for piece in found) == sum(map(len, parts))


def test_schemas_without_some_columns() -> None:
    schema = Schema.parse(
        "struct<a:struct<x:int,y:map<string,int>>,b:int,c:array<uniontype<int,string>>,d:date>"
    )
    for left in range(1, 16):
        dropped = [at for at in range(4) if not left >> at & 1]
        kept = [str(schema.root.children[at]) for at in range(4) if at not in dropped]
        names = [schema.names[at] for at in range(4) if at not in dropped]
        text = ",".join(f"{name}:{type_}" for name, type_ in zip(names, kept, strict=True))
        found, parsed = without_columns(schema, dropped), Schema.parse(f"struct<{text}>")
        assert found == parsed
        assert [node.last_column_id for node in found.types] == [node.last_column_id for node in parsed.types]


_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "tinyint": st.integers(-200, 200) | st.booleans(),
    "bigint": st.integers(-(1 << 64), 1 << 64) | st.floats(),
    "float": st.floats() | st.integers(),
    "double": st.floats() | st.integers(),
    "boolean": st.booleans() | st.integers(0, 1),
    "string": st.text(max_size=5) | st.sampled_from(["\ud800", b"a"]),
    "varchar(2)": st.text(max_size=4),
    "char(2)": st.text("a ", max_size=4),
    "binary": st.binary(max_size=3) | st.text(max_size=1),
    "date": st.dates() | st.datetimes(),
    "timestamp": st.datetimes() | st.datetimes(timezones=st.just(datetime.UTC)),
    "timestamp with local time zone": st.datetimes() | st.datetimes(timezones=st.just(datetime.UTC)),
    "decimal(4,2)": st.decimals(-200, 200, allow_nan=True, places=3) | st.integers(-200, 200),
}


@given(st.data(), st.sampled_from(sorted(_VALUES)))
@settings(max_examples=share(150))
def test_rows_that_are_gathered_fit(data: st.DataObject, kind: str) -> None:
    """What is taken without a doubt is taken by the slow way, too, together with all the others."""
    schema = Schema.parse(f"struct<v:{kind},n:int>")
    gatherer = RowGatherer(schema, EncodeOptions(), {})
    values = data.draw(st.lists(_VALUES[kind] | st.none(), max_size=10))
    taken = []
    for value in values:
        row = {"v": value, "n": 1}
        if gatherer.add([row]):
            taken.append(row)
        else:
            _fits_or_not(schema, row)
    rows, _ = gatherer.take()
    assert list(rows) == [(row["v"], 1) for row in taken]
    (found,) = UserData(rows).vectors(schema)
    assert found.row_count == len(taken)


def _fits_or_not(schema: Schema, row: dict[str, Any]) -> None:
    try:
        list(UserData([row]).vectors(schema))
    except SchemaMismatch:
        return
    # Times before 1970, integers as floats, blanks at the end of a CHAR: these are left to the slow way.
    value = row["v"]
    is_early = isinstance(value, datetime.datetime) and value.year < 1970
    assert is_early or isinstance(value, int) or value.endswith(" "), row
