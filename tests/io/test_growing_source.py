"""Sources of files that grow, cancelled while they close what they have opened."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from orcstream.byterange import ByteRange, CostModel
from orcstream.io.contract.byte_source import RetryPolicy
from orcstream.io.growing_source import GrowingSource
from orcstream.io.stores.memory.source import BytesSource
from tests.support.recording import WrappedSource

COST = CostModel.memory()


class SlowToClose(WrappedSource):
    """Is closed after several turns of the loop."""

    def __init__(self, data: bytes) -> None:
        super().__init__(BytesSource(data, COST))
        self.is_closed = False

    async def aclose(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        self.is_closed = True


class Opener:
    """A file of 8 bytes, and the lengths that its writer keeps."""

    def __init__(self) -> None:
        self.opened: list[SlowToClose] = []
        self.valid_bytes = 4
        self.source = GrowingSource(
            "x", COST, self.open_file, self.open_lengths, RetryPolicy(retries=0, timeout_s=60)
        )

    async def open_file(self) -> SlowToClose:
        return self._open(b"01234567")

    async def open_lengths(self) -> SlowToClose:
        return self._open(self.valid_bytes.to_bytes(8, "big"))

    def _open(self, data: bytes) -> SlowToClose:
        self.opened.append(SlowToClose(data))
        return self.opened[-1]


async def cancel_at_every_turn(call: Coroutine[Any, Any, object], first: int) -> None:
    """Cancel twice, the first time after so many turns."""
    task = asyncio.create_task(call)
    for _ in range(first):
        await asyncio.sleep(0)
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
    await asyncio.wait([task])


async def test_a_refresh_that_is_cancelled_closes_what_it_opened() -> None:
    for turns in range(40):
        opener = Opener()
        await opener.source.refresh()
        opener.valid_bytes = 8
        await cancel_at_every_turn(opener.source.refresh(), turns)
        await opener.source.aclose()
        assert all(one.is_closed for one in opener.opened), turns


async def test_closing_is_finished_however_often_it_is_cancelled() -> None:
    for turns in range(8):
        opener = Opener()
        await opener.source.refresh()
        assert bytes(await opener.source.fetch(ByteRange(0, 4))) == b"0123"
        await cancel_at_every_turn(opener.source.aclose(), max(1, turns))
        assert all(one.is_closed for one in opener.opened), turns
