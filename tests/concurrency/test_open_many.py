"""Many files opened at once: how many requests and waves, who waits for whom, and that nothing is left."""

from __future__ import annotations

import asyncio
import gc
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import orcstream
from orcstream.errors import NotOrcFile, SourceChanged, UsageError
from orcstream.io.contract.byte_source import ByteSource
from orcstream.io.loop.clients import leased_clients
from orcstream.io.stores.memory.source import BytesSource
from orcstream.reader import opening
from orcstream.reader.file import OrcFile
from tests.servers.loopback import RangeServer, range_server
from tests.support.read_sources import NEVER, Leftovers, ProbeSource, cost_of, ended_before, sample

__all__ = ["range_server"]  # fixture

COST = cost_of(tail_bytes=400)
DATA = [sample(1, rows) for rows in (1, 2, 3, 4, 5, 6, 7, 8)]


class Probes:
    """Sources made for URLs ``probe://N``, whose file has 1 to 8 rows, and what is under way."""

    def __init__(
        self, *, turns: Callable[[int], int] = lambda _: 1, on_open: Callable[[int], None] = lambda _: None
    ) -> None:
        self.turns = turns
        self.on_open = on_open
        self.sources: dict[int, ProbeSource] = {}
        self.most_at_once = 0

    @property
    def request_count(self) -> int:
        return sum(source.request_count for source in self.sources.values())

    @property
    def open_count(self) -> int:
        """Files that are being opened or open."""
        return sum(source.close_count == 0 for source in self.sources.values())

    def check_closed(self) -> None:
        assert self.open_count == 0
        assert not any(source.open_count for source in self.sources.values())

    async def open_source(self, url: str, **_: object) -> ByteSource:
        number = int(url.removeprefix("probe://"))
        assert number not in self.sources
        self.on_open(number)
        inner = BytesSource(DATA[number % len(DATA)], COST, url)
        self.sources[number] = ProbeSource(inner, turns=lambda _: self.turns(number))
        self.most_at_once = max(self.most_at_once, self.open_count)
        return self.sources[number]


@contextmanager
def probes(**options: Any) -> Iterator[Probes]:
    made = Probes(**options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "open_source", made.open_source)
        yield made


def urls(count: int) -> list[str]:
    return [f"probe://{number}" for number in range(count)]


def number_of(file: OrcFile) -> int:
    return int(file.url.removeprefix("probe://"))


async def take_all(files: orcstream.FileStream, numbers: list[int] | None = None) -> list[int]:
    numbers = [] if numbers is None else numbers
    async for file in files:
        async with file:
            numbers.append(number_of(file))
            assert file.row_count == numbers[-1] % len(DATA) + 1
    return numbers


@pytest.mark.parametrize("ordered", [False, True])
async def test_every_file_comes_once(*, ordered: bool) -> None:
    with probes(turns=lambda number: 1 + number * 7919 % 50) as made:
        left = Leftovers()
        numbers = await take_all(orcstream.open_many(urls(100), concurrency=8, ordered=ordered))
        assert sorted(numbers) == list(range(100))
        assert (numbers == sorted(numbers)) == ordered
        assert made.most_at_once <= 8 + 1  # and the one that was taken
        assert made.request_count == 100
        made.check_closed()
        await left.check()
    assert leased_clients() == 0


@pytest.mark.parametrize("ordered", [False, True])
async def test_a_thousand_tails_in_as_few_waves_as_can_be(*, ordered: bool) -> None:
    """Whatever is under way is answered together: a wave for each time that latency is paid."""
    gate = anyio.Event()
    waiting = 0

    class Gated(ProbeSource):
        async def _answer(self, number: int) -> None:  # noqa: ARG002
            nonlocal waiting
            waiting += 1
            await gate.wait()
            waiting -= 1

    async def open_source(url: str, **_: object) -> ByteSource:
        return Gated(BytesSource(DATA[0], COST, url))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "open_source", open_source)
        files = orcstream.open_many(urls(1000), concurrency=16, ordered=ordered)
        taking = asyncio.create_task(count_files(files))
        waves = 0
        while not taking.done():
            for _ in range(400):  # long enough for all that was answered to be followed up
                await anyio.lowlevel.checkpoint()
            if waiting:
                waves += 1
                gate.set()
                gate = anyio.Event()
        assert await taking == 1000
    assert waves <= 1000 // 16 + 1 + 2


async def count_files(files: orcstream.FileStream) -> int:
    count = 0
    async for file in files:
        await file.aclose()
        count += 1
    return count


async def test_one_request_and_one_client_for_each_file(range_server: RangeServer) -> None:
    many = [range_server.serve(f"{number}.orc", DATA[number % 8]) for number in range(20)]
    assert await count_files(orcstream.open_many(many, concurrency=1)) == 20
    assert len({path for _, path, _ in range_server.requests}) == len(range_server.requests) == 20
    assert leased_clients() == 0


