"""How files are opened in Spark's processes: stores, keys, zones, and clients that outlive a task.

Knows that every process opens for itself, from values that can be pickled. Must not know what is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from orcstream.blocking.loop import the_loop
from orcstream.encryption import KeyProvider
from orcstream.errors import UsageError
from orcstream.io.loop.clients import Client, Lease, keep_clients
from orcstream.io.loop.system import in_forked_children

if TYPE_CHECKING:
    from orcstream.spark.options import Options

T = TypeVar("T")

_kept: list[asyncio.Task[None]] = []  # what keeps the clients of this process's loop
_keys: dict[str, KeyProvider] = {}


@dataclass(frozen=True)
class Access:
    """What opening a file takes besides its URL. Values only: it goes to every executor."""

    # Both may hold secrets, which nobody is shown by chance.
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    keys: str | None = field(default=None, repr=False)
    require_keys: tuple[str, ...] | bool = False

    @classmethod
    def of(cls, options: Options) -> Access:
        """Takes `storage_options` (JSON), `storage.*`, `keys` and `require_keys`."""
        given = options.json("storage_options")
        if given is not None and not isinstance(given, dict):
            raise UsageError("option storage_options is a JSON object")
        storage = {**(given or {}), **options.below("storage")}
        return cls(storage, options.text("keys"), _required(options))

    async def key_provider(self) -> KeyProvider | None:
        """The key store. A connection to one is kept by the process; a file of keys is read each time.

        Spark uses the processes of its tasks for many queries, and a file may get other keys meanwhile.
        """
        if self.keys is None:
            return None
        if self.keys in _keys:
            return _keys[self.keys]
        from orcstream.io.keys.memory import InMemoryKeyProvider
        from orcstream.io.keys.open import open_keys

        found = await open_keys(self.keys)
        if not isinstance(found, InMemoryKeyProvider):
            _keys[self.keys] = found
        return found

    async def open_options(self) -> dict[str, Any]:
        """What `orcstream.open` and `open_many` take."""
        return {
            "storage_options": dict(self.storage_options),
            "keys": await self.key_provider(),
            "require_keys": self.require_keys,
        }


def _required(options: Options) -> tuple[str, ...] | bool:
    text = options.text("require_keys")
    if text is not None and text.lower() in ("true", "false"):
        return text.lower() == "true"
    return tuple(options.names("require_keys") or ())


def run(work: Callable[[], Awaitable[T]]) -> T:
    """What a coroutine answers, on the loop of this process. Its clients stay for later tasks."""

    async def kept() -> T:
        if not _kept:
            _kept.append(asyncio.create_task(_keep(keep_clients()), name="orcstream clients of Spark"))
        return await work()

    return the_loop().run(kept)


async def _keep(clients: Lease[Client]) -> None:
    """Hold them as long as the loop lasts, which cancels this at its end."""
    try:
        await asyncio.Event().wait()
    finally:
        await clients.aclose()


def _forget() -> None:
    # They are of the parent's loop.
    _kept.clear()
    _keys.clear()


in_forked_children(_forget)
