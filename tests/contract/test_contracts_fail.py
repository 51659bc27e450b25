"""The contracts can fail: sources and sinks that are broken in one way each, and the check that says so."""

# ruff: noqa: ARG002 - methods have the parameters of the protocols

from __future__ import annotations

import asyncio
import unittest.mock
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from orcstream import Prepared
from orcstream.errors import ShortRead
from orcstream.testing import (
    ByteRange,
    ByteSinkContract,
    ByteSourceContract,
    Contract,
    RangeBuffer,
    SourceStore,
    Suffix,
    run_contract,
)
from tests.servers.own_store import OwnSink, OwnSinkStore, OwnSource, OwnSourceStore, Shelf

CONTRACTS: list[tuple[Contract, Any]] = [
    (ByteSourceContract(), OwnSourceStore),
    (ByteSinkContract(), OwnSinkStore),
]


@pytest.mark.parametrize(("contract", "make"), CONTRACTS, ids=["source", "sink"])
async def test_what_is_not_broken_keeps_them(contract: Contract, make: Any) -> None:
    results = await run_contract(contract, make)
    assert len(results) > 20
    # The dictionary answers at once and whole: no answer of it is ever cut.
    wrong = [str(one) for one in results if one.outcome != "passed" and "cut" not in one.check]
    assert not wrong


# --- sources ---------------------------------------------------------------------------------------


class RangeEndsLate(OwnSource):
    async def fetch(self, range: ByteRange, on_bytes: Any = None) -> bytes:
        data, _ = await self.look()
        await super().fetch(range)
        return data[range.start : range.stop + 1]


class SuffixStartsLate(OwnSource):
    async def fetch_suffix(self, length: int) -> Suffix:
        suffix = await super().fetch_suffix(length)
        return Suffix(suffix.data[1:], suffix.file_length, suffix.fingerprint)


class SuffixOfShortFiles(OwnSource):
    async def fetch_suffix(self, length: int) -> Suffix:
        suffix = await super().fetch_suffix(length)
        data, _ = await self.look()
        return Suffix(data[len(data) - length :], suffix.file_length, suffix.fingerprint)


class RefusesEmptyFiles(OwnSource):
    async def fetch_suffix(self, length: int) -> Suffix:
        suffix = await super().fetch_suffix(length)
        if not suffix.file_length:
            raise ShortRead("there is nothing")
        return suffix


class CutsAtTheEnd(OwnSource):
    async def fetch(self, range: ByteRange, on_bytes: Any = None) -> bytes:
        data, _ = await self.look()
        self.check(len(data), "")
        return data[range.start : range.stop]


class IgnoresReplacedFiles(OwnSource):
    def check(self, file_length: int, fingerprint: str) -> None:
        self.fingerprint = fingerprint


class ForgetsItsPin(OwnSource):
    def pin(self, file_length: int, fingerprint: str) -> None:
        """For later."""


class ReusesItsBuffer(OwnSource):
    buffer = bytearray(1 << 20)

    async def fetch(self, range: ByteRange, on_bytes: Any = None) -> Any:
        data = await super().fetch(range, on_bytes)
        self.buffer[: len(data)] = data
        return memoryview(self.buffer)[: len(data)]


class MixesRequestsUp(OwnSource):
    wanted = ByteRange(0, 0)

    async def fetch(self, range: ByteRange, on_bytes: Any = None) -> bytes:
        self.wanted = range
        await asyncio.sleep(0)
        return await super().fetch(self.wanted, on_bytes)


class PiecesOfAnotherPlace(OwnSource):
    async def fetch(self, range: ByteRange, on_bytes: Any = None) -> bytes:
        def moved(piece: RangeBuffer) -> None:
            there = piece.range
            on_bytes(RangeBuffer(ByteRange(there.start + 1, there.stop + 1), piece.view(there)))

        return await super().fetch(range, on_bytes and moved)


class NamesAnotherError(OwnSource):
    async def look(self) -> tuple[bytes, str]:
        try:
            return await super().look()
        except FileNotFoundError as error:
            raise KeyError(self.url) from error


