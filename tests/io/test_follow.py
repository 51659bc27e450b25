"""Following a file that grows: rows come as they are flushed, each once and in order, until the file ends."""

from __future__ import annotations

import asyncio
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import orcstream
from orcstream.errors import FormatError, SourceChanged, SourceError, Unsupported, UsageError
from orcstream.file.unlocking import UnlockedFile
from tests.reference import java_orc
from tests.servers.filesystems import FILES, LoopFileSystem, ThreadFileSystem

SCHEMA = "struct<n:bigint>"
POLL_S = 0.01


def rows(start: int, stop: int) -> list[dict[str, int]]:
    return [{"n": number} for number in range(start, stop)]


def numbers(batch: orcstream.Batch) -> list[int]:
    return [row["n"] for row in batch.to_pylist()]


async def all_of(stream: orcstream.BatchStream) -> list[int]:
    return [number async for batch in stream for number in numbers(batch)]


@pytest.mark.parametrize("kind", ["local", "memory"])
async def test_rows_come_as_they_are_flushed(kind: str, tmp_path: Path) -> None:
    url = str(tmp_path / "a.orc") if kind == "local" else "memory://follow/a.orc"
    async with orcstream.create(url, SCHEMA, growing=True) as out:
        await out.write(rows(0, 5))
        await out.flush()
        async with orcstream.open(url, follow=True, poll_s=POLL_S) as file:
            assert (file.row_count, file.is_complete) == (5, False)
            async with file.batches() as stream:
                assert numbers(await anext(stream)) == [0, 1, 2, 3, 4]
                waiting = asyncio.create_task(anext(stream))
                await asyncio.sleep(5 * POLL_S)
                assert not waiting.done()
                await out.write(rows(5, 8))
                await asyncio.sleep(5 * POLL_S)
                assert not waiting.done()  # written, and not flushed
                await out.flush()
                assert numbers(await waiting) == [5, 6, 7]
                await out.write(rows(8, 9))
                await out.commit()
                assert numbers(await anext(stream)) == [8]
                with pytest.raises(StopAsyncIteration):
                    await anext(stream)
            assert file.is_complete
            assert stream.stats.row_count == 9
            assert await all_of(file.batches(rows=range(2, 4))) == [2, 3]
            assert await file.refresh() == 9
    MemoryFileSystem.store.pop("/follow/a.orc", None)


