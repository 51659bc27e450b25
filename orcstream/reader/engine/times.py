"""The zone and the calendar in which a file's times are read, and which of its statistics to believe.

Decides how far delivered times may be from those that the file's statistics record. Must not fetch.
"""

from __future__ import annotations

from orcstream.codec.metadata.structure import Calendar
from orcstream.codec.vectors.times import Clock, ZoneRules
from orcstream.file.zones import load_zone, mean_time_zone
from orcstream.plan.tail import Tail
from orcstream.schema.column_statistics import Trust, trust_of

_SECOND_NS = 10**9


def trust_in(tail: Tail) -> Trust:
    """Which of a file's own numbers may be believed."""
    footer, postscript = tail.footer, tail.postscript
    return trust_of(footer.writer, postscript.writer_version, footer.software_version, postscript.version)


class FileTimes:
    """What `open` was told about the file's times."""

    __slots__ = ("calendar", "default_timezone", "instants", "timezone")

    def __init__(
        self, timezone: str | None, default_timezone: str, calendar: str, *, instants: bool = False
    ) -> None:
        self.timezone = timezone
        self.default_timezone = default_timezone
        self.calendar = calendar
        self.instants = instants

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
