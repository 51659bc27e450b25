"""Values of rows as text: JSON and CSV.

Knows ORC types, the Python values that `to_pylist` gives for them, and what may stand in either format.
Contract: nothing is lost. JSON numbers have all their digits (decimals, 64-bit integers); NaN and the
infinities, which JSON lacks, come as strings; times have as many digits as they need, up to nine; binary is
base64; maps are lists of `{"key": ..., "value": ...}`, because keys may be of any type, and unions
`{"tag": ..., "value": ...}`. In CSV (RFC 4180) null is nothing and the empty text is `""`; nested values are
JSON within a field.
"""

from __future__ import annotations

import base64
import datetime
import json
import math
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from orcstream.schema.types import Kind, Type

if TYPE_CHECKING:
    import numpy as np

Format = Callable[[Any], str]

# What JSON leaves and a terminal may take for an order: DEL, C1, and marks that turn the line around.
_ORDERS = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")

_NESTED = (Kind.STRUCT, Kind.LIST, Kind.MAP, Kind.UNION)


def json_format(type_: Type) -> Format:
    """What turns a value of the type, or None, into JSON."""
    plain = _json_nested(type_) if type_.kind in _NESTED else _json_plain(type_)
    return lambda value: "null" if value is None else plain(value)


def csv_format(type_: Type) -> Format:
    """What turns a value of the type, or None, into a CSV field."""
    plain = json_format(type_) if type_.kind in _NESTED else _plain(type_)
    return lambda value: "" if value is None else _csv_field(plain(value))


def json_row(names: Iterable[str]) -> Callable[[Iterable[str]], str]:
    """What turns a row's JSON values into a JSON object; names may occur twice in ORC, and so here."""
    keys = [_json_text(name) + ": " for name in names]

    def row(cells: Iterable[str]) -> str:
        return "{" + ", ".join(map(str.__add__, keys, cells)) + "}"

    return row


def csv_row(texts: Iterable[str]) -> str:
    """A line of CSV."""
    return ",".join(map(_csv_field, texts))


# --- plain values ------------------------------------------------------------------------------------------


def _plain(type_: Type) -> Format:
    """Text without quotes."""
    import numpy as np

    match type_.kind:
        case Kind.BOOLEAN:
            return lambda value: "true" if value else "false"
        case Kind.DECIMAL:
            return lambda value: format(value, "f")
        case Kind.FLOAT:
            return lambda value: _number(value, str(np.float32(value)))
        case Kind.DOUBLE:
            return lambda value: _number(value, repr(value))
        case Kind.BINARY | Kind.GEOMETRY | Kind.GEOGRAPHY:
            return lambda value: base64.b64encode(value).decode()
        case Kind.TIMESTAMP:
            return _time
        case Kind.TIMESTAMP_INSTANT:
            return lambda value: _time(value) + "Z"
    return str


def _json_plain(type_: Type) -> Format:
    plain = _plain(type_)
    match type_.kind:
        case Kind.BOOLEAN | Kind.BYTE | Kind.SHORT | Kind.INT | Kind.LONG | Kind.DECIMAL:
            return plain
        case Kind.FLOAT | Kind.DOUBLE:
            return lambda value: plain(value) if math.isfinite(value) else f'"{plain(value)}"'
    return lambda value: _json_text(plain(value))


def _number(value: float, text: str) -> str:
    if math.isfinite(value):
        return text
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _time(value: datetime.datetime | np.datetime64) -> str:
    """Wall clock, without a zone (`datetime64` has none, and a `datetime` loses it here)."""
    if isinstance(value, datetime.datetime):
        text = value.replace(tzinfo=None).isoformat(" ")
    else:
        text = str(value).replace("T", " ")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _json_text(text: str) -> str:
    return _ORDERS.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))


def _csv_field(text: str) -> str:
    if text and not any(character in text for character in ',"\r\n'):
        return text
    return '"' + text.replace('"', '""') + '"'


# --- nested values -----------------------------------------------------------------------------------------


def _json_nested(type_: Type) -> Format:
    formats = [json_format(child) for child in type_.children]
    match type_.kind:
        case Kind.STRUCT:
            row = json_row(type_.field_names)
            return lambda value: row(f(v) for f, v in zip(formats, value.values(), strict=True))
        case Kind.LIST:
            (item,) = formats
            return lambda value: "[" + ", ".join(map(item, value)) + "]"
        case Kind.MAP:
            key, val = formats
            return lambda value: (
                "[" + ", ".join(f'{{"key": {key(k)}, "value": {val(v)}}}' for k, v in value) + "]"
            )
    return lambda value: f'{{"tag": {value.tag}, "value": {formats[value.tag](value.value)}}}'