async def test_no_more_than_the_kind_of_store_is_good_for(range_server: RangeServer) -> None:
    many = [range_server.serve(f"{number}.orc", DATA[0]) for number in range(40)]
    for options, most in ((None, 16), ({"request_cap": 3}, 3)):
        range_server.gate.clear()
        range_server.requests.clear()
        async with orcstream.open_many(many, io_options=options) as files:
            await anyio.to_thread.run_sync(range_server.wait_for_requests, most)
            with anyio.move_on_after(0.05):
                await anext(files)
            assert len(range_server.requests) == most
            range_server.gate.set()
            assert await count_files(files) == 40


async def test_untaken_files_stop_the_opening() -> None:
    with probes() as made:
        async with orcstream.open_many(urls(100), concurrency=5) as files:
            for taken in range(10):
                for _ in range(200):
                    await anyio.lowlevel.checkpoint()
                assert len(made.sources) == taken + 5
                file = await anext(files)
                await file.aclose()
        made.check_closed()


async def test_urls_are_asked_for_when_their_turn_comes() -> None:
    asked = []

    async def later() -> AsyncIterator[str]:
        try:
            for number in itertools.count():
                url = f"probe://{number}"
                asked.append(url)
                await anyio.lowlevel.checkpoint()
                yield url
        finally:
            asked.append("closed")

    with probes() as made:
        async with orcstream.open_many(later(), concurrency=3) as files:
            async with await anext(files):
                pass
            async with await anext(files):
                pass
        assert len(asked) <= 2 + 3 + 1
        assert asked[-1] == "closed"
        made.check_closed()


async def test_several_tasks_may_take() -> None:
    with probes(turns=lambda number: 1 + number % 7) as made:
        files = orcstream.open_many(urls(60), concurrency=8)
        taken: list[list[int]] = []
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(lambda: _append(taken, files))
        assert sorted(number for one in taken for number in one) == list(range(60))
        assert sum(map(bool, taken)) > 1
        made.check_closed()


async def _append(taken: list[list[int]], files: orcstream.FileStream) -> None:
    taken.append(await take_all(files))


# --- errors ---


def fail_at(*numbers: int) -> Callable[[int], None]:
    def on_open(number: int) -> None:
        if number in numbers:
            raise NotOrcFile("nothing of the kind")

    return on_open


@pytest.mark.parametrize("ordered", [False, True])
async def test_a_file_that_fails_ends_it(*, ordered: bool) -> None:
    with probes(on_open=fail_at(20)) as made:
        left = Leftovers()
        files = orcstream.open_many(urls(100), concurrency=6, ordered=ordered)
        numbers: list[int] = []
        with pytest.raises(NotOrcFile) as caught:
            await take_all(files, numbers)
        assert caught.value.url == "probe://20"
        assert len(numbers) <= 26
        if ordered:
            assert numbers == list(range(20))
        made.check_closed()
        await left.check()
        with pytest.raises(NotOrcFile):
            await anext(files)


async def test_failures_can_be_collected() -> None:
    failed = []
    with probes(on_open=fail_at(0, 20, 99)) as made:
        files = orcstream.open_many(
            urls(100), concurrency=6, on_error=lambda url, error: failed.append((url, type(error)))
        )
        assert sorted(await take_all(files)) == sorted({*range(100)} - {0, 20, 99})
        assert sorted(failed) == [(f"probe://{number}", NotOrcFile) for number in (0, 20, 99)]
        made.check_closed()


async def test_a_collector_that_fails_ends_it() -> None:
    def refuse(url: object, error: Exception) -> None:
        raise ZeroDivisionError

    with probes(on_open=fail_at(20)) as made:
        with pytest.raises(ZeroDivisionError):
            await take_all(orcstream.open_many(urls(100), on_error=refuse))
        made.check_closed()


async def test_urls_that_fail_come_after_the_files_before_them() -> None:
    def some() -> Iterator[str]:
        yield from urls(10)
        raise ZeroDivisionError

    with probes() as made:
        numbers: list[int] = []
        with pytest.raises(ZeroDivisionError):
            await take_all(orcstream.open_many(some(), concurrency=3), numbers)
        assert sorted(numbers) == list(range(10))
        made.check_closed()


async def test_urls_that_cannot_be_iterated() -> None:
    class Broken:
        def __iter__(self) -> Iterator[str]:
            raise ZeroDivisionError

    with anyio.fail_after(10), pytest.raises(ZeroDivisionError):
        await take_all(orcstream.open_many(Broken()))


