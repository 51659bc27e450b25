"""A file written from what programs have: numpy arrays, Python rows, a pyarrow table. It appears whole.

`python examples/write_file.py [PATH]` writes measurements to the path, or into a temporary folder, and looks
at the result with orcstream and with pyarrow. The same works with any URL that fsspec can write to.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import orc

import orcstream

SCHEMA = "struct<id:bigint,sensor:string,value:double,tags:array<string>>"
ROWS = 100_000


async def show(path: Path) -> None:
    await write(path)
    await look(path)
    await fail(path)


async def write(path: Path) -> None:
    heading("three kinds of data, one file")
    random = np.random.default_rng(7)
    sensors = pa.array([f"s-{number:03}" for number in range(200)])
    async with orcstream.create(path, SCHEMA, blooms=["sensor"], user_metadata={"origin": "example"}) as out:
        # A dictionary of numpy arrays; columns that are left out are null.
        await out.write({"id": np.arange(ROWS), "value": random.normal(20, 5, ROWS)})
        # Rows, as dictionaries, dataclasses or tuples.
        await out.write(
            [{"id": ROWS, "sensor": "s-000", "tags": ["first", None]}, (ROWS + 1, "s-001", 1.5, [])]
        )
        # Arrow, of whatever library: what has a narrower type is taken where it fits.
        table = pa.table(
            {
                "id": np.arange(ROWS + 2, 2 * ROWS, dtype=np.int32),
                "sensor": sensors.take(pa.array(random.integers(0, 200, ROWS - 2))),
            }
        )
        await out.write(table)
        print(f"{out.row_count:,} rows so far; is there a file? {path.exists()}")
    result = out.result
    print(
        f"{result.row_count:,} rows in {result.stripe_count} stripe, {result.length:,} bytes: {result.schema}"
    )


async def look(path: Path) -> None:
    heading("read again")
    async with orcstream.open(path) as file:
        print(file.user_metadata, file.statistics["id"].maximum)
        for row in (await file.take([7, ROWS, ROWS + 1])).to_pylist():
            print(row)
        found = await file.read(columns=["id"], where=orcstream.col("sensor") == "s-042")
        print(f"{found.num_rows} rows of sensor s-042")
    print(f"pyarrow reads {orc.ORCFile(str(path)).nrows:,} rows")


async def fail(path: Path) -> None:
    heading("an error leaves what was there")
    before = path.read_bytes()
    try:
        async with orcstream.create(path, SCHEMA) as out:
            await out.write({"id": np.arange(10)})
            await out.write([{"id": "ten"}])
    except orcstream.SchemaMismatch as error:
        print(f"SchemaMismatch: {error.message}")
    print(
        f"unchanged: {path.read_bytes() == before}, files beside it: {len(list(path.parent.iterdir())) - 1}"
    )


def heading(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}")


def main() -> None:
    if len(sys.argv) > 1:
        asyncio.run(show(Path(sys.argv[1])))
        return
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(show(Path(folder) / "measurements.orc"))


if __name__ == "__main__":
    main()
