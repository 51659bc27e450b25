"""Ray Data: read tasks by stripes, what is known of them before they run, what is handed down to them.

Tasks are made and run as Ray's planner and workers do it, without a cluster, which takes half a minute to
start. That Ray itself does the same is asked in `make test-all`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import ray.cloudpickle
from ray.data.expressions import col as ray_col

from orcstream import UsageError, col
from orcstream.integrations.ray import OrcDatasource
from tests.integrations.samples import as_orc, sample
from tests.integrations.traffic import LARGE, LARGE_DATA, PLAN, bytes_asked
from tests.servers.loopback import RangeServer, range_server
from tests.support.effort import ALL

__all__ = ["range_server"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for part in range(3):
        (tmp_path / f"part={part}").mkdir()
        (tmp_path / f"part={part}" / "large.orc").write_bytes(LARGE_DATA)
    return tmp_path


def run(tasks: list[Any]) -> pa.Table:
    """Each task as another process would get it."""
    blocks: list[pa.Table] = []
    for task in tasks:
        blocks += ray.cloudpickle.loads(ray.cloudpickle.dumps(task))()
    return pa.concat_tables(blocks)


def test_every_type(tmp_path: Path) -> None:
    (tmp_path / "t.orc").write_bytes(as_orc(sample()))
    source = OrcDatasource(tmp_path / "t.orc", timestamp_unit="us")
    (task,) = source.get_read_tasks(10)
    found = run([task])
    assert found.schema == task.schema
    assert str(found.to_pylist()) == str(sample().to_pylist())  # as text, since a NaN is not equal to itself


def test_what_is_known_beforehand(folder: Path) -> None:
    source = OrcDatasource(folder, split_bytes=300_000)
    tasks = source.get_read_tasks(100)
    assert len(tasks) >= 12
    assert sum(task.metadata.num_rows for task in tasks) == 3 * LARGE.num_rows
    for task in tasks:
        assert run([task]).num_rows == task.metadata.num_rows
    sizes = [task.metadata.size_bytes for task in tasks]
    assert source.estimate_inmemory_data_size() == sum(sizes)
    assert LARGE.nbytes * 3 * 0.5 < sum(sizes) < LARGE.nbytes * 3 * 2
    assert tasks[0].metadata.input_files == ("part=0/large.orc",)
    assert source.get_name() == "ORC"


@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_no_more_tasks_than_asked_for(folder: Path, parallelism: int) -> None:
    tasks = OrcDatasource(folder, ["id", "part"], split_bytes=300_000).get_read_tasks(parallelism)
    assert len(tasks) == parallelism
    found = run(tasks)
    assert found["id"].to_pylist() == [*range(LARGE.num_rows)] * 3
    assert found["part"].to_pylist() == [part for part in range(3) for _ in range(LARGE.num_rows)]


def test_projection_is_handed_down(range_server: RangeServer) -> None:
    url = range_server.serve("large.orc", LARGE_DATA)
    source = OrcDatasource(url, **PLAN)
    assert source.supports_projection_pushdown()
    narrow = source.apply_projection({"amount": "amount", "id": "id"}).apply_projection({"amount": "amount"})
    assert narrow.get_projection_map() == {"amount": "amount"}
    range_server.requests.clear()
    found = run(narrow.get_read_tasks(1))
    assert found.equals(LARGE.select(["amount"]))
    assert bytes_asked(range_server) * 3 < len(LARGE_DATA)
    assert narrow.estimate_inmemory_data_size() * 2 < source.estimate_inmemory_data_size()
    assert source.apply_projection(None).get_read_tasks(1)[0].schema.names == LARGE.column_names


FILTERS = [
    ray_col("id") < 5,
    (ray_col("group") == 2) & (ray_col("amount") > 7500.0),
    ray_col("id").is_in([3, 39_999]) | (ray_col("text") == LARGE["text"][17].as_py()),
    (ray_col("id") + 1 == 700) & (ray_col("id") < 5000),  # one half is evaluated on rows
    ray_col("id") * 2 == ray_col("group"),
]


@pytest.mark.parametrize("filter_", FILTERS, ids=range(len(FILTERS)))
def test_filters_are_handed_down(folder: Path, filter_: Any) -> None:
    source = OrcDatasource(folder, ["text", "id", "part"], split_bytes=300_000, where=col("part") > 0)
    assert source.supports_predicate_pushdown()
    chosen = source.apply_predicate(filter_)
    assert chosen.get_current_predicate() is filter_
    tasks = chosen.get_read_tasks(50)
    expected = LARGE.filter(filter_.to_pyarrow()).select(["text", "id"])
    found = run(tasks)
    assert found.column_names == ["text", "id", "part"]
    assert found.select(["text", "id"]).equals(pa.concat_tables([expected, expected]))
    assert {task.metadata.num_rows for task in tasks} == {None}
    assert source.get_current_predicate() is None


@pytest.mark.parametrize("filter_", [None, *FILTERS], ids=range(len(FILTERS) + 1))
def test_counting_reads_rows_without_columns(folder: Path, filter_: Any) -> None:
    """As Ray counts: by a projection on no column."""
    source = OrcDatasource(folder, split_bytes=300_000)
    expected = 3 * (LARGE.num_rows if filter_ is None else LARGE.filter(filter_.to_pyarrow()).num_rows)
    chosen = source if filter_ is None else source.apply_predicate(filter_)
    blocks = [block for task in chosen.apply_projection({}).get_read_tasks(3) for block in task()]
    # What is left of a block on its way through Ray's store.
    stored = [pa.ipc.open_stream(_ipc(block)).read_all() for block in blocks]
    assert sum(block.num_rows for block in stored) == expected
    assert {tuple(block.column_names) for block in blocks} == {("__bsp_stub",)}


def _ipc(table: pa.Table) -> Any:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


def test_filters_leave_tasks_out(folder: Path) -> None:
    source = OrcDatasource(folder, split_bytes=300_000)
    chosen = source.apply_predicate(ray_col("id") >= 39_990).apply_predicate(ray_col("part") == 1)
    (task,) = chosen.get_read_tasks(50)
    assert run([task])["id"].to_pylist() == list(range(39_990, 40_000))
    (task,) = source.apply_predicate(ray_col("id") < 0).get_read_tasks(50)
    assert run([task]).equals(task.schema.empty_table())


def test_a_limit_ends_a_task(range_server: RangeServer) -> None:
    url = range_server.serve("large.orc", LARGE_DATA)
    (task,) = OrcDatasource(url, memory_limit=300_000, **PLAN).get_read_tasks(1, per_task_row_limit=5)
    range_server.requests.clear()
    assert run([task])["id"].to_pylist() == list(range(5))
    assert bytes_asked(range_server) * 3 < len(LARGE_DATA)


def test_what_cannot_be(folder: Path) -> None:
    with pytest.raises(UsageError, match="texts"):
        OrcDatasource(folder, ["texts"])
    with pytest.raises(UsageError, match="parts"):
        OrcDatasource(folder, where=col("parts") == 1)


# --- Ray itself ------------------------------------------------------------------------------------

SESSION = """
import json, sys
import ray
from ray.data.expressions import col
from orcstream.integrations.ray import OrcDatasource, read_orc

