"""The files of a data set, as they are opened and given back.

Knows which one of them stays open. Must not know the data set: what is being read may outlive it.
"""

from __future__ import annotations

from collections.abc import Sequence

from orcstream.datasets.listing import FoundFile
from orcstream.io.source import cost_of
from orcstream.reader.file import OrcFile
from orcstream.reader.many import FileStream, open_each
from orcstream.reader.opening import Opening, OpenOptions

# Files that are open at once, at least and at most; between them, as many as requests are good for the store.
_LEAST_OPEN = 4
_MOST_OPEN = 32


class OpenFiles:
    """Opens files; `kept` is one that is open and stays so, with its URL, until `aclose`."""

    def __init__(self, options: OpenOptions, kept: tuple[str, OrcFile] | None) -> None:
        self._options = options
        self._kept = kept

    async def open(self, file: FoundFile) -> OrcFile:
        """An open file, to be given back to `close`."""
        if self._kept is not None and self._kept[0] == file.url:
            return self._kept[1]
        return await Opening(file.url, self._options, None)

    async def close(self, file: OrcFile) -> None:
        if self._kept is None or file is not self._kept[1]:
            await file.aclose()

    def each(self, files: Sequence[FoundFile]) -> FileStream:
        """All of them, in their order, opened side by side; whoever takes one closes it."""
        known = {} if self._kept is None else {self._kept[0]: self._kept[1].tail}
        return open_each([file.url for file in files], self._options, known)

    def at_once(self, file: FoundFile) -> int:
        """How many may be open at a time, in the store of this one."""
        return max(_LEAST_OPEN, min(cost_of(file.url, self._options.io).request_cap, _MOST_OPEN))

    async def aclose(self) -> None:
        if self._kept is not None:
            await self._kept[1].aclose()

    def forget(self) -> None:
        """Nobody will close them: the one that is open is stopped when nobody reads from it any more."""
        self._kept = None
