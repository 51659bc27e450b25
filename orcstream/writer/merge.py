"""Merging files without decoding them: tails are read side by side, then stripes are copied by ranges.

Knows requests, their order and the memory they take; what goes together, and what the new tail says, is known
by `plan.merge`. Ranges are fetched several at a time and written in the order of the rows. Each file is held
to the version that its tail is of, up to the last byte that is copied; nothing appears before all of it is.
Where the target's store copies long ranges by itself, it is left to it.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

import anyio
import anyio.abc

from orcstream._credentials import strip_credentials
from orcstream.byterange import ByteRange, BytesLike
from orcstream.encryption import NO_KEYS, FileKeys, KeyProvider
from orcstream.errors import OrcError, SinkError, Unsupported, UsageError, located
from orcstream.file.unlocking import UnlockedFile, read_tail
from orcstream.io.contract.byte_sink import ByteSink, Prepared, SinkOptions
from orcstream.io.contract.byte_source import ByteSource, IoOptions, RetryPolicy, retry_commit
from orcstream.io.loop.clients import keep_clients
from orcstream.io.loop.tasks import first_failure
from orcstream.io.loop.uncancelled import clean_up, run_in_thread, until_over
from orcstream.io.sink import commit, open_sink
from orcstream.io.urls import cost_of, open_source
from orcstream.plan.merge.merge import EMPTY, FileMerger, Refusal
from orcstream.plan.merge.variants import OpenedStatistics
from orcstream.plan.tail import MAGIC
from orcstream.writer.copying import CopiedStripes, Fetcher
from orcstream.writer.creating import Target
from orcstream.writer.file_keys import Rekeying, rekeying_of
from orcstream.writer.writer import metadata_of

A = TypeVar("A")
B = TypeVar("B")
Url: TypeAlias = str | os.PathLike[str] | BytesLike
_URL = (str, os.PathLike, bytes, bytearray, memoryview)
Progress: TypeAlias = Callable[[int, int], object]

# What is fetched and not yet written, besides what the sink holds.
IN_FLIGHT_BYTES = 64 << 20
PIECE_BYTES = 8 << 20
# What a store is asked to copy by itself: less is done sooner by fetching it beside others.
STORE_COPY_BYTES = 32 << 20
_NOTHING = ByteRange(0, 0)
_TASKS = "orcstream merge"


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file that was left out: its `url` as it was given, a `reason` for programs, and a `message` in words.

    Reasons: ``schema``, ``compression``, ``file_version``, ``writer``, ``writer_version``,
    ``row_index_stride``, ``calendar``, ``user_metadata``, ``encryption``, ``encrypted``,
    ``unknown_version``, ``unknown_writer``, ``block_size`` and ``empty``.
    """

    url: Url = field(repr=False)
    reason: str
    message: str

    @property
    def shown(self) -> str:
        """The URL without credentials."""
        return _shown(self.url)


@dataclass(frozen=True, slots=True)
class MergeResult:
    """What was merged, to `url` (without credentials): `files` are the URLs as they were given, in order.

    `skipped` are those that were left out, `row_count`, `stripe_count` and `length` (bytes) those of the
    file. `prepared` is there with ``prepare_only``: what `commit` or `discard` takes.
    """

    url: str
    files: tuple[Url, ...] = field(repr=False)
    skipped: tuple[SkippedFile, ...]
    row_count: int
    stripe_count: int
    length: int
    prepared: Prepared | None = None


