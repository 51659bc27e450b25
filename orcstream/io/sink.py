"""Writes to a URL, commits what was prepared, cleans up after killed writers.

Must not know how any store works, nor what the bytes mean.
"""

from __future__ import annotations

import io
import os
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio

from orcstream._keywords import check_seconds
from orcstream.errors import CommitFailed, OrcError, SinkError, SourceError, Unsupported, UsageError
from orcstream.io.contract.byte_sink import ByteSink, Leftover, Prepared, SinkOptions, Store, policy_of
from orcstream.io.loop.tasks import need_asyncio
from orcstream.io.loop.uncancelled import until_over
from orcstream.io.request.part_sink import PartSink, abort_policy_of, left_behind, sink_error
from orcstream.io.urls import READ_ONLY, StoreUrl

BUFFER_URL = "<buffer>"
_KINDS = "text, a path or a buffer"


async def open_sink(
    url: str | os.PathLike[str] | io.BytesIO,
    *,
    storage_options: Mapping[str, Any] | None = None,
    sink_options: SinkOptions | Mapping[str, Any] | None = None,
    overwrite: bool = True,
) -> ByteSink:
    """A sink for a path, any URL that fsspec can write to, or a buffer, which `commit` writes to.

    Nothing is sent yet: the first full part, or `prepare`, begins. With ``overwrite=False`` the commit raises
    `FileExistsError` where there is a file already.
    """
    options = SinkOptions.of(sink_options)
    if isinstance(url, io.BytesIO):
        need_asyncio()
        from orcstream.io.stores.memory.sink import BufferStore

        return PartSink(BUFFER_URL, BufferStore(url), options, overwrite=overwrite)
    target = StoreUrl.of(url, storage_options, kinds=_KINDS)
    store = await _open_store(target)
    try:
        return PartSink(target.url, store, options, overwrite=overwrite)
    except BaseException:
        await until_over(store.aclose())
        raise


async def commit(
    prepared: Prepared,
    *,
    storage_options: Mapping[str, Any] | None = None,
    sink_options: SinkOptions | Mapping[str, Any] | None = None,
) -> None:
    """Make a prepared file visible, whole and at once.

    May be called again with the same `prepared`: then it finds out what became of it. `FileExistsError` where
    it must not overwrite; `CommitFailed` if it was refused and nothing appeared; `CommitUnknown` if the
    answer was lost and could not be found out either. A commit that was cancelled may have happened.
    `storage_options` and `sink_options` are those of `create`: neither is in `prepared`.

    Raises `FileExistsError`, `CommitFailed`, `CommitUnknown`, `SinkError`, `PermissionError`.
    """
    options = SinkOptions.of(sink_options)
    try:
        async with _opened(_store_of(prepared, storage_options)) as store:
            await store.commit(prepared, options)
    except SourceError as error:
        raise CommitFailed(error.message, url=error.url or prepared.shown) from error


async def discard(
    prepared: Prepared,
    *,
    storage_options: Mapping[str, Any] | None = None,
    sink_options: SinkOptions | Mapping[str, Any] | None = None,
) -> None:
    """Leave nothing of a prepared file; what was committed already stays. May be called again.

    Not cancelled, and bounded by `abort_timeout_s`. `prepared` and the options are those of `commit`:
    `storage_options`, `sink_options`. Raises `SinkError` where the store would not let go.
    """
    options = SinkOptions.of(sink_options)
    policy = abort_policy_of(options, policy_of(options))

    async def bounded() -> None:
        with anyio.fail_after(options.abort_timeout_s):
            async with _opened(_store_of(prepared, storage_options)) as store:
                await policy.run(lambda: store.discard(prepared), url=prepared.shown)

    try:
        await until_over(bounded())
    except (OrcError, OSError) as error:
        if isinstance(error, UsageError | Unsupported):
            raise
        reason = str(error) or f"no end within {options.abort_timeout_s:g} s"
        raise SinkError(
            f"the file cannot be discarded ({reason}). {left_behind(prepared.state.remains)}",
            url=prepared.shown,
        ) from error


async def cleanup(
    url: str | os.PathLike[str],
    *,
    older_than_s: float,
    containing: str = "",
    remove: bool = True,
    storage_options: Mapping[str, Any] | None = None,
) -> list[Leftover]:
    """Remove what killed writers left for `url`, or below it as a folder; answers what it was.

    Only what is older than `older_than_s` seconds, by the store's clock and ours: a writer that is still at
    work must not lose its parts. On S3 these are all unfinished uploads, whichever program began them. Only
    those that have the text `containing` in their paths are meant. Without `remove` nothing is touched.
    `storage_options` are those of `open`.

    Raises `FileNotFoundError` (no such bucket), `PermissionError`, `SinkError`, `Unsupported`, `UsageError`.
    """
    target = StoreUrl.of(url, storage_options, kinds=_KINDS)
    check_seconds("older_than_s", older_than_s, may_be_0=True)
    async with _opened(_open_store(target)) as store:
        try:
            return await policy_of(SinkOptions()).run(
                lambda: store.cleanup(older_than_s, containing=containing, remove=remove), url=target.shown
            )
        except SourceError as error:
            raise sink_error(error, target.shown) from error


@asynccontextmanager
async def _opened(store: Awaitable[Store]) -> AsyncIterator[Store]:
    opened = await store
    try:
        yield opened
    finally:
        await until_over(opened.aclose())


async def _store_of(prepared: Prepared, storage_options: Mapping[str, Any] | None) -> Store:
    if prepared.url == BUFFER_URL:
        from orcstream.io.stores.memory.sink import BufferStore

        return BufferStore()
    return await _open_store(StoreUrl.of(prepared.url, storage_options))


async def _open_store(target: StoreUrl) -> Store:
    need_asyncio()
    if target.kind in READ_ONLY:
        raise Unsupported(
            "nothing can be written there; name the store itself", reason="read_only_store", url=target.shown
        )
    try:
        store: Store = await target.open("sink")
    except SourceError as error:
        raise SinkError(error.message, url=target.shown) from error
    return store
