"""Ranged GETs through aiohttp, held to one version of the object by its ETag.

Knows the headers of RFC 9110 sections 13 and 14. Must not know how a URL was signed: `RangeClient` is given
a URL for each request and does what every store that speaks HTTP needs; S3 uses it too.

A server that answers a range with the whole object is accepted only while the object is small.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import yarl

from orcstream._buffer import Buffer
from orcstream._keywords import unknown_option
from orcstream.byterange import MIB, ByteRange, BytesLike, RangeBuffer
from orcstream.errors import ShortRead, SourceChanged, SourceError, Unsupported, UsageError
from orcstream.io.contract.byte_source import (
    TRANSIENT_STATUS,
    OnBytes,
    Pin,
    Suffix,
    Transient,
    check_length,
    retry_after_s,
    short_read,
)
from orcstream.io.stores.http.receiving import RECEIVED_BYTES, in_large_pieces
from orcstream.io.stores.http.redirects import get_following

# What stores of objects say of a refusal, S3 and Azure in the same words.
_REASON = re.compile(rb"<Code>([^<]{1,100})</Code>(?:\s*<Message>([^<]{1,300})</Message>)?")

# The whole object is taken instead of a range up to this size.
SMALL_BODY_BYTES = MIB
# How much of an error's body is kept: S3 names its reason there.
ERROR_BODY_BYTES = 4096

# Of 18 digits at most: no object is longer, and Python refuses to count on for thousands of them.
_CONTENT_RANGE = re.compile(r"bytes +(?:([0-9]{1,18})-([0-9]{1,18})|\*)/([0-9]{1,18}|\*)\s*")


class HttpStatus(SourceError):
    """A status that is no answer to the range; the caller knows what it means for its store."""

    def __init__(
        self, status: int, headers: Mapping[str, str], body: bytes, url: str, elsewhere: str = ""
    ) -> None:
        """`elsewhere` is the origin that answered, where a redirect led to another one."""
        super().__init__(f"the server answered with status {status}", url=url)
        self.status = status
        self.headers = headers
        self.body = body
        self.elsewhere = elsewhere

    @property
    def reason(self) -> str:
        """The store's code and message, where its answer has them; empty elsewhere."""
        match = _REASON.search(self.body)
        return (
            " ".join(b": ".join(filter(None, match.groups())).decode(errors="replace").split())
            if match
            else ""
        )


@dataclass(frozen=True, slots=True)
class ContentRange:
    """A `Content-Range`: the bytes in the body, if any, and the length of the object, if known."""

    range: ByteRange | None
    file_length: int | None

    @classmethod
    def parse(cls, text: object) -> ContentRange | None:
        """None for anything that is not a valid header."""
        match = _CONTENT_RANGE.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            return None
        file_length = None if match[3] == "*" else int(match[3])
        if match[1] is None:
            return cls(None, file_length)
        start, stop = int(match[1]), int(match[2]) + 1
        if stop <= start or (file_length is not None and stop > file_length):
            return None
        return cls(ByteRange(start, stop), file_length)


@dataclass(frozen=True, slots=True)
class _Answer:
    """Bytes `start` on of an object of `file_length` bytes (None: not said); `data` None if not taken."""

    start: int
    data: memoryview | None
    file_length: int | None
    fingerprint: str


