"""Memory while streaming, measured in processes of their own: it follows the limit, not the file.

A file may decode to thousands of times its size, a stripe may be larger than memory, a row or a dictionary
may be larger than the limit, columns may be many. The limit is small here, so that files are quick to make;
what the process holds besides (stacks, caches of the allocator, libraries loaded late) is not.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc

from tests.memory.encrypted_child import ROWS, block
from tests.reference import compression, rle_v2
from tests.reference.builder import FileBuilder, Options, Stream
from tests.reference.columns import Encoder, make_file
from tests.reference.reader import DATA, DICTIONARY_DATA, DICTIONARY_V2, DIRECT, DIRECT_V2, LENGTH
from tests.reference.types import T
from tests.support.effort import ALL, some

ROOT = Path(__file__).parents[2]
MB = 1_000_000
LIMIT = 8 * MB
BESIDES = 64 * MB
# Blocks of 5.5 MB: what grows with the file, or is as large as its stripe, is far above the limit.
FEW, MANY = (15, 60) if ALL else (10, 25)


def peak_of(path: Path, tiny: Path, limit: int = LIMIT, **options: Any) -> dict[str, Any]:
    command = [
        sys.executable,
        "-m",
        "tests.memory.child",
        str(path),
        str(tiny),
        str(limit),
        json.dumps(options),
    ]
    run = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(run.stdout)
    print(f"{path.name} limit={limit} {found}")  # noqa: T201  # figures for a report of a failure
    return found


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("memory")


@pytest.fixture(scope="session")
def tiny(folder: Path) -> Path:
    """A file of every column type that is read here."""
    path = folder / "tiny.orc"
    orc.write_table(pa.Table.from_batches([block().slice(0, 10)]), path, compression="zstd")
    return path


def large_file(folder: Path, blocks: int, *, stride: int, codec: str = "zstd") -> Path:
    """One stripe of `blocks` times 50,000 rows, about 5.5 MB each.

    A stride longer than the stripe makes an index of one entry, which says nothing.
    """
    path = folder / f"large-{blocks}-{stride}-{codec}.orc"
    if not path.exists():
        table = pa.Table.from_batches([block()])
        with orc.ORCWriter(
            path,
            stripe_size=1 << 40,
            compression=codec,
            compression_block_size=1 << 18,
            row_index_stride=stride,
            dictionary_key_size_threshold=0.5,
        ) as writer:
            for _ in range(blocks):
                writer.write(table)
    return path


@pytest.mark.parametrize("stride", [10_000, 1 << 30], ids=["with-index", "without-index"])
def test_one_large_stripe(folder: Path, tiny: Path, stride: int) -> None:
    path = large_file(folder, MANY, stride=stride)
    assert orc.ORCFile(path).nstripes == 1
    found = peak_of(path, tiny)
    assert found["rows"] == MANY * ROWS
    assert found["peak"] <= LIMIT + BESIDES


@pytest.mark.parametrize("codec", some(["zstd", "uncompressed"], 2))
def test_memory_does_not_grow_with_the_file(folder: Path, tiny: Path, codec: str) -> None:
    peaks = [peak_of(large_file(folder, times, stride=10_000, codec=codec), tiny) for times in (FEW, MANY)]
    assert [found["rows"] for found in peaks] == [FEW * ROWS, MANY * ROWS]
    assert max(found["peak"] for found in peaks) <= LIMIT + BESIDES
    assert abs(peaks[0]["peak"] - peaks[1]["peak"]) < 20 * MB


def test_runs_that_decode_to_600_mb(folder: Path, tiny: Path) -> None:
    """25 KB of runs of zeros; no index says how much comes out of them."""
    runs = 50_000
    zeros = rle_v2.delta([0] * 512, signed=True)
    rows = runs * 512
    type_ = T("struct", (T("bigint"),) * 3, ("a", "b", "c"))
    builder = FileBuilder(type_, Options(compression=compression.ZLIB))
    streams = [Stream(DATA, column, zeros * runs) for column in (1, 2, 3)]
    builder.stripe(rows, streams, [(DIRECT, 0), *[(DIRECT_V2, 0)] * 3])
    path = folder / "runs.orc"
    path.write_bytes(builder.build())
    assert path.stat().st_size <= 25_000
    assert 3 * 8 * rows > 600 * MB
    for limit in (LIMIT, 64 * MB):
        found = peak_of(path, tiny, limit)
        assert found["rows"] == rows
        assert found["peak"] <= limit + BESIDES


def test_words_that_decode_to_600_mb(folder: Path, tiny: Path) -> None:
    """A dictionary of one word of 1,000 bytes, and an index of zeros."""
    rows = 600 * 1024
    zeros = rle_v2.delta([0] * 512, signed=False)
    type_ = T("struct", (T("string"),), ("a",))
    builder = FileBuilder(type_, Options(compression=compression.ZLIB))
    streams = [
        Stream(DATA, 1, zeros * (rows // 512)),
        Stream(DICTIONARY_DATA, 1, b"x" * 1000),
        Stream(LENGTH, 1, rle_v2.encode([1000], signed=False)),
    ]
    builder.stripe(rows, streams, [(DIRECT, 0), (DICTIONARY_V2, 1)])
    path = folder / "words.orc"
    path.write_bytes(builder.build())
    found = peak_of(path, tiny)
    assert found["rows"] == rows
    assert found["peak"] <= LIMIT + BESIDES


def text_file(folder: Path, name: str, values: list[str], **options: Any) -> Path:
    path = folder / f"{name}.orc"
    table = pa.table({"n": pa.array(range(len(values)), pa.int64()), "text": values})
    orc.write_table(table, path, compression="zstd", stripe_size=1 << 40, **options)
    return path


def test_rows_of_a_megabyte(folder: Path, tiny: Path) -> None:
    path = text_file(folder, "megabyte", [chr(65 + row % 26) * MB for row in range(200)])
    found = peak_of(path, tiny)
    assert found["rows"] == 200
    assert found["peak"] <= LIMIT + BESIDES


def test_rows_that_turn_large(folder: Path, tiny: Path) -> None:
    """What was measured of the rows before says nothing of these."""
    values = ["x"] * 300_000 + ["y" * 1000] * 100_000 + ["z" * MB] * 40 + ["x"] * 1000
    found = peak_of(text_file(folder, "turning", values), tiny)
    assert found["rows"] == len(values)
    assert found["peak"] <= LIMIT + BESIDES


def test_one_row_above_the_limit(folder: Path, tiny: Path) -> None:
    path = text_file(folder, "row", ["small", "x" * (LIMIT + MB), "small"])
    found = peak_of(path, tiny)
    assert found["reason"] == "row_too_large"
    assert "memory_limit" in found["message"]
    assert (found["column"], found["row"]) == (2, 1)
    assert found["peak"] <= LIMIT + BESIDES
    assert peak_of(path, tiny, 4 * LIMIT)["rows"] == 3


def test_a_list_above_the_limit(folder: Path, tiny: Path) -> None:
    path = folder / "list.orc"
    table = pa.table({"a": [[1], list(range(LIMIT // 4)), [2]]}, pa.schema({"a": pa.list_(pa.int64())}))
    orc.write_table(table, path, compression="zstd")
    found = peak_of(path, tiny)
    assert found["reason"] == "row_too_large"
    assert found["peak"] <= LIMIT + BESIDES
    assert peak_of(path, tiny, 4 * LIMIT)["rows"] == 3


def test_a_dictionary_above_the_limit(folder: Path, tiny: Path) -> None:
    words = [f"{word:05d}" + "w" * 1000 for word in range(12_000)]
    path = folder / "dictionary.orc"
    type_ = T("struct", (T("string"),), ("a",))
    options = Options(compression=compression.ZLIB)
    path.write_bytes(make_file(type_, [(word,) for word in words], Encoder(dictionary=True), options))
    found = peak_of(path, tiny)
    assert found["reason"] == "dictionary_too_large"
    assert "memory_limit" in found["message"]
    assert found["column"] == 1
    assert found["peak"] <= LIMIT + BESIDES
    assert peak_of(path, tiny, 8 * LIMIT)["rows"] == 12_000


def test_many_dictionaries_together_above_the_limit(folder: Path, tiny: Path) -> None:
    """Each fits, all together do not."""
    count = 40
    words = [f"{word:04d}" + "w" * 1000 for word in range(3000)]
    encoder = Encoder(dictionary=True)
    encoder.column(T("string"), 1, words)
    streams = [
        Stream(one.kind, column, one.data) for column in range(1, count + 1) for one in encoder.streams
    ]
    names = tuple(f"c{column}" for column in range(count))
    builder = FileBuilder(T("struct", (T("string"),) * count, names), Options(compression=compression.ZLIB))
    builder.stripe(len(words), streams, [(DIRECT, 0), *[encoder.encodings[1]] * count])
    path = folder / "dictionaries.orc"
    path.write_bytes(builder.build())
    found = peak_of(path, tiny)
    assert found["reason"] == "dictionary_too_large"
    assert "memory_limit" in found["message"]
    assert found["peak"] <= LIMIT + BESIDES
    assert peak_of(path, tiny, 300 * MB)["rows"] == len(words)


def test_a_thousand_columns(folder: Path, tiny: Path) -> None:
    path = folder / "wide.orc"
    rng = np.random.default_rng(4)
    rows = 20_000
    columns = {f"c{number}": rng.integers(0, 1 << 30, rows) for number in range(1000)}
    orc.write_table(pa.table(columns), path, compression="zstd", stripe_size=1 << 40)
    found = peak_of(path, tiny, 64 * MB)
    assert found["rows"] == rows
    assert found["peak"] <= 64 * MB + BESIDES


def test_two_hundred_tiny_stripes(folder: Path, tiny: Path) -> None:
    path = folder / "stripes.orc"
    with orc.ORCWriter(path, stripe_size=1 << 10, compression="zstd") as writer:
        for _ in range(9):
            writer.write(pa.Table.from_batches([block()]))
    stripes = orc.ORCFile(path).nstripes
    assert stripes > 200
    found = peak_of(path, tiny)
    assert (found["rows"], found["batches"]) == (9 * ROWS, stripes)
    assert found["peak"] <= LIMIT + BESIDES


def test_batches_are_as_long_as_asked(folder: Path, tiny: Path) -> None:
    """Windows of bytes leave no trace in the batches where rows are narrow."""
    path = large_file(folder, FEW, stride=10_000)
    rows = FEW * ROWS
    for batch_rows in (1000, 4096):
        found = peak_of(path, tiny, batch_rows=batch_rows)
        assert found["largest"] == batch_rows
        # The first ones may be short, while the size of a row is guessed.
        assert found["batches"] - -(-rows // batch_rows) <= 10
