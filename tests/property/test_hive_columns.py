"""Tables whose columns change again and again, read and compacted, against Hive's rule in plain Python.

pyarrow writes the files, each with the names that the columns have at the time. Hive matches top-level
columns by position and the fields of structs by name; `tests/acid/test_hive_columns.py` asks Hive itself.
"""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orcstream import col
from orcstream.acid.snapshot import list_table
from orcstream.acid.table import AcidTable
from orcstream.acid.transactions.contract import TableDefinition, Work
from orcstream.acid.transactions.log import TransactionLog, create_log
from orcstream.errors import Unsupported
from orcstream.reader.opening import OpenOptions
from orcstream.schema.schema import Schema
from orcstream.table.columns import PartitionColumns
from tests.support.effort import share
from tests.support.errors import because

NAMES = ("a", "b", "c", "d", "e", "f")
FIELDS = ("x", "y", "z")
Column = tuple[str, tuple[str, ...] | None]  # the name, and the fields of a struct
Row = tuple[Any, ...]


@dataclass
class Model:
    """A table as Hive understands it: columns, and files with the columns that they were written with."""

    columns: list[Column]
    files: list[tuple[list[Column], list[Row]]] = field(default_factory=list)
    count: int = 0

    def put(self, rows: int) -> None:
        made = []
        for _ in range(rows):
            self.count += 1
            at = self.count * 100
            made.append(
                tuple(
                    at + place if fields is None else {one: at + 50 + n for n, one in enumerate(fields)}
                    for place, (_, fields) in enumerate(self.columns)
                )
            )
        self.files.append((list(self.columns), made))

    def rows(self) -> list[dict[str, Any]]:
        found = []
        for columns, rows in self.files:
            for row in rows:
                values = {}
                for place, (name, fields) in enumerate(self.columns):
                    value = row[place] if place < len(columns) else None
                    if value is not None and fields is not None:
                        value = {one: value.get(one) for one in fields}
                    values[name] = value
                found.append(values)
        return found

    @property
    def loses(self) -> bool:
        """Whether a file has columns or fields that the table has not."""
        return any(
            len(columns) > len(self.columns)
            or any(
                set(old or ()) - set(new or ())
                for (_, old), (_, new) in zip(columns, self.columns, strict=False)
            )
            for columns, _ in self.files
        )

    @property
    def schema(self) -> str:
        def text(fields: tuple[str, ...] | None) -> str:
            return "bigint" if fields is None else f"struct<{','.join(f'{one}:bigint' for one in fields)}>"

        return f"struct<{','.join(f'{name}:{text(fields)}' for name, fields in self.columns)}>"


@st.composite
def tables(draw: st.DrawFn) -> Model:
    # A position keeps its kind, or values could not be converted.
    nested = draw(st.lists(st.booleans(), min_size=len(NAMES), max_size=len(NAMES)))

    def column(place: int, name: str) -> Column:
        return name, FIELDS[:2] if nested[place] else None

    names = draw(st.permutations(NAMES))[: draw(st.integers(1, 3))]
    model = Model([column(*one) for one in enumerate(names)])
    model.put(draw(st.integers(1, 3)))
    for change in draw(st.lists(st.sampled_from(["rename", "add", "drop", "fields", "put"]), max_size=6)):
        columns = list(model.columns)
        if change == "rename":
            names = draw(st.permutations(NAMES))
            columns = [(name, fields) for name, (_, fields) in zip(names, columns, strict=False)]
        elif change == "add" and len(columns) < len(NAMES):
            name = draw(st.sampled_from([one for one in NAMES if one not in dict(columns)]))
            columns.append(column(len(columns), name))
        elif change == "drop" and len(columns) > 1:  # by another program: Hive refuses it
            columns.pop()
        elif change == "fields":
            new = tuple(draw(st.permutations(FIELDS))[: draw(st.integers(1, 3))])
            columns = [(name, None if fields is None else new) for name, fields in columns]
        elif change == "put":
            model.put(draw(st.integers(1, 3)))
        model.columns = columns
    return model


