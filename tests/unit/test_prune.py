"""What single statistics prove, and how leaves are put together: by hand, and by trying all there is."""

from __future__ import annotations

import itertools
import math
import unittest.mock
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest

from orcstream._proto import orc_proto as pb
from orcstream.codec.metadata.bloom import BloomFilter, BloomIndex, hashes_of
from orcstream.codec.metadata.indexes import RowIndex, parse_row_index
from orcstream.codec.metadata.structure import StatisticsList
from orcstream.plan.prune.proof import Outcome, Question, combined
from orcstream.plan.prune.prune import (
    ABSENT,
    ColumnOf,
    Questions,
    bloom_columns,
    group_outcomes,
    stripe_outcomes,
)
from orcstream.query.predicate import AllOf, AnyOf, Leaf, Negation, Op, Predicate
from orcstream.schema.column_statistics import ALL_NULL, ColumnStatistics, Trust, trust_of
from orcstream.schema.types import FileColumn, Kind, Type

T, F, N = Outcome.TRUE, Outcome.FALSE, Outcome.NULL
EITHER, ANY = T | F, T | F | N
JAVA = trust_of(0, 9, "2.0.0", (0, 12)).in_zone("UTC")
TRINO = trust_of(4, 6, None, (0, 12))
UNTRUSTED = trust_of(3, 6, None, (0, 12))
SECOND = 10**9
ROWS = 100


def leaf(kind: Kind, op: Op, *literals: Any, unit_ns: int = 1, **shape: Any) -> Leaf:
    return Leaf(("a",), Type(kind, column_id=FileColumn(1), **shape), op, literals, unit_ns)


def outcome(
    predicate: Predicate, statistics: ColumnStatistics | None, rows: int = ROWS, trust: Trust = JAVA
) -> Outcome:
    return possible(predicate, lambda _: statistics, rows, trust)


def possible(
    predicate: Predicate, statistics_of: Callable[[Leaf], ColumnStatistics | None], rows: int, trust: Trust
) -> Outcome:
    def ask(one: Leaf) -> Outcome:
        return Question(one, trust).answer(statistics_of(one), None, rows)

    return combined(predicate, ask)


def of(kind: Any, minimum: Any = None, maximum: Any = None, **more: Any) -> ColumnStatistics:
    given: dict[str, Any] = {"value_count": ROWS, "has_null": False, "sum": 0, **more}
    return ColumnStatistics(kind=kind, minimum=minimum, maximum=maximum, **given)


# --- comparisons -----------------------------------------------------------------------------------

INTEGERS = of("integer", 10, 20)


@pytest.mark.parametrize(
    ("op", "literals", "expected"),
    [
        (Op.LESS, [10], F), (Op.LESS, [11], EITHER), (Op.LESS, [20], EITHER), (Op.LESS, [21], T),
        (Op.LESS_EQUAL, [9], F), (Op.LESS_EQUAL, [10], EITHER), (Op.LESS_EQUAL, [20], T),
        (Op.GREATER, [20], F), (Op.GREATER, [19], EITHER), (Op.GREATER, [10], EITHER), (Op.GREATER, [9], T),
        (Op.GREATER_EQUAL, [21], F), (Op.GREATER_EQUAL, [20], EITHER), (Op.GREATER_EQUAL, [10], T),
        (Op.IN, [], F), (Op.IN, [9], F), (Op.IN, [21], F), (Op.IN, [10], EITHER), (Op.IN, [20], EITHER),
        (Op.IN, [-5, 9, 21, 1 << 80], F), (Op.IN, [9, 15, 21], EITHER), (Op.IS_NULL, [], F),
    ],
)  # fmt: skip
def test_integers(op: Op, literals: list[int], expected: Outcome) -> None:
    asked = leaf(Kind.LONG, op, *literals)
    assert outcome(asked, INTEGERS) is expected
    flipped = {T: F, F: T, EITHER: EITHER}
    assert outcome(Negation(asked), INTEGERS) is flipped[expected]
    assert outcome(asked, None) == (EITHER if op is Op.IS_NULL else F | N if not literals else ANY)
    assert outcome(asked, INTEGERS, trust=UNTRUSTED) == outcome(asked, None)


def test_one_value_only() -> None:
    assert outcome(leaf(Kind.INT, Op.IN, 3, 5), of("integer", 5, 5)) is T
    assert outcome(leaf(Kind.INT, Op.IN, 3, 6), of("integer", 5, 5)) is F
    assert outcome(leaf(Kind.INT, Op.IN, 5), of("integer", None, 5)) is EITHER


