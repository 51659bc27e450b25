"""Clients of stores, shared: one for each (running loop, protocol, storage options).

Knows reference counts (a client is closed with its last user), how to compare storage options, and which
certificates a connection trusts. Must not know any store: a client is anything with `aclose`, made by the
caller's factory in the loop that uses it.

Making a client costs up to 100 ms and 13 MB (an S3 client reads its service model), so a thousand opens of
one store share one. A client belongs to the loop it was made in; loops never share. Who opens many objects
one after the other asks for clients to be kept meanwhile (`keep_clients`), used or not.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import anyio

from orcstream.errors import UsageError
from orcstream.io.loop.uncancelled import run_in_thread, until_over

CLOSE_TIMEOUT_S = 5.0
# The name of tasks that close a client, which end by themselves and must not be cancelled with others.
CLOSING = "orcstream client closes"


class Client(Protocol):
    """Anything that holds connections and can be closed."""

    async def aclose(self) -> None: ...


C = TypeVar("C", bound=Client)


@dataclass(slots=True)
class _Entry:
    """One client and its users; `options` keeps alive the objects whose identity is part of the key."""

    options: Mapping[str, Any]
    client: Client | None = None
    user_count: int = 0
    lock: anyio.Lock = field(default_factory=anyio.Lock)


Key = tuple[str, Hashable]


@dataclass(slots=True)
class _Clients:
    """The clients of one loop, and how many ask for them to be kept."""

    entries: dict[Key, _Entry] = field(default_factory=dict)
    keeper_count: int = 0


# Each loop touches its own only.
_clients: dict[asyncio.AbstractEventLoop, _Clients] = {}


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
    clients = _running()
    key = (protocol, canonical_options(options))
    entry = clients.entries.setdefault(key, _Entry(options))
    entry.user_count += 1

    async def give_back() -> None:
        entry.user_count -= 1
        if entry.user_count == 0 and clients.keeper_count == 0:
            await _close(clients, key)

    try:
        async with entry.lock:
            if entry.client is None:
                entry.client = await factory()
    except BaseException:
        await give_back()
        raise
    client: Any = entry.client  # of type C: the key tells the protocols apart
    return Lease(client, give_back)


def keep_clients() -> Lease[Any]:
    """Until this is given back, no client of the running loop is closed with its last user."""
    clients = _running()
    clients.keeper_count += 1

    async def close_idle() -> None:
        while clients.keeper_count == 0:  # one at a time: others may come and go meanwhile
            idle = [key for key, entry in clients.entries.items() if entry.user_count == 0]
            if not idle:
                _forget_empty(clients)
                return
            await _close(clients, idle[0])

    async def give_back() -> None:
        clients.keeper_count -= 1
        await until_over(close_idle(), name=CLOSING)  # all of them, though a wait for one is cancelled

    return Lease[Any](None, give_back)


async def close_clients() -> None:
    """Close every client of the running loop, whoever uses it: the loop is about to end."""
    clients = _running()
    while clients.entries:
        await _close(clients, next(iter(clients.entries)))


def leased_clients() -> int:
    """How many clients the running loop has; 0 when everything was closed."""
    clients = _clients.get(asyncio.get_running_loop())
    return len(clients.entries) if clients else 0


def _running() -> _Clients:
    """The running loop's clients."""
    for other in list(_clients):
        if other.is_closed():  # its clients cannot be closed any more, only forgotten
            _clients.pop(other, None)
    return _clients.setdefault(asyncio.get_running_loop(), _Clients())


async def _close(clients: _Clients, key: Key) -> None:
    entry = clients.entries.pop(key)  # first, so that a newcomer makes a client of its own
    _forget_empty(clients)
    if entry.client is not None:
        # A task of its own: who waits for it may be cancelled again and again.
        await until_over(_aclose(entry.client), name=CLOSING)


async def _aclose(client: Client) -> None:
    with anyio.move_on_after(CLOSE_TIMEOUT_S):
        await client.aclose()


def _forget_empty(clients: _Clients) -> None:
    loop = asyncio.get_running_loop()
    if not clients.entries and not clients.keeper_count and _clients.get(loop) is clients:
        del _clients[loop]


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


async def tls_of(verify: object, option: str, url: str) -> ssl.SSLContext | bool:
    """What aiohttp takes as `ssl`: `verify` is a file of certificates, False for any, or True.

    Raises `UsageError` that names the `option` for a file that cannot be read or holds none.
    """
    if not isinstance(verify, str):
        return verify is not False
    try:
        return await run_in_thread(lambda: ssl.create_default_context(cafile=verify))
    except OSError as error:
        raise UsageError(f"{option}: no certificates in {verify}: {error}", url=url) from error
