"""Reads that were planned before files were merged: each row once, from wherever it is; without Spark."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from orcstream.blocking.loop import the_loop
from orcstream.errors import OrcError
from orcstream.spark import jobs
from orcstream.spark.access import Access
from orcstream.spark.compact import compacting
from orcstream.spark.compact.compacting import Compaction
from orcstream.spark.compact.journal import CompactionJournal
from orcstream.spark.jobs import compaction
from orcstream.spark.jobs.compaction import compact_with
from orcstream.spark.read import merged_files
from orcstream.spark.read.files import FileChoice, find_files
from orcstream.spark.read.merge_records import JOBS_FOLDER, Group
from orcstream.spark.read.pieces import PieceReader
from orcstream.spark.read.reading import reader_of
from orcstream.spark.stream import commit_log, writing
from orcstream.spark.write import written
from orcstream.spark.write.target import Folder
from tests.servers.loopback import MotoServer, moto_server
from tests.spark.stream_driver import (
    DEATH,
    SCHEMA,
    Killed,
    Killer,
    Query,
    Writer,
    add,
    folder,
    ids_of,
    killer,
)
from tests.spark.test_compacted_reading import batch_ids, compacted, dies, files_in
from tests.support.effort import ALL

__all__ = ["folder", "killer", "moto_server"]


class Planned:
    """A read whose tasks are shared out, and not begun."""

    def __init__(self, url: object, **options: str) -> None:
        self.reader: Any = reader_of(SCHEMA, {"path": str(url), **options})
        self.tasks: Any = self.reader.partitions()

    def batches(self) -> Iterator[pa.RecordBatch]:
        for task in self.tasks:
            yield from self.reader.read(task)

    def ids(self) -> list[int]:
        return sorted(row for batch in self.batches() for row in batch.column("id").to_pylist())


def test_merged_again_and_again(folder: Path) -> None:
    plans: list[tuple[Planned, list[int]]] = []
    for number in range(6):
        add(folder, f"{number}.orc", [number, number + 100])
        wanted = sorted([*range(number + 1), *range(100, 101 + number)])
        plans.append((Planned(folder), wanted))
        compacted(folder)
        plans.append((Planned(folder), wanted))
    assert len(files_in(folder)) == 1
    for planned, ids in plans:
        assert planned.ids() == ids
        assert planned.ids() == ids, "Spark reads a plan as often as it likes"


def test_a_predicate_and_folders(folder: Path) -> None:
    for number in range(9):
        add(folder, f"day={number % 3}/{number}.orc", list(range(number * 10, number * 10 + 10)))
    whole, some = Planned(folder), Planned(folder, where="id >= 25 and id < 73")
    day = Planned(folder, pathGlobFilter="*5.orc")
    compacted(folder, how="rewrite")
    assert whole.ids() == list(range(90))
    assert some.ids() == list(range(25, 73))
    assert day.ids() == list(range(50, 60))


def big(path: Path, first: int, rows: int) -> list[int]:
    """A file of several stripes that no buffer holds as a whole."""
    ids = np.random.default_rng(first).integers(-(1 << 62), 1 << 62, rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.orc.write_table(pa.table({"id": ids}), str(path), stripe_size=1 << 16, compression="uncompressed")
    return sorted(ids.tolist())


def test_pieces_of_large_files(folder: Path) -> None:
    wanted = sorted([*big(folder / "a.orc", 1, 60_000), *big(folder / "b.orc", 2, 70_000)])
    planned = Planned(folder, partition_bytes="200k", open_cost_bytes="1")
    filtered = Planned(folder, partition_bytes="200k", open_cost_bytes="1", where="id > 0")
    assert any(piece.rows for task in planned.tasks for piece in task.pieces)
    for how in ("copy", "rewrite"):
        compacted(folder, how=how)
        assert planned.ids() == wanted
        assert filtered.ids() == [one for one in wanted if one > 0]
        add(folder, "more.orc", [1])


@pytest.mark.parametrize("how", ["copy", "rewrite"])
def test_a_file_goes_in_the_middle_of_a_task(moto_server: MotoServer, tmp_path: Path, how: str) -> None:
    """Nothing keeps an object readable that is removed."""
    bucket = f"middle-{how}"
    moto_server.client.create_bucket(Bucket=bucket)
    storage = json.dumps(moto_server.options)
    wanted = []
    for name in ("a.orc", "b.orc"):
        wanted += big(tmp_path / name, len(name) + ord(name[0]), 400_000)
        moto_server.client.put_object(Bucket=bucket, Key=f"t/{name}", Body=(tmp_path / name).read_bytes())
    for where in ("", "id > 0"):
        options = {"where": where} if where else {}
        planned = Planned(
            f"s3://{bucket}/t", storage_options=storage, batch_rows="5000", memory_limit="500k", **options
        )
        rows = planned.batches()
        found = next(rows).column("id").to_pylist()
        assert compacted(f"s3://{bucket}/t", moto_server.options, how=how).made_count == 1
        found += [row for batch in rows for row in batch.column("id").to_pylist()]
        assert sorted(found) == sorted(one for one in wanted if not where or one > 0)
        wanted += big(tmp_path / "c.orc", 7, 300_000) if not where else []
        moto_server.client.put_object(Bucket=bucket, Key="t/c.orc", Body=(tmp_path / "c.orc").read_bytes())


@pytest.mark.parametrize("where", ["", "id > 0"])
@pytest.mark.parametrize("fails_after", [0, 1, 7])
def test_rows_that_were_answered_are_not_answered_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fails_after: int, where: str
) -> None:
    """Files that are gone cannot be read on, as in stores without descriptors; twice in a row."""
    wanted = big(folder / "a.orc", 1, 30_000) + big(folder / "b.orc", 2, 30_000)
    rows = PieceReader._rows
    compactions = 0

    def breaking(reader: PieceReader, file: Any, form: Any, piece: Any) -> Iterator[pa.RecordBatch]:
        nonlocal compactions
        for number, batch in enumerate(rows(reader, file, form, piece)):
            if number == fails_after and compactions < 3:
                compactions += 1
                add(folder, f"{compactions}.orc", [1])
                compacted(folder)
            if not Path(piece.url).exists():
                raise FileNotFoundError(piece.url)
            yield batch

    monkeypatch.setattr(PieceReader, "_rows", breaking)
    planned = Planned(folder, batch_rows="1000", **({"where": where} if where else {}))
    assert planned.ids() == sorted(one for one in wanted if not where or one > 0)
    assert compactions == 3


@pytest.mark.parametrize("more", [0, 2, 5, 9, 40])
def test_whatever_was_listed(
    folder: Path, killer: Killer, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    """A job goes on between the listing and the records, and is over when tasks begin."""
    for first in range(0, 40, 1 if ALL else 2):
        table = folder / f"{first}"
        for number in range(2):
            add(table, f"{number}.orc", [number])
        dies(partial(compacted, table), killer, first)
        listed = the_loop().run(partial(find_files, FileChoice((str(table),))))
        dies(partial(compacted, table), killer, more)

        async def find(*_: object, found: Any = listed) -> Any:
            return found

        with monkeypatch.context() as patch:
            patch.setattr(merged_files, "find_files", find)
            planned = Planned(table)
        compacted(table)
        add(table, "2.orc", [2])
        compacted(table)
        assert planned.ids() == [0, 1], first


def test_files_that_go_while_tasks_are_shared_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large ones are opened then, and all where a predicate is asked."""
    wanted = sorted([*big(folder / "a.orc", 1, 60_000), *big(folder / "b.orc", 2, 70_000)])
    listed = the_loop().run(partial(find_files, FileChoice((str(folder),))))
    compacted(folder)

    async def find(*_: object) -> Any:
        return listed

    monkeypatch.setattr(merged_files, "find_files", find)
    assert Planned(folder, partition_bytes="200k").ids() == wanted
    assert Planned(folder, where="id > 0").ids() == [one for one in wanted if one > 0]


