"""Files of which only masks are written hold what is left of encrypted ones for those without keys."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import anyio
import hypothesis
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st

import orcstream
from orcstream import Encrypt
from orcstream.codec.crypto.masks import Masking
from orcstream.codec.vectors.column import Field, Vector
from orcstream.errors import ColumnNotFound, SchemaMismatch, UsageError
from tests.generators import strategies
from tests.generators.encrypting import CountedKeys, paths_of
from tests.support.effort import share
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


@hypothesis.settings(max_examples=share(60))
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
        ({"x": "redact"}, ColumnNotFound, "'x'"),
        ({"s": "redact", "s.a": "nullify"}, UsageError, r"'s\.a'.*'s'"),
        ({"s.a": "redact"}, UsageError, r"'s\.a'.*'s'"),
        ({"b": "rot13"}, UsageError, r"'rot13'.*'nullify', 'redact' and 'sha256'"),
        ({"b": 3}, UsageError, r"\bMask\b.*\b3\b"),
        ([("b", "redact")], UsageError, r"\bmasks\b.*\[\('b', 'redact'\)\]"),
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
    with pytest.raises(SchemaMismatch, match="'a'"):
        await written("struct<a:timestamp,b:int>", [batch], masks={"b": "redact"}, **options)
    rows = await written("struct<a:timestamp,b:int>", [batch], masks={"a": "nullify"}, **options)
    assert rows == [{"a": None, "b": 1}]


KEPT = "redact,`X`,`_ _ _ _ _ _`"
DAYS = "redact,`X`,`_ _ _ 0 0 0`"


@pytest.mark.parametrize("mask", [KEPT, KEPT.replace("X", "_")])
@pytest.mark.parametrize("column", ["t", "s", "l"])
@pytest.mark.parametrize(
    ("time", "options", "message"),
    [
        ("1969-12-31T23:59:59.500", {}, r"\blossy_timestamps=True"),
        ("2024-03-10T02:30", {"timezone": "America/Los_Angeles"}, r"\btimezone='UTC'"),
        ("1582-10-10T00:00", {"calendar": "hybrid"}, r"\bcalendar='proleptic'"),
    ],
)
async def test_times_that_a_mask_keeps_have_to_be_writable(
    time: str, options: dict[str, Any], message: str, column: str, mask: str
) -> None:
    """Or they would be read back as others, and by their statistics not at all."""
    value = np.datetime64(time, "ms")
    row = (value if column == "t" else None, (value,) if column == "s" else None, [value] * (column == "l"))
    schema = "struct<t:timestamp,s:struct<t:timestamp>,l:array<timestamp>>"
    buffer = io.BytesIO()
    async with orcstream.create(buffer, schema, masks={column: mask}, **options) as out:
        with pytest.raises(SchemaMismatch, match=message):
            await out.write([row])


@pytest.mark.parametrize("day", ["1582-10-05", "1582-10-14"])
async def test_days_that_a_mask_keeps_have_to_be_in_the_calendar(day: str) -> None:
    batch = {"d": np.array([day], "M8[D]")}
    with pytest.raises(SchemaMismatch, match=r"'d'.*\bcalendar='proleptic'"):
        await written("struct<d:date>", [batch], masks={"d": KEPT}, calendar="hybrid")
    assert len(await written("struct<d:date>", [batch], masks={"d": "redact"}, calendar="hybrid")) == 1


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles"])
async def test_days_without_a_date_are_those_ten_later(zone: str) -> None:
    """As in Java's lenient calendar, whichever time was written before."""
    days = ["2020-01-01", "1582-10-10", "1582-10-04", "1582-10-15"]
    batch = {"t": np.array(days, "M8[us]") + np.timedelta64(5, "h")}
    options: dict[str, Any] = {"masks": {"t": DAYS}, "calendar": "hybrid", "timezone": zone}
    rows = await written("struct<t:timestamp>", [batch], **options)
    days[1] = "1582-10-20"
    assert rows == [{"t": np.datetime64(day, "us").item()} for day in days]


async def test_masked_times_that_no_file_holds() -> None:
    """The year is kept, and it may be one that is too far."""
    batch = pa.table({"t": pa.array([0, (1 << 62) + 1], pa.timestamp("s"))})
    with pytest.raises(SchemaMismatch, match=r"'t'.*\b1970\b.*\brow 1\b"):
        await written("struct<t:timestamp>", [batch], masks={"t": "redact"})


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
