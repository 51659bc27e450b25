"""Kernels of the writer: times against the standard library's zones, dictionaries against a dict."""

from __future__ import annotations

import datetime
import random
import zoneinfo
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from orcstream.codec.encode._dictionary import DictionaryBuilder
from orcstream.codec.vectors._filter import Texts
from orcstream.codec.vectors._times import (
    encode_timestamps,
    hybrid_days,
    hybrid_times,
    unwritable_days,
    unwritable_timestamps,
)
from orcstream.file.zones import load_zone
from tests.reference.values import day_from_hybrid, decode_nanos, decode_timestamp

EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock
MICROSECOND = datetime.timedelta(microseconds=1)
ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/Los_Angeles",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "Africa/Monrovia",
)
# Java's zones, which files of all writers follow, begin with 1900; the standard library's before that differ.
CLOCKS = st.datetimes(datetime.datetime(1900, 1, 2), datetime.datetime(9999, 12, 31, 23, 59, 59))  # noqa: DTZ001
LATE, SKIPPED = 1, 2


def numbers(buffer: Any, dtype: str = "i8") -> Any:
    return np.frombuffer(buffer, dtype)


def near_changes(zone: str) -> list[datetime.datetime]:
    """Wall clocks around the changes of some years, by quarters of an hour."""
    found, info = [], zoneinfo.ZoneInfo(zone)
    for year in (1919, 1945, 1972, 2014, 2024, 2400, 2501, 9998):
        at = datetime.datetime(year, 1, 1, tzinfo=datetime.UTC)
        step, before = datetime.timedelta(hours=6), None
        while at.year == year:
            offset = at.astimezone(info).utcoffset()
            if before is not None and offset != before:
                clock = at.astimezone(info).replace(tzinfo=None)
                found += [clock + n * datetime.timedelta(minutes=15) for n in range(-40, 12)]
            before = offset
            at += step
    return found


def instants_of(clock: datetime.datetime, zone: str) -> set[datetime.datetime]:
    """When clocks there show this: once, twice, or never."""
    info = zoneinfo.ZoneInfo(zone)
    found = set()
    for fold in (0, 1):
        instant = clock.replace(tzinfo=info, fold=fold).astimezone(datetime.UTC)
        if instant.astimezone(info).replace(tzinfo=None) == clock:
            found.add(instant.replace(tzinfo=None))
    return found


