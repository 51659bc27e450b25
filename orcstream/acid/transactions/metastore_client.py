"""A connection to a Hive metastore: one Thrift call after another, cancelled or given up in time.

Knows addresses, who asks, and which failures end a connection. Must not know what is asked. A call that is
cancelled ends at once, and its connection with it, since nobody could tell whose the next answer is. Answers
are bounded, in bytes and in values (`acid.transactions.thrift_messages`), and the time limit is that of a
whole call.
"""

from __future__ import annotations

import asyncio
import functools
import getpass
import os
import time
import urllib.parse
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeAlias

import anyio

from orcstream._keywords import check_seconds
from orcstream.acid.transactions import thrift_messages as messages
from orcstream.errors import SourceError, Unsupported, UsageError
from orcstream.io.loop.uncancelled import run_in_thread

DEFAULT_PORT: Final = 9083
# The kind of `Refused` where an older metastore does not know a method.
UNKNOWN_METHOD: Final = "UnknownMethod"
_READ_BYTES: Final = 1 << 16
# Answers of more bytes are decoded on a thread: the loop would have to wait for milliseconds.
_LEAST_ON_THREAD: Final = 1 << 15
# Reads what a message answers, given the method, the message, where its struct begins, and a deadline.
_Read: TypeAlias = Callable[[str, tuple[int, bytes], float], Awaitable[Any]]
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
        check_seconds("timeout_s", timeout_s)
        self.url = url
        self.user = user or os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
        self._addresses = _addresses(url)
        self._timeout_s = timeout_s
        self._lock = anyio.Lock()
        self._connection: _Connection | None = None

    async def call(self, method: str, *arguments: Any, repeat: bool = False) -> Any:
        """The answer of one call, as one of thriftpy2's objects. Raises `Refused` and `Lost`.

        What can be done twice is to `repeat`: it is asked again where an open connection has turned out dead.
        """
        asked = getattr(services().ThriftHiveMetastore, f"{method}_args")()
        for (_, name, *_), value in zip(asked.thrift_spec.values(), arguments, strict=True):
            setattr(asked, name, value)
        return await self._repeated(method, messages.encoded(asked), repeat, self._object)

    async def call_raw(self, method: str, arguments: bytes, *, repeat: bool = False) -> bytes:
        """The same in bytes: `arguments` are a struct, the answer is the value.

        For what is to be handed back whole, with fields of versions that are not known here.
        """
        found: bytes = await self._repeated(method, arguments, repeat, self._value)
        return found

    async def _repeated(self, method: str, arguments: bytes, repeat: bool, read: _Read) -> Any:
        async with self._lock:
            is_used = self._connection is not None
            try:
                return await self._call(method, arguments, read)
            except Lost:
                if not (repeat and is_used):
                    raise
                return await self._call(method, arguments, read)

    async def aclose(self) -> None:
        """Close the connection. Another call would open one."""
        self._drop()

    async def _call(self, method: str, arguments: bytes, read: _Read) -> Any:
        deadline_s = time.monotonic() + self._timeout_s
        try:
            with anyio.fail_after(self._timeout_s):
                connection = await self._connected(deadline_s)
                return await read(method, await connection.exchange(method, arguments), deadline_s)
        except (Lost, Refused):
            raise
        except Exception as error:  # whatever bytes came, nothing after them can be understood
            self._drop()
            is_late = isinstance(error, TimeoutError)
            reason = f"not within {self._timeout_s:g} s" if is_late else str(error) or repr(error)
            raise Lost(f"the metastore did not answer {method}: {reason}", url=self.url) from error
        except BaseException:
            self._drop()
            raise

    async def _connected(self, deadline_s: float) -> _Connection:
        if self._connection is None:
            self._connection = connection = await self._connect()
            types = services().ThriftHiveMetastore
            asked = messages.encoded(types.set_ugi_args(user_name=self.user, group_names=[self.user]))
            try:
                await self._value("set_ugi", await connection.exchange("set_ugi", asked), deadline_s)
            except Refused:
                self._drop()  # the next call is to say again who asks
                raise
        return self._connection

    async def _object(self, method: str, answer: tuple[int, bytes], deadline_s: float) -> Any:
        """What a message answers, as an object."""
        at, data = answer
        result = getattr(services().ThriftHiveMetastore, f"{method}_result")()
        decode = partial(messages.decoded, data, at, result, deadline_s)
        await run_in_thread(decode) if len(data) > _LEAST_ON_THREAD else decode()
        for _, name, *_ in result.thrift_spec.values():
            value = getattr(result, name)
            if name == "success" and value is not None:
                return value
            if value is not None:
                kind = type(value).__name__
                reason = getattr(value, "message", "") or kind
                raise Refused(f"the metastore: {reason}", kind=kind, url=self.url)
        if hasattr(result, "success"):
            raise messages.MessageError("it has neither an answer nor an error")
        return None

    async def _value(self, method: str, answer: tuple[int, bytes], deadline_s: float) -> bytes:
        """What a message answers, as bytes."""
        at, data = answer
        read = partial(messages.fields, data, at)
        found = (await run_in_thread(read) if len(data) > _LEAST_ON_THREAD else read()).get(0)
        if found is None:  # an error, or nothing
            await self._object(method, answer, deadline_s)
            return b""
        return found[1]

    async def _connect(self) -> _Connection:
        troubles = []
        for host, port in self._addresses:
            try:
                with anyio.fail_after(self._timeout_s / len(self._addresses)):
                    return _Connection(*await asyncio.open_connection(host, port), self.url)
            except (OSError, UnicodeError) as error:
                troubles.append(f"{host}:{port}: {str(error) or 'no answer in time'}")
        raise Lost(f"the metastore cannot be reached ({'; '.join(troubles)})", url=self.url)

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class _Connection:
    """One stream of bytes, for one call after another."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, url: str) -> None:
        self._reader = reader
        self._writer = writer
        self._url = url
        self._calls = 0

    async def exchange(self, method: str, arguments: bytes) -> tuple[int, bytes]:
        """Call a method with a struct of arguments; returns the answer's bytes, and where its struct begins.

        Raises `Refused` for an error that the service does not declare: the connection is as good as before.
        """
        self._calls += 1
        self._writer.write(messages.encoded_call(method, self._calls, arguments))
        await self._writer.drain()
        data = await self._message()
        kind, name, number, at = messages.message_head(data)
        if number != self._calls or name != method:
            raise messages.MessageError(f"it answers call {number} of {name}")
        if kind == messages.EXCEPTION:
            raise _refusal(method, data, at, self._url)
        return at, data

    async def _message(self) -> bytes:
        message = messages.Message()
        while not message.is_whole:
            data = await self._reader.read(_READ_BYTES)
            if not data:
                raise ConnectionError("the connection was closed")
            message.feed(data)
            # The time limit is looked at here: bytes that are there already are read without a pause.
            await asyncio.sleep(0)
        return bytes(message.data)

    def close(self) -> None:
        # At once: nothing that was written is wanted any more.
        self._writer.transport.abort()


def _refusal(method: str, data: bytes, at: int, url: str) -> Refused:
    """What a message says that is an error which no method declares."""
    from thriftpy2.thrift import TApplicationException

    error = messages.decoded(data, at, TApplicationException())
    is_unknown = error.type == TApplicationException.UNKNOWN_METHOD
    kind = UNKNOWN_METHOD if is_unknown else "Internal"
    return Refused(f"the metastore failed at {method}: {error}", kind=kind, url=url)


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
