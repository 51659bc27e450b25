"""What every sink of bytes keeps, whichever store is behind it: the checks of `ByteSink`.

Knows the protocol, prepared files and the description of a store. Must not know any store.
"""

from __future__ import annotations

import asyncio
import itertools
import pickle
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import anyio

from orcstream.byterange import ByteRange
from orcstream.errors import SinkError, UsageError
from orcstream.io.contract.byte_sink import ByteSink, Prepared
from orcstream.testing.checks import (
    Contract,
    Watch,
    cancelled_at_each_turn,
    data_of,
    declared,
    expect,
    expect_bytes,
    expect_raised,
)
from orcstream.testing.stores import SinkStore

__all__ = ["ByteSinkContract"]

NAME = "a.orc"
EARLIER = b"earlier"
# In one call of write; no part is a multiple of it.
WRITTEN_BYTES = 700_001
SMALL_WRITES = 3000


class ByteSinkContract(Contract):
    """The checks of a `ByteSink`; each is given a `SinkStore`."""

    async def test_what_was_written_appears_with_the_commit(self, store: SinkStore) -> None:
        part = store.part_bytes
        async with _kept(store):
            for size in (0, 1, part - 1, part, part + 1, 3 * part + 17):
                await _appears_with_the_commit(store, f"{size}.orc", data_of(size))

    async def test_small_writes_of_any_buffer_keep_their_order(self, store: SinkStore) -> None:
        sink = await store.open(store.url_of(NAME))
        expected, reused = bytearray(), bytearray(8)
        for number in range(SMALL_WRITES):
            reused[:] = number.to_bytes(8, "big")
            await sink.write(reused)
            await sink.write(memoryview(reused)[2:6])
            await sink.write(b"")
            expected += reused + reused[2:6]
        await store.commit(await sink.prepare())
        await sink.aclose()
        await _sees(store, NAME, bytes(expected), "small writes from one buffer that was used again")

    async def test_an_earlier_file_stays_until_the_commit(self, store: SinkStore) -> None:
        await store.put(NAME, EARLIER)
        data = data_of(2 * store.part_bytes)
        sink = await store.open(store.url_of(NAME))
        await sink.write(data)
        await _sees(store, NAME, EARLIER, "the earlier file while its successor is written")
        prepared = await sink.prepare()
        await _sees(store, NAME, EARLIER, "the earlier file while its successor is prepared")
        await store.commit(prepared)
        await _sees(store, NAME, data, "the successor")
        await sink.aclose()
        await store.commit(await _prepared(store, b"short"))
        await _sees(store, NAME, b"short", "a successor that is shorter")
        await _nothing_is_left(store, "after two commits")

    async def test_a_commit_swaps_whole_files(self, store: SinkStore) -> None:
        if not store.commits_at_once:
            raise declared("commits do not swap files in one step")
        data = data_of(3 * store.part_bytes)
        await store.put(NAME, EARLIER)
        task = asyncio.create_task(store.commit(await _prepared(store, data)))
        while not task.done():
            seen = await store.seen(NAME)
            expect(seen in (EARLIER, data), f"during the commit {_count(seen)} were seen, of neither file")
            await asyncio.sleep(0)
        task.result()
        await _sees(store, NAME, data, "after the commit")

    async def test_abort_leaves_nothing(self, store: SinkStore) -> None:
        watch = Watch(store)
        await store.put(NAME, EARLIER)
        for when, size in {"at once": 0, "after a byte": 1, "after parts": 2 * store.part_bytes + 1}.items():
            for prepares in (False, True):
                what = f"an abort {when}{', prepared' * prepares}"
                sink = await store.open(store.url_of(NAME))
                await sink.write(data_of(size))
                if prepares:
                    await sink.prepare()
                await sink.abort()
                await sink.abort()
                expect(sink.held_bytes == 0, f"after {what} the sink holds {sink.held_bytes} bytes")
                await _nothing_is_left(store, f"after {what}")
                await _sees(store, NAME, EARLIER, f"after {what}")
                with expect_raised(UsageError, f"a write after {what}"):
                    await sink.write(b"more")
                with expect_raised(UsageError, f"prepare after {what}"):
                    await sink.prepare()
                await sink.aclose()
                await watch.nothing_left(f"after {what}")

    async def test_closing_without_prepare_aborts(self, store: SinkStore) -> None:
        watch = Watch(store)
        sink = await store.open(store.url_of(NAME))
        await sink.write(data_of(2 * store.part_bytes))
        await sink.aclose()
        await _nothing_is_left(store, "after closing what was not prepared")
        await _sees(store, NAME, None, "after closing what was not prepared")
        await watch.nothing_left("after closing what was not prepared")
        await sink.aclose()

    async def test_nothing_is_added_to_a_prepared_file(self, store: SinkStore) -> None:
        sink = await store.open(store.url_of(NAME))
        await sink.write(b"data")
        prepared = await sink.prepare()
        with expect_raised(UsageError, "a write after prepare"):
            await sink.write(b"x")
        await store.commit(prepared)
        await _sees(store, NAME, b"data", "what was prepared")
        await sink.aclose()

    async def test_discarding_what_was_prepared_leaves_nothing(self, store: SinkStore) -> None:
        prepared = await _prepared(store, data_of(store.part_bytes + 1))
        await store.discard(prepared)
        await store.discard(prepared)
        await _nothing_is_left(store, "after a discard")
        await _sees(store, NAME, None, "after a discard")

    async def test_discarding_what_was_committed_leaves_it(self, store: SinkStore) -> None:
        prepared = await _prepared(store, b"data")
        await store.commit(prepared)
        await store.discard(prepared)
        await _sees(store, NAME, b"data", "after a discard of what was committed")

    async def test_without_overwrite_the_first_commit_wins(self, store: SinkStore) -> None:
        first = await _prepared(store, b"first", overwrite=False)
        second = await _prepared(store, b"second", overwrite=False)
        await store.commit(first)
        with expect_raised(FileExistsError, "a commit without overwrite where there is a file"):
            await store.commit(second)
        await _sees(store, NAME, b"first", "after the second commit was refused")
        await store.discard(second)
        await _nothing_is_left(store, "after the second was discarded")

    async def test_without_overwrite_a_commit_may_be_repeated(self, store: SinkStore) -> None:
        prepared = await _prepared(store, b"first", overwrite=False)
        await store.commit(prepared)
        await store.commit(prepared)
        await _sees(store, NAME, b"first", "after the same commit twice")

    async def test_a_pickled_file_is_committed_elsewhere(self, store: SinkStore) -> None:
        data = data_of(store.part_bytes + 1)
        prepared = await _prepared(store, data)
        if not store.commits_elsewhere:
            with expect_raised(UsageError, "pickling what can only be committed here"):
                pickle.dumps(prepared)
            await store.commit(prepared)
        else:
            message = pickle.dumps(prepared)
            # Whoever commits has a loop of its own, and nothing of the sink.
            await anyio.to_thread.run_sync(lambda: asyncio.run(store.commit(pickle.loads(message))))  # noqa: S301 - our own
        await _sees(store, NAME, data, "what was committed from a pickle")
        await _nothing_is_left(store, "after a commit from a pickle")

    async def test_names_are_taken_as_they_are(self, store: SinkStore) -> None:
        contents = {name: data_of(100, name) for name in store.names}
        async with _kept(store):
            for name, data in contents.items():
                await store.commit(await _prepared(store, data, name=name))
        for name, data in contents.items():
            await _sees(store, name, data, f"the file {name!r}")
        await _nothing_is_left(store, "after the commits")

    async def test_many_at_once(self, store: SinkStore) -> None:
        names = [f"{number}.orc" for number in range(4)]
        watch = Watch(store)

        async def write(name: str) -> None:
            await store.commit(await _prepared(store, data_of(store.part_bytes + 1, name), name=name))

        await asyncio.gather(*map(write, names))
        for name in names:
            await _sees(store, name, data_of(store.part_bytes + 1, name), f"{name}, written with others")
        await _nothing_is_left(store, "after all commits")
        await watch.nothing_left("after all commits")

    async def test_two_writers_of_one_name_do_not_mix(self, store: SinkStore) -> None:
        first, second = (data_of(2 * store.part_bytes + 1, kind) for kind in ("first", "second"))
        one, other = [await store.open(store.url_of(NAME)) for _ in range(2)]
        await asyncio.gather(one.write(first), other.write(second))
        prepared = await asyncio.gather(one.prepare(), other.prepare())
        await store.commit(prepared[1])
        await _sees(store, NAME, second, "the file that was committed first")
        await store.commit(prepared[0])
        await _sees(store, NAME, first, "the file that was committed last")
        await one.aclose()
        await other.aclose()
        await _nothing_is_left(store, "after both commits")

    async def test_a_copy_that_is_not_made_appends_nothing(self, store: SinkStore) -> None:
        await store.put("other.orc", data_of(100))
        sink = await store.open(store.url_of(NAME))
        await sink.write(b"head")
        # Without a fingerprint nothing can hold the copy to one version of the other file.
        copied = await sink.copy(store.url_of("other.orc"), ByteRange(10, 60), "")
        expect(copied is False, f"copy without a fingerprint answered {copied!r}")
        expect(sink.length == 4, f"{sink.length} bytes after 4 were written and no copy was made")
        await sink.write(b"tail")
        await store.commit(await sink.prepare())
        await sink.aclose()
        await _sees(store, NAME, b"headtail", "what was written around a copy that was not made")

    async def test_where_one_may_not_write(self, store: SinkStore) -> None:
        if not await store.forbid(NAME):
            raise declared("nobody can be kept from writing")
        with expect_raised(PermissionError, "a file that may not be written"):
            sink = await store.open(store.url_of(NAME))
            try:
                await sink.write(data_of(store.part_bytes + 1))
                await store.commit(await sink.prepare())
            finally:
                await sink.aclose()
        await _nothing_is_left(store, "after a file that may not be written")

    async def test_cancelled_anywhere_an_abort_leaves_nothing(self, store: SinkStore) -> None:
        sinks: list[ByteSink] = []

        async def use() -> None:
            sinks.append(await store.open(store.url_of(NAME)))
            await sinks[-1].write(data_of(store.part_bytes + 1))
            await sinks[-1].write(data_of(store.part_bytes))
            await sinks[-1].prepare()

        before = Watch(store)
        async with _kept(store):
            watch = Watch(store)

            async def abort(finished: bool) -> None:
                for sink in sinks:
                    if not finished and sink.length:  # it was cancelled in a call of its own
                        with expect_raised((SinkError, UsageError), "prepare after a cancellation"):
                            await sink.prepare()
                    await sink.abort()
                sinks.clear()
                await _nothing_is_left(store, "after an abort of what was cancelled")
                await _sees(store, NAME, None, "after an abort of what was cancelled")
                await watch.nothing_left("after an abort of what was cancelled")

            await cancelled_at_each_turn(use, abort, what="writing", dense_turns=store.dense_turns)
        await before.nothing_left("after the last sink was closed")

    async def test_an_abort_is_not_cancelled(self, store: SinkStore) -> None:
        watch = Watch(store)
        sink = await store.open(store.url_of(NAME))
        await sink.write(data_of(2 * store.part_bytes))
        with anyio.CancelScope() as scope:
            scope.cancel()
            await sink.abort()
        await _nothing_is_left(store, "after an abort in a cancelled scope")
        await watch.nothing_left("after an abort in a cancelled scope")

    async def test_a_discard_is_not_cancelled(self, store: SinkStore) -> None:
        prepared = await _prepared(store, data_of(store.part_bytes + 1))
        with anyio.CancelScope() as scope:
            scope.cancel()
            await store.discard(prepared)
        await _nothing_is_left(store, "after a discard in a cancelled scope")

    async def test_a_commit_cancelled_at_any_turn_may_be_repeated(self, store: SinkStore) -> None:
        data = data_of(store.part_bytes // 2)
        names = (f"{number}.orc" for number in itertools.count())
        name, prepared = "", None

        async def prepare() -> None:
            nonlocal name, prepared
            name = next(names)  # a new one: a store may still be at work on what was cancelled before
            await store.put(name, EARLIER)
            prepared = await _prepared(store, data, name=name)

        async def commit() -> None:
            if prepared is not None:
                await store.commit(prepared)

        async def settle(finished: bool) -> None:
            seen = await store.seen(name)
            whole = seen in (EARLIER, data) or not store.commits_at_once
            expect(whole, f"after a cancelled commit {_count(seen)} were seen, of neither file")
            await commit()
            await _sees(store, name, data, "after a cancelled commit was repeated")
            await _nothing_is_left(store, "after a cancelled commit was repeated")
            if not finished:
                await prepare()

        async with _kept(store):
            await prepare()
            await cancelled_at_each_turn(commit, settle, what="committing", dense_turns=store.dense_turns)

    async def test_clean_up_finds_what_was_left(self, store: SinkStore) -> None:
        watch = Watch(store)
        url = store.url_of(NAME)
        if await store.cleanup(url, older_than_s=0, remove=False) is None:
            raise declared("nothing finds what killed writers left")
        async with _kept(store):
            await _is_cleaned_up(store, url)
        await watch.nothing_left("after cleanup")


@asynccontextmanager
async def _kept(store: SinkStore) -> AsyncIterator[None]:
    """With a sink that stays open, so that what sinks share is not made anew for each."""
    async with aclosing(await store.open(store.url_of("kept.orc"))):
        yield


async def _prepared(store: SinkStore, data: bytes, *, name: str = NAME, overwrite: bool = True) -> Prepared:
    async with aclosing(await store.open(store.url_of(name), overwrite=overwrite)) as sink:
        await sink.write(data)
        return await sink.prepare()


async def _appears_with_the_commit(store: SinkStore, name: str, data: bytes) -> None:
    watch, size = Watch(store), len(data)
    sink = await store.open(store.url_of(name))
    for start in range(0, size, WRITTEN_BYTES):
        await sink.write(data[start : start + WRITTEN_BYTES])
    expect(sink.length == size, f"the sink says {sink.length} bytes of {size}")
    await _sees(store, name, None, f"{size} bytes that were written")
    prepared = await sink.prepare()
    expect(prepared == await sink.prepare(), "preparing again answers the same")
    expect(prepared.length == size, f"what was prepared says {prepared.length} bytes of {size}")
    await _sees(store, name, None, f"{size} bytes that were prepared")
    await store.commit(prepared)
    await _sees(store, name, data, f"{size} bytes that were committed")
    await _nothing_is_left(store, "after the commit")
    await sink.aclose()
    await sink.aclose()
    await watch.nothing_left("after aclose")
    await store.commit(prepared)  # once more, as after a lost answer
    await _sees(store, name, data, f"{size} bytes that were committed again")


async def _is_cleaned_up(store: SinkStore, url: str) -> None:
    await store.commit(await _prepared(store, b"stays", name="b.orc"))
    await _prepared(store, b"data")  # nobody will commit it
    expected = len(await store.left())
    await _prepared(store, b"data", name=f"{NAME}2")
    both = await store.left()
    too_young = await store.cleanup(url, older_than_s=3600 if store.tells_age else 1e9)
    expect(too_young == [], f"cleanup found what is not old enough: {too_young}")
    listed = await store.cleanup(url, older_than_s=0, remove=False)
    expect(listed is not None and len(listed) == expected, f"cleanup listed {listed}, left are {both}")
    expect(await store.left() == both, "cleanup without remove removed something")
    removed = await store.cleanup(url, older_than_s=0)
    expect(_names(removed) == _names(listed), f"cleanup removed {removed}, listed were {listed}")
    expect(len(await store.left()) == len(both) - expected, "cleanup of one file is for that file alone")
    found = await store.cleanup(url.rpartition("/")[0], older_than_s=0)
    expect(len(found or ()) == len(both) - expected, f"cleanup of the folder found {found}")
    await _nothing_is_left(store, "after cleanup of the folder")
    await _sees(store, "b.orc", b"stays", "a visible file after cleanup")


async def _sees(store: SinkStore, name: str, wanted: bytes | None, what: str) -> None:
    expect_bytes(await store.seen(name), wanted, f"{what}: what is visible")


async def _nothing_is_left(store: SinkStore, when: str) -> None:
    left = await store.left()
    expect(not left, f"{when}: left in the store: {left}")


def _count(data: bytes | None) -> str:
    return "no file" if data is None else f"{len(data)} bytes"


def _names(found: Any) -> list[str]:
    return sorted(one.identity for one in found or ())
