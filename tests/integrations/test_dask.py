"""dask dataframes: partitions by stripes, whose workers read only the columns and stripes that are needed."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import dask
import dask.dataframe as dd
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import orc

from orcstream import UsageError, col
from orcstream.integrations.dask import read_orc
from orcstream.integrations.pandas import read_orc as read_frame
from tests.integrations.samples import as_orc, sample
from tests.integrations.traffic import LARGE, LARGE_DATA, PLAN, bytes_asked
from tests.servers.loopback import RangeServer, range_server
from tests.support.effort import ALL

__all__ = ["range_server"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three files of several stripes, in folders that name a value."""
    for part in range(3):
        (tmp_path / f"part={part}").mkdir()
        (tmp_path / f"part={part}" / "large.orc").write_bytes(LARGE_DATA)
    return tmp_path


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.mark.parametrize("backend", ["pyarrow", "numpy_nullable"])
def test_every_type(tmp_path: Path, backend: Any) -> None:
    path = tmp_path / "t.orc"
    path.write_bytes(as_orc(sample()))
    with dask.config.set({"dataframe.convert-string": False}):
        frame = read_orc(path, dtype_backend=backend)
        expected = read_frame(path, dtype_backend=backend)
        pd.testing.assert_frame_equal(frame.compute(), expected)
        assert frame.dtypes.equals(expected.dtypes)


def test_partitions_are_of_stripes(folder: Path) -> None:
    whole = read_orc(folder)
    assert whole.npartitions == 3
    parts = read_orc(folder, split_bytes=300_000)
    assert 3 * 4 <= parts.npartitions <= 3 * orc.ORCFile(folder / "part=0" / "large.orc").nstripes
    assert parts["id"].compute().tolist() == [*range(LARGE.num_rows)] * 3
    assert parts.groupby("part")["id"].count().compute().to_dict() == dict.fromkeys(range(3), LARGE.num_rows)
    assert len(parts) == 3 * LARGE.num_rows


def test_where_is_exact_and_leaves_partitions_out(folder: Path) -> None:
    where = (col("part") == 1) & (col("id") >= 39_990)
    frame = read_orc(folder, ["text", "id"], where=where, split_bytes=300_000)
    assert frame.npartitions == 1
    assert list(frame.columns) == ["text", "id"]
    assert frame["id"].compute().tolist() == list(range(39_990, 40_000))
    nothing = read_orc(folder, where=col("id") < 0)
    assert len(nothing.compute()) == 0
    assert list(nothing.columns) == ["id", "group", "text", "amount", "part"]


def test_columns_are_handed_down(range_server: RangeServer) -> None:
    url = range_server.serve("large.orc", LARGE_DATA)
    frame = read_orc(url, **PLAN)
    range_server.requests.clear()
    assert frame["amount"].sum().compute() == pytest.approx(sum(LARGE["amount"].to_pylist()))
    one = bytes_asked(range_server)
    frame.compute()
    assert one * 4 < bytes_asked(range_server)
    assert frame[frame["id"] < 5][["text"]].compute()["text"].tolist() == LARGE["text"][:5].to_pylist()


def test_fields_of_structs(tmp_path: Path) -> None:
    path = tmp_path / "t.orc"
    path.write_bytes(as_orc(sample()))
    frame = read_orc(path, ["place.number", "id"], where=col("place.number") == 7)
    assert set(frame["place"].compute().apply(lambda place: tuple(place.items()))) == {(("number", 7),)}
    assert (
        frame["id"].compute().tolist()
        == read_frame(path, ["id"], where=col("place.number") == 7)["id"].tolist()
    )


def test_names_with_dots(tmp_path: Path) -> None:
    orc.write_table(pa.table({"a.b": [1, 2], "c": [3, 4]}), str(tmp_path / "t.orc"))
    frame = read_orc(tmp_path / "t.orc")
    assert frame["a.b"].compute().tolist() == [1, 2]
    assert read_orc(tmp_path / "t.orc", [("a.b",)])["a.b"].compute().tolist() == [1, 2]


def test_making_one_reads_no_rows(range_server: RangeServer) -> None:
    url = range_server.serve("large.orc", LARGE_DATA)
    read_orc(url, io_options={"tail_bytes": 4096})
    assert bytes_asked(range_server) < 3 * 4096


def test_goes_to_other_processes(folder: Path) -> None:
    frame = pickle.loads(pickle.dumps(read_orc(folder, ["id"], where=[("id", "<", 3)])))
    with dask.config.set(scheduler="processes" if ALL else "synchronous", num_workers=1):
        assert frame["id"].compute().tolist() == [0, 1, 2] * 3


def test_options_that_cannot_be(folder: Path) -> None:
    with pytest.raises(UsageError, match="dtype_backend"):
        read_orc(folder, dtype_backend="numpy")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="texts"):
        read_orc(folder, ["texts"])
    assert isinstance(read_orc(folder), dd.DataFrame)
