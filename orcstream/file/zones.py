"""Zone data, read and brought to arrays; and in which zone and calendar a file's times are read.

Knows TZif files (RFC 8536) and where they are: the `tzdata` package, so that every machine reads the
same rules. The decoders get arrays of transitions. Beyond the last transition that a file lists, its
rule for the years to come is applied up to `_LAST_YEAR`.
"""

from __future__ import annotations

import io
import struct
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from importlib import resources
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from orcstream.codec.metadata.structure import Calendar
from orcstream.codec.vectors.times import JAVA_ZONES_BEGIN, Clock, ZoneRules
from orcstream.codec.vectors.times import UTC as UTC_RULES
from orcstream.errors import Unsupported
from orcstream.plan.tail import Tail
from orcstream.schema.column_statistics import Trust

_HEADER = struct.Struct(">4sc15x6l")
_MAGIC = b"TZif"
_LAST_YEAR = 2500  # as far as the kernels look transitions up
_LOCAL_TIME_TYPE = np.dtype([("offset", ">i4"), ("dst", "u1"), ("name", "u1")])
_UTC_NAMES = ("UTC", "GMT", "Etc/UTC", "Etc/GMT", "Z")
# The short names of java.util.TimeZone, which writers record as they are.
_JAVA_NAMES = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}
# Zones of one offset, as Java has them; in the tz database these names came to stand for places in 2024.
_FIXED_HOURS = {"EST": -5, "MST": -7, "HST": -10}


@lru_cache(maxsize=512)
def load_zone(name: str) -> ZoneRules:
    """The rules of a zone: by its tz database name, a short name of Java's, or an offset such as "GMT+08:00".

    Raises `Unsupported` (``unknown_timezone``) for a name that is none of these.
    """
    if name in _UTC_NAMES:
        return UTC_RULES
    fixed = _FIXED_HOURS[name] * 3600 if name in _FIXED_HOURS else _fixed_offset(name)
    if fixed is not None:
        return ZoneRules(name, np.empty(0, np.int64), np.array([fixed], np.int64))
    return _parse(name, _read(_JAVA_NAMES.get(name, name)))


@lru_cache(maxsize=64)
def mean_time_zone(name: str) -> ZoneRules:
    """The same with the local times that held before 1900, as java.time and Python's zones have them."""
    if name in _UTC_NAMES or name in _FIXED_HOURS or _fixed_offset(name) is not None:
        return load_zone(name)
    return _rules(name, _read(_JAVA_NAMES.get(name, name)))


@lru_cache(maxsize=512)
def find_zone(name: str) -> ZoneRules | None:
    """`load_zone`, or None for a name that is no zone: of a text among the data.

    Java's short names are none there, as they are none to java.time.
    """
    if name in _JAVA_NAMES:
        return None
    try:
        return load_zone(name)
    except Unsupported:
        return None


def _fixed_offset(name: str) -> int | None:
    """Java's names of zones without rules: GMT, UTC or nothing, a sign, hours, and minutes after a colon."""
    text = name.removeprefix("GMT").removeprefix("UTC")
    if not text or text[0] not in "+-":
        return None
    hours, _, minutes = text[1:].partition(":")
    if not (hours.isascii() and hours.isdigit() and len(hours) <= 2 and int(hours) < 24):
        return None
    if minutes and not (minutes.isascii() and minutes.isdigit() and len(minutes) == 2 and int(minutes) < 60):
        return None
    seconds = int(hours) * 3600 + int(minutes or 0) * 60
    return -seconds if text[0] == "-" else seconds


def _read(name: str) -> bytes:
    parts = name.split("/")
    if all(part and part.replace("_", "a").replace("-", "a").replace("+", "a").isalnum() for part in parts):
        package = ".".join(["tzdata.zoneinfo", *parts[:-1]])
        with suppress(ModuleNotFoundError, OSError):
            data = resources.files(package).joinpath(parts[-1]).read_bytes()
            if data.startswith(_MAGIC):
                return data
    raise Unsupported(
        f"the time zone {name!r} is not in the tz database; read with timezone= to say which one is meant",
        reason="unknown_timezone",
    )


def _rules(name: str, data: bytes) -> ZoneRules:
    """The 64-bit block of a TZif file, which follows the 32-bit one, and what its last line says."""
    transitions, kinds = _block(data)
    return _extended(ZoneRules(name, transitions, kinds), data)


