"""Ingest a source of numbered records, go on after a kill, and store each record exactly once.

    python examples/ingest_resumed.py /data/events --records 100000

Files of one partition become visible in the order of their rows. So the rows in the folder are always the
first records of the source, and their count is the record to go on with. With several partitions, save
`IngestedFile.low_water` in `on_file` instead: no record before it is lost, and later ones may come twice.
"""

from __future__ import annotations

import argparse
import asyncio

import orcstream

SCHEMA = "struct<number:bigint,text:string>"
ROWS_IN_FILE = 500


async def rows_in(folder: str) -> int:
    """Return the number of rows that earlier runs committed."""
    try:
        async with orcstream.dataset(folder) as table:
            return await table.count()
    except FileNotFoundError:
        return 0


async def ingest_all(folder: str, records: int) -> None:
    start = await rows_in(folder)
    print(f"{start:,} of {records:,} records are there", flush=True)
    template = f"{folder}/part-{{number:06}}.orc"
    async with orcstream.ingest(template, SCHEMA, max_rows=ROWS_IN_FILE) as out:
        for number in range(start, records):
            await out.write([{"number": number, "text": f"record {number}"}])


def main() -> None:
    parser = argparse.ArgumentParser(description="ingests numbered records, each exactly once")
    parser.add_argument("folder", help="the folder of the files: s3://bucket/events, a path, ...")
    parser.add_argument("--records", type=int, default=100_000, help="records of the source")
    given = parser.parse_args()
    asyncio.run(ingest_all(given.folder, given.records))


if __name__ == "__main__":
    main()