class HidesWhatIsForbidden(OwnSource):
    async def look(self) -> tuple[bytes, str]:
        try:
            return await super().look()
        except PermissionError as error:
            raise FileNotFoundError(2, "no such file", self.url) from error


class UnquotesNames(OwnSource):
    def __init__(self, shelf: Shelf, url: str) -> None:
        super().__init__(shelf, urllib.parse.unquote_plus(url))


class SwallowsCancellations(OwnSource):
    async def verify(self) -> None:
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            return
        await super().verify()


class IsStuckAfterACancellation(OwnSource):
    is_busy = False

    async def fetch(self, range: ByteRange, on_bytes: Any = None) -> bytes:
        while self.is_busy:  # noqa: ASYNC110 - broken, as it says
            await asyncio.sleep(0.001)
        self.is_busy = True
        data = await super().fetch(range, on_bytes)
        self.is_busy = False
        return data


class LeavesATask(OwnSource):
    async def fetch_suffix(self, length: int) -> Suffix:
        self.task = asyncio.create_task(asyncio.sleep(3600))
        return await super().fetch_suffix(length)


class StaysOpen(OwnSource):
    async def aclose(self) -> None:
        """Later."""


class ClosesOnce(OwnSource):
    async def aclose(self) -> None:
        if not self.is_open:
            raise RuntimeError("it is closed")
        await super().aclose()


SOURCES: dict[type[OwnSource], str] = {
    RangeEndsLate: "fetch_is_exact",
    SuffixStartsLate: "fetch_suffix_answers_end_length_and_fingerprint",
    SuffixOfShortFiles: "fetch_suffix_of_a_shorter_file_is_the_file",
    RefusesEmptyFiles: "fetch_suffix_of_an_empty_file",
    CutsAtTheEnd: "fetch_past_the_end_is_a_short_read",
    IgnoresReplacedFiles: "a_replaced_file_is_noticed",
    ForgetsItsPin: "pin_holds_a_source_to_a_version_known_from_elsewhere",
    ReusesItsBuffer: "fetched_bytes_stay_as_they_are",
    MixesRequestsUp: "fetch_many_at_once",
    PiecesOfAnotherPlace: "pieces_are_of_the_range_and_stay_good",
    NamesAnotherError: "a_missing_file",
    HidesWhatIsForbidden: "a_file_without_permission",
    UnquotesNames: "names_are_taken_as_they_are",
    SwallowsCancellations: "cancelled_at_any_turn",
    IsStuckAfterACancellation: "cancelled_fetches_leave_the_source_usable",
    LeavesATask: "closing_leaves_nothing_and_may_be_repeated",
    StaysOpen: "closing_one_source_does_not_disturb_another",
    ClosesOnce: "closing_leaves_nothing_and_may_be_repeated",
}


@pytest.mark.parametrize("broken", SOURCES, ids=lambda broken: broken.__name__)
async def test_a_broken_source_is_told(broken: type[OwnSource]) -> None:
    class Store(OwnSourceStore):
        kind = broken

    hangs = broken is IsStuckAfterACancellation
    await fails(ByteSourceContract(), Store, SOURCES[broken], timeout_s=0.3 if hangs else 60)


async def test_an_ability_that_is_declared_and_not_there_is_told() -> None:
    class Silent(OwnSource):
        async def fetch(self, range: ByteRange, on_bytes: Any = None) -> bytes:
            return await super().fetch(range)

    class Store(OwnSourceStore):
        kind = Silent

    await fails(ByteSourceContract(), Store, "pieces_are_of_the_range_and_stay_good")

    class OnlyLengths(OwnSourceStore):
        replaced = "length"

    await fails(ByteSourceContract(), OnlyLengths, "a_replaced_file_is_noticed")


# --- sinks -----------------------------------------------------------------------------------------


class IsSeenAtOnce(OwnSink):
    async def write(self, data: Any) -> None:
        await super().write(data)
        self.shelf.put(self.name, self.shelf.hidden.get(self.hidden, b""))


class PreparesAnew(OwnSink):
    async def prepare(self) -> Prepared:
        self.prepared = None
        self.hidden, before = f"{self.hidden}'", self.hidden
        self.shelf.hidden[self.hidden] = self.shelf.hidden.pop(before, b"")
        return await super().prepare()


