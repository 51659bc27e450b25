"""Conversions of scalar columns: from the type a file has to the type a reader asks for.

Know which kinds turn into which, and what becomes of values that do not fit. Must not know streams,
structs or lists. The rules are those of ORC Java's ConvertTreeReaderFactory, its times those of a reader
whose zone is UTC:

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
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orcstream._buffer import Buffer
from orcstream.codec.convert import _convert, _format, _parse
from orcstream.codec.convert.zone_shift import instant_shift, named_zone, wall_clock_shift
from orcstream.codec.vectors._texts import cut_texts, gather_texts
from orcstream.codec.vectors.arrays import (
    DTYPES,
    Array,
    bits_of,
    items_of,
    nulls_where,
    offsets_of,
    pack,
    validity_bits,
    words_of,
)
from orcstream.codec.vectors.column import Vector, VectorOptions, field_of, nulls_of
from orcstream.codec.vectors.times import UNITS, UTC, ZoneRules, beyond_unit
from orcstream.errors import Unsupported
from orcstream.schema.types import FLOATS, INTEGERS, TEXTS, TIMES, Kind, Type, decimal_shape

Convert = Callable[[Vector], Vector]
_Mask = NDArray[np.uint8]
_Texts = tuple[Array, Array, _Mask]  # offsets, bytes, mask


@dataclass(frozen=True, slots=True)
class ConvertOptions:
    """What conversions depend on besides the two types.

    `zone` is where TIMESTAMP and instants meet. `zone_of` gives the rules of a zone that a text names,
    None for a name that is none; without it only `zone`, UTC and offsets such as ``+02:00`` are known.
    """

    vectors: VectorOptions = field(default_factory=VectorOptions)
    zone: ZoneRules = UTC
    zone_of: Callable[[str], ZoneRules | None] | None = None


# --- what is convertible --------------------------------------------------------------------------

_FAMILIES = {
    **dict.fromkeys((*INTEGERS, Kind.BOOLEAN), "int"),
    **dict.fromkeys(FLOATS, "float"),
    **dict.fromkeys(TEXTS, "text"),
    **dict.fromkeys(TIMES, "time"),
    Kind.DECIMAL: "decimal",
    Kind.DATE: "date",
    Kind.BINARY: "binary",
}


def can_convert(source: Type, target: Type) -> bool:
    """Whether values of one scalar type can be read as another, of another kind."""
    return (_FAMILIES.get(source.kind), _FAMILIES.get(target.kind)) in _STEPS


def conversion_of(source: Type, target: Type, options: ConvertOptions) -> Convert | None:
    """The function that makes vectors of `target` of those of `source`; None where they are the same.

    The two must be convertible. It is pure and may run on several threads at once. It raises
    `Unsupported` for a time beyond 64 bits of its unit and for texts beyond 2 GiB together.
    """
    if _same(source, target):
        return None
    step = _STEPS[_FAMILIES[source.kind], _FAMILIES[target.kind]]
    case = _Case(source, target, options)

    def convert(vector: Vector) -> Vector:
        try:
            return step(vector, case)
        except OverflowError:
            message = (
                f"texts of {target} made of {source} are longer than 2 GiB together; read fewer rows at once"
            )
            raise Unsupported(message, reason="converted_text_too_long", column=source.column_id) from None

    by_entries = source.kind in TEXTS and target.kind is not Kind.BINARY
    return _by_entries(convert, case) if by_entries else convert


def _same(source: Type, target: Type) -> bool:
    if source.kind is not target.kind:
        return False
    if source.kind is Kind.DECIMAL:
        return decimal_shape(source) == decimal_shape(target)
    return source.kind not in (Kind.CHAR, Kind.VARCHAR) or source.max_length == target.max_length


@dataclass(frozen=True, slots=True)
class _Case:
    source: Type
    target: Type
    options: ConvertOptions

    @property
    def unit(self) -> int:
        return UNITS[self.options.vectors.unit]

    @property
    def unit_digits(self) -> int:
        return len(str(self.unit)) - 1


# --- parts of vectors -----------------------------------------------------------------------------

_NO_NANOS = np.empty(0, np.int32)


def _view(buffer: Any, dtype: str) -> Array:
    """All of a buffer."""
    return np.frombuffer(buffer, dtype)


def _mask(vector: Vector) -> _Mask:
    """One byte a row, 1 where a value is; a fresh array, since conversions write to it."""
    valid = validity_bits(vector)
    return np.ones(vector.length, np.uint8) if valid is None else valid.view(np.uint8)


def _ints(vector: Vector, case: _Case) -> tuple[Array, _Mask]:
    if case.source.kind is Kind.BOOLEAN:
        return bits_of(vector).astype("i8"), _mask(vector)
    return items_of(vector, DTYPES[case.source.kind]).astype("i8", copy=False), _mask(vector)


def _floats(vector: Vector, case: _Case) -> tuple[Array, _Mask]:
    values = items_of(vector, DTYPES[case.source.kind])
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        return values.astype("f8", copy=False), _mask(vector)


def _words(vector: Vector) -> tuple[Array, _Mask]:
    return words_of(vector), _mask(vector)


def _ticks(vector: Vector) -> tuple[Array, _Mask]:
    return items_of(vector, "i8"), _mask(vector)


def _text_parts(vector: Vector) -> tuple[Array, Array]:
    if not vector.length:
        return np.zeros(1, np.int32), np.empty(0, np.uint8)
    data: Any = vector.buffers[2]
    return offsets_of(vector), _view(data, "u1")


def _texts(vector: Vector, case: _Case) -> _Texts:
    """Texts row by row, those of a dictionary gathered; a char without the blanks at its end."""
    mask = _mask(vector)
    offsets, data = _text_parts(vector if vector.dictionary is None else vector.dictionary)
    if vector.dictionary is not None:
        indexes = items_of(vector, "i4")
        offsets, data = _viewed(gather_texts(indexes, mask, offsets, data))
    if case.source.kind is Kind.CHAR and case.target.kind is not Kind.BINARY:
        offsets, data = _shaped(offsets, data, mask, case.source, pad=False)
    return offsets, data, mask


def _viewed(texts: tuple[Buffer, Buffer]) -> tuple[Array, Array]:
    return _view(texts[0], "i4"), _view(texts[1], "u1")


# --- vectors of results ---------------------------------------------------------------------------


def _vector(mask: _Mask, *buffers: Any) -> Vector:
    bitmap, nulls = nulls_where(mask.view(np.bool_))
    return Vector(len(mask), (bitmap, *buffers), nulls)


def _fixed(values: Array, dtype: str, mask: _Mask) -> Vector:
    """Values in a recycled block of memory."""
    out = Buffer(len(values) * np.dtype(dtype).itemsize)
    view = _view(out, dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        np.copyto(view, values, casting="unsafe")
    return _vector(mask, out)


def _int_vector(values: Array, mask: _Mask, case: _Case) -> Vector:
    kind = case.target.kind
    if kind is Kind.BOOLEAN:
        return _vector(mask, pack(values != 0))
    if kind is not Kind.LONG:
        limits = np.iinfo(DTYPES[kind])
        mask &= (values >= limits.min) & (values <= limits.max)
    return _fixed(values, DTYPES[kind], mask)


def _float_vector(values: Array, mask: _Mask, case: _Case) -> Vector:
    return _fixed(values, DTYPES[case.target.kind], mask)


def _time_vector(found: tuple[Buffer, int], mask: _Mask, case: _Case) -> Vector:
    ticks, beyond = found
    if beyond >= 0:
        raise _out_of_range(case)
    return _vector(mask, ticks)


def _out_of_range(case: _Case) -> Unsupported:
    what = f"a {case.source} read as {case.target} does"
    return beyond_unit(what, case.options.vectors.unit, case.source.column_id)


def _text_vector(offsets: Any, data: Any, mask: _Mask, case: _Case) -> Vector:
    """Texts cut and padded as the target says; a dictionary of their own where dictionaries are asked for."""
    offsets, data = _shaped(*_viewed((offsets, data)), mask, case.target, pad=True)
    if not case.options.vectors.dictionaries:
        return _vector(mask, offsets, data)
    count = len(mask)
    entries = Vector(count, (None, offsets, data), 0)
    rows = _vector(mask, np.arange(count, dtype=np.int32))
    return Vector(count, rows.buffers, rows.null_count, dictionary=entries)


def _shaped(offsets: Array, data: Array, mask: _Mask, type_: Type, *, pad: bool) -> tuple[Array, Array]:
    """Texts as char and varchar have them: cut, those of a char trimmed, then padded where asked."""
    if type_.max_length is None:
        return offsets, data
    trim = type_.kind is Kind.CHAR
    padding = type_.max_length if trim and pad else 0
    found = cut_texts(offsets, data, mask, type_.max_length, trim, padding)
    return (offsets, data) if found is None else _viewed(found)


# --- a column by the entries of its dictionary ----------------------------------------------------


def _by_entries(convert: Convert, case: _Case) -> Convert:
    """Converts each entry of a dictionary once for the vectors that share it, which are those of a stripe."""
    known: list[tuple[object, Vector]] = []

    def run(vector: Vector) -> Vector:
        entries = vector.dictionary
        if entries is None:
            return convert(vector)
        # One slot, written whole: another thread sees this pair or another one, never half of it.
        found = known[0] if known else None
        if found is None or found[0] is not entries.buffers[1]:
            found = (entries.buffers[1], convert(entries))
            known[:] = [found]
        if case.target.kind in TEXTS:
            return replace(vector, dictionary=found[1])
        return _gathered(vector, found[1], case)

    return run


def _gathered(vector: Vector, entries: Vector, case: _Case) -> Vector:
    """Row by row the converted entry that the row's index names; entries have a fixed width."""
    kind = case.target.kind
    if not entries.length:
        return nulls_of(field_of("", case.target, case.options.vectors), vector.length)
    mask = _mask(vector)
    rows = np.where(mask, items_of(vector, "i4"), 0)
    mask &= _mask(entries)[rows]
    if kind is Kind.BOOLEAN:
        return _vector(mask, pack(bits_of(entries)[rows]))
    dtype = "V16" if kind is Kind.DECIMAL else DTYPES[kind]
    out = Buffer(np.dtype(dtype).itemsize * vector.length)
    np.take(items_of(entries, dtype), rows, out=_view(out, dtype), mode="clip")
    return _vector(mask, out)