def check_clocks(clocks: list[datetime.datetime], zone: str) -> int:
    """Each is stored as an instant at which clocks show it; answers how many are never shown."""
    rules = load_zone(zone)
    skipped = 0
    for clock in clocks:
        micros = np.array([(clock - EPOCH) // MICROSECOND], "i8")
        row, why = unwritable_timestamps(micros, None, 0, 1, rules.transitions, rules.offsets, False, 10**6)
        instants = instants_of(clock, zone)
        if not instants:
            assert (row, why) == (0, SKIPPED), clock
            skipped += 1
            continue
        seconds, nanos = encode_timestamps(
            micros, 0, 1, rules.transitions, rules.offsets, False, 10**6, rules.base_seconds()
        )
        stored, packed = numbers(seconds)[0], numbers(nanos)[0]
        base = next(iter(instants_of(datetime.datetime(2015, 1, 1), zone)))  # noqa: DTZ001
        instant = base + datetime.timedelta(
            seconds=int(stored), microseconds=decode_nanos(int(packed)) // 1000
        )
        if min(instants) < EPOCH and clock.microsecond > 999:
            instant -= datetime.timedelta(seconds=1)
        if why == LATE:
            assert -1 <= (min(instants) - EPOCH).total_seconds() < 0
            continue
        assert (row, why) == (-1, 0), clock
        # Of a clock that shows it twice, the first time.
        assert instant == min(instants), clock
        again = decode_timestamp(int(stored), int(packed), zone, instant=False)
        assert again == int(micros[0]) * 1000, clock
    return skipped


@pytest.mark.parametrize("zone", ZONES)
def test_clocks_around_changes(zone: str) -> None:
    clocks = near_changes(zone)
    skipped = check_clocks(clocks, zone)
    assert bool(skipped) == (zone != "UTC" and bool(clocks))


@hypothesis.given(clocks=st.lists(CLOCKS, max_size=20), zone=st.sampled_from(ZONES))
def test_clocks(clocks: list[datetime.datetime], zone: str) -> None:
    check_clocks(clocks, zone)


@pytest.mark.parametrize(("unit", "size"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_units(unit: str, size: int) -> None:
    """One time in each unit is stored in the same way; parts of a second lose their zeros."""
    utc = load_zone("UTC")
    values = np.array(["1969-12-31T23:59:58", "1970-01-01", "2015-01-01T00:00:01"], f"M8[{unit}]").view("i8")
    seconds, nanos = encode_timestamps(
        values, 0, 3, utc.transitions, utc.offsets, False, size, utc.base_seconds()
    )
    assert numbers(seconds).tolist() == [-1_420_070_402, -1_420_070_400, 1]
    assert numbers(nanos).tolist() == [0, 0, 0]


@hypothesis.given(st.lists(st.integers(0, 10**9 - 1), max_size=50))
def test_nanoseconds(parts: list[int]) -> None:
    utc = load_zone("UTC")
    _, nanos = encode_timestamps(
        np.array(parts, "i8"), 0, len(parts), utc.transitions, utc.offsets, False, 10**9, 0
    )
    packed = numbers(nanos).tolist()
    assert [decode_nanos(one) for one in packed] == parts
    # The specification's examples: 1000 ns is 0x0a, 100000 ns is 0x0c.
    for part, stored in zip(parts, packed, strict=True):
        assert stored & 7 == 0 or part % 100 == 0
        assert stored >> 3 == 0 or stored & 7 in (0, 7) or (stored >> 3) % 10


@pytest.mark.parametrize(
    ("nanos", "stored"), [(1000, 0x0A), (100_000, 0x0C), (0, 0), (1, 8), (10, 80), (100, 9)]
)
def test_nanoseconds_of_the_specification(nanos: int, stored: int) -> None:
    utc = load_zone("UTC")
    value = np.array([nanos], "i8")
    _, found = encode_timestamps(value, 0, 1, utc.transitions, utc.offsets, False, 10**9, 0)
    assert numbers(found).tolist() == [stored]


FIRST, LAST = -719_162, 2_932_896  # years 1 and 9999
SWITCH = -141_427


@hypothesis.given(st.lists(st.integers(FIRST, LAST) | st.integers(SWITCH - 500, SWITCH + 20), max_size=60))
def test_days_of_the_hybrid_calendar(days: list[int]) -> None:
    values = np.array(days, "i4")
    kept = [day for day in days if not SWITCH - 10 <= day < SWITCH]
    assert unwritable_days(values, None, 0, len(days)) == next(
        (row for row, day in enumerate(days) if SWITCH - 10 <= day < SWITCH), -1
    )
    good = np.array(kept, "i4")
    stored = numbers(hybrid_days(good, 0, len(kept)), "i4").tolist()
    assert [day_from_hybrid(day) for day in stored] == kept
    rest = [day % 86_399_999 for day in kept]
    times = np.array([day * 86_400_000 + part for day, part in zip(kept, rest, strict=True)], "i8")
    moved = numbers(hybrid_times(times, 0, len(kept), 1000)).tolist()
    assert moved == [day * 86_400_000 + part for day, part in zip(stored, rest, strict=True)]


def test_bounds_at_the_ends_of_time_are_cut() -> None:
    least32, least64 = -(1 << 31), -(1 << 63)
    assert numbers(hybrid_days(np.array([least32], "i4"), 0, 1), "i4").tolist() == [least32]
    for unit in (1, 10**3, 10**6):
        found = numbers(hybrid_times(np.array([least64], "i8"), 0, 1, unit)).tolist()
        assert found == [least64]
    # In nanoseconds, time begins with 1677, in the Gregorian calendar.
    nanos = np.array([least64, -1, (1 << 63) - 1], "i8")
    assert numbers(hybrid_times(nanos, 0, 3, 10**9)).tolist() == nanos.tolist()


def test_nulls_and_windows() -> None:
    """What stands under a null, or outside of the window, does not matter."""
    bad = SWITCH - 5
    days = np.array([bad, 0, bad, 1, bad], "i4")
    valid = bytes([0b11011])
    assert unwritable_days(days, valid, 1, 3) == -1
    assert unwritable_days(days, valid, 1, 4) == 3
    assert unwritable_days(days, None, 1, 4) == 1
    utc = load_zone("UTC")
    times = np.array([-1, 5, -1, 7, -1], "i8")
    rules = (utc.transitions, utc.offsets, False, 10**9)
    assert unwritable_timestamps(times, valid, 1, 3, *rules) == (-1, 0)
    assert unwritable_timestamps(times, valid, 1, 4, *rules) == (3, LATE)
    assert unwritable_timestamps(times, None, 1, 4, *rules) == (1, LATE)


@pytest.mark.parametrize("unit", [0, 7, -1])
def test_units_that_there_are_none_of(unit: int) -> None:
    utc = load_zone("UTC")
    with pytest.raises(ValueError, match=rf"{unit} units\b"):
        unwritable_timestamps(np.zeros(1, "i8"), None, 0, 1, utc.transitions, utc.offsets, False, unit)
    with pytest.raises(ValueError, match=rf"{unit} units\b"):
        hybrid_times(np.zeros(1, "i8"), 0, 1, unit)


@pytest.mark.parametrize("size", [0, 7])
def test_buffers_too_short(size: int) -> None:
    utc = load_zone("UTC")
    short: Any = bytes(size)
    for call in (
        lambda: hybrid_days(short, 0, 2),
        lambda: hybrid_times(short, 0, 1, 1),
        lambda: unwritable_days(short, None, 0, 2),
        lambda: encode_timestamps(short, 0, 1, utc.transitions, utc.offsets, False, 1, 0),
        lambda: unwritable_days(bytes(80), bytes(1), 0, 9),
        lambda: encode_timestamps(bytes(8), 0, 1, np.zeros(3, "i8"), np.zeros(3, "i8"), False, 1, 0),
    ):
        with pytest.raises(ValueError, match=r"bytes|buffer|offset"):
            call()


# --- dictionaries ----------------------------------------------------------------------------------


def texts_from(values: list[bytes], first: int = 0) -> Texts:
    ends = np.cumsum([0, *map(len, values)]).astype("i4")
    return Texts(ends, b"".join(values), first, len(values) - first)


def check_dictionary(parts: list[list[bytes]], *, keyed: bool) -> None:
    builder = DictionaryBuilder()
    known: dict[bytes, int] = {}
    for values in parts:
        expected = [known.setdefault(value, len(known)) for value in values]
        if keyed:
            # The dictionary that comes along has entries twice, and some that no row has.
            entries = sorted(set(values)) + sorted(set(values)) + [b"nobody's"]
            places = [entries.index(value) + (row % 2) * len(set(values)) for row, value in enumerate(values)]
            held = texts_from(entries)
            indexes = np.array([99, *places], "i4")
            found = builder.add(Texts(*_parts_of(entries), 1, len(values), indexes, len(entries)))
            assert held.count == len(entries)
        else:
            found = builder.add(texts_from(values))
        assert numbers(found).tolist() == expected
        lengths, data = builder.take(found, len(values))
        assert numbers(lengths).tolist() == list(map(len, values))
        assert bytes(data) == b"".join(values)
    assert builder.count == len(known)
    ranks, lengths, entire = builder.sort()
    assert bytes(entire) == b"".join(sorted(known))
    assert numbers(lengths).tolist() == list(map(len, sorted(known)))
    assert dict(zip(known, numbers(ranks).tolist(), strict=True)) == {
        text: rank for rank, text in enumerate(sorted(known))
    }
    assert builder.data_bytes == len(b"".join(known)) <= builder.held_bytes


def _parts_of(values: list[bytes]) -> tuple[Any, bytes]:
    return np.cumsum([0, *map(len, values)]).astype("i4"), b"".join(values)


@hypothesis.given(
    st.lists(
        st.lists(st.binary(max_size=12) | st.sampled_from([b"", b"a", b"x" * 900]), max_size=200), max_size=4
    ),
    st.booleans(),
)
def test_dictionaries(parts: list[list[bytes]], keyed: bool) -> None:
    check_dictionary(parts, keyed=keyed)


@pytest.mark.parametrize("keyed", [False, True])
def test_large_dictionaries(keyed: bool) -> None:
    """Through many a growth; among them texts that differ in one byte only, or in length."""
    rng = random.Random(7)
    values = [b"%d" % rng.randrange(3000) for _ in range(9000)]
    values += [bytes([0]) * length for length in range(70)]
    values += [b"same start " + bytes([n]) + b" and end" for n in range(256)]
    rng.shuffle(values)
    check_dictionary([values[:4000], values[4000:], values[:100]], keyed=keyed)


@hypothesis.given(
    offsets=st.lists(st.integers(-(1 << 31), (1 << 31) - 1) | st.integers(-2, 12), min_size=2, max_size=8),
    indexes=st.none() | st.lists(st.integers(-(1 << 31), (1 << 31) - 1) | st.integers(-2, 9), max_size=6),
)
def test_offsets_that_lie(offsets: list[int], indexes: list[int] | None) -> None:
    data = b"0123456789"
    ends = np.array(offsets, "i4")
    size = len(offsets) - 1

    def text(entry: int) -> bytes:
        if not 0 <= entry < size or not 0 <= offsets[entry] <= offsets[entry + 1] <= len(data):
            raise ValueError
        return data[offsets[entry] : offsets[entry + 1]]

    if indexes is None:
        texts, entries = Texts(ends, data, 0, size), list(range(size))
    else:
        texts, entries = Texts(ends, data, 0, len(indexes), np.array(indexes, "i4"), size), indexes
    try:
        expected = [text(entry) for entry in entries]
    except ValueError:
        with pytest.raises(ValueError, match=r"\boffsets\b"):
            DictionaryBuilder().add(texts)
        return
    builder = DictionaryBuilder()
    lengths, found = builder.take(builder.add(texts), len(entries))
    assert bytes(found) == b"".join(expected)
    assert numbers(lengths).tolist() == list(map(len, expected))


@pytest.mark.parametrize("number", [-1, 2, 1 << 40, -(1 << 63)])
def test_numbers_of_no_entry(number: int) -> None:
    builder = DictionaryBuilder()
    builder.add(texts_from([b"a", b"b"]))
    with pytest.raises(ValueError, match=rf"\b2 entries\b.*{number}\b"):
        builder.take(np.array([0, number], "i8"), 2)
    with pytest.raises(ValueError, match=r"bytes|buffer"):
        builder.take(np.array([0], "i8"), 2)
