"""Encrypted columns against the same table in the clear: all 15 columns, which is the most there can be.

Both files are written by us with the same options, so that they differ in nothing else. The encrypted one has
the masked form (nulls) of each column besides, which nobody reads.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import orc

import orcstream
from bench import lineitem
from bench.report import Figure, Timing, interleave
from orcstream.io.keys import InMemoryKeyProvider

CODECS = ("zstd", "snappy", "none")
# How fast, against the plain file.
READING = 0.75


def measure(*, quick: bool) -> list[Figure]:
    rows = 1_000_000 if quick else lineitem.ROWS
    table = orc.read_table(lineitem.path_of("none", rows))
    figures = []
    with tempfile.TemporaryDirectory(dir=lineitem.DATA) as folder:
        for codec in CODECS[:1] if quick else CODECS:
            figures += _measure(table, codec, Path(folder), rounds=3 if quick else 7)
    return figures


def _measure(table: Any, codec: str, folder: Path, rounds: int) -> list[Figure]:
    keys = InMemoryKeyProvider()
    keys.add_key("key", bytes(32))
    plain, secret = folder / f"plain-{codec}.orc", folder / f"secret-{codec}.orc"
    encrypt = [orcstream.Encrypt("key", table.schema.names)]
    secrets = {"encrypt": encrypt, "keys": keys}
    # Written first, read afterwards.
    writing = interleave(
        max(1, rounds // 2),
        plain=lambda: asyncio.run(write(table, plain, codec)),
        secret=lambda: asyncio.run(write(table, secret, codec, **secrets)),
    )
    reading = interleave(
        rounds,
        plain2=lambda: asyncio.run(read(plain, 2)),
        secret2=lambda: asyncio.run(read(secret, 2, keys=keys, require_keys=True)),
        plain1=lambda: asyncio.run(read(plain, 1)),
        secret1=lambda: asyncio.run(read(secret, 1, keys=keys, require_keys=True)),
    )
    return [
        _speed(f"{codec}, 2 threads: read as fast as plain", reading["plain2"], reading["secret2"], READING),
        _speed(f"{codec}, 1 thread: read as fast as plain", reading["plain1"], reading["secret1"], READING),
        _speed(f"{codec}, 2 threads: written as fast as plain", writing["plain"], writing["secret"]),
    ]


def _speed(what: str, plain: Timing, secret: Timing, floor: float | None = None) -> Figure:
    value = plain.wall_s / secret.wall_s
    return Figure("encrypted", what, value, floor=floor, beside=f"plain {plain}, encrypted {secret}")


async def read(path: Path, decode_threads: int, **keys: Any) -> Any:
    """The whole file as a pyarrow table."""
    async with orcstream.open(str(path), **keys) as file:
        return (await file.read(decode_threads=decode_threads)).to_arrow()


async def write(table: pa.Table, path: Path, codec: str, **encryption: Any) -> None:
    """The table as a file."""
    async with orcstream.create(path, compression=codec, encode_threads=2, **encryption) as out:
        await out.write(table)