def test_statistics_of_another_kind_prove_nothing() -> None:
    assert outcome(leaf(Kind.STRING, Op.IN, b"a"), INTEGERS) is EITHER
    assert outcome(leaf(Kind.INT, Op.IN, 5), of("date", 10, 20)) is EITHER
    assert outcome(leaf(Kind.BINARY, Op.IN, b"a"), of("binary")) is EITHER
    assert outcome(leaf(Kind.STRUCT, Op.IS_NULL), of(None)) is F


@pytest.mark.parametrize(("kind", "most"), [(Kind.BYTE, 127), (Kind.SHORT, 32767), (Kind.INT, (1 << 31) - 1)])
def test_integers_beyond_their_type_prove_nothing(kind: Kind, most: int) -> None:
    """Where C has an unsigned char, ORC C++ takes -1 of a TINYINT for 255."""
    statistics = of("integer", 5, most)
    assert outcome(leaf(kind, Op.IN, 3), statistics) is F
    for bounds in ((5, most + 1), (-most - 2, 5)):
        statistics = of("integer", *bounds)
        for op in (Op.IN, Op.LESS, Op.GREATER):
            assert outcome(leaf(kind, op, 3), statistics) is EITHER
            assert outcome(leaf(kind, op, most), statistics) is EITHER


def test_contradictions_prove_nothing() -> None:
    assert outcome(leaf(Kind.INT, Op.IN, 5), of("integer", 20, 10)) is EITHER
    assert outcome(leaf(Kind.INT, Op.IN, 5), of("integer", 10, 20, value_count=ROWS + 1)) == ANY
    assert outcome(leaf(Kind.BOOLEAN, Op.IN, True), of("boolean", sum=ROWS + 1)) is EITHER


# --- nulls -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "has_null", "values", "nulls"),
    [
        (ROWS, False, True, False),
        (ROWS, None, True, False),  # Trino, and files from before Hive 1.1
        (ROWS, True, True, True),  # cuDF
        (ROWS - 1, True, True, True),
        (ROWS - 1, False, True, True),  # ORC-415, or a parent's nulls
        (ROWS - 1, None, True, True),
        (0, True, False, True),
        (0, False, True, True),  # HIVE-20604
        (0, None, True, True),
        (None, False, True, True),
        (None, True, True, True),
    ],
)
def test_nulls(count: int | None, has_null: bool | None, values: bool, nulls: bool) -> None:
    statistics = ColumnStatistics(value_count=count, has_null=has_null)
    wanted = (T if nulls else Outcome.NONE) | (F if values else Outcome.NONE)
    assert outcome(leaf(Kind.INT, Op.IS_NULL), statistics) == wanted
    wanted = (EITHER if values else Outcome.NONE) | (N if nulls else Outcome.NONE)
    assert outcome(leaf(Kind.INT, Op.IN, 5), statistics) == wanted


def test_absent_columns_are_null() -> None:
    for trust in (JAVA, UNTRUSTED):
        assert outcome(leaf(Kind.INT, Op.IS_NULL), ALL_NULL, trust=trust) is T
        assert outcome(leaf(Kind.INT, Op.LESS, 5), ALL_NULL, trust=trust) is N


def test_no_rows() -> None:
    assert outcome(leaf(Kind.INT, Op.LESS, 5), None, rows=0) is Outcome.NONE


# --- kinds -----------------------------------------------------------------------------------------


def test_booleans() -> None:
    for true, expected in ((0, F), (1, EITHER), (ROWS, T)):
        assert outcome(leaf(Kind.BOOLEAN, Op.IN, True), of("boolean", sum=true)) is expected
    assert outcome(leaf(Kind.BOOLEAN, Op.IN, True), of("boolean", sum=None)) is EITHER


@pytest.mark.parametrize("total", [math.nan, math.inf, -math.inf, None])
def test_nan_hides_behind_bounds(total: float | None) -> None:
    asked = leaf(Kind.DOUBLE, Op.GREATER, 5.0)
    assert outcome(asked, of("double", 1.0, 2.0, sum=3.0)) is F
    assert outcome(asked, of("double", 1.0, 2.0, sum=total)) is EITHER
    assert outcome(asked, of("double", 1.0, math.nan, sum=3.0)) is EITHER
    trino = of("double", 1.0, 2.0, sum=None)
    assert outcome(asked, trino, trust=TRINO) is F


