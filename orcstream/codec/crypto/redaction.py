"""The mask "redact": what its parameters mean, and what it makes of the values of each type.

Knows parameters, classes of characters and how numbers are written; the loops over characters and dates are
in `_mask`. Must not know nested types (`codec.crypto.masks` takes them apart) nor files. Contract of the
leaves: a vector of the same field and as many rows, null where the values are, in memory of its own, and
beneath nulls nothing of what stood there. The values are those of ORC Java's `RedactMaskFactory`;
docs/masks.md lists where they are not.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from orcstream.codec.convert import _format, _parse
from orcstream.codec.convert.zone_shift import instant_shift, wall_clock_shift
from orcstream.codec.crypto._mask import redact_days, redact_texts
from orcstream.codec.ingest.refusals import too_large
from orcstream.codec.vectors.column import (
    DTYPES,
    Array,
    Field,
    Mask,
    Vector,
    as_buffer,
    bits_of,
    items_of,
    nulls_where,
    pack,
    validity_bits,
    window,
    words_of,
)
from orcstream.codec.vectors.times import ZoneRules, units_of
from orcstream.errors import UsageError
from orcstream.schema.types import Kind, decimal_shape

if TYPE_CHECKING:
    from typing_extensions import Buffer

Leaf: TypeAlias = Callable[[Field, Vector], Vector]
_Valid: TypeAlias = Mask | None

_KEEP = "_"
# What replaces characters, in the order of the parameter, and their general categories.
_DEFAULTS = "Xx9$._\u00aa\u0903\u00b2\u06dd"
_CATEGORIES = (
    ("Lu",),
    ("Ll",),
    ("Nd",),
    ("Sm", "Sc", "Sk", "So"),
    ("Pd", "Ps", "Pe", "Pc", "Po"),  # quotation marks are of the last class, for ORC Java
    ("Zs", "Zl", "Zp"),
    ("Lt", "Lm", "Lo"),
    ("Mn", "Me", "Mc"),
    ("Nl", "No"),
)
# Of these classes, digits and whatever is in none of them.
_DIGIT, _OTHER = 2, 9

# Where Unicode has characters that are not of the last class; the rest is empty, or for private use.
_USED = (range(0x40000), range(0xE0000, 0xE1000))
_CODE_POINTS, _BLOCK = 0x110000, 256

# Year, month, day, hour, minute, second: the largest that each may be, and what replaces it.
_MOST = (4000, 12, 31, 23, 59, 59)
_PARTS = (-1, 1, 1, 0, 0, 0)
_RANGE = re.compile(r"\s*([+-]?[0-9]{1,9}):([+-]?[0-9]{1,9})\s*", re.ASCII)

_POWERS = np.array([10**n for n in range(1, 19)], "u8")
_ONES = np.array([int("1" * n) for n in range(1, 20)], "i8")
# What stands for numbers that are none when their digits are replaced, times the digit.
_NO_NUMBER = int("1" * 18)
_DOUBLE_POWERS = np.array([float(f"1e{n}") for n in range(-308, 308)])
_DOUBLE_ONES = 1.11111  # six figures, times the digit

_PIECE_ROWS = 1 << 18

_DAY_SECONDS = 86_400
# Beyond them seconds have no 64 bits.
_FAR_DAYS = (1 << 63) // _DAY_SECONDS - 1


class _Classes(NamedTuple):
    """The class of each code point: blocks of 256 of them, and of each 256 which block is theirs."""

    blocks: NDArray[np.uint16]
    classes: NDArray[np.uint8]


@cache
def _classes() -> _Classes:
    """By the general categories of Python's edition of Unicode."""
    number_of = {name: number for number, names in enumerate(_CATEGORIES) for name in names}
    found = np.full(_CODE_POINTS, _OTHER, "u1")
    for used in _USED:
        names = map(unicodedata.category, map(chr, used))
        found[used.start : used.stop] = np.frombuffer(
            bytes(number_of.get(name, _OTHER) for name in names), "u1"
        )
    numbers: dict[bytes, int] = {}
    rows = [row.tobytes() for row in found.reshape(-1, _BLOCK)]
    blocks = np.array([numbers.setdefault(row, len(numbers)) for row in rows], "u2")
    return _Classes(blocks, np.frombuffer(b"".join(numbers), "u1"))


# --- parameters ------------------------------------------------------------------------------------