async def test_opening_waits_for_the_first_flush(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    out = await orcstream.create(path, SCHEMA, growing=True)
    opening = asyncio.create_task(_open(path))
    await asyncio.sleep(5 * POLL_S)
    assert not opening.done()
    await out.write(rows(0, 1))
    await out.flush()
    async with await opening as file:
        assert file.row_count == 1
    await out.abort()


async def _open(path: Path) -> orcstream.OrcFile:
    return await orcstream.open(path, follow=True, poll_s=POLL_S)


async def test_reads_are_of_what_was_seen(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    async with orcstream.create(path, SCHEMA, growing=True) as out:
        await out.write(rows(0, 3))
        await out.flush()
        async with orcstream.open(path, follow=True) as file:
            await out.write(rows(3, 6))
            await out.flush()
            assert (await file.read()).num_rows == 3
            assert await file.refresh() == 6
            assert (await file.read(rows=range(2, 100))).num_rows == 4
            assert [row["n"] for row in (await file.take([5, 0])).to_pylist()] == [5, 0]
            assert file.statistics["n"].maximum == 5
            assert len(file.stripes) == 2


async def test_a_range_of_rows_ends_the_stream(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    async with orcstream.create(path, SCHEMA, growing=True) as out:
        await out.write(rows(0, 3))
        await out.flush()
        async with orcstream.open(path, follow=True, poll_s=POLL_S) as file:
            stream = file.batches(rows=range(1, 5), where=orcstream.col("n") != 3)
            assert numbers(await anext(stream)) == [1, 2]
            await out.write(rows(3, 9))
            await out.flush()
            assert numbers(await anext(stream)) == [4]
            with pytest.raises(StopAsyncIteration):
                await anext(stream)
            with anyio.fail_after(10):
                assert await all_of(file.batches(rows=range(2))) == [0, 1]


async def test_a_step_that_is_cancelled_loses_no_row(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    async with orcstream.create(path, SCHEMA, growing=True) as out:
        await out.flush()
        async with orcstream.open(path, follow=True, poll_s=0.003) as file, file.batches() as stream:
            found: list[int] = []
            for part in range(40):
                await out.write(rows(3 * part, 3 * part + 3))
                await out.flush()
                with anyio.move_on_after(0.0005 * part):
                    while len(found) < 3 * part + 3:
                        found += numbers(await anext(stream))
            await out.commit()
            found += await all_of(stream)
    assert found == list(range(120))


async def test_seeking_while_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    async with orcstream.create(path, SCHEMA, growing=True) as out:
        await out.write(rows(0, 3))
        await out.flush()
        async with orcstream.open(path, follow=True, poll_s=POLL_S) as file, file.batches() as stream:
            assert numbers(await anext(stream)) == [0, 1, 2]
            await out.write(rows(3, 5))
            await out.flush()
            assert numbers(await anext(stream)) == [3, 4]
            await stream.seek(2)
            assert numbers(await anext(stream)) == [2]
            await out.commit()
            assert await all_of(stream) == [3, 4]


async def test_several_streams_of_one_file(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    async with orcstream.create(path, SCHEMA, growing=True) as out:
        await out.flush()
        async with orcstream.open(path, follow=True, poll_s=POLL_S) as file:
            streams = [asyncio.create_task(all_of(file.batches())) for _ in range(3)]
            for part in range(10):
                await out.write(rows(part, part + 1))
                await out.flush()
                await asyncio.sleep(POLL_S / 2)
            await out.commit()
            assert await asyncio.gather(*streams) == [list(range(10))] * 3


async def test_an_aborted_file_ends_at_its_last_flush(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    out = await orcstream.create(path, SCHEMA, growing=True)
    await out.write(rows(0, 3))
    await out.flush()
    async with orcstream.open(path, follow=True, poll_s=POLL_S) as file:
        following = asyncio.create_task(all_of(file.batches()))
        await out.write(rows(3, 6))
        await out.end_stripe()
        await out.abort()
        assert await following == [0, 1, 2]
        assert file.is_complete


async def test_a_writer_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    with subprocess.Popen(  # noqa: ASYNC220 - nothing else runs meanwhile
        [sys.executable, "-m", "tests.io.follow_child", str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdin is not None
            assert process.stdout.readline() == "flushed\n"
            async with orcstream.open(path, follow=True, poll_s=POLL_S) as file, file.batches() as stream:
                found = numbers(await anext(stream))
                for _ in range(2):
                    process.stdin.write("\n")
                    process.stdin.flush()
                    assert process.stdout.readline() == "flushed\n"
                    found += numbers(await anext(stream))
                process.stdin.write("\n")
                process.stdin.flush()
                assert process.stdout.readline() == "torn\n"
                process.kill()
                process.wait()
                with anyio.move_on_after(0.3) as scope:
                    await anext(stream)
                assert scope.cancelled_caught
                assert not file.is_complete
        finally:
            process.kill()
    assert found == list(range(3000))
    assert path.stat().st_size > 1 << 20
    async with orcstream.open(path, follow=True) as file:  # whoever comes later finds the same
        assert (await file.read()).num_rows == 3000


@pytest.mark.parametrize("kind", ["path", "memory"])
async def test_a_file_that_is_complete_reads_as_usual(kind: str, tmp_path: Path) -> None:
    url = str(tmp_path / "a.orc") if kind == "path" else "memory://follow/whole.orc"
    async with orcstream.create(url, SCHEMA) as out:
        await out.write(rows(0, 3))
    async with orcstream.open(url, follow=True, poll_s=600) as file:
        assert file.is_complete
        assert await all_of(file.batches()) == [0, 1, 2]
        assert file.tail.fingerprint
        async with orcstream.open(url, tail=file.tail) as again:
            assert again.row_count == 3
    MemoryFileSystem.store.pop("/follow/whole.orc", None)


async def test_an_empty_file_is_an_empty_table(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    path.write_bytes(b"")
    async with orcstream.open(path, follow=True, poll_s=POLL_S) as file:
        assert (file.row_count, file.is_complete) == (0, True)


async def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await orcstream.open(tmp_path / "a.orc", follow=True)


async def test_lengths_that_are_torn_or_say_nothing(tmp_path: Path) -> None:
    """A last entry of fewer than 8 bytes is none yet, and -1 or 0 says that nothing is valid."""
    path, lengths = tmp_path / "a.orc", tmp_path / "a.orc_flush_length"
    out = await orcstream.create(path, SCHEMA, growing=True)
    await out.write(rows(0, 3))
    await out.flush()
    await out.write(rows(3, 5))
    await out.flush()
    nothing, first, second = struct.unpack(">3q", lengths.read_bytes())
    assert nothing == 0
    for content, expected in (
        (struct.pack(">q", first), 3),
        (struct.pack(">2q", first, second)[:-1], 3),
        (struct.pack(">2q", first, second) + b"\x7f\xff\xff", 5),
    ):
        lengths.write_bytes(content)
        async with orcstream.open(path, follow=True) as file:
            assert file.row_count == expected
    for content in (b"", b"\0\0\0", struct.pack(">q", -1), struct.pack(">2q", first, 0)):
        lengths.write_bytes(content)
        with anyio.move_on_after(10 * POLL_S) as scope:
            await orcstream.open(path, follow=True, poll_s=POLL_S)
        assert scope.cancelled_caught
    await out.abort()


async def test_lengths_that_are_wrong(tmp_path: Path) -> None:
    path, lengths = tmp_path / "a.orc", tmp_path / "a.orc_flush_length"
    out = await _growing(str(path), range(100))
    size = path.stat().st_size
    for length, error in (
        (size + 1, SourceError),
        ((1 << 63) - 1, SourceError),
        (size - 1, FormatError),
        (3, FormatError),
    ):
        lengths.write_bytes(struct.pack(">q", length))
        with pytest.raises(error):
            await orcstream.open(path, follow=True, io_options={"retries": 0})
    await out.abort()


@pytest.mark.parametrize("count", [1, 2])  # down to nothing, or to the first flush
async def test_lengths_that_shrink_are_of_another_file(count: int, tmp_path: Path) -> None:
    path, lengths = tmp_path / "a.orc", tmp_path / "a.orc_flush_length"
    out = await _growing(str(path), range(100))
    await out.write(rows(100, 200))
    await out.flush()
    async with orcstream.open(path, follow=True, poll_s=POLL_S) as file, file.batches() as stream:
        assert numbers(await anext(stream)) + numbers(await anext(stream)) == list(range(200))
        lengths.write_bytes(lengths.read_bytes()[: 8 * count])
        with pytest.raises(SourceChanged):
            await anext(stream)
    await out.abort()


@pytest.mark.parametrize("kind", ["whole", "growing", "gone", "memory"])
async def test_another_file_in_its_place(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    url = "memory://follow/a.orc" if kind == "memory" else str(path)
    writers = [await _growing(url, range(3))]
    async with orcstream.open(url, follow=True, poll_s=POLL_S) as file, file.batches() as stream:
        assert numbers(await anext(stream)) == [0, 1, 2]
        if kind == "memory":
            writers.append(await _growing(url, range(9, 20)))
        else:
            path.unlink()
            Path(f"{path}_flush_length").unlink()
            if kind == "whole":
                async with orcstream.create(url, SCHEMA) as other:
                    await other.write(rows(9, 100))
            elif kind == "growing":
                writers.append(await _growing(url, range(9, 20)))
        with pytest.raises(FileNotFoundError if kind == "gone" else SourceChanged):
            await anext(stream)
    for out in writers:
        await out.abort()
    for name in ("/follow/a.orc", "/follow/a.orc_flush_length"):
        MemoryFileSystem.store.pop(name, None)


async def _growing(url: str, found: range) -> orcstream.OrcWriter:
    for name in ("/follow/a.orc", "/follow/a.orc_flush_length"):
        MemoryFileSystem.store.pop(name, None)
    out = await orcstream.create(url, SCHEMA, growing=True)
    await out.write(rows(found.start, found.stop))
    await out.flush()
    return out


async def test_a_file_that_java_is_writing(tmp_path: Path, java: None) -> None:
    """Hive's streaming ingest: Java's intermediate footers, and the lengths that its record updater keeps."""
    path, lengths = tmp_path / "bucket_00000", tmp_path / "bucket_00000_flush_length"
    java_file = java_orc.GrowingFile(path)
    with lengths.open("ab", buffering=0) as side:
        side.write(struct.pack(">q", java_file.add(range(10))))
        async with orcstream.open(path, follow=True, poll_s=POLL_S) as file, file.batches() as stream:
            assert numbers(await anext(stream)) == list(range(10))
            side.write(struct.pack(">q", java_file.add(range(10, 30))))
            assert numbers(await anext(stream)) == list(range(10, 30))
            java_file.add(range(30, 40))
            java_file.close()
            lengths.unlink()
            assert await all_of(stream) == list(range(30, 40))


async def test_what_cannot_be_followed(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        orcstream.open(b"ORC", follow=True)
    with pytest.raises(UsageError):
        orcstream.open(tmp_path / "a.orc", follow=True, poll_s=0)
    with pytest.raises(UsageError):
        orcstream.open(tmp_path / "a.orc", follow=True, tail=b"")
    with pytest.raises(Unsupported):
        orcstream.open("https://example.org/a.orc", follow=True)


async def test_closing_ends_the_waiting(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    out = await _growing(str(path), range(3))
    file = await orcstream.open(path, follow=True, poll_s=POLL_S)
    stream = file.batches()
    assert numbers(await anext(stream)) == [0, 1, 2]
    waiting = asyncio.create_task(anext(stream))
    await asyncio.sleep(3 * POLL_S)
    await file.aclose()
    with anyio.fail_after(10), pytest.raises(UsageError):
        await waiting
    await out.abort()


@pytest.mark.parametrize("cls", [LoopFileSystem, ThreadFileSystem])
async def test_other_file_systems(cls: Any, tmp_path: Path) -> None:
    """Such as HDFS: the file and its lengths are looked up anew each time."""
    protocol = cls.protocol if isinstance(cls.protocol, str) else cls.protocol[0]
    fsspec.register_implementation(protocol, cls, clobber=True)
    path = tmp_path / "a.orc"
    out = await orcstream.create(path, SCHEMA, growing=True)
    version = 0

    async def show() -> None:
        nonlocal version
        version += 1
        for name in ("a.orc", "a.orc_flush_length"):
            FILES.pop(f"follow/{name}", None)
            if (tmp_path / name).exists():
                FILES[f"follow/{name}"] = (tmp_path / name).read_bytes(), version

    await out.write(rows(0, 3))
    await out.flush()
    await show()
    async with orcstream.open(f"{protocol}://follow/a.orc", follow=True, poll_s=POLL_S) as file:
        stream = file.batches()
        assert numbers(await anext(stream)) == [0, 1, 2]
        await out.write(rows(3, 4))
        await out.flush()
        await show()
        assert numbers(await anext(stream)) == [3]
        await out.commit()
        await show()
        assert await all_of(stream) == []
    FILES.clear()


@pytest.mark.parametrize("by", ["scope", "task"])
async def test_a_step_that_is_cancelled_at_any_turn_loses_no_row(by: str) -> None:
    """`asyncio.wait_for` and `timeout` cancel the task, and a look is half done wherever that comes."""
    for turns in range(1000):
        out = await _growing("memory://follow/a.orc", range(3))
        file = await orcstream.open("memory://follow/a.orc", follow=True, poll_s=0.001)
        async with file, file.batches() as stream:
            found = numbers(await anext(stream))
            await out.write(rows(3, 6))
            await out.commit()
            scope = anyio.CancelScope()

            async def step(scope: anyio.CancelScope, stream: orcstream.BatchStream) -> list[int]:
                with scope:
                    return numbers(await anext(stream))
                return []

            task = asyncio.create_task(step(scope, stream))
            for _ in range(turns):
                await asyncio.sleep(0)
            is_over = task.done()
            if by == "scope":
                scope.cancel()
            else:
                task.cancel()
            await asyncio.wait([task])
            found += [] if task.cancelled() else task.result()
            with anyio.fail_after(10):
                found += await all_of(stream)
        assert found == list(range(6)), turns
        if is_over:
            break
    assert turns > 10
    MemoryFileSystem.store.pop("/follow/a.orc", None)


@pytest.mark.parametrize("what", ["stream", "file"])
async def test_closing_under_a_consumer_that_waits_for_more(what: str, tmp_path: Path) -> None:
    """It is told at once, however long the time between two looks, and gets no rows afterwards."""
    path = tmp_path / "a.orc"
    async with orcstream.create(path, SCHEMA, growing=True) as out:
        await out.write(rows(0, 3))
        await out.flush()
        async with orcstream.open(path, follow=True, poll_s=3600) as file, file.batches() as stream:
            assert numbers(await anext(stream)) == [0, 1, 2]
            waiting = asyncio.create_task(anext(stream))
            for _ in range(20):
                await asyncio.sleep(0.005)
            assert not waiting.done()
            await (stream if what == "stream" else file).aclose()
            await asyncio.wait([waiting], timeout=10)
            assert waiting.done()
            with pytest.raises(UsageError, match="closed"):
                await waiting


async def test_a_closed_stream_does_not_begin_again(tmp_path: Path) -> None:
    """Closed at any turn of a step, it ends, and nothing of it is left behind."""
    path = tmp_path / "a.orc"
    async with orcstream.create(path, SCHEMA) as out:
        await out.write(rows(0, 3))
    for turns in range(1000):
        async with orcstream.open(path) as file:
            stream = file.batches()
            await anext(stream)
            seeking = asyncio.create_task(stream.seek(0))
            for _ in range(turns):
                await asyncio.sleep(0)
            is_over = seeking.done()
            await stream.aclose()
            await asyncio.wait([seeking])
            if not is_over:
                assert isinstance(seeking.exception(), UsageError | None)
            with pytest.raises(StopAsyncIteration):
                await anext(stream)
            if is_over:
                break
    assert turns > 0


async def test_streams_that_see_the_file_at_different_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that takes long to open what it saw does not bring the others back to that."""
    path = tmp_path / "a.orc"
    real, slow, go_on = UnlockedFile.unlocked, asyncio.Event(), asyncio.Event()
    is_slow = False

    async def unlocked(*arguments: Any) -> UnlockedFile:
        nonlocal is_slow
        if is_slow:
            is_slow = False
            slow.set()
            await go_on.wait()
        return await real(*arguments)

    monkeypatch.setattr(UnlockedFile, "unlocked", unlocked)
    async with orcstream.create(path, SCHEMA, growing=True) as out:
        await out.flush()
        async with orcstream.open(path, follow=True, poll_s=POLL_S) as file:
            await out.write(rows(0, 3))
            await out.flush()
            is_slow = True
            first = asyncio.create_task(all_of(file.batches()))
            await slow.wait()
            second: list[int] = []
            async with file.batches() as stream:
                for part in range(1, 4):
                    await out.write(rows(3 * part, 3 * part + 3))
                    await out.flush()
                    while len(second) < 3 * part + 3:
                        second += numbers(await anext(stream))
                go_on.set()
                for _ in range(20):
                    await asyncio.sleep(0)
                assert file.row_count == 12
                await out.commit()
                second += await all_of(stream)
            assert await first == list(range(12))
    assert second == list(range(12))
