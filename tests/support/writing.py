"""The package's public writing interface, called the way the tests need it: rows in neutral form, any input.

Rows are cut at places drawn from a seed; each piece goes in as one of the forms that `write` takes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st

import orcstream
from tests.generators import arrow
from tests.reference.types import T, Union

COMPRESSIONS = ("none", "zlib", "snappy", "lzo", "lz4", "zstd")
ZONES = ("UTC", "Europe/Berlin", "America/Los_Angeles")
_DTYPES = {
    "tinyint": "i1",
    "smallint": "i2",
    "int": "i4",
    "bigint": "i8",
    "float": "f4",
    "double": "f8",
    "boolean": "?",
    "date": "M8[D]",
    "timestamp": "M8[ns]",
    "timestamp with local time zone": "M8[ns]",
}
_LAYOUTS: dict[str, tuple[Callable[[pa.Array], pa.Array], ...]] = {
    "string": (
        lambda array: array.dictionary_encode(),
        lambda array: array.cast(pa.large_string()),
        lambda array: array.cast(pa.string_view()),
        lambda array: pc.run_end_encode(array),
    ),
    "binary": (
        lambda array: array.dictionary_encode(),
        lambda array: array.cast(pa.large_binary()),
        lambda array: array.cast(pa.binary_view()),
    ),
    "bigint": (lambda array: array.dictionary_encode(), lambda array: pc.run_end_encode(array)),
    "double": (lambda array: pc.run_end_encode(array),),
}
_LAYOUTS["varchar"] = _LAYOUTS["char"] = _LAYOUTS["string"]


def options(compressions: Sequence[str] = COMPRESSIONS) -> st.SearchStrategy[dict[str, Any]]:
    """Options of `create` that change what a file looks like, not what is read from it."""
    return st.fixed_dictionaries(
        {"compression": st.sampled_from(compressions)},
        optional={
            "block_bytes": st.sampled_from((1024, 1025, 5000, 65_536)),
            "stripe_bytes": st.sampled_from((1024, 20_000)),
            "row_index_stride": st.sampled_from((0, 7, 100, 1000)),
            "dictionary_threshold": st.sampled_from((0, 0.5, 1)),
            "encoding_strategy": st.sampled_from(("speed", "compression")),
            "file_version": st.sampled_from(("0.11", "0.12", "UNSTABLE-PRE-2.0")),
            "encode_threads": st.sampled_from((1, 3)),
            "bloom": st.just(value=True),
            "original_blooms": st.booleans(),
        },
    )


def with_blooms(type_: T, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options for `create`: filters of all columns that can have some, where they were asked for."""
    chosen = dict(options)
    if chosen.pop("bloom", False) and chosen.get("row_index_stride") != 0:
        leaves = zip(type_.names, type_.children, strict=True)
        chosen["blooms"] = [
            name
            for name, child in leaves
            if not child.children and child.kind not in ("boolean", "struct") and name.isidentifier()
        ]
    return chosen


def write(path: Path | str, type_: T, parts: Sequence[object], **options: Any) -> orcstream.WriteResult:
    """Write pieces of data, a call for each, and commit."""

    async def run() -> orcstream.WriteResult:
        with anyio.fail_after(60):
            async with orcstream.create(str(path), str(type_), **options) as out:
                for part in parts:
                    await out.write(part)
        return out.result

    return anyio.run(run)


def pieces(type_: T, rows: Sequence[Any], seed: int, form: str | None = None) -> list[object]:
    """The rows, cut somewhere, in the forms that a writer takes (or one of `FORMS`)."""
    rng = random.Random(seed)
    cuts = sorted(rng.randint(0, len(rows)) for _ in range(rng.choice((0, 0, 1, 3))))
    edges = zip([0, *cuts], [*cuts, len(rows)], strict=True)
    return [FORMS[form or rng.choice(list(FORMS))](type_, rows[start:stop], rng) for start, stop in edges]


