"""Clients of stores, shared: one for each (running loop, protocol, storage options).

Knows reference counts (a client is closed with its last user) and how to compare storage options. Must not
know any store: a client is anything with `aclose`, made by the caller's factory in the loop that uses it.

Making a client costs up to 100 ms and 13 MB (an S3 client reads its service model), so a thousand opens of
one store share one. A client belongs to the loop it was made in; loops never share.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Any, Generic, Protocol, TypeVar

import anyio

__all__ = ["Client", "Lease", "canonical_options", "lease_client", "leased_clients"]

CLOSE_TIMEOUT_S = 5.0


class Client(Protocol):
    """Anything that holds connections and can be closed."""

    async def aclose(self) -> None: ...


C = TypeVar("C", bound=Client)


class _Entry:
    """One client and its users; `options` keeps alive the objects whose identity is part of the key."""

    __slots__ = ("client", "lock", "options", "user_count")

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.client: Client | None = None
        self.lock = anyio.Lock()
        self.options = options
        self.user_count = 0


Key = tuple[str, Hashable]
# By loop. Each loop touches its own inner dictionary only.
_clients: dict[asyncio.AbstractEventLoop, dict[Key, _Entry]] = {}


class Lease(Generic[C]):
    """A user's share of a client; `aclose` gives it back, and may be called again."""

    def __init__(self, client: C, give_back: Callable[[], Awaitable[None]]) -> None:
        self.client = client
        self._give_back: Callable[[], Awaitable[None]] | None = give_back

    async def aclose(self) -> None:
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            await give_back()


async def lease_client(
    protocol: str, options: Mapping[str, Any], factory: Callable[[], Awaitable[C]]
) -> Lease[C]:
    """A share of the running loop's client for `protocol` and `options`, made by `factory` if there is none.

    Of concurrent first users one makes the client and the others wait; should making it fail or be
    cancelled, the next in line tries for itself.
    """
    loop = asyncio.get_running_loop()
    for other in list(_clients):
        if other.is_closed():  # its clients cannot be closed any more, only forgotten
            _clients.pop(other, None)
    key = (protocol, canonical_options(options))
    entries = _clients.setdefault(loop, {})
    entry = entries.setdefault(key, _Entry(options))
    entry.user_count += 1

    async def give_back() -> None:
        entry.user_count -= 1
        if entry.user_count:
            return
        del entries[key]  # first, so that a newcomer makes a client of its own
        if not entries and _clients.get(loop) is entries:
            del _clients[loop]
        if entry.client is not None:
            with anyio.move_on_after(CLOSE_TIMEOUT_S, shield=True):
                await entry.client.aclose()

    try:
        async with entry.lock:
            if entry.client is None:
                entry.client = await factory()
    except BaseException:
        await give_back()
        raise
    client: Any = entry.client  # of type C: the key tells the protocols apart
    return Lease(client, give_back)


def leased_clients() -> int:
    """How many clients the running loop has; 0 when everything was closed."""
    return len(_clients.get(asyncio.get_running_loop(), {}))


def canonical_options(value: object) -> Hashable:
    """A key that is equal for equal options. Foreign objects count by identity, 1 and True are not equal."""
    if isinstance(value, Mapping):
        items = [(str(name), canonical_options(item)) for name, item in value.items()]
        return ("dict", tuple(sorted(items, key=lambda item: item[0])))
    if isinstance(value, list | tuple):
        return ("list", tuple(canonical_options(item) for item in value))
    if value is None or isinstance(value, str | bytes | int | float | bool):
        return (type(value).__name__, value)
    return ("object", id(value))
