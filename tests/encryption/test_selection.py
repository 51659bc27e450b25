"""Statistics, indexes and filters of columns that Java encrypted: what they say, and that they lose no row.

With a key they are those of the values, without it those of what the masks left; Java says which.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

import orcstream
from orcstream import col
from orcstream.schema.column_statistics import ColumnStatistics
from tests.encryption import test_reading
from tests.generators import encrypted_columns, strategies
from tests.generators.encrypted_columns import KEYS, PII, RICH, SUBSETS, TOP, name_of
from tests.reference import java_orc
from tests.reference.java_orc import Key
from tests.reference.types import struct
from tests.support import reading, selecting
from tests.support.effort import share, some

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("java")]

everything = test_reading.everything


@hypothesis.settings(max_examples=share(15))
@hypothesis.given(
    table=strategies.tables(strategies.schemas(strategies.EVERYTHING, unions=True, plain_names=True)),
    options=strategies.java_options(),
    keys=st.sampled_from(SUBSETS),
    data=st.data(),
)
def test_any_selection(
    tmp_path_factory: pytest.TempPathFactory,
    table: strategies.Table,
    options: dict[str, object],
    keys: tuple[Key, ...],
    data: st.DataObject,
) -> None:
    path = tmp_path_factory.mktemp("java") / "any.orc"
    if options.pop("bloom", False):
        options["orc.bloom.filter.columns"] = ",".join(table.type_.names)
    roots = data.draw(encrypted_columns.roots(table.type_))
    encrypted_columns.write(path, table.type_, table.rows, roots, options=options)
    selecting.run(path, table.type_, table.seed, keys=reading.provider(keys))


# --- what statistics say ---------------------------------------------------------------------------


def as_java_says(found: ColumnStatistics | None) -> dict[str, Any]:
    """Ours in the words of `java_orc.statistics`, without the kind."""
    assert found is not None
    out: dict[str, Any] = {
        "count": found.value_count,
        "has_null": found.has_null,
        "bytes_on_disk": found.bytes_on_disk or 0,
    }
    if not found.value_count or found.kind is None:
        return out
    for name in ("minimum", "maximum", "sum"):
        out[name] = getattr(found, name)
    if found.kind == "string":
        out |= {"lower_bound": found.lower_bound, "upper_bound": found.upper_bound}
    return out


def assert_told(type_text: str, found: ColumnStatistics | None, told: dict[str, Any], where: str) -> None:
    ours = as_java_says(found)
    for name, value in ours.items():
        theirs: Any = told.get(name)
        if isinstance(value, float):
            assert repr(value) == repr(float(theirs)), f"{where} {type_text} {name}"
        elif isinstance(value, Decimal):
            assert value == Decimal(theirs), f"{where} {type_text} {name}"
        elif name in ("minimum", "maximum", "sum") and value is not None:
            assert str(value) == theirs, f"{where} {type_text} {name}"
        else:
            assert value == theirs or name.endswith("bound"), f"{where} {type_text} {name}"


@pytest.mark.parametrize("keys", SUBSETS, ids=name_of)
async def test_statistics_are_those_that_java_reads(everything: Path, keys: tuple[Key, ...]) -> None:
    told = java_orc.statistics(everything, keys=keys)
    columns = list(enumerate(map(str, RICH.flatten())))
    async with orcstream.open(everything, keys=reading.provider(keys)) as file:
        stripes = await file.stripe_statistics()
        assert len(stripes) == len(told["stripes"]) == len(told["groups"]) == 3
        by_name = {".".join(path): int(type_.column_id) for path, type_ in file.schema.walk()}
        for name in file.statistics:
            column = by_name[name]
            assert_told(name, file.statistics[name], told["file"][column], "file")
        for stripe, found in enumerate(stripes):
            index = await file.row_index(stripe)
            for column, text in columns:
                assert_told(text, found.get(column), told["stripes"][stripe][column], f"stripe {stripe}")
                groups = told["groups"][stripe]
                assert len(index[column]) == len(groups)
                for group in range(len(groups)):
                    statistics = index[column].statistics(group)
                    assert_told(text, statistics, groups[group][column], f"group {group} of {stripe}")


# --- pruning ---------------------------------------------------------------------------------------

SORTED = struct(n="bigint", name="string", s="struct<d:decimal(10,2)>", other="int", plain="string")
COUNT = 12_000
SORTED_ROWS = [
    (i * 3, f"name {i:06}", (Decimal(i).scaleb(-2),), i * 7919 % COUNT, f"word {i * 7919 % COUNT}")
    for i in range(COUNT)
]
SORTED_ROOTS = encrypted_columns.named(
    SORTED,
    [("n", PII, "nullify"), ("name", PII, "sha256"), ("s.d", TOP, "nullify"), ("other", PII, "redact")],
)
QUESTIONS: list[tuple[Any, Callable[[Any], bool]]] = [
    (col("n") == 9000, lambda row: row[0] == 9000),
    (col("n").between(9000, 9100), lambda row: 9000 <= row[0] <= 9100),
    (col("n") < 300, lambda row: row[0] < 300),
    (col("n") > 35_000, lambda row: row[0] > 35_000),
    (col("name") == "name 004321", lambda row: row[1] == "name 004321"),
    (col("name").starts_with("name 0113"), lambda row: row[1].startswith("name 0113")),
    (col("s.d") >= Decimal("119.00"), lambda row: row[2][0] >= Decimal("119.00")),
    ((col("n") < 300) | (col("name") == "name 009999"), lambda row: row[0] < 300 or row[1] == "name 009999"),
]


@pytest.fixture(scope="module")
def in_order(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sorted") / "a.orc"
    options = {"orc.stripe.row.count": 4000, "orc.row.index.stride": 1000}
    encrypted_columns.write(path, SORTED, SORTED_ROWS, SORTED_ROOTS, options=options)
    return path


async def asked(path: Path, where: Any, keys: Sequence[Key]) -> tuple[list[Any], Any]:
    async with orcstream.open(path, keys=reading.provider(keys)) as file:
        stream = file.batches(where=where)
        return await selecting.rows_of(stream, SORTED), stream.stats


@pytest.mark.parametrize("number", range(len(QUESTIONS)))
async def test_encrypted_indexes_prune(in_order: Path, number: int) -> None:
    where, matches = QUESTIONS[number]
    rows, stats = await asked(in_order, where, KEYS)
    assert rows == [row for row in SORTED_ROWS if matches(row)]
    assert rows
    looked_at = stats.row_count + stats.rows_filtered
    assert looked_at <= 2000
    assert stats.rows_pruned_by_stripe >= 4000 or number == len(QUESTIONS) - 1
    assert stats.rows_pruned_by_stripe + stats.rows_pruned_by_row_group == COUNT - looked_at


async def test_file_statistics_prune(in_order: Path) -> None:
    rows, stats = await asked(in_order, col("n") > 3 * COUNT, KEYS)
    assert rows == []
    assert stats.rows_pruned_by_file == COUNT
    assert stats.request_count == 0


async def test_java_keeps_the_same_row_groups(in_order: Path) -> None:
    for literal in (0, 9000, 9001, 20_000):
        _, stats = await asked(in_order, col("n") == literal, KEYS)
        kept = java_orc.read_groups(in_order, SORTED, "n", "LONG", "EQUALS", [literal], keys=KEYS)
        assert stats.row_count + stats.rows_filtered == len(kept) == 1000


async def test_without_keys_masks_are_asked(in_order: Path) -> None:
    """The statistics of the values neither answer nor show."""
    rows, stats = await asked(in_order, col("n").is_null(), ())
    assert len(rows) == COUNT
    rows, stats = await asked(in_order, col("n") == 9000, ())
    assert rows == []
    assert stats.rows_pruned_by_file == COUNT
    masked = java_orc.read(in_order, SORTED)
    digest = masked[4321][1]  # type: ignore[index]
    rows, _ = await asked(in_order, col("name") == digest, ())
    assert rows == [masked[4321]]
    rows, _ = await asked(in_order, col("name") == digest, KEYS)
    assert rows == []
    most_digits = {row[3] for row in masked}  # type: ignore[index]
    for digits in most_digits:
        rows, _ = await asked(in_order, col("other") == digits, ())
        assert rows == [row for row in masked if row[3] == digits]  # type: ignore[index]
    async with orcstream.open(in_order) as file:
        assert file.statistics["n"].maximum is None
        assert file.statistics["other"].maximum == max(most_digits)


def bloom_options() -> Iterator[dict[str, object]]:
    for version in ("utf8", "original"):
        for compression in ("ZLIB", "NONE"):
            yield {
                "orc.stripe.row.count": 4000,
                "orc.row.index.stride": 1000,
                "orc.bloom.filter.columns": "n,name,other,plain",
                "orc.bloom.filter.write.version": version,
                "orc.compress": compression,
            }


@pytest.mark.parametrize(
    "options", some(list(bloom_options())), ids=lambda one: "-".join(map(str, one.values()))
)
async def test_filters_lose_no_row(tmp_path: Path, options: dict[str, object]) -> None:
    """Java writes filters of encrypted columns in clear, those of the values before those of the masks."""
    shuffled = list(SORTED_ROWS)
    random.Random(5).shuffle(shuffled)
    path = tmp_path / "a.orc"
    encrypted_columns.write(path, SORTED, shuffled, SORTED_ROOTS, options=options)
    rng = random.Random(6)
    for keys in ((), KEYS):
        full = java_orc.read(path, SORTED, keys=keys)
        for row in rng.sample(full, 5):
            for at, name in ((0, "n"), (1, "name"), (3, "other"), (4, "plain")):
                value = row[at]  # type: ignore[index]
                where = col(name).is_null() if value is None else col(name) == value
                rows, stats = await asked(path, where, keys)
                assert rows == [one for one in full if one[at] == value]  # type: ignore[index]
        _, stats = await asked(path, col("plain") == full[0][4], keys)  # type: ignore[index]
        assert stats.rows_pruned_by_bloom >= 8000


async def test_rows_of_the_rich_file_by_predicates(everything: Path) -> None:
    for keys in ((TOP,), KEYS):
        await selecting.check(everything, RICH, 11, keys=reading.provider(keys))