async def merge(
    urls: Iterable[Url],
    target: Target,
    *,
    storage_options: Mapping[str, Any] | None = None,
    target_storage_options: Mapping[str, Any] | None = None,
    io_options: IoOptions | Mapping[str, Any] | None = None,
    sink_options: SinkOptions | Mapping[str, Any] | None = None,
    overwrite: bool = True,
    skip_incompatible: bool = False,
    user_metadata: Mapping[str, bytes | str] | None = None,
    keys: KeyProvider | None = None,
    rekey: bool | Mapping[str, str] = False,
    target_keys: KeyProvider | None = None,
    prepare_only: bool = False,
    progress: Progress | None = None,
) -> MergeResult:
    """Join ORC files into one, in the order given, stripe by stripe: nothing is decoded.

    Files go together by the rules of ORC Java: the same schema, compression, versions, writer, row index
    stride and calendar, and no two values of user metadata under one name. For one that does not go with the
    first, `UsageError` is raised, `Unsupported` for one that goes with none (of a later version; encrypted,
    without `keys`); with `skip_incompatible` such files are left out and listed in the result. Files of no
    bytes are always.

    Encrypted files go together where the same columns are encrypted with the same keys. `keys` must have all
    of them, for the statistics. Stripes stay as they are, under the local keys that they have; with `rekey`,
    they are encrypted anew, under one new local key for each column, which the current versions of the master
    keys protect, or of those that a dictionary (old names to new ones) says; an old name that no file has is
    a `UsageError`. `target_keys` is where the new keys are, `keys` unless given.

    `urls` are paths, URLs, or the bytes of files; `target` is a path, a URL that can be written, or an
    `io.BytesIO`. `io_options` tune the reading as those of `open`, `sink_options` (`SinkOptions`) the
    writing. `user_metadata` replaces what the files say under these names. `progress` is called with the
    bytes of stripes that are written and those that will be. `target_storage_options` are
    `storage_options` unless given. The target may be one of `urls`; it appears whole or not at all. With
    `prepare_only` it is complete and invisible: `orcstream.commit` makes it appear, `orcstream.discard`
    leaves nothing of it.

    Raises `KeyUnavailable` for a key that is refused, what `open` raises for a file that cannot be read,
    `SourceChanged` for one that is replaced meanwhile, `FileExistsError` where `overwrite` is False, and
    `SinkError`, `CommitFailed` or `CommitUnknown`.
    """
    options = IoOptions.of(io_options)
    own_metadata = metadata_of(user_metadata or {})
    if target_storage_options is None:
        target_storage_options = storage_options
    rekeying = rekeying_of(keys, rekey, target_keys)
    merger = FileMerger(own_metadata, opens=keys is not None, rename=rekeying.rename)
    run = _Merge(_listed(urls), storage_options, options, merger, rekeying, progress)
    # Files are opened twice, for their tails and for their stripes.
    clients = keep_clients()
    try:
        await run.read_tails(skip_incompatible=skip_incompatible)
        await run.draw_keys()
        of_target: dict[str, Any] = {"storage_options": target_storage_options, "sink_options": sink_options}
        sink = await open_sink(target, overwrite=overwrite, **of_target)
        try:
            await run.copy(sink, one_store=target_storage_options == storage_options)
            prepared = await sink.prepare()
            if not prepare_only:
                await retry_commit(partial(commit, prepared, **of_target))
        except BaseException as error:
            await clean_up(error, sink.abort)
            raise
        await sink.aclose()
        return run.result(sink, prepared if prepare_only else None)
    finally:
        await until_over(clients.aclose())


def _listed(urls: Iterable[Url]) -> list[Url]:
    if isinstance(urls, _URL):
        raise UsageError("merge takes several URLs")
    listed = list(urls)
    for url in listed:
        if not isinstance(url, _URL):
            raise UsageError(f"a URL must be text, a path or bytes, not {type(url).__name__}")
    return listed