# --- to integers ----------------------------------------------------------------------------------


def _int_of_int(vector: Vector, case: _Case) -> Vector:
    return _int_vector(*_ints(vector, case), case)


def _int_of_float(vector: Vector, case: _Case) -> Vector:
    values, mask = _floats(vector, case)
    fits = (values >= -(2.0**63)) & (values < 2.0**63)
    mask &= fits
    return _int_vector(np.where(fits, values, 0).astype("i8"), mask, case)


def _int_of_decimal(vector: Vector, case: _Case) -> Vector:
    words, mask = _words(vector)
    if case.target.kind is Kind.BOOLEAN:
        return _int_vector(words[0::2] | words[1::2], mask, case)
    numbers = _convert.ints_from_decimals(words, mask, decimal_shape(case.source)[1])
    return _int_vector(_view(numbers, "i8"), mask, case)


def _int_of_text(vector: Vector, case: _Case) -> Vector:
    offsets, data, mask = _texts(vector, case)
    return _int_vector(_view(_parse.parse_ints(offsets, data, mask), "i8"), mask, case)


def _int_of_time(vector: Vector, case: _Case) -> Vector:
    ticks, mask = _ticks(vector)
    return _int_vector(ticks // case.unit, mask, case)


# --- to floating point ----------------------------------------------------------------------------


def _float_of_int(vector: Vector, case: _Case) -> Vector:
    values, mask = _ints(vector, case)
    return _float_vector(values.astype("f8"), mask, case)


def _float_of_float(vector: Vector, case: _Case) -> Vector:
    return _float_vector(*_floats(vector, case), case)


def _float_of_decimal(vector: Vector, case: _Case) -> Vector:
    words, mask = _words(vector)
    numbers = _convert.doubles_from_decimals(words, mask, decimal_shape(case.source)[1])
    return _float_vector(_view(numbers, "f8"), mask, case)


def _float_of_text(vector: Vector, case: _Case) -> Vector:
    offsets, data, mask = _texts(vector, case)
    return _float_vector(_view(_parse.parse_doubles(offsets, data, mask), "f8"), mask, case)


def _float_of_time(vector: Vector, case: _Case) -> Vector:
    ticks, mask = _ticks(vector)
    seconds = ticks // case.unit
    fractions = (ticks - seconds * case.unit) * (10**9 // case.unit)
    return _float_vector(seconds.astype("f8") + fractions / 1e9, mask, case)


# --- to decimals ----------------------------------------------------------------------------------


def _decimal_of_int(vector: Vector, case: _Case) -> Vector:
    values, mask = _ints(vector, case)
    return _vector(mask, _convert.decimals_from_numbers(values, 1, mask, 0, *decimal_shape(case.target)))


def _decimal_of_float(vector: Vector, case: _Case) -> Vector:
    values, mask = _floats(vector, case)
    words = _convert.decimals_from_doubles(values, mask, *decimal_shape(case.target))
    return _vector(mask, words)


def _decimal_of_decimal(vector: Vector, case: _Case) -> Vector:
    words, mask = _words(vector)
    scale = decimal_shape(case.source)[1]
    out = _convert.decimals_from_numbers(words, 2, mask, scale, *decimal_shape(case.target))
    return _vector(mask, out)


def _decimal_of_text(vector: Vector, case: _Case) -> Vector:
    offsets, data, mask = _texts(vector, case)
    return _vector(mask, _parse.parse_decimals(offsets, data, mask, *decimal_shape(case.target)))


def _decimal_of_time(vector: Vector, case: _Case) -> Vector:
    ticks, mask = _ticks(vector)
    words = _convert.decimals_from_numbers(ticks, 1, mask, case.unit_digits, *decimal_shape(case.target))
    return _vector(mask, words)


# --- to text --------------------------------------------------------------------------------------


def _text_of_int(vector: Vector, case: _Case) -> Vector:
    values, mask = _ints(vector, case)
    boolean = case.source.kind is Kind.BOOLEAN
    texts = (_format.format_booleans if boolean else _format.format_ints)(values, mask)
    return _text_vector(*texts, mask, case)


def _text_of_float(vector: Vector, case: _Case) -> Vector:
    values, mask = _floats(vector, case)
    texts = _format.format_doubles(values, mask)
    return _text_vector(*texts, mask, case)


def _text_of_decimal(vector: Vector, case: _Case) -> Vector:
    words, mask = _words(vector)
    texts = _format.format_decimals(words, mask, decimal_shape(case.source)[1])
    return _text_vector(*texts, mask, case)


def _text_of_date(vector: Vector, case: _Case) -> Vector:
    days = items_of(vector, "i4")
    mask = _mask(vector)
    return _text_vector(*_format.format_dates(days, mask), mask, case)


def _text_of_time(vector: Vector, case: _Case) -> Vector:
    ticks, mask = _ticks(vector)
    suffix = b""
    if case.source.kind is Kind.TIMESTAMP_INSTANT:
        ticks = _moved(ticks, mask, case, wall_clock_shift)
        suffix = b" " + case.options.zone.name.encode()
    texts = _format.format_timestamps(ticks, mask, case.unit_digits, suffix)
    return _text_vector(*texts, mask, case)


def _text_of_binary(vector: Vector, case: _Case) -> Vector:
    mask = _mask(vector)
    return _text_vector(*_format.format_hexadecimal(*_text_parts(vector), mask), mask, case)


def _text_of_text(vector: Vector, case: _Case) -> Vector:
    """Shares the memory where nothing is cut or padded."""
    mask = _mask(vector)
    stored = _text_parts(vector)
    value = _shaped(*stored, mask, case.source, pad=False)
    made: tuple[Any, Any] = _shaped(*value, mask, case.target, pad=True)
    return vector if made[1] is stored[1] else _vector(mask, *made)


def _binary_of_text(vector: Vector, case: _Case) -> Vector:
    """The bytes as they are stored."""
    if vector.dictionary is None:
        return vector
    offsets, data, mask = _texts(vector, case)
    return _vector(mask, offsets, data)


# --- to dates and times ---------------------------------------------------------------------------


def _date_of_text(vector: Vector, case: _Case) -> Vector:
    offsets, data, mask = _texts(vector, case)
    return _vector(mask, _parse.parse_dates(offsets, data, mask))


def _date_of_time(vector: Vector, case: _Case) -> Vector:
    ticks, mask = _ticks(vector)
    days = ticks // (86_400 * case.unit)
    limits = np.iinfo(np.int32)
    mask &= (days >= limits.min) & (days <= limits.max)
    return _fixed(days, "i4", mask)


def _time_of_int(vector: Vector, case: _Case) -> Vector:
    values, mask = _ints(vector, case)
    return _time_vector(_convert.ticks_from_seconds(values, _NO_NANOS, mask, case.unit), mask, case)


def _time_of_float(vector: Vector, case: _Case) -> Vector:
    """Rounded to milliseconds, as Java does."""
    values, mask = _floats(vector, case)
    with np.errstate(over="ignore", invalid="ignore"):
        millis = values * 1000
        fits = np.abs(millis) < 2.0**63
    mask &= fits
    millis = np.where(fits, millis, 0)
    below = np.floor(millis)
    whole = (below + (millis - below >= 0.5)).astype("i8")
    seconds = whole // 1000
    nanos = ((whole - seconds * 1000) * 1_000_000).astype(np.int32)
    return _time_vector(_convert.ticks_from_seconds(seconds, nanos, mask, case.unit), mask, case)


def _time_of_decimal(vector: Vector, case: _Case) -> Vector:
    words, mask = _words(vector)
    scale = decimal_shape(case.source)[1]
    return _time_vector(_convert.ticks_from_decimals(words, mask, scale, case.unit_digits), mask, case)


def _time_of_text(vector: Vector, case: _Case) -> Vector:
    offsets, data, mask = _texts(vector, case)
    zoned = case.target.kind is Kind.TIMESTAMP_INSTANT
    first, second, third, names = _parse.parse_timestamps(offsets, data, mask, zoned)
    seconds = _view(first, "i8")
    if zoned:
        seconds = _in_their_zones(seconds, _view(third, "i4"), names, mask, case)
    nanos = _view(second, "i4")
    return _time_vector(_convert.ticks_from_seconds(seconds, nanos, mask, case.unit), mask, case)


def _time_of_date(vector: Vector, case: _Case) -> Vector:
    days = items_of(vector, "i4").astype("i8")
    mask = _mask(vector)
    return _time_vector(_convert.ticks_from_seconds(days * 86_400, _NO_NANOS, mask, case.unit), mask, case)


def _time_of_time(vector: Vector, case: _Case) -> Vector:
    """Between wall clock and instant."""
    if not len(case.options.zone.transitions) and not case.options.zone.offsets[0]:
        return vector
    ticks, mask = _ticks(vector)
    shift = instant_shift if case.source.kind is Kind.TIMESTAMP else wall_clock_shift
    return _vector(mask, _moved(ticks, mask, case, shift))


def _moved(ticks: Array, mask: _Mask, case: _Case, shift: Callable[[Array, ZoneRules], Array]) -> Array:
    """Times moved by what `shift` gives for their seconds; what 64 bits do not hold is `Unsupported`."""
    change = shift(ticks // case.unit, case.options.zone) * case.unit
    moved: Array = ticks + change
    if (((moved < ticks) != (change < 0)) & mask.view(np.bool_)).any():
        raise _out_of_range(case)
    return moved


def _in_their_zones(seconds: Array, zones: Array, names: list[bytes], mask: _Mask, case: _Case) -> Array:
    """The instants of wall clocks that texts gave with the names of their zones."""
    out = seconds.copy()
    for number, name in enumerate(names):
        rows = (zones == number) & mask.view(np.bool_)
        zone = named_zone(name.decode(errors="replace"), case.options.zone, case.options.zone_of)
        if zone is None:
            mask[rows] = 0
        else:
            out[rows] += instant_shift(seconds[rows], zone)
    return out


_STEPS: dict[tuple[str | None, str | None], Callable[[Vector, _Case], Vector]] = {
    ("int", "int"): _int_of_int,
    ("float", "int"): _int_of_float,
    ("decimal", "int"): _int_of_decimal,
    ("text", "int"): _int_of_text,
    ("time", "int"): _int_of_time,
    ("int", "float"): _float_of_int,
    ("float", "float"): _float_of_float,
    ("decimal", "float"): _float_of_decimal,
    ("text", "float"): _float_of_text,
    ("time", "float"): _float_of_time,
    ("int", "decimal"): _decimal_of_int,
    ("float", "decimal"): _decimal_of_float,
    ("decimal", "decimal"): _decimal_of_decimal,
    ("text", "decimal"): _decimal_of_text,
    ("time", "decimal"): _decimal_of_time,
    ("int", "text"): _text_of_int,
    ("float", "text"): _text_of_float,
    ("decimal", "text"): _text_of_decimal,
    ("text", "text"): _text_of_text,
    ("time", "text"): _text_of_time,
    ("date", "text"): _text_of_date,
    ("binary", "text"): _text_of_binary,
    ("text", "binary"): _binary_of_text,
    ("int", "time"): _time_of_int,
    ("float", "time"): _time_of_float,
    ("decimal", "time"): _time_of_decimal,
    ("text", "time"): _time_of_text,
    ("time", "time"): _time_of_time,
    ("date", "time"): _time_of_date,
    ("text", "date"): _date_of_text,
    ("time", "date"): _date_of_time,
}
