"""Which writers are believed what: each row names the fault that is meant."""

from __future__ import annotations

from typing import get_args

import pytest

from orcstream.schema.column_statistics import StatisticsKind, trust_of

KINDS: tuple[StatisticsKind, ...] = get_args(StatisticsKind)
BOUNDED = {"integer", "double", "string", "boolean", "decimal", "date", "timestamp"}
V12 = (0, 12)


@pytest.mark.parametrize(
    ("writer", "version", "missing"),
    [
        (0, 0, BOUNDED - {"integer", "double"}),  # HIVE-8732
        (0, 1, {"timestamp"}),  # ORC-135
        (0, 5, {"timestamp"}),
        (0, 6, {"decimal"}),  # ORC-517
        (0, 7, set()),
        (0, 9, set()),
        (1, 6, set()),
        (2, 6, {"timestamp"}),
        (3, 6, BOUNDED),
        (4, 6, set()),
        (5, 7, {"boolean", "timestamp"}),
        (6, 6, BOUNDED),
        (77, 9, BOUNDED),
    ],
)
def test_bounds(writer: int, version: int, missing: set[str]) -> None:
    trust = trust_of(writer, version, "2.0.0", V12)
    assert trust.bounds == BOUNDED - missing
    assert trust.counts is (writer not in (3, 6, 77))
    assert trust.finite_doubles is (writer == 4)


@pytest.mark.parametrize(
    ("version", "believed"),
    [
        (None, False), ("1.6.0", False), ("1.6.11", False), ("1.6.12", True), ("1.7.0", False),
        ("1.7.1", True), ("1.8.0-SNAPSHOT", False), ("2.1.0", True), ("10.0.0", True), ("1.5.9", False),
        ("unknown", False), ("", False), ("2.1", False),
    ],
)  # fmt: skip
def test_filters_of_cpp(version: str | None, believed: bool) -> None:
    """ORC-1024."""
    trust = trust_of(1, 6, version, V12)
    assert trust.believes_bloom("integer", 1, utf8=True) is believed
    assert not trust.believes_bloom("integer", 0, utf8=True)
    assert not any(trust.believes_bloom(kind, 1, utf8=False) for kind in KINDS)
    assert not trust.char_blooms
    assert not trust.byte_blooms


def test_binary_filters_of_cpp() -> None:
    """ORC-773: nothing was added to them before 1.7.0."""
    for version, believed in (("1.6.12", False), ("1.6.14", False), ("1.7.1", True), ("2.2.2", True)):
        assert trust_of(1, 6, version, V12).believes_bloom("binary", 1, utf8=True) is believed


def test_filters_of_java() -> None:
    now, old = trust_of(0, 9, "1.9.1", V12), trust_of(0, 2, None, V12)
    for encoding in (0, 1):
        asked = {kind for kind in KINDS if now.believes_bloom(kind, encoding, utf8=True)}
        late = {"timestamp"} if encoding else set()
        assert asked == {"integer", "double", "string", "binary", "decimal", "date"} | late
    assert not any(now.believes_bloom(kind, 2, utf8=True) for kind in KINDS), "an encoding of the future"
    assert now.char_blooms
    assert not trust_of(0, 8, None, V12).char_blooms, "before 1.6.0, texts were hashed as they were handed in"
    original = {"integer", "double", "date", "binary"}
    assert {kind for kind in KINDS if now.believes_bloom(kind, 1, utf8=False)} == original | {"string"}
    assert {kind for kind in KINDS if old.believes_bloom(kind, 1, utf8=False)} == original


def test_filters_of_others() -> None:
    trino = trust_of(4, 6, None, V12)
    assert {k for k in KINDS if trino.believes_bloom(k, 0, utf8=True)} == {"integer", "date", "string"}
    assert not trino.char_blooms
    assert trino.byte_blooms
    for writer in (2, 3, 5, 6):
        trust = trust_of(writer, 6, None, V12)
        assert not any(trust.believes_bloom(kind, 1, utf8=utf8) for kind in KINDS for utf8 in (True, False))


def test_decimal_filters_of_the_next_version() -> None:
    for writer in (0, 1):
        trust = trust_of(writer, 9, "2.0.0", (1, 9999))
        assert not trust.believes_bloom("decimal", 1, utf8=True)
        assert trust.believes_bloom("integer", 1, utf8=True)


def test_zones() -> None:
    trust = trust_of(0, 9, None, V12)
    hour = 3600 * 10**9
    assert trust.zone_margin_ns > 26 * hour
    assert trust.in_zone("UTC").zone_margin_ns == trust.in_zone("GMT").zone_margin_ns == 0
    assert 0 < trust.in_zone("Europe/Berlin").zone_margin_ns < 12 * hour
    for name in (None, "Pacific/Apia", "EST", "GMT+8"):
        assert trust.in_zone(name).zone_margin_ns == trust.zone_margin_ns
    assert trust.in_zone("UTC").in_zone(None) == trust
    assert trust.read_elsewhere("UTC", 2 * hour).zone_margin_ns == 2 * hour
    assert trust.read_elsewhere("Europe/Berlin", 2 * hour).zone_margin_ns == trust.zone_margin_ns + 2 * hour
