"""The package's public reading interface, called the way the tests need it: rows in neutral form.

The only module of the tests' support that imports `orcstream`.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import orcstream
from orcstream.io.keys import InMemoryKeyProvider
from tests.reference import compare
from tests.reference.columnwise import Conversion
from tests.reference.java_orc import Key
from tests.reference.types import T

OPEN_OPTIONS = frozenset(
    {
        "timezone",
        "default_timezone",
        "calendar",
        "instants",
        "storage_options",
        "io_options",
        "keys",
        "require_keys",
    }
)


def provider(keys: Iterable[Key]) -> InMemoryKeyProvider:
    """A key provider with these versions of keys."""
    found = InMemoryKeyProvider()
    for key in keys:
        found.add_key(key.name, key.secret, key.version)
    return found


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


async def read_python_rows(path: Path | str, type_: T, **options: Any) -> list[object]:
    """Rows by way of `to_pylist`, which needs no Arrow: for what Arrow cannot hold, and to test it."""
    opening, reading = split(options)
    rows: list[object] = []
    async with orcstream.open(str(path), **opening) as file, file.batches(**reading) as stream:
        async for batch in stream:
            rows += from_python(type_, batch.to_pylist())
    return rows


def from_python(type_: T, values: Sequence[Any]) -> list[Any]:
    """Values of `to_pylist` in neutral form."""
    return _FROM_PYTHON.convert(type_, values)


class _FromPython(Conversion):
    def null(self, type_: T, /) -> object:
        (found,) = compare.arrow_shaped(type_, [None])
        return found

    def fields(self, type_: T, values: list[Any], /) -> Sequence[Sequence[Any]]:
        assert all(tuple(value) == type_.names for value in values)
        return list(zip(*map(dict.values, values), strict=True))

    def tagged(self, value: Any, /) -> tuple[int, Any]:
        return value.tag, value.value

    def leaf(self, type_: T, /) -> Callable[[Any], object] | None:
        if type_.kind == "date":
            return _days
        if type_.kind.startswith("timestamp"):
            return functools.partial(_nanos, is_naive=type_.kind == "timestamp")
        return (lambda text: text.rstrip(" ")) if type_.kind == "char" else None


_FROM_PYTHON = _FromPython()
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def _days(value: Any) -> int:
    if isinstance(value, np.datetime64):
        return int(value.astype("datetime64[D]").astype(np.int64))
    return int(value.toordinal() - 719_163)


def _nanos(value: Any, *, is_naive: bool) -> int:
    if isinstance(value, np.datetime64):
        # By hand, because numpy's own nanoseconds end in 2262.
        return int(value.astype(np.int64)) * compare.UNIT_NANOS[np.datetime_data(value.dtype)[0]]
    assert (value.tzinfo is None) == is_naive
    since = value.replace(tzinfo=datetime.UTC) - _EPOCH
    return int((since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000)


async def read_rows(path: Path | str, type_: T, **options: Any) -> list[object]:
    return compare.table_rows(type_, await read_table(path, **options))


def assert_same_table(type_: T, actual: pa.Table, expected: pa.Table) -> None:
    """Equal contents however they are cut into chunks; the slow way tells where they differ."""
    assert actual.schema == expected.schema, f"{actual.schema} is not {expected.schema}"
    if actual.equals(expected):
        return
    compare.assert_same_rows(type_, compare.table_rows(type_, actual), compare.table_rows(type_, expected))