def redaction_of(parameters: Sequence[str]) -> Redaction:
    """The meaning of the parameters: replacements of characters, of parts of times, ranges of what stays.

    Raises UsageError for parameters that mean nothing.
    """
    if len(parameters) > 3:
        raise UsageError(f"the mask 'redact' has at most 3 parameters, not {len(parameters)}")
    characters, parts, ranges = (*parameters, "", "", "")[:3]
    return Redaction(_characters(characters), _parts(parts), _ranges(ranges))


def _characters(text: str) -> tuple[int, ...]:
    if len(text) > len(_DEFAULTS):
        raise UsageError(
            f"the replacements {text!r:.100} of the mask 'redact' are more than {len(_DEFAULTS)}: of upper "
            "case, lower case, digits, symbols, punctuation, separators, other letters, marks, other numbers "
            "and the rest"
        )
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise UsageError(f"the replacements {text!r:.100} of the mask 'redact' are no text")
    return tuple(-1 if one == _KEEP else ord(one) for one in text + _DEFAULTS[len(text) :])


def _parts(text: str) -> tuple[int, ...]:
    if not text.strip():
        return _PARTS
    words = re.split(r"\W+", text, flags=re.ASCII)
    if words[-1] == "":
        words.pop()
    if len(words) > len(_PARTS):
        raise UsageError(
            f"the mask 'redact' replaces {len(_PARTS)} parts of times (year, month, day, hour, minute, "
            f"second), and {text!r:.100} has {len(words)}"
        )
    return (*map(_part, words, _MOST), *_PARTS[len(words) :])


def _part(word: str, most: int) -> int:
    if word.startswith(_KEEP):
        return -1
    if not word.isdigit() or len(word) > 9 or int(word) > most:
        raise UsageError(
            f"the mask 'redact' replaces a part of times by a number up to {most} or '_', not by {word!r:.50}"
        )
    return int(word)


def _ranges(text: str) -> tuple[tuple[int, int], ...]:
    if not text.strip():
        return ()
    # One that begins like an earlier one replaces it.
    found: dict[int, int] = {}
    for pair in text.split(","):
        match = _RANGE.fullmatch(pair)
        if match is None:
            raise UsageError(f"the mask 'redact' keeps ranges such as '0:2,-4:-1', not {text!r:.100}")
        found[int(match[1])] = int(match[2])
    return tuple(found.items())


