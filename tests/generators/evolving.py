"""A file read as another schema, with this package's planner, decoders and transforms put together by hand.

The reader may come to do the same; here every step is in sight.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import orcstream
from orcstream.batch import Batch, BatchSchema
from orcstream.codec.convert.conversion import transform_of
from orcstream.codec.convert.rules import ConvertOptions
from orcstream.codec.vectors.column import Vector, VectorOptions, field_of, nulls_of
from orcstream.plan.projection import project
from orcstream.schema.schema import Schema
from orcstream.schema.types import Type
from tests.reference import compare
from tests.reference.types import T


def evolved(
    file_schema: Schema, vectors: tuple[Vector, ...], count: int, read_schema: Schema, **how: Any
) -> Batch:
    """A batch of `read_schema` made of all columns of a file."""
    options = how.pop("options", ConvertOptions())
    projection = project(file_schema, read_schema=read_schema, **how)
    decoded = {int(t.column_id): v for t, v in zip(file_schema.root.children, vectors, strict=True)}
    out = []
    for source in projection.sources:
        if source.file_type is None:
            out.append(nulls_of(field_of(source.name, source.type, options.vectors), count))
            continue
        whole = file_schema.types[source.file_type.column_id]
        vector = narrowed(decoded[int(source.file_type.column_id)], whole, source.file_type)
        convert = transform_of(source.file_type, source.type, options)
        assert (convert is not None) == source.converted, source
        out.append(vector if convert is None else convert(vector))
    root = field_of("", projection.root, options.vectors)
    return Batch(BatchSchema(root), tuple(out), count)


def narrowed(vector: Vector, whole: Type, part: Type) -> Vector:
    """The vector that decoding only a part of a type would give."""
    if not whole.children:
        return vector
    places = {int(t.column_id): i for i, t in enumerate(whole.children)}
    chosen = [(places[int(t.column_id)], t) for t in part.children]
    children = vector.children[0].children if part.kind.name == "MAP" else vector.children
    below = tuple(narrowed(children[i], whole.children[i], t) for i, t in chosen)
    if part.kind.name == "MAP":
        entries = vector.children[0]
        below = (Vector(entries.length, entries.buffers, entries.null_count, entries.offset, below),)
    return Vector(vector.length, vector.buffers, vector.null_count, vector.offset, below, vector.dictionary)


async def read_as(path: Path, type_: T, vectors: VectorOptions, **how: Any) -> list[object]:
    """The rows of a file in neutral form, read as `type_`."""
    options = how.pop("options", None) or ConvertOptions(vectors)
    rows: list[object] = []
    async with orcstream.open(str(path)) as file:
        reading: Any = {"timestamp_unit": vectors.unit, "dictionaries": vectors.dictionaries}
        async with file.batches(**reading) as stream:
            async for batch in stream:
                made = evolved(
                    file.schema,
                    batch._vectors,
                    batch.num_rows,
                    Schema.parse(str(type_)),
                    options=options,
                    **how,
                )
                arrow = pa.record_batch(made)
                arrow.validate(full=True)
                rows += compare.table_rows(type_, pa.Table.from_batches([arrow]))
    return rows
