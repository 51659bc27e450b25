"""What holds for every selection of every file: it picks among the rows that a full read gives.

`check` reads a file in full through `to_pylist`, then by predicates, ranges, seeks and row numbers drawn from
a seed, and compares. The full read is judged elsewhere, against other programs.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

import orcstream
from orcstream.plan.prune import prune
from tests.generators.predicates import Node, Predicates, as_tuples, build, columns_of, matching
from tests.reference import compare
from tests.reference.types import T
from tests.support import reading
from tests.support.effort import ALL

ROW_NUMBER = "row_number"
MANY_PIECES = 200
# The newest names of the interface, which type checkers of older installations do not know.
API: Any = orcstream


def run_async(go: Callable[[], Awaitable[None]]) -> None:
    """A coroutine of a test that hypothesis calls, in time."""

    async def in_time() -> None:
        with anyio.fail_after(100):
            await go()

    anyio.run(in_time)


def run(path: Path, type_: T, seed: int, **options: Any) -> None:
    """`check` in a loop of its own; `options` go to `open` or to every read, as they belong."""
    run_async(lambda: check(path, type_, seed, **options))


@contextmanager
def predicate_first(first: bool) -> Iterator[None]:
    """Reads the columns of predicates before the others, or never, whatever that pays."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prune, "late_pays", lambda *_: first)
        yield


class Always:
    """A file that is read with the same options each time."""

    def __init__(self, file: Any, options: dict[str, Any]) -> None:
        self._file = file
        self._options = options

    def batches(self, **options: Any) -> Any:
        return self._file.batches(**self._options, **options)

    async def read(self, **options: Any) -> Any:
        return await self._file.read(**self._options, **options)

    async def take(self, numbers: list[int], **options: Any) -> Any:
        return await self._file.take(numbers, **self._options, **options)

    async def explain(self, **options: Any) -> Any:
        """Explaining delivers nothing, in no unit."""
        shared = {name: value for name, value in self._options.items() if name == "schema"}
        return await self._file.explain(**shared, **options)


async def check(path: Path, type_: T, seed: int, **options: Any) -> None:
    opening, always = reading.split(options)
    rng = random.Random(seed)
    async with API.open(str(path), **opening) as opened:
        file = Always(opened, always)
        full = await rows_of(file.batches(), type_)
        await check_ranges(file, type_, full, rng)
        await check_seeks(file, type_, full, rng)
        await check_takes(file, type_, full, rng)
        asking = Predicates(type_, full, seed)
        if asking.possible:
            for _ in range(4 if ALL else 2):
                await check_predicate(file, type_, full, asking.draw(), rng)


# --- pieces ------------------------------------------------------------------------------------------


async def rows_of(stream: Any, type_: T) -> list[Any]:
    """All rows of a stream, neutral; checks that batches hold rows."""
    rows: list[Any] = []
    async with stream:
        async for batch in stream:
            found = batch.to_pylist()
            assert len(found) == batch.num_rows > 0
            rows += reading.from_python(type_, found)
    return rows


def result_rows(result: Any, type_: T) -> list[Any]:
    return reading.from_python(type_, result.to_pylist())


def narrowed(type_: T, names: Sequence[str], *, numbered: bool = False) -> T:
    children = tuple(type_.children[type_.names.index(name)] for name in names)
    if numbered:
        return T("struct", (*children, T("bigint")), (*names, ROW_NUMBER))
    return T("struct", children, tuple(names))


def picked(type_: T, full: Sequence[Any], numbers: Sequence[int], names: Sequence[str]) -> list[Any]:
    """Those rows of the full read, of those columns."""
    at = [type_.names.index(name) for name in names]
    return [tuple(full[number][i] for i in at) for number in numbers]


def with_numbers(rows: Sequence[Any], numbers: Sequence[int]) -> list[Any]:
    return [(*row, number) for row, number in zip(rows, numbers, strict=True)]


def some_columns(type_: T, rng: random.Random) -> list[str]:
    names = list(type_.names)
    rng.shuffle(names)
    return names[: rng.randint(1, len(names))]


