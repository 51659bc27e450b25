"""Batches of a stream are there exactly once, wherever their driver is killed; Spark itself is not needed.

Before every request that changes the store a driver may die.
"""

from __future__ import annotations

import itertools
import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

import orcstream
from orcstream.blocking.loop import the_loop
from orcstream.io import folders
from orcstream.log import records
from orcstream.spark.compact.compacting import Compaction, grouped, look_at
from orcstream.spark.options import Options
from orcstream.spark.read.files import FileChoice
from orcstream.spark.read.merged_files import find_counted
from orcstream.spark.stream import commit_log
from orcstream.spark.stream.commit_log import CommitLog
from orcstream.spark.stream.writing import BatchFiles, StreamPlan, commit_batch
from orcstream.spark.write import written
from orcstream.spark.write.options import write_plan
from tests.servers.loopback import MotoServer, moto_server
from tests.spark.killer import Killed, Killer
from tests.support.effort import STEP

__all__ = ["moto_server"]

SCHEMA = StructType([StructField("id", LongType()), StructField("p", StringType())])
QUERY = "5f0e-query"


@pytest.fixture
def killer(monkeypatch: pytest.MonkeyPatch) -> Killer:
    return Killer(monkeypatch)


def plan_of(url: str, **options: str) -> StreamPlan:
    given = Options({"path": url, "compression": "none", **options})
    every = given.count("compact_every", 0, least=0)
    plan = write_plan(SCHEMA, given)
    return StreamPlan(plan, every, plan.max_bytes, overwrite=False)


def batch_of(batch: int) -> pa.RecordBatch:
    ids = list(range(batch * 10, batch * 10 + 10))
    return pa.record_batch({"id": ids, "p": [f"p{one % 2}" for one in ids]})


RUNS = itertools.count()


def prepared(plan: StreamPlan, batch: int) -> list[BatchFiles]:
    """What the tasks of one run of a batch answer: two tasks with a half of the rows each."""
    run, rows, found = str(next(RUNS)), batch_of(batch), []
    for task in range(2):
        stem = f"part-{task:05}-{QUERY}-{batch}-{next(RUNS):012}"
        files = written.write_files(plan.files, [rows.slice(task * 5, 5)], stem, threads=1)
        found.append(BatchFiles(QUERY, run, 0, files))
    return found


def commit(plan: StreamPlan, batch: int, messages: list[BatchFiles] | None = None) -> None:
    the_loop().run(partial(commit_batch, plan, batch, messages or prepared(plan, batch)))


def data_files(folder: Path) -> list[Path]:
    """As any reader of folders finds them."""
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return [folder / path for path in sorted(found) if not folders.is_hidden(path.as_posix())]


def ids_of(files: list[Path]) -> list[int]:
    return sorted(one for file in files for one in pyarrow.orc.read_table(file)["id"].to_pylist())


def counted_files(folder: Path) -> list[Path]:
    """As our readers find them."""
    choice = FileChoice((str(folder),), recursive=True)
    return [Path(one.url) for one in the_loop().run(lambda: find_counted(choice, {})).files]