class _Merge:
    """One merge: `read_tails`, then `copy`."""

    def __init__(
        self,
        urls: list[Url],
        storage_options: Mapping[str, Any] | None,
        options: IoOptions,
        merger: FileMerger,
        rekeying: Rekeying,
        progress: Progress | None,
    ) -> None:
        self._rekeying = rekeying
        self._new_keys: FileKeys = NO_KEYS
        self._urls = urls
        self._storage_options = storage_options
        self._options = options
        self._merger = merger
        self._progress = progress
        self._inputs: list[_Input] = []
        self._files: list[Url] = []
        self._skipped: list[SkippedFile] = []

    # --- tails -------------------------------------------------------------------------------------

    async def read_tails(self, *, skip_incompatible: bool) -> None:
        """Decide what is merged."""

        async def take(url: Url, read: tuple[UnlockedFile, memoryview]) -> None:
            # Statistics of many columns take long to parse.
            refusal = await run_in_thread(lambda: self._add(url, *read))
            if refusal is None:
                return
            if not skip_incompatible and refusal.reason != EMPTY:
                raise _refused(refusal, _shown(url), self._files)
            self._skipped.append(SkippedFile(url, refusal.reason, refusal.message))

        await _in_order(
            self._urls,
            self._read_tail,
            take,
            lambda url, under_way: len(under_way) < self._cap(url),
            name=_TASKS,
        )
        if self._merger.is_empty:
            reasons = "; ".join(f"{one.shown}: {one.message}" for one in self._skipped[:3])
            raise UsageError(f"there is no file to merge{': ' if reasons else ''}{reasons}")

    def _cap(self, url: Url) -> int:
        return cost_of(url, self._options).request_cap

    async def _open(self, url: Url) -> ByteSource:
        return await open_source(url, storage_options=self._storage_options, io_options=self._options)

    async def _read_tail(self, url: Url) -> tuple[UnlockedFile, memoryview]:
        """What keys opened of a file, and the statistics of its stripes as they lie in it."""
        with located(url=_shown(url)):
            source = await self._open(url)
            try:
                fetcher = Fetcher(source, RetryPolicy.of(self._options))
                tail, _ = await read_tail(fetcher)
                file = await self._rekeying.unlocked(tail)
                if file.held_statistics is not None:
                    return file, memoryview(file.held_statistics)
                (found,) = await fetcher.fetch([file.statistics_range])
                await source.verify()
                return file, found.view(found.range)
            finally:
                await until_over(source.aclose())

    def _add(self, url: Url, file: UnlockedFile, data: memoryview) -> Refusal | None:
        tail = file.stored_tail
        with located(url=_shown(url)):
            refusal = self._merger.refusal(tail)
            if refusal is not None:
                return refusal
            first = self._merger.stripe_count
            clear = file.clear_statistics(data)
            opened = OpenedStatistics(file.tail.footer.statistics, file.opened_statistics(data, clear))
            ranges = self._merger.add(tail, clear, opened)
        self._files.append(url)
        is_renewed = file.encrypted_columns and self._rekeying.renews
        limiter = self._rekeying.limiter if is_renewed else None
        stripes = CopiedStripes(file.for_stripes(self._merger.schema), first, limiter)
        self._inputs.append(_Input(url, tail.file_length, tail.fingerprint, ranges, stripes))
        return None

    async def draw_keys(self) -> None:
        """New local keys, where there are encrypted columns."""
        self._new_keys = await self._rekeying.draw(self._merger.variants)
        if self._new_keys.keys and self._rekeying.renews:
            self._merger.renew(self._new_keys)

    # --- stripes -----------------------------------------------------------------------------------

    async def copy(self, sink: ByteSink, *, one_store: bool) -> None:
        """Write the whole file to the sink; with `one_store` its options reach the files, too."""
        await sink.write(MAGIC)
        total = self._merger.length - len(MAGIC)
        for one in self._inputs if one_store and not self._rekeying.renews else ():
            one.by_store = await _can_copy(sink, one)

        async def take(piece: _Piece, data: memoryview) -> None:
            if not piece.by_store:
                await sink.write(data)
            elif not await sink.copy(str(piece.input.url), piece.range, piece.input.fingerprint):
                raise SinkError("the store does not copy what it said it would", url=sink.url)
            if self._progress is not None:
                self._progress(sink.length - len(MAGIC), total)

        try:
            await _in_order(self._pieces(), self._fetch, take, self._fits, name=_TASKS)
        finally:
            await until_over(self._close_inputs())
        await sink.write(await run_in_thread(lambda: self._merger.ending(self._new_keys)))

    async def _close_inputs(self) -> None:
        for one in self._inputs:
            await one.aclose()

    def _pieces(self) -> Iterator[_Piece]:
        for one in self._inputs:
            part_bytes = min(PIECE_BYTES, cost_of(one.url, self._options).part_bytes)
            pieces: list[_Piece] = []
            for whole in one.ranges:
                if one.by_store and whole.length >= STORE_COPY_BYTES:
                    pieces.append(_Piece(one, whole, by_store=True))
                else:
                    pieces += [_Piece(one, piece) for piece in _cut(whole, part_bytes)]
            one.left_count = len(pieces)
            yield from pieces

    def _fits(self, piece: _Piece, under_way: deque[_Slot[_Piece, memoryview]]) -> bool:
        held = sum(slot.item.held_bytes for slot in under_way)
        return len(under_way) < self._cap(piece.input.url) and held + piece.held_bytes <= IN_FLIGHT_BYTES

    async def _fetch(self, piece: _Piece) -> memoryview:
        one = piece.input
        stripes = one.stripes
        assert stripes is not None, "all of its pieces were copied"
        with located(url=_shown(one.url), file_offset=piece.range.start):
            async with one.opening:
                if one.source is None:
                    one.source = await self._open(one.url)
                    one.source.pin(one.file_length, one.fingerprint)
            fetcher = Fetcher(one.source, RetryPolicy.of(self._options))
            if piece.by_store:
                await stripes.check_in_store(piece.range, fetcher)
                data = memoryview(b"")
            else:
                held = await fetcher.fetch_one(piece.range)
                data = await stripes.copied(held, self._new_keys.local, fetcher)
            one.left_count -= 1
            if one.left_count == 0:
                one.stripes = None
                await one.source.verify()
                await one.aclose()
        return data

    def result(self, sink: ByteSink, prepared: Prepared | None) -> MergeResult:
        return MergeResult(
            url=sink.url,
            files=tuple(self._files),
            skipped=tuple(self._skipped),
            row_count=self._merger.row_count,
            stripe_count=self._merger.stripe_count,
            length=sink.length,
            prepared=prepared,
        )


