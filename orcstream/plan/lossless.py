"""Decide which conversions between scalar types keep every value.

The conversions themselves are those of `codec.convert.rules`.
"""

from __future__ import annotations

from orcstream.schema.types import FLOATS, INTEGERS, TEXTS, Kind, Type, decimal_shape

_WHOLE = frozenset((Kind.BOOLEAN, *INTEGERS))
# Decimal digits of the largest value, and bits besides the sign.
_DIGITS = {Kind.BOOLEAN: 1, Kind.BYTE: 3, Kind.SHORT: 5, Kind.INT: 10, Kind.LONG: 19}
_BITS = {Kind.BOOLEAN: 1, Kind.BYTE: 7, Kind.SHORT: 15, Kind.INT: 31, Kind.LONG: 63}
_EXACT_BITS = {Kind.FLOAT: 24, Kind.DOUBLE: 53}


def keeps_values(source: Type, target: Type) -> bool:
    """Whether every value of `source` is still there when it is read as `target`."""
    if source.kind in TEXTS and target.kind in TEXTS:
        # A char drops trailing blanks.
        keeps_blanks = source.kind is Kind.CHAR or target.kind is not Kind.CHAR
        return keeps_blanks and _has_room(target, source.max_length)
    if target.kind is Kind.DECIMAL:
        return _fits_decimal(source, target)
    if source.kind is target.kind:
        return True
    if source.kind in _WHOLE:
        if target.kind in INTEGERS:
            return _BITS[source.kind] <= _BITS[target.kind]
        if target.kind in FLOATS:
            return _BITS[source.kind] <= _EXACT_BITS[target.kind]
        # A minus sign, or the word FALSE.
        return target.kind in TEXTS and _has_room(target, max(5, _DIGITS[source.kind] + 1))
    if target.kind is Kind.STRING:
        return source.kind in (*FLOATS, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP)
    return (source.kind, target.kind) in _OTHERS


_OTHERS = frozenset(
    (
        (Kind.FLOAT, Kind.DOUBLE),
        (Kind.STRING, Kind.BINARY),
        (Kind.VARCHAR, Kind.BINARY),
        (Kind.DATE, Kind.TIMESTAMP),
    )
)


def _has_room(target: Type, length: int | None) -> bool:
    """Whether texts of up to so many characters fit; None is for texts of any length."""
    if target.kind is Kind.STRING or target.max_length is None:
        return True
    return length is not None and length <= target.max_length


def _fits_decimal(source: Type, target: Type) -> bool:
    precision, scale = decimal_shape(target)
    if source.kind in _WHOLE:
        return _DIGITS[source.kind] <= precision - scale
    if source.kind is not Kind.DECIMAL:
        return False
    digits, fraction = decimal_shape(source)
    return fraction <= scale and digits - fraction <= precision - scale
