"""How a contract reaches a store without the help of what it checks, and what the store can do.

Knows what has to be said of a store. Must not know the checks. What the store cannot do is declared here, as
attributes: a check then holds the store to what is left, or reports that there was nothing to check.

Unless they are overridden, sources and sinks are those that this package opens for the URL: so a file system
of fsspec's, or a server, is described by saying how to put and see files there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from orcstream.io.contract.byte_sink import ByteSink, Leftover, Prepared
from orcstream.io.contract.byte_source import ByteSource
from orcstream.io.loop.clients import leased_clients
from orcstream.io.sink import cleanup, commit, discard, open_sink
from orcstream.io.urls import open_source

__all__ = ["AWKWARD_NAMES", "Described", "SinkStore", "SourceStore"]

AWKWARD_NAMES = (
    "plain.orc",
    "a b.orc",
    "a%20b.orc",
    "a+b.orc",
    "a#b.orc",
    "50%.orc",
    "what?.orc",
    "k=v&w;x.orc",
    "[a]{b}'c',d~e!.orc",
    "Größe-данные-数据-😀.orc",
)
"""Names that mean something else in URLs, queries, forms or patterns; some differ by an escape alone."""


class Described(ABC):
    """What both descriptions say."""

    storage_options: Mapping[str, Any] | None = None
    """Given to the sources and sinks that this package opens."""
    names: Sequence[str] = AWKWARD_NAMES
    """Names that files may have here; leave out those that the store does not allow."""
    dense_turns: int = 25
    """So many turns of the event loop are tried one by one for cancellations; fewer are quicker."""

    @abstractmethod
    def url_of(self, name: str) -> str:
        """What is opened for the file of this name."""

    @abstractmethod
    async def put(self, name: str, data: bytes) -> None:
        """Make a file `name` of `data` visible, or replace the one that is there."""

    def held(self) -> list[str]:
        """What is open now: connections, descriptors, sessions; in words, in any fixed order."""
        count = leased_clients()
        return [f"{count} clients of stores"] if count else []

    async def aclose(self) -> None:  # noqa: B027 - most hold nothing
        """Give back what the description holds; called by `run_contract` after each check."""


class SourceStore(Described):
    """A store to read from; derive from it and say how files come there.

    What it says besides the methods:

    - `replaced`: what a source does when its file is replaced. ``"noticed"``: `SourceChanged`, by `fetch` or
      by `verify`. ``"length"``: only if the length is another one, since the store has no fingerprints.
      ``"kept"``: what is handed out stays that of the version that was opened.
    - `answers_in_pieces`: whether `fetch` tells `on_bytes` of a file of `long_bytes` before it ends.
    - `long_bytes`: how long the longest file is that the checks put.
    """

    replaced: Literal["noticed", "length", "kept"] = "noticed"
    answers_in_pieces: bool = False
    long_bytes: int = 3 << 20

    async def open(self, url: str) -> ByteSource:
        """The source that is checked; by default the one that `orcstream.open` would read from."""
        return await open_source(url, storage_options=self.storage_options, io_options=None)

    async def remove(self, name: str) -> bool:  # noqa: ARG002 - for who can
        """Remove a file; False where that cannot be done."""
        return False

    async def forbid(self, name: str) -> bool:  # noqa: ARG002 - for who can
        """Take away the right to read a file that is there; False where nobody can be kept from reading."""
        return False

    async def cut_answers(self, missing: int) -> bool:  # noqa: ARG002 - for who can
        """From now on, let answers end so many bytes early; False where the store cannot be made to."""
        return False


class SinkStore(Described):
    """A store to write to; derive from it and say how it looks from outside.

    What it says besides the methods:

    - `part_bytes`: how many bytes the sink collects before it sends them.
    - `commits_at_once`: whether a commit swaps files in one step; else a look during one may see half a file.
    - `commits_elsewhere`: whether what was prepared may be pickled and committed from another event loop.
    - `tells_age`: whether the store knows when something was left behind.
    - `sink_options`: given to the sinks that this package opens.
    """

    part_bytes: int = 1000
    commits_at_once: bool = True
    commits_elsewhere: bool = True
    tells_age: bool = True
    sink_options: Mapping[str, Any] | None = None

    @abstractmethod
    async def seen(self, name: str) -> bytes | None:
        """What everybody sees under a name; None where there is nothing."""

    @abstractmethod
    async def left(self) -> list[str]:
        """What lies in the store besides visible files: temporaries, unfinished uploads; in words."""

    async def open(self, url: str, *, overwrite: bool = True) -> ByteSink:
        """The sink that is checked; by default the one that `orcstream.create` would write to."""
        return await open_sink(
            url, storage_options=self.storage_options, sink_options=self._tuned(), overwrite=overwrite
        )

    async def commit(self, prepared: Prepared) -> None:
        """Make visible what one of the sinks prepared."""
        await commit(prepared, storage_options=self.storage_options, sink_options=self._tuned())

    async def discard(self, prepared: Prepared) -> None:
        """Leave nothing of what one of the sinks prepared."""
        await discard(prepared, storage_options=self.storage_options, sink_options=self._tuned())

    async def cleanup(self, url: str, *, older_than_s: float, remove: bool = True) -> list[Leftover] | None:
        """Find what killed writers left for `url`, and `remove` it; None where nothing can find it.

        Only what is older than `older_than_s` seconds, as by `orcstream.cleanup`.
        """
        return await cleanup(
            url, older_than_s=older_than_s, remove=remove, storage_options=self.storage_options
        )

    async def forbid(self, name: str) -> bool:  # noqa: ARG002 - for who can
        """Take away the right to write under a name; False where nobody can be kept from writing."""
        return False

    def _tuned(self) -> dict[str, Any]:
        quick = {"part_bytes": self.part_bytes, "retries": 1, "abort_timeout_s": 20.0}
        return {**quick, **(self.sink_options or {})}
