"""Encrypted files and a key store that takes its time: cancelled at any turn, asked by many, failing.

The file was joined from four, each with local keys of its own, so that keys are asked for twice: when it is
opened, and when stripes are read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

import orcstream
from orcstream import Encrypt
from orcstream.errors import KeyUnavailable, RetriesExhausted
from orcstream.io.loop.clients import leased_clients
from orcstream.io.stores.memory.source import BytesSource
from orcstream.query.expr import col
from orcstream.reader import opening
from orcstream.reader.file import OrcFile
from orcstream.writer import merge as merging
from tests.generators import seeds
from tests.generators.encrypting import SECRETS, CountedKeys, ProbeKeys, written
from tests.reference.encryption import Locked
from tests.support.effort import STEP
from tests.support.read_sources import Leftovers, ProbeSource, cost_of, ended_before, opened, probe

SCHEMA = "struct<a:int,s:string>"
ENCRYPT = [Encrypt("pii", ["s"]), Encrypt("pay", ["a"])]
STRIPES, PER_STRIPE = 4, 30


def rows_of(stripe: int) -> list[tuple[int, str]]:
    return [(row, f"row {row}") for row in range(stripe * PER_STRIPE, (stripe + 1) * PER_STRIPE)]


ROWS = [row for stripe in range(STRIPES) for row in rows_of(stripe)]
MASKED = [(None, None)] * len(ROWS)
_DRAWN = CountedKeys()
FILES = [
    written(SCHEMA, [rows_of(stripe)], ENCRYPT, compression="none", keys=_DRAWN) for stripe in range(STRIPES)
]
DATA = seeds.merged(FILES, _DRAWN)
# The tail needs a second request, footers four, data as many as there are streams.
COST = cost_of(tail_bytes=100)
Row = tuple[Any, ...]


def rows_in(batch: Any) -> list[Row]:
    return [tuple(row.values()) for row in batch.to_pylist()]


async def collect(stream: orcstream.BatchStream, into: list[Row]) -> None:
    async for batch in stream:
        into += rows_in(batch)


async def read_rows(file: OrcFile, into: list[Row], **options: Any) -> None:
    async with file.batches(batch_rows=16, **options) as stream:
        await collect(stream, into)


# --- cancelled -------------------------------------------------------------------------------------


async def turns_of(attempt: Callable[[int], Awaitable[bool]], least: int) -> None:
    """Cancel at later and later turns, until it is too late; there must be some."""
    turn = 0
    while not await attempt(turn):
        turn += STEP if turn < 80 else 7
    assert turn >= least


async def open_and_read(source: ProbeSource, keys: ProbeKeys, into: list[Row]) -> None:
    async with opened(source, keys=keys, require_keys=True) as file:
        await read_rows(file, into)


async def open_and_seek(source: ProbeSource, keys: ProbeKeys, into: list[Row]) -> None:
    async with opened(source, keys=keys) as file, file.batches() as stream:
        await stream.seek(70)
        await collect(stream, into)


async def open_and_take(source: ProbeSource, keys: ProbeKeys, into: list[Row]) -> None:
    async with opened(source, keys=keys) as file:
        into += rows_in(await file.take([119, 0, 64]))


async def open_and_filter(source: ProbeSource, keys: ProbeKeys, into: list[Row]) -> None:
    async with opened(source, keys=keys) as file:
        await read_rows(file, into, where=col("a") >= 65)


READS = {
    "batches": (open_and_read, ROWS),
    "seek": (open_and_seek, ROWS[70:]),
    "take": (open_and_take, [ROWS[119], ROWS[0], ROWS[64]]),
    "where": (open_and_filter, ROWS[65:]),
}


@pytest.mark.parametrize("name", READS)
async def test_a_read_after_every_turn(name: str) -> None:
    read, wanted = READS[name]

    async def attempt(turn: int) -> bool:
        source, keys, rows = probe(DATA, COST), ProbeKeys(), list[Row]()
        left = Leftovers(source)
        done = await ended_before(asyncio.ensure_future(read(source, keys, rows)), turn)
        assert keys.open_count == 0
        await left.check(file_closed=turn > 0)  # a task that never ran has opened nothing
        assert rows == (wanted if done else wanted[: len(rows)])
        return done

    await turns_of(attempt, 20)


async def test_a_stream_while_it_asks_for_keys_and_the_file_again() -> None:
    """Only the stream is cancelled; what it had asked for may be asked for once more, and no more."""
    for number in range(2, 2 * STRIPES + 2):
        scope = anyio.CancelScope()
        source, keys = probe(DATA, COST), ProbeKeys()
        async with opened(source, keys=keys) as file:
            keys.on_call = lambda found, number=number, scope=scope: (  # type: ignore[misc]
                scope.cancel() if found == number else None
            )
            with scope:
                await read_rows(file, [])
            assert keys.open_count == 0
            rows: list[Row] = []
            await read_rows(file, rows)
            assert rows == ROWS
        assert len(set(keys.asked)) == 2 * STRIPES + 2


async def test_a_merge_after_every_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under new keys, over sources that wait, and a store of keys that does."""
    target = tmp_path / "all.orc"
    sources: list[ProbeSource] = []
    files = {f"probe://bucket/{number}.orc": data for number, data in enumerate(FILES[:2])}

    async def open_source(url: str, **_: object) -> ProbeSource:
        sources.append(ProbeSource(BytesSource(files[url], COST, url)))
        return sources[-1]

    monkeypatch.setattr(merging, "open_source", open_source)

    async def attempt(turn: int) -> bool:
        keys, left = ProbeKeys(), Leftovers()
        sources.clear()
        target.unlink(missing_ok=True)

        async def merge() -> None:
            await orcstream.merge(
                files, target, keys=keys, rekey=True, io_options={"part_bytes": 400, "retries": 0}
            )

        done = await ended_before(asyncio.ensure_future(merge()), turn)
        await left.check()
        assert keys.open_count == leased_clients() == 0
        assert all(source.open_count == 0 and source.close_count >= 1 for source in sources)
        assert {path.name for path in tmp_path.iterdir()} <= {"all.orc"}
        if target.exists():  # cancelled behind the commit, it is whole
            assert Locked(target.read_bytes()).rows(SECRETS) == ROWS[: 2 * PER_STRIPE]
        else:
            assert not done
        return done

    await turns_of(attempt, 30)


