"""Tables that are compacted and cleaned while they are listed: all rows, or an error."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from orcstream import acid
from orcstream.acid import snapshot
from orcstream.acid.compact import cleaning
from orcstream.acid.compact.piece import PieceWriter
from orcstream.errors import OrcError, Unsupported
from orcstream.io.contract.folder import FolderListing
from orcstream.io.folders import list_folder, remove_files
from tests.generators.acid_tables import rows_of

pytestmark = pytest.mark.anyio
ROWS = {one: f"name {one}" for one in range(20)}
Step = Callable[[], Awaitable[Any]]


async def make(url: str) -> None:
    """Rows of both buckets in each of two deltas."""
    await acid.create_table(url, "struct<id:int,name:string>", bucket_columns=["id"], bucket_count=2)
    async with acid.open_table(url) as table:
        for first in (0, 10):
            async with await table.transaction() as change:
                await change.insert([(one, ROWS[one]) for one in range(first, first + 10)])
    assert await rows_of(url) == ROWS


def listed(monkeypatch: pytest.MonkeyPatch, *, step: Step, is_paged: bool = False) -> list[str]:
    """Take a step while the table is listed for the first time, which is after its log was read.

    A listing that `is_paged` finds bases as they were before the step, and the rest as it is after it.
    """
    calls: list[str] = []

    async def listed_folder(url: str, **options: Any) -> FolderListing:
        calls.append(url)
        if len(calls) != 1:
            return await list_folder(url, **options)
        before = await list_folder(url, **options)
        await step()
        after = await list_folder(url, **options)
        if not is_paged:
            return after
        bases = [one for one in before.files if "base_" in one.path]
        return FolderListing([*bases, *(one for one in after.files if "base_" not in one.path)])

    monkeypatch.setattr(snapshot, "list_folder", listed_folder)
    return calls


async def compact(url: str, kind: Any = "major") -> None:
    async with acid.open_table(url) as table:
        await table.compact(kind)


async def clean_by_half(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the files of one bucket, and end there."""

    async def remove_half(place: str, paths: list[str], **options: Any) -> None:
        await remove_files(place, [path for path in paths if path.endswith("bucket_00000")], **options)

    with monkeypatch.context() as patched:
        patched.setattr(cleaning, "remove_files", remove_half)
        async with acid.open_table(url) as table:
            assert (await table.clean(older_than_s=0)).directories


async def test_a_past_that_is_half_removed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await make(url)
    await compact(url)
    with monkeypatch.context() as patched:
        calls = listed(patched, step=lambda: clean_by_half(url, monkeypatch))
        with pytest.raises(Unsupported) as caught:
            await rows_of(url, 1)
        assert len(calls) > 1
    assert caught.value.reason == "history_is_gone"
    assert await rows_of(url) == ROWS


@pytest.mark.parametrize("kinds", [("major",), ("minor", "major"), ("minor",)])
@pytest.mark.parametrize("is_paged", [False, True])
async def test_what_took_the_place_is_read(
    url: str, kinds: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, *, is_paged: bool
) -> None:
    """Also where it was made and the rest removed between two pages of the listing."""
    await make(url)
    for kind in kinds[:-1]:
        await compact(url, kind)
        async with acid.open_table(url) as table:
            await table.clean(older_than_s=0)

    async def step() -> None:
        await compact(url, kinds[-1])
        await clean_by_half(url, monkeypatch)

    with monkeypatch.context() as patched:
        calls = listed(patched, step=step, is_paged=is_paged)
        assert await rows_of(url) == ROWS
    assert len(calls) > 1


async def test_a_table_that_is_cleaned_without_an_end(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no endless loop, and no half of the rows."""
    await make(url)
    is_ours = False

    async def listed_folder(place: str, **options: Any) -> FolderListing:
        nonlocal is_ours
        if not is_ours:
            is_ours = True
            async with acid.open_table(url) as table:
                async with await table.transaction() as change:
                    await change.insert([(30, "more")])
                await table.compact("major")
                await table.clean(older_than_s=0)
            is_ours = False
        return await list_folder(place, **options)

    with monkeypatch.context() as patched:
        patched.setattr(snapshot, "list_folder", listed_folder)
        with pytest.raises(OrcError, match=r"\b5 times\b"):
            await rows_of(url)


async def test_a_statement_whose_snapshot_is_half_removed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It began while a compaction was open that has committed since, and whose cleaner died halfway."""
    await make(url)
    async with acid.open_table(url) as table:
        compaction = await table.begin_compaction("major")
        pieces = PieceWriter({}, memory_limit=64 << 20)
        counts = [
            await pieces.write(compaction.table.of(piece.snapshot), piece) for piece in compaction.pieces
        ]
        change = await table.transaction()
        await compaction.commit(counts)
        await clean_by_half(url, monkeypatch)
        for statement in (change.delete, partial(change.update, {"name": "new"})):
            with pytest.raises(Unsupported) as caught:
                await statement()
            assert caught.value.reason == "history_is_gone"
        await change.abort()
        async with await table.transaction() as change:
            assert await change.delete() == len(ROWS)


async def test_a_table_is_listed_once_to_open_it(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await make(url)
    calls = listed(monkeypatch, step=anyio.lowlevel.checkpoint)
    async with acid.open_table(url) as table:
        assert calls == [url]
        assert len(table.partitions) == 1
