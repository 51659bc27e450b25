"""What every test of a foreign writer does with the file, once the bytes and a second reader agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio

from tests.reference import compare
from tests.reference.types import T
from tests.support import reading
from tests.support.effort import ALL


async def check(path: Path, type_: T, expected: list[object], **opening: Any) -> None:
    """Read the file, opened with some options, in every way with our reader; each gives the expected rows."""
    wanted = compare.arrow_shaped(type_, expected)
    whole = await reading.read_table(path, **opening)
    compare.assert_same_rows(type_, compare.table_rows(type_, whole), wanted)
    few = 7 if ALL else max(7, len(expected) // 100)  # hundreds of batches take as long as all the rest
    cut: list[dict[str, Any]] = [{"batch_rows": few}, {"batch_rows": 701}]
    for options in (*cut, {"memory_limit": 1 << 20}, {"decode_threads": 1}):
        rows = await reading.read_batches(path, **opening, **options)
        reading.assert_same_table(type_, rows, whole)
    compare.assert_same_rows(type_, await reading.read_python_rows(path, type_, **opening), wanted)
    if type_.kind != "struct":
        return
    names = type_.names[::-2]
    indexes = [type_.names.index(name) for name in names]
    part = T("struct", tuple(type_.children[i] for i in indexes), names)
    table = await reading.read_batches(path, columns=[(name,) for name in names], **opening)
    reading.assert_same_table(part, table, whole.select(indexes))


def run(path: Path, type_: T, expected: list[object], **opening: Any) -> None:
    anyio.run(_check_in_time, path, type_, expected, opening)


async def _check_in_time(path: Path, type_: T, expected: list[object], opening: dict[str, Any]) -> None:
    with anyio.fail_after(60):
        await check(path, type_, expected, **opening)
