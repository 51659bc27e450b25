"""What a writer writes to, and how that ends: a file that appears whole, or one that is read as it grows.

Knows sinks and their ends. Must not know rows, stripes or footers. An outlet is for one task at a time, and
only `abort` is left after a failure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from orcstream.byterange import BytesLike
from orcstream.errors import Unsupported, UsageError
from orcstream.io.append_sink import AppendSink
from orcstream.io.contract.byte_sink import ByteSink, Prepared, SinkOptions
from orcstream.io.loop.uncancelled import until_over
from orcstream.io.sink import commit, discard


class Outlet(Protocol):
    """Where the bytes of one file go."""

    @property
    def url(self) -> str: ...

    @property
    def held_bytes(self) -> int:
        """Memory taken by bytes on their way."""

    @property
    def grows(self) -> bool:
        """Whether `flush` shows what was written."""

    async def write(self, data: BytesLike) -> None: ...

    async def flush(self) -> None:
        """What was written is durable and may be read."""

    async def prepare(self) -> Prepared:
        """All bytes are there; make them durable without showing them."""

    async def commit(self) -> None:
        """All bytes are there; make them the file."""

    async def abort(self) -> None:
        """Leave nothing but what readers may have seen."""

    async def aclose(self) -> None:
        """Give back what is held; leaves what was prepared."""


class _ToSink:
    """What outlets leave to their sink."""

    def __init__(self, sink: ByteSink | AppendSink) -> None:
        self._target = sink

    @property
    def url(self) -> str:
        return self._target.url

    @property
    def held_bytes(self) -> int:
        return self._target.held_bytes

    async def write(self, data: BytesLike) -> None:
        await self._target.write(data)

    async def aclose(self) -> None:
        await self._target.aclose()


class WholeFile(_ToSink):
    """A file that appears at the commit."""

    grows = False

    def __init__(
        self, sink: ByteSink, storage_options: Mapping[str, Any] | None, sink_options: SinkOptions
    ) -> None:
        super().__init__(sink)
        self._sink = sink
        self._options: dict[str, Any] = {"storage_options": storage_options, "sink_options": sink_options}
        self._prepared: Prepared | None = None

    async def flush(self) -> None:
        raise UsageError("this file appears at the commit; one made with growing=True can be flushed")

    async def prepare(self) -> Prepared:
        if self._prepared is None:
            self._prepared = await self._sink.prepare()
        return self._prepared

    async def commit(self) -> None:
        await commit(await self.prepare(), **self._options)
        await self._sink.aclose()

    async def abort(self) -> None:
        if self._prepared is None:
            await self._sink.abort()
        else:
            await self._sink.aclose()
            await discard(self._prepared, **self._options)


class GrowingFile(_ToSink):
    """A file that is visible from the start, and may be read up to its last flush."""

    grows = True

    def __init__(self, sink: AppendSink) -> None:
        super().__init__(sink)
        self._sink = sink

    async def flush(self) -> None:
        await self._sink.flush()

    async def prepare(self) -> Prepared:
        raise Unsupported("a growing file is visible: it cannot be committed elsewhere", reason="growing")

    async def commit(self) -> None:
        await self._sink.finish()

    async def abort(self) -> None:
        await until_over(self._sink.cut())
