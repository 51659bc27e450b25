"""Values of columns that are encrypted or masked do not stand in errors, which are logged in the clear."""

from __future__ import annotations

import io
import traceback
from collections.abc import Awaitable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import orcstream
from orcstream import Encrypt
from orcstream.errors import SchemaMismatch, SourceError
from tests.generators.encrypting import CountedKeys


@pytest.mark.parametrize("hide", [{"encrypt": [Encrypt("pii", ["a"])]}, {"masks": {"a": "redact"}}])
@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("tinyint", 471_147),
        ("int", "471147"),
        ("decimal(4,2)", Decimal("471147.1")),
        ("varchar(3)", "471147"),
        ("date", "471147"),
        ("string", "\ud800471147"),
        ("map<string,int>", {"471147": "471147"}),
        ("struct<x:array<boolean>>", {"x": ["471147"]}),
    ],
)
async def test_values_that_are_hidden_are_not_in_errors(
    tmp_path: Path, hide: dict[str, Any], type_: str, value: object
) -> None:
    schema, good, bad = f"struct<p:int,a:{type_},c:int>", (1, None, 2), (1, value, 2)
    options: dict[str, Any] = {"keys": CountedKeys(), **hide}
    path = f"{tmp_path}/p={{p}}/{{number}}.orc"
    for out in (orcstream.create(io.BytesIO(), schema, **options), orcstream.ingest(path, schema, **options)):
        async with out as open_:
            with pytest.raises(SchemaMismatch, match="'a") as caught:
                await open_.write([good, bad])
            assert caught.value.row == 1
            shown = "".join(traceback.format_exception(caught.value))
            assert "471147" not in shown
            assert caught.value.__context__ is None
            with pytest.raises(SchemaMismatch, match=r"'c'.*'what'"):
                await open_.write([good, (1, None, "what")])
            await open_.write([good])


class Failing:
    """Data of a library that says which value it cannot convert: at once, or later in the stream."""

    def __init__(self, *, later: bool) -> None:
        self._later = later

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        if not self._later:
            raise ValueError("cannot convert 471147")
        schema = pa.schema([("p", pa.int32()), ("a", pa.string()), ("c", pa.int32())])
        return pa.RecordBatchReader.from_batches(schema, self._batches()).__arrow_c_stream__()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        yield from ()
        raise ValueError("cannot convert 471147")


@pytest.mark.parametrize("hide", [{"encrypt": [Encrypt("pii", ["a"])]}, {"masks": {"a": "redact"}}])
@pytest.mark.parametrize(
    ("schema", "data"),
    [
        ("struct<p:int,a:string,c:int>", Failing(later=False)),
        ("struct<p:int,a:string,c:int>", Failing(later=True)),
        ("struct<p:int,a:string>", {"a": np.array(["\ud800471147"])}),
        ("struct<p:int,a:string>", ["471147"]),
        ("struct<p:int,a:string>", [(1, "x"), "471147"]),
        (None, pd.DataFrame({"p": [1, 1], "a": [471_147, b"471147"]})),
        (None, [{"p": 1, "a": Decimal("NaN471147")}]),
        (None, {"p": np.array([1]), "a": np.array([Decimal("sNaN471147")])}),
        (None, ["471147"]),
    ],
)
async def test_data_that_cannot_be_read_as_rows_is_not_in_errors(
    tmp_path: Path, hide: dict[str, Any], schema: str | None, data: object
) -> None:
    options: dict[str, Any] = {"keys": CountedKeys(), **hide}
    path = f"{tmp_path}/p={{p}}/{{number}}.orc"
    for out in (orcstream.create(io.BytesIO(), schema, **options), orcstream.ingest(path, schema, **options)):
        with pytest.raises((SchemaMismatch, SourceError)) as caught:
            async with out as open_:
                await open_.write(data)
        assert "471147" not in "".join(traceback.format_exception(caught.value))
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None


async def test_parts_of_a_value_are_hidden_with_the_whole() -> None:
    options: dict[str, Any] = {"keys": CountedKeys(), "encrypt": [Encrypt("pii", ["s.x", "l._elem"])]}
    schema = "struct<s:struct<x:string,y:int>,l:array<string>,u:uniontype<string,int>,m:map<string,string>>"
    values: list[dict[str, Any]] = [
        {"s": "471147"},
        {"l": "471147"},
        {"l": {"471147": 1}},
        {"u": "471147"},
        {"u": ("471147", 0)},
        {"m": "471147"},
        {"m": [("471147",)]},
    ]
    async with orcstream.create(io.BytesIO(), schema, **options) as out:
        for value in values:
            with pytest.raises(SchemaMismatch, match=r"\b(str|dict|tuple)\b") as caught:
                await out.write([value])
            assert "471147" not in "".join(traceback.format_exception(caught.value))
        with pytest.raises(SchemaMismatch, match="'wrong'"):
            await out.write([{"wrong": 1}])


@pytest.mark.parametrize("insert_only", [False, True])
async def test_values_that_a_table_hides_are_not_in_errors(tmp_path: Path, *, insert_only: bool) -> None:
    url, row = str(tmp_path), "" if insert_only else "row."
    await orcstream.acid.create_table(url, "struct<a:int,s:varchar(3),c:int>", insert_only=insert_only)
    options: Any = {"keys": CountedKeys(), "encrypt": [Encrypt("pii", [f"{row}s"])]}
    bad: list[Any] = [
        [{"a": 1, "s": "471147"}],
        {"s": np.array(["471147"])},
        [(1, 471_147, 1)],
        Failing(later=False),
        Failing(later=True),
    ]

    async def refused(call: Awaitable[object]) -> None:
        with pytest.raises((SchemaMismatch, SourceError), match=r"'s'|\bArrow\b") as caught:
            await call
        assert "471147" not in "".join(traceback.format_exception(caught.value))

    async with orcstream.acid.open_table(url, keys=options["keys"]) as table:
        async with await table.transaction(**options) as change:
            await change.insert([{"a": 1, "s": "x"}])
            for data in bad:
                await refused(change.insert(data))
            if not insert_only:
                await refused(change.update({"s": "471147"}))
                await refused(change.update(lambda batch: {"s": ["471147"] * batch.num_rows}))
            with pytest.raises(SchemaMismatch, match=r"'c'.*'what'"):
                await change.insert([{"c": "what"}])
        async with table.stream(transactions=1, **options) as stream:
            for data in bad:
                await refused(stream.write(data))
            await stream.write([{"a": 2, "s": "y"}])