# --- values ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Redaction:
    """The parameters: -1 keeps a class of characters, or a part of times."""

    replacements: tuple[int, ...]
    parts: tuple[int, ...]
    ranges: tuple[tuple[int, int], ...]

    @property
    def keeps_days(self) -> bool:
        """Whether dates stay as they are."""
        return self.parts[:3] == (-1,) * 3

    @property
    def keeps_times(self) -> bool:
        """Whether times stay as they are."""
        return self.parts == (-1,) * 6

    def leaf(self, kind: Kind, zone: ZoneRules) -> Leaf | None:
        """What makes the values of a type without children; None where all become null."""
        keeps_digits = self.replacements[_DIGIT] < 0
        match kind:
            case Kind.STRING | Kind.CHAR | Kind.VARCHAR:
                return self._texts
            case Kind.BOOLEAN:
                return _kept_booleans if keeps_digits else self._booleans
            case Kind.BYTE | Kind.SHORT | Kind.INT | Kind.LONG:
                return _kept_numbers if keeps_digits else self._integers
            case Kind.FLOAT | Kind.DOUBLE:
                return _kept_numbers if keeps_digits else self._floats
            case Kind.DECIMAL:
                return _kept_decimals if keeps_digits else self._decimals
            case Kind.DATE:
                return _kept_numbers if self.keeps_days else self._dates
            case Kind.TIMESTAMP | Kind.TIMESTAMP_INSTANT:
                if self.keeps_times:
                    return _kept_numbers
                return lambda field, vector: self._timestamps(field, vector, zone)
        return None

    @property
    def _digit(self) -> int:
        """The digit that stands for those of a number: that of the replacement, 9 where it has none.

        Java knows the numbers of characters from the table of Unicode that has those of Han only where they
        are variants of others.
        """
        character = chr(self.replacements[_DIGIT])
        if unicodedata.category(character)[0] != "N" and not unicodedata.decomposition(character):
            return 9
        value = unicodedata.numeric(character, -1)
        return int(value) if 0 <= value <= 9 and value == int(value) else 9

    def _texts(self, field: Field, vector: Vector) -> Vector:
        valid = validity_bits(vector)
        texts = self._redacted(
            vector.buffers[1],
            vector.buffers[2],
            None if valid is None else vector.buffers[0],
            (vector.offset, vector.length),
            self.replacements,
            trims=field.type.kind is Kind.CHAR,
        )
        return _vector(valid, vector.length, *texts)

    def _redacted(
        self,
        offsets: Any,
        data: Any,
        bitmap: Any,
        rows: tuple[int, int],
        replacements: tuple[int, ...],
        *,
        trims: bool = False,
    ) -> tuple[Buffer, Buffer]:
        ranges = np.array(self.ranges, "i8").reshape(-1)
        replaced = np.array(replacements, "i8")
        try:
            return redact_texts(offsets, data, bitmap, *rows, *_classes(), replaced, ranges, trims)
        except OverflowError:
            raise too_large("too many bytes of masked text") from None

    def _digits_replaced(self, texts: tuple[Any, Any], count: int, replacement: int) -> tuple[Array, Array]:
        """Numbers as text, whose digits are replaced where they are not kept."""
        keeping = (*(-1,) * _DIGIT, replacement, *(-1,) * (_OTHER - _DIGIT))
        offsets, data = self._redacted(*texts, None, (0, count), keeping)
        return window(offsets, "i4", 0, count + 1), np.frombuffer(memoryview(data), "u1")

    # --- numbers

    def _booleans(self, field: Field, vector: Vector) -> Vector:  # noqa: ARG002
        valid, held = validity_bits(vector), np.full(vector.length, self._digit != 0)
        return _vector(valid, vector.length, pack(held if valid is None else held & valid))

    def _integers(self, field: Field, vector: Vector) -> Vector:
        dtype = DTYPES[field.type.kind]
        valid, values = validity_bits(vector), items_of(vector, dtype)
        wide = values.astype("i8")
        masked = _in_pieces(self._some_digits, wide) if self.ranges else self._all_digits(wide)
        # What has more digits than its type holds keeps the lower bits, as readers of Java's files do.
        return _fixed(valid, masked.astype(dtype))

    def _all_digits(self, values: Array) -> Array:
        digit = self._digit
        ones = _ONES.copy()
        if digit == 9:  # 19 nines are no 64 bits
            ones[-1] = ones[-2]
        ones *= digit
        # The least number has no counterpart in 64 bits with a sign, but without.
        masked = ones[np.searchsorted(_POWERS, np.abs(values).view("u8"), side="right")]
        return np.where(values < 0, -masked, masked)

    def _some_digits(self, values: Array) -> Array:
        count = len(values)
        read = np.ones(count, "u1")
        replacement, digit = self.replacements[_DIGIT], self._digit
        # Java reads decimal digits of any script that has 16 bits for them.
        if replacement < 0x10000 and unicodedata.decimal(chr(replacement), None) is not None:
            replacement = ord("0") + digit
        texts = self._digits_replaced(_format.format_ints(values, read), count, replacement)
        masked = window(_parse.parse_ints(*texts, read), "i8", 0, count)
        return np.where(read.view(np.bool_), masked, _NO_NUMBER * digit)

    def _floats(self, field: Field, vector: Vector) -> Vector:
        dtype = "f4" if field.type.kind is Kind.FLOAT else "f8"
        valid, values = validity_bits(vector), items_of(vector, dtype)
        wide = values.astype("f8")
        masked = _in_pieces(self._some_figures, wide) if self.ranges else self._all_figures(wide)
        with np.errstate(over="ignore"):
            return _fixed(valid, masked.astype(dtype))

    def _all_figures(self, values: Array) -> Array:
        """Six figures of the same magnitude; NaN counts as the lowest number."""
        digit = self._digit
        if digit == 0:
            return np.zeros(len(values))
        size = np.abs(values)
        power = _DOUBLE_POWERS[np.maximum(np.searchsorted(_DOUBLE_POWERS, size, side="right") - 1, 0)]
        masked = np.where(values > 0, digit * _DOUBLE_ONES, digit * -_DOUBLE_ONES) * power
        return np.where(values == 0, digit * _DOUBLE_ONES, masked)

    def _some_figures(self, values: Array) -> Array:
        count = len(values)
        written, digit = np.ones(count, "u1"), self._digit
        texts = self._digits_replaced(
            _format.format_doubles(values, written), count, self.replacements[_DIGIT]
        )
        read = written.copy()
        masked = window(_parse.parse_doubles(*texts, read), "f8", 0, count)
        masked = np.where(read.view(np.bool_), masked, float(_NO_NUMBER * digit))
        return np.where(written.view(np.bool_), masked, np.nan)  # "NaN" has no digits

    def _decimals(self, field: Field, vector: Vector) -> Vector:
        """Digit by digit; null where that is more than the type holds."""
        valid, words = validity_bits(vector), words_of(vector).reshape(-1, 2)
        read = np.ones(vector.length, "u1") if valid is None else valid.astype("u1")
        masked = np.empty((vector.length, 2), "i8")
        for piece in _pieces(vector.length):
            self._decimal_digits(words[piece], read[piece], field, masked[piece])
        return _vector(read.view(np.bool_), vector.length, as_buffer(masked))

    def _decimal_digits(self, words: Array, read: Array, field: Field, out: Array) -> None:
        precision, scale = decimal_shape(field.type)
        texts = _format.format_decimals(words.reshape(-1), read, scale)
        replaced = self._digits_replaced(texts, len(read), ord("0") + self._digit)
        masked = _parse.parse_decimals(*replaced, read, precision, scale)
        out.reshape(-1)[:] = window(masked, "i8", 0, 2 * len(read))

    # --- times

    def _dates(self, field: Field, vector: Vector) -> Vector:  # noqa: ARG002
        valid, values = validity_bits(vector), items_of(vector, "i4")
        days = window(redact_days(values.astype("i8"), *self.parts[:3]), "i8", 0, vector.length)
        return _fixed(valid, days.astype("i4"))

    def _timestamps(self, field: Field, vector: Vector, zone: ZoneRules) -> Vector:
        """By what clocks show in the zone; in whole seconds."""
        unit = units_of(field.format)
        valid, values = validity_bits(vector), items_of(vector, "i8")
        seconds = values // unit
        if field.type.kind is Kind.TIMESTAMP_INSTANT:
            seconds = self._clocks(seconds + wall_clock_shift(seconds, zone))
            seconds += instant_shift(seconds, zone, later=True)
        else:
            seconds = self._clocks(seconds)
            # A time that clocks in the zone skip is the one that they show instead.
            instants = seconds + instant_shift(seconds, zone, later=True)
            seconds = instants + wall_clock_shift(instants, zone)
        # What the column's unit has no 64 bits for becomes the nearest second.
        least, most = -((1 << 63) // unit), ((1 << 63) - 1) // unit
        return _fixed(valid, np.clip(seconds, least, most) * unit)

    def _clocks(self, seconds: Array) -> Array:
        hour, minute, second = self.parts[3:]
        days = seconds // _DAY_SECONDS
        time = seconds - days * _DAY_SECONDS
        if not self.keeps_days:
            days = window(redact_days(days, *self.parts[:3]), "i8", 0, len(days))
            days = np.clip(days, -_FAR_DAYS, _FAR_DAYS)
        hours = time // 3600 if hour < 0 else hour
        minutes = time // 60 % 60 if minute < 0 else minute
        return days * _DAY_SECONDS + hours * 3600 + minutes * 60 + (time % 60 if second < 0 else second)


def _pieces(count: int) -> Iterator[slice]:
    """Some rows at a time: the texts of numbers take many times their memory."""
    for start in range(0, count, _PIECE_ROWS):
        yield slice(start, min(start + _PIECE_ROWS, count))


def _in_pieces(masked: Callable[[Array], Array], values: Array) -> Array:
    return np.concatenate([masked(values[piece]) for piece in _pieces(len(values))])


# --- vectors ---------------------------------------------------------------------------------------


def _fixed(valid: _Valid, values: Array) -> Vector:
    """Numbers; zeros beneath nulls."""
    if valid is not None:
        values[~valid] = 0
    return _vector(valid, len(values), as_buffer(values))


def _vector(valid: _Valid, count: int, *buffers: Buffer) -> Vector:
    bitmap, nulls = nulls_where(valid)
    return Vector(count, (bitmap, *buffers), nulls)


def _kept_numbers(field: Field, vector: Vector) -> Vector:
    valid, values = validity_bits(vector), items_of(vector, DTYPES[field.type.kind])
    return _fixed(valid, values.copy())


def _kept_decimals(field: Field, vector: Vector) -> Vector:  # noqa: ARG001
    valid, words = validity_bits(vector), words_of(vector).reshape(-1, 2)
    return _fixed(valid, words.copy())


def _kept_booleans(field: Field, vector: Vector) -> Vector:  # noqa: ARG001
    valid, held = validity_bits(vector), bits_of(vector)
    return _vector(valid, vector.length, pack(held if valid is None else held & valid))
