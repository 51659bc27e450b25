"""Decimals and timestamps on disk (specification: "Decimal Columns", "Timestamp Columns").

The pre-epoch rule is that of the reference implementations (ORC-306, ORC-763, ORC-2151): writers truncate the
instant toward zero, so readers take a second off where the *instant* (not the wall clock) is negative and the
fraction exceeds 999,999 ns.
"""

from __future__ import annotations

import datetime
import zoneinfo
from collections.abc import Sequence
from decimal import Context, Decimal

from .errors import Malformed
from .varint import read_signed, write_signed

EXACT = Context(prec=100)
UNIX_2015 = 1_420_070_400
"""2015-01-01 00:00:00 UTC in seconds: stored timestamps count from that wall clock."""
NANOS = 1_000_000_000
_JAVA_ZONES_BEGIN = -2_208_988_800
_LAST_YEARS = 250_000_000_000


def encode_decimals(unscaled: Sequence[int]) -> bytes:
    return b"".join(map(write_signed, unscaled))


def decode_decimals(data: bytes, count: int) -> list[int]:
    values, at = [], 0
    for _ in range(count):
        value, at = read_signed(data, at)
        values.append(value)
    return values


def decimal_of(unscaled: int, stored_scale: int, scale: int) -> Decimal:
    """The value at the type's scale; digits beyond it are cut, as the C++ reference does."""
    if stored_scale > scale:
        power = 10 ** (stored_scale - scale)
        unscaled = int(abs(unscaled) // power * (1 if unscaled >= 0 else -1))
    else:
        unscaled *= 10 ** (scale - stored_scale)
    return Decimal(unscaled).scaleb(-scale, EXACT)


def unscaled_of(value: Decimal, scale: int) -> int:
    shifted = value.scaleb(scale, EXACT)
    assert shifted == shifted.to_integral_value(context=EXACT), (value, scale)
    return int(shifted)


def encode_nanos(nanos: int) -> int:
    """Trailing zeros out, their number in the low three bits, if there are at least two."""
    if nanos == 0:
        return 0
    zeros = 0
    while nanos % 10 == 0 and zeros < 8:
        nanos //= 10
        zeros += 1
    if zeros < 2:
        return int(nanos * 10**zeros) << 3
    return nanos << 3 | zeros - 1


def decode_nanos(stored: int) -> int:
    zeros = stored & 7
    nanos = stored >> 3
    return int(nanos * 10 ** (zeros + 1)) if zeros else nanos


def offset_at(zone: str, utc_seconds: int) -> int:
    """Seconds that clocks in `zone` are ahead of UTC at an instant.

    Before 1900 it is the zone's standard offset of today, not local mean time: Java's zones begin there, and
    Java wrote the files (the C++ reader does the same).
    """
    if zone in ("UTC", "GMT", "Universal"):
        return 0
    if utc_seconds < _JAVA_ZONES_BEGIN:
        return min(_offset(zone, datetime.datetime(2024, month, 1, tzinfo=datetime.UTC)) for month in (1, 7))
    # Beyond datetime's years the calendar repeats every 400.
    cycle = 146_097 * 86_400
    while utc_seconds > _LAST_YEARS:
        utc_seconds -= cycle
    return _offset(zone, datetime.datetime.fromtimestamp(utc_seconds, datetime.UTC))


def _offset(zone: str, when: datetime.datetime) -> int:
    shifted = when.astimezone(zoneinfo.ZoneInfo(zone)).utcoffset()
    assert shifted is not None
    return int(shifted.total_seconds())


def utc_of_wall(zone: str, wall_seconds: int) -> int:
    """The instant at which clocks in `zone` show `wall_seconds` (since 1970, as if it were UTC)."""
    guess = wall_seconds - offset_at(zone, wall_seconds)
    return wall_seconds - offset_at(zone, guess)


def decode_timestamp(seconds: int, stored_nanos: int, zone: str, *, instant: bool) -> int:
    """Nanoseconds since 1970: of the wall clock in `zone`, or of UTC for an instant."""
    nanos = decode_nanos(stored_nanos)
    # Negative fractions are against the specification, but pyarrow writes them for times before 1970, and
    # both its own reader and the C++ one add them up.
    if not -NANOS < nanos < NANOS:
        raise Malformed("more nanoseconds than a second has")
    base = UNIX_2015 if instant else utc_of_wall(zone, UNIX_2015)
    utc = seconds + base
    if utc < 0 and nanos > 999_999:
        utc -= 1
    return (utc if instant else utc + offset_at(zone, utc)) * NANOS + nanos


def encode_timestamp(value: int, zone: str, *, instant: bool) -> tuple[int, int]:
    """Stored seconds and nanos, truncated toward zero as the reference writers do."""
    seconds, nanos = divmod(value, NANOS)
    utc = seconds if instant else utc_of_wall(zone, seconds)
    base = UNIX_2015 if instant else utc_of_wall(zone, UNIX_2015)
    if utc < 0 and nanos > 999_999:
        utc += 1
    return utc - base, encode_nanos(nanos)


def survives(value: int, zone: str = "UTC") -> bool:
    """Whether the format holds this timestamp: (-1 s, 0) with over 999,999 ns of fraction comes back late."""
    seconds, stored = encode_timestamp(value, zone, instant=False)
    return decode_timestamp(seconds, stored, zone, instant=False) == value


_SWITCH = -141_427
"""1582-10-15 as a day number: the first day of the Gregorian calendar."""


def day_from_hybrid(day: int) -> int:
    """The proleptic Gregorian day with the same year, month and day as `day` has in the hybrid calendar."""
    if day >= _SWITCH:
        return day
    # Julian calendar from its day number (Richards' algorithm), then back as a Gregorian one.
    f = day + 2_440_588 + 1401
    e = 4 * f + 3
    g = e % 1461 // 4
    h = 5 * g + 2
    d = h % 153 // 5 + 1
    m = (h // 153 + 2) % 12 + 1
    y = e // 1461 - 4716 + (14 - m) // 12
    a = (14 - m) // 12
    yy, mm = y + 4800 - a, m + 12 * a - 3
    return d + (153 * mm + 2) // 5 + 365 * yy + yy // 4 - yy // 100 + yy // 400 - 32045 - 2_440_588


def timestamp_from_hybrid(value: int) -> int:
    day, rest = divmod(value, 86_400 * NANOS)
    return day_from_hybrid(day) * 86_400 * NANOS + rest