def test_nan_literals_and_zeros() -> None:
    assert outcome(leaf(Kind.FLOAT, Op.IN, 7.0, math.nan), of("double", 1.0, 2.0)) is EITHER
    assert outcome(leaf(Kind.FLOAT, Op.LESS, math.nan), of("double", 1.0, 2.0)) is EITHER
    assert T in outcome(leaf(Kind.DOUBLE, Op.IN, 0.0), of("double", -0.0, -0.0))
    assert T in outcome(leaf(Kind.DOUBLE, Op.IN, -0.0), of("double", 0.0, 0.5))


def test_decimals() -> None:
    shape = {"precision": 10, "scale": 2}
    statistics = of("decimal", Decimal("1.5"), Decimal(20))
    assert outcome(leaf(Kind.DECIMAL, Op.LESS, 150, **shape), statistics) is F
    assert outcome(leaf(Kind.DECIMAL, Op.LESS, 151, **shape), statistics) is EITHER
    assert outcome(leaf(Kind.DECIMAL, Op.LESS_EQUAL, 2000, **shape), statistics) is T
    # Digits beyond the scale are cut off when values are read.
    statistics = of("decimal", Decimal("-1.239"), Decimal("1.239"))
    assert outcome(leaf(Kind.DECIMAL, Op.LESS, -124, **shape), statistics) is F
    assert T in outcome(leaf(Kind.DECIMAL, Op.IN, -123, **shape), statistics)
    assert T in outcome(leaf(Kind.DECIMAL, Op.IN, 123, **shape), statistics)
    assert outcome(leaf(Kind.DECIMAL, Op.GREATER, 124, **shape), statistics) is F


def test_dates_before_the_calendar_changed() -> None:
    old = of("date", -200_000, -150_000)
    assert outcome(leaf(Kind.DATE, Op.LESS, -300_000), old) is EITHER
    assert outcome(leaf(Kind.DATE, Op.GREATER, -140_000), old) is F
    assert outcome(leaf(Kind.DATE, Op.LESS, -141_000), of("date", -141_000, 0)) is F


def test_texts() -> None:
    statistics = of("string", "bb", "dd", sum=400)
    assert outcome(leaf(Kind.STRING, Op.IN, b"b", b"dda"), statistics) is F
    assert outcome(leaf(Kind.VARCHAR, Op.IN, b"c"), statistics) is EITHER
    cut = of("string", lower_bound="bb", upper_bound="de", sum=400)
    assert outcome(leaf(Kind.STRING, Op.GREATER, b"de"), cut) is F
    assert outcome(leaf(Kind.STRING, Op.LESS, b"bb"), cut) is F
    assert outcome(leaf(Kind.STRING, Op.IN, b"dd"), cut) is EITHER
    half = of("string", "bb", upper_bound="d?", sum=400)
    assert outcome(leaf(Kind.STRING, Op.GREATER, b"x"), half) is EITHER
    assert outcome(leaf(Kind.STRING, Op.LESS, b"b"), half) is F


def test_texts_that_were_no_text() -> None:
    """Java writes bytes that are no UTF-8 as a replacement character, wherever they belong."""
    statistics = of("string", "\ufffd", "\ufffd", sum=400)
    assert outcome(leaf(Kind.STRING, Op.IN, b"\x80"), statistics) is EITHER
    assert outcome(leaf(Kind.STRING, Op.IN, b"\xff"), statistics) is EITHER


def test_no_upper_bound_is_no_empty_one() -> None:
    """Trino writes an empty maximum where no short one can be found."""
    assert outcome(leaf(Kind.STRING, Op.IN, b"a"), of("string", "", "", sum=400), trust=TRINO) is EITHER
    assert outcome(leaf(Kind.STRING, Op.IN, b"a"), of("string", "", "", sum=0), trust=TRINO) is F


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        (b"", T),
        (b"k", T),
        (b"ke", T),
        (b"key", EITHER),
        (b"keyz", EITHER),
        (b"keyzz", F),
        (b"ka", F),
        (b"l", F),
    ],
)
def test_prefixes(prefix: bytes, expected: Outcome) -> None:
    assert outcome(leaf(Kind.STRING, Op.STARTS_WITH, prefix), of("string", "kee", "keyz", sum=1)) is expected


