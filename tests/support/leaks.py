"""What a file tells of its encrypted columns to who has no keys: a search for traces of their values.

`clear_parts` is all that can be read, decompressed, and the file as it stands. `traces` are the bytes that
must not be found there: of the values themselves in every form in which they may stand in a file, and all
that a file without encryption holds of the same columns: streams, statistics, filters.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal, localcontext
from typing import Any

import numpy as np

from tests.reference import reader, wire
from tests.reference.encryption import BLOOMS, Locked
from tests.reference.types import T
from tests.reference.values import EXACT
from tests.reference.varint import write_varint

# Shorter bytes than these are found anywhere, in what is encrypted, too.
_LEAST_NUMBER = 5
_LEAST_STATISTICS = 5
_LEAST_STREAM = 12
# Between the words of filters in their original form.
_TAG_OF_WORDS = b"\x11"
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
    """What is found, and where: one place for each kind of trace."""
    parts = list(clear_parts(data))
    wanted = {what: sorted(found) for what, found in traces.items()}
    first = {what: _concatenated(trace[:4] for trace in found) for what, found in wanted.items()}
    # A search for each of them would take minutes, and so would sorting all that is searched.
    slots = np.zeros(1 << 24, np.bool_)
    for starts in first.values():
        slots[_slot(starts)] = True
    everything = _concatenated(part for _, part in parts)
    everything = np.unique(everything[slots[_slot(everything)]])
    leaked = []
    for what, found in wanted.items():
        for index in np.flatnonzero(np.isin(first[what], everything)):
            place = next((where for where, part in parts if found[index] in part), None)
            if place is not None:
                leaked.append(f"{what} in {place}: {found[index]!r:.80}")
                break
    return leaked


def _slot(fours: Any) -> Any:
    """Numbers spread over 24 bits."""
    return (fours * np.uint32(2_654_435_761)) >> np.uint32(8)


def _concatenated(parts: Iterable[bytes]) -> Any:
    return np.concatenate([np.empty(0, np.uint32), *map(_fours, parts)])


def _fours(part: bytes) -> Any:
    """Every four bytes that follow each other, as numbers."""
    data = np.frombuffer(part, np.uint8).astype(np.uint32)
    if len(data) < 4:
        return np.empty(0, np.uint32)
    return data[:-3] | data[1:-2] << 8 | data[2:-1] << 16 | data[3:] << 24


# --- of values -------------------------------------------------------------------------------------


def traces_of_values(type_: T, values: Iterable[Any]) -> set[bytes]:
    """The values of a column of one of the plain types, in every form in which a file may have them."""
    there = [value for value in values if value is not None]
    found: set[bytes] = set()
    for value in there:
        found.update(_forms(type_, value))
    numbers = [value for value in there if isinstance(value, int | float | Decimal)]
    if numbers and type_.kind not in ("date", "boolean") and not type_.kind.startswith("timestamp"):
        with localcontext(EXACT):
            found.update(_forms(type_, sum(numbers)))
    return {form for form in found if len(form) >= _LEAST_NUMBER}


def _forms(type_: T, value: Any) -> Iterator[bytes]:
    if isinstance(value, str):
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
        yield from _integer_forms(int(value.scaleb(type_.scale or 0, EXACT)))
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
    found: set[bytes] = set()
    for bloom in map(wire.parse, wire.blobs(wire.parse(index), 1)):
        bits = wire.blob(bloom, 3)
        words, between = [bits[at : at + 8] for at in range(0, len(bits), 8)], b""
        if not words:
            words, between = wire.blobs(bloom, 2), _TAG_OF_WORDS
        found.update(between.join(pair) for pair in itertools.pairwise(words) if all(map(any, pair)))
    return found
