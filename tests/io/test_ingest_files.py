"""Ingesting: when files end, what is committed when, and what stays when something goes wrong."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, cast

import anyio
import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

import orcstream
from orcstream.errors import SchemaMismatch, SinkError, Unsupported, UsageError
from orcstream.io.loop.clients import leased_clients
from orcstream.io.stores.local import sink as sink_local
from tests.servers.loopback import MotoServer, moto_server
from tests.support.clocks import moved_clock, until

__all__ = ["moto_server"]  # fixture

SCHEMA = "struct<d:string,n:bigint>"
PARTITIONED = "struct<d:int,n:bigint>"


def rows(start: int, stop: int, partitions: int = 2) -> list[dict[str, Any]]:
    return [{"d": f"p{number % partitions}", "n": number} for number in range(start, stop)]


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def numbers(path: Path | str) -> list[int]:
    found: list[int] = pyarrow.orc.ORCFile(path).read()["n"].to_pylist()
    return found


def by_partition(folder: Path) -> dict[str, list[int]]:
    """The numbers of each folder, files in the order of their names."""
    found: dict[str, list[int]] = defaultdict(list)
    for name in names(folder):
        assert not name.endswith("_flush_length")
        found[str(Path(name).parent)] += numbers(folder / name)
    return dict(found)


async def test_rows_go_to_their_partitions(tmp_path: Path) -> None:
    seen: list[orcstream.IngestedFile] = []
    template = f"{tmp_path}/d={{d}}/part-{{number:05}}-{{uuid}}.orc"
    async with orcstream.ingest(template, SCHEMA, on_file=seen.append) as out:
        assert await out.write(rows(0, 10)) == 10
        assert await out.write(pa.Table.from_pylist(rows(10, 200))) == 190
        assert await out.write({"d": np.array(["p0", "p1"]), "n": np.array([200, 201])}) == 2
        assert names(tmp_path) == [name for name in names(tmp_path) if ".tmp" in name]
        assert (out.row_count, out.files) == (202, ())
        assert out.held_bytes > 0
    assert by_partition(tmp_path) == {"d=p0": list(range(0, 202, 2)), "d=p1": list(range(1, 202, 2))}
    assert list(out.files) == seen
    assert {one.partition["d"]: one.row_count for one in seen} == {"p0": 101, "p1": 101}
    for one in seen:
        assert Path(one.url).stat().st_size == one.length
        assert re.fullmatch(
            r"part-0000[01]-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.orc", Path(one.url).name
        )
        assert pyarrow.orc.ORCFile(one.url).schema.names == ["n"]


async def test_partition_columns_can_be_kept_and_folders_be_made(tmp_path: Path) -> None:
    options: dict[str, Any] = {"partition_by": ["d", "n"], "keep_partition_columns": True}
    async with orcstream.ingest(f"{tmp_path}/t/{{number}}.orc", SCHEMA, **options) as out:
        await out.write([{"d": "a/b", "n": 1}, {"d": None, "n": None}])
    default = "__HIVE_DEFAULT_PARTITION__"
    assert names(tmp_path) == [f"t/d=__HIVE_DEFAULT_PARTITION__/n={default}/1.orc", "t/d=a%2Fb/n=1/0.orc"]
    assert pyarrow.orc.ORCFile(tmp_path / "t/d=a%2Fb/n=1/0.orc").read().to_pylist() == [{"d": "a/b", "n": 1}]


async def test_the_first_data_say_the_schema(tmp_path: Path) -> None:
    async with orcstream.ingest(f"{tmp_path}/{{d}}-{{number}}.orc") as out:
        assert out.schema is None
        await asyncio.gather(*(out.write(rows(at, at + 5)) for at in range(0, 50, 5)))
        assert str(out.schema) == SCHEMA
        with pytest.raises(SchemaMismatch):
            await out.write([{"d": "a", "other": 1}])
    assert sorted(chain.from_iterable(numbers(one.url) for one in out.files)) == list(range(50))


async def test_nothing_written_makes_no_file(tmp_path: Path) -> None:
    async with orcstream.ingest(f"{tmp_path}/{{number}}.orc") as out:
        await out.flush()
        await out.write([])
        assert out.schema is None
    assert (out.files, names(tmp_path)) == ((), [])


async def test_files_end_with_their_rows(tmp_path: Path) -> None:
    async with orcstream.ingest(f"{tmp_path}/{{number:03}}.orc", SCHEMA, max_rows=7) as out:
        for start in range(20):
            await out.write(rows(start, start + 1))
        await out.write(pa.Table.from_pylist(rows(20, 45)))
    assert [len(numbers(tmp_path / name)) for name in names(tmp_path)] == [7, 7, 7, 7, 7, 7, 3]
    assert by_partition(tmp_path) == {".": list(range(45))}


async def test_files_end_with_their_size(tmp_path: Path) -> None:
    noise = np.random.default_rng(1).integers(0, 1 << 62, 200_000)
    async with orcstream.ingest(
        f"{tmp_path}/{{number:03}}.orc", "struct<n:bigint>", max_bytes=200_000, compression="none"
    ) as out:
        await out.write({"n": noise})
    sizes = sorted(one.length for one in out.files)
    assert len(sizes) > 5
    assert all(195_000 < size < 260_000 for size in sizes[1:])
    assert by_partition(tmp_path)["."] == noise.tolist()


async def test_files_end_with_their_age(tmp_path: Path) -> None:
    with moved_clock() as clock:
        async with orcstream.ingest(f"{tmp_path}/{{d}}-{{number}}.orc", SCHEMA, max_age_s=100) as out:
            await out.write([{"d": "a", "n": 1}])
            clock.move(60)
            await asyncio.sleep(0.05)
            await out.write([{"d": "b", "n": 2}])
            await out.write(pa.Table.from_pylist([{"d": "a", "n": 3}]))
            await asyncio.sleep(0.05)
            assert not out.files
            clock.move(39)
            await asyncio.sleep(0.05)
            assert not out.files
            clock.move(2)
            await until(lambda: len(out.files) >= 1)
            await asyncio.sleep(0.05)
            assert [one.partition for one in out.files] == [{"d": "a"}]
            assert numbers(out.files[0].url) == [1, 3]
            clock.move(100)
            await until(lambda: len(out.files) == 2)


async def test_rows_are_committed_by_their_deadline(tmp_path: Path) -> None:
    with moved_clock() as clock:
        out = await orcstream.ingest(f"{tmp_path}/{{number}}.orc", SCHEMA, flush_deadline_s=30)
        for part in range(3):
            await out.write(rows(part, part + 1))
            await asyncio.sleep(0.05)
            assert len(out.files) == part
            clock.move(31)
            await until(lambda count=part + 1: len(out.files) == count)  # type: ignore[misc]
        assert await out.commit() == out.files
    assert by_partition(tmp_path) == {".": [0, 1, 2]}


async def test_growing_files_are_flushed_by_the_deadline(tmp_path: Path) -> None:
    path = tmp_path / "0.orc"
    options: dict[str, Any] = {"flush_deadline_s": 30, "max_age_s": 75, "growing": True}
    with moved_clock() as clock:
        async with orcstream.ingest(f"{tmp_path}/{{number}}.orc", SCHEMA, **options) as out:
            for part in range(2):
                await out.write(rows(part, part + 1))
                clock.move(31)
                await until(lambda count=part + 1: _flushed(path) == count)  # type: ignore[misc]
                async with orcstream.open(path, follow=True) as file:
                    assert (file.row_count, file.is_complete) == (part + 1, False)
            await out.write(rows(2, 3))
            clock.move(20)
            await until(lambda: len(out.files) == 1)
            assert numbers(path) == [0, 1, 2]
            await out.write(rows(3, 4))
            await out.flush()
            assert len(out.files) == 1
            assert _flushed(tmp_path / "1.orc") == 1
    assert by_partition(tmp_path) == {".": [0, 1, 2, 3]}


def _flushed(path: Path) -> int:
    lengths = Path(f"{path}_flush_length")
    return lengths.stat().st_size // 8 - 1 if lengths.exists() else 0


async def test_flush_commits_what_was_written(tmp_path: Path) -> None:
    async with orcstream.ingest(f"{tmp_path}/{{d}}/{{number}}.orc", SCHEMA) as out:
        await out.write(rows(0, 5))
        await out.flush()
        assert by_partition(tmp_path) == {"p0": [0, 2, 4], "p1": [1, 3]}
        await out.write(rows(5, 7))
        await asyncio.gather(out.flush(), out.flush())
        assert len(out.files) == 4


async def test_no_more_files_are_open_than_allowed(tmp_path: Path) -> None:
    async with orcstream.ingest(f"{tmp_path}/{{d}}/{{number:03}}.orc", SCHEMA, max_open_files=3) as out:
        for start in range(0, 100, 10):
            await out.write(rows(start, start + 10, partitions=5))
            await out.write(pa.Table.from_pylist(rows(start + 100, start + 110, partitions=5)))
            assert len(out._files._open) <= 3
    found = by_partition(tmp_path)
    assert sorted(chain.from_iterable(found.values())) == list(range(200))
    for partition in range(5):
        expected = [
            number
            for start in range(0, 100, 10)
            for number in [*range(start, start + 10), *range(start + 100, start + 110)]
            if number % 5 == partition
        ]
        assert found[f"p{partition}"] == expected


async def test_memory_is_bounded_over_all_files(tmp_path: Path) -> None:
    limit = 64 << 20
    noise = np.random.default_rng(2).integers(0, 1 << 62, 250_000)
    peak = 0
    async with orcstream.ingest(
        f"{tmp_path}/{{p}}/{{number:04}}.orc",
        "struct<p:int,n:bigint>",
        memory_limit=limit,
        compression="none",
    ) as out:
        for _ in range(40):
            await out.write({"p": np.arange(250_000, dtype=np.int32) % 40, "n": noise})
            peak = max(peak, out.held_bytes)
    assert peak < limit
    assert len(out.files) > 40  # 80 MB do not fit half of the limit
    assert sum(one.row_count for one in out.files) == 10_000_000


async def test_writers_wait_for_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    may_go = asyncio.Event()
    put = sink_local._Upload.put

    async def slow(*arguments: Any) -> None:
        await may_go.wait()
        await put(*arguments)

    monkeypatch.setattr(sink_local._Upload, "put", slow)
    noise = {"n": np.random.default_rng(3).integers(0, 1 << 62, 500_000)}
    limit = 64 << 20
    written = 0

    async def produce() -> None:
        nonlocal written
        async with orcstream.ingest(
            f"{tmp_path}/{{number:04}}.orc", "struct<n:bigint>", memory_limit=limit, compression="none"
        ) as out:
            for _ in range(60):
                written += await out.write(noise)
                assert out.held_bytes < limit

    producing = asyncio.create_task(produce())
    await asyncio.sleep(1.5)
    stuck = written
    await asyncio.sleep(0.3)
    assert stuck == written < 60 * 500_000
    assert stuck * 8 < limit
    may_go.set()
    await producing
    assert written == 60 * 500_000


async def test_data_that_do_not_fit_are_refused_and_it_goes_on(tmp_path: Path) -> None:
    async with orcstream.ingest(f"{tmp_path}/{{d}}/{{number}}.orc", "struct<d:string,n:tinyint>") as out:
        await out.write([{"d": "a", "n": 1}])
        for wrong in (
            [{"d": "a", "n": 1000}],
            [{"d": "a", "n": 2}, {"d": "a", "m": 1}],
            [{"d": 5, "n": 1}],
            [{"d": "x" * 300, "n": 1}],
            [{"d": "\ud800", "n": 1}],
            pa.table({"d": ["a", "b"], "n": [3, 300]}),
        ):
            with pytest.raises(SchemaMismatch):
                await out.write(wrong)
        with pytest.raises(UsageError):
            await out.write(5)
        await out.write([("a", 2)])
        assert out.row_count == 2
    assert by_partition(tmp_path) == {"a": [1, 2]}


async def test_what_is_written_may_change_afterwards(tmp_path: Path) -> None:
    array = np.arange(1000)
    row: dict[str, Any] = {"n": 1000, "l": [1]}
    async with orcstream.ingest(f"{tmp_path}/{{number}}.orc", "struct<n:bigint,l:array<int>>") as out:
        await out.write({"n": array})
        array[:] = -1
        await out.write([row])
        row["n"] = -1
        row["l"].append(2)
    table = pyarrow.orc.ORCFile(tmp_path / "0.orc").read()
    assert table["n"].to_pylist() == list(range(1001))
    assert table["l"].to_pylist()[-1] == [1]


# --- what goes wrong -------------------------------------------------------------------------------


async def test_an_exception_in_the_block(tmp_path: Path) -> None:
    async def run() -> None:
        async with orcstream.ingest(f"{tmp_path}/{{number}}.orc", SCHEMA, max_rows=10) as out:
            await out.write(pa.Table.from_pylist(rows(0, 25)))
            await until(lambda: len(out.files) == 2)
            await out.write(rows(25, 28))
            raise KeyError

    with pytest.raises(KeyError):
        await run()
    assert by_partition(tmp_path) == {".": list(range(20))}
    assert names(tmp_path) == ["0.orc", "1.orc"]


@pytest.mark.parametrize("failing", ["begin", "put", "finish"])
async def test_a_store_that_fails(failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0
    works = getattr(sink_local._Upload, failing)

    async def fail(*arguments: Any) -> Any:
        nonlocal count
        count += 1
        if count > 3:
            raise SinkError("no space")
        return await works(*arguments)

    monkeypatch.setattr(sink_local._Upload, failing, fail)

    async def run(out: orcstream.Ingester) -> None:
        async with out:
            for start in range(0, 400, 10):
                await out.write(pa.Table.from_pylist(rows(start, start + 10)))
                await asyncio.sleep(0.001)

    out = await orcstream.ingest(f"{tmp_path}/{{number:03}}.orc", SCHEMA, max_rows=10)
    with pytest.raises(SinkError, match="no space"):
        await run(out)
    with pytest.raises(SinkError, match="no space"):
        await out.write(rows(0, 1))
    with pytest.raises(SinkError, match="no space"):
        await out.flush()
    assert len(out.files) == len(names(tmp_path)) <= 3
    for one in out.files:
        assert numbers(one.url) == list(range(numbers(one.url)[0], numbers(one.url)[0] + 10))
    await out.abort()


async def test_a_callback_that_fails(tmp_path: Path) -> None:
    async def fail(found: orcstream.IngestedFile) -> None:
        await asyncio.sleep(0)
        raise KeyError(found.url)

    async def run() -> None:
        async with orcstream.ingest(f"{tmp_path}/{{number}}.orc", SCHEMA, on_file=fail) as out:
            await out.write(rows(0, 3))

    with pytest.raises(KeyError):
        await run()
    assert names(tmp_path) == ["0.orc"]


async def test_numbers_go_on_where_an_earlier_ingest_ended(tmp_path: Path) -> None:
    async def run(start: int, **options: Any) -> None:
        template = f"{tmp_path}/d={{d}}/part-{{number:03}}.orc"
        async with orcstream.ingest(template, PARTITIONED, max_rows=2, **options) as out:
            for number in range(start, start + 6):
                await out.write([{"d": number % 2, "n": number}])

    await run(0)
    (tmp_path / "d=0/part-041x.orc").write_bytes(b"of another name")
    await run(6)
    files = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("part-00?.orc"))
    assert len(files) == 8
    found = sorted(number for path in files for number in numbers(tmp_path / path))
    assert found == list(range(12))
    assert min(int(path[-7:-4]) for path in files if path.startswith("d=0")) == 0


async def test_a_file_that_came_meanwhile(tmp_path: Path) -> None:
    async def run() -> None:
        async with orcstream.ingest(f"{tmp_path}/{{number}}.orc", SCHEMA) as out:
            await out.write(rows(0, 3))
            await out.flush()
            (tmp_path / "1.orc").write_bytes(b"another's")
            await out.write(rows(3, 6))

    with pytest.raises(FileExistsError):
        await run()
    assert (tmp_path / "1.orc").read_bytes() == b"another's"
    (tmp_path / "1.orc").unlink()
    async with orcstream.ingest(f"{tmp_path}/{{number}}.orc", SCHEMA, overwrite=True) as out:
        await out.write(rows(7, 9))
    assert by_partition(tmp_path) == {".": [7, 8]}


async def test_a_write_that_is_cancelled_takes_all_or_nothing(tmp_path: Path) -> None:
    """And what it took, it said."""
    expected = 0
    async with orcstream.ingest(f"{tmp_path}/{{number:03}}.orc", SCHEMA, max_rows=500) as out:
        for step in range(120):
            data: Any = rows(expected, expected + 100)
            if step % 2:
                data = pa.Table.from_pylist(data)
            writing = asyncio.create_task(out.write(data))
            for _ in range(step % 12):
                await asyncio.sleep(0)
            if step % 3 == 0:
                await asyncio.sleep(0.0002 * step)
            writing.cancel()
            with suppress(asyncio.CancelledError):
                expected += await writing
            assert out.row_count == expected
    assert 0 < expected < 12_000
    assert by_partition(tmp_path) == {".": list(range(expected))}


@pytest.mark.parametrize("step", range(0, 120, 4))
async def test_cancelled_anywhere(step: int, tmp_path: Path) -> None:
    """Whole files or none, no temporary, and of each partition the first rows."""

    async def run() -> None:
        template = f"{tmp_path}/{{d}}/{{number:03}}.orc"
        async with orcstream.ingest(template, SCHEMA, max_rows=20, max_open_files=2) as out:
            for start in range(0, 300, 30):
                await out.write(pa.Table.from_pylist(rows(start, start + 20, partitions=3)))
                for number in range(start + 20, start + 30):
                    await out.write(rows(number, number + 1, partitions=3))
            await out.flush()

    running = asyncio.create_task(run())
    await asyncio.sleep(0.0008 * step)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    for folder, found in by_partition(tmp_path).items():
        partition = int(folder.removeprefix("p"))
        expected = [number for number in range(300) if number % 3 == partition]
        missing = sorted(set(expected) - set(found))
        assert sorted(found) == [number for number in expected if number not in missing]
        assert len(set(found)) == len(found)
    assert not [one for one in names(tmp_path) if one.endswith(".tmp")]
    assert not [task for task in asyncio.all_tasks() if "ingest" in task.get_name()]


async def test_a_flush_that_is_cancelled_harms_nothing(tmp_path: Path) -> None:
    async with orcstream.ingest(f"{tmp_path}/{{number:03}}.orc", SCHEMA) as out:
        for step in range(20):
            await out.write(rows(step, step + 1))
            with anyio.move_on_after(0.0005 * step):
                await out.flush()
    assert by_partition(tmp_path) == {".": list(range(20))}


async def test_abort_and_what_may_follow(tmp_path: Path) -> None:
    out = await orcstream.ingest(f"{tmp_path}/{{number}}.orc", SCHEMA)
    await out.write(rows(0, 3))
    flushing = asyncio.create_task(_flush_after(out))
    await out.abort()
    await out.abort()
    await flushing
    for call in (out.write([]), out.flush(), out.commit()):
        with pytest.raises(UsageError):
            await call
    assert names(tmp_path) == []
    out = await orcstream.ingest(f"{tmp_path}/{{number}}.orc", SCHEMA)
    await out.write(rows(0, 3))
    await out.commit()
    assert await out.commit() == out.files
    await out.abort()
    assert names(tmp_path) == ["0.orc"]
    with pytest.raises(UsageError, match="committed"):
        await out.write(rows(0, 1))


async def _flush_after(out: orcstream.Ingester) -> None:
    with pytest.raises(UsageError):
        await out.flush()


async def test_growing_files_that_are_aborted_keep_what_was_flushed(tmp_path: Path) -> None:
    out = await orcstream.ingest(f"{tmp_path}/{{number}}.orc", SCHEMA, growing=True)
    await out.write(rows(0, 3))
    await out.flush()
    await out.write(pa.Table.from_pylist(rows(3, 6)))
    await out.abort()
    assert by_partition(tmp_path) == {".": [0, 1, 2]}


@pytest.mark.parametrize(
    "make",
    [
        lambda: orcstream.ingest("a.orc"),
        lambda: orcstream.ingest("{number}{", SCHEMA),
        lambda: orcstream.ingest("{}-{number}", SCHEMA),
        lambda: orcstream.ingest("{number:x}", SCHEMA),
        lambda: orcstream.ingest("{d:05}-{number}", SCHEMA),
        lambda: orcstream.ingest("{other}/{number}", SCHEMA),
        lambda: orcstream.ingest("{d}/{number}", SCHEMA, partition_by=["n"]),
        lambda: orcstream.ingest("{d}/{number}", SCHEMA, partition_by="d"),
        lambda: orcstream.ingest("{d}/{n}/{number}", SCHEMA),
        lambda: orcstream.ingest("{x}/{number}", "struct<x:double,n:int>"),
        lambda: orcstream.ingest("{x}/{number}", "array<int>"),
        lambda: orcstream.ingest("{number}", max_rows=0),
        lambda: orcstream.ingest("{number}", max_bytes=True),
        lambda: orcstream.ingest("{number}", max_age_s=0),
        lambda: orcstream.ingest("{number}", flush_deadline_s=cast("Any", "1")),
        lambda: orcstream.ingest("{number}", memory_limit=1 << 20),
        lambda: orcstream.ingest("{number}", max_open_files=0),
        lambda: orcstream.ingest("{number}", compression="none of these"),
        lambda: orcstream.ingest("{number}", no_such_option=1),  # type: ignore[call-arg]
        lambda: orcstream.ingest("{number}", url="other"),  # type: ignore[call-arg]
        lambda: orcstream.ingest(cast("Any", Path("{number}"))),
    ],
)
def test_what_cannot_be(make: Callable[[], object]) -> None:
    with pytest.raises(UsageError):
        make()


async def test_growing_elsewhere(tmp_path: Path) -> None:
    out = await orcstream.ingest("s3://bucket/{number}.orc", SCHEMA, growing=True)
    await out.write(rows(0, 1))
    with pytest.raises(Unsupported):
        await out.flush()
    await out.abort()


async def test_to_an_object_store(moto_server: MotoServer) -> None:
    """Several commits at a time, by one client that lives as long as the ingest."""
    moto_server.put("ingest", "other", b"")
    options = {"storage_options": moto_server.options, "max_rows": 50}
    template = "s3://ingest/d={d}/{number:03}-{uuid}.orc"
    async with orcstream.ingest(template, SCHEMA, **cast("Any", options)) as out:
        for start in range(0, 1000, 100):
            await out.write(pa.Table.from_pylist(rows(start, start + 100)))
            await out.flush()
            assert leased_clients() == 1
    assert leased_clients() == 0
    found = sorted(out.files, key=lambda one: one.url)
    assert [one.row_count for one in found] == [50] * 20
    read: dict[str, list[int]] = defaultdict(list)
    async with orcstream.open_many(
        [one.url for one in found], storage_options=moto_server.options, ordered=True
    ) as files:
        async for file in files:
            async with file:
                read[file.url.split("/")[3]] += [row["n"] for row in (await file.read()).to_pylist()]
    assert read == {"d=p0": list(range(0, 1000, 2)), "d=p1": list(range(1, 1000, 2))}


async def test_prepared_files_are_committed_by_the_caller(tmp_path: Path) -> None:
    template = f"{tmp_path}/d={{d}}/part-{{number}}.orc"
    async with orcstream.ingest(template, SCHEMA, max_rows=10, prepare_only=True) as out:
        await out.write(rows(0, 40))
    assert not [name for name in names(tmp_path) if not name.endswith(".tmp")]
    assert [(one.row_count, one.prepared.length) for one in out.files if one.prepared] == [
        (10, one.length) for one in out.files
    ]
    for one in out.files:
        assert one.prepared is not None
        await orcstream.commit(one.prepared)
    assert by_partition(tmp_path) == {"d=p0": list(range(0, 40, 2)), "d=p1": list(range(1, 40, 2))}
    assert leased_clients() == 0


async def test_prepared_files_are_the_callers_after_an_abort(tmp_path: Path) -> None:
    template = f"{tmp_path}/part-{{number}}.orc"
    out = await orcstream.ingest(template, SCHEMA, max_rows=10, prepare_only=True)
    await out.write(rows(0, 15))
    await until(lambda: len(out.files) == 1)
    await out.abort()
    (left,) = names(tmp_path)
    (file,) = out.files
    assert file.prepared is not None
    assert left == Path(file.prepared.state.remains).name
    await orcstream.discard(file.prepared)
    assert names(tmp_path) == []
    with pytest.raises(UsageError, match=r"\bprepare_only\b"):
        orcstream.ingest(template, SCHEMA, growing=True, prepare_only=True)
