"""Tables that are streamed to while others overwrite them: no row is lost without a word."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from orcstream import CommitFailed, Unsupported, acid, col
from orcstream.acid.transactions.log import TransactionLog
from orcstream.acid.write import delta_files
from orcstream.io.folders import list_files
from tests.generators.acid_tables import SCHEMA, rows_of


def of_part(part: int, *ids: int) -> list[dict[str, Any]]:
    return [{"id": one, "name": "streamed", "part": part} for one in ids]


async def overwrite(url: str, *ids: int, **options: Any) -> int:
    async with acid.open_table(url) as table, await table.transaction() as change:
        await change.overwrite([{"id": one, "name": "new"} for one in ids], **options)
    return change.write_id


async def ids_of(url: str, write_id: int | None = None) -> set[int]:
    return set(await rows_of(url, write_id))


async def data_of(url: str) -> set[str]:
    """The directories of a table."""
    paths = [one.path for one in await list_files(url)]
    return {path.rpartition("/")[0] for path in paths if not path.startswith("_")}


async def test_a_partition_is_overwritten_while_a_batch_is_open(url: str) -> None:
    await acid.create_table(url, SCHEMA, partitions={"part": "int"})
    async with acid.open_table(url) as table, table.stream(transactions=5) as stream:
        await stream.write([*of_part(0, 0), *of_part(1, 1)])
        assert await stream.commit() == 1
        assert await overwrite(url, 10, partition={"part": 0}) == 6
        # What was committed is replaced; what goes elsewhere is of no concern.
        assert await ids_of(url) == {1, 10}
        await stream.write(of_part(1, 2))
        assert await stream.commit() == 2
        assert await ids_of(url) == {1, 2, 10}
        # A lower id comes too late, and so do those that follow it in the batch.
        await stream.write([*of_part(0, 3), *of_part(1, 4)])
        for _ in range(2):
            with pytest.raises(CommitFailed, match=r"part=0\b"):
                await stream.commit()
        await stream.abort()
        assert await ids_of(url) == {1, 2, 10}
        await stream.write([*of_part(0, 3), *of_part(1, 4)])
        assert await stream.commit() == 7
    assert await ids_of(url) == {1, 2, 3, 4, 10}
    for then, expected in ((1, {0, 1}), (2, {0, 1, 2}), (5, {0, 1, 2}), (6, {1, 2, 10})):
        assert await ids_of(url, then) == expected
    assert (await TransactionLog(url).snapshot()).write_ids.open == ()
    assert not [one.path for one in await list_files(url) if "flush_length" in one.path]


async def test_compacted_and_cleaned_meanwhile(url: str) -> None:
    """What a batch has open is left alone, and what it was overwritten with stands above it."""
    await acid.create_table(url, SCHEMA, partitions={"part": "int"})
    async with acid.open_table(url) as table:
        async with await table.transaction() as change:
            await change.insert([*of_part(0, 0), *of_part(1, 1)])
        async with table.stream(transactions=3) as stream:
            await stream.write([*of_part(0, 2), *of_part(1, 3)])
            await stream.commit()
            await overwrite(url, 10, partition={"part": 0})
            for kind in ("minor", "major"):
                await table.compact(kind)
                assert (await table.clean(older_than_s=0)).directories == ()
                assert await ids_of(url) == {1, 3, 10}
                assert await ids_of(url, 2) == {0, 1, 2, 3}
            await stream.write(of_part(1, 4))
            await stream.commit()
            assert await ids_of(url) == {1, 3, 4, 10}
        async with await table.transaction() as change:
            await change.delete(col("id") == 3)
        await table.compact("minor")
        assert await ids_of(url, 3) == {0, 1, 2, 3, 4}
        done = await table.compact("major")
        assert {one.path: one.row_count for one in done.partitions} == {"part=1": 2}
        await table.clean(older_than_s=0)
        assert len(await data_of(url)) == 2
        assert await ids_of(url) == {1, 4, 10}
        for then in (1, 2, 3):
            with pytest.raises(Unsupported) as caught:
                await rows_of(url, then)
            assert caught.value.reason == "history_is_gone"


async def test_the_end_of_a_stream_says_so(url: str) -> None:
    """The rows were written before, and are to be committed after the table was overwritten."""
    await acid.create_table(url, SCHEMA)
    async with acid.open_table(url) as table:

        async def work() -> None:
            async with table.stream() as stream:
                await stream.write([(1, "streamed")])
                await overwrite(url, 10)

        with pytest.raises(CommitFailed, match=r"\boverwritten\b"):
            await work()
    assert await ids_of(url) == {10}
    assert await data_of(url) == {"base_0000011"}
    assert (await TransactionLog(url).snapshot()).write_ids.open == ()


async def test_whoever_overwrites_began_before_the_batch(url: str) -> None:
    await acid.create_table(url, SCHEMA)
    async with acid.open_table(url) as table:
        change = await table.transaction()
        async with table.stream(transactions=3) as stream:
            await stream.write([(1, "streamed")])
            await stream.commit()
            await change.overwrite([(10, "new")])
            await change.commit()
            await stream.write([(2, "streamed")])
            await stream.commit()
    assert await ids_of(url) == {1, 2, 10}


async def test_part_of_a_batch_is_gone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A directory of a batch has several write ids, as a compaction's; it stands in for no other."""
    monkeypatch.setattr(delta_files, "_MOST_OPEN", 1)
    url = str(tmp_path / "table")
    await acid.create_table(url, SCHEMA, bucket_columns=["id"], bucket_count=2)
    async with acid.open_table(url) as table, table.stream(transactions=3) as stream:
        await stream.write([(one, "streamed") for one in range(6)])
        await stream.commit()
    first, second = sorted(await data_of(url))
    await overwrite(url, 10)
    assert await ids_of(url, 1) == set(range(6))
    # A program that cleans was killed after it had removed one of two.
    await TransactionLog(url).removing([first, second])
    shutil.rmtree(tmp_path / "table" / first)
    with pytest.raises(Unsupported) as caught:
        await rows_of(url, 1)
    assert caught.value.reason == "history_is_gone"
    assert await ids_of(url) == {10}


async def test_part_of_a_batch_was_taken_away(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By somebody who told nobody."""
    monkeypatch.setattr(delta_files, "_MOST_OPEN", 1)
    url = str(tmp_path / "table")
    await acid.create_table(url, SCHEMA, bucket_columns=["id"], bucket_count=2)
    async with acid.open_table(url) as table, table.stream(transactions=3) as stream:
        await stream.write([(one, "streamed") for one in range(6)])
    shutil.rmtree(tmp_path / "table" / min(await data_of(url)))
    with pytest.raises(Unsupported) as caught:
        await rows_of(url)
    assert caught.value.reason == "history_is_gone"
