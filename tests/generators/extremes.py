"""Files whose metadata go to extremes: numbers as large as their field allows, and parts by the thousand.

The wire format is kept, and so are the lengths of what lies around the changed part, so that readers get as
far as they can. What is changed is compressed again: a small file may claim much.
"""

from __future__ import annotations

import random
from typing import TypeAlias

from tests.reference import compression, wire
from tests.reference.errors import Malformed
from tests.reference.varint import read_varint, write_varint

# Field number, wire type, value.
_Part: TypeAlias = tuple[int, int, int | bytes]

NUMBERS = (
    0,
    1,
    127,
    1 << 16,
    (1 << 31) - 1,
    1 << 32,
    1 << 40,
    1 << 53,
    1 << 62,
    (1 << 63) - 1,
    (1 << 64) - 1,
)
_MOST_BYTES = 1 << 20
_STRIPE, _STREAM = 3, 1  # in a footer, and in a stripe footer
_INDEXES = (6, 7, 8)


def parts_of(data: bytes) -> list[_Part]:
    """The fields of a message in their order. Raises Malformed."""
    found: list[_Part] = []
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        if key & 7 == 0:
            value, at = read_varint(data, at)
            found.append((key >> 3, 0, value))
            continue
        size = {1: 8, 5: 4}.get(key & 7, -1)
        if key & 7 == 2:
            size, at = read_varint(data, at)
        if size < 0 or at + size > len(data) or key < 8:
            raise Malformed("no message")
        found.append((key >> 3, key & 7, data[at : at + size]))
        at += size
    return found


def message_of(parts: list[_Part]) -> bytes:
    out = bytearray()
    for number, kind, value in parts:
        out += write_varint(number << 3 | kind)
        if isinstance(value, int):
            out += write_varint(value)
        else:
            out += (write_varint(len(value)) if kind == 2 else b"") + value
    return bytes(out)


def driven(message: bytes, rng: random.Random) -> bytes:
    """The message with one field, at any depth, at an extreme: its number, its length, or its repetitions."""
    try:
        parts = parts_of(message)
    except (Malformed, IndexError):
        parts = []
    if not parts:  # packed numbers, or a text
        item = write_varint(rng.choice(NUMBERS))
        return rng.choice([b"", item + message, item * rng.choice([2, 1000, _MOST_BYTES // len(item)])])
    at = rng.randrange(len(parts))
    number, kind, value = parts[at]
    if rng.random() < 0.3:
        most = max(1, _MOST_BYTES // (len(value) + 2 if isinstance(value, bytes) else 4))
        parts[at:at] = [parts[at]] * min(most, 1 << rng.randrange(1, 20))
    elif isinstance(value, int):
        parts[at] = number, kind, rng.choice(NUMBERS)
    elif kind == 2:
        parts[at] = number, kind, driven(value, rng)
    else:
        parts[at] = number, kind, rng.choice([bytes(len(value)), b"\xff" * len(value)])
    return message_of(parts)


def extreme(data: bytes, rng: random.Random) -> bytes:
    """A sound file with one or two extremes in one of its messages. Raises Malformed for what is none."""
    start = len(data) - 1 - data[-1]
    postscript = wire.parse(data[start:-1])
    kind, block = wire.number(postscript, 2), wire.number(postscript, 3) or 1 << 18
    footer_start = start - wire.number(postscript, 1)
    metadata_start = footer_start - wire.number(postscript, 5)
    body = data[:metadata_start]
    metadata = compression.unframe(data[metadata_start:footer_start], kind, block)
    footer = compression.unframe(data[footer_start:start], kind, block)
    ending = data[start:-1]
    target = rng.choice(["postscript", "footer", "metadata", "stripe", "index"])
    for _ in range(rng.choice([1, 1, 2])):
        if target == "footer":
            footer = driven(footer, rng)
        elif target == "metadata":
            metadata = driven(metadata, rng)
    if target in ("stripe", "index"):
        body, footer = _with_stripe(body, footer, kind, block, rng, is_index=target == "index")
    framed = [compression.frame(part, kind, block) if part else b"" for part in (metadata, footer)]
    ending = _with(ending, {1: len(framed[1]), 5: len(framed[0])})
    if target == "postscript":
        ending = driven(ending, rng)[:255]
    return body + framed[0] + framed[1] + ending + bytes((len(ending),))


def _with(message: bytes, numbers: dict[int, int]) -> bytes:
    """The message with other values of some of its fields."""
    parts = parts_of(message)
    kept: list[_Part] = [(at, kind, numbers.get(at, value)) for at, kind, value in parts]
    return message_of(kept)


def _with_stripe(
    body: bytes, footer: bytes, kind: int, block: int, rng: random.Random, *, is_index: bool
) -> tuple[bytes, bytes]:
    """The file's last stripe, rewritten; and the footer that says where its parts are."""
    parts = parts_of(footer)
    places = [at for at, (number, type_, _) in enumerate(parts) if (number, type_) == (_STRIPE, 2)]
    if not places:
        return body, footer
    place = parts[places[-1]][2]
    assert isinstance(place, bytes)
    span = wire.parse(place)
    start, index, data, size = (wire.number(span, number) for number in (1, 2, 3, 4))
    indexes, rows = body[start : start + index], body[start + index : start + index + data]
    end = start + index + data
    message = compression.unframe(body[end : end + size], kind, block)
    if is_index:
        indexes, message = _with_index(indexes, message, kind, block, rng)
    else:
        message = driven(message, rng)
    framed = compression.frame(message, kind, block)
    parts[places[-1]] = (_STRIPE, 2, _with(place, {2: len(indexes), 4: len(framed)}))
    return body[:start] + indexes + rows + framed, message_of(parts)


def _with_index(
    indexes: bytes, message: bytes, kind: int, block: int, rng: random.Random
) -> tuple[bytes, bytes]:
    parts = parts_of(message)
    at, found = 0, []
    for place, (number, type_, value) in enumerate(parts):
        if (number, type_) != (_STREAM, 2) or not isinstance(value, bytes):
            continue
        stream = wire.parse(value)
        length = wire.number(stream, 3)
        if wire.number(stream, 1) in _INDEXES and length:
            found.append((place, at, length, value))
        at += length
    if not found:
        return indexes, message
    place, at, length, value = rng.choice(found)
    plain = compression.unframe(indexes[at : at + length], kind, block)
    framed = compression.frame(driven(plain, rng), kind, block)
    parts[place] = (_STREAM, 2, _with(value, {3: len(framed)}))
    return indexes[:at] + framed + indexes[at + length :], message_of(parts)
