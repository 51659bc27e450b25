"""A file of ORC Java 1.6.9, whose clear row indexes are of encrypted and masked values together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import orcstream
from orcstream import col
from orcstream.codec.metadata.structure import StreamKind
from tests.generators.encrypted_columns import KEYS, SUBSETS, TOP
from tests.interop import judging
from tests.reference import java_1_6, java_orc
from tests.reference.java_1_6 import COUNT, TYPE
from tests.reference.java_orc import Key
from tests.support import reading, selecting


@pytest.fixture(params=range(len(SUBSETS)))
def keys(request: pytest.FixtureRequest) -> tuple[Key, ...]:
    return SUBSETS[request.param]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.orc"
    path.write_bytes(java_1_6.FILE)
    return path


def rows_with(keys: tuple[Key, ...]) -> list[Any]:
    return [java_1_6.row(number, keys) for number in range(COUNT)]


def test_it_is_what_its_module_says(path: Path, java: None) -> None:
    assert java_orc.read(path, TYPE, keys=KEYS) == rows_with(KEYS)
    assert java_orc.read(path, TYPE) == rows_with(())


async def test_rows(path: Path, keys: tuple[Key, ...]) -> None:
    await judging.check(path, TYPE, rows_with(keys), keys=reading.provider(keys))


async def test_selections(path: Path, keys: tuple[Key, ...]) -> None:
    for seed in range(3):
        await selecting.check(path, TYPE, seed, keys=reading.provider(keys))


async def test_indexes_are_those_of_the_form_that_is_read(path: Path, keys: tuple[Key, ...]) -> None:
    rows = rows_with(keys)
    async with orcstream.open(path, keys=reading.provider(keys)) as file:
        columns = {name: file.schema[name].column_id for name in ("ssn", "n")}
        start = 0
        for stripe in file.stripes:
            footer = await file.stripe_footer(stripe.index)
            kinds = {stream.kind for variant in footer.variants for stream in variant.streams}
            assert kinds
            assert StreamKind.ROW_INDEX not in kinds
            index = await file.row_index(stripe.index)
            groups = range(start, start + stripe.row_count, 1000)
            for at, (name, column) in ((1, ("ssn", columns["ssn"])), (2, ("n", columns["n"]))):
                assert len(index[column]) == len(groups), name
                for number, first in enumerate(groups):
                    stop = min(first + 1000, start + stripe.row_count)
                    there = [row[at] for row in rows[first:stop] if row[at] is not None]
                    told = index[column].statistics(number)
                    assert told is not None
                    assert told.value_count == len(there)
                    found = (told.minimum, told.maximum)
                    assert found == ((min(there), max(there)) if there else (None, None)), name
            start += stripe.row_count
        assert start == COUNT


async def test_indexes_prune(path: Path, keys: tuple[Key, ...]) -> None:
    expected = [row for row in rows_with(keys) if row[2] == 6000]
    async with orcstream.open(path, keys=reading.provider(keys)) as file:
        stream = file.batches(where=col("n") == 6000)
        assert await selecting.rows_of(stream, TYPE) == expected
        assert stream.stats.rows_filtered <= 1000
        assert bool(expected) is (TOP in keys)