def arrow(columns: list[Column], rows: list[Row]) -> pa.Table:
    types = [
        pa.int64() if fields is None else pa.struct([(one, pa.int64()) for one in fields])
        for _, fields in columns
    ]
    arrays = [pa.array([row[at] for row in rows], type_) for at, type_ in enumerate(types)]
    return pa.table(arrays, names=[name for name, _ in columns])


def write(folder: Path, model: Model, *, events: bool) -> None:
    for number, (columns, rows) in enumerate(model.files, 1):
        directory = folder / f"delta_{number:07}_{number:07}_0000"
        directory.mkdir(parents=True)
        table = arrow(columns, rows)
        if events:
            (directory / "_orc_acid_version").write_text("2")
            count = len(rows)
            table = pa.table(
                {
                    "operation": pa.array([0] * count, pa.int32()),
                    "originalTransaction": pa.array([number] * count, pa.int64()),
                    "bucket": pa.array([1 << 29] * count, pa.int32()),
                    "rowId": pa.array(range(count), pa.int64()),
                    "currentTransaction": pa.array([number] * count, pa.int64()),
                    "row": table.to_struct_array().combine_chunks(),
                }
            )
        pyarrow.orc.write_table(table, str(directory / ("bucket_00000" if events else "000000_0")))


class Hives(TransactionLog):
    """A log that defines its table as Hive does."""

    schema = Schema.parse("struct<>")
    insert_only = False

    async def definition(self) -> TableDefinition:
        return TableDefinition(self.schema, insert_only=self.insert_only, by_position=True)


async def opened(folder: Path, model: Model, log: Hives) -> AcidTable:
    listing = await list_table(str(folder), str(folder), None)
    snapshot = listing.snapshot(await log.snapshot())
    options = OpenOptions()
    columns = (await log.definition()).row_columns
    return AcidTable(snapshot, columns, PartitionColumns.of(listing.partitions, None), options, log)


async def rows_of(table: AcidTable, **options: Any) -> list[dict[str, Any]]:
    return sorted((await table.read(**options)).to_pylist(), key=repr)


async def check(model: Model, asked: list[str], bound: int, *, events: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, model, events=events)
        await create_log(name, TableDefinition(Schema.parse(model.schema)))
        log = Hives(name)
        log.schema, log.insert_only = Schema.parse(model.schema), not events
        for number in range(1, len(model.files) + 1):
            transaction = await log.begin()
            await transaction.commit(Work((f"delta_{number:07}_{number:07}_0000",)))
        rows = sorted(model.rows(), key=repr)
        async with await opened(folder, model, log) as table:
            assert await rows_of(table) == rows
            chosen = sorted(({one: row[one] for one in asked} for row in rows), key=repr)
            assert await rows_of(table, columns=asked) == chosen
            for column, fields in model.columns:
                if fields is None:
                    expected = [row for row in rows if row[column] is not None and row[column] < bound]
                    assert await rows_of(table, where=col(column) < bound) == expected
            for kind in ("minor", "major"):
                if model.loses:
                    with pytest.raises(Unsupported, check=because("columns_would_be_lost")):
                        await table.compact("major")
                else:
                    await table.compact(kind)
        async with await opened(folder, model, log) as table:
            assert len(table.partitions[0].inserts) == (len(model.files) if model.loses else 1)
            assert await rows_of(table) == rows


@pytest.mark.parametrize("events", [True, False])
@settings(deadline=None, max_examples=share(150))
@given(data=st.data(), model=tables())
def test_rows_are_read_by_position_and_fields_by_name(
    data: st.DataObject, model: Model, events: bool
) -> None:
    names = [name for name, _ in model.columns]
    asked = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    bound = data.draw(st.integers(0, 100 * model.count + 100))
    asyncio.run(check(model, asked, bound, events=events))
