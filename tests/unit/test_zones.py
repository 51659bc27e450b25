"""Zones by name: the tz database's rules as arrays, Java's fixed offsets, and names that are neither."""

from __future__ import annotations

import datetime
import random
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from orcstream.codec.vectors.times import UTC, ZoneRules
from orcstream.errors import Unsupported
from orcstream.file.zones import find_zone, load_zone, mean_time_zone
from tests.support.kernels import packaged_zones

__all__ = ["packaged_zones"]

# The judge must read the package's own edition of the database, not the machine's.
pytestmark = pytest.mark.usefixtures("packaged_zones")
NAMES = (
    "America/New_York",
    "America/St_Johns",
    "America/Argentina/Buenos_Aires",
    "Europe/Dublin",
    "Europe/Moscow",
    "Asia/Tokyo",
    "Asia/Kathmandu",
    "Africa/Casablanca",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Antarctica/Troll",
    "Etc/GMT+8",
    "EST5EDT",
)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def offset_of(rules: ZoneRules, instant: int) -> int:
    return int(rules.offsets[np.searchsorted(rules.transitions, instant, side="right")])


@pytest.mark.parametrize("name", NAMES)
def test_rules_against_zoneinfo(name: str) -> None:
    rng = random.Random(name)
    rules, zone = load_zone(name), ZoneInfo(name)
    assert rules.name == name
    low, high = -2_208_988_800, 4_102_444_800
    stamps = [rng.randint(low, high) for _ in range(1500)]
    stamps += [t + by for t in rules.transitions.tolist() if low < t < high for by in (-1, 0)]
    for stamp in stamps:
        local = (EPOCH + datetime.timedelta(seconds=stamp)).astimezone(zone).utcoffset()
        assert local is not None
        assert offset_of(rules, stamp) == local.total_seconds(), stamp


@pytest.mark.parametrize("name", NAMES)
def test_arrays_are_what_kernels_search(name: str) -> None:
    rules = load_zone(name)
    assert rules.transitions.dtype == rules.offsets.dtype == np.int64
    assert len(rules.offsets) == len(rules.transitions) + 1
    assert (np.diff(rules.transitions) > 0).all()
    assert load_zone(name) is rules


@pytest.mark.parametrize(
    ("name", "offset"),
    [
        ("GMT+08:00", 28_800),
        ("GMT-03:30", -12_600),
        ("UTC+5", 18_000),
        ("+00:30", 1800),
        ("-23:59", -86_340),
        ("GMT+0", 0),
    ],
)
def test_fixed_offsets(name: str, offset: int) -> None:
    rules = load_zone(name)
    assert len(rules.transitions) == 0
    assert rules.offsets.tolist() == [offset]


def test_zones_of_the_database_without_transitions() -> None:
    assert set(load_zone("Etc/GMT-14").offsets.tolist()) == {50_400}


def test_before_1900_standard_time_holds() -> None:
    # Java's zones begin there, and it wrote the files; local mean time would be -17762.
    assert offset_of(load_zone("America/New_York"), -2_208_988_801) == -18_000
    assert offset_of(load_zone("America/New_York"), -(1 << 62)) == -18_000


@pytest.mark.parametrize("name", ["UTC", "GMT", "Etc/UTC", "Etc/GMT", "Z"])
def test_utc(name: str) -> None:
    assert load_zone(name) is UTC


UNKNOWN = (
    "",
    "Mars/Olympus",
    "America",
    "America/",
    "/America/New_York",
    "America//New_York",
    "America/New_York/x",
    "../zoneinfo/UTC",
    "tzdata.zi",
    "zone.tab",
    "__init__",
    "__pycache__",
    "GMT+24:00",
    "GMT+8:60",
    "GMT+8:5",
    "GMT+",
    "+-5",
    "GMT+٨",
    "a\0b",
    "Europe/Zürich",
    "XST",
)


def test_short_names_are_of_writers_only() -> None:
    """java.util.TimeZone, whose names files have, knows them; java.time, whose names texts have, does not."""
    assert load_zone("PST").offsets.tolist() == load_zone("America/Los_Angeles").offsets.tolist()
    assert find_zone("PST") is None
    assert find_zone("EST") is not None


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_zones(name: str) -> None:
    with pytest.raises(Unsupported, match=r"\btimezone=") as caught:
        load_zone(name)
    assert caught.value.reason == "unknown_timezone"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("leapseconds", id="a file of the database that is no zone"),
        pytest.param("a" * 5000, id="a name that no file can have"),
    ],
)
def test_hostile_names(name: str) -> None:
    with pytest.raises(Unsupported) as caught:
        load_zone(name)
    assert caught.value.reason == "unknown_timezone"


@pytest.mark.parametrize("name", ["Europe/Amsterdam", "America/New_York", "Asia/Tokyo", "UTC", "GMT+08:00"])
def test_mean_time_is_that_of_zoneinfo(name: str) -> None:
    rules = mean_time_zone(name)
    if name.startswith("GMT"):
        assert rules.offsets.tolist() == [8 * 3600]
        return
    zone = ZoneInfo(name)
    for year in (1, 1700, 1834, 1836, 1882, 1884, 1899, 1901, 1950, 2020, 2300):
        at = datetime.datetime(year, 7, 1, tzinfo=datetime.UTC)
        offset = at.astimezone(zone).utcoffset()
        assert offset is not None
        assert offset_of(rules, (at - EPOCH) // datetime.timedelta(seconds=1)) == offset.total_seconds()
