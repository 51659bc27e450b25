"""Small files in any store, put whole and at once, and read whole.

Knows that a put may have happened although its answer was lost. Must not know what is in the files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from orcstream.errors import Unsupported
from orcstream.io.contract.byte_source import retry_commit
from orcstream.io.contract.folder import retried
from orcstream.io.folders import make_folder_of
from orcstream.io.loop.uncancelled import clean_up, until_over
from orcstream.io.urls import open_source, shown_of

if TYPE_CHECKING:
    from orcstream.io.contract.byte_sink import Prepared

_TAIL_BYTES = 1 << 20
# Whatever a store answers, no more of it is taken into memory.
_MOST_BYTES = 1 << 28


async def put(
    url: str,
    data: bytes,
    *,
    overwrite: bool,
    storage_options: Mapping[str, Any] | None,
    sink_options: Any = None,
) -> None:
    """A file that appears whole; `FileExistsError` with ``overwrite=False`` where there is one.

    Raises what writing raises; then nothing is left.
    """
    from orcstream.io import sink as sinks

    await make_folder_of(url)
    options: dict[str, Any] = {"storage_options": storage_options, "sink_options": sink_options}
    sink = await sinks.open_sink(url, overwrite=overwrite, **options)
    try:
        await sink.write(data)
        await commit(await sink.prepare(), **options)
    except BaseException as error:
        await clean_up(error, sink.abort)  # what was made visible stays, if it was
        raise
    await sink.aclose()


async def commit(prepared: Prepared, **options: Any) -> None:
    """`io.sink.commit`, asked again where the store lost its answer."""
    from orcstream.io import sink as sinks

    await retry_commit(lambda: sinks.commit(prepared, **options))


async def get(url: str, *, storage_options: Mapping[str, Any] | None) -> bytes:
    """All bytes of a file. Raises what opening and reading raise, and `Unsupported` beyond 256 MiB."""

    async def read() -> bytes:
        source = await open_source(url, storage_options=storage_options, io_options=None)
        try:
            found = await source.fetch_suffix(_TAIL_BYTES)
            if found.file_length > _MOST_BYTES:
                raise Unsupported(
                    f"{found.file_length} bytes are no small file",
                    reason="too_large",
                    url=url,
                )
            if found.file_length > len(found.data):
                found = await source.fetch_suffix(found.file_length)
            return bytes(found.data)
        finally:
            await until_over(source.aclose())

    return await retried(read, shown_of(url))