def temporaries(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*.tmp") if path.is_file()]


def killed(plan: StreamPlan, batch: int, killer: Killer, steps: int) -> bool:
    """Commit a batch until the driver dies; whether it did."""
    messages = prepared(plan, batch)
    killer.left = steps
    try:
        commit(plan, batch, messages)
    except (Killed, BaseExceptionGroup):  # several files are committed side by side
        return True
    finally:
        killer.left = None
    return False


def test_a_batch_is_committed_once_wherever_the_driver_dies(tmp_path: Path, killer: Killer) -> None:
    survived, steps = False, 0
    while not survived:
        folder = tmp_path / str(steps)
        plan = plan_of(str(folder))
        commit(plan, 0)
        survived = not killed(plan, 1, killer, steps)
        seen = ids_of(data_files(folder))
        assert len(seen) == len(set(seen))
        commit(plan, 1)
        assert ids_of(data_files(folder)) == list(range(20)), steps
        assert temporaries(folder) == []
        steps += STEP
    assert steps > 7


def test_a_compaction_goes_on_wherever_the_driver_dies(tmp_path: Path, killer: Killer) -> None:
    survived, steps = False, 0
    while not survived:
        folder = tmp_path / str(steps)
        plan = plan_of(str(folder), compact_every="2")
        commit(plan, 0)
        survived = not killed(plan, 1, killer, steps)
        seen = ids_of(counted_files(folder))
        assert len(seen) == len(set(seen)), steps
        assert set(range(10)) <= set(seen)
        commit(plan, 1)
        commit(plan, 2)
        assert ids_of(data_files(folder)) == list(range(30)), steps
        assert temporaries(folder) == []
        assert len([one for one in data_files(folder) if "compact" in one.name]) == 1
        steps += STEP
    assert steps > 12


def test_the_log_says_what_was_merged(tmp_path: Path) -> None:
    plan = plan_of(str(tmp_path), compact_every="3")
    for batch in range(3):
        commit(plan, batch)
    (file,) = data_files(tmp_path)
    (record,) = [json.loads(one.read_text()) for one in (tmp_path / "_orcstream_log").rglob("*.merged.json")]
    assert (record["how"], record["row_count"], len(record["sources"])) == ("copied", 30, 6)
    (plan_file,) = (tmp_path / "_orcstream_log").rglob("plan.json")
    (group,) = json.loads(plan_file.read_text())["groups"]
    assert group["target"] == file.name
    assert [one["rows"] for one in group["replaces"]] == [5] * 6
    # The rows are in this order.
    assert pyarrow.orc.read_table(file)["id"].to_pylist() == list(range(30))


def test_a_batch_that_is_done_is_skipped(tmp_path: Path) -> None:
    plan = plan_of(str(tmp_path))
    commit(plan, 0)
    commit(plan, 1)
    before = data_files(tmp_path)
    for batch in (0, 1):
        messages = prepared(plan, batch)
        commit(plan, batch, messages)
        commit(plan, batch, messages)
    assert data_files(tmp_path) == before
    assert temporaries(tmp_path) == []


def test_of_two_drivers_one_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(str(tmp_path))
    ours, others = prepared(plan, 0), prepared(plan, 0)
    begin = CommitLog.begin

    async def late(log: CommitLog, intent: Any) -> Any:
        monkeypatch.setattr(CommitLog, "begin", begin)
        await commit_batch(plan, 0, others)
        return await begin(log, intent)

    monkeypatch.setattr(CommitLog, "begin", late)
    commit(plan, 0, ours)
    assert ids_of(data_files(tmp_path)) == list(range(10))
    assert {one.name for one in data_files(tmp_path)} == {f.path for one in others for f in one.files}
    assert temporaries(tmp_path) == []


def test_the_log_stays_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_log, "KEPT", 2)
    for every in (0, 2):
        folder = tmp_path / str(every)
        plan = plan_of(str(folder), compact_every=str(every))
        for batch in range(8):
            commit(plan, batch)
        assert len(list((folder / "_orcstream_log").rglob("*.json"))) <= (4 if not every else 4 + 8)
        commit(plan, 7)
        commit(plan, 0)
        assert ids_of(data_files(folder)) == list(range(80))


def test_a_compaction_that_cannot_be_leaves_the_files(tmp_path: Path) -> None:
    plan = plan_of(str(tmp_path), compact_every="2")
    commit(plan, 0)
    broken = data_files(tmp_path)[0]
    broken.write_bytes(b"no ORC")
    commit(plan, 1)
    commit(plan, 2)
    rest = [one for one in data_files(tmp_path) if one != broken]
    assert broken.read_bytes() == b"no ORC"
    assert ids_of(rest) == list(range(5, 30))


def test_complete_batches_replace_what_was_there(tmp_path: Path, killer: Killer) -> None:
    survived, steps = False, 0
    while not survived:
        folder = tmp_path / str(steps)
        plan = plan_of(str(folder))
        plan = StreamPlan(plan.files, 0, 1, overwrite=True)
        commit(plan, 0)
        survived = not killed(plan, 1, killer, steps)
        assert ids_of(data_files(folder))
        commit(plan, 1)
        assert ids_of(data_files(folder)) == list(range(10, 20)), steps
        steps += STEP


