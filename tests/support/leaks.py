"""What a file tells of its encrypted columns to who has no keys: a search for traces of their values.

`clear_parts` is all that can be read, decompressed, and the file as it stands. `traces` are the bytes that
must not be found there: of the values themselves in every form in which they may stand in a file, and all
that a file without encryption holds of the same columns: streams, statistics, filters.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import numpy as np

from tests.support.reference import reader, wire
from tests.support.reference.encryption import BLOOMS, Locked
from tests.support.reference.types import T
from tests.support.reference.varint import write_varint

# Shorter bytes than these are found anywhere, in what is encrypted, too.
_LEAST_NUMBER = 4
_LEAST_TEXT = 5
_LEAST_STATISTICS = 4
_LEAST_STREAM = 12
_EPOCH_2015 = 1_420_070_400


def clear_parts(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Names and bytes."""
    locked = Locked(data)
    yield "the file", data
    yield "the footer", locked.footer_bytes
    yield "the metadata", locked.metadata_bytes
    for stripe in locked.stripes:
        yield "a stripe footer", locked.stripe_footer(stripe.span)
        for stream in stripe.streams:
            if stream.variant is None:
                yield f"stream {stream.kind} of column {stream.column}", locked.plain(stream, {})


def leaks(data: bytes, traces: Mapping[str, Iterable[bytes]]) -> list[str]:
    """What is found, and where."""
    parts = [(where, part, _heads_of(part)) for where, part in clear_parts(data)]
    return [
        f"{what} in {where}: {trace[:40]!r}"
        for what, found in traces.items()
        for where, part, heads in parts
        for trace in _candidates(sorted(set(found)), heads)
        if trace in part
    ]


def _heads_of(part: bytes) -> Any:
    """Every four bytes that follow each other in it, as sorted numbers."""
    data = np.frombuffer(part, np.uint8).astype(np.uint32)
    if len(data) < _LEAST_NUMBER:
        return np.empty(0, np.uint32)
    return np.unique(data[:-3] | data[1:-2] << 8 | data[2:-1] << 16 | data[3:] << 24)


def _candidates(traces: list[bytes], heads: Any) -> list[bytes]:
    """Those whose first four bytes are somewhere: a search for each of them would take minutes."""
    first = np.array([int.from_bytes(trace[:_LEAST_NUMBER], "little") for trace in traces], np.uint32)
    return [traces[index] for index in np.flatnonzero(np.isin(first, heads))]


# --- of values -------------------------------------------------------------------------------------


def traces_of_values(type_: T, values: Iterable[Any]) -> set[bytes]:
    """The values of a column of one of the plain types, in every form in which a file may have them."""
    there = [value for value in values if value is not None]
    found: set[bytes] = set()
    for value in there:
        found.update(_forms(type_, value))
    numbers = [value for value in there if isinstance(value, int | float | Decimal)]
    if numbers and type_.kind not in ("date", "boolean") and not type_.kind.startswith("timestamp"):
        found.update(_forms(type_, sum(numbers)))
    return {form for form in found if len(form) >= _LEAST_NUMBER}


def _forms(type_: T, value: Any) -> Iterator[bytes]:
    if isinstance(value, str):
        if len(value.encode()) >= _LEAST_TEXT:
            yield value.encode()
    elif isinstance(value, bytes):
        yield value
    elif isinstance(value, float):
        yield struct.pack("<d", value)
        yield struct.pack(">d", value)
        if type_.kind == "float":
            yield struct.pack("<f", value)
    elif isinstance(value, Decimal):
        yield format(value, "f").rstrip("0").encode()
        yield from _integer_forms(int(value.scaleb(type_.scale or 0)))
    elif type_.kind.startswith("timestamp"):
        yield from _integer_forms(value // 1_000_000)  # milliseconds, in statistics
        yield from _integer_forms(value // 1_000_000_000 - _EPOCH_2015)
    else:
        yield from _integer_forms(value)


def _integer_forms(value: int) -> Iterator[bytes]:
    zigzag = 2 * value if value >= 0 else -2 * value - 1
    yield write_varint(zigzag)
    yield str(value).encode()
    for width in (4, 8):
        if zigzag < 1 << (8 * width - 1):
            yield zigzag.to_bytes(width, "big").lstrip(b"\0")
            if zigzag >= 1 << (8 * width - 16):
                yield value.to_bytes(width, "little", signed=True)


# --- of files --------------------------------------------------------------------------------------


def traces_of_file(data: bytes, columns: set[int]) -> dict[str, set[bytes]]:
    """What a file that is not encrypted holds of some columns."""
    locked = Locked(data)
    assert not locked.variants
    found: dict[str, set[bytes]] = {"streams": set(), "filters": set(), "statistics": set()}
    for stripe in locked.stripes:
        for stream in stripe.streams:
            if stream.column not in columns:
                continue
            plain = locked.plain(stream, {})
            if stream.kind == reader.ROW_INDEX:
                for entry in map(wire.parse, wire.blobs(wire.parse(plain), 1)):
                    found["statistics"].update(_bounds(wire.blob(entry, 2)))
            elif stream.kind in BLOOMS:
                found["filters"].update(_bits(plain))
            else:
                found["streams"].update(
                    part for part in (plain, stream.data) if len(part) >= _LEAST_STREAM and any(part)
                )
    for stripe_statistics in wire.blobs(wire.parse(locked.metadata_bytes), 1):
        found["statistics"].update(_statistics(wire.blobs(wire.parse(stripe_statistics), 1), columns))
    found["statistics"].update(_statistics(wire.blobs(locked.footer, 7), columns))
    return found


def _statistics(by_column: list[bytes], columns: set[int]) -> set[bytes]:
    return {part for column in columns for part in _bounds(by_column[column])}


def _bounds(statistics: bytes) -> set[bytes]:
    """Minima, maxima, sums: what statistics have besides their counts."""
    parts = wire.parse(statistics)
    found = {blob for key, values in parts.items() if key != 10 for blob in values if isinstance(blob, bytes)}
    return {blob for blob in found if len(blob) >= _LEAST_STATISTICS}


def _bits(index: bytes) -> set[bytes]:
    """The words of filters, two at a time, as long as they have bits."""
    found = set()
    for bloom in map(wire.parse, wire.blobs(wire.parse(index), 1)):
        bits = wire.blob(bloom, 3) or b"".join(
            word.to_bytes(8, "little") if isinstance(word, int) else word for word in bloom.get(2, [])
        )
        pairs = [bits[at : at + 16] for at in range(0, len(bits) - 15, 8)]
        found.update(pair for pair in pairs if all(map(any, (pair[:8], pair[8:]))))
    return found
