"""Rows that are chosen: by predicate, by number, from a place on. And what that spares reading.

`python examples/selecting.py` writes a file of 300,000 measurements with pyarrow into a temporary folder, and
reads parts of it. The same works with any URL; the further away the store, the more there is to spare.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import orc

import orcstream
from orcstream import Expr, col

ROWS = 300_000


async def show(path: Path) -> None:
    async with orcstream.open(path) as file:
        print(f"{file.row_count:,} rows in {len(file.stripes)} stripes: {file.schema}")
        await by_predicate(file)
        await by_text(file)
        await by_number(file)
        await from_a_place(file)
        await as_other_types(file)


async def by_predicate(file: orcstream.OrcFile) -> None:
    heading("where: what statistics and bloom filters rule out is not read")
    where = (col("id") >= 61_000) & (col("sensor") == "s-00007") & ~(col("value") < 20)
    print(await file.explain(columns=["id", "value"], where=where))
    async with file.batches(columns=["id", "value"], where=where) as stream:
        async for batch in stream:
            print(f"\n{batch.num_rows} match: {batch.to_pylist()}")
    stats = stream.stats
    pruned = stats.rows_pruned_by_stripe + stats.rows_pruned_by_row_group + stats.rows_pruned_by_bloom
    print(f"{pruned:,} rows were ruled out, {stats.rows_filtered:,} looked at without a match,")
    print(f"{stats.bytes_read:,} of {file.tail.file_length:,} bytes read")


async def by_text(file: orcstream.OrcFile) -> None:
    heading("the same from text, as the command line takes it")
    where = Expr.parse("id between 7 and 9 or (note is not null and id < 3000)")
    print((await file.read(columns=["id", "note"], where=where)).to_pylist())


async def by_number(file: orcstream.OrcFile) -> None:
    heading("take: rows by their numbers, in the order asked")
    for row in (await file.take([299_999, 5, 150_000], columns=["id", "sensor"])).to_pylist():
        print(row)


async def from_a_place(file: orcstream.OrcFile) -> None:
    heading("seek: to a row, and back again")
    async with file.batches(columns=["id"], batch_rows=3, row_numbers=True) as stream:
        for row in (200_000, 10):
            await stream.seek(row)
            print((await anext(stream)).to_pylist())


async def as_other_types(file: orcstream.OrcFile) -> None:
    heading("schema: as other types, with a column that the file does not have")
    schema = "struct<value:decimal(6,1),id:string,unit:string>"
    print((await file.read(schema=schema, rows=range(2))).to_pylist())


def heading(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}")


def measurements() -> pa.Table:
    random = np.random.default_rng(7)
    notes = np.full(ROWS, None, object)
    notes[::2_500] = "calibrated"
    return pa.table(
        {
            "id": np.arange(ROWS),
            "sensor": pa.array([f"s-{number:05}" for number in random.integers(0, 50_000, ROWS)]),
            "value": np.round(random.normal(20, 5, ROWS), 2),
            "note": pa.array(notes, pa.string()),
        }
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "measurements.orc"
        orc.write_table(
            measurements(), str(path), compression="zstd", stripe_size=1 << 20, bloom_filter_columns=[2]
        )
        asyncio.run(show(path))


if __name__ == "__main__":
    main()
