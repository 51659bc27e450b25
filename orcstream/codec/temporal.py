"""Decoders of dates and timestamps.

Know epochs, writer zones and both calendars; zone transitions come in as arrays. TIMESTAMP is naive wall
clock: what the writer's clock showed, whatever its zone. TIMESTAMP_INSTANT is a point in time. Specification:
"Timestamp Columns"; ORC-306, ORC-763 and ORC-2151 for the times before 1970.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orcstream._buffer import Buffer
from orcstream.codec._temporal import dates, timestamps
from orcstream.codec._values import BoolValues, IntValues
from orcstream.codec.decoder import FixedDecoder
from orcstream.codec.numeric import IntegerDecoder
from orcstream.errors import CorruptStream, Unsupported
from orcstream.schema import Type

__all__ = [
    "JAVA_ZONES_BEGIN",
    "UNITS",
    "UTC",
    "Clock",
    "DateDecoder",
    "TimestampDecoder",
    "ZoneRules",
    "units_of",
]

UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

_UNITS_BY_LETTER = {name[0]: units for name, units in UNITS.items()}


def units_of(format_: str) -> int:
    """Units in a second, of the Arrow format of a timestamp: "tsu:" has a million."""
    return _UNITS_BY_LETTER[format_[2]]


# 2015-01-01 00:00:00 UTC, in seconds since 1970; stored seconds count from that wall clock in the
# writer's zone.
_EPOCH_2015 = 1_420_070_400
# 1900-01-01 00:00:00 UTC: Java's older calendars have the zones' rules from here on.
JAVA_ZONES_BEGIN = -2_208_988_800


@dataclass(frozen=True, slots=True, eq=False)
class ZoneRules:
    """A time zone as arrays.

    `offsets[i]` seconds east of UTC hold from `transitions[i - 1]` up to `transitions[i]`.
    """

    name: str
    transitions: NDArray[np.int64]
    offsets: NDArray[np.int64]

    def base_seconds(self) -> int:
        """The instant at which the zone's clocks showed 2015-01-01 00:00:00."""
        return _EPOCH_2015 - self.base_offset()

    def base_offset(self) -> int:
        """The zone's offset then."""
        index = int(np.searchsorted(self.transitions, _EPOCH_2015, side="right"))
        guess = _EPOCH_2015 - int(self.offsets[index])
        index = int(np.searchsorted(self.transitions, guess, side="right"))
        return int(self.offsets[index])


@dataclass(frozen=True, slots=True, eq=False)
class Clock:
    """What TIMESTAMP values are told by: the writer's zone, and whether its wall clock is wanted or UTC.

    For UTC, `old_shift` makes wall clocks (seconds) UTC by what is to be added: by the local times before
    1900, which the writers' calendars do not know, and the clocks that the times were taken from do.
    """

    zone: ZoneRules
    old_shift: Callable[[NDArray[np.int64]], NDArray[np.int64]] | None = None


UTC = ZoneRules("UTC", np.empty(0, np.int64), np.zeros(1, np.int64))


class DateDecoder(IntegerDecoder):
    """Dates, as days since 1970 in the proleptic Gregorian calendar."""

    def __init__(self, type_: Type, present: BoolValues | None, values: IntValues, *, hybrid: bool) -> None:
        super().__init__(type_, present, values)
        self._hybrid = hybrid

    def _decode(self, count: int, mask: Buffer | None, values: int) -> Buffer:
        return self._narrow(dates(self._values[0].take(values), values, self._hybrid), mask, count)


def beyond_unit(what: str, unit: str, column: int | None = None) -> Unsupported:
    """The error for a time, or several, that `unit` has no room for."""
    coarser = {"ns": '"us"', "us": '"s"', "ms": '"s"'}.get(unit)
    hint = f"; read with a coarser timestamp_unit=, such as {coarser}" if coarser else ""
    return Unsupported(
        f"{what} not fit 64 bits of {unit}{hint}", reason="timestamp_out_of_range", column=column
    )


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
