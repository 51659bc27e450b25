"""Keys of deletes are loaded only as far as the rows that are wanted may have them, and never less."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from orcstream import acid, col
from orcstream.acid.read import bucket
from orcstream.acid.read.event_file import EventFile, KeyBounds
from orcstream.acid.read.row_ids import KeyCollector, RowIds
from orcstream.plan.acid.names import parse_directory
from orcstream.plan.acid.snapshot import AcidFile
from tests.generators.acid_tables import SCHEMA

ROWS = 20_000
KEYS = [(1, 7, 99), (1, 7, 199), (3, 7, 49), (3, 7, 89)]
ALL = KeyBounds(1, 3, 0, 199)


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many keys were brought together, a call each."""
    counts: list[int] = []
    add = KeyCollector.add

    def counting(self: KeyCollector, keys: RowIds) -> None:
        counts.append(len(keys))
        add(self, keys)

    monkeypatch.setattr(KeyCollector, "add", counting)
    monkeypatch.setattr(bucket, "_NARROWED_BYTES", -1)
    return counts


async def make(url: str, gone: set[int]) -> None:
    await acid.create_table(url, SCHEMA)
    async with acid.open_table(url) as table:
        async with await table.transaction(stripe_bytes=1 << 10, row_index_stride=1000) as transaction:
            for start in range(0, ROWS, 1000):
                rows = [{"id": one, "name": f"{one:020}"} for one in range(start, start + 1000)]
                await transaction.insert(rows)
        async with await table.transaction(row_index_stride=1000) as transaction:
            await transaction.delete(col("id").isin(gone))


async def test_only_what_the_wanted_stripes_may_have(tmp_path: Path, loaded: list[int]) -> None:
    url = str(tmp_path / "table")
    gone = set(random.Random(1).sample(range(ROWS), 5000))
    await make(url, gone)
    async with acid.open_table(url) as table:
        for first, last, most in (
            (0, ROWS, 5000),
            (3000, 3999, 1000),
            (19_990, 30_000, 1000),
            (-5, 1, 5000),
            (40_000, 50_000, 5000),
        ):
            loaded.clear()
            where = col("id").between(first, last)
            found = (await table.read(columns=["id"], where=where)).to_numpy("id")
            assert sorted(found) == [one for one in range(ROWS) if first <= one <= last and one not in gone]
            assert sum(loaded) <= most
        loaded.clear()
        assert (await table.read(columns=[])).num_rows == ROWS - len(gone)
        assert sum(loaded) == len(gone)


@pytest.mark.parametrize(
    ("stripes", "expected"),
    [
        ((0, 1, 2, 3), KeyBounds(1, 3, 0, 199)),
        ((0,), KeyBounds(1, 1, 0, 199)),
        ((1,), KeyBounds(1, 1, 99, 199)),
        ((2,), KeyBounds(1, 3, 0, 199)),
        ((3,), KeyBounds(3, 3, 49, 89)),
        ((), ALL),
    ],
)
def test_bounds_of_stripes(stripes: tuple[int, ...], expected: KeyBounds) -> None:
    assert ALL.within(KEYS, stripes) == expected


def test_without_an_index_the_statistics_count() -> None:
    assert ALL.within((), (1, 2)) == ALL
    assert ALL.joined(KeyBounds(0, 2, 5, 300)) == KeyBounds(0, 3, 0, 300)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"1,7,99",
        b"1,7,99;1,7,199;",
        b"2,7,99;1,7,199;3,7,49;3,7,89;",
        b"1,7,99;1,7,199;3,7,49;9,7,89;",
        b"\xff",
    ],
)
def test_an_index_that_cannot_be_is_none(text: bytes) -> None:
    file = EventFile.__new__(EventFile)
    file.file = AcidFile("x", 1, parse_directory("delta_1_3"), 0)

    class Orc:
        user_metadata = {"hive.acid.key.index": text}  # noqa: RUF012
        stripes = (1, 2, 3, 4)

    file.orc = Orc()  # type: ignore[assignment]
    assert file._last_keys(3) == ()
    Orc.user_metadata = {"hive.acid.key.index": b"1,7,99;1,7,199;3,7,49;3,7,89;"}
    assert file._last_keys(3) == KEYS