class LeavesATemporary(OwnSink):
    async def abort(self) -> None:
        self.is_closed = True


class AbortIsCancelled(OwnSink):
    async def abort(self) -> None:
        await asyncio.sleep(0)
        await super().abort()


class ClosesOnly(OwnSink):
    async def aclose(self) -> None:
        self.is_closed = True


class KeepsTheBuffer(OwnSink):
    async def write(self, data: Any) -> None:
        self.kept: list[Any] = [*getattr(self, "kept", ()), data]
        await super().write(data)

    async def prepare(self) -> Prepared:
        prepared = await super().prepare()
        self.shelf.hidden[self.hidden] = b"".join(getattr(self, "kept", ()))
        return prepared


class TakesMoreWhenPrepared(OwnSink):
    async def write(self, data: Any) -> None:
        self.prepared = None
        await super().write(data)


class SharesTheTemporary(OwnSink):
    def __init__(self, shelf: Shelf, url: str, overwrite: bool) -> None:
        super().__init__(shelf, url, overwrite)
        self.hidden = f"{self.name}~"


class CopiesAndDeniesIt(OwnSink):
    async def copy(self, source: str, range: ByteRange, fingerprint: str) -> bool:
        await self.write(bytes(range.length))
        return False


class GoesOnAfterACancellation(OwnSink):
    def need_open(self) -> None:
        self.is_broken = False
        super().need_open()


class SwallowsTheEnd(OwnSink):
    async def prepare(self) -> Prepared:
        try:
            return await super().prepare()
        except asyncio.CancelledError:
            self.is_broken = False
            return await super().prepare()


class UnquotesTheName(OwnSink):
    def __init__(self, shelf: Shelf, url: str, overwrite: bool) -> None:
        super().__init__(shelf, urllib.parse.unquote_plus(url), overwrite)


SINKS: dict[type[OwnSink], str] = {
    IsSeenAtOnce: "what_was_written_appears_with_the_commit",
    PreparesAnew: "what_was_written_appears_with_the_commit",
    LeavesATemporary: "abort_leaves_nothing",
    AbortIsCancelled: "an_abort_is_not_cancelled",
    ClosesOnly: "closing_without_prepare_aborts",
    KeepsTheBuffer: "small_writes_of_any_buffer_keep_their_order",
    TakesMoreWhenPrepared: "nothing_is_added_to_a_prepared_file",
    SharesTheTemporary: "two_writers_of_one_name_do_not_mix",
    CopiesAndDeniesIt: "a_copy_that_is_not_made_appends_nothing",
    GoesOnAfterACancellation: "cancelled_anywhere_an_abort_leaves_nothing",
    SwallowsTheEnd: "cancelled_anywhere_an_abort_leaves_nothing",
    UnquotesTheName: "names_are_taken_as_they_are",
}


@pytest.mark.parametrize("broken", SINKS, ids=lambda broken: broken.__name__)
async def test_a_broken_sink_is_told(broken: type[OwnSink]) -> None:
    class Store(OwnSinkStore):
        kind = broken

    await fails(ByteSinkContract(), Store, SINKS[broken])


class CommitsOnce(OwnSinkStore):
    async def commit(self, prepared: Prepared) -> None:
        self.committed.clear()
        await super().commit(prepared)


