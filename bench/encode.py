"""Encoders and compressors alone: nanoseconds and bytes for each value, one thread, best of five.

`python -m bench.encode` prints a table; nothing here is promised.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from orcstream.codec.streams._encode_rle_v2 import IntEncoder
from orcstream.codec.streams._encode_values import (
    BoolEncoder,
    ByteEncoder,
    Encoder,
    IntEncoderV1,
    RawEncoder,
    Varint128Encoder,
)
from orcstream.codec.streams._out_stream import OutStream
from orcstream.codec.streams.compression import Compression, Compressor

COUNT = 1_000_000
BATCH = 65_536
BLOCK_BYTES = 256 * 1024
Integers = npt.NDArray[np.int64]


def columns(rng: np.random.Generator) -> dict[str, Integers]:
    outliers = rng.random(COUNT) < 0.02
    return {
        "random, 64 bits": rng.integers(-(2**63), 2**63 - 1, COUNT),
        "random, 20 bits": rng.integers(0, 2**20, COUNT),
        "random, 7 bits": rng.integers(0, 100, COUNT),
        "sorted": np.cumsum(rng.integers(0, 50, COUNT)),
        "ids": np.arange(COUNT),
        "runs of 20": np.repeat(rng.integers(0, 1000, COUNT // 20), 20),
        "2 % outliers": np.where(outliers, rng.integers(0, 2**50, COUNT), rng.integers(0, 100, COUNT)),
    }


def measure(what: str, make: Callable[[OutStream], Encoder], data: bytes) -> None:
    width = len(data) // COUNT
    best, size = float("inf"), 0
    for _ in range(5):
        begun = time.perf_counter()
        out = OutStream(compressed=False, block_size=BLOCK_BYTES)
        encoder = make(out)
        for start in range(0, COUNT, BATCH):
            stop = min(COUNT, start + BATCH)
            encoder.put(memoryview(data)[start * width : stop * width], stop - start)
            out.drain()
        encoder.flush()
        out.finish(None)
        best = min(best, time.perf_counter() - begun)
        size = out.size_bytes
    print(f"{what:42} {best / COUNT * 1e9:7.2f} ns {size / COUNT:8.3f} bytes")


def compress(compression: Compression, data: bytes) -> None:
    compressor = Compressor(compression)
    best, size = float("inf"), 0
    for _ in range(3):
        begun = time.perf_counter()
        out = OutStream(compressed=True, block_size=BLOCK_BYTES)
        for start in range(0, len(data), BLOCK_BYTES):
            out.write(memoryview(data)[start : start + BLOCK_BYTES])
            out.compress(compressor)
            out.drain()
        out.finish(compressor)
        best = min(best, time.perf_counter() - begun)
        size = out.size_bytes
    print(f"{compression.name:42} {len(data) / best / 1e6:7.0f} MB/s {size / len(data):7.3f} of the bytes")


def main() -> None:
    rng = np.random.default_rng(1)
    for name, values in columns(rng).items():
        data = values.tobytes()
        measure(f"version 2, {name}", lambda out: IntEncoder(out, signed=True), data)
        measure("  all widths", lambda out: IntEncoder(out, signed=True, aligned=False), data)
        measure("  version 1", lambda out: IntEncoderV1(out, signed=True), data)
    small = rng.integers(0, 256, COUNT).astype(np.uint8)
    measure("bytes, random", ByteEncoder, small.tobytes())
    measure("bytes, runs of 20", ByteEncoder, np.repeat(small[: COUNT // 20], 20).tobytes())
    measure("booleans, random", BoolEncoder, (small & 1).tobytes())
    wide = np.zeros((COUNT, 2), np.int64)
    wide[:, 0] = rng.integers(0, 10**7, COUNT)
    measure("decimals of 7 digits", Varint128Encoder, wide.tobytes())
    measure("doubles", lambda out: RawEncoder(out, item_bytes=8), rng.random(COUNT).tobytes())
    prices = (rng.lognormal(7, 1.5, COUNT) // 1).astype(np.float64).tobytes()
    for compression in Compression:
        if compression is not Compression.NONE:
            compress(compression, prices)


if __name__ == "__main__":
    main()
