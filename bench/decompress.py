"""Only decompression: every chunk of every stream of a file, with the libraries that orcstream uses.

The bound that no reader of the same file can pass. Bytes are in memory before the clock starts, and each
chunk is written to its place in a buffer that was allocated, and touched, before: a reader needs the chunks
of a stream one after the other.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import deflate
import zstandard

import orcstream
from orcstream.codec.streams.compression import Compression, Decompressor

Decompress = Callable[[bytes, int], bytes | bytearray]


def _zstd() -> Decompress:
    # One for each thread: shared ones corrupt data.
    decompress = zstandard.ZstdDecompressor().decompress
    return lambda chunk, bound: decompress(chunk, max_output_size=bound)


# Those whose reading is judged against it.
_DECOMPRESS: dict[str, Callable[[], Decompress]] = {
    "zstd": _zstd,
    "zlib": lambda: deflate.deflate_decompress,
}


class Chunks:
    """The compression chunks of a file's data streams."""

    def __init__(self, path: Path, codec: str) -> None:
        self._codec = codec
        self._chunks, self._bound = asyncio.run(_compressed_chunks(path))
        self._places = [bytearray(self._bound) for _ in self._chunks]

    def decompress(self, threads: int) -> None:
        """All of them with the library's function for a chunk, as its users call it."""
        self._share_out(threads, self._work)

    def decompress_in_place(self, threads: int) -> None:
        """The same in the way of orcstream, which makes no memory for answers."""
        self._share_out(threads, self._work_in_place)

    def _share_out(self, threads: int, work: Callable[[list[bytes], list[bytearray]], None]) -> None:
        """By their number; the heaviest streams lie apart, so it is about even."""
        workers = [
            threading.Thread(target=work, args=(self._chunks[first::threads], self._places[first::threads]))
            for first in range(threads)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    def _work(self, chunks: list[bytes], places: list[bytearray]) -> None:
        decompress = _DECOMPRESS[self._codec]()
        for chunk, place in zip(chunks, places, strict=True):
            data = decompress(chunk, self._bound)
            place[: len(data)] = data

    def _work_in_place(self, chunks: list[bytes], places: list[bytearray]) -> None:
        decompress = Decompressor(Compression[self._codec.upper()])
        for chunk, place in zip(chunks, places, strict=True):
            decompress(memoryview(chunk), memoryview(place))


async def _compressed_chunks(path: Path) -> tuple[list[bytes], int]:
    data = path.read_bytes()
    chunks: list[bytes] = []
    async with orcstream.open(str(path)) as file:
        bound = file.tail.postscript.compression_block_size
        for index, stripe in enumerate(file.stripes):
            footer = await file.stripe_footer(index)
            start = stripe.offset
            for stream in footer.streams:
                if not stream.kind.is_index:
                    chunks += _split(data[start : start + stream.length])
                start += stream.length
    return chunks, bound


def _split(stream: bytes) -> list[bytes]:
    """The compressed chunks of a stream; those stored as they are need no work."""
    chunks, position = [], 0
    while position < len(stream):
        header = int.from_bytes(stream[position : position + 3], "little")
        position += 3
        if not header & 1:
            chunks.append(stream[position : position + (header >> 1)])
        position += header >> 1
    return chunks
