"""Bytes that are converted: a path, a URL of fsspec or standard input, decompressed by their name.

Knows fsspec and the compressions that endings name. Must not know what the bytes mean. Contract: bytes come
forward, in order and all of them; a compressed file that ends early is an error and never a shorter file, and
several compressed parts after one another are one.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import sys
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import zstandard

import orcstream
from orcstream._credentials import strip_credentials

if TYPE_CHECKING:
    from typing_extensions import Buffer

STANDARD_INPUT = "-"
# What is asked of a store at a time.
_BLOCK_BYTES = 8 << 20
# So little that the worst of all zstd files cannot ask for more than 128 MiB at a time.
_ZSTD_STEP_BYTES = 4 << 10
_TOO_LONG = "a row is longer than a 64th of --memory-limit, or than 1 MB if that is more; give a larger one"
_BOM = b"\xef\xbb\xbf"


def suffixes(url: str) -> tuple[str, str]:
    """The endings of a name, in lower case: that of the format, and that of a compression, or nothing."""
    if re.match(r"(.*::)?https?://", url, re.IGNORECASE):
        url = re.split("[?#]", url, maxsplit=1)[0]
    parts = url.replace("\\", "/").rpartition("/")[2].lower().split(".")
    compression = parts.pop() if len(parts) > 1 and parts[-1] in _DECOMPRESSED else ""
    return (parts[-1] if len(parts) > 1 else ""), compression


@dataclass(frozen=True, slots=True)
class Origin:
    """Where rows come from, as errors name it, and how many characters the longest row may have.

    `hidden` are the names of top-level columns that are to be encrypted or masked, or hold what is; errors of
    writing are seen to by `codec.encode.writable`.
    """

    shown: str
    longest: int
    hidden: frozenset[str] = frozenset()

    def told(self, text: str, instead: str, column: str | None = None) -> str:
        """`text`, which may show values of the column, or of any; or `instead`, if one of them is hidden."""
        if not self.hidden or (column is not None and column not in self.hidden):
            return text
        return f"{instead}; what is encrypted or masked is not shown"

    def wrong(self, text: str, row: int | None = None) -> orcstream.FormatError:
        """The error for a source that is not in its format."""
        return orcstream.FormatError(text, url=self.shown, row=row)

    def unfit(self, text: str, row: int | None = None) -> orcstream.SchemaMismatch:
        """The error for rows that the schema does not take."""
        return orcstream.SchemaMismatch(text, url=self.shown, row=row)

    def too_long(self) -> orcstream.UsageError:
        """The error for a row that does not fit into the memory that is given."""
        return orcstream.UsageError(_TOO_LONG, url=self.shown)


class Input(io.RawIOBase):
    """Decompressed bytes, read forward. `bytes_read` counts the source's, `total_bytes` is its size."""

    def __init__(self, raw: _Raw, compression: str) -> None:
        self._raw = raw
        self._stream: Any = _DECOMPRESSED[compression](raw) if compression else raw
        self._ahead = b""
        self.shown = raw.shown
        if self.head(len(_BOM)) == _BOM:
            self.replace_head(b"")

    @property
    def bytes_read(self) -> int:
        return self._raw.bytes_read

    @property
    def total_bytes(self) -> int | None:
        return self._raw.total_bytes

    def head(self, size: int) -> bytes:
        """The next bytes, which come again when they are read; fewer where the file ends."""
        while len(self._ahead) < size and (more := self._more(size - len(self._ahead))):
            self._ahead += more
        return self._ahead

    def replace_head(self, ahead: bytes) -> None:
        """Read this instead of what `head` answered."""
        self._ahead = ahead

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer).cast("B")
        data = self._ahead[: len(view)] or self._more(len(view))
        self._ahead = self._ahead[len(data) :]
        view[: len(data)] = data
        return len(data)

    def _more(self, size: int) -> bytes:
        try:
            data: bytes = self._stream.read(size)
        except orcstream.OrcError:
            raise
        except (EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError, gzip.BadGzipFile) as error:
            raise _damaged(self.shown, error) from error
        except (OSError, RuntimeError) as error:
            if self._stream is self._raw:
                raise
            raise _damaged(self.shown, error) from error
        return data

    def close(self) -> None:
        if not self.closed:
            with suppress(Exception):
                self._stream.close()
            self._raw.close()
        super().close()


