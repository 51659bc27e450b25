"""Files of which only masks are written hold what is left of encrypted ones for those without keys."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import anyio
import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import orcstream
from orcstream import Encrypt
from orcstream.codec.column import Field, Vector
from orcstream.codec.mask import Masking
from orcstream.errors import ColumnNotFound, SchemaMismatch, UsageError
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


async def test_a_batch_is_masked_a_little_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or it would stand in memory twice, however large it is."""
    most, apply = 0, Masking.apply

    def watched(self: Masking, field: Field, vector: Vector) -> Vector:
        nonlocal most
        most = max(most, vector.length)
        return apply(self, field, vector)

    monkeypatch.setattr(Masking, "apply", watched)
    count = 200_000
    batch = {"a": np.arange(count), "b": np.arange(count)}
    rows = await written("struct<a:bigint,b:bigint>", [batch], masks={"a": "redact"})
    assert rows[-2:] == [{"a": 999_999, "b": count - 2}, {"a": 999_999, "b": count - 1}]
    assert 0 < most <= 1 << 16


@pytest.mark.parametrize("options", [{"timezone": "Europe/Berlin"}, {"calendar": "hybrid"}])
async def test_times_that_are_not_written_need_not_be_writable(options: dict[str, Any]) -> None:
    skipped = np.datetime64("2024-03-31T02:30" if "timezone" in options else "1582-10-10T00:00", "us")
    batch = {"a": np.array([skipped]), "b": np.array([1])}
    with pytest.raises(SchemaMismatch, match="'a' has a time that the zone"):
        await written("struct<a:timestamp,b:int>", [batch], masks={"b": "redact"}, **options)
    rows = await written("struct<a:timestamp,b:int>", [batch], masks={"a": "nullify"}, **options)
    assert rows == [{"a": None, "b": 1}]


@pytest.mark.parametrize("as_rows", [True, False])
async def test_times_of_an_ingest_are_checked_where_they_are_written(tmp_path: Path, as_rows: bool) -> None:
    """The columns of the files have other numbers than those of the data."""
    skipped = np.datetime64("2024-03-31T02:30", "us")
    day = {"p": np.array(["x"], object), "a": np.array([skipped]), "b": np.array([skipped])}
    data: Any = day if not as_rows else [("x", skipped.item(), skipped.item())]
    fine: Any = {**day, "b": np.array([None], "M8[us]")} if not as_rows else [("x", skipped.item(), None)]
    async with orcstream.ingest(
        f"{tmp_path}/p={{p}}/{{number}}.orc",
        "struct<p:string,a:timestamp,b:timestamp>",
        masks={"a": "nullify"},
        timezone="Europe/Berlin",
    ) as out:
        with pytest.raises(SchemaMismatch, match="'b'"):
            await out.write(data)
        await out.write(fine)
    async with orcstream.open(tmp_path / "p=x" / "0.orc") as file:
        assert (await file.read()).to_pylist() == [{"a": None, "b": None}]
