"""Files of which only masks are written hold what is left of encrypted ones for those without keys."""

from __future__ import annotations

import io
from typing import Any

import anyio
import hypothesis
import pytest
from hypothesis import strategies as st

import orcstream
from orcstream import Encrypt
from orcstream.errors import ColumnNotFound, UsageError
from tests.support import strategies
from tests.support.encrypting import CountedKeys, paths_of
from tests.support.writing import pieces

MASKS = ("nullify", "redact", "sha256", "redact,`AaN`,`_ _ 1 _`,`0:0,-1:-1`")


async def written(schema: str, parts: list[object], **options: Any) -> list[object]:
    """The rows of a file, as values of Python: null keys of maps too."""
    buffer = io.BytesIO()
    async with orcstream.create(buffer, schema, lossy_timestamps=True, **options) as out:
        for part in parts:
            await out.write(part)
    async with orcstream.open(buffer.getvalue()) as file:
        return [row async for batch in file.batches(timestamp_unit="us") for row in batch.to_pylist()]


@hypothesis.settings(max_examples=60)
@hypothesis.given(
    table=strategies.tables(strategies.schemas(strategies.EVERYTHING, unions=True)), data=st.data()
)
def test_masks_without_keys(table: strategies.Table, data: st.DataObject) -> None:
    paths = [path for path in paths_of(table.type_) if path]
    hypothesis.assume(paths)
    path = data.draw(st.sampled_from(paths))
    mask = data.draw(st.sampled_from(MASKS))
    parts = pieces(table.type_, table.rows, data.draw(st.integers(0, 99)))
    schema = str(table.type_)

    async def both() -> None:
        encrypted = await written(schema, parts, encrypt=[Encrypt("pii", [path], mask)], keys=CountedKeys())
        masked = await written(schema, parts, masks={path: mask})
        assert len(masked) == len(table.rows)
        assert repr(masked) == repr(encrypted)  # NaN is not itself

    anyio.run(both)


@pytest.mark.parametrize(
    ("masks", "error", "message"),
    [
        ({"x": "redact"}, ColumnNotFound, "no column 'x'"),
        ({"s": "redact", "s.a": "nullify"}, UsageError, "is masked, and a part of it or all"),
        ({"s.a": "redact"}, UsageError, "is masked, and a part of it or all"),
        ({"b": "rot13"}, UsageError, "no mask 'rot13'"),
        ({"b": 3}, UsageError, "a mask is a Mask or text"),
        ([("b", "redact")], UsageError, "masks are a dictionary"),
    ],
)
def test_masks_that_cannot_be(masks: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        orcstream.create(
            io.BytesIO(),
            "struct<b:int,s:struct<a:string>>",
            masks=masks,
            encrypt=[Encrypt("pii", ["s"])] if masks == {"s.a": "redact"} else None,
            keys=CountedKeys(),
        )