class RangeClient:
    """Fetches ranges of one object and checks every answer against the pin."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        pin: Pin,
        options: Mapping[str, Any],
        stranger: aiohttp.ClientSession | None = None,
        *,
        has_etags: bool = False,
    ) -> None:
        """`stranger` is for redirects to other origins; without it, a redirect is a refusal.

        With `has_etags`, the store names the version of each object: a whole body without one is not the
        object, but an error that came with status 200.
        """
        self._session = session
        self._stranger = stranger
        self._has_etags = has_etags
        self._pin = pin
        # Else its protocol would stop the transport for each large piece.
        self._options = {"read_bufsize": RECEIVED_BYTES, **options}
        self._options.pop("headers", None)
        self._headers = dict(options.get("headers") or {})
        self._whole: memoryview | None = None

    async def suffix(self, url: yarl.URL, length: int, **options: Any) -> Suffix:
        """The last `length` bytes; a second request only where the server knows no suffix ranges."""
        check_length(length)
        file_length: int | None = None
        try:
            answer = await self._get(url, length, options)
        except HttpStatus as error:
            file_length = _length_of_unsatisfied(error)
            if file_length == 0:
                return self._pinned(b"", 0, _fingerprint(error.headers))
            if error.status not in (400, 416, 501):
                raise
        else:
            start, file_length = answer.start, answer.file_length
            if file_length == 0:
                await self._confirm_empty(url, answer.fingerprint, options)
            if answer.data is not None and file_length is not None:
                if start == max(0, file_length - length) and start + len(answer.data) == file_length:
                    return self._pinned(answer.data, file_length, answer.fingerprint)
                if start == 0 and len(answer.data) == file_length:
                    view = answer.data[max(0, file_length - length) :]
                    return self._pinned(view, file_length, answer.fingerprint)
            # The server took the suffix for something else; what it said of the length still holds.
        if file_length is None:
            file_length = await self._ask_length(url, options)
            if file_length == 0:
                return self._pinned(b"", 0, "")
        wanted = ByteRange(max(0, file_length - length), file_length)
        answer = await self._get_range(url, wanted, options)
        data = self._cut(answer, wanted)
        return self._pinned(data, file_length, answer.fingerprint)

    async def range(
        self, url: yarl.URL, wanted: ByteRange, on_bytes: OnBytes | None = None, **options: Any
    ) -> BytesLike:
        """Exactly the bytes of `wanted`, as `ByteSource.fetch`."""
        if wanted.length == 0:
            return b""
        if self._whole is not None:
            return self._cut(_Answer(0, self._whole, len(self._whole), ""), wanted)
        try:
            answer = await self._get_range(url, wanted, options, on_bytes)
        except HttpStatus as error:
            if error.status != 416:
                raise
            self._pin.check(_length_of_unsatisfied(error), "")
            raise self._short(wanted, _length_of_unsatisfied(error)) from None
        return self._cut(answer, wanted)

    async def _get_range(
        self, url: yarl.URL, wanted: ByteRange, options: Mapping[str, Any], on_bytes: OnBytes | None = None
    ) -> _Answer:
        answer = await self._get(url, wanted, options, on_bytes)
        self._pin.check(answer.file_length, answer.fingerprint)
        return answer

    async def _ask_length(self, url: yarl.URL, options: Mapping[str, Any]) -> int:
        answer = await self._first_byte(url, options)
        if answer is not None and answer.file_length is None:
            raise self._no_ranges("does not say how long the object is")
        return 0 if answer is None else answer.file_length or 0

    async def _confirm_empty(self, url: yarl.URL, fingerprint: str, options: Mapping[str, Any]) -> None:
        """Return if a second answer says the same; a failing proxy can send one empty answer."""
        answer = await self._first_byte(url, options)
        if answer is not None and (answer.file_length != 0 or answer.fingerprint != fingerprint):
            raise Transient("the server sent an empty answer for an object with bytes", url=self._pin.url)

    async def _first_byte(self, url: yarl.URL, options: Mapping[str, Any]) -> _Answer | None:
        """The answer to a request for the first byte; None where there is none.

        Not HEAD: a signed URL is signed for GET, and the first byte's Content-Range says the same.
        """
        try:
            return await self._get(url, ByteRange(0, 1), options)
        except HttpStatus as error:
            # S3 names no length then.
            if error.status == 416 and _length_of_unsatisfied(error) in (0, None):
                return None
            raise

    async def _get(
        self,
        url: yarl.URL,
        asked: ByteRange | int,
        options: Mapping[str, Any],
        on_bytes: OnBytes | None = None,
    ) -> _Answer:
        """One GET for a range, or for the last `asked` bytes; a small object may come whole."""
        range_header = (
            f"bytes=-{asked}" if isinstance(asked, int) else f"bytes={asked.start}-{asked.stop - 1}"
        )
        needed = {"Range": range_header, "Accept-Encoding": "identity", **self._conditions()}
        shown = self._pin.url
        try:
            async with await self._send(url, needed, {**self._options, **options}) as response:
                if response.status == 206:
                    return await self._read_part(response, asked, on_bytes)
                if response.status == 200:
                    return await self._read_whole(response)
                body = await _read_some(response, ERROR_BODY_BYTES)
                response.close()
                raise self._refusal(response, body, url)
        except (aiohttp.ClientSSLError, ssl.SSLError) as error:
            raise SourceError(f"no secure connection: {error}", url=shown) from error
        except (aiohttp.InvalidURL, aiohttp.ClientResponseError) as error:
            # Their texts hold the URL as it was sent, signature included; a message alone is of the answer.
            text = ": ".join(filter(None, (type(error).__name__, getattr(error, "message", ""))))
            raise SourceError(f"the request failed: {text}", url=shown) from None
        except (TypeError, ValueError) as error:  # of an option, a header or a host that cannot be
            raise cannot_be(error, shown) from None
        except TimeoutError as error:
            raise Transient("the server did not answer in time", url=shown) from error
        except SourceError:
            raise
        except (aiohttp.ClientError, OSError) as error:
            raise Transient(f"the connection failed: {error}", url=shown) from error

    async def _send(
        self, url: yarl.URL, needed: Mapping[str, str], options: Mapping[str, Any]
    ) -> aiohttp.ClientResponse:
        if self._stranger is None:
            headers = {**self._headers, **needed}
            return await self._session.get(url, headers=headers, allow_redirects=False, **options)
        return await get_following(
            self._session, self._stranger, url, self._headers, needed, options, self._pin.url
        )

    def _conditions(self) -> dict[str, str]:
        fingerprint = self._pin.fingerprint
        if fingerprint.startswith('"'):
            return {"If-Match": fingerprint}
        # A weak ETag never matches If-Match, and dates are only good to the second: both are compared
        # with what the answer says.
        return {}

    async def _read_part(
        self, response: aiohttp.ClientResponse, asked: ByteRange | int, on_bytes: OnBytes | None
    ) -> _Answer:
        """The body of a 206. Its headers are checked before anyone sees a byte."""
        self._refuse_encoded(response)
        named = ContentRange.parse(response.headers.get("Content-Range"))
        if named is None or named.range is None or response.content_type == "multipart/byteranges":
            response.close()
            raise SourceError("a partial answer without a proper Content-Range", url=self._pin.url)
        there, fingerprint = named.range, _fingerprint(response.headers)
        if there.length > (asked if isinstance(asked, int) else asked.length):
            response.close()
            return _Answer(there.start, None, named.file_length, fingerprint)
        try:
            self._pin.check(named.file_length, fingerprint)
            if isinstance(asked, ByteRange) and there != asked:
                raise other_range(asked, there, self._pin.url)
        except SourceError:
            response.close()
            raise
        if response.content_length != there.length:
            on_bytes = None  # a body of another length may be of another range: known when all of it is there
        data = await self._read_exactly(response, there.start, there.length, on_bytes)
        return _Answer(there.start, data, named.file_length, fingerprint)

    async def _read_whole(self, response: aiohttp.ClientResponse) -> _Answer:
        self._refuse_encoded(response)
        length = response.content_length
        fingerprint = _fingerprint(response.headers)
        if self._has_etags and not response.headers.get("ETag"):
            response.close()
            raise Transient(
                "status 200 with a body that is not the object: it has no ETag", url=self._pin.url
            )
        if "Content-Range" in response.headers:
            named = ContentRange.parse(response.headers["Content-Range"])
            if length is None or named != ContentRange(ByteRange(0, length), length):
                response.close()
                raise SourceError("status 200 with the Content-Range of a part", url=self._pin.url)
        if length == 0 and self._pin.file_length != 0:
            self._pin.check(None, fingerprint)
            if self._pin.file_length is not None or not fingerprint:
                # Proxies and servers that fail send such answers; they say nothing about the object.
                raise Transient("an empty answer that names no version", url=self._pin.url)
        if length is None or length > SMALL_BODY_BYTES:
            response.close()
            return _Answer(0, None, length, fingerprint)
        self._pin.check(length, fingerprint)
        data = await self._read_exactly(response, 0, length, None)
        if length:
            self._whole = data
        return _Answer(0, data, length, fingerprint)

    async def _read_exactly(
        self, response: aiohttp.ClientResponse, start: int, length: int, on_bytes: OnBytes | None
    ) -> memoryview:
        data = memoryview(Buffer(length))
        at = 0
        with in_large_pieces(response, length):
            async for chunk, _ in response.content.iter_chunks():  # as they came: `iter_any` joins them first
                if at + len(chunk) > length:
                    response.close()
                    raise ShortRead(f"more than the {length} bytes that were announced", url=self._pin.url)
                data[at : at + len(chunk)] = chunk
                at += len(chunk)
                if on_bytes is not None and at < length:
                    on_bytes(RangeBuffer(ByteRange(start, start + at), data[:at]))
        if at != length:
            raise ShortRead(f"{at} of the {length} bytes that were announced", url=self._pin.url)
        return data

    def _cut(self, answer: _Answer, wanted: ByteRange) -> BytesLike:
        if answer.data is None:
            raise self._no_ranges("answers with the whole object, whatever range is asked for")
        stop = answer.start + len(answer.data)
        if answer.start > wanted.start or stop < wanted.stop:
            raise self._short(wanted, stop)
        if (answer.start, stop) == (wanted.start, wanted.stop):
            return answer.data
        return answer.data[wanted.start - answer.start : wanted.stop - answer.start]

    def _pinned(self, data: BytesLike, file_length: int, fingerprint: str) -> Suffix:
        self._pin.set(file_length, fingerprint)
        return Suffix(data, file_length, self._pin.fingerprint)

    def _refusal(self, response: aiohttp.ClientResponse, body: bytes, url: yarl.URL) -> Exception:
        if response.status == 412:
            return SourceChanged("the object was replaced since it was opened", url=self._pin.url)
        if response.status in TRANSIENT_STATUS or (response.status == 400 and b"RequestTimeout" in body):
            return Transient(
                f"the server answered with status {response.status}",
                url=self._pin.url,
                retry_after_s=retry_after_s(response.headers),
            )
        there = response.url.origin()
        elsewhere = "" if there == url.origin() else str(there)
        return HttpStatus(response.status, response.headers, body, self._pin.url, elsewhere)

    def _refuse_encoded(self, response: aiohttp.ClientResponse) -> None:
        encoding = response.headers.get("Content-Encoding", "identity")
        if encoding.strip().lower() not in ("", "identity"):
            response.close()
            raise Unsupported(
                f"the server encodes the object ({encoding}), so its ranges are not the file's",
                reason="content_encoding",
                url=self._pin.url,
            )

    def _no_ranges(self, what: str) -> Unsupported:
        return Unsupported(f"the server {what}", reason="no_range_requests", url=self._pin.url)

    def _short(self, wanted: ByteRange, stop: int | None) -> ShortRead:
        return short_read(wanted, f"there were none after {stop}", self._pin.url)


def _fingerprint(headers: Mapping[str, str]) -> str:
    etag = headers.get("ETag", "")
    if etag:
        return etag
    modified = headers.get("Last-Modified", "")
    return f"modified {modified}" if modified else ""


def _length_of_unsatisfied(error: HttpStatus) -> int | None:
    """The object's length, where a 416 says it."""
    named = ContentRange.parse(error.headers.get("Content-Range"))
    return named.file_length if error.status == 416 and named is not None else None


def other_range(asked: ByteRange, there: ByteRange, url: str) -> ShortRead:
    """The error for an answer with other bytes than the ones asked for."""
    return short_read(asked, f"the answer has {there.start} to {there.stop}", url)


def cannot_be(error: Exception, url: str) -> UsageError:
    """Without its text, which may be that of a header."""
    said = unknown_option(error) or type(error).__name__
    return UsageError(f"no request can be made ({said}): look at the URL and storage_options", url=url)


async def _read_some(response: aiohttp.ClientResponse, most: int) -> bytes:
    data = b""
    async for chunk in response.content.iter_any():
        data += chunk
        if len(data) >= most:
            break
    return data[:most]


def stall_timeout(stall_timeout_s: float) -> aiohttp.ClientTimeout:
    """Ends a request that is not connected, or of whose answer nothing arrives, for so long."""
    return aiohttp.ClientTimeout(total=None, sock_connect=stall_timeout_s, sock_read=stall_timeout_s)