@pytest.mark.parametrize("growing", [False, True])
async def test_a_writer_after_every_turn(tmp_path: Path, *, growing: bool) -> None:
    path = tmp_path / "a.orc"

    async def write(keys: ProbeKeys) -> None:
        options: dict[str, Any] = {"encrypt": ENCRYPT, "keys": keys, "stripe_bytes": 1024, "growing": growing}
        async with orcstream.create(path, SCHEMA, **options) as out:
            for stripe in range(3):
                await out.write(rows_of(stripe))
                await out.end_stripe()

    async def attempt(turn: int) -> bool:
        keys, left = ProbeKeys(), Leftovers()
        for one in tmp_path.iterdir():
            one.unlink()
        done = await ended_before(asyncio.ensure_future(write(keys)), turn)
        await left.check()
        assert keys.open_count == 0
        assert len({local.encrypted for local in keys.drawn}) == len(keys.drawn) <= 2
        if growing:  # what was flushed is there to be read: nothing, as long as nobody asks for it
            return done
        assert {one.name for one in tmp_path.iterdir()} <= {"a.orc"}
        if path.exists():
            assert Locked(path.read_bytes()).rows(SECRETS) == ROWS[: 3 * PER_STRIPE]
        else:
            assert not done
        return done

    await turns_of(attempt, 10)


# --- at once ---------------------------------------------------------------------------------------


async def test_streams_of_one_file_ask_once_for_each_key() -> None:
    keys = ProbeKeys(turns=20)
    async with opened(probe(DATA, COST), keys=keys) as file:
        found: list[list[Row]] = [[], [], [], []]
        wheres = [None, col("a") >= 0, None, None]
        async with anyio.create_task_group() as tasks:
            for rows, where in zip(found, wheres, strict=True):
                tasks.start_soon(lambda r=rows, w=where: read_rows(file, r, where=w))  # type: ignore[misc]
    assert found == [ROWS] * 4
    assert len(keys.asked) == len(set(keys.asked)) == 2 * STRIPES + 2


async def test_a_stream_that_waits_for_keys_which_another_one_asks_for() -> None:
    """It gets them, whatever becomes of the other."""
    for number in range(2, 2 * STRIPES + 2):
        keys, source = ProbeKeys(turns=5), probe(DATA, COST)
        left = Leftovers(source)
        async with opened(source, keys=keys) as file:
            first = asyncio.create_task(read_rows(file, []))

            def cancel(found: int, number: int = number, first: asyncio.Task[None] = first) -> None:
                if found == number:
                    first.cancel()

            keys.on_call = cancel
            rows: list[Row] = []
            await asyncio.sleep(0)
            await read_rows(file, rows)
            assert rows == ROWS
            with pytest.raises(asyncio.CancelledError):
                await first
        await left.check()


async def test_some_columns_need_no_other_keys() -> None:
    """What is not encrypted could be read without; the keys of a file are those of all that is."""
    keys = ProbeKeys()
    async with opened(probe(DATA, COST), keys=keys) as file:
        assert rows_in(await file.read(columns=["s"])) == [(text,) for _, text in ROWS]
        await file.row_index(0)
        assert rows_in(await file.read(columns=["a"])) == [(number,) for number, _ in ROWS]
    assert len(keys.asked) == len(set(keys.asked)) == 2 * STRIPES + 2