@pytest.mark.parametrize(
    ("many", "options", "text"),
    [
        ("t.orc", {}, r"\bopen_many\b.*\bopen\b"),
        (Path("t.orc"), {}, r"\bopen_many\b.*\bopen\b"),
        (b"ORC", {}, r"\bopen_many\b.*\bopen\b"),
        (5, {}, "iterable"),
        ([], {"concurrency": 0}, "concurrency"),
        ([], {"concurrency": True}, "concurrency"),
        ([], {"calendar": "lunar"}, "calendar"),
        ([], {"io_options": {"nothing": 1}}, "nothing"),
    ],
)
async def test_what_cannot_be(many: Any, options: Any, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        orcstream.open_many(many, **options)


async def test_no_url_at_all() -> None:
    assert await take_all(orcstream.open_many([])) == []


async def test_a_thing_that_is_no_url(tmp_path: Path) -> None:
    path = tmp_path / "t.orc"
    path.write_bytes(DATA[3])
    failed: list[Any] = []
    many: list[Any] = [None, path, 5]
    files = orcstream.open_many(many, on_error=lambda url, error: failed.append((url, type(error))))
    assert await count_files(files) == 1
    assert sorted(failed, key=str) == [(5, UsageError), (None, UsageError)]


# --- known tails ---


async def test_known_tails_are_not_read(range_server: RangeServer) -> None:
    many = [range_server.serve(f"{number}.orc", DATA[number]) for number in range(8)]
    tails: dict[str, Any] = {}
    async for file in orcstream.open_many(many):
        async with file:
            tails[file.url] = file.tail.to_bytes()
    range_server.requests.clear()
    del tails[many[3]]
    tails[many[4]] = orcstream.Tail.from_bytes(tails[many[4]])
    tails[many[5]] = tails[many[6]]
    async for file in orcstream.open_many(many, tails=tails):
        async with file:
            if file.url == many[5]:
                with pytest.raises(SourceChanged):
                    await file.read()
            else:
                assert (await file.read()).num_rows == file.row_count
    assert [path for _, path, headers in range_server.requests if "=-" in headers["Range"]] == ["/3.orc"]


async def test_a_damaged_tail_fails_its_file_only(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.orc" for number in range(4)]
    for path in paths:
        path.write_bytes(DATA[0])
    failed: list[Any] = []
    files = orcstream.open_many(
        paths, tails={paths[2]: b"nonsense"}, on_error=lambda *found: failed.append(found)
    )
    assert await count_files(files) == 3
    ((url, error),) = failed
    assert url == paths[2]
    assert isinstance(error, UsageError)
    assert error.url == str(paths[2])


# --- life time ---


async def test_leaving_early_closes_what_was_not_taken() -> None:
    for count in range(4):
        with probes() as made:
            left = Leftovers()
            taken = []
            async with orcstream.open_many(urls(50), concurrency=6) as files:
                for _ in range(count):
                    taken.append(await anext(files))  # noqa: PERF401 - one after the other
            assert made.open_count == count
            for file in taken:
                assert (await file.read()).num_rows == file.row_count  # what was taken is the taker's
                await file.aclose()
            made.check_closed()
            await left.check()
            with pytest.raises(StopAsyncIteration):
                await anext(files)


async def test_a_loop_that_is_left_early() -> None:
    with probes() as made:
        left = Leftovers()
        async for file in orcstream.open_many(urls(50), concurrency=6):
            await file.aclose()
            break
        gc.collect()
        await anyio.lowlevel.checkpoint()
        await left.check()
        made.check_closed()


async def test_never_begun() -> None:
    with probes() as made:
        orcstream.open_many(urls(50))
        async with orcstream.open_many(urls(50)):
            pass
        files = orcstream.open_many(urls(50))
        await files.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(files)
        made.check_closed()


async def test_opens_that_never_answer_are_ended() -> None:
    with probes(turns=lambda number: NEVER if number % 2 else 1) as made:
        left = Leftovers()
        async with orcstream.open_many(urls(50), concurrency=4) as files, await anext(files):
            pass
        made.check_closed()
        await left.check()


async def test_cancelled_after_every_turn_of_the_loop() -> None:
    finished = False
    turn = 0
    while not finished:
        with probes(turns=lambda number: 1 + number % 3) as made:
            left = Leftovers()
            task = asyncio.create_task(take_all_in_block(7))
            finished = await ended_before(task, turn)
            await left.check()
            made.check_closed()
        assert leased_clients() == 0
        turn += 1
    assert turn > 20


async def take_all_in_block(count: int) -> None:
    async with orcstream.open_many(urls(count), concurrency=3) as files:
        assert len(await take_all(files)) == count


async def after_turns(turns: int, scope: anyio.CancelScope) -> None:
    """Cancel after so many turns; the first is the checkpoint that each step begins with."""
    for _ in range(turns):
        await anyio.lowlevel.checkpoint()
    scope.cancel()


async def test_a_step_that_is_cancelled_loses_no_file() -> None:
    with probes(turns=lambda _: 5) as made:
        numbers: list[int] = []
        async with orcstream.open_many(urls(20), concurrency=3) as files:
            while len(numbers) < 20:
                file = None
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(after_turns, 2, tasks.cancel_scope)
                    file = await anext(files)
                    tasks.cancel_scope.cancel()
                if file is not None:
                    numbers.append(number_of(file))
                    await file.aclose()
        assert sorted(numbers) == list(range(20))
        made.check_closed()


def test_a_program_that_ends_in_the_middle() -> None:
    async def main() -> None:
        files = orcstream.open_many(urls(20), concurrency=3)
        keep.append(files)
        async with await anext(files):
            pass

    keep: list[object] = []
    with probes() as made:
        asyncio.run(main())
        made.check_closed()