def test_a_streams_writer(folder: Path) -> None:
    """Compacted after each second batch, and by a job on top."""
    writer = Writer(folder, every=2)
    plans = []
    for number in range(1, 10):
        writer.write()
        plans.append((Planned(folder), ids_of(number)))
        if number % 4 == 0:
            compacted(folder)
    for planned, ids in plans:
        assert planned.ids() == ids


@pytest.mark.parametrize("steps", range(12))
def test_a_stream_writes_on_after_a_job_died(folder: Path, killer: Killer, steps: int) -> None:
    """Its own compaction leaves the files alone that the job is going to merge."""
    writer = Writer(folder, every=3)
    for _ in range(2):
        writer.write()
    dies(partial(compacted, folder), killer, steps)
    for _ in range(2):
        assert batch_ids(folder) == ids_of(writer.batch)
        writer.write()
    compacted(folder)
    assert batch_ids(folder) == ids_of(writer.batch)
    on_disk = [row for path in files_in(folder) for row in rows_of(folder / path)]
    assert sorted(on_disk) == ids_of(writer.batch), "who lists files alone"


def rows_of(path: Path) -> list[int]:
    rows: list[int] = pyarrow.orc.read_table(path).column("id").to_pylist()
    return rows


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(12))
def test_no_query_is_lost_by_any_compaction(
    folder: Path, killer: Killer, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever dies meanwhile: plans that wait, plans that are read in parts, and streams."""
    chance = random.Random(seed)
    monkeypatch.setattr(compaction, "KEPT", 100)
    writer = Writer(folder, every=chance.choice([1, 2, 3]))
    query = Query(folder, maxFilesPerTrigger=str(chance.choice([1, 3, 50])))
    query.between = lambda: writer.write() if chance.random() < 0.5 else None
    waiting: list[tuple[Planned, Iterator[Any], list[Any], list[int]]] = []
    for _ in range(30 if ALL else 12):
        writer.write()
        if chance.random() < 0.3:
            planned = Planned(folder)
            waiting.append((planned, planned.batches(), [], ids_of(writer.batch)))
        for _, batches, found, _ in waiting:
            if chance.random() < 0.1:
                found += next(batches, pa.record_batch({"id": []})).column("id").to_pylist()
        if chance.random() < 0.6:
            dies(partial(compacted, folder), killer, chance.choice([5, 15, 1000]))
        if chance.random() < 0.2:
            query.run(batches=1)
    for planned, batches, found, ids in waiting:
        rest = [row for batch in batches for row in batch.column("id").to_pylist()]
        assert sorted([*found, *rest]) == ids
        assert planned.ids() == ids
    query.between = lambda: None
    query.run()
    assert sorted(query.ids) == ids_of(writer.batch)


def test_a_stream_that_goes_on_from_its_checkpoint(folder: Path) -> None:
    """The batch that was planned before the driver died is the same after three compactions."""
    for number in range(4):
        add(folder, f"{number}.orc", [number])
    query = Query(folder, maxFilesPerTrigger="2")

    def die() -> None:
        raise OSError("the driver is no more")

    query.between = die
    with pytest.raises(OSError, match="no more"):
        query.run()
    for number in range(4, 7):
        compacted(folder)
        add(folder, f"{number}.orc", [number])
    query.between = partial(compacted, folder)
    query.run()
    assert sorted(query.ids) == list(range(7))


# --- rows that cannot be found ---------------------------------------------------------------------


def records(folder: Path, name: str) -> list[Path]:
    return list((folder / name).rglob("*.json"))


def test_records_are_gone(folder: Path) -> None:
    for number in range(3):
        add(folder, f"{number}.orc", [number])
    planned, forgiving = Planned(folder), Planned(folder, ignoreMissingFiles="true")
    compacted(folder)
    assert forgiving.ids() == [0, 1, 2], "nothing is missing"
    for path in records(folder, JOBS_FOLDER):
        path.unlink()
    with pytest.raises(FileNotFoundError, match=r"0\.orc"):
        planned.ids()
    assert forgiving.ids() == []


@pytest.mark.parametrize("kind", ["job", "stream"])
def test_a_plan_that_is_older_than_all_records(
    folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(compaction, "KEPT", 2)
    monkeypatch.setattr(commit_log, "KEPT", 2)
    writer = Writer(folder, every=2)
    writer.write()
    planned = Planned(folder)
    for number in range(10):
        writer.write()
        if kind == "job":
            compacted(folder)
        if number == 1:
            assert planned.ids() == ids_of(1)
    with pytest.raises(FileNotFoundError, match=r"-q1-\S+\.orc'.*\bDataFrame\b"):
        planned.ids()


def test_another_file_of_the_same_name(folder: Path) -> None:
    """What was merged later has the name, and not the rows."""
    for number in range(2):
        add(folder, f"{number}.orc", [number])
    planned = Planned(folder)
    (folder / "0.orc").unlink()
    add(folder, "0.orc", [7, 8])
    compacted(folder)
    with pytest.raises((OrcError, FileNotFoundError)):
        planned.ids()
    assert batch_ids(folder) == [1, 7, 8]


def test_files_that_were_left_as_they_are(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan of a job says nothing of a group that was not merged."""
    for number in range(2):
        add(folder, f"{number}.orc", [number])
    planned = Planned(folder)
    compacted(folder)
    name = f"{JOBS_FOLDER}/compact-00000001/000000.merged.json"
    (folder / name).unlink()
    with pytest.raises(FileNotFoundError, match=r"/0\.orc'.*\bDataFrame\b"):
        planned.ids()


# --- Spark itself ----------------------------------------------------------------------------------


def test_a_dataframe_that_was_planned(spark: SparkSession, folder: Path) -> None:
    """Counted, collected, cached and as a view, after compactions of the job and of what it made."""
    url = str(folder)
    frames = []
    for number in range(4):
        for more in range(2):
            first = number * 200 + more * 100
            rows = spark.range(first, first + 100).coalesce(1)
            rows.write.format("orcstream").mode("append").save(url)
        frame = spark.read.format("orcstream").load(url)
        frame.createOrReplaceTempView(f"planned{number}")
        assert frame.count() == 200 * (number + 1)
        frames.append(frame)
        assert jobs.compact(spark, url).made_count == 1
    for number, frame in enumerate(frames):
        wanted = list(range(200 * (number + 1)))
        assert frame.count() == len(wanted)
        assert sorted(row.id for row in frame.collect()) == wanted
        assert frame.filter("id >= 150 and id < 170").count() == 20
        assert frame.join(frame.withColumnRenamed("id", "other"), frame.id == 7).count() == len(wanted)
        spark.sql(f"refresh table planned{number}")
        assert spark.table(f"planned{number}").count() == len(wanted)
    cached = spark.read.format("orcstream").load(url).cache()
    assert cached.count() == 800
    spark.range(800, 900).coalesce(1).write.format("orcstream").mode("append").save(url)
    jobs.compact(spark, url)
    assert cached.count() == 800
    cached.unpersist()
    assert cached.count() == 800, "a plan is of the files that there were"


def test_a_stream_over_restarts(spark: SparkSession, folder: Path) -> None:
    """One file a batch; all files are compacted while the stream is between batches, and within one."""
    url, out, checkpoint = str(folder / "in"), str(folder / "out"), str(folder / "checkpoint")
    for number in range(4):
        rows = spark.range(number * 10, number * 10 + 10).coalesce(1)
        rows.write.format("orcstream").mode("append").save(url)

    def run(between: Callable[[], object]) -> None:
        def write(batch: DataFrame, number: int) -> None:
            between()
            batch.write.format("orcstream").mode("append").save(f"{out}/batch={number}")

        frame = spark.readStream.format("orcstream").schema("id long").option("maxFilesPerTrigger", "1")
        query = frame.load(url).writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
        query.trigger(availableNow=True).start().awaitTermination()

    calls = iter(range(100))

    def fail_later() -> None:
        if next(calls) == 2:
            raise RuntimeError("the driver is no more")

    with pytest.raises(StreamingQueryException):
        run(fail_later)
    jobs.compact(spark, url)
    spark.range(40, 50).coalesce(1).write.format("orcstream").mode("append").save(url)
    run(lambda: jobs.compact(spark, url))
    frame = spark.read.format("orcstream").load(out)
    assert sorted(row.id for row in frame.collect()) == list(range(50))


@pytest.mark.parametrize("second", ["job", "stream"])
def test_a_job_and_a_stream_merge_the_same_files_at_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch, second: str
) -> None:
    """Both look before either records its plan, and the second does all before the first commits."""
    begin, commit_files, look_at = CompactionJournal.begin, written.commit_files, compacting.look_at
    writer = Writer(folder, every=3)
    go_on = partial(compacted, folder) if second == "job" else writer.write

    async def dying(journal: CompactionJournal, groups: Sequence[Group]) -> Sequence[Group]:
        await begin(journal, groups)
        raise Killed

    def plan() -> None:
        """By the second, which dies when its plan is recorded, and has seen none."""
        with monkeypatch.context() as patch:
            patch.setattr(CompactionJournal, "begin", dying)
            with pytest.raises(DEATH):
                go_on()

    async def looked(*arguments: Any) -> Any:
        found = await look_at(*arguments)
        if second == "job":
            await asyncio.to_thread(plan)
        return found

    def here(label: str, units: Sequence[Any], work: Callable[[Any], Any]) -> list[Any]:
        found = [work(unit) for unit in units]
        if label == "looking at files" and second == "stream":
            plan()
        return found

    async def last(target: Any, files: Sequence[Any]) -> None:
        if any("part-compact" in file.path for file in files):
            monkeypatch.setattr(written, "commit_files", commit_files)
            await asyncio.to_thread(go_on)
        await commit_files(target, files)

    for _ in range(2):
        writer.write()
    with monkeypatch.context() as patch:
        patch.setattr(writing, "look_at", looked)
        patch.setattr(written, "commit_files", last)
        if second == "job":
            writer.write()
        else:
            compact_with(here, Folder(str(folder), Access({})), Compaction())
    for _ in range(4):
        writer.write()
        compacted(folder)
        assert batch_ids(folder) == ids_of(writer.batch)
