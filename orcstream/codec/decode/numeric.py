"""Decoders of booleans, integers, floating point numbers and decimals.

Know the encoding tables of these types. Specification: "Column Encodings".
"""

from __future__ import annotations

from orcstream._buffer import Buffer
from orcstream.codec.decode._temporal import decimals, widen
from orcstream.codec.decode.decoder import FixedDecoder
from orcstream.codec.streams._values import BoolValues, IntValues, Values, Varint128Values
from orcstream.codec.vectors._vector import narrow, pack_bits
from orcstream.errors import CorruptStream
from orcstream.schema.types import Kind, Type, decimal_shape

_WIDTHS = {Kind.SHORT: 2, Kind.INT: 4, Kind.DATE: 4}


class BooleanDecoder(FixedDecoder):
    """Booleans, as an Arrow bitmap."""

    def __init__(self, type_: Type, present: BoolValues | None, values: BoolValues) -> None:
        super().__init__(type_, present, [values], row_bytes=1)

    def _decode(self, count: int, mask: Buffer | None, values: int) -> Buffer:
        return pack_bits(self._spread(self._values[0].take(values), mask, count), count)


class PlainDecoder(FixedDecoder):
    """Values that stand in their stream as Arrow wants them.

    Bytes, 64-bit integers, floating point numbers.
    """

    def __init__(self, type_: Type, present: BoolValues | None, values: Values, *, row_bytes: int) -> None:
        super().__init__(type_, present, [values], row_bytes=row_bytes)

    def _decode(self, count: int, mask: Buffer | None, values: int) -> Buffer:
        return self._spread(self._values[0].take(values), mask, count)


class IntegerDecoder(FixedDecoder):
    """Integers narrower than the 64 bits that run lengths are decoded to."""

    def __init__(self, type_: Type, present: BoolValues | None, values: IntValues) -> None:
        super().__init__(type_, present, [values], row_bytes=_WIDTHS[type_.kind])

    def _decode(self, count: int, mask: Buffer | None, values: int) -> Buffer:
        return self._narrow(self._values[0].take(values), mask, count)

    def _narrow(self, data: Buffer, mask: Buffer | None, count: int) -> Buffer:
        return narrow(data, mask, count, self.row_bytes)


class DecimalDecoder(FixedDecoder):
    """Decimals, as decimal128: varints with a scale each, or the integers of the decimal64 form."""

    def __init__(
        self, type_: Type, present: BoolValues | None, values: Values, scales: IntValues | None
    ) -> None:
        super().__init__(type_, present, [values] if scales is None else [values, scales], row_bytes=16)
        self._precision, self._scale = decimal_shape(type_)

    def _decode(self, count: int, mask: Buffer | None, values: int) -> Buffer:
        data = self._values[0].take(values)
        scales = None
        if isinstance(self._values[0], Varint128Values):
            scales = self._values[1].take(values)
        else:
            data = widen(data, values)
        bad = decimals(data, scales, values, self._scale, self._precision)
        if bad >= 0:
            message = f"a value does not fit {self._precision} digits, {self._scale} of them decimals"
            raise self._located(CorruptStream(message), self._values[0])
        return self._spread(data, mask, count)