def _block(data: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    _, _, isut, isstd, leap, times, types, chars = _HEADER.unpack_from(data)
    second = _HEADER.size + times * 5 + types * 6 + chars + leap * 8 + isstd + isut
    _, _, _, _, _, times, types, _ = _HEADER.unpack_from(data, second)
    at = second + _HEADER.size
    transitions = np.frombuffer(data, ">i8", times, at).astype(np.int64)
    indices = np.frombuffer(data, np.uint8, times, at + 8 * times)
    type_table = np.frombuffer(data, _LOCAL_TIME_TYPE, types, at + 9 * times)
    kinds = type_table["offset"][np.concatenate([np.zeros(1, np.uint8), indices])]
    return transitions, kinds.astype(np.int64)


def _parse(name: str, data: bytes) -> ZoneRules:
    """As Java's older calendars have the zone."""
    rules = _rules(name, data)
    # Where summer time goes on for ever, the lower of the last two offsets is the standard one, whichever of
    # them the tz database calls so (in Dublin it is the other).
    goes_on = len(rules.transitions) > len(_block(data)[0])
    standard = int(rules.offsets[-2:].min() if goes_on else rules.offsets[-1])
    return _without_mean_time(rules, standard)


def _without_mean_time(rules: ZoneRules, standard: int) -> ZoneRules:
    """Zones as Java knows them begin in 1900; before that, today's standard time is taken to hold.

    Writers turn wall clocks into stored instants by these rules, so readers must use the same.
    """
    first = int(np.searchsorted(rules.transitions, JAVA_ZONES_BEGIN, side="right"))
    transitions = np.concatenate([[JAVA_ZONES_BEGIN], rules.transitions[first:]]).astype(np.int64)
    offsets = np.concatenate([[standard], rules.offsets[first:]]).astype(np.int64)
    return ZoneRules(rules.name, transitions, offsets)


def _extended(rules: ZoneRules, data: bytes) -> ZoneRules:
    """Add the transitions of the rule in the file's last line, found by asking `zoneinfo`."""
    footer = data.rstrip(b"\n").rpartition(b"\n")[2]
    if b"," not in footer:  # no daylight saving: the last offset holds for ever
        return rules
    zone = ZoneInfo.from_file(io.BytesIO(data))
    last = int(rules.transitions[-1]) if len(rules.transitions) else 0
    found: list[tuple[int, int]] = []
    known = int(rules.offsets[-1])
    # No period of a rule is shorter than 20 days, so steps of that length miss none.
    stamp = max(last, 0) + 1
    stop = int(datetime(_LAST_YEAR, 1, 1, tzinfo=UTC).timestamp())
    step = 86400 * 20
    while stamp < stop:
        after = min(stamp + step, stop)
        offset = _offset(zone, after)
        if offset != known:
            low, high = stamp, after
            while high - low > 1:
                middle = (low + high) // 2
                if _offset(zone, middle) == known:
                    low = middle
                else:
                    high = middle
            found.append((high, offset))
            known = offset
        stamp = after
    if not found:
        return rules
    more = np.array(found, np.int64)
    return ZoneRules(
        rules.name,
        np.concatenate([rules.transitions, more[:, 0]]),
        np.concatenate([rules.offsets, more[:, 1]]),
    )


def _offset(zone: ZoneInfo, stamp: int) -> int:
    offset = datetime.fromtimestamp(stamp, zone).utcoffset()
    return 0 if offset is None else int(offset.total_seconds())


_SECOND_NS = 10**9


class FileTimes(NamedTuple):
    """What `open` was told about the file's times."""

    timezone: str | None
    default_timezone: str
    calendar: str
    instants: bool = False

    def clock(self, written: str | None) -> Clock:
        """How TIMESTAMP values are told that were written in a zone."""
        zone = self.zone(written)
        if not self.instants:
            return Clock(zone)
        from orcstream.codec.convert.zone_shift import instant_shift

        mean_time = mean_time_zone(zone.name)
        return Clock(zone, lambda clocks: instant_shift(clocks, mean_time))

    def zone(self, written: str | None) -> ZoneRules:
        return load_zone(self.timezone or written or self.default_timezone)

    def hybrid(self, tail: Tail) -> bool:
        if self.calendar != "auto":
            return self.calendar == "hybrid"
        if tail.footer.calendar is Calendar.UNKNOWN:
            return tail.footer.writer == 0
        return tail.footer.calendar is Calendar.JULIAN_GREGORIAN

    def trust(self, trust: Trust, written: str | None) -> Trust:
        """`trust` for stripes that name the zone `written`; None where they name none, or may name any."""
        if self.timezone is None and written is not None:
            # As points in time, values move by an offset of the writer's own zone.
            return trust.read_elsewhere(written, 0) if self.instants else trust.in_zone(written)
        from orcstream.codec.convert.zone_shift import farthest_shift

        zone = self.zone(None)
        return trust.read_elsewhere(written, farthest_shift(zone, instants=self.instants) * _SECOND_NS)
