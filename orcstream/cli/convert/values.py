"""Texts of CSV, and values of JSON, as the Python values that ORC types take; and the types of such values.

Knows types and how people and programs write their values. Must not know files. Contract: a text is taken
exactly or is a ValueError. What is decided here holds whichever library has split the texts.
"""

from __future__ import annotations

import base64
import datetime
import math
import re
from collections.abc import Callable, Iterable
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import orcstream
from orcstream.schema.types import INT64, MAX_DEPTH, Kind, Type

if TYPE_CHECKING:
    import numpy as np

_WHOLE = re.compile(r"-?[0-9]+")
_NUMBER = re.compile(
    r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE
)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[ T]([0-9]{2}(?::[0-9]{2}(?::[0-9]{2})?)?)(\.[0-9]{1,9})?(Z|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
# Nanoseconds since 1970 have 64 bits within these years.
_NANO_YEARS = range(1678, 2262)
FLAT_TEXTS = frozenset(Kind) - {
    *(Kind.LIST, Kind.MAP, Kind.STRUCT, Kind.UNION, Kind.GEOMETRY, Kind.GEOGRAPHY),
}

Convert = Callable[[Any], Any]


# --- texts -------------------------------------------------------------------------------------------------


def from_text(type_: Type) -> Convert:
    """What makes a value of a type out of a field of CSV, which is no null."""
    match type_.kind:
        case Kind.STRING | Kind.CHAR | Kind.VARCHAR:
            return str
        case Kind.BYTE | Kind.SHORT | Kind.INT | Kind.LONG:
            return _whole
        case Kind.FLOAT | Kind.DOUBLE:
            return _number
        case Kind.BOOLEAN:
            return _boolean
        case Kind.DECIMAL:
            return _decimal
        case Kind.DATE:
            return _date
        case Kind.BINARY:
            return binary
        case Kind.TIMESTAMP:
            return lambda text: _time(text, zoned=False)
        case Kind.TIMESTAMP_INSTANT:
            return lambda text: _time(text, zoned=True)
    raise ValueError(f"no text is a {type_}")


def binary(text: str) -> bytes:
    """The bytes of a base64 text, the form in which `orcstream cat` prints them."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise ValueError("this is not base64") from None


def _whole(text: str) -> int:
    text = text.strip()
    if not _WHOLE.fullmatch(text):
        raise ValueError("this is no integer")
    return int(text)


def _number(text: str) -> float:
    text = text.strip()
    found = _NUMBER.fullmatch(text)
    if not found:
        raise ValueError("this is no number")
    return float(text) if found[3] else finite(text)


def finite(text: str) -> float:
    """The number of a text that is no word for infinity. Raises ValueError where it is too large."""
    value = float(text)
    if math.isinf(value):
        raise ValueError("no double is so large")
    return value


def _boolean(text: str) -> bool:
    found = {**_BOOLEANS, "1": True, "0": False}.get(text.strip())
    if found is None:
        raise ValueError("this is neither true nor false")
    return found


def _decimal(text: str) -> Decimal:
    text = text.strip()
    found = _NUMBER.fullmatch(text)
    if not found or found[3]:
        raise ValueError("this is no number")
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError("this number has too large an exponent") from None


def _date(text: str) -> datetime.date:
    text = text.strip()
    if not _DATE.fullmatch(text):
        raise ValueError("this is no date")
    return datetime.date.fromisoformat(text)


def _time(text: str, *, zoned: bool) -> datetime.datetime | np.datetime64:
    text = text.strip()
    found = _TIME.fullmatch(text)
    if not found:
        raise ValueError("this is no time")
    day, clock, fraction, zone = found.groups()
    if (zone is not None) != zoned:
        raise ValueError("an instant needs a zone, such as Z" if zoned else "this time has a zone")
    if fraction and clock.count(":") < 2:
        raise ValueError("this is no time")
    value = datetime.datetime.fromisoformat(f"{day}T{clock or '00'}{zone or ''}")
    if not fraction:
        return value
    digits = fraction[1:].ljust(9, "0")
    if digits.endswith("000"):
        return value.replace(microsecond=int(digits[:6]))
    if value.year not in _NANO_YEARS:
        raise ValueError("nanoseconds reach from 1678 to 2261")
    import numpy as np  # for the few times that need it

    naive = value.astimezone(datetime.UTC).replace(tzinfo=None) if zoned else value
    return np.datetime64(naive, "ns") + np.timedelta64(int(digits), "ns")


# In the order in which they are tried; a type is that of a column if it takes all of its texts.
_GUESSES: tuple[tuple[Kind, Convert], ...] = (
    (Kind.LONG, lambda text: INT64.index(_whole(text))),
    (Kind.BOOLEAN, lambda text: _BOOLEANS[text.strip()]),
    (Kind.DATE, _date),
    (Kind.TIMESTAMP, lambda text: _time(text, zoned=False)),
    (Kind.TIMESTAMP_INSTANT, lambda text: _time(text, zoned=True)),
    (Kind.DOUBLE, _number),
)


def text_type(texts: Iterable[str]) -> Type:
    """The type of a column of CSV without its nulls; string where there are only nulls."""
    held = list(texts)
    for kind, convert in _GUESSES if held else ():
        try:
            for text in held:
                convert(text)
        except (ValueError, KeyError):
            continue
        return Type(kind)
    return Type(Kind.STRING)


# --- values of JSON ----------------------------------------------------------------------------------------


_JSON_KINDS: tuple[tuple[Kind, set[type]], ...] = (
    (Kind.STRING, {str}),
    (Kind.BOOLEAN, {bool}),
    (Kind.LONG, {int}),
    (Kind.DOUBLE, {int, float}),
)


def json_type(values: Iterable[Any], path: str, depth: int = 1) -> Type:
    """The type that takes these values of JSON. Raises ValueError where none does."""
    if depth > MAX_DEPTH:
        raise orcstream.Unsupported(
            f"the values nest deeper than {MAX_DEPTH} levels", reason="schema_too_deep"
        )
    held = [value for value in values if value is not None]
    kinds = {type(value) for value in held}
    for kind, classes in _JSON_KINDS:
        if kinds <= classes:
            return Type(kind)
    if kinds == {list}:
        items = (item for value in held for item in value)
        return Type(Kind.LIST, (json_type(items, f"{path}[]", depth + 1),))
    if kinds == {dict}:
        names = dict.fromkeys(name for value in held for name in value)
        inner = path + "." if path else ""
        types = (json_type((value.get(name) for value in held), inner + name, depth + 1) for name in names)
        return Type(Kind.STRUCT, tuple(types), tuple(names))
    words = {
        dict: "objects",
        list: "arrays",
        str: "texts",
        bool: "booleans",
        int: "numbers",
        float: "numbers",
    }
    found = " and ".join(sorted({words[kind] for kind in kinds}))
    raise ValueError(f"{f'the field {path!r}' if path else 'the file'} holds {found}")


def from_json(type_: Type) -> Convert:
    """What makes a value of a type out of one of JSON; fields that the type lacks are left out."""
    plain = _from_json(type_)
    return lambda value: None if value is None else plain(value)


def _from_json(type_: Type) -> Convert:
    match type_.kind:
        case Kind.STRUCT:
            fields = {
                name: from_json(child) for name, child in zip(type_.field_names, type_.children, strict=True)
            }
            return lambda value: {
                name: fields[name](item) for name, item in _as(value, dict).items() if name in fields
            }
        case Kind.LIST:
            item = from_json(type_.children[0])
            return lambda value: [item(one) for one in _as(value, list)]
        case Kind.MAP:
            key, val = map(from_json, type_.children)
            return lambda value: [(key(k), val(v)) for k, v in _pairs(value)]
        case Kind.UNION:
            raise ValueError(f"JSON has no {type_}")
        case Kind.DECIMAL:
            return lambda value: _decimal(value) if isinstance(value, str) else value
        case Kind.DATE | Kind.TIMESTAMP | Kind.TIMESTAMP_INSTANT | Kind.BINARY:
            convert = from_text(type_)
            return lambda value: convert(_as(value, str))
        case Kind.FLOAT | Kind.DOUBLE:
            # NaN and the infinities, which JSON lacks, are texts where `orcstream cat` wrote them.
            return lambda value: _number(value) if isinstance(value, str) else _float(value)
    return lambda value: value


def _float(value: Any) -> Any:
    return finite(str(value)) if isinstance(value, Decimal) else value


def _as(value: Any, class_: type) -> Any:
    if not isinstance(value, class_):
        raise ValueError(f"{value!r:.60} is not a {class_.__name__}")  # noqa: TRY004  # data, not a call
    return value


def _pairs(value: Any) -> Iterable[tuple[Any, Any]]:
    """An object, or the list of keys and values that `orcstream cat` makes of a map."""
    if isinstance(value, dict):
        return value.items()
    return [(_as(pair, dict).get("key"), pair.get("value")) for pair in _as(value, list)]