@pytest.mark.parametrize("stored", ["ab", "ab  "])
def test_chars_padded_or_not(stored: str) -> None:
    """Statistics of trimmed text and padded values, or the other way round."""
    statistics = of("string", stored, stored, sum=1)
    for text in (b"ab", b"ab ", b"ab  "):
        assert T in outcome(leaf(Kind.CHAR, Op.IN, text, max_length=4), statistics)
    assert outcome(leaf(Kind.CHAR, Op.IN, b"aa", b"abc", max_length=4), statistics) is F
    odd = of("string", "ab\t", "ab\t", sum=1)
    assert outcome(leaf(Kind.CHAR, Op.IN, b"ab", max_length=4), odd) is EITHER


# --- timestamps ------------------------------------------------------------------------------------


def test_nanoseconds_of_statistics_are_rounded_away() -> None:
    start = 10**6 * SECOND
    statistics = of("timestamp", start + 1_500_000, start + 2_500_000)
    for op, literal, expected in (
        (Op.LESS, start + 1_000_000, F),
        (Op.LESS, start + 1_000_001, EITHER),
        (Op.GREATER, start + 2_999_999, F),
        (Op.GREATER, start + 2_999_998, EITHER),
    ):
        assert outcome(leaf(Kind.TIMESTAMP, op, literal), statistics) is expected
        assert outcome(leaf(Kind.TIMESTAMP_INSTANT, op, literal), statistics) is expected


