"""Reads a file in ways drawn from a seed, and demands the expected rows of each.

The expected rows are told by whoever wrote the file, or by another reader; nothing here trusts a full read.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pyarrow as pa

from tests.generators.odd_questions import Questions
from tests.generators.predicates import build, columns_of, matching
from tests.reference import compare
from tests.reference.types import T, parse
from tests.support import reading, selecting
from tests.support.selecting import API

__all__ = ["run"]

COARSER = {"ns": ("ns", "ns", "us", "ms", "s"), "us": ("us", "us", "ms", "s")}
MEMORY_LIMITS = (1 << 20, 1 << 22, 1 << 24)


# A row that is longer than this, printed, may need more than the least of the memory limits.
LONG_ROW = 20_000


class _Roomy(random.Random):
    """Never draws a small memory limit."""

    def choice(self, seq: Any) -> Any:
        return super().choice((1 << 26,) if seq == MEMORY_LIMITS else seq)


def run(path: Path, type_: T, expected: Sequence[Any], seed: int, finest: str = "ns", **opening: Any) -> None:
    """All of it, then parts; `type_` is a struct. `finest` is a unit that all times fit."""

    async def in_time() -> None:
        with anyio.fail_after(100):
            rng = random.Random(seed)
            unit = rng.choice(COARSER[finest])
            wanted = compare.arrow_shaped(type_, expected, unit)
            if max((len(repr(row)) for row in wanted), default=0) > LONG_ROW:
                rng = _Roomy(seed)
            await _check(path, type_, wanted, rng, unit, opening)

    anyio.run(in_time)


async def _check(
    path: Path, type_: T, wanted: list[Any], rng: random.Random, unit: str, opening: dict[str, Any]
) -> None:
    always = {"timestamp_unit": unit}
    follow = {"follow": True} if rng.random() < 0.2 else {}
    async with API.open(str(path), **opening, **follow) as file:
        saved = API.Tail.from_bytes(file.tail.to_bytes()) if not follow and rng.random() < 0.2 else None
        await _check_file(file, type_, wanted, rng, always)
    if saved is not None:
        async with API.open(str(path), tail=saved, **opening) as file:
            await _check_file(file, type_, wanted, rng, always)
    if type_.names and rng.random() < 0.5:
        await _check_under_other_clocks(path, type_, rng)
    if type_.names and rng.random() < 0.5:
        await _check_as_other_types(path, type_, rng)


async def _check_file(
    file: Any, type_: T, wanted: list[Any], rng: random.Random, always: dict[str, Any]
) -> None:
    assert file.row_count == len(wanted)
    assert str(file.schema) == str(type_)
    await _check_whole(file, type_, wanted, {**always, **_options(rng)}, rng)
    if not type_.names:
        return
    some = selecting.Always(file, always)
    await _check_places(some, type_, wanted, rng)
    await _check_parts(some, type_, wanted, rng)
    asking = Questions(type_, wanted, rng)
    for _ in range(4 if asking.possible else 0):
        await _check_question(some, type_, wanted, asking, rng)


async def _check_places(file: Any, type_: T, wanted: list[Any], rng: random.Random) -> None:
    """Rows by their numbers: ranges, single ones, and where a stream is sent."""
    for rows in (selecting.some_range(len(wanted), rng) for _ in range(2)):
        names = selecting.some_columns(type_, rng)
        part = selecting.narrowed(type_, names)
        columns = [(name,) for name in names]
        found = await selecting.rows_of(
            file.batches(rows=rows, columns=columns, **_options(rng, numbered=False)), part
        )
        compare.assert_same_rows(part, found, selecting.picked(type_, wanted, rows, names))
    if not wanted:
        return
    numbers = [rng.randrange(len(wanted)) for _ in range(rng.choice((1, 20)))]
    found = selecting.result_rows(await file.take(numbers), type_)
    compare.assert_same_rows(type_, found, [wanted[number] for number in numbers])
    async with file.batches(**{"batch_rows": 10, **_options(rng, numbered=False)}) as stream:
        for at in (rng.randrange(len(wanted)) for _ in range(3)):
            await stream.seek(at)
            batch = await anext(stream)
            found = reading.from_python(type_, batch.to_pylist()[:50])
            compare.assert_same_rows(type_, found, wanted[at : at + len(found)])


# --- statistics under other readings --------------------------------------------------------------------
#
# What statistics prove must be what decoded values say, when both are read otherwise than they were written.


async def _check_under_other_clocks(path: Path, type_: T, rng: random.Random) -> None:
    opening: dict[str, Any] = rng.choice(
        (
            {"timezone": rng.choice(("UTC", "America/Los_Angeles", "Pacific/Apia", "Australia/Lord_Howe"))},
            {"calendar": rng.choice(("proleptic", "hybrid"))},
            {"timezone": "Europe/Berlin", "calendar": "hybrid"},
        )
    )
    async with API.open(str(path), **opening) as file:
        some = selecting.Always(file, {"timestamp_unit": "us"})
        full = await selecting.rows_of(some.batches(), type_)
        asking = Questions(type_, full, rng)
        for _ in range(3 if asking.possible else 0):
            await _check_question(some, type_, full, asking, rng)


async def _check_as_other_types(path: Path, type_: T, rng: random.Random) -> None:
    other = _other_type(type_, rng)
    async with API.open(str(path)) as file:
        some = selecting.Always(file, {"timestamp_unit": "us", "schema": str(other)})  # all dates fit
        full = await selecting.rows_of(some.batches(), other)
        asking = Questions(other, full, rng)
        for _ in range(3 if asking.possible else 0):
            await _check_question(some, other, full, asking, rng)


_WIDER = {
    "boolean": ("int", "string"),
    "tinyint": ("smallint", "bigint", "double", "string", "boolean"),
    "smallint": ("tinyint", "int", "bigint", "decimal(10,2)"),
    "int": ("tinyint", "bigint", "float", "string", "timestamp"),
    "bigint": ("int", "double", "decimal(38,5)", "string"),
    "float": ("double", "int", "string"),
    "double": ("float", "bigint", "decimal(20,3)"),
    "string": ("varchar(3)", "char(2)", "int", "binary"),
    "varchar": ("string", "char(2)"),
    "char": ("string", "varchar(1)"),
    "binary": ("string",),
    "date": ("string", "timestamp"),
    "decimal": ("decimal(38,0)", "double", "bigint", "string", "decimal(5,2)"),
    "timestamp": ("string", "date", "timestamp with local time zone"),
    "timestamp with local time zone": ("string", "date", "timestamp"),
}


def _other_type(type_: T, rng: random.Random) -> T:
    """Some leaves otherwise, fields in another order, some left out, and one that the file does not have."""
    if type_.kind == "struct":
        kept = [i for i in range(len(type_.names)) if rng.random() < 0.9]
        rng.shuffle(kept)
        children = [_other_type(type_.children[i], rng) for i in kept]
        names = [type_.names[i] for i in kept]
        if rng.random() < 0.3 or not kept:
            children.append(parse(rng.choice(("int", "string", "array<date>", "struct<x:timestamp>"))))
            names.append("not in the file")
        return T("struct", tuple(children), tuple(names))
    if type_.children:
        first = type_.children[0] if type_.kind == "map" else _other_type(type_.children[0], rng)
        return T(type_.kind, (first, *(_other_type(child, rng) for child in type_.children[1:])))
    return parse(rng.choice(_WIDER[type_.kind])) if rng.random() < 0.5 else type_


# --- parts of columns --------------------------------------------------------------------------------

Picked = dict[int, Any]  # children by their index, each with what is picked of it, or None for all


async def _check_parts(file: Any, type_: T, wanted: list[Any], rng: random.Random) -> None:
    """Fields of structs, wherever these lie, in any order."""
    paths = [_some_path(type_, rng) for _ in range(rng.choice((1, 2, 5)))]
    picked: Picked = {}
    for _, indexes in paths:
        _pick(picked, indexes)
    part = _type_of(type_, picked)
    rows = selecting.some_range(len(wanted), rng)
    expected = [_value_of(type_, wanted[number], picked) for number in rows]
    columns = [names for names, _ in paths]
    found = await selecting.rows_of(
        file.batches(columns=columns, rows=rows, **_options(rng, numbered=False)), part
    )
    compare.assert_same_rows(part, found, expected)


def _some_path(type_: T, rng: random.Random) -> tuple[tuple[str, ...], tuple[int, ...]]:
    names: list[str] = []
    indexes: list[int] = []
    while type_.kind in ("struct", "array", "map") and type_.children and (not names or rng.random() < 0.8):
        words = {"struct": type_.names, "array": ("_elem",), "map": ("_key", "_value")}[type_.kind]
        indexes.append(rng.randrange(len(words)))
        names.append(words[indexes[-1]])
        type_ = type_.children[indexes[-1]]
    return tuple(names), tuple(indexes)


def _pick(picked: Picked, indexes: tuple[int, ...]) -> None:
    first, *rest = indexes
    if not rest:
        picked[first] = None
    elif picked.setdefault(first, {}) is not None:
        _pick(picked[first], tuple(rest))


def _type_of(type_: T, picked: Picked | None) -> T:
    if picked is None:
        return type_
    if type_.kind == "struct":
        children = tuple(_type_of(type_.children[index], below) for index, below in picked.items())
        return T("struct", children, tuple(type_.names[index] for index in picked))
    children = tuple(_type_of(child, picked.get(index)) for index, child in enumerate(type_.children))
    return T(type_.kind, children)


def _value_of(type_: T, value: Any, picked: Picked | None) -> Any:
    if picked is None or value is None:
        return value
    if type_.kind == "struct":
        return tuple(_value_of(type_.children[i], value[i], below) for i, below in picked.items())
    if type_.kind == "array":
        return [_value_of(type_.children[0], item, picked.get(0)) for item in value]
    key, item = type_.children
    return [(_value_of(key, k, picked.get(0)), _value_of(item, v, picked.get(1))) for k, v in value]


# --- ways to read ------------------------------------------------------------------------------------


def _options(rng: random.Random, *, numbered: bool = True) -> dict[str, Any]:
    drawn: dict[str, Any] = {
        "batch_rows": rng.choice((7, 100, 999, 65_536)) if rng.random() < 0.5 else None,
        "memory_limit": rng.choice(MEMORY_LIMITS) if rng.random() < 0.4 else None,
        "decode_threads": rng.choice((1, 4)) if rng.random() < 0.5 else None,
        "dictionaries": True if rng.random() < 0.4 else None,
        "row_numbers": True if numbered and rng.random() < 0.2 else None,
    }
    return {name: value for name, value in drawn.items() if value is not None}


async def _check_whole(
    file: Any, type_: T, wanted: list[Any], options: dict[str, Any], rng: random.Random
) -> None:
    numbered = options.get("row_numbers", False)
    shown = selecting.narrowed(type_, type_.names, numbered=True) if numbered else type_
    rows = selecting.with_numbers(wanted, range(len(wanted))) if numbered else wanted
    if rng.random() < 0.5:
        found = await selecting.rows_of(file.batches(**options), shown)
        compare.assert_same_rows(shown, found, rows)
        return
    batches, parts = [], []
    async with file.batches(**options) as stream:
        async for batch in stream:
            assert batch.num_rows <= options.get("batch_rows", 65_536)
            batches.append(pa.record_batch(batch))
            batches[-1].validate(full=True)
            parts.append(batch.slice(batch.num_rows // 3, batch.num_rows // 2 + 1))
    for one, part in zip(batches[:3], parts, strict=False):
        cut = pa.record_batch(part)
        cut.validate(full=True)
        whole = compare.table_rows(shown, pa.Table.from_batches([one]))[
            one.num_rows // 3 : one.num_rows // 2 + 1
        ]
        compare.assert_same_rows(shown, compare.table_rows(shown, pa.Table.from_batches([cut])), whole)
        listed = reading.from_python(shown, part.to_pylist())
        compare.assert_same_rows(shown, listed, whole)
    found = [row for one in batches for row in compare.table_rows(shown, pa.Table.from_batches([one]))]
    compare.assert_same_rows(shown, found, rows)


async def _check_question(
    file: Any, type_: T, wanted: list[Any], asking: Questions, rng: random.Random
) -> None:
    node = asking.draw()
    kept = matching(node, type_, wanted)
    where = build(node, API.col)
    asked = {path[0] for path in columns_of(node)}
    others = [name for name in type_.names if name not in asked]
    names = rng.choice((list(type_.names), selecting.some_columns(type_, rng), others))
    part = selecting.narrowed(type_, names)
    with selecting.predicate_first(rng.random() < 0.5):
        stream = file.batches(
            where=where, columns=[(name,) for name in names], **_options(rng, numbered=False)
        )
        found = await selecting.rows_of(stream, part)
        assert selecting.counted(stream.stats) == len(wanted)
        selecting.told(node, part, found, selecting.picked(type_, wanted, kept, names))
    rows = selecting.some_range(len(wanted), rng)
    inside = [number for number in kept if number in rows]
    numbered = selecting.narrowed(type_, names, numbered=True)
    result = await file.read(where=where, rows=rows, row_numbers=True, columns=[(name,) for name in names])
    picked = selecting.with_numbers(selecting.picked(type_, wanted, inside, names), inside)
    selecting.told(node, numbered, selecting.result_rows(result, numbered), picked)
    await file.explain(where=where, rows=rows)
    if wanted and rng.random() < 0.3:
        await selecting.check_seek_under(file, type_, wanted, where, kept, rng)
