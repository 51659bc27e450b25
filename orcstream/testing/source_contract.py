"""What every source of bytes keeps, whichever store is behind it: the checks of `ByteSource`.

Knows the protocol and the description of a store. Must not know any store.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import anyio

from orcstream.byterange import ByteRange, CostModel, RangeBuffer
from orcstream.errors import ShortRead, SourceChanged, SourceError
from orcstream.io.contract.byte_source import ByteSource
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
from orcstream.testing.stores import SourceStore

__all__ = ["ByteSourceContract"]

LENGTH = 50_000
DATA = data_of(LENGTH)
NAME = "a.orc"


class ByteSourceContract(Contract):
    """The checks of a `ByteSource`; each is given a `SourceStore`."""

    async def test_fetch_suffix_answers_end_length_and_fingerprint(self, store: SourceStore) -> None:
        async with _opened(store, DATA) as source:
            expect(source.file_length is None, "before the first request no length is known")
            expect(source.fingerprint == "", "before the first request no fingerprint is known")
            suffix = await source.fetch_suffix(1000)
            expect_bytes(suffix.data, DATA[-1000:], "the last 1000 bytes")
            expect(suffix.file_length == LENGTH, f"the suffix says {suffix.file_length} bytes, not {LENGTH}")
            expect(source.file_length == LENGTH, f"the source says {source.file_length} bytes, not {LENGTH}")
            expect(suffix.fingerprint == source.fingerprint, "the source is pinned to what the suffix said")
            longer = await source.fetch_suffix(2000)
            expect_bytes(longer.data, DATA[-2000:], "the last 2000 bytes")
            expect(longer.fingerprint == suffix.fingerprint, "one version has one fingerprint")

    async def test_fetch_suffix_of_a_shorter_file_is_the_file(self, store: SourceStore) -> None:
        for length in (99, 100, 101, 5000):
            async with _opened(store, DATA[:100]) as source:
                suffix = await source.fetch_suffix(length)
                expect_bytes(suffix.data, DATA[max(0, 100 - length) : 100], f"{length} bytes of 100")
                expect(suffix.file_length == 100, f"the suffix says {suffix.file_length} bytes, not 100")

    async def test_fetch_suffix_of_an_empty_file(self, store: SourceStore) -> None:
        async with _opened(store, b"") as source:
            suffix = await source.fetch_suffix(1000)
            expect_bytes(suffix.data, b"", "an empty file")
            expect(suffix.file_length == 0, f"the suffix says {suffix.file_length} bytes, not 0")
            expect_bytes(await source.fetch(ByteRange(0, 0)), b"", "no bytes of an empty file")
            with expect_raised(ShortRead, "the first byte of an empty file"):
                await source.fetch(ByteRange(0, 1))

    async def test_a_suffix_of_no_bytes_is_refused(self, store: SourceStore) -> None:
        async with _opened(store, DATA) as source:
            for length in (0, -1):
                with expect_raised(ValueError, f"a suffix of {length} bytes"):
                    await source.fetch_suffix(length)

    async def test_fetch_is_exact(self, store: SourceStore) -> None:
        ranges = [(0, 1), (0, LENGTH), (17, 4099), (LENGTH - 1, LENGTH), (5, 5), (0, 0), (LENGTH, LENGTH)]
        async with _opened(store, DATA) as source:
            await source.fetch_suffix(1)
            for start, stop in ranges:
                data = await source.fetch(ByteRange(start, stop))
                expect_bytes(data, DATA[start:stop], f"bytes {start} up to {stop}")
            await source.verify()

    async def test_fetched_bytes_stay_as_they_are(self, store: SourceStore) -> None:
        async with _opened(store, DATA) as source:
            suffix = await source.fetch_suffix(500)
            first = await source.fetch(ByteRange(100, 1100))
            await source.fetch(ByteRange(2000, 3000))
        expect_bytes(first, DATA[100:1100], "bytes fetched before others, after the source was closed")
        expect_bytes(suffix.data, DATA[-500:], "a suffix, after the source was closed")

    async def test_fetch_many_at_once(self, store: SourceStore) -> None:
        async with _opened(store, DATA) as source:
            await source.fetch_suffix(10)
            starts = range(0, LENGTH, 2500)
            answers = await asyncio.gather(
                *(source.fetch(ByteRange(start, start + 1000)) for start in starts),
                *(source.verify() for _ in range(2)),
            )
            for start, data in zip(starts, answers, strict=False):
                expect_bytes(data, DATA[start : start + 1000], f"bytes {start} up to {start + 1000}, at once")

    async def test_fetch_past_the_end_is_a_short_read(self, store: SourceStore) -> None:
        async with _opened(store, DATA) as source:
            await source.fetch_suffix(10)
            for start, stop in [(100, LENGTH + 1), (LENGTH, LENGTH + 1), (LENGTH + 10_000, LENGTH + 10_010)]:
                with expect_raised(ShortRead, f"bytes {start} up to {stop} of {LENGTH}") as caught:
                    await source.fetch(ByteRange(start, stop))
                expect(caught.error.url == source.url, f"the error names {caught.error.url}, not the source")

    async def test_an_answer_that_is_cut_is_an_error(self, store: SourceStore) -> None:
        async with _opened(store, DATA) as source:
            await source.fetch_suffix(10)
            if not await store.cut_answers(7):
                raise declared("the store cannot be made to cut its answers")
            with expect_raised(SourceError, "an answer that ends 7 bytes early"):
                await source.fetch(ByteRange(0, 20_000))
            await store.cut_answers(0)
            expect_bytes(await source.fetch(ByteRange(0, 20_000)), DATA[:20_000], "the same bytes afterwards")

    async def test_pieces_are_of_the_range_and_stay_good(self, store: SourceStore) -> None:
        data, wanted = data_of(store.long_bytes), ByteRange(1000, store.long_bytes - 1000)
        pieces: list[RangeBuffer] = []
        async with _opened(store, data) as source:
            await source.fetch_suffix(10)
            expect_bytes(await source.fetch(wanted, pieces.append), data[1000:-1000], "a fetch in pieces")
        for piece in pieces:
            inside = wanted.start <= piece.range.start <= piece.range.stop <= wanted.stop
            expect(inside, f"a piece of {piece.range}, which is not in {wanted}")
            expect_bytes(
                piece.view(piece.range), data[piece.range.start : piece.range.stop], f"a piece, {piece.range}"
            )
        expect(pieces or not store.answers_in_pieces, "answers_in_pieces is declared, and there was no piece")

    async def test_a_missing_file(self, store: SourceStore) -> None:
        await store.put(NAME, DATA)
        url = store.url_of("missing.orc")
        with expect_raised(FileNotFoundError, "a file that is not there") as caught:
            async with aclosing(await store.open(url)) as source:
                await source.fetch_suffix(10)
        expect(caught.error.filename == url, f"the error names {caught.error.filename!r}, not {url!r}")

    async def test_a_file_without_permission(self, store: SourceStore) -> None:
        await store.put(NAME, DATA)
        if not await store.forbid(NAME):
            raise declared("nobody can be kept from reading")
        with expect_raised(PermissionError, "a file that may not be read"):
            async with aclosing(await store.open(store.url_of(NAME))) as source:
                await source.fetch_suffix(10)

    async def test_a_replaced_file_is_noticed(self, store: SourceStore) -> None:
        for kind, other in {"content": DATA[::-1], "shorter": DATA[:-1], "longer": DATA + b"x"}.items():
            async with _opened(store, DATA) as source:
                await source.fetch_suffix(10)
                await store.put(NAME, other)
                what = f"a file that was replaced ({kind})"
                if store.replaced == "kept":
                    expect_bytes(await source.fetch(ByteRange(0, 1000)), DATA[:1000], what)
                elif store.replaced == "length" and len(other) == LENGTH:
                    expect_bytes(await source.fetch(ByteRange(3, 33)), other[3:33], what)
                    await source.verify()
                else:
                    with expect_raised(SourceChanged, what) as caught:
                        await _fetch_and_verify(source)
                    expect(caught.error.url == source.url, f"the error names {caught.error.url}")

    async def test_a_removed_file_gives_no_other_bytes(self, store: SourceStore) -> None:
        async with _opened(store, DATA) as source:
            await source.fetch_suffix(10)
            if not await store.remove(NAME):
                raise declared("files cannot be removed")
            try:
                data = await source.fetch(ByteRange(5, 500))
            except (FileNotFoundError, SourceChanged):
                return
            expect_bytes(data, DATA[5:500], "a file that was removed")

    async def test_pin_holds_a_source_to_a_version_known_from_elsewhere(self, store: SourceStore) -> None:
        async with _opened(store, DATA) as source:
            suffix = await source.fetch_suffix(10)
        async with aclosing(await store.open(store.url_of(NAME))) as source:
            source.pin(suffix.file_length, suffix.fingerprint)
            expect(source.file_length == LENGTH, "a pinned source has the length of its pin")
            expect(source.fingerprint == suffix.fingerprint, "a pinned source has the fingerprint of its pin")
            expect_bytes(await source.fetch(ByteRange(3, 33)), DATA[3:33], "a source that was pinned")
            await source.verify()
        async with aclosing(await store.open(store.url_of(NAME))) as source:
            source.pin(suffix.file_length + 1, suffix.fingerprint)
            with expect_raised(SourceChanged, "a source that is pinned to another length"):
                await _fetch_and_verify(source)

    async def test_names_are_taken_as_they_are(self, store: SourceStore) -> None:
        contents = {name: data_of(1000, name) for name in store.names}
        for name, data in contents.items():
            await store.put(name, data)
        async with _kept(store):
            for name, data in contents.items():
                async with aclosing(await store.open(store.url_of(name))) as source:
                    expect_bytes((await source.fetch_suffix(10)).data, data[-10:], f"the end of {name!r}")
                    expect_bytes(await source.fetch(ByteRange(1, 900)), data[1:900], f"bytes of {name!r}")

    async def test_it_says_what_it_costs(self, store: SourceStore) -> None:
        async with _opened(store, DATA) as source:
            expect(isinstance(source.cost, CostModel), f"cost is {source.cost!r}, not a CostModel")
            expect(source.url, "url is empty")

    async def test_closing_leaves_nothing_and_may_be_repeated(self, store: SourceStore) -> None:
        watch = Watch(store)
        async with _opened(store, DATA) as source:  # closes once more, whatever happens here
            await source.fetch_suffix(10)
            await source.aclose()
            await watch.nothing_left("after aclose")
            await source.aclose()
        async with _opened(store, DATA):
            pass
        await watch.nothing_left("after closing a source that was never asked")

    async def test_closing_one_source_does_not_disturb_another(self, store: SourceStore) -> None:
        watch = Watch(store)
        async with _opened(store, DATA) as source:
            await source.fetch_suffix(10)
            async with aclosing(await store.open(store.url_of(NAME))) as other:
                await other.fetch_suffix(10)
            expect_bytes(await source.fetch(ByteRange(5, 50)), DATA[5:50], "after another source was closed")
        await watch.nothing_left("after both were closed")

    async def test_cancelled_fetches_leave_the_source_usable(self, store: SourceStore) -> None:
        watch = Watch(store)
        async with _opened(store, DATA) as source:
            await source.fetch_suffix(10)
            async with anyio.create_task_group() as group:
                for _ in range(3):
                    group.start_soon(source.fetch, ByteRange(0, 40_000))
                await anyio.lowlevel.checkpoint()
                group.cancel_scope.cancel()
            expect_bytes(await source.fetch(ByteRange(5, 50)), DATA[5:50], "after cancelled fetches")
        await watch.nothing_left("after cancelled fetches")

    async def test_cancelled_at_any_turn(self, store: SourceStore) -> None:
        watch = Watch(store)
        async with _opened(store, DATA) as source:

            async def use() -> None:
                await source.fetch_suffix(10)
                await source.fetch(ByteRange(0, 40_000))
                await source.verify()

            async def still_good(finished: bool) -> None:
                expect_bytes(
                    await source.fetch(ByteRange(5, 50)), DATA[5:50], f"after a {_end(finished)} call"
                )

            await cancelled_at_each_turn(use, still_good, what="reading", dense_turns=store.dense_turns)
        await watch.nothing_left("after cancelled calls")

    async def test_opening_and_closing_cancelled_at_any_turn(self, store: SourceStore) -> None:
        made: list[ByteSource] = []

        async def use() -> None:
            made.append(await store.open(store.url_of(NAME)))
            await made[-1].fetch_suffix(10)
            await made[-1].aclose()

        before = Watch(store)
        async with _kept(store):
            watch = Watch(store)

            async def close(finished: bool) -> None:
                while made:
                    await made.pop().aclose()
                await watch.nothing_left(f"after a {_end(finished)} opening and closing")

            await cancelled_at_each_turn(
                use, close, what="opening and closing", dense_turns=store.dense_turns
            )
        await before.nothing_left("after the last source was closed")


@asynccontextmanager
async def _opened(store: SourceStore, data: bytes) -> AsyncIterator[ByteSource]:
    """A source of a file that was put there just now."""
    await store.put(NAME, data)
    async with aclosing(await store.open(store.url_of(NAME))) as source:
        yield source


@asynccontextmanager
async def _kept(store: SourceStore) -> AsyncIterator[None]:
    """With a source that stays open, so that what sources share is not made anew for each."""
    async with _opened(store, DATA) as source:
        await source.fetch_suffix(10)
        yield


async def _fetch_and_verify(source: ByteSource) -> None:
    await source.fetch(ByteRange(3, 33))
    await source.verify()


def _end(finished: bool) -> str:
    return "finished" if finished else "cancelled"
