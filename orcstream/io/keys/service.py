"""What key stores behind a network have in common: clients, attempts, and what they may be asked.

Knows that a client belongs to an event loop, and that calls are tried again. Must not know any store.

A provider may be used from one loop after another, and from several: each has a client of its own, shared
with other providers of the same options, which stays until `aclose` is called in that loop. A loop that is
closed takes its client with it.
"""

from __future__ import annotations

import asyncio
import importlib
import os
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from types import ModuleType
from typing import Any, ClassVar, Generic, TypeVar

from orcstream._credentials import strip_credentials
from orcstream.encryption import EncryptionAlgorithm, EncryptionKey, KeyProvider, LocalKey
from orcstream.errors import KeyUnavailable, SourceError, Unsupported, UsageError
from orcstream.io.contract.byte_source import IoOptions, RetryPolicy
from orcstream.io.loop.clients import Client, Lease, lease_client
from orcstream.io.loop.tasks import Closable
from orcstream.io.loop.uncancelled import run_in_thread

C = TypeVar("C", bound=Client)
T = TypeVar("T")


class ServiceClient:
    """A library's client with the modules of its errors; `closing` closes what it holds."""

    def __init__(self, calls: Any, *errors: Any) -> None:
        self.calls = calls
        self.errors = errors
        self.closing = AsyncExitStack()

    async def aclose(self) -> None:
        await self.closing.aclose()


class KeyService(Closable, KeyProvider, Generic[C]):
    """A key store that is asked through a client of type `C`.

    `shown` is the store as errors name it, without credentials. A failed call is made again up to `retries`
    times; each may take `timeout_s` seconds.
    """

    _service: ClassVar[str]  # whose answers these are, for errors

    def __init__(self, shown: str, identity: Mapping[str, Any], *, timeout_s: float, retries: int) -> None:
        self.url = shown
        self._identity = {**identity, "timeout_s": timeout_s}
        try:
            self._policy = RetryPolicy.of(IoOptions(timeout_s=timeout_s, retries=retries))
        except UsageError as error:
            raise UsageError(error.message.removeprefix("io_options: "), url=shown) from None
        self._kept: dict[asyncio.AbstractEventLoop, Lease[C]] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.url}>"

    async def aclose(self) -> None:
        """Give back the running loop's connections; may be called again, and the provider used again."""
        lease = self._kept.pop(asyncio.get_running_loop(), None)
        if lease is not None:
            await lease.aclose()

    @abstractmethod
    async def _connect(self) -> C:
        """A client for the running loop."""

    async def _call(self, attempt: Callable[[C], Awaitable[T]]) -> T:
        """The answer of the store. `attempt` raises `Transient` where another one may help."""
        async with self._client() as client:
            return await self._policy.run(lambda: attempt(client), url=self.url)

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[C]:
        """The running loop's client, which stays open at least as long as this block."""
        loop = asyncio.get_running_loop()
        for other in list(self._kept):
            if other.is_closed():
                self._kept.pop(other, None)
        protocol = type(self).__name__
        if loop not in self._kept:
            lease = await lease_client(protocol, self._identity, self._connect)
            if self._kept.setdefault(loop, lease) is not lease:
                await lease.aclose()
        share = await lease_client(protocol, self._identity, self._connect)
        try:
            yield share.client
        finally:
            await share.aclose()

    def _named(self, name: str) -> str:
        """`name`, if it can be the name of a key at all."""
        try:
            name.encode()
        except UnicodeEncodeError:
            name = ""
        if not name:
            raise self._refused("a key has a name, which is text")
        return name

    def _of_length(self, key: EncryptionKey, encrypted: bytes, plain: object) -> LocalKey:
        """The local key, if it has the length that it must have."""
        if not isinstance(plain, bytes) or len(plain) != key.algorithm.key_bytes:
            raise self._refused(f"what the key {key.name!r} decrypts is no local key of {key.algorithm.name}")
        return LocalKey(encrypted, plain)

    def _refused(self, why: str) -> KeyUnavailable:
        return KeyUnavailable(why, url=self.url)

    def _senseless(self, what: object) -> SourceError:
        return SourceError(f"not an answer of {self._service}: {what}", url=self.url)


def shown_place(place: str) -> str:
    """The name of a key store as errors show it, without options and credentials."""
    return strip_credentials(place.partition("?")[0])


def new_local_key(key: EncryptionKey) -> bytes:
    """Bytes drawn at random, as many as a local key of that algorithm has."""
    if not key.algorithm.key_bytes:
        raise KeyUnavailable(f"the algorithm of key {key.name!r} is not known")
    return os.urandom(key.algorithm.key_bytes)


def algorithm_of(given: EncryptionAlgorithm | str) -> EncryptionAlgorithm:
    """The algorithm that a user names, by itself or its name; `UsageError` for others."""
    for one in (EncryptionAlgorithm.AES_CTR_128, EncryptionAlgorithm.AES_CTR_256):
        if given in (one, one.name):
            return one
    raise UsageError(f"algorithm must be AES_CTR_128 or AES_CTR_256, not {given!r}")


async def import_extra(module: str, extra: str) -> ModuleType:
    """A library that only one store needs; on a thread, because some take a second to import.

    Raises `Unsupported` that names the extra which brings it.
    """
    try:
        return await run_in_thread(lambda: importlib.import_module(module))
    except ImportError as error:
        raise Unsupported(
            f"{module} is not installed: pip install 'orcstream[{extra}]'", reason="missing_dependency"
        ) from error
