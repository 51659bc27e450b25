"""Kernels of conversions against Python's numbers, dates and decimals, and against buffers that lie."""

from __future__ import annotations

import datetime
import math
import struct
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import ROUND_HALF_UP, Context, Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orcstream.codec.convert import _convert, _format, _parse
from orcstream.codec.convert.conversion import transform_of
from orcstream.codec.convert.rules import ConvertOptions
from orcstream.codec.vectors import _texts
from orcstream.schema.schema import Schema
from tests.generators.arrow_vectors import vector_from

EXACT = Context(prec=80, rounding=ROUND_HALF_UP)


def ones(count: int) -> Any:
    return np.ones(count, np.uint8)


def view(buffer: Any, dtype: Any) -> Any:
    return np.frombuffer(buffer, dtype)


def texts_of(values: Sequence[str | bytes]) -> tuple[Any, Any, Any]:
    """Offsets, bytes and mask of texts."""
    parts = [v.encode() if isinstance(v, str) else v for v in values]
    offsets = np.cumsum([0, *map(len, parts)]).astype(np.int32)
    return offsets, np.frombuffer(b"".join(parts), np.uint8), ones(len(parts))


def made(texts: tuple[Any, Any]) -> list[str]:
    offsets = np.frombuffer(texts[0], np.int32).tolist()
    data = bytes(texts[1])
    return [data[start:stop].decode() for start, stop in pairwise(offsets)]


def words_of(numbers: Sequence[int]) -> Any:
    return np.frombuffer(b"".join(n.to_bytes(16, "little", signed=True) for n in numbers), np.int64)


def numbers_of(words: Any) -> list[int]:
    data = bytes(words)
    return [int.from_bytes(data[i : i + 16], "little", signed=True) for i in range(0, len(data), 16)]


def java_text(value: float) -> str:
    """The text of a double that Java's documentation describes, from the digits of Python's."""
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    if not any(digits):
        return "-0.0" if sign else "0.0"
    top = exponent + len(digits) - 1
    if len(digits) == 1:  # of two digits the nearer may be told apart as well
        digits, top = nearest_two(abs(value))
    text = "".join(map(str, digits))
    if -3 <= top < 7:
        text = "0." + "0" * (-top - 1) + text if top < 0 else text.ljust(top + 1, "0")
        if top >= 0:
            text = text[: top + 1] + "." + (text[top + 1 :] or "0")
    else:
        text = f"{text[0]}.{text[1:] or '0'}E{top}"
    return "-" * sign + text


def nearest_two(value: float) -> tuple[tuple[int, ...], int]:
    exact = Decimal(value)
    top = exact.adjusted()
    rounded = exact.quantize(Decimal(1).scaleb(top - 1), context=Context(prec=400)).normalize()
    return rounded.as_tuple().digits, rounded.adjusted()


DOUBLES = st.floats(allow_nan=False) | st.integers(-1100, 1023).map(lambda e: math.ldexp(1.0, e))


@given(st.lists(DOUBLES, max_size=300))
def test_texts_of_doubles(values: list[float]) -> None:
    found = made(_format.format_doubles(np.array(values, float), ones(len(values))))
    assert found == [java_text(value) for value in values]


def test_texts_of_all_powers_of_two() -> None:
    values = [math.ldexp(1.0, e) for e in range(-1074, 1024)]
    assert made(_format.format_doubles(np.array(values), ones(len(values)))) == list(map(java_text, values))


@given(st.lists(st.floats(), max_size=100), st.integers(0, 40))
def test_doubles_of_texts(values: list[float], digits: int) -> None:
    texts = [format(value, f".{digits}e") if math.isfinite(value) else "NaN" for value in values]
    offsets, data, mask = texts_of(texts)
    found = view(_parse.parse_doubles(offsets, data, mask), float)
    assert mask.all()
    wanted = [float(text) for text in texts]
    assert [struct.pack("d", abs(f)) for f in found] == [struct.pack("d", abs(w)) for w in wanted]


