"""Growing files on HDFS: appends, each of which closes the file again.

Knows in which order calls may be made. An append whose answer was lost may have added any beginning of its
bytes, or may do so later; so it is not sent again, and the file stays as after a kill: to be read up to its
last length.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import anyio
import anyio.lowlevel

from orcstream.errors import SinkError, SourceError
from orcstream.io.contract.append_file import FLUSH_LENGTH, LENGTH_BYTES, NO_LENGTH
from orcstream.io.contract.byte_sink import SinkOptions, policy_of
from orcstream.io.contract.byte_source import Transient
from orcstream.io.loop.uncancelled import until_over
from orcstream.io.request.part_sink import sink_error
from orcstream.io.stores.hdfs.source import OpenedHdfs, open_hdfs
from orcstream.io.urls import StoreUrl

CLOSED_POLL_S = 0.25


class GrowingHdfsFile:
    """One growing file and its lengths; see `io.contract.append_file`."""

    def __init__(self, opened: OpenedHdfs, url: str, options: SinkOptions) -> None:
        self._hdfs, self._lease, self._path = opened.hdfs, opened.lease, opened.path
        self._lengths_path = opened.path + FLUSH_LENGTH
        self._url = url
        self._create_timeout_s = min(options.timeout_s, options.abort_timeout_s)
        self._abort_timeout_s = options.abort_timeout_s
        self._policy = policy_of(options)
        self.gathered_bytes = options.part_bytes
        self._flushed_bytes = -1
        self._is_made = False
        self._is_in_doubt = False

    async def begin(self) -> None:
        """Make both files; `FileExistsError` where there is one of the name."""
        # What is created after its writer gave up would stay: creations are waited for, and then undone.
        try:
            await until_over(self._make())
            await anyio.lowlevel.checkpoint_if_cancelled()  # a scope's cancellation is not raised before
        except asyncio.CancelledError:
            if self._is_made:
                with suppress(SinkError):
                    await until_over(self.cut())
            raise

    async def _make(self) -> None:
        is_ours = False
        try:
            with anyio.fail_after(self._create_timeout_s):
                # Alone, as the one that made the file, before the lengths are touched.
                await self._hdfs.create(self._path)
                is_ours = True
                await self._begin_lengths()
            self._is_made = True
        except BaseException as error:
            if is_ours:
                with suppress(SinkError):
                    await until_over(self.cut())
            if isinstance(error, SourceError | TimeoutError):
                raise sink_error(error, self._url) from error
            raise

    async def _begin_lengths(self) -> None:
        try:
            is_whole = (await self._hdfs.status(self._lengths_path)).length % LENGTH_BYTES == 0
        except FileNotFoundError:
            is_whole = False
        if not is_whole:
            await self._hdfs.create(self._lengths_path, overwrite=True)
        await self._hdfs.append(self._lengths_path, NO_LENGTH)

    async def append(self, data: bytes, offset: int) -> None:  # noqa: ARG002 - of the contract
        await self._append(self._path, data)

    async def flush(self, length: int) -> None:
        try:
            found = (await self._policy.run(lambda: self._hdfs.status(self._path), url=self._url)).length
        except SourceError as error:
            raise sink_error(error, self._url) from error
        if found != length:
            self._is_in_doubt = True  # somebody else writes to it
            raise SinkError(f"{length} bytes were written, the file has {found}", url=self._url)
        await self._append(self._lengths_path, length.to_bytes(LENGTH_BYTES, "big"))
        self._flushed_bytes = length

    async def finish(self) -> None:
        try:
            await self._policy.run(lambda: self._hdfs.delete(self._lengths_path), url=self._url)
        except SourceError as error:
            raise sink_error(error, self._url) from error

    async def cut(self) -> None:
        if self._is_in_doubt:
            raise SinkError(
                "an append was not answered: the file and its lengths are left as they are, to be followed "
                "up to the last flush",
                url=self._url,
            )
        try:
            with anyio.fail_after(self._abort_timeout_s):
                if self._flushed_bytes < 0:
                    await self._policy.run(lambda: self._hdfs.delete(self._path), url=self._url)
                else:
                    await self._policy.run(self._truncate, url=self._url)
                    await self._wait_closed()
                await self.finish()
        except (SourceError, TimeoutError) as error:
            raise sink_error(error, self._url) from error

    async def aclose(self) -> None:
        await self._lease.aclose()

    async def _append(self, path: str, data: bytes) -> None:
        self._is_in_doubt = True
        try:
            with anyio.fail_after(self._policy.limit_s(len(data))):
                await self._hdfs.append(path, data)
        except (SourceError, TimeoutError) as error:
            raise sink_error(error, self._url) from error
        self._is_in_doubt = False

    async def _truncate(self) -> None:
        if (await self._hdfs.status(self._path)).length == self._flushed_bytes:
            return
        await self._hdfs.truncate(self._path, self._flushed_bytes)

    async def _wait_closed(self) -> None:
        """Until the last block has its new length, which takes seconds, nobody can append."""
        while True:
            try:
                await self._hdfs.append(self._path, b"")
            except Transient:
                await anyio.sleep(CLOSED_POLL_S)
            else:
                return


async def open_target(target: StoreUrl, options: SinkOptions) -> GrowingHdfsFile:
    return GrowingHdfsFile(await open_hdfs(target), target.shown, options)
