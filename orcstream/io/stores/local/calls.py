"""Calls of the local file system on threads, failing as those of other stores do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from orcstream.errors import SinkError, Unsupported, UsageError
from orcstream.io.contract.byte_source import no_such_file, not_permitted
from orcstream.io.loop.threads import run_in_thread

T = TypeVar("T")


async def in_thread(work: Callable[[], T], url: str) -> T:
    try:
        return await run_in_thread(work)
    except FileNotFoundError:
        raise no_such_file(url) from None
    except PermissionError:
        raise not_permitted(url) from None
    except (SinkError, UsageError, Unsupported, FileExistsError, IsADirectoryError):
        raise
    except OSError as error:
        raise SinkError(f"the file cannot be written: {error.strerror or error}", url=url) from error