async def test_many_files(monkeypatch: pytest.MonkeyPatch) -> None:
    sources: list[ProbeSource] = []

    async def open_source(url: str, **_: object) -> ProbeSource:
        number = int(url.removeprefix("probe://"))
        sources.append(ProbeSource(BytesSource(FILES[number % STRIPES], COST, url)))
        return sources[-1]

    monkeypatch.setattr(opening, "open_source", open_source)
    urls = [f"probe://{number}" for number in range(20)]
    keys, left = ProbeKeys(), Leftovers()
    found: list[Row] = []
    async with orcstream.open_many(
        urls, keys=keys, require_keys=["pii"], ordered=True, concurrency=4
    ) as files:
        async for file in files:
            async with file:
                await read_rows(file, found)
    assert found == ROWS * 5
    assert len(keys.asked) == 2 * 20

    def refuse(number: int) -> None:
        if number == 5:
            raise KeyUnavailable("not for you")

    failed: list[tuple[object, Exception]] = []
    keys = ProbeKeys(refuse)
    async with orcstream.open_many(
        urls, keys=keys, require_keys=True, concurrency=1, ordered=True, on_error=lambda *e: failed.append(e)
    ) as files:
        async for file in files:
            await file.aclose()
    ((url, error),) = failed
    assert url == "probe://2"
    assert isinstance(error, KeyUnavailable)
    assert error.url == url
    # Left while files are being opened.
    async with orcstream.open_many(urls, keys=ProbeKeys(turns=1000), concurrency=4):
        while len(sources) < 44:
            await anyio.lowlevel.checkpoint()
    await left.check()
    assert all(source.open_count == 0 and source.close_count == 1 for source in sources)


@cache
def joined() -> bytes:
    """Thirty stripes, each with keys of its own."""
    drawn = CountedKeys()
    files = [written(SCHEMA, [rows_of(stripe)], ENCRYPT, keys=drawn) for stripe in range(30)]
    return seeds.merged(files, drawn)


async def test_the_first_rows_do_not_wait_for_all_keys() -> None:
    keys = ProbeKeys()
    source = probe(await anyio.to_thread.run_sync(joined), COST)
    async with opened(source, keys=keys) as file:

        def fail(number: int) -> None:
            if number >= 2 + 2 * COST.request_cap:
                raise RetriesExhausted("too soon")

        keys.on_call = fail
        async with file.batches() as stream:
            assert rows_in(await anext(stream)) == rows_of(0)
        assert len(keys.asked) < 2 + 2 * 30
        keys.asked.clear()
        keys.on_call = lambda _: None
        assert rows_in(await file.read(rows=range(815, 817))) == rows_of(27)[5:7]
        assert len(keys.asked) == 2, "those of one stripe"
        await file.explain(rows=range(1))
        assert len(keys.asked) == 2


# --- failing ---------------------------------------------------------------------------------------


def failing(encrypted: bytes, error: Exception) -> ProbeKeys:
    """Whoever asks for this local key gets the error."""
    keys = ProbeKeys()

    def on_call(number: int) -> None:
        if keys.asked[number] == encrypted:
            raise error

    keys.on_call = on_call
    return keys


