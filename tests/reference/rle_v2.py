"""Integer run lengths, version 2 (specification: "Integer Run Length Encoding, version 2").

`decode` reads every form. Each sub-encoding has an encoder of its own that can be told what an optimising
writer would choose for itself (widths, patches, the length), so that a test can produce every legal form,
also those that no known writer emits. `encode` puts them together plainly.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from .errors import Malformed
from .varint import read_varint64, unzigzag, wrap, write_signed, write_varint, zigzag

WIDTHS: tuple[int, ...] = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
"""Widths in bits by their 5-bit code; code 0 is 0 bits in a delta run."""
MAX_RUN = 512


def closest_fixed_bits(bits: int) -> int:
    """The smallest legal width that holds `bits` bits (at least 1)."""
    return next(width for width in WIDTHS if width >= max(bits, 1))


def pack(values: Sequence[int], width: int) -> bytes:
    """Unsigned `values`, `width` bits each, big endian, padded to the next byte."""
    if not values or not width:
        return b""
    number = 0
    for value in values:
        assert 0 <= value < 1 << width, (value, width)
        number = number << width | value
    bits = width * len(values)
    pad = -bits % 8
    return (number << pad).to_bytes((bits + pad) // 8, "big")


def unpack(data: bytes, at: int, count: int, width: int) -> tuple[list[int], int]:
    if not width:
        return [0] * count, at
    stop = at + (count * width + 7) // 8
    if stop > len(data):
        raise Malformed("packed values run past the end")
    number = int.from_bytes(data[at:stop], "big")
    bits = (stop - at) * 8
    mask = (1 << width) - 1
    return [number >> (bits - width * (i + 1)) & mask for i in range(count)], stop


def _unsigned(value: int, signed: bool) -> int:
    return zigzag(value) if signed else value & (1 << 64) - 1


def _header(kind: int, width_code: int, length: int) -> bytes:
    assert 1 <= length <= MAX_RUN
    return bytes((kind << 6 | width_code << 1 | (length - 1) >> 8, (length - 1) & 0xFF))


def short_repeat(value: int, count: int, *, signed: bool, width_bytes: int | None = None) -> bytes:
    """3 to 10 times one value."""
    assert 3 <= count <= 10
    number = _unsigned(value, signed)
    size = width_bytes or max(1, (number.bit_length() + 7) // 8)
    return bytes(((size - 1) << 3 | count - 3,)) + number.to_bytes(size, "big")


def direct(values: Sequence[int], *, signed: bool, width: int | None = None) -> bytes:
    """1 to 512 values of one width; `width` is any of `WIDTHS` that holds them."""
    numbers = [_unsigned(value, signed) for value in values]
    width = width or closest_fixed_bits(max(number.bit_length() for number in numbers))
    return _header(1, WIDTHS.index(width), len(values)) + pack(numbers, width)


def patched_base(
    values: Sequence[int],
    *,
    base: int | None = None,
    base_bytes: int | None = None,
    width: int | None = None,
    gap_width: int | None = None,
    patch_width: int | None = None,
) -> bytes:
    """1 to 512 values over a base, those wider than `width` patched; signed and unsigned are the same.

    A gap of more than 255 items (or more than `gap_width` allows) goes through patches of 0.
    """
    base = min(values) if base is None else base
    reduced = [value - base for value in values]
    assert min(reduced) >= 0
    if width is None:
        ordered = sorted(reduced)
        width = closest_fixed_bits(ordered[int(0.95 * (len(ordered) - 1))].bit_length())
    patches = [(i, value >> width) for i, value in enumerate(reduced) if value >> width]
    gaps: list[tuple[int, int]] = []
    last = 0
    for i, patch in patches:
        gap = i - last
        while gap > 255:
            gaps.append((255, 0))
            gap -= 255
        gaps.append((gap, patch))
        last = i
    widest_gap = max((gap for gap, _ in gaps), default=0)
    gap_width = gap_width or max(1, widest_gap.bit_length())
    widest_patch = max((patch for _, patch in gaps), default=0)
    patch_width = patch_width or closest_fixed_bits(widest_patch.bit_length())
    assert len(gaps) <= 31 and gap_width <= 8 and gap_width + patch_width <= 64
    size = base_bytes or max(1, (abs(base).bit_length() + 8) // 8)
    sign = 1 << (8 * size - 1) if base < 0 else 0
    assert abs(base) < 1 << (8 * size - 1)
    entry = closest_fixed_bits(gap_width + patch_width)
    return b"".join(
        (
            _header(2, WIDTHS.index(width), len(values)),
            bytes((size - 1 << 5 | WIDTHS.index(patch_width), gap_width - 1 << 5 | len(gaps))),
            (abs(base) | sign).to_bytes(size, "big"),
            pack([value & (1 << width) - 1 for value in reduced], width),
            pack([gap << patch_width | patch for gap, patch in gaps], entry),
        )
    )


def delta(values: Sequence[int], *, signed: bool, width: int | None = None) -> bytes:
    """1 to 512 values that only rise or only fall; `width` 0 demands one fixed delta."""
    deltas = [b - a for a, b in pairwise(values)]
    first = deltas[0] if deltas else 0
    rest = [abs(step) for step in deltas[1:]]
    assert all(step == 0 or (step > 0) == (first >= 0) for step in deltas)
    fixed = all(step == first for step in deltas)
    if width is None:
        # One bit cannot be told apart from none in the header's table, so it is stored as two.
        width = 0 if fixed else max(2, closest_fixed_bits(max(rest).bit_length()))
    assert width != 1 and (width or fixed)
    code = WIDTHS.index(width) if width else 0
    base = write_signed(values[0]) if signed else write_varint(values[0] & (1 << 64) - 1)
    return _header(3, code, len(values)) + base + write_signed(first) + pack(rest if width else [], width)


def encode(values: Sequence[int], *, signed: bool) -> bytes:
    """Every form where it fits, plainly: repeats, fixed and varying deltas, patches, else direct."""
    out = bytearray()
    at = 0
    while at < len(values):
        length = 1
        while at + length < len(values) and length < MAX_RUN and values[at + length] == values[at]:
            length += 1
        if 3 <= length <= 10:
            out += short_repeat(values[at], length, signed=signed)
        elif length > 10:
            out += delta(values[at : at + length], signed=signed)
        else:
            length = min(MAX_RUN, len(values) - at)
            part = values[at : at + length]
            steps = [b - a for a, b in pairwise(part)]
            if steps and steps[0] and all(step * steps[0] >= 0 and abs(step) < 1 << 62 for step in steps):
                out += delta(part, signed=signed)
            else:
                out += direct(part, signed=signed)
        at += length
    return bytes(out)


def decode(data: bytes, count: int, *, signed: bool) -> list[int]:
    values: list[int] = []
    at = 0
    while len(values) < count:
        if at >= len(data):
            raise Malformed("integer runs end early")
        more, at = decode_run(data, at, signed=signed)
        values += more
    return values[:count]


def decode_run(data: bytes, at: int, *, signed: bool) -> tuple[list[int], int]:
    """The run at `at`, whole, and where it ends."""
    kind = data[at] >> 6
    if kind == 0:
        size = (data[at] >> 3 & 7) + 1
        count = (data[at] & 7) + 3
        raw = _take(data, at + 1, size)
        number = int.from_bytes(raw, "big")
        value = wrap(unzigzag(number) if signed else number)
        return [value] * count, at + 1 + size
    head = _take(data, at, 2)
    code = head[0] >> 1 & 31
    length = ((head[0] & 1) << 8 | head[1]) + 1
    at += 2
    if kind == 1:
        numbers, at = unpack(data, at, length, WIDTHS[code])
        return [wrap(unzigzag(n) if signed else n) for n in numbers], at
    if kind == 2:
        return _patched(data, at, length, WIDTHS[code])
    number, at = read_varint64(data, at)
    base = unzigzag(number) if signed else number
    number, at = read_varint64(data, at)
    first = unzigzag(number)
    values = [wrap(base)]
    if code == 0:
        values += [wrap(base + first * i) for i in range(1, length)]
        return values, at
    rest, at = unpack(data, at, max(length - 2, 0), WIDTHS[code])
    for step in [first] + [-step if first < 0 else step for step in rest]:
        values.append(wrap(values[-1] + step))
    return values[:length], at


def _patched(data: bytes, at: int, length: int, width: int) -> tuple[list[int], int]:
    head = _take(data, at, 2)
    base_bytes = (head[0] >> 5) + 1
    patch_width = WIDTHS[head[0] & 31]
    gap_width = (head[1] >> 5) + 1
    patch_count = head[1] & 31
    if gap_width + patch_width > 64:
        raise Malformed("patch and gap are wider than 64 bits")
    at += 2
    base = int.from_bytes(_take(data, at, base_bytes), "big")
    sign = 1 << (8 * base_bytes - 1)
    if base & sign:
        base = -(base ^ sign)
    numbers, at = unpack(data, at + base_bytes, length, width)
    entries, at = unpack(data, at, patch_count, closest_fixed_bits(gap_width + patch_width))
    index = 0
    for entry in entries:
        index += entry >> patch_width
        patch = entry & (1 << patch_width) - 1
        if patch:
            if index >= length:
                raise Malformed("patch beyond the run")
            numbers[index] |= patch << width
    return [wrap(base + number) for number in numbers], at


def _take(data: bytes, at: int, size: int) -> bytes:
    if at + size > len(data):
        raise Malformed("run is cut off")
    return data[at : at + size]
