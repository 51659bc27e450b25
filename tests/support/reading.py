"""The package's public reading interface, called the way the tests need it: rows in neutral form.

The only module of the tests' support that imports `orcstream`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import orcstream
from tests.support import compare
from tests.support.reference.types import T

OPEN_OPTIONS = frozenset({"timezone", "default_timezone", "calendar", "storage_options", "io_options"})


def split(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of `open`, and those of a read."""
    opening = {key: value for key, value in options.items() if key in OPEN_OPTIONS}
    return opening, {key: value for key, value in options.items() if key not in OPEN_OPTIONS}


async def read_table(path: Path | str, **options: Any) -> pa.Table:
    """The file as one table, options going to `open` or `read` as they belong."""
    opening, reading = split(options)
    async with orcstream.open(str(path), **opening) as file:
        return pa.table(await file.read(**reading))


async def read_batches(path: Path | str, **options: Any) -> pa.Table:
    """The same through `batches()`, put together again; checks what holds for every batch."""
    opening, reading = split(options)
    async with orcstream.open(str(path), **opening) as file:
        batches = []
        async with file.batches(**reading) as stream:
            async for batch in stream:
                batches.append(pa.record_batch(batch))
                batches[-1].validate(full=True)
                assert batches[-1].num_rows == batch.num_rows > 0
                if limit := reading.get("batch_rows"):
                    assert batch.num_rows <= limit
        if batches:
            return pa.Table.from_batches(batches)
        return pa.table(await file.read(**reading))


async def read_rows(path: Path | str, type_: T, **options: Any) -> list[object]:
    return compare.table_rows(type_, await read_table(path, **options))


def assert_same_table(type_: T, actual: pa.Table, expected: pa.Table) -> None:
    """Equal contents however they are cut into chunks; the slow way tells where they differ."""
    assert actual.schema == expected.schema, f"{actual.schema} is not {expected.schema}"
    if actual.equals(expected):
        return
    compare.assert_same_rows(type_, compare.table_rows(type_, actual), compare.table_rows(type_, expected))