def test_a_record_that_names_other_files_is_refused(tmp_path: Path, killer: Killer) -> None:
    plan = plan_of(str(tmp_path / "t"))
    precious = tmp_path / "precious"
    precious.write_text("stays")
    assert killed(plan, 0, killer, 3)
    (record,) = (tmp_path / "t").rglob("*.intent.json")
    told = json.loads(record.read_text())
    told["files"][0]["state"]["temporary"] = str(precious)
    record.write_text(json.dumps(told))
    with pytest.raises(orcstream.FormatError, match=r"part-00000-\S+\.orc .*\btemporary\b"):
        commit(plan, 0)
    assert precious.read_text() == "stays"


def test_a_batch_on_s3_goes_on_from_its_intent(moto_server: MotoServer, killer: Killer) -> None:
    moto_server.client.create_bucket(Bucket="streams")
    options = {"storage_options": json.dumps(moto_server.options), "compact_every": "2"}
    plan = plan_of("s3://streams/table", **options)
    commit(plan, 0)
    assert killed(plan, 1, killer, 5)  # some files are visible
    commit(plan, 1)
    listed = moto_server.client.list_objects_v2(Bucket="streams", Prefix="table/part")["Contents"]
    assert len(listed) == 1
    assert "Uploads" not in moto_server.client.list_multipart_uploads(Bucket="streams")
    table = orcstream.blocking.read(f"s3://streams/{listed[0]['Key']}", storage_options=moto_server.options)
    assert sorted(pa.table(table)["id"].to_pylist()) == list(range(20))


def test_groups_are_of_one_folder_and_no_larger_than_a_file(tmp_path: Path) -> None:
    plan = plan_of(str(tmp_path), partition_by="p")
    for batch in range(3):
        commit(plan, batch)
    paths = [one.relative_to(tmp_path).as_posix() for one in data_files(tmp_path)]
    looked = the_loop().run(partial(look_at, plan.files, paths))
    groups = grouped(looked, Compaction(looked[0].length * 20, how="copy"), "x")
    assert [len(one.sources) for one in groups] == [6, 6]
    assert [one.target.partition("/")[0] for one in groups] == ["p=p0", "p=p1"]
    groups = grouped(looked, Compaction(looked[0].length * 2 + 20, how="copy"), "x")
    assert [len(one.sources) for one in groups] == [2] * 6


@pytest.mark.parametrize("kinds", ["intent", "done", "plan", "merged", "end"])
def test_a_log_that_is_cut_halfway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kinds: str) -> None:
    """Of the records that go at once, a store removes any first."""
    monkeypatch.setattr(commit_log, "KEPT", 1)
    plan = plan_of(str(tmp_path), compact_every="1")
    remove = folders.remove_files
    dies = True

    def goes_first(path: str) -> bool:
        return re.search(rf"[./]({kinds})\.json$", path) is not None

    async def halfway(url: str, paths: Any, **options: Any) -> None:
        if dies:
            await remove(url, filter(goes_first, paths), **options)
            raise Killed
        await remove(url, paths, **options)

    monkeypatch.setattr(records, "remove_files", halfway)
    for batch in range(3):
        messages = prepared(plan, batch)
        try:
            commit(plan, batch, messages)
        except Killed:
            dies = False
    commit(plan, 3)
    assert ids_of(counted_files(tmp_path)) == list(range(40))
    assert all(json.loads(one.read_text())["sources"] for one in tmp_path.rglob("*.merged.json"))
    paths = [one.relative_to(tmp_path).as_posix() for one in tmp_path.rglob("*") if one.is_file()]
    assert the_loop().run(partial(commit_log.claimed_paths, plan.files, paths)) == set()


def test_a_stream_that_may_not_look_for_what_was_left_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: Any, **__: Any) -> None:
        raise PermissionError("you may not list uploads")

    monkeypatch.setattr(orcstream, "cleanup", refused)
    plan = plan_of(str(tmp_path))
    for batch in range(2):
        commit(plan, batch)
    assert ids_of(data_files(tmp_path)) == list(range(20))