handed_down = []

def noted(name):
    apply = getattr(OrcDatasource, name)
    def note(source, what):
        handed_down.append([name, sorted(what) if isinstance(what, dict) else None])
        return apply(source, what)
    setattr(OrcDatasource, name, note)

noted("apply_projection")
noted("apply_predicate")
ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20)
data = read_orc(sys.argv[1], split_bytes=300_000, ray_options={"override_num_blocks": 4})
answers = [data.count(), data.schema().names]
few = data.filter(expr=(col("id") < 5) & (col("part") == 2)).select_columns(["id", "part"])
answers += [few.take_all(), handed_down[:]]
answers += [few.count(), data.filter(expr=col("id") + 1 > 39_000).count()]
answers += [data.limit(3).select_columns(["id"]).take_all(), data.sum("amount")]
ray.shutdown()
print(json.dumps(answers))
"""


@pytest.fixture
def session(folder: Path) -> Any:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-c", SESSION, str(folder)], check=True, stdout=subprocess.PIPE, env=clean, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


if ALL:

    @pytest.mark.timeout(400)  # a session begins in half a minute where nothing else is going on
    def test_ray_does_the_same(session: list[Any]) -> None:
        count, names, few, handed_down, few_count, odd_count, first, total = session
        assert count == 3 * LARGE.num_rows
        assert names == [*LARGE.column_names, "part"]
        assert (few_count, odd_count) == (5, 3 * 1000)
        assert few == [{"id": row, "part": 2} for row in range(5)]
        assert ["apply_predicate", None] in handed_down
        assert ["apply_projection", ["id", "part"]] in handed_down
        assert first == [{"id": row} for row in range(3)]
        assert total == pytest.approx(3 * sum(LARGE["amount"].to_pylist()))
