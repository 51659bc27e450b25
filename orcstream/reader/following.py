"""Following a file that grows: when it is looked at again, and what it says then.

Knows the time between two looks, and tails. Must not know streams. One look at a time: others wait for it.
A look that fails or is cancelled changes nothing and may be repeated.
"""

from __future__ import annotations

import anyio

from orcstream.byterange import RangeBuffer
from orcstream.errors import SourceChanged, UsageError
from orcstream.file.unlocking import read_tail
from orcstream.io.growing_source import GrowingSource
from orcstream.plan.tail import Tail
from orcstream.reader.engine.session import Session


class Following:
    """`seen` is the tail that was seen last, with its bytes; there is none before `first`."""

    def __init__(self, session: Session, source: GrowingSource, poll_s: float) -> None:
        self._session = session
        self._source = source
        self._poll_s = poll_s
        self._lock = anyio.Lock()
        self._seen_version = 0
        self._seen: tuple[Tail, RangeBuffer] | None = None

    @property
    def seen(self) -> tuple[Tail, RangeBuffer]:
        assert self._seen is not None
        return self._seen

    @property
    def is_complete(self) -> bool:
        """Whether nothing will be added any more, and all that there is was seen."""
        return self._source.is_complete and self._source.version == self._seen_version

    async def first(self) -> None:
        """Wait until there is something to be read."""
        while self._seen is None:
            await self.look()
            if self._seen is None:
                await self._pause()

    async def look(self) -> None:
        """See how far the file goes now."""
        async with self._lock:
            if self._session.is_closed:
                raise UsageError("the file was closed while it was read", url=self._source.url)
            await self._source.refresh()
            version = self._source.version
            if version == self._seen_version:
                return
            seen = await read_tail(self._session)
            if self._seen is not None:
                _check_same(self._seen[0], seen[0], self._source.url)
            self._seen, self._seen_version = seen, version

    async def beyond(self, row: int) -> bool:
        """Wait until there are more rows than `row`; false when the file is complete without."""
        while True:
            await self.look()
            if self.seen[0].footer.row_count > row:
                return True
            if self.is_complete:
                return False
            await self._pause()

    async def _pause(self) -> None:
        """Until it is time to look again, or the file was closed, which the next look tells."""
        with anyio.move_on_after(self._poll_s):
            await self._session.closing.wait()


def _check_same(earlier: Tail, tail: Tail, url: str) -> None:
    """A file that grows keeps its schema and its stripes."""
    before, now = earlier.footer, tail.footer
    if now.schema != before.schema or now.stripes[: len(before.stripes)] != before.stripes:
        raise SourceChanged("another file has taken the place of the one that was followed", url=url)
