"""Whether an installed orcstream works: in seconds, with nothing but the package and what it needs.

    python scripts/try_wheel.py

Every kernel is imported; files of each codec are written and read, with and without encryption, on disk;
rows are chosen by value and by number; a transactional table is changed. Each wheel is tried with it on
each system.
"""

from __future__ import annotations

import asyncio
import datetime
import importlib
import platform
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import orcstream
from orcstream import Encrypt, acid, col
from orcstream.io.keys import InMemoryKeyProvider

ROWS = 20_000
SCHEMA = "struct<n:bigint,x:double,t:string,d:decimal(20,2),s:timestamp,l:array<int>>"
CODECS = ("none", "zlib", "snappy", "lzo", "lz4", "zstd", "brotli")


def import_kernels() -> int:
    """Every compiled module; answers how many there are."""
    folder = Path(str(orcstream.__file__)).parent
    files = [one.relative_to(folder) for one in folder.rglob("_*") if one.suffix in (".so", ".pyd")]
    for file in files:
        name = file.name.partition(".")[0]
        importlib.import_module(".".join(["orcstream", *file.parts[:-1], name]))
    return len(files)


async def try_codec(path: Path, codec: str) -> None:
    n = np.arange(ROWS)
    some = [
        {"n": one, "x": one / 8, "t": f"t{one % 100}", "d": one, "l": list(range(one % 4))}
        for one in range(100)
    ]
    async with orcstream.create(path, SCHEMA, compression=codec, blooms=["t"], row_index_stride=1000) as out:
        await out.write({"n": n, "x": n / 8, "s": np.datetime64("2024-02-29", "ns") + n.astype("m8[s]")})
        await out.write(some)
    async with orcstream.open(path) as file:
        assert file.row_count == ROWS + 100
        assert (await file.read(columns=["n"])).to_numpy("n").tolist() == [*range(ROWS), *range(100)]
        assert (await file.read(where=col("t") == "t7")).to_pylist()[0]["l"] == [0, 1, 2]
        (row,) = (await file.take([86_400 % ROWS])).to_pylist()
        assert row["s"] == datetime.datetime(2024, 2, 29) + datetime.timedelta(seconds=row["n"])  # noqa: DTZ001
        assert (await file.verify()).is_sound


async def try_encryption(path: Path) -> None:
    keys = InMemoryKeyProvider()
    keys.add_key("pii", bytes(range(32)))
    async with orcstream.create(
        path, "struct<t:string>", encrypt=[Encrypt("pii", ["t"], "redact")], keys=keys
    ) as out:
        await out.write({"t": ["secret"]})
    for given, expected in ((keys, "secret"), (None, "xxxxxx")):
        async with orcstream.open(path, keys=given) as file:
            assert (await file.read()).to_pylist() == [{"t": expected}]


async def try_table(url: str) -> None:
    await acid.create_table(url, "struct<n:bigint>")
    async with acid.open_table(url) as table:
        async with await table.transaction() as change:
            await change.insert({"n": np.arange(100)})
        async with await table.transaction() as change:
            assert await change.delete(col("n") < 40) == 40
    async with acid.open_table(url) as table:
        assert (await table.read()).num_rows == 60


async def try_all(folder: Path) -> None:
    for codec in CODECS:
        await try_codec(folder / f"{codec}.orc", codec)
    await try_encryption(folder / "encrypted.orc")
    await try_table(str(folder / "table"))


def main() -> None:
    start_s = time.perf_counter()
    kernel_count = import_kernels()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(try_all(Path(folder)))
    threading = "" if getattr(sys, "_is_gil_enabled", lambda: True)() else ", without the GIL"
    print(
        f"orcstream {orcstream.__version__} works on Python {platform.python_version()}{threading}, "
        f"{platform.platform()}: {kernel_count} kernels, {len(CODECS)} codecs, "
        f"{time.perf_counter() - start_s:.1f} s"
    )


if __name__ == "__main__":
    main()