@pytest.mark.parametrize("variant", [0, 1])
@pytest.mark.parametrize("stripe", range(STRIPES))
@pytest.mark.parametrize(
    "error", [RetriesExhausted("down"), KeyUnavailable("no"), ZeroDivisionError()], ids=type
)
async def test_a_stripe_whose_key_is_not_had(stripe: int, variant: int, error: Exception) -> None:
    """The rows before it come; then the error, again and again, until the file is read once more."""
    locked = Locked(DATA)
    streams = [one for one in locked.stripes[stripe].streams if one.variant == variant]
    keys = failing(streams[0].encrypted_key, error)
    source = probe(DATA, COST)
    left = Leftovers(source)
    async with opened(source, keys=keys, require_keys=True) as file:
        rows: list[Row] = []
        stream = file.batches()
        with pytest.raises(type(error)) as caught:
            await collect(stream, rows)
        assert rows == ROWS[: stripe * PER_STRIPE]
        with pytest.raises(type(error)) as again:
            await anext(stream)
        assert again.value is caught.value
        if isinstance(caught.value, KeyUnavailable):
            assert caught.value.stripe == stripe
        await stream.aclose()
        first = stripe * PER_STRIPE
        with pytest.raises(type(error)):
            await file.take([first])
        with pytest.raises(type(error)):
            await file.row_index(stripe)
        others = [row for row in (0, 45, 75, 110) if row // PER_STRIPE != stripe]
        if not isinstance(error, KeyUnavailable):  # with it, a key is given up
            assert rows_in(await file.take(others)) == [ROWS[row] for row in others]
            keys.on_call = lambda _: None
            rows.clear()
            await read_rows(file, rows)
            assert rows == ROWS
    await left.check()


@pytest.mark.parametrize(("column", "other"), [("a", "s"), ("s", "a")])
async def test_keys_of_other_columns_are_not_asked_for(column: str, other: str) -> None:
    """Of stripes; whether a column is open at all is told by the keys of the tail."""
    locked = Locked(DATA)
    place = ["a", "s"].index(column)
    (variant,) = [index for index, one in enumerate(locked.variants) if one.root == 2 - place]
    streams = [one for stripe in locked.stripes for one in stripe.streams if one.variant == variant]
    keys = ProbeKeys()

    def refuse(number: int) -> None:
        if number >= 2 and keys.asked[number] in {one.encrypted_key for one in streams}:
            raise KeyUnavailable("no")

    keys.on_call = refuse
    async with opened(probe(DATA, COST), keys=keys, require_keys=True) as file:
        assert len(keys.asked) == 2
        rows: list[Row] = []
        await read_rows(file, rows, columns=[column])
        assert rows == [(row[place],) for row in ROWS]
        assert len(keys.asked) <= 2 + STRIPES
        wanted = ROWS[70][place]
        found = await file.read(columns=[column], where=col(column) == wanted)
        assert found.to_pylist() == [{column: wanted}]
        with pytest.raises(KeyUnavailable):
            await file.read(columns=[column], where=~col(other).is_null())


async def test_a_store_that_is_down_is_not_asked_for_each_of_many_keys() -> None:
    keys = ProbeKeys()
    async with opened(probe(await anyio.to_thread.run_sync(joined), COST), keys=keys) as file:

        def fail(number: int) -> None:
            if number > 10:
                raise RetriesExhausted("down")

        keys.on_call = fail
        rows: list[Row] = []
        with pytest.raises(RetriesExhausted):
            await read_rows(file, rows)
        assert rows == ROWS[: len(rows)]
        assert len(rows) > PER_STRIPE, "what the keys are for that were had"
        assert len(keys.asked) <= 2 + 10 + 16
        keys.on_call = lambda _: None
        rows.clear()
        await read_rows(file, rows)
        assert len(rows) == 30 * PER_STRIPE
        assert len(set(keys.asked)) == 2 + 2 * 30


# --- growing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("has_keys", [True, False])
async def test_following(tmp_path: Path, *, has_keys: bool) -> None:
    """Each flush writes a footer whose statistics take other counters; keys are asked for once."""
    path, keys, wanted = tmp_path / "a.orc", ProbeKeys(), ROWS if has_keys else MASKED
    given = keys if has_keys else None
    options: dict[str, Any] = {"encrypt": ENCRYPT, "keys": CountedKeys(), "growing": True}
    async with orcstream.create(path, SCHEMA, **options) as out:
        await out.flush()
        async with orcstream.open(path, follow=True, poll_s=0.01, keys=given) as file:
            assert [column.is_open for column in file.encrypted_columns] == [has_keys] * 2
            found: list[Row] = []
            async with file.batches() as stream:
                for stripe in range(STRIPES):
                    await out.write(rows_of(stripe))
                    await out.flush()
                    with anyio.fail_after(20):
                        while len(found) < (stripe + 1) * PER_STRIPE:
                            found += rows_in(await anext(stream))
                    assert stream.masked_columns == (() if has_keys else ("a", "s"))
                    maximum = (stripe + 1) * PER_STRIPE - 1 if has_keys else None
                    assert file.statistics["a"].maximum == maximum
                    assert len(await file.stripe_statistics()) == stripe + 1
                await out.commit()
                with anyio.fail_after(20):
                    await collect(stream, found)
            assert found == wanted
            where = col("a") == 35 if has_keys else col("a").is_null()
            rows: list[Row] = []
            await read_rows(file, rows, where=where)
            assert rows == ([ROWS[35]] if has_keys else MASKED)
    assert len(keys.asked) == (2 if has_keys else 0)


async def test_following_is_cancelled_while_it_asks(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    options: dict[str, Any] = {"encrypt": ENCRYPT, "keys": CountedKeys(), "growing": True}
    async with orcstream.create(path, SCHEMA, **options) as out:
        await out.write(rows_of(0))
        await out.flush()

        async def attempt(turn: int) -> bool:
            keys, left = ProbeKeys(), Leftovers()

            async def follow() -> None:
                async with orcstream.open(path, follow=True, poll_s=0.01, keys=keys) as file:
                    assert rows_in(await anext(file.batches())) == rows_of(0)

            done = await ended_before(asyncio.ensure_future(follow()), turn)
            assert keys.open_count == 0
            await left.check()
            return done

        await turns_of(attempt, 5)
