"""Between the wall clock of a zone and UTC, and zones that a text names.

Knows zone rules as arrays; must not know where they come from, nor vectors. All times are seconds since 1970.
The rules for clocks shown twice or never are those of java.time.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from orcstream.codec.vectors.times import UTC, ZoneRules

_Seconds = NDArray[np.int64]

_RULES_END = 16_725_225_600  # 2500-01-01: transitions are listed up to here, and the calendar repeats
_CYCLE_SECONDS = 12_622_780_800  # every 400 years
# Java's ZoneId: an offset may follow a name of UTC; all other names are of regions.
_FIXED_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d\d):(\d\d)(?::(\d\d))?", re.ASCII)
_REGION = re.compile(r"(?!(?:UTC|GMT|UT)[+-])[A-Za-z][A-Za-z0-9~/._+-]+")
_MOST_OFFSET = 18 * 3600


def wall_clock_shift(instants: _Seconds, zone: ZoneRules) -> _Seconds:
    """What to add to instants to get what the zone's clocks show then."""
    return zone.offsets[np.searchsorted(zone.transitions, _in_rules(instants), side="right")]


def instant_shift(clocks: _Seconds, zone: ZoneRules, *, later: bool = False) -> _Seconds:
    """What to add to the zone's wall clock to get UTC.

    Of a clock shown twice the first time is meant, or the second with `later` (as in java.util's calendars);
    one that was skipped is taken as if it had not been.
    """
    before, after = zone.offsets[:-1], zone.offsets[1:]
    ends = zone.transitions + (after if later else np.maximum(before, after))
    return -zone.offsets[np.searchsorted(ends, _in_rules(clocks), side="right")]


def farthest_shift(zone: ZoneRules, *, instants: bool) -> int:
    """How far reading TIMESTAMP values in `zone` moves them from what is stored, in seconds; at most.

    Stored seconds count from the first moment of 2015 on the clocks of the zone.
    """
    base = zone.base_offset()
    return abs(base) if instants else int(np.abs(zone.offsets - base).max())


def named_zone(
    name: str, zone: ZoneRules, zone_of: Callable[[str], ZoneRules | None] | None
) -> ZoneRules | None:
    """The rules of a zone that a text names: UTC, an offset, `zone` itself, or what `zone_of` knows."""
    if name in ("UTC", "GMT", "UT", "Z"):
        return UTC
    found = _FIXED_OFFSET.fullmatch(name)
    if found:
        hours, minutes, seconds = (int(part or 0) for part in found.groups()[1:])
        offset = hours * 3600 + minutes * 60 + seconds
        if minutes > 59 or seconds > 59 or offset > _MOST_OFFSET:
            return None
        offsets = np.array([-offset if found[1] == "-" else offset], np.int64)
        return ZoneRules(name, np.empty(0, np.int64), offsets)
    if name == zone.name:
        return zone
    return zone_of(name) if zone_of is not None and _REGION.fullmatch(name) else None


def _in_rules(seconds: _Seconds) -> _Seconds:
    late = seconds >= _RULES_END
    if not late.any():
        return seconds
    return np.where(late, seconds - ((seconds - _RULES_END) // _CYCLE_SECONDS + 1) * _CYCLE_SECONDS, seconds)
