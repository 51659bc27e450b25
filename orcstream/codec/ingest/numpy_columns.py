"""Arrays of numpy as columns in the Arrow layout, sharing their memory where it is laid out so.

Knows dtypes, and masked arrays. Must not know ORC types: `codec.ingest.fitting` takes the columns from
here; arrays of objects are for `codec.ingest.python_values`. Contract: NaT and masked values are null;
NaN is a value.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

import numpy as np

from orcstream.codec.arrow._arrow_import import ArrowColumn, ArrowField
from orcstream.codec.ingest.refusals import refuse
from orcstream.codec.vectors.arrays import Array, Mask, pack

_FORMATS = {
    "i1": "c",
    "u1": "C",
    "i2": "s",
    "u2": "S",
    "i4": "i",
    "u4": "I",
    "i8": "l",
    "u8": "L",
    "f2": "e",
    "f4": "f",
    "f8": "g",
}
_UNITS = {"s": "tss:", "ms": "tsm:", "us": "tsu:", "ns": "tsn:"}
_MOST = (1 << 63) - 1
_COARSE = {"h": 3600, "m": 60}  # in seconds


def holds_objects(array: Array) -> bool:
    """Whether the values are Python objects (also where numpy keeps texts of any length)."""
    return array.dtype.kind in "OT"


def column_of_array(name: str, array: Array, *, instants: bool) -> ArrowColumn:
    """The array as a column; `instants` says that its times are instants and no wall clock times.

    Raises SchemaMismatch for arrays that are not of one dimension, and for dtypes that no column has.
    """
    if array.ndim != 1:
        refuse((name,), None, f"is an array of {array.ndim} dimensions")
    plain = np.asarray(np.ma.getdata(array))
    dtype = plain.dtype
    if dtype.names is not None or dtype.kind not in "biufMUS" or (dtype.itemsize > 8 and dtype.kind == "f"):
        refuse((name,), None, f"is an array of {dtype}, which no column type takes")
    mask = np.ma.getmask(array)
    valid: Mask | None = None if mask is np.ma.nomask else ~np.asarray(mask, np.bool_)
    if not dtype.isnative:
        plain = plain.astype(dtype.newbyteorder("="))
    if dtype.kind == "M":
        return _times(name, plain, valid, instants)
    if dtype.kind in "US":
        return _fixed_texts(name, plain, valid)
    if dtype.kind == "b":
        return _column(name, "b", len(plain), valid, (pack(np.ascontiguousarray(plain)),))
    return _column(name, _FORMATS[f"{dtype.kind}{dtype.itemsize}"], len(plain), valid, (_aligned(plain),))


def _column(name: str, format_: str, count: int, valid: Mask | None, buffers: tuple[Any, ...]) -> ArrowColumn:
    bitmap = None if valid is None else pack(valid)
    return ArrowColumn(ArrowField(format_, name, (), (), None), count, 0, (bitmap, *buffers), (), None)


def _aligned(array: Array) -> Array:
    return np.require(array, requirements=["C_CONTIGUOUS", "ALIGNED"])


def _times(name: str, array: Array, valid: Mask | None, instants: bool) -> ArrowColumn:
    unit, step = np.datetime_data(array.dtype)
    missing = np.isnat(array)
    if missing.any():
        valid = ~missing if valid is None else valid & ~missing
    if unit == "D" and step == 1:
        return _dates(name, array.view("i8"), valid)
    wanted = "s" if unit in _COARSE else unit
    if wanted not in _UNITS:
        refuse((name,), None, f"is an array of {array.dtype}; convert it to datetime64[ns] or datetime64[D]")
    factor = step * _COARSE.get(unit, 1)
    if factor != 1:  # numpy wraps around, or raises OverflowError from 2.5 on
        ticks, limit = array.astype("i8"), _MOST // factor
        bad = ((ticks > limit) | (ticks < -limit)) & ~missing
        if bad.any():
            refuse((name,), None, f"holds times that 64 bits of {wanted} do not", int(bad.argmax()))
    converted = array.astype(f"M8[{wanted}]")
    format_ = _UNITS[wanted] + ("UTC" if instants else "")
    return _column(name, format_, len(array), valid, (_aligned(converted).view("i8"),))


def _dates(name: str, days: Array, valid: Mask | None) -> ArrowColumn:
    narrow = days.astype("i4")
    bad = narrow != days
    if valid is not None:
        bad &= valid
    if bad.any():
        refuse((name,), None, "holds a date that 32 bits do not", int(bad.argmax()))
    return _column(name, "tdD", len(days), valid, (narrow,))


def _utf8(name: str, array: Array, valid: Mask | None) -> Array:
    encoded: Array | None = None
    # For numbers beyond Unicode, numpy raises SystemError.
    with suppress(UnicodeEncodeError, SystemError):
        encoded = np.char.encode(array, "utf-8")
    if encoded is not None:
        return encoded
    codes = _aligned(array).view("u4").reshape(len(array), -1)
    wrong = ((codes > sys.maxunicode) | ((codes >= 0xD800) & (codes <= 0xDFFF))).any(axis=1)
    if valid is not None:
        wrong &= valid
    if wrong.any():
        refuse((name,), None, "holds a text that is no Unicode", int(wrong.argmax()))
    return np.char.encode(np.where(True if valid is None else valid, array, ""), "utf-8")


def _fixed_texts(name: str, array: Array, valid: Mask | None) -> ArrowColumn:
    """Texts of one width, without the zeros at their ends: numpy takes these for padding, too."""
    format_ = "u" if array.dtype.kind == "U" else "z"
    if array.dtype.kind == "U":
        array = _utf8(name, array, valid)
    array = _aligned(array)
    count, width = len(array), array.dtype.itemsize
    lengths = np.char.str_len(array).astype("i8") if count else np.empty(0, "i8")
    offsets = np.zeros(count + 1, "i8")
    np.cumsum(lengths, out=offsets[1:])
    data = np.empty(0, "u1")
    if count and width:
        data = array.view("u1").reshape(count, width)[np.arange(width) < lengths[:, None]]
    return _column(name, format_.upper(), count, valid, (offsets, data))