@given(st.lists(st.integers(-(2**70), 2**70).map(str) | st.text("+-0123456789 x", max_size=5), max_size=100))
def test_integers_of_texts(texts: list[str]) -> None:
    offsets, data, mask = texts_of(texts)
    found = view(_parse.parse_ints(offsets, data, mask), np.int64).tolist()
    for text, value, ok in zip(texts, found, mask, strict=True):
        right = text.lstrip("+-").isdigit() and len(text) - len(text.lstrip("+-")) <= 1
        right = right and -(2**63) <= int(text) < 2**63
        assert (bool(ok), value) == (right, int(text) if right else 0)


UNSCALED = st.integers(-(10**38) + 1, 10**38 - 1) | st.integers(-(10**6), 10**6)


@given(st.lists(UNSCALED, max_size=50), st.integers(0, 38), st.integers(1, 38), st.data())
def test_decimals(values: list[int], scale: int, precision: int, data: st.DataObject) -> None:
    target = data.draw(st.integers(0, precision))
    decimals = [Decimal(value).scaleb(-scale, EXACT) for value in values]
    mask = ones(len(values))
    found = numbers_of(_convert.decimals_from_numbers(words_of(values), 2, mask, scale, precision, target))
    for decimal, number, ok in zip(decimals, found, mask, strict=True):
        wanted = int(decimal.quantize(Decimal(1).scaleb(-target), context=EXACT).scaleb(target, EXACT))
        assert (bool(ok), number) == ((True, wanted) if abs(wanted) < 10**precision else (False, 0))
    doubles = view(_convert.doubles_from_decimals(words_of(values), ones(len(values)), scale), float)
    assert doubles.tolist() == [float(decimal) for decimal in decimals]
    texts = made(_format.format_decimals(words_of(values), ones(len(values)), scale))
    assert [Decimal(text) for text in texts] == decimals
    assert not any("." in text and text.endswith(("0", ".")) for text in texts)
    offsets, read, mask = texts_of(texts)
    assert numbers_of(_parse.parse_decimals(offsets, read, mask, 38, scale)) == values
    assert mask.all()


@given(st.lists(st.dates(), max_size=50), st.lists(st.datetimes(), max_size=50))
def test_dates_and_times(dates: list[datetime.date], times: list[datetime.datetime]) -> None:
    days = np.array(dates, "M8[D]").astype(np.int32)
    texts = made(_format.format_dates(days, ones(len(days))))
    assert texts == [date.isoformat() for date in dates]
    offsets, data, mask = texts_of(texts)
    assert view(_parse.parse_dates(offsets, data, mask), np.int32).tolist() == days.tolist()

    ticks = np.array(times, "M8[us]").astype(np.int64)
    texts = made(_format.format_timestamps(ticks, ones(len(ticks)), 6, b""))
    assert texts == [isoformat(time) for time in times]
    offsets, data, mask = texts_of(texts)
    seconds, nanos, _, names = _parse.parse_timestamps(offsets, data, mask, zoned=False)
    assert mask.all() and not names
    again, beyond = _convert.ticks_from_seconds(view(seconds, np.int64), view(nanos, np.int32), mask, 10**6)
    assert beyond == -1
    assert view(again, np.int64).tolist() == ticks.tolist()


def isoformat(time: datetime.datetime) -> str:
    return time.isoformat(" ").rstrip("0") if time.microsecond else time.isoformat(" ")


@given(st.lists(st.binary(max_size=30) | st.text(max_size=30).map(str.encode), max_size=60))
def test_any_bytes_are_texts(values: list[bytes]) -> None:
    """Whatever stands there, each parser answers, and what it does not take becomes null."""
    array = pa.array(values, pa.binary())
    for target in ("boolean", "bigint", "double", "decimal(38,10)", "date", "timestamp",
                   "timestamp with local time zone", "char(7)", "varchar(2)"):  # fmt: skip
        convert = transform_of(Schema.parse("string").root, Schema.parse(target).root, ConvertOptions())
        assert convert is not None
        assert convert(vector_from(array)).length == len(values)