def some_options(rng: random.Random, count: int) -> dict[str, Any]:
    """How a read of this many rows is cut into pieces, not too many, must never show in its rows."""
    return rng.choice(
        (
            {},
            {"batch_rows": max(rng.choice((1, 7, 100)), count // MANY_PIECES)},
            {"memory_limit": 1 << 24},
            {"decode_threads": 1, "batch_rows": 64},
            {"dictionaries": True},
        )
    )


def some_range(count: int, rng: random.Random) -> range:
    start = rng.randint(0, count)
    return range(start, rng.randint(start, min(count, start + rng.choice((0, 1, 100, count)))))


async def check_ranges(file: Any, type_: T, full: list[Any], rng: random.Random) -> None:
    count = len(full)
    edges = [range(count), range(count, count), range(max(0, count - 1), count), range(min(1, count))]
    for rows in [*edges, *(some_range(count, rng) for _ in range(6 if ALL else 1))]:
        names = some_columns(type_, rng)
        found = await rows_of(
            file.batches(rows=rows, columns=[(name,) for name in names], **some_options(rng, len(rows))),
            narrowed(type_, names),
        )
        compare.assert_same_rows(narrowed(type_, names), found, picked(type_, full, rows, names))
    rows = some_range(count, rng)
    numbered = narrowed(type_, type_.names, numbered=True)
    found = result_rows(await file.read(rows=rows, row_numbers=True), numbered)
    compare.assert_same_rows(numbered, found, with_numbers(picked(type_, full, rows, type_.names), rows))


async def check_seeks(file: Any, type_: T, full: list[Any], rng: random.Random) -> None:
    """From the start, in the middle of the rows, back and forth."""
    if not full:
        return
    async with file.batches(**some_options(rng, len(full))) as stream:
        at = 0
        for step in range(5):
            if step or rng.random() < 0.7:
                at = rng.randrange(len(full))
                await stream.seek(at)
            for _ in range(rng.randint(0, 2)):
                batch = await anext(stream, None)
                if batch is None:
                    break
                rows = reading.from_python(type_, batch.to_pylist())
                compare.assert_same_rows(type_, rows, full[at : at + len(rows)])
                at += len(rows)
        at = rng.randrange(len(full))
        await stream.seek(at)
        rest = reading.from_python(type_, [row async for batch in stream for row in batch.to_pylist()])
        compare.assert_same_rows(type_, rest, full[at:])


async def check_takes(file: Any, type_: T, full: list[Any], rng: random.Random) -> None:
    """Any order, rows twice, none at all."""
    asked: list[list[int]] = [[]]
    if full:
        asked += [[rng.randrange(len(full)) for _ in range(size)] for size in (1, 3, 50)]
        asked.append([len(full) - 1, 0, len(full) - 1])
    for numbers in asked:
        names = some_columns(type_, rng)
        result = await file.take(numbers, columns=[(name,) for name in names])
        part = narrowed(type_, names)
        compare.assert_same_rows(part, result_rows(result, part), picked(type_, full, numbers, names))


async def check_predicate(
    file: Any, type_: T, full: list[Any], node: Node, rng: random.Random, **more: Any
) -> None:
    """The matching rows, with any columns, in any range, under their own numbers."""
    kept = matching(node, type_, full)
    where = build(node, API.col)
    # All columns; only others than those that are asked for, where there are some; none.
    others = [name for name in type_.names if name not in {path[0] for path in columns_of(node)}]
    for names in (list(type_.names), some_columns(type_, rng), others):
        part = narrowed(type_, names)
        options = {**some_options(rng, len(full)), **more}
        stream = file.batches(where=where, columns=[(n,) for n in names], **options)
        found = await rows_of(stream, part)
        assert counted(stream.stats) == len(full)
        told(node, part, found, picked(type_, full, kept, names))
    rows = some_range(len(full), rng)
    inside = [number for number in kept if number in rows]
    names = some_columns(type_, rng)
    part = narrowed(type_, names, numbered=True)
    options = some_options(rng, len(rows))
    result = await file.read(
        where=where, rows=rows, row_numbers=True, columns=[(n,) for n in names], **options
    )
    told(node, part, result_rows(result, part), with_numbers(picked(type_, full, inside, names), inside))
    tuples = as_tuples(node)
    if tuples:
        result = await file.read(where=tuples, columns=[], row_numbers=True)
        numbered = narrowed(type_, [], numbered=True)
        told(node, numbered, result_rows(result, numbered), [(number,) for number in kept])
    if full:
        await check_seek_under(file, type_, full, where, kept, rng)


async def check_seek_under(
    file: Any, type_: T, full: list[Any], where: Any, kept: list[int], rng: random.Random
) -> None:
    """A stream with a predicate goes on from a row of the file, not from a row of its own."""
    at = rng.randrange(len(full))
    async with file.batches(where=where, **some_options(rng, len(full))) as stream:
        if rng.random() < 0.5:
            await anext(stream, None)
        await stream.seek(at)
        rest = reading.from_python(type_, [row async for batch in stream for row in batch.to_pylist()])
    expected = [full[number] for number in kept if number >= at]
    compare.assert_same_rows(type_, rest, expected)


def counted(stats: Any) -> int:
    """Rows that were delivered, and those that were not, by what showed that they have no match."""
    pruned = (stats.rows_pruned_by_file, stats.rows_pruned_by_stripe)
    by_group = (stats.rows_pruned_by_row_group, stats.rows_pruned_by_bloom)
    return sum((stats.row_count, stats.rows_filtered, *pruned, *by_group))


def told(node: Node, type_: T, found: list[Any], expected: list[Any]) -> None:
    """The same rows, or a failure that names the predicate."""
    try:
        compare.assert_same_rows(type_, found, expected)
    except AssertionError as error:
        raise AssertionError(f"{error}; {len(found)} rows of {len(expected)}, where {node!r}") from None


def run_damaged(path: Path, seed: int) -> None:
    """Selections of a file whose indexes are wrong: rows, or an error that blames the file, in time."""

    async def go() -> None:
        rng = random.Random(seed)
        async with API.open(str(path)) as file:
            for _ in range(6):
                rows = some_range(file.row_count, rng)
                options: dict[str, Any] = rng.choice(({"rows": rows}, {"where": API.col("a") > 0}))
                try:
                    result = await file.read(**options, **some_options(rng, file.row_count))
                except (orcstream.FormatError, orcstream.Unsupported):
                    continue
                assert result.num_rows <= file.row_count

    run_async(go)
