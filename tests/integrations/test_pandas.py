"""`read_orc` gives the frames of `pandas.read_orc`, in chunks of any size, reading no more than they need."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import orc

from orcstream import UsageError, col
from orcstream.integrations.pandas import read_orc
from orcstream.plan.acid.names import is_table_file
from tests.golden.corpus_table import TABLE
from tests.integrations.samples import as_orc, sample
from tests.integrations.traffic import LARGE_DATA, PLAN, bytes_asked
from tests.servers.loopback import RangeServer, range_server

__all__ = ["range_server"]

DATA = as_orc(sample())
BACKENDS: list[Any] = [None, "numpy_nullable", "pyarrow"]

# --- as pandas -------------------------------------------------------------------------------------

# Where ORC's C++ reader, by which pandas reads, answers something else. The corpus' own answers are ours.
SECOND_OFF = "leaves a second in the first hours of 1970, east of Greenwich"
NO_HYBRID = "takes days before 1582 of old writers for those of today's calendar"
PAIMON = "paimon-cpp/append_"
ZONES = "with_multiple_ts_precision_and_timezone"
DIFFERENT = {
    "cudf/TestOrcFile.Spark.EpochTimestamp.Shanghai.orc": SECOND_OFF,
    f"{PAIMON}complex_build_in_fieldid/bucket-0/data-6dac9052-36d8-4950-8f74-b2bbc082e489-0.orc": SECOND_OFF,
    f"{PAIMON}with_cast_timestamp/bucket-0/data-35109ddd-dec0-4c48-b5f5-11d2a23d5dc0-0.orc": SECOND_OFF,
    f"{PAIMON}{ZONES}/bucket-0/data-3f58c403-1672-49a3-93c0-d90cfff9bd8a-0.orc": SECOND_OFF,
    "impala/date_tbl.orc": "has no year 0",
    "impala/hive2_pre_gregorian.orc": NO_HYBRID,
    "spark/before_1582_date_v2_4.snappy.orc": NO_HYBRID,
}
READ = [path for path, row in TABLE.items() if row.arrow and row.judge != "refused" and path not in DIFFERENT]
EVENTS = [path for path in READ if is_table_file(path)]
CORPUS = [path for path in READ if path not in EVENTS]


@pytest.mark.sampled
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("path", CORPUS)
def test_frames_are_those_of_pandas(corpus_folder: Path, path: str, backend: Any) -> None:
    options = {} if backend is None else {"dtype_backend": backend}
    try:
        expected = pd.read_orc(corpus_folder / path, **options)
    except (OSError, pa.ArrowException):  # what pandas cannot read, others judge
        return
    pd.testing.assert_frame_equal(read_orc(corpus_folder / path, **options), expected)


@pytest.mark.parametrize("path", EVENTS)
def test_events_of_a_transactional_table_are_no_rows(corpus_folder: Path, path: str) -> None:
    with pytest.raises(UsageError, match="open_table"):
        read_orc(corpus_folder / path)


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_type(tmp_path: Path, backend: Any) -> None:
    (tmp_path / "t.orc").write_bytes(DATA)
    options = {} if backend is None else {"dtype_backend": backend}
    for path in (tmp_path / "t.orc", str(tmp_path / "t.orc")):
        pd.testing.assert_frame_equal(read_orc(path, **options), pd.read_orc(path, **options))
    with (tmp_path / "t.orc").open("rb") as file:
        pd.testing.assert_frame_equal(
            read_orc(file, ["text", "id"], **options), read_orc(tmp_path / "t.orc", ["text", "id"], **options)
        )


def test_unions_are_read(corpus_folder: Path) -> None:
    frame = read_orc(corpus_folder / "apache-orc/TestOrcFile.testUnionAndTimestamp.orc", chunksize=1000)
    assert sum(len(chunk) for chunk in frame) > 5000


# --- chunks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 7, 499, 500, 1000, 2999, 3000, 10_000, 1_000_000])
def test_chunks_put_together_are_the_whole(size: int) -> None:
    columns = ["id", "flag", "text", "wall", "many"]
    where = col("id") < (100 if size < 10 else 10_000)
    expected = read_orc(DATA, columns, where=where, dtype_backend="pyarrow")
    with read_orc(DATA, columns, where=where, chunksize=size, dtype_backend="pyarrow") as chunks:
        found = list(chunks)
    assert {len(chunk) for chunk in found[:-1]} <= {size}
    assert 0 < len(found[-1]) <= size
    pd.testing.assert_frame_equal(pd.concat(found), expected)


def test_chunks_of_several_files(tmp_path: Path) -> None:
    for number in range(5):
        folder = tmp_path / f"part={number}"
        folder.mkdir()
        orc.write_table(pa.table({"id": range(number * 10, number * 10 + 10)}), str(folder / "t.orc"))
    whole = read_orc(tmp_path)
    assert whole["part"].tolist() == [row // 10 for row in range(50)]
    chunks = list(read_orc(tmp_path, chunksize=16, where=[("part", ">", 0)]))
    assert [len(chunk) for chunk in chunks] == [16, 16, 8]
    assert pd.concat(chunks)["id"].tolist() == list(range(10, 50))
    assert chunks[1].index.tolist() == list(range(16, 32))


def test_chunks_without_rows_or_columns() -> None:
    assert list(read_orc(DATA, chunksize=10, where=col("id") < 0)) == []
    assert [len(chunk) for chunk in read_orc(DATA, [], chunksize=1100)] == [1100, 1100, 800]
    assert read_orc(DATA, [], where=col("id") < 5).shape == (5, 0)


def test_leaving_early_stops_the_read(range_server: RangeServer) -> None:
    url = range_server.serve("t.orc", LARGE_DATA)
    with read_orc(url, chunksize=500, memory_limit=300_000, **PLAN) as chunks:
        assert next(chunks)["id"].tolist() == list(range(500))
    some = bytes_asked(range_server)
    read_orc(url, **PLAN)
    assert some * 2 < bytes_asked(range_server)
    chunks.close()
    assert list(chunks) == []


# --- what cannot be --------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"chunksize": 0}, {"chunksize": -5}, {"dtype_backend": "numpy"}])
def test_options_that_cannot_be(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(options))):
        read_orc(DATA, **options)


def test_columns_that_are_not_there() -> None:
    for chunksize in (None, 10):
        with pytest.raises(UsageError, match="textt"):
            read_orc(io.BytesIO(DATA), ["textt"], chunksize=chunksize)
