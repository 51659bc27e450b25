"""Two small fsspec file systems over one dictionary, asynchronous and not, and how often they were made."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import fsspec
from fsspec.asyn import AsyncFileSystem
from fsspec.spec import AbstractFileSystem

__all__ = ["FILES", "LoopFileSystem", "ThreadFileSystem"]

# Path to (content, version).
FILES: dict[str, tuple[bytes, int]] = {}


def _info(path: str) -> dict[str, Any]:
    if path not in FILES:
        raise FileNotFoundError(path)
    data, version = FILES[path]
    return {"name": path, "size": len(data), "type": "file", "mtime": version}


def _content(path: str) -> bytes:
    _info(path)
    return FILES[path][0]


class _Session:
    """Stands for the connections of a file system."""

    closed = False

    async def close(self) -> None:
        self.closed = True


class LoopFileSystem(AsyncFileSystem):  # type: ignore[misc]  # fsspec has no types
    """Asynchronous; `errors` are raised by the next calls."""

    protocol = "looptest"
    made: list[LoopFileSystem] = []  # noqa: RUF012 - shared on purpose
    errors: list[Exception] = []  # noqa: RUF012

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._session = _Session()
        self.born_in = asyncio.get_running_loop()
        self.made.append(self)

    async def _info(self, path: str, **_: Any) -> dict[str, Any]:
        await asyncio.sleep(0)
        if self.errors:
            raise self.errors.pop(0)
        return _info(path)

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        await asyncio.sleep(0)
        if self.errors:
            raise self.errors.pop(0)
        return _content(path)[start:end]


class ThreadFileSystem(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """Synchronous."""

    protocol = "threadtest"

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        return _info(self._strip_protocol(path))

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        return _content(self._strip_protocol(path))[start:end]

    def get_file(self, rpath: str, lpath: str, **_: Any) -> None:
        Path(lpath).write_bytes(self.cat_file(rpath))


fsspec.register_implementation("looptest", LoopFileSystem, clobber=True)
fsspec.register_implementation("threadtest", ThreadFileSystem, clobber=True)
