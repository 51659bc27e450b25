"""Profiles: numbers that files state, against the rows that were written."""

from __future__ import annotations

import decimal
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import orcstream
from orcstream.spark.access import Access
from orcstream.spark.jobs.profiling import point_share, profile_with, range_share

U = TypeVar("U")
R = TypeVar("R")
ROWS = 20_000


def here(label: str, units: Sequence[U], work: Callable[[U], R]) -> list[R]:
    return [work(unit) for unit in units]


def fill(folder: Path) -> int:
    """Two files; `id` is in order, `mixed` in none, `half` is null in every second row."""
    chance = random.Random(7)
    for number in range(2):
        ids = range(number * ROWS, (number + 1) * ROWS)
        table = pa.table(
            {
                "id": ids,
                "mixed": [chance.randrange(1_000_000) for _ in ids],
                "half": [one if one % 2 else None for one in ids],
                "city": [f"city {one % 5}" for one in ids],
                "price": [decimal.Decimal(one) / 4 for one in ids],
                "tags": [["a", "b"][: one % 3] for one in ids],
            }
        )
        orcstream.blocking.write(folder / f"{number}.orc", table, row_index_stride=1000, compression="none")
    return sum(path.stat().st_size for path in folder.iterdir())


@pytest.mark.parametrize("piece_bytes", [1, 1 << 30])
def test_columns(tmp_path: Path, piece_bytes: int) -> None:
    length = fill(tmp_path)
    found = profile_with(here, [str(tmp_path)], Access(), piece_bytes=piece_bytes)
    assert (found.file_count, found.row_count, found.length) == (2, 2 * ROWS, length)
    names = [one.name for one in found.columns]
    assert names[:6] == ["id", "mixed", "half", "city", "price", "tags"]
    assert len(names) == 7
    id_, half, city, price = found["id"], found["half"], found["city"], found["price"]
    assert (id_.minimum, id_.maximum, id_.value_count, id_.null_count) == ("0", "39999", 2 * ROWS, 0)
    assert (half.value_count, half.null_count) == (ROWS, ROWS)
    assert (city.minimum, city.maximum) == ("city 0", "city 4")
    assert price.maximum is not None
    assert float(price.maximum) == pytest.approx((2 * ROWS - 1) / 4)
    assert city.plain_bytes == 2 * ROWS * 6
    assert set(city.encodings) == {"DICTIONARY_V2"}
    assert "DICTIONARY_DATA" in city.stream_bytes
    assert city.compression_ratio is not None and city.compression_ratio > 10
    assert found.columns[-1].null_count is None  # below a list
    assert sum(one.stored_bytes for one in found.columns) < length
    # What is in order is pruned, what is in none is not.
    assert id_.row_group_count == 40
    assert id_.point_share == pytest.approx(1 / 40, rel=0.1)
    mixed = found["mixed"]
    assert mixed.point_share is not None and mixed.point_share > 0.9
    assert city.point_share == 1.0


def test_the_share_is_what_reading_leaves(tmp_path: Path) -> None:
    fill(tmp_path)
    found = profile_with(here, [str(tmp_path)], Access())
    left = total = 0
    for value in range(0, 2 * ROWS, 4000):
        for path in tmp_path.iterdir():
            with orcstream.blocking.open(path) as file:
                plan = file.explain(columns=["id"], where=orcstream.col("id") == value)
                pruned = plan.rows_pruned_by_file + plan.rows_pruned_by_stripe + plan.rows_pruned_by_row_group
                left += ROWS - pruned
                total += ROWS
    assert left / total == pytest.approx(found["id"].point_share, rel=0.1)


pairs = st.tuples(st.integers(0, 50), st.integers(0, 50)).map(lambda one: (min(one), max(one)))
intervals = st.lists(st.one_of(st.none(), pairs), max_size=30)


@given(intervals)
def test_shares(groups: list[tuple[int, int] | None]) -> None:
    if not groups:
        assert point_share(groups) is None
        assert range_share(groups) is None
        return
    found, wide = point_share(groups), range_share(groups)
    assert found is not None and wide is not None
    # At least the group that a value is of is left, and all those that say nothing.
    assert max(1, sum(one is None for one in groups)) / len(groups) <= found <= 1
    assert 0 < wide <= 1


def test_shares_of_extremes() -> None:
    in_order = [(one, one + 1) for one in range(0, 40, 2)]
    assert point_share(in_order) == pytest.approx(1 / 20)
    assert range_share(in_order) == pytest.approx(3 / 20, rel=0.15)
    assert point_share([(0, 9)] * 7) == 1
    assert point_share([(one, 100 + one) for one in range(50)]) == 1
    assert point_share([("a", "b"), ("c", "d"), ("c", "d"), None]) == pytest.approx((2 + 3 + 3) / 3 / 4)
    assert point_share([(1, 2), ("a", "b")]) is None


def test_bounds_of_files_whose_types_differ(tmp_path: Path) -> None:
    """Bounds of some of the files would pass for those of all."""
    for name, type_, value in (("a", "int", 1), ("b", "double", 2.5), ("c", "string", "x")):
        orcstream.blocking.write(tmp_path / f"{name}.orc", [(value,)], schema=f"struct<v:{type_}>")
    both = profile_with(here, [f"{tmp_path}/{name}.orc" for name in "ab"], Access())["v"]
    assert (both.minimum, both.maximum) == ("1", "2.5")
    found = profile_with(here, [str(tmp_path)], Access())["v"]
    assert (found.minimum, found.maximum, found.value_count) == (None, None, 3)
