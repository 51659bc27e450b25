"""Our encoders for tests: whole streams from lists, with the position before each part."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from typing_extensions import Buffer

from orcstream.codec.encode._column import EncodeTask, Round
from orcstream.codec.encode._source import SourceTree
from orcstream.codec.encode.encoders import encoder_of as column_encoder_of
from orcstream.codec.encode.options import EncodeOptions
from orcstream.codec.metadata.bloom import BloomFilter
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
from orcstream.codec.vectors._selection import select_mask
from orcstream.codec.vectors.cells import Cells
from orcstream.codec.vectors.gather import compact

LOW, HIGH = -(1 << 63), (1 << 63) - 1
EDGES = (0, 1, -1, 127, 128, -128, 255, 1 << 31, 1 << 32, 1 << 55, 1 << 56, HIGH - 1, HIGH, LOW, LOW + 1)
PLAIN = Compression.NONE


@dataclass(frozen=True)
class Encoded:
    """A finished stream, and for the start of each part: its position, and what a row index entry says."""

    data: bytes
    positions: list[tuple[int, ...]]
    entries: list[tuple[int, ...]]


def encoder_of(encoding: str, out: OutStream, *, signed: bool, aligned: bool) -> Encoder:
    """`encoding` as `kernels.Fed` names them."""
    if encoding == "rle_v2":
        return IntEncoder(out, signed=signed, aligned=aligned)
    if encoding == "rle_v1":
        return IntEncoderV1(out, signed=signed)
    if encoding == "byte":
        return ByteEncoder(out)
    if encoding == "boolean":
        return BoolEncoder(out)
    if encoding == "varint128":
        return Varint128Encoder(out)
    return RawEncoder(out, item_bytes=int(encoding.removeprefix("raw")))


def packed(encoding: str, values: Sequence[int]) -> bytes:
    """Values as encoders take them."""
    if encoding in ("byte", "boolean"):
        return bytes(values)
    if encoding == "varint128":
        return b"".join(value.to_bytes(16, "little", signed=True) for value in values)
    if encoding.startswith("raw"):
        width = int(encoding.removeprefix("raw"))
        return b"".join(value.to_bytes(width, "little") for value in values)
    return np.array(values, np.int64).tobytes()


def encode(
    encoding: str,
    values: Sequence[int],
    parts: Sequence[int] = (),
    *,
    signed: bool = False,
    aligned: bool = True,
    compression: Compression = PLAIN,
    block_size: int = 1 << 18,
) -> Encoded:
    """The values in parts of the given sizes, the rest as the last; the last position is the stream's end."""
    compressor = None if compression is PLAIN else Compressor(compression)
    out = OutStream(compressed=compressor is not None, block_size=block_size)
    encoder = encoder_of(encoding, out, signed=signed, aligned=aligned)
    data, positions = bytearray(), []
    starts = [0, *itertools.accumulate(parts), len(values)]
    for start, stop in itertools.pairwise(starts):
        positions.append(encoder.position)
        encoder.put(packed(encoding, values[start:stop]), stop - start)
        out.compress(compressor)
        data += b"".join(bytes(piece) for piece in out.drain())
    positions.append(encoder.position)
    encoder.flush()
    out.finish(compressor)
    data += b"".join(bytes(piece) for piece in out.drain())
    assert (out.size_bytes, out.held_bytes) == (len(data), 0)
    return Encoded(bytes(data), positions, [(*place_of(out, place), *rest) for place, *rest in positions])


def place_of(out: OutStream, stream_offset: int) -> tuple[int, ...]:
    """Where a byte stands in a finished stream: one number, or two where it is compressed."""
    found = out.places(np.array([stream_offset], np.int64))
    return tuple(np.frombuffer(memoryview(found), np.int64).tolist())


def chunk_of(compressor: Compressor, block: Buffer) -> bytes | None:
    """The chunk of a block, with its header; None where compression does not make it shorter."""
    out = OutStream(compressed=True, block_size=max(1, memoryview(block).nbytes))
    out.write(block)
    out.finish(compressor)
    chunk = b"".join(bytes(piece) for piece in out.drain())
    return None if chunk[0] & 1 else chunk


def filter_of(cells: Sequence[Cells], entries: int, share: float = 0.05) -> BloomFilter:
    """The filter of a row group that has all these values of a column."""
    type_ = cells[0].field.type
    options = EncodeOptions(row_index_stride=entries, blooms={type_.column_id: share})
    encoder = column_encoder_of(type_, options)
    for number, one in enumerate(cells):
        mask = None if one.mask is None else select_mask(one.mask.view(np.uint8), one.vector.length)
        vector = compact([(one.vector, mask)], one.field)
        cut = (0, vector.length, number == 0, number == len(cells) - 1)
        Round([EncodeTask(encoder, SourceTree(one.field, vector), np.array([cut], np.int64))]).run(
            Compressor(options.compression).packer
        )
    return BloomFilter(encoder.filter(0), encoder.hash_count)


def split(rng: random.Random, count: int, most: int = 700) -> list[int]:
    """Sizes of parts that together are at most `count`; some are empty."""
    sizes: list[int] = []
    while (left := count - sum(sizes)) > 0:
        sizes.append(min(left, rng.choice((0, 1, 2, 3, 10, rng.randint(1, most)))))
    return sizes


def integers(rng: random.Random, count: int, *, least: int = LOW, most: int = HIGH) -> list[int]:
    """Stretches of every texture that makes an encoder choose another form, each of any length."""
    out: list[int] = []
    while len(out) < count:
        length = rng.choice((1, 2, 3, 4, 9, 10, 11, 100, 509, 510, 511, 512, 513, rng.randint(1, 1200)))
        out += _stretch(rng, length)
    span = most - least + 1
    return [value if least <= value <= most else least + (value - least) % span for value in out[:count]]


def _stretch(rng: random.Random, length: int) -> list[int]:
    texture = rng.randrange(9)
    width = rng.randint(1, 63)
    base = rng.choice((0, rng.choice(EDGES), rng.randint(-(1 << width), 1 << width)))
    if texture == 0:
        return [rng.choice((base, rng.choice(EDGES)))] * length
    if texture == 1:
        return [rng.randint(-(1 << width), 1 << width) for _ in range(length)]
    if texture == 2:
        return [rng.randrange(1 << width) for _ in range(length)]
    if texture == 3:  # fixed steps, which may run over the edge
        step = rng.choice((1, -1, 2, 127, -128, 129, rng.randint(-(1 << width), 1 << width)))
        return [base + step * index for index in range(length)]
    if texture == 4:  # only rising or falling
        sign = rng.choice((1, -1))
        steps = itertools.accumulate(rng.randrange(1 << width // 8) for _ in range(length))
        return [base + sign * value for value in steps]
    if texture == 5:  # outliers over a base, few or many
        share, wide = rng.choice((0.01, 0.04, 0.06, 0.12)), rng.randint(width, 63)
        return [
            base + (rng.randrange(1 << wide) if rng.random() < share else rng.randrange(1 << width // 4))
            for _ in range(length)
        ]
    if texture == 6:  # one outlier, anywhere: gaps of more than 255
        values = [base + rng.randrange(8) for _ in range(length)]
        values[rng.choice((0, -1, rng.randrange(length)))] += 1 << width
        return values
    if texture == 7:
        return [rng.choice(EDGES) for _ in range(length)]
    repeated = [[rng.randint(-1000, 1000)] * rng.randint(1, 12) for _ in range(length)]
    return list(itertools.chain.from_iterable(repeated))[:length]