class CommitsInTwoSteps(OwnSinkStore):
    async def commit(self, prepared: Prepared) -> None:
        data = self.shelf.hidden.get(prepared.state.remains, b"")
        self.shelf.put(self.name_of(prepared), data[: len(data) // 2])
        await asyncio.sleep(0)
        await super().commit(prepared)

    @staticmethod
    def name_of(prepared: Prepared) -> str:
        return prepared.url.removeprefix("own://")


class AlwaysOverwrites(OwnSinkStore):
    async def open(self, url: str, *, overwrite: bool = True) -> OwnSink:
        return await super().open(url, overwrite=True)


class DiscardsWhatIsVisible(OwnSinkStore):
    async def discard(self, prepared: Prepared) -> None:
        await super().discard(prepared)
        self.shelf.files.pop(prepared.url.removeprefix("own://"), None)


class DiscardIsCancelled(OwnSinkStore):
    async def discard(self, prepared: Prepared) -> None:
        await asyncio.sleep(0)
        await super().discard(prepared)


class CommitsHereOnly(OwnSinkStore):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.get_running_loop()

    async def commit(self, prepared: Prepared) -> None:
        if asyncio.get_running_loop() is not self.loop:
            raise RuntimeError("another loop")
        await super().commit(prepared)


class CleansUpEverything(OwnSinkStore):
    async def cleanup(self, url: str, *, older_than_s: float, remove: bool = True) -> Any:
        return await super().cleanup("own:/", older_than_s=older_than_s, remove=remove)


STORES: dict[type[OwnSinkStore], str] = {
    CommitsOnce: "without_overwrite_a_commit_may_be_repeated",
    CommitsInTwoSteps: "a_commit_swaps_whole_files",
    AlwaysOverwrites: "without_overwrite_the_first_commit_wins",
    DiscardsWhatIsVisible: "discarding_what_was_committed_leaves_it",
    DiscardIsCancelled: "a_discard_is_not_cancelled",
    CommitsHereOnly: "a_pickled_file_is_committed_elsewhere",
    CleansUpEverything: "clean_up_finds_what_was_left",
}


@pytest.mark.parametrize("broken", STORES, ids=lambda broken: broken.__name__)
async def test_a_broken_commit_is_told(broken: type[OwnSinkStore]) -> None:
    await fails(ByteSinkContract(), broken, STORES[broken])


# --- how they are run ------------------------------------------------------------------------------


async def fails(contract: Contract, make: Any, check: str, *, timeout_s: float = 60) -> None:
    with told_of_nothing():
        [result] = await run_contract(contract, make, checks=[f"test_{check}"], timeout_s=timeout_s)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        if task.get_coro().__qualname__ == "sleep":  # type: ignore[union-attr]
            task.cancel()
    assert result.outcome == "failed", result
    assert result.reason
    assert isinstance(result.error, TimeoutError) == (timeout_s < 60), result


@contextmanager
def told_of_nothing() -> Iterator[None]:
    """Tasks that never end are given up sooner."""
    with unittest.mock.patch("orcstream.testing.checks.SETTLE_S", 0.05):
        yield


async def test_what_cannot_be_checked_is_declared() -> None:
    [result] = await run_contract(
        ByteSourceContract(), OwnSourceStore, checks=["test_an_answer_that_is_cut_is_an_error"]
    )
    assert (result.outcome, result.error) == ("declared", None)
    assert str(result) == (
        "declared test_an_answer_that_is_cut_is_an_error: "
        "declared: the store cannot be made to cut its answers"
    )


async def test_results_are_told_and_not_raised() -> None:
    class Own(Contract):
        async def test_good(self, store: SourceStore) -> None:
            await store.put("a", b"")

        async def test_bad(self, store: SourceStore) -> None:
            raise ZeroDivisionError

        async def test_endless(self, store: SourceStore) -> None:
            await asyncio.sleep(3600)

        async def test_cancelled(self, store: SourceStore) -> None:
            raise asyncio.CancelledError

        async def helper(self) -> None: ...

    names = Own().checks()
    results = [
        one
        for name in names
        for one in await run_contract(
            Own(), OwnSourceStore, checks=[name], timeout_s=0.05 if name == "test_endless" else 60
        )
    ]
    assert [(one.check, one.outcome) for one in results] == [
        ("test_good", "passed"),
        ("test_bad", "failed"),
        ("test_endless", "failed"),
        ("test_cancelled", "failed"),
    ]
    assert isinstance(results[1].error, ZeroDivisionError)
    assert "0.05 s" in results[2].reason


async def test_a_run_that_is_cancelled_leaves_no_check() -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    class Own(Contract):
        async def test_endless(self, store: SourceStore) -> None:
            try:
                began.set()
                await asyncio.sleep(3600)
            finally:
                ended.set()

    run = asyncio.create_task(run_contract(Own(), OwnSourceStore))
    await began.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    async with asyncio.timeout(60):
        await ended.wait()