class TestBuffersThatLie:
    """What the kernels are given is checked before it is used, whoever calls."""

    BYTES = np.zeros(4, np.uint8)

    @pytest.mark.parametrize("offsets", [[0, 5], [-1, 2], [3, 2], [0, 2, 4], [0], []])
    def test_offsets(self, offsets: list[int]) -> None:
        bad = np.array(offsets, np.int32)
        calls: list[Callable[[], object]] = [
            lambda: _parse.parse_ints(bad, self.BYTES, ones(1)),
            lambda: _parse.parse_doubles(bad, self.BYTES, ones(1)),
            lambda: _parse.parse_decimals(bad, self.BYTES, ones(1), 5, 2),
            lambda: _parse.parse_dates(bad, self.BYTES, ones(1)),
            lambda: _parse.parse_timestamps(bad, self.BYTES, ones(1), zoned=True),
            lambda: _format.format_hexadecimal(bad, self.BYTES, ones(1)),
            lambda: _texts.cut_texts(bad, self.BYTES, ones(1), 3, trim=False, pad=0),
        ]
        for call in calls:
            with pytest.raises(ValueError, match="offsets"):
                call()

    def test_lengths(self) -> None:
        two = np.zeros(2, np.int64)
        calls: list[Callable[[], object]] = [
            lambda: _convert.decimals_from_numbers(two, 1, ones(3), 0, 5, 2),
            lambda: _convert.decimals_from_numbers(two, 2, ones(2), 0, 5, 2),
            lambda: _convert.decimals_from_doubles(two.astype(float), ones(1), 5, 2),
            lambda: _convert.ints_from_decimals(two, ones(2), 0),
            lambda: _convert.doubles_from_decimals(two, ones(2), 0),
            lambda: _convert.ticks_from_decimals(two, ones(2), 0, 9),
            lambda: _convert.ticks_from_seconds(two, np.zeros(1, np.int32), ones(2), 1),
            lambda: _format.format_ints(two, ones(1)),
            lambda: _format.format_booleans(two, ones(3)),
            lambda: _format.format_doubles(two.astype(float), ones(3)),
            lambda: _format.format_decimals(two, ones(2), 3),
            lambda: _format.format_dates(np.zeros(2, np.int32), ones(3)),
            lambda: _format.format_timestamps(two, ones(3), 6, b""),
        ]
        for call in calls:
            with pytest.raises(ValueError, match=r"\bmask\b"):
                call()

    @pytest.mark.parametrize("words", [0, 3])
    def test_numbers_of_other_widths(self, words: int) -> None:
        with pytest.raises(ValueError, match=r"\bnumbers\b"):
            _convert.decimals_from_numbers(np.zeros(2 * words, np.int64), words, ones(2), 0, 5, 2)

    @pytest.mark.parametrize("shape", [(0, 0), (39, 2), (5, 39), (5, -1)])
    def test_shapes(self, shape: tuple[int, int]) -> None:
        two = np.zeros(2, np.int64)
        offsets, data, _ = texts_of(["1"])
        calls: list[Callable[[], object]] = [
            lambda: _convert.decimals_from_numbers(two, 1, ones(2), 0, *shape),
            lambda: _convert.decimals_from_numbers(two, 2, ones(1), 0, *shape),
            lambda: _convert.decimals_from_doubles(two.astype(float), ones(2), *shape),
            lambda: _parse.parse_decimals(offsets, data, ones(1), *shape),
        ]
        for call in calls:
            with pytest.raises(ValueError, match=r"\bdecimal\b"):
                call()

    @pytest.mark.parametrize("index", [-1, 2])
    def test_indexes(self, index: int) -> None:
        offsets, data, _ = texts_of(["a", "b"])
        with pytest.raises(ValueError, match=r"\bdictionary\b"):
            _texts.gather_texts(np.array([0, index], np.int32), ones(2), offsets, data)


def test_one_function_on_many_threads() -> None:
    array = pa.array([str(i) for i in range(5000)]).dictionary_encode()
    convert = transform_of(Schema.parse("string").root, Schema.parse("decimal(9,1)").root, ConvertOptions())
    assert convert is not None
    vectors = [vector_from(array.take(pa.array(range(start, 5000)))) for start in range(40)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(convert, vectors * 3))
    wanted = [bytes(convert(vector).buffers[1] or b"") for vector in vectors] * 3
    assert [bytes(vector.buffers[1] or b"") for vector in found] == wanted
