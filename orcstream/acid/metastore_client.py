"""A connection to a Hive metastore: one Thrift call after another, cancelled or given up in time.

Knows addresses, who asks, and which failures end a connection. Must not know what is asked. The messages are
thriftpy2's, over asyncio's streams: a call that is cancelled ends at once, and its connection with it, since
nobody could tell whose the next answer is.
"""

from __future__ import annotations

import asyncio
import functools
import getpass
import os
import urllib.parse
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import anyio

from orcstream.errors import SourceError, Unsupported, UsageError

__all__ = ["Lost", "MetastoreClient", "Refused", "services"]

DEFAULT_PORT: Final = 9083
_DEFINITION: Final = Path(__file__).with_name("hive_metastore.thrift")


class Refused(SourceError):
    """The metastore said no; `kind` is the name of its exception."""

    def __init__(self, message: str, *, kind: str = "", **place: Any) -> None:
        super().__init__(message, **place)
        self.kind = kind


class Lost(SourceError):
    """The metastore could not be reached, or did not answer: what was asked may have been done."""


@functools.cache
def services() -> ModuleType:
    """The service's types, as modules of thriftpy2 have them."""
    try:
        import thriftpy2
    except ImportError as error:
        raise Unsupported(
            "asking a Hive metastore needs thriftpy2: pip install 'orcstream[hive]'",
            reason="missing_dependency",
        ) from error
    found: ModuleType = thriftpy2.load(str(_DEFINITION), module_name="orcstream_hive_metastore_thrift")
    return found


class MetastoreClient:
    """Calls to one of several metastores that share a database, the first that answers.

    `url` is as in ``hive.metastore.uris``: ``thrift://host:9083``, several with commas between them. `user`
    is who is said to ask; without it HADOOP_USER_NAME or the user of the process.
    """

    def __init__(self, url: str, *, user: str | None, timeout_s: float) -> None:
        if not timeout_s > 0:
            raise UsageError(f"timeout_s must be a number of seconds, not {timeout_s!r}")
        self.url = url
        self.user = user or os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
        self._addresses = _addresses(url)
        self._timeout_s = timeout_s
        self._lock = anyio.Lock()
        self._connection: _Connection | None = None

    async def call(self, method: str, *arguments: Any, repeat: bool = False) -> Any:
        """The answer of one call. Raises `Refused` and `Lost`.

        What can be done twice is to `repeat`: it is asked again where an open connection has turned out dead.
        """
        async with self._lock:
            is_used = self._connection is not None
            try:
                return await self._call(method, arguments)
            except Lost:
                if not (repeat and is_used):
                    raise
                return await self._call(method, arguments)

    async def aclose(self) -> None:
        """Close the connection. Another call would open one."""
        self._drop()

    async def _call(self, method: str, arguments: Sequence[Any]) -> Any:
        declared = tuple(
            one
            for one in vars(services()).values()
            if isinstance(one, type) and issubclass(one, _exceptions()[0])
        )
        try:
            with anyio.fail_after(self._timeout_s):
                connection = await self._connected()
                return await getattr(connection.client, method)(*arguments)
        except declared as error:
            kind = type(error).__name__
            raise Refused(
                f"the metastore: {getattr(error, 'message', '') or kind}", kind=kind, url=self.url
            ) from None
        except _exceptions()[1] as error:  # its own trouble; the connection is as good as before
            raise Refused(
                f"the metastore failed at {method}: {error}", kind="Internal", url=self.url
            ) from None
        except Lost:
            raise
        except Exception as error:  # whatever bytes came, nothing after them can be understood
            self._drop()
            is_late = isinstance(error, TimeoutError)
            reason = f"not within {self._timeout_s:g} s" if is_late else str(error) or repr(error)
            raise Lost(f"the metastore did not answer {method}: {reason}", url=self.url) from error
        except BaseException:
            self._drop()
            raise

    async def _connected(self) -> _Connection:
        if self._connection is None:
            connection = await self._connect()
            self._connection = connection
            await connection.client.set_ugi(self.user, [self.user])
        return self._connection

    async def _connect(self) -> _Connection:
        troubles = []
        for host, port in self._addresses:
            try:
                with anyio.fail_after(self._timeout_s / len(self._addresses)):
                    return _Connection(*await asyncio.open_connection(host, port))
            except (OSError, UnicodeError) as error:
                troubles.append(f"{host}:{port}: {str(error) or 'no answer in time'}")
        raise Lost(f"the metastore cannot be reached ({'; '.join(troubles)})", url=self.url)

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class _Connection:
    """A stream of bytes as thriftpy2 wants it, and the client over it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from thriftpy2.contrib.aio.client import TAsyncClient
        from thriftpy2.contrib.aio.protocol.binary import TAsyncBinaryProtocol

        self._reader = reader
        self._writer = writer
        self._waiting = bytearray()
        protocol = TAsyncBinaryProtocol(self)  # type: ignore[no-untyped-call]
        self.client: Any = TAsyncClient(  # type: ignore[no-untyped-call]
            services().ThriftHiveMetastore, protocol
        )

    async def read(self, length: int) -> bytes:
        return await self._reader.readexactly(length)

    def write(self, data: bytes) -> None:
        self._waiting += data  # some bytes at a time; a message goes out as one

    async def flush(self) -> None:
        data, self._waiting = bytes(self._waiting), bytearray()
        self._writer.write(data)
        await self._writer.drain()

    def close(self) -> None:
        # At once: nothing that was written is wanted any more.
        self._writer.transport.abort()


@functools.cache
def _exceptions() -> tuple[type[Exception], type[Exception]]:
    """What declared exceptions are, and those that are not declared."""
    from thriftpy2.thrift import TApplicationException, TException

    return TException, TApplicationException


def _addresses(url: str) -> list[tuple[str, int]]:
    found = []
    for one in url.split(","):
        parts = urllib.parse.urlsplit(one.strip())
        try:
            host, port = parts.hostname, parts.port or DEFAULT_PORT
        except ValueError:
            host = None
        if parts.scheme != "thrift" or not host:
            raise UsageError(f"a metastore is thrift://host:{DEFAULT_PORT}, not {one!r}")
        found.append((host, port))
    return found
