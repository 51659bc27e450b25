"""Decoders of dates and timestamps.

Know epochs, writer zones and both calendars. TIMESTAMP is naive wall clock: what the writer's clock showed,
whatever its zone. TIMESTAMP_INSTANT is a point in time. Specification: "Timestamp Columns"; ORC-306, ORC-763
and ORC-2151 for the times before 1970.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from orcstream._buffer import Buffer
from orcstream.codec.decode._temporal import dates, timestamps
from orcstream.codec.decode.decoder import FixedDecoder
from orcstream.codec.decode.numeric import IntegerDecoder
from orcstream.codec.streams._values import BoolValues, IntValues
from orcstream.codec.vectors.times import JAVA_ZONES_BEGIN, UNITS, UTC, Clock, ZoneRules, beyond_unit
from orcstream.errors import CorruptStream
from orcstream.schema.types import Type


class DateDecoder(IntegerDecoder):
    """Dates, as days since 1970 in the proleptic Gregorian calendar."""

    def __init__(self, type_: Type, present: BoolValues | None, values: IntValues, *, hybrid: bool) -> None:
        super().__init__(type_, present, values)
        self._hybrid = hybrid

    def _decode(self, count: int, mask: Buffer | None, values: int) -> Buffer:
        return self._narrow(dates(self._values[0].take(values), values, self._hybrid), mask, count)


class TimestampDecoder(FixedDecoder):
    """Timestamps of either kind, as int64 counts of the unit asked for.

    As points in time, what is stored is one already, but for a constant: so both passes through an hour that
    the clock showed twice are told apart. Before 1900 the way leads over the wall clock, as for Java.
    """

    def __init__(
        self,
        type_: Type,
        present: BoolValues | None,
        seconds: IntValues,
        nanos: IntValues,
        *,
        clock: Clock,
        hybrid: bool,
        unit: str,
    ) -> None:
        super().__init__(type_, present, [seconds, nanos], row_bytes=8)
        self._zone = clock.zone
        self._old_shift = clock.old_shift
        self._base_seconds = clock.zone.base_seconds()
        self._hybrid = hybrid
        self._unit = unit

    def _decode(self, count: int, mask: Buffer | None, values: int) -> Buffer:
        seconds, nanos = (stream.take(values) for stream in self._values)
        if self._old_shift is None:
            return self._spread(self._told(seconds, nanos, values, self._zone), mask, count)
        data = self._told(seconds, nanos, values, None)
        instants = _items(data, values)
        units = UNITS[self._unit]
        old = instants < JAVA_ZONES_BEGIN * units
        if old.any():
            clocks = _items(self._told(seconds, nanos, values, self._zone), values)[old]
            instants[old] = clocks + self._old_shift(clocks // units) * units
        return self._spread(data, mask, count)

    def _told(self, seconds: Buffer, nanos: Buffer, values: int, zone: ZoneRules | None) -> Buffer:
        """By the clock and calendar of a zone; without one, as the points in time that are stored."""
        data, bad, beyond = timestamps(
            seconds,
            nanos,
            values,
            self._base_seconds,
            (zone or UTC).transitions,
            (zone or UTC).offsets,
            zone is not None and self._hybrid,
            UNITS[self._unit],
        )
        if bad >= 0:
            raise self._located(CorruptStream("nanoseconds beyond a second"), self._values[1])
        if beyond >= 0:
            raise self._located(beyond_unit("a timestamp does", self._unit), self._values[0])
        return data


def _items(data: Buffer, count: int) -> NDArray[np.int64]:
    return np.frombuffer(memoryview(data), np.int64, count)
