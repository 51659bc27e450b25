"""Values of columns that are encrypted or masked do not stand in errors, which are logged in the clear."""

from __future__ import annotations

import io
import traceback
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import orcstream
from orcstream import Encrypt
from orcstream.errors import SchemaMismatch
from tests.support.encrypting import CountedKeys


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
            with pytest.raises(SchemaMismatch, match=r"the column 'a.*is not shown") as caught:
                await open_.write([good, bad])
            assert caught.value.row == 1
            shown = "".join(traceback.format_exception(caught.value))
            assert "471147" not in shown
            assert caught.value.__context__ is None
            with pytest.raises(SchemaMismatch, match="the column 'c' holds 'what'"):
                await open_.write([good, (1, None, "what")])
            await open_.write([good])