def open_input(url: str, storage_options: Mapping[str, Any]) -> Input:
    """Open a source. Raises UsageError, SourceError, FileNotFoundError, PermissionError."""
    if url == STANDARD_INPUT:
        return Input(_StandardInput(), "")
    return Input(_Stored(_open(url, storage_options, "readahead"), url), suffixes(url)[1])


def open_seekable(url: str, storage_options: Mapping[str, Any]) -> Any:
    """A file of fsspec that may be read from any place, for who knows what to ask for."""
    return _open(url, storage_options, "none")


def _open(url: str, storage_options: Mapping[str, Any], cache: str) -> Any:
    import fsspec

    try:
        filesystem, path = fsspec.core.url_to_fs(url, **storage_options)
    except (ValueError, ImportError, TypeError) as error:
        raise orcstream.UsageError(f"fsspec cannot open this: {error}", url=url) from error
    except Exception as error:
        raise _translated(error, url) from error
    try:
        return filesystem.open(path, "rb", block_size=_BLOCK_BYTES, cache_type=cache)
    except Exception as error:
        raise _translated(error, url) from error


def _translated(error: Exception, url: str) -> Exception:
    """As one of ours; messages of libraries may hold the URL with its secrets."""
    from orcstream.io.stores.fsspec.source import translate_error

    shown = strip_credentials(url)
    found = translate_error(error, shown)
    if isinstance(found, orcstream.OrcError):
        found.message = found.message.replace(url, shown)
    return found


def _damaged(shown: str, error: Exception) -> orcstream.OrcError:
    text = str(error) or type(error).__name__
    return orcstream.FormatError(f"the compressed file is damaged or cut off: {text}", url=shown)


# --- where bytes come from ---------------------------------------------------------------------------------


class _Raw(io.RawIOBase):
    """Bytes as they are stored, counted."""

    def __init__(self, shown: str) -> None:
        self.shown = shown
        self.bytes_read = 0
        self.total_bytes: int | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer).cast("B")
        data = self._next(len(view))
        self.bytes_read += len(data)
        view[: len(data)] = data
        return len(data)

    def _next(self, size: int) -> bytes:
        raise NotImplementedError


class _Stored(_Raw):
    """A file of fsspec."""

    def __init__(self, file: Any, url: str) -> None:
        super().__init__(strip_credentials(url))
        self._file = file
        self._url = url
        size = getattr(file, "size", None)
        self.total_bytes = size if isinstance(size, int) else None

    def _next(self, size: int) -> bytes:
        try:
            data: bytes = self._file.read(size)
        except Exception as error:
            raise _translated(error, self._url) from error
        return data

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


class _StandardInput(_Raw):
    """Standard input, whose end nobody knows."""

    def __init__(self) -> None:
        super().__init__("standard input")
        self._descriptor = sys.__stdin__.fileno() if sys.__stdin__ is not None else 0

    def _next(self, size: int) -> bytes:
        return os.read(self._descriptor, size)


# --- compressions ------------------------------------------------------------------------------------------


class _Zstd(io.RawIOBase):
    """Frames after one another. The library's own reader takes a file that is cut off for a short one."""

    def __init__(self, raw: io.RawIOBase) -> None:
        self._raw = io.BufferedReader(raw, _BLOCK_BYTES)
        self._frame: Any = None
        self._rest = b""
        self._data = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        while not self._data and self._step():
            pass
        view = memoryview(buffer).cast("B")
        count = min(len(view), len(self._data))
        view[:count] = self._data[:count]
        self._data = self._data[count:]
        return count

    def _step(self) -> bool:
        """Decompress a little more; False where the file ends."""
        data = self._rest or self._raw.read(_ZSTD_STEP_BYTES)
        self._rest = b""
        if not data:
            if self._frame is not None:
                raise EOFError("the last frame has no end")
            return False
        self._frame = self._frame or zstandard.ZstdDecompressor().decompressobj()
        self._data = memoryview(self._frame.decompress(data))
        if self._frame.eof:
            self._rest = self._frame.unused_data
            self._frame = None
        return True


def _lz4(raw: io.RawIOBase) -> Any:
    import lz4.frame

    return lz4.frame.LZ4FrameFile(raw, "rb")


_DECOMPRESSED: dict[str, Callable[[Any], Any]] = {
    "gz": lambda raw: gzip.GzipFile(fileobj=raw, mode="rb"),
    "bz2": bz2.BZ2File,
    "xz": lzma.LZMAFile,
    "zst": _Zstd,
    "lz4": _lz4,
}