def _shown(url: Url) -> str:
    if isinstance(url, str | os.PathLike):
        return strip_credentials(os.fspath(url))
    return "<bytes>"


def _refused(refusal: Refusal, url: str, files: list[Url]) -> OrcError:
    advice = "skip_incompatible=True leaves such files out"
    if refusal.is_unsupported:
        return Unsupported(f"{refusal.message}; {advice}", reason=refusal.reason, url=url)
    return UsageError(f"cannot be merged with {_shown(files[0])}: {refusal.message}; {advice}", url=url)


async def _can_copy(sink: ByteSink, one: _Input) -> bool:
    """Whether the sink's store copies from the file by itself, asked by copying nothing."""
    is_worth_it = any(whole.length >= STORE_COPY_BYTES for whole in one.ranges)
    return is_worth_it and isinstance(one.url, str) and await sink.copy(one.url, _NOTHING, one.fingerprint)


def _cut(whole: ByteRange, part_bytes: int) -> Iterator[ByteRange]:
    for start in range(whole.start, whole.stop, part_bytes):
        yield ByteRange(start, min(whole.stop, start + part_bytes))


@dataclass(slots=True, eq=False)
class _Input:
    """A file to copy from; open from its first piece to its last."""

    url: Url
    file_length: int
    fingerprint: str
    ranges: list[ByteRange]
    stripes: CopiedStripes | None
    by_store: bool = False
    left_count: int = 0
    source: ByteSource | None = None
    opening: anyio.Lock = field(default_factory=anyio.Lock)

    async def aclose(self) -> None:
        if self.source is not None:
            await self.source.aclose()


@dataclass(frozen=True, slots=True)
class _Piece:
    """A range to be copied; with `by_store`, by the store of the target."""

    input: _Input
    range: ByteRange
    by_store: bool = False

    @property
    def held_bytes(self) -> int:
        if self.by_store:
            return 0
        stripes = self.input.stripes
        return self.range.length * (1 if stripes is None else stripes.times_held)


class _Slot(Generic[A, B]):
    """One item that is worked on."""

    def __init__(self, item: A) -> None:
        self.item = item
        self._done = anyio.Event()
        self._results: list[B] = []
        self._error: Exception | None = None

    async def run(self, work: Callable[[A], Awaitable[B]]) -> None:
        try:
            self._results.append(await work(self.item))
        except Exception as error:  # noqa: BLE001 - raised where its turn has come
            self._error = error
        self._done.set()

    async def result(self) -> B:
        await self._done.wait()
        if self._error is not None:
            raise self._error
        return self._results.pop()


async def _in_order(
    items: Iterable[A],
    work: Callable[[A], Awaitable[B]],
    take: Callable[[A, B], Awaitable[None]],
    fits: Callable[[A, deque[_Slot[A, B]]], bool],
    *,
    name: str,
) -> None:
    """Work on several items at once, and take the results one after the other in the order of the items.

    `fits` says whether an item may be begun beside those that are not yet taken; one alone always may. The
    first failure, in order, ends everything, and is raised by itself. Nothing is under way any more when this
    is left. Tasks are called `name`.
    """
    under_way: deque[_Slot[A, B]] = deque()
    waiting = iter(items)
    try:
        async with anyio.create_task_group() as tasks:
            following = next(waiting, None)
            while following is not None or under_way:
                while following is not None and (not under_way or fits(following, under_way)):
                    slot: _Slot[A, B] = _Slot(following)
                    under_way.append(slot)
                    tasks.start_soon(slot.run, work, name=name)
                    following = next(waiting, None)
                # It counts for what is under way until it was taken.
                await take(under_way[0].item, await under_way[0].result())
                under_way.popleft()
    except BaseExceptionGroup as group:
        failure = first_failure(group)
        raise failure from failure.__cause__