def python_value(type_: T, value: Any) -> Any:
    """A neutral value as a list of rows may hold it."""
    if value is None:
        return None
    kind = type_.kind
    if kind == "struct":
        return tuple(python_value(t, v) for t, v in zip(type_.children, value, strict=True))
    if kind == "array":
        return [python_value(type_.children[0], item) for item in value]
    if kind == "map":
        key, item = type_.children
        return [(python_value(key, k), python_value(item, v)) for k, v in value]
    if kind == "uniontype":
        assert isinstance(value, Union)
        return orcstream.UnionValue(value.tag, python_value(type_.children[value.tag], value.value))
    if kind == "date":
        return np.datetime64(value, "D")
    if kind.startswith("timestamp"):
        inside = -(1 << 63) < value < 1 << 63
        return np.datetime64(value, "ns") if inside else np.datetime64(value // 1000, "us")
    return value


def in_file(type_: T, value: Any) -> Any:
    """What a file can hold of a neutral value: as in Arrow, a null of a union's child 0 is a null union."""
    if value is None:
        return None
    kind = type_.kind
    if kind == "uniontype":
        held = in_file(type_.children[value.tag], value.value)
        return None if value.tag == 0 and held is None else Union(value.tag, held)
    if kind == "struct":
        return tuple(in_file(t, v) for t, v in zip(type_.children, value, strict=True))
    if kind == "array":
        return [in_file(type_.children[0], item) for item in value]
    if kind == "map":
        key, item = type_.children
        return [(in_file(key, k), in_file(item, v)) for k, v in value]
    return value


# --- forms -----------------------------------------------------------------------------------------


def _tuples(type_: T, rows: Sequence[Any], _: random.Random) -> object:
    return [python_value(type_, row) for row in rows]


def _dicts(type_: T, rows: Sequence[Any], rng: random.Random) -> object:
    found = [dict(zip(type_.names, python_value(type_, row), strict=True)) for row in rows]
    for row in found:
        for name in [name for name, value in row.items() if value is None and rng.random() < 0.5]:
            del row[name]
    return found


def _relaid(rng: random.Random) -> arrow.Relaid:
    chosen: dict[str, Any] = {kind: rng.choice((None, *layouts)) for kind, layouts in _LAYOUTS.items()}

    def relaid(type_: T, array: pa.Array) -> pa.Array:
        change = chosen.get(type_.kind)
        return array if change is None else change(array)

    return relaid


def _table(type_: T, rows: Sequence[Any], rng: random.Random) -> object:
    return arrow.table_of(type_, rows, _relaid(rng))


def _sliced(type_: T, rows: Sequence[Any], rng: random.Random) -> object:
    """A slice of a longer table, whose other rows nobody wrote."""
    around = list(rows[: rng.randint(0, 9)])
    whole = arrow.table_of(type_, [*around, *rows, *around], _relaid(rng))
    batch = whole.combine_chunks().slice(len(around), len(rows))
    batches = batch.to_batches()
    return batches[0] if len(batches) == 1 and rng.random() < 0.5 else batch


def _chunked(type_: T, rows: Sequence[Any], rng: random.Random) -> object:
    """A table whose columns come in chunks, each column cut elsewhere."""
    columns = []
    for index, child in enumerate(type_.children):
        cuts = sorted(rng.randint(0, len(rows)) for _ in range(3))
        edges = zip([0, *cuts], [*cuts, len(rows)], strict=True)
        values = [row[index] for row in rows]
        columns.append(pa.chunked_array([arrow.array_of(child, values[a:b]) for a, b in edges]))
    return pa.table(columns, names=list(type_.names))


def _reordered(type_: T, rows: Sequence[Any], rng: random.Random) -> object:
    """Columns go by name."""
    table = arrow.table_of(type_, rows)
    return table.select(rng.sample(range(table.num_columns), table.num_columns))


def _numpy(type_: T, rows: Sequence[Any], _: random.Random) -> object:
    return {
        name: _numpy_column(child, [row[index] for row in rows])
        for index, (name, child) in enumerate(zip(type_.names, type_.children, strict=True))
    }


def _numpy_column(type_: T, values: list[Any]) -> Any:
    dtype = _DTYPES.get(type_.kind)
    if dtype is None:
        found = np.empty(len(values), object)
        for index, value in enumerate(values):
            found[index] = python_value(type_, value)
        return found
    if dtype[0] == "M":
        return (
            np.array(["NaT" if value is None else value for value in values], dtype)
            if not any(value is not None for value in values)
            else np.array([np.iinfo("i8").min if value is None else value for value in values], "i8").view(
                dtype
            )
        )
    plain = np.array([0 if value is None else value for value in values], dtype)
    if None in values:
        return np.ma.masked_array(plain, [value is None for value in values])
    return plain


FORMS: dict[str, Callable[[T, Sequence[Any], random.Random], object]] = {
    "tuples": _tuples,
    "dicts": _dicts,
    "table": _table,
    "sliced": _sliced,
    "chunked": _chunked,
    "reordered": _reordered,
    "numpy": _numpy,
}
