"""The rules by which values of one scalar type become values of another.

Know which kinds turn into which, and what becomes of values that do not fit. Must not know dictionaries that
vectors share, structs or lists (`codec.convert.conversion`). The rules are those of ORC Java's
ConvertTreeReaderFactory, its times those of a reader whose zone is UTC:

- what does not fit its target, or is no text of one, becomes null; fractions are cut off for integers and
  rounded half up for decimals;
- a number and a timestamp meet as seconds since 1970: for TIMESTAMP on its wall clock, for an instant in UTC;
- TIMESTAMP and an instant meet in `zone`, which also writes the text of an instant;
- texts are cut to the length of char and varchar; a char is padded with blanks to its length, and the
  blanks at the end of a char column are no part of its value.

Where it differs: a timestamp that 64 bits of the unit do not hold is `Unsupported`, as it is where a file has
one; a FLOAT is rounded to 32 bits; dates before 1970 are those of the clock (Java rounds toward 1970);
doubles between -0.0005 and 0 are 1970 as timestamps (Java makes nulls of them); the text of a double is the
shortest that tells it apart (that of Java 19 and later); only ASCII digits are digits.

A rule takes the values of a vector, as `_READ` has them for the family of its source, and returns what
`_MAKE` takes for the family of its target. Values that do not fit become null in the mask.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orcstream._buffer import Buffer
from orcstream.codec.convert import _convert, _format, _parse
from orcstream.codec.convert.zone_shift import instant_shift, named_zone, wall_clock_shift
from orcstream.codec.vectors._texts import cut_texts, gather_texts
from orcstream.codec.vectors.column import (
    DTYPES,
    Array,
    Vector,
    VectorOptions,
    bits_of,
    items_of,
    nulls_where,
    offsets_of,
    pack,
    validity_bits,
    words_of,
)
from orcstream.codec.vectors.times import UNITS, UTC, ZoneRules, beyond_unit
from orcstream.errors import Unsupported
from orcstream.schema.types import FLOATS, INTEGERS, TEXTS, TIMES, Kind, Type, decimal_shape

_Mask = NDArray[np.uint8]
_Texts = tuple[Array, Array]  # offsets, bytes


@dataclass(frozen=True, slots=True)
class ConvertOptions:
    """What conversions depend on besides the two types.

    `zone` is where TIMESTAMP and instants meet. `zone_of` gives the rules of a zone that a text names,
    None for a name that is none; without it only `zone`, UTC and offsets such as ``+02:00`` are known.
    """

    vectors: VectorOptions = field(default_factory=VectorOptions)
    zone: ZoneRules = UTC
    zone_of: Callable[[str], ZoneRules | None] | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """The two types, and what else the values depend on."""

    source: Type
    target: Type
    options: ConvertOptions

    @property
    def unit(self) -> int:
        """Units of a second in vectors of times."""
        return UNITS[self.options.vectors.unit]

    @property
    def unit_digits(self) -> int:
        """Digits of a time behind its seconds."""
        return len(str(self.unit)) - 1

    @property
    def scale(self) -> int:
        """That of the decimals to be converted."""
        return decimal_shape(self.source)[1]

    @property
    def shape(self) -> tuple[int, int]:
        """Precision and scale of the decimals to be made."""
        return decimal_shape(self.target)


@dataclass(frozen=True, slots=True)
class _Given:
    """What a rule is given of a vector; the mask has one byte a row, 1 where a value is."""

    values: Any
    mask: _Mask
    case: Case

    @property
    def texts(self) -> _Texts:
        """The values of a family that has offsets and bytes."""
        texts: _Texts = self.values
        return texts

    def keep(self, fits: Array) -> None:
        """Make what does not fit null."""
        np.logical_and(self.mask, fits, out=self.mask)


Convert = Callable[[Vector, Case], Vector]


def rule_of(source: Type, target: Type) -> Convert | None:
    """What makes vectors of `target` of those of `source`; None where that cannot be."""
    pair = _FAMILIES.get(source.kind, ""), _FAMILIES.get(target.kind, "")
    if pair in _WHOLE:
        return _WHOLE[pair]
    rule = _RULES.get(pair)
    if rule is None:
        return None
    read, make = _READ[pair[0]], _MAKE[pair[1]]

    def convert(vector: Vector, case: Case) -> Vector:
        mask = mask_of(vector)
        return make(rule(_Given(read(vector, mask, case), mask, case)), mask, case)

    return convert


_FAMILIES = {
    **dict.fromkeys((*INTEGERS, Kind.BOOLEAN), "int"),
    **dict.fromkeys(FLOATS, "float"),
    **dict.fromkeys(TEXTS, "text"),
    **dict.fromkeys(TIMES, "time"),
    Kind.DECIMAL: "decimal",
    Kind.DATE: "date",
    Kind.BINARY: "binary",
}


# --- what vectors of a family hold -----------------------------------------------------------------


def view(buffer: Any, dtype: str) -> Array:
    """All of a buffer."""
    return np.frombuffer(buffer, dtype)


def mask_of(vector: Vector) -> _Mask:
    """One byte a row, 1 where a value is; a fresh array, since conversions write to it."""
    valid = validity_bits(vector)
    return np.ones(vector.length, np.uint8) if valid is None else valid.view(np.uint8)


def _ints(vector: Vector, _mask: _Mask, case: Case) -> Array:
    if case.source.kind is Kind.BOOLEAN:
        return bits_of(vector).astype("i8")
    return items_of(vector, DTYPES[case.source.kind]).astype("i8", copy=False)


def _floats(vector: Vector, _mask: _Mask, case: Case) -> Array:
    values = items_of(vector, DTYPES[case.source.kind])
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        return values.astype("f8", copy=False)


def _stored_texts(vector: Vector) -> _Texts:
    if not vector.length:
        return np.zeros(1, np.int32), np.empty(0, np.uint8)
    return offsets_of(vector), view(vector.buffers[2], "u1")


def _texts(vector: Vector, mask: _Mask, case: Case) -> _Texts:
    """Texts row by row, those of a dictionary gathered; a char without the blanks at its end."""
    texts = _stored_texts(vector if vector.dictionary is None else vector.dictionary)
    if vector.dictionary is not None:
        texts = _viewed(gather_texts(items_of(vector, "i4"), mask, *texts))
    if case.source.kind is Kind.CHAR and case.target.kind is not Kind.BINARY:
        texts = _shaped(texts, mask, case.source, pad=False)
    return texts


def _viewed(texts: tuple[Any, Any]) -> _Texts:
    return view(texts[0], "i4"), view(texts[1], "u1")


_READ: dict[str, Callable[[Vector, _Mask, Case], Any]] = {
    "int": _ints,
    "float": _floats,
    "decimal": lambda vector, _mask, _case: words_of(vector),
    "text": _texts,
    "binary": lambda vector, _mask, _case: _stored_texts(vector),
    "time": lambda vector, _mask, _case: items_of(vector, "i8"),
    "date": lambda vector, _mask, _case: items_of(vector, "i4"),
}


# --- vectors of results ----------------------------------------------------------------------------


def with_nulls(mask: _Mask, *buffers: Any) -> Vector:
    """A vector of these buffers, null where the mask is 0."""
    bitmap, nulls = nulls_where(mask.view(np.bool_))
    return Vector(len(mask), (bitmap, *buffers), nulls)


def _fixed(values: Array, dtype: str) -> Buffer:
    """Values in a recycled block of memory."""
    out = Buffer(len(values) * np.dtype(dtype).itemsize)
    with np.errstate(over="ignore", invalid="ignore"):
        np.copyto(view(out, dtype), values, casting="unsafe")
    return out


def _of_ints(values: Array, mask: _Mask, case: Case) -> Vector:
    kind = case.target.kind
    if kind is Kind.BOOLEAN:
        return with_nulls(mask, pack(values != 0))
    if kind is not Kind.LONG:
        limits = np.iinfo(DTYPES[kind])
        mask &= (values >= limits.min) & (values <= limits.max)
    return with_nulls(mask, _fixed(values, DTYPES[kind]))


def _of_floats(values: Array, mask: _Mask, case: Case) -> Vector:
    return with_nulls(mask, _fixed(values, DTYPES[case.target.kind]))


def _of_ticks(found: tuple[Buffer, int], mask: _Mask, case: Case) -> Vector:
    ticks, beyond = found
    if beyond >= 0:
        raise _out_of_range(case)
    return with_nulls(mask, ticks)


def _out_of_range(case: Case) -> Unsupported:
    what = f"a {case.source} read as {case.target} does"
    return beyond_unit(what, case.options.vectors.unit, case.source.column_id)


def _of_texts(texts: tuple[Any, Any], mask: _Mask, case: Case) -> Vector:
    """Texts cut and padded as the target says; a dictionary of their own where dictionaries are asked for."""
    shaped: tuple[Any, Any] = _shaped(_viewed(texts), mask, case.target, pad=True)
    if not case.options.vectors.dictionaries:
        return with_nulls(mask, *shaped)
    count = len(mask)
    entries = Vector(count, (None, *shaped), 0)
    rows = with_nulls(mask, np.arange(count, dtype=np.int32))
    return Vector(count, rows.buffers, rows.null_count, dictionary=entries)


def _shaped(texts: _Texts, mask: _Mask, type_: Type, *, pad: bool) -> _Texts:
    """Texts as char and varchar have them: cut, those of a char trimmed, then padded where asked."""
    if type_.max_length is None:
        return texts
    trim = type_.kind is Kind.CHAR
    padding = type_.max_length if trim and pad else 0
    found = cut_texts(*texts, mask, type_.max_length, trim, padding)
    return texts if found is None else _viewed(found)


_MAKE: dict[str, Callable[[Any, _Mask, Case], Vector]] = {
    "int": _of_ints,
    "float": _of_floats,
    "decimal": lambda words, mask, _case: with_nulls(mask, words),
    "text": _of_texts,
    "time": _of_ticks,
    "date": lambda days, mask, _case: with_nulls(mask, days),
}


# --- from one family to another --------------------------------------------------------------------


def _int_of_float(given: _Given) -> Array:
    fits = (given.values >= -(2.0**63)) & (given.values < 2.0**63)
    given.keep(fits)
    return np.where(fits, given.values, 0).astype("i8")


def _int_of_decimal(given: _Given) -> Array:
    words, case = given.values, given.case
    if case.target.kind is Kind.BOOLEAN:
        either: Array = words[0::2] | words[1::2]
        return either
    return view(_convert.ints_from_decimals(words, given.mask, case.scale), "i8")


def _float_of_time(given: _Given) -> Array:
    ticks, unit = given.values, given.case.unit
    seconds = ticks // unit
    fractions = (ticks - seconds * unit) * (10**9 // unit)
    found: Array = seconds.astype("f8") + fractions / 1e9
    return found


def _text_of_int(given: _Given) -> tuple[Buffer, Buffer]:
    boolean = given.case.source.kind is Kind.BOOLEAN
    return (_format.format_booleans if boolean else _format.format_ints)(given.values, given.mask)


def _text_of_time(given: _Given) -> tuple[Buffer, Buffer]:
    ticks, case, suffix = given.values, given.case, b""
    if case.source.kind is Kind.TIMESTAMP_INSTANT:
        ticks = _moved(ticks, given.mask, case, wall_clock_shift)
        suffix = b" " + case.options.zone.name.encode()
    return _format.format_timestamps(ticks, given.mask, case.unit_digits, suffix)


def _date_of_time(given: _Given) -> Buffer:
    days = given.values // (86_400 * given.case.unit)
    limits = np.iinfo(np.int32)
    given.keep((days >= limits.min) & (days <= limits.max))
    return _fixed(days, "i4")


_NO_NANOS = np.empty(0, np.int32)


def _ticks(seconds: Array, nanos: Array, given: _Given) -> tuple[Buffer, int]:
    return _convert.ticks_from_seconds(seconds, nanos, given.mask, given.case.unit)


def _time_of_float(given: _Given) -> tuple[Buffer, int]:
    """Rounded to milliseconds, as Java does."""
    with np.errstate(over="ignore", invalid="ignore"):
        millis = given.values * 1000
        fits = np.abs(millis) < 2.0**63
    given.keep(fits)
    millis = np.where(fits, millis, 0)
    below = np.floor(millis)
    whole = (below + (millis - below >= 0.5)).astype("i8")
    seconds = whole // 1000
    return _ticks(seconds, ((whole - seconds * 1000) * 1_000_000).astype(np.int32), given)


def _time_of_text(given: _Given) -> tuple[Buffer, int]:
    zoned = given.case.target.kind is Kind.TIMESTAMP_INSTANT
    first, second, third, names = _parse.parse_timestamps(*given.texts, given.mask, zoned)
    seconds = view(first, "i8")
    if zoned:
        seconds = _in_their_zones(seconds, view(third, "i4"), names, given)
    return _ticks(seconds, view(second, "i4"), given)


def _in_their_zones(seconds: Array, zones: Array, names: list[bytes], given: _Given) -> Array:
    """The instants of wall clocks that texts gave with the names of their zones."""
    out, options = seconds.copy(), given.case.options
    for number, name in enumerate(names):
        rows = (zones == number) & given.mask.view(np.bool_)
        zone = named_zone(name.decode(errors="replace"), options.zone, options.zone_of)
        if zone is None:
            given.mask[rows] = 0
        else:
            out[rows] += instant_shift(seconds[rows], zone)
    return out


def _moved(ticks: Array, mask: _Mask, case: Case, shift: Callable[[Array, ZoneRules], Array]) -> Array:
    """Times moved by what `shift` gives for their seconds; what 64 bits do not hold is `Unsupported`."""
    change = shift(ticks // case.unit, case.options.zone) * case.unit
    moved: Array = ticks + change
    if (((moved < ticks) != (change < 0)) & mask.view(np.bool_)).any():
        raise _out_of_range(case)
    return moved


_RULES: dict[tuple[str, str], Callable[[_Given], Any]] = {
    ("int", "int"): lambda given: given.values,
    ("float", "int"): _int_of_float,
    ("decimal", "int"): _int_of_decimal,
    ("text", "int"): lambda given: view(_parse.parse_ints(*given.texts, given.mask), "i8"),
    ("time", "int"): lambda given: given.values // given.case.unit,
    ("int", "float"): lambda given: given.values.astype("f8"),
    ("float", "float"): lambda given: given.values,
    ("decimal", "float"): lambda given: view(
        _convert.doubles_from_decimals(given.values, given.mask, given.case.scale), "f8"
    ),
    ("text", "float"): lambda given: view(_parse.parse_doubles(*given.texts, given.mask), "f8"),
    ("time", "float"): _float_of_time,
    ("int", "decimal"): lambda given: _convert.decimals_from_numbers(
        given.values, 1, given.mask, 0, *given.case.shape
    ),
    ("float", "decimal"): lambda given: _convert.decimals_from_doubles(
        given.values, given.mask, *given.case.shape
    ),
    ("decimal", "decimal"): lambda given: _convert.decimals_from_numbers(
        given.values, 2, given.mask, given.case.scale, *given.case.shape
    ),
    ("text", "decimal"): lambda given: _parse.parse_decimals(*given.texts, given.mask, *given.case.shape),
    ("time", "decimal"): lambda given: _convert.decimals_from_numbers(
        given.values, 1, given.mask, given.case.unit_digits, *given.case.shape
    ),
    ("int", "text"): _text_of_int,
    ("float", "text"): lambda given: _format.format_doubles(given.values, given.mask),
    ("decimal", "text"): lambda given: _format.format_decimals(given.values, given.mask, given.case.scale),
    ("time", "text"): _text_of_time,
    ("date", "text"): lambda given: _format.format_dates(given.values, given.mask),
    ("binary", "text"): lambda given: _format.format_hexadecimal(*given.texts, given.mask),
    ("int", "time"): lambda given: _ticks(given.values, _NO_NANOS, given),
    ("float", "time"): _time_of_float,
    ("decimal", "time"): lambda given: _convert.ticks_from_decimals(
        given.values, given.mask, given.case.scale, given.case.unit_digits
    ),
    ("text", "time"): _time_of_text,
    ("date", "time"): lambda given: _ticks(given.values.astype("i8") * 86_400, _NO_NANOS, given),
    ("text", "date"): lambda given: _parse.parse_dates(*given.texts, given.mask),
    ("time", "date"): _date_of_time,
}


# --- vectors that may stay as they are -------------------------------------------------------------


def _text_of_text(vector: Vector, case: Case) -> Vector:
    """Shares the memory where nothing is cut or padded."""
    mask = mask_of(vector)
    stored = _stored_texts(vector)
    made = _shaped(_shaped(stored, mask, case.source, pad=False), mask, case.target, pad=True)
    return vector if made[1] is stored[1] else with_nulls(mask, *made)


def _binary_of_text(vector: Vector, case: Case) -> Vector:
    """The bytes as they are stored."""
    if vector.dictionary is None:
        return vector
    mask = mask_of(vector)
    return with_nulls(mask, *_texts(vector, mask, case))


def _time_of_time(vector: Vector, case: Case) -> Vector:
    """Between wall clock and instant."""
    if not len(case.options.zone.transitions) and not case.options.zone.offsets[0]:
        return vector
    mask = mask_of(vector)
    shift = instant_shift if case.source.kind is Kind.TIMESTAMP else wall_clock_shift
    return with_nulls(mask, _moved(items_of(vector, "i8"), mask, case, shift))


_WHOLE: dict[tuple[str, str], Convert] = {
    ("text", "text"): _text_of_text,
    ("text", "binary"): _binary_of_text,
    ("time", "time"): _time_of_time,
}
