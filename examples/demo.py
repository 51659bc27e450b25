"""A tour of the reader: ORC files in an S3 server that runs beside this script.

`make demo` runs it. Two files are put there, both written by others: one of the ORC project's examples, which
pyarrow brings along, and one of 200,000 rows that pyarrow writes here.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import orc

import orcstream

BUCKET = "demo"
ROWS = 200_000
EXAMPLE = "TestOrcFile.test1.orc"


async def show(options: dict[str, Any]) -> None:
    await show_nested(f"s3://{BUCKET}/{EXAMPLE}", options)
    await show_stream(f"s3://{BUCKET}/orders.orc", options)


async def show_nested(url: str, options: dict[str, Any]) -> None:
    heading(f"{url}: an example of the ORC project, with nested columns")
    async with orcstream.open(url, storage_options=options) as file:
        print(f"{file.row_count} rows of {file.schema}\n")
        result = await file.read(columns=["long1", "string1", "middle.list", "map"])
        for row in result.to_pylist():
            print(row)


async def show_stream(url: str, options: dict[str, Any]) -> None:
    heading(f"{url}: {ROWS:,} rows written by pyarrow, as a stream")
    start = time.perf_counter()
    async with orcstream.open(url, storage_options=options) as file:
        print(f"open after {time.perf_counter() - start:.3f} s: one request, for the file's last bytes")
        print(f"{file.row_count:,} rows, {len(file.stripes)} stripes, {file.compression.name}: {file.schema}")
        amount = file.statistics["amount"]
        print(f"amount, says the file: {amount.minimum} to {amount.maximum}, {amount.value_count:,} values\n")
        print("The plan for three of the columns:\n")
        print(await file.explain(columns=["id", "amount", "placed"]))
        print("\nThe batches, as they arrive:\n")
        total = 0
        async with file.batches(columns=["id", "amount", "placed"], batch_rows=50_000) as batches:
            async for batch in batches:
                table = pa.record_batch(batch)  # no copy; polars and duckdb take it as well
                total += table.num_rows
                first = batch.slice(0, 1).to_pylist()[0]
                print(f"  {time.perf_counter() - start:.3f} s  {table.num_rows:,} rows, the first: {first}")
        stats = batches.stats
    assert total == ROWS
    print(f"\nMeasured: {stats.request_count} requests in {stats.hop_count} hops")
    print(f"          {stats.bytes_read:,} bytes read for {stats.bytes_wanted:,} wanted")
    print(f"          {stats.decode_s:.3f} s of decoding, {stats.wait_s:.3f} s of waiting for batches")


def heading(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}")


# --- the server, and what is put there ----------------------------------------------------------------


@contextlib.contextmanager
def s3_server() -> Iterator[dict[str, Any]]:
    """A server of moto in a process of its own; answers the storage options that lead there."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        else:
            sys.exit("the S3 server did not start")
        yield {
            "key": "demo",
            "secret": "demo",
            "endpoint_url": f"http://127.0.0.1:{port}",
            "client_kwargs": {"region_name": "us-east-1"},
        }
    finally:
        process.terminate()
        process.wait()


def put_files(options: dict[str, Any], folder: Path) -> None:
    import boto3

    orders = folder / "orders.orc"
    orc.write_table(orders_table(), str(orders), compression="zstd", stripe_size=2 * 1024 * 1024)
    example = Path(pa.__file__).parent / "tests" / "data" / "orc" / EXAMPLE
    client = boto3.client(
        "s3",
        endpoint_url=options["endpoint_url"],
        region_name="us-east-1",
        aws_access_key_id=options["key"],
        aws_secret_access_key=options["secret"],
    )
    client.create_bucket(Bucket=BUCKET)
    for path in (orders, example):
        client.upload_file(str(path), BUCKET, path.name)


def orders_table() -> pa.Table:
    random = np.random.default_rng(7)
    placed = np.datetime64("2024-01-01", "ns") + random.integers(0, 31_536_000_000, ROWS).astype("m8[ms]")
    return pa.table(
        {
            "id": np.arange(ROWS),
            "customer": random.integers(0, 5_000, ROWS),
            "amount": np.round(random.gamma(2.0, 40.0, ROWS), 2),
            "placed": placed,
            "country": pa.array(["de", "fr", "jp", "us"]).take(random.integers(0, 4, ROWS)),
            "note": pa.array([f"order {number:x}" for number in random.integers(0, 1 << 40, ROWS)]),
        }
    )


def main() -> None:
    with s3_server() as options, tempfile.TemporaryDirectory() as folder:
        put_files(options, Path(folder))
        asyncio.run(show(options))


if __name__ == "__main__":
    main()