def test_units_cut_bounds_as_they_cut_values() -> None:
    start = 10**6 * SECOND
    statistics = of("timestamp", start + SECOND // 2, start + SECOND * 3 // 2)
    in_seconds = {"unit_ns": SECOND}
    assert outcome(leaf(Kind.TIMESTAMP, Op.IN, start, **in_seconds), statistics) is EITHER
    assert outcome(leaf(Kind.TIMESTAMP, Op.GREATER, start + SECOND, **in_seconds), statistics) is F
    assert outcome(leaf(Kind.TIMESTAMP, Op.LESS, start, **in_seconds), statistics) is F


def test_a_second_around_1970() -> None:
    """ORC-306, ORC-763: what is stored as just before the epoch comes back as just after it."""
    statistics = of("timestamp", -SECOND // 2, -SECOND // 2)
    assert outcome(leaf(Kind.TIMESTAMP, Op.GREATER_EQUAL, 0), statistics) is EITHER
    assert outcome(leaf(Kind.TIMESTAMP, Op.LESS, -SECOND), statistics) is EITHER
    assert outcome(leaf(Kind.TIMESTAMP, Op.LESS, -2 * SECOND), statistics) is F
    assert outcome(leaf(Kind.TIMESTAMP, Op.GREATER, 2 * SECOND), statistics) is F


def test_zones_widen_bounds() -> None:
    day = 86_400 * SECOND
    statistics = of("timestamp", 1000 * day, 1001 * day)
    unknown, berlin = JAVA.in_zone(None), JAVA.in_zone("Europe/Berlin")
    for trust, margin in ((unknown, 27), (berlin, 3), (JAVA, 0)):
        inside, outside = margin * 3600 * SECOND, margin * 3600 * SECOND + SECOND
        asked = leaf(Kind.TIMESTAMP, Op.GREATER_EQUAL, 1001 * day + inside)
        assert outcome(asked, statistics, trust=trust) is EITHER
        asked = leaf(Kind.TIMESTAMP, Op.GREATER_EQUAL, 1001 * day + outside)
        assert outcome(asked, statistics, trust=trust) is F
        asked = leaf(Kind.TIMESTAMP, Op.LESS, 1000 * day - inside)
        assert outcome(asked, statistics, trust=trust) is F
        asked = leaf(Kind.TIMESTAMP_INSTANT, Op.GREATER_EQUAL, 1001 * day + SECOND)
        assert outcome(asked, statistics, trust=trust) is F


def test_local_timestamps_prove_nothing() -> None:
    statistics = of("timestamp", local_minimum_ms=10, local_maximum_ms=20)
    assert outcome(leaf(Kind.TIMESTAMP, Op.LESS, -(10**15)), statistics) is EITHER


def test_times_before_1900() -> None:
    old = of("timestamp", -4_000_000_000 * SECOND, -3_000_000_000 * SECOND)
    assert outcome(leaf(Kind.TIMESTAMP, Op.LESS, -9_000_000_000 * SECOND), old) is EITHER
    assert outcome(leaf(Kind.TIMESTAMP, Op.GREATER, -2_500_000_000 * SECOND), old) is EITHER
    assert outcome(leaf(Kind.TIMESTAMP, Op.GREATER, -2_000_000_000 * SECOND), old) is F


# --- logic -----------------------------------------------------------------------------------------

NAMED = [Leaf((name,), Type(Kind.INT), Op.IN, (1,)) for name in "abc"]
A, B, C = NAMED
SHAPES: list[Predicate] = [
    A,
    Negation(A),
    AllOf(()),
    AnyOf(()),
    AllOf((A, B)),
    AnyOf((A, B)),
    AllOf((A, B, C)),
    AnyOf((A, Negation(AllOf((B, C))))),
    Negation(AnyOf((A, AllOf((Negation(B), C))))),
]
SETS = [Outcome(bits) for bits in range(1, 8)]


def singles(outcome: Outcome) -> Iterator[bool | None]:
    yield from (value for value, mark in ((True, T), (False, F), (None, N)) if mark in outcome)


def truth(predicate: Predicate, values: dict[str, bool | None]) -> bool | None:
    """Kleene's logic: false < unknown < true, AND the least, OR the greatest."""
    rank = {False: 0, None: 1, True: 2}
    if isinstance(predicate, Leaf):
        return values[predicate.path[0]]
    if isinstance(predicate, Negation):
        value = truth(predicate.part, values)
        return None if value is None else not value
    found = [truth(part, values) for part in predicate.parts]
    if isinstance(predicate, AllOf):
        return min(found, key=rank.__getitem__, default=True)
    return max(found, key=rank.__getitem__, default=False)


@pytest.mark.parametrize("predicate", SHAPES)
def test_logic_is_exact_for_independent_leaves(predicate: Predicate) -> None:
    statistics = {
        T: of("integer", 1, 1),
        F: of("integer", 2, 3),
        N: ALL_NULL,
        EITHER: of("integer", 0, 3),
        T | N: of("integer", 1, 1, value_count=9),
        F | N: of("integer", 2, 3, value_count=9),
        ANY: None,
    }
    marks = {True: T, False: F, None: N}
    for sets in itertools.product(SETS, repeat=3):
        by_name = dict(zip("abc", sets, strict=True))
        expected = Outcome.NONE
        for values in itertools.product(*map(singles, sets)):
            expected |= marks[truth(predicate, dict(zip("abc", values, strict=True)))]

        def known(asked: Leaf, by_name: dict[str, Outcome] = by_name) -> ColumnStatistics | None:
            return statistics[by_name[asked.path[0]]]

        found = possible(predicate, known, ROWS, JAVA)
        assert found == expected, (predicate, sets)


# --- stripes and row groups ------------------------------------------------------------------------


def integers(minimum: int, maximum: int) -> pb.ColumnStatistics:
    bounds = pb.IntegerStatistics(minimum=minimum, maximum=maximum)
    return pb.ColumnStatistics(number_of_values=ROWS, has_null=False, int_statistics=bounds)


def index_of(*ranges: tuple[int, int]) -> RowIndex:
    entries = [pb.RowIndexEntry(statistics=integers(*bounds)) for bounds in ranges]
    return parse_row_index(pb.RowIndex(entry=entries).SerializeToString())


ASKED = leaf(Kind.INT, Op.IN, 15)
COLUMN = FileColumn(1)


def groups(index: RowIndex | None, count: int, blooms: Any = None, trust: Trust = JAVA) -> list[bool]:
    indexes = {} if index is None else {COLUMN: index}
    outcomes = group_outcomes(
        ASKED, lambda _: COLUMN, indexes, blooms or {}, [ROWS] * count, trust, Questions()
    )
    return may_match(outcomes)


def filtered(
    asked: Leaf, column_of: ColumnOf = lambda _: COLUMN, trust: Trust = JAVA
) -> dict[FileColumn, Any]:
    return bloom_columns(asked, column_of, trust, Questions())


def may_match(outcomes: list[Outcome]) -> list[bool]:
    return [Outcome.TRUE in one for one in outcomes]


def test_groups() -> None:
    index = index_of((0, 9), (10, 19), (20, 29))
    assert groups(index, 3) == [False, True, False]
    assert groups(index, 3, trust=UNTRUSTED) == [True] * 3
    assert groups(None, 3) == [True] * 3
    assert groups(index, 2) == groups(index, 4)[:2] == [True] * 2, "an index of other row groups"


def test_absent_and_converted_columns() -> None:
    for column, expected in ((ABSENT, [N] * 2), (None, [ANY] * 2), (FileColumn(7), [ANY] * 2)):
        found = group_outcomes(ASKED, lambda _, c=column: c, {}, {}, [ROWS] * 2, JAVA, Questions())  # type: ignore[misc]
        assert found == expected


def test_filters() -> None:
    empty, full = BloomFilter(bytes(8), 3), BloomFilter(b"\xff" * 8, 3)
    index = index_of((0, 19), (0, 19), (0, 19))

    def asked(
        *filters: BloomFilter | None, encoding: int = 1, utf8: bool = True, **options: Any
    ) -> list[bool]:
        return groups(index, 3, {COLUMN: BloomIndex(filters, utf8, encoding)}, **options)

    assert asked(empty, full, None) == [False, True, True]
    assert asked(empty, empty, empty, utf8=False) == [False] * 3
    assert asked(empty, empty, empty, encoding=2) == [True] * 3
    assert asked(empty, empty) == [True] * 3, "filters of other row groups"
    assert asked(empty, empty, empty, trust=trust_of(1, 6, "1.6.0", (0, 12))) == [True] * 3
    only = index_of((15, 15), (15, 15), (15, 15))
    assert groups(only, 3, {COLUMN: BloomIndex((empty,) * 3, True)}) == [True] * 3, "one of the two is wrong"


def test_filters_are_for_equality() -> None:
    empty = {COLUMN: BloomIndex((BloomFilter(bytes(8), 3),), utf8=True)}
    for op, expected in ((Op.LESS, True), (Op.GREATER_EQUAL, True), (Op.IN, False)):
        asked = leaf(Kind.INT, op, 15)
        assert may_match(group_outcomes(asked, lambda _: COLUMN, {}, empty, [ROWS], JAVA, Questions())) == [
            expected
        ]
    assert filtered(leaf(Kind.INT, Op.LESS, 15)) == {}
    assert filtered(ASKED) == {COLUMN: "integer"}
    assert filtered(ASKED, lambda _: ABSENT) == filtered(ASKED, lambda _: None) == {}


@pytest.mark.parametrize(
    ("zone", "unit_ns", "hashed"),
    [
        ("UTC", 1, True),
        ("UTC", 10**6, True),
        ("UTC", 10**9, False),
        ("Asia/Tokyo", 1, False),
        (None, 1, False),
    ],
)
def test_filters_of_timestamps(zone: str | None, unit_ns: int, hashed: bool) -> None:
    """Milliseconds of the writer's wall clock are hashed: to be asked where that is exactly what is read."""
    asked = leaf(Kind.TIMESTAMP, Op.IN, 10**18, unit_ns=unit_ns)
    assert (filtered(asked, trust=JAVA.in_zone(zone)) != {}) is hashed
    asked = leaf(Kind.TIMESTAMP_INSTANT, Op.IN, 10**18, unit_ns=unit_ns)
    assert (filtered(asked, trust=JAVA.in_zone(zone)) != {}) is (unit_ns < 10**9)


def test_stripes() -> None:
    root = pb.ColumnStatistics(number_of_values=ROWS).SerializeToString()
    statistics = [
        StatisticsList((root, integers(0, 9).SerializeToString())),
        StatisticsList((root, integers(10, 19).SerializeToString())),
        StatisticsList((root,)),
    ]
    counts = [ROWS] * 4

    def stripes(column_of: ColumnOf, row_counts: list[int]) -> list[bool]:
        return may_match(stripe_outcomes(ASKED, column_of, statistics, row_counts, JAVA))

    assert stripes(lambda _: COLUMN, counts) == [
        False,
        True,
        True,
        True,
    ]
    assert stripes(lambda _: ABSENT, counts) == [False] * 4
    assert stripes(lambda _: None, counts) == [True] * 4
    wrong = [ROWS - 1, ROWS, ROWS, ROWS]
    assert stripes(lambda _: COLUMN, wrong)[0], "more values than rows"


def test_many_literals_are_not_hashed_for_every_group() -> None:
    """Ten thousand literals against a thousand row groups: hashed each time that would take half a minute."""
    literals = tuple(range(0, 1_000_000, 100))
    asked = leaf(Kind.LONG, Op.IN, *literals)
    filters = BloomIndex(tuple(BloomFilter(bytes(8), 3) for _ in range(1000)), utf8=True)
    with unittest.mock.patch("orcstream.plan.prune.proof.hashes_of", wraps=hashes_of) as hashing:
        found = may_match(
            group_outcomes(asked, lambda _: COLUMN, {}, {COLUMN: filters}, [ROWS] * 1000, JAVA, Questions())
        )
    assert not any(found)
    assert hashing.call_count == 1
