"""The table that is measured: 15 columns like TPC-H's lineitem, written by pyarrow, always the same.

Knows numpy and pyarrow; nothing of orcstream, which must not judge files of its own. Files are made once and
kept under bench/data. All values come from a seeded generator, a million rows at a time.

    python -m bench.lineitem zstd 3000000        prints the path
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import orc

DATA = Path(__file__).resolve().parent / "data"
REWRITE = Path(__file__).with_name("RewriteOrc.java")
ROWS = 3_000_000
STRIPE_BYTES = 64 * 1024 * 1024
CODECS = {"zstd": "zstd", "zlib": "zlib", "snappy": "snappy", "lz4": "lz4", "none": "uncompressed"}
# Three columns of the 15, as a report would choose: a number, a price and a short text.
THREE_COLUMNS = ["l_partkey", "l_extendedprice", "l_shipmode"]

_SEED = 20_240_229
_CHUNK_ROWS = 1_000_000
_FIRST_DAY = np.datetime64("1992-01-01")
_DAYS = 2526
_SHIP_MODES = ["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"]
_WORDS = (
    "about above according accounts across after against along always among attainments bold "
    "braids brave busily busy careful courts daring decoys deposits detect dolphins doggedly dugouts engage "
    "even excuses express final fluffily foxes furious gifts grouches haggle hockey ideas instructions "
    "packages pending pinto platelets quickly regular requests silent sleep slyly special theodolites unusual"
).split()
_COMMENT_WORDS = (2, 7)  # at least, and fewer than


def path_of(codec: str, rows: int = ROWS) -> Path:
    """The file with this many rows, written when it is not there yet."""
    path = DATA / f"lineitem-{rows}-{codec}.orc"
    if not path.exists():
        DATA.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".unfinished")
        _write(unfinished, codec, rows)
        unfinished.rename(path)
    return path


def path_by_java(codec: str, rows: int = ROWS) -> Path:
    """The same rows as ORC Java writes them, in chunks of 256 KiB."""
    path = DATA / f"lineitem-{rows}-{codec}-java.orc"
    if not path.exists():
        unfinished = path.with_suffix(".unfinished")
        rewrite_by_java(path_of("none", rows), unfinished, codec)
        unfinished.rename(path)
    return path


def rewrite_by_java(source: Path, target: Path, codec: str) -> None:
    """The rows of a file into one of ORC Java, with its defaults."""
    spec = importlib.util.find_spec("pyspark")  # importing pyspark itself costs a second
    assert spec is not None and spec.origin is not None, "pyspark is not installed, whose jars have ORC Java"
    jars = Path(spec.origin).parent / "jars"
    command = ["java", "-cp", f"{jars}/*", str(REWRITE), str(source), str(target), codec.upper()]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def of_size(codec: str, file_bytes: int) -> Path:
    """A file of about this many bytes."""
    sample = path_of(codec, _CHUNK_ROWS)
    rows = file_bytes * _CHUNK_ROWS // sample.stat().st_size
    return path_of(codec, round(rows, -4))


def table(first_row: int, rows: int) -> Any:
    """A pyarrow table of the rows from `first_row`, a multiple of a million, on."""
    random = np.random.default_rng([_SEED, first_row])
    orders = first_row // 4 + np.arange(rows) // 4
    quantity = random.integers(1, 51, rows)
    price_cents = quantity * random.integers(90_000, 210_000, rows)
    shipped = random.integers(0, _DAYS, rows)
    received = shipped * 86_400_000_000 + random.integers(0, 30 * 86_400_000_000, rows)
    flags = random.integers(0, 3, rows)
    return pa.table(
        {
            "l_orderkey": pa.array(orders * 8 + 1),
            "l_partkey": pa.array(random.integers(1, 200_001, rows).astype("i4")),
            "l_suppkey": pa.array(random.integers(1, 10_001, rows).astype("i4")),
            "l_linenumber": pa.array((np.arange(rows) % 4 + 1).astype("i4")),
            "l_quantity": _decimals(quantity * 100, 15, 2),
            "l_extendedprice": _decimals(price_cents, 15, 2),
            "l_discount": pa.array(random.integers(0, 11, rows) / 100),
            "l_tax": pa.array(random.integers(0, 9, rows) / 100),
            "l_returnflag": _choices(["A", "N", "R"], flags),
            "l_linestatus": _choices(["F", "O"], (flags == 1).astype("i8")),
            "l_shipdate": pa.array(_FIRST_DAY + shipped),
            "l_commitdate": pa.array(_FIRST_DAY + shipped + random.integers(-60, 60, rows)),
            "l_received": pa.array(
                (received + _FIRST_DAY.astype("M8[us]").astype("i8")).view("M8[us]").astype("M8[ns]"),
                mask=random.random(rows) < 0.1,
            ),
            "l_shipmode": _choices(_SHIP_MODES, random.integers(0, len(_SHIP_MODES), rows)),
            "l_comment": _comments(random, rows),
        }
    )


def _write(path: Path, codec: str, rows: int) -> None:
    writer = orc.ORCWriter(str(path), compression=CODECS[codec], stripe_size=STRIPE_BYTES)
    with writer:
        for first in range(0, rows, _CHUNK_ROWS):
            writer.write(table(first, min(_CHUNK_ROWS, rows - first)))


def _decimals(unscaled: Any, precision: int, scale: int) -> Any:
    words = np.zeros((len(unscaled), 2), dtype="i8")
    words[:, 0] = unscaled
    type_ = pa.decimal128(precision, scale)
    return pa.Array.from_buffers(type_, len(unscaled), [None, pa.py_buffer(words)])


def _choices(values: list[str], indices: Any) -> Any:
    return pa.array(values).take(pa.array(indices))


def _comments(random: np.random.Generator, rows: int) -> Any:
    """Texts of several words, most of them different."""
    counts = random.integers(*_COMMENT_WORDS, rows)
    ends = np.concatenate([[0], np.cumsum(counts)]).astype("i4")
    words = pa.array([word + " " for word in _WORDS]).take(
        pa.array(random.integers(0, len(_WORDS), int(ends[-1])))
    )
    # The words lie one after the other in one buffer: a comment is where its words lie.
    _, offsets, text = words.buffers()
    word_ends = np.frombuffer(offsets, "i4", len(words) + 1)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(word_ends[ends]), text)


if __name__ == "__main__":
    made = path_of(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else ROWS)
    print(os.path.relpath(made))
