"""Units, time zones and clocks: what the numbers of dates and timestamps mean.

Zone transitions come in as arrays. Specification: "Timestamp Columns"; ORC-306 and ORC-763.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orcstream.errors import Unsupported

UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

_UNITS_BY_LETTER = {name[0]: units for name, units in UNITS.items()}


def units_of(format_: str) -> int:
    """Units in a second, of the Arrow format of a timestamp: "tsu:" has a million."""
    return _UNITS_BY_LETTER[format_[2]]


def beyond_unit(what: str, unit: str, column: int | None = None) -> Unsupported:
    """The error for a time, or several, that `unit` has no room for."""
    coarser = {"ns": '"us"', "us": '"s"', "ms": '"s"'}.get(unit)
    hint = f"; read with a coarser timestamp_unit=, such as {coarser}" if coarser else ""
    return Unsupported(
        f"{what} not fit 64 bits of {unit}{hint}", reason="timestamp_out_of_range", column=column
    )


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
UTC_CLOCK = Clock(UTC)
