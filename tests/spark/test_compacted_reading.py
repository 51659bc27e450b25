"""Batches and streams read each row once while files are merged, wherever that is killed; without Spark.

Files are merged by the job `compact` and by the writer of a stream. Readers look after each step.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from orcstream.blocking.loop import the_loop
from orcstream.errors import FormatError, UsageError
from orcstream.io import folders
from orcstream.log import records
from orcstream.spark.access import Access
from orcstream.spark.compact.compacting import Compaction
from orcstream.spark.jobs import compaction
from orcstream.spark.jobs.compaction import CompactResult, compact_with
from orcstream.spark.read import merge_records
from orcstream.spark.read.files import FileChoice, FoundFile, find_files
from orcstream.spark.read.merge_records import JOBS_FOLDER, LOG_FOLDER
from orcstream.spark.read.merged_files import Merges
from orcstream.spark.read.reading import reader_of
from orcstream.spark.stream import commit_log
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
from tests.support.effort import ALL, STEP

__all__ = ["folder", "killer", "moto_server"]


def here(label: str, units: Sequence[Any], work: Callable[[Any], Any]) -> list[Any]:
    return [work(unit) for unit in units]


def compacted(url: object, storage: dict[str, Any] | None = None, **options: Any) -> CompactResult:
    return compact_with(here, Folder(str(url), Access(storage or {})), Compaction(**options))


def dies(work: Callable[[], object], killer: Killer, steps: int) -> bool:
    """Whether it was killed within so many steps."""
    killer.left = steps
    try:
        work()
    except DEATH:
        return True
    finally:
        killer.left = None
    return False


def batch_ids(url: object, **options: str) -> list[int]:
    """What a batch reads."""
    reader = reader_of(SCHEMA, {"path": str(url), **options})
    batches: list[Any] = [batch for task in reader.partitions() for batch in reader.read(task)]
    return sorted(row for batch in batches for row in batch.column("id").to_pylist())


def stream_ids(url: object) -> list[int]:
    """What a stream that begins now reads."""
    query = Query(url)
    query.run()
    return sorted(query.ids)


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.orc"))


# --- a job -----------------------------------------------------------------------------------------


def test_each_step_of_a_job(folder: Path, killer: Killer) -> None:
    """A stream that has read some of the files, one that begins, one that is planned, and batches."""
    steps, survived, doubled = 0, False, 0
    while not survived:
        table = folder / str(steps)
        for number in range(3):
            add(table, f"{number}.orc", [number, number + 10])
        query = Query(table, maxFilesPerTrigger="1")
        query.run(batches=1)
        wanted = sorted([*range(3), *range(10, 13)])
        survived = not dies(partial(compacted, table), killer, steps)
        doubled += len(files_in(table)) == 4
        assert batch_ids(table) == wanted, steps
        assert stream_ids(table) == wanted, steps
        query.run(batches=1)
        compacted(table)
        assert len(files_in(table)) == 1
        assert batch_ids(table) == wanted, steps
        query.run()
        assert sorted(query.ids) == wanted, steps
        steps += 2 if ALL else 5  # after a request is before the next
    assert steps > 15
    assert doubled > 2 // STEP, "files were there with what replaces them"


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(15))
def test_whatever_comes_between(folder: Path, killer: Killer, seed: int) -> None:
    """Files come, streams read, jobs die and go on, in any order."""
    chance = random.Random(seed)
    query = Query(folder, maxFilesPerTrigger=str(chance.choice([1, 2, 50])), log_snapshot_every="2")
    query.step = killer.step
    written_ids: list[int] = []
    for number in range(22):
        what = chance.random()
        if what < 0.5 or number < 2:
            ids = [number * 10 + row for row in range(chance.randrange(1, 4))]
            add(folder, f"{chance.randrange(1 << 30):x}.orc", ids)
            written_ids += ids
        elif what < 0.75:
            dies(
                partial(compacted, folder, how=chance.choice(["copy", "rewrite"])),
                killer,
                chance.randrange(40),
            )
        else:
            dies(
                query.run_on if chance.random() < 0.2 else partial(query.run, batches=1),
                killer,
                chance.randrange(30),
            )
        assert batch_ids(folder) == sorted(written_ids)
    query.run_on()
    compacted(folder)
    query.run_on()
    assert sorted(query.ids) == sorted(written_ids)
    assert stream_ids(folder) == batch_ids(folder) == sorted(written_ids)


def test_files_that_are_compacted_again_and_again(folder: Path) -> None:
    """Plans say which files there were first, so that streams know what they have read."""
    often, seldom, late = Query(folder), Query(folder, maxFilesPerTrigger="2"), Query(folder)
    add(folder, "first.orc", [0])
    seldom.run()
    late.run()
    for number in range(1, 6):
        add(folder, f"{number}.orc", [number])
        often.run()
        if number == 3:
            seldom.run(batches=1)
        assert compacted(folder).made_count == 1
        often.run()
        assert stream_ids(folder) == batch_ids(folder) == list(range(number + 1))
    seldom.run()
    late.run()
    assert sorted(often.ids) == sorted(seldom.ids) == sorted(late.ids) == list(range(6))
    (group,) = json.loads((folder / JOBS_FOLDER / "compact-00000005" / "plan.json").read_text())["groups"]
    before = next(one for one in group["replaces"] if "compact" in one["path"])
    assert sorted(one["path"] for one in before["holds"]) == ["1.orc", "2.orc", "3.orc", "4.orc", "first.orc"]
    assert before["rows"] == sum(one["rows"] for one in before["holds"])


def test_several_folders_and_other_spellings(folder: Path, killer: Killer) -> None:
    for number in range(6):
        add(folder, f"day={number % 2}/{number}.orc", [number])
    query = Query(f"file://{folder}", maxFilesPerTrigger="4")
    query.run(batches=1)
    for steps in (8, 14, 5):
        dies(partial(compacted, f"{folder}/"), killer, steps)
        for path in (folder, f"file://{folder}/", f"{folder}/day=*"):
            assert batch_ids(path) == list(range(6))
        assert batch_ids(f"{folder}/day=1", basePath=str(folder)) == [1, 3, 5]
        assert batch_ids(f"{folder}/day=0/*.orc") == [0, 2, 4]
    compacted(folder)
    query.run()
    assert sorted(query.ids) == list(range(6))


def test_a_job_that_goes_on_while_files_are_listed(folder: Path, killer: Killer) -> None:
    """What is chosen is there once, or some of it is gone and the query has to be run again."""
    exact = 0
    for first in range(0, 36, 4 * STEP):
        for more in (0, 2, 5, 40):
            table = folder / f"{first}-{more}"
            for number in range(2):
                add(table, f"{number}.orc", [number])
            dies(partial(compacted, table), killer, first)
            listed = the_loop().run(partial(find_files, FileChoice((str(table),))))
            dies(partial(compacted, table), killer, more)
            merges = Merges([str(table)], {})
            the_loop().run(partial(merges.refresh, [one.url for one in listed.files], only_open=True))
            chosen = [Path(one.url) for one in merges.counted(listed.files)]
            if all(path.exists() for path in chosen):
                exact += 1
                rows = sorted(row for path in chosen for row in batch_ids(path))
                assert rows == [0, 1], (first, more)
    assert exact > 15 // STEP


def test_a_bucket(moto_server: MotoServer, tmp_path: Path, killer: Killer) -> None:
    moto_server.client.create_bucket(Bucket="compacting")
    storage = json.dumps(moto_server.options)
    for number in range(6):
        path = add(tmp_path, "x.orc", [number])
        key = f"t/day={number % 2}/{number}.orc"
        moto_server.client.put_object(Bucket="compacting", Key=key, Body=path.read_bytes())
    query = Query("s3a://compacting/t", maxFilesPerTrigger="4", storage_options=storage)
    query.run(batches=1)
    for steps in (9, 5, 3, 4):
        dies(partial(compacted, "s3://compacting/t", moto_server.options), killer, steps)
        assert batch_ids("s3://compacting/t/", storage_options=storage) == list(range(6))
    compacted("s3://compacting/t", moto_server.options)
    query.run()
    assert sorted(query.ids) == batch_ids("s3a://compacting/t", storage_options=storage) == list(range(6))


# --- a stream's writer, and a job after it -----------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(12))
def test_a_job_after_a_streams_writer(folder: Path, killer: Killer, seed: int) -> None:
    """Either may have been killed; the writer waits until a job is over."""
    chance = random.Random(seed)
    writer = Writer(folder, every=chance.choice([1, 2, 3]))
    query = Query(folder, maxFilesPerTrigger=str(chance.choice([1, 3, 50])), log_snapshot_every="2")
    query.step = killer.step
    for _ in range(12):
        done = writer.batch
        what = chance.random()
        if what < 0.5:
            dies(writer.write, killer, chance.randrange(60))
        elif what < 0.8:
            while dies(partial(compacted, folder), killer, chance.randrange(60)):
                assert set(batch_ids(folder)) >= set(ids_of(done))
        else:
            dies(partial(query.run, batches=1), killer, chance.randrange(30))
        seen = batch_ids(folder) if folder.exists() and writer.batch else []
        assert len(seen) == len(set(seen))
        assert set(seen) >= set(ids_of(writer.batch))
    writer.write()
    compacted(folder)
    query.run_on()
    assert sorted(query.ids) == batch_ids(folder) == ids_of(writer.batch)


def test_a_merged_file_that_was_merged_again_and_is_still_there(folder: Path, killer: Killer) -> None:
    """A stream is told of the one that stays, whatever their names are."""
    writer = Writer(folder, every=1)
    writer.write()
    writer.write()
    before = {path.name for path in folder.glob("part-compact-q1-*")}
    steps = 0
    while not list((folder / JOBS_FOLDER).rglob("*.merged.json")):
        assert dies(partial(compacted, folder), killer, steps)
        steps += 1
    assert before <= set(files_in(folder))
    query = Query(folder)
    query.between = partial(compacted, folder)
    query.run()
    assert sorted(query.ids) == ids_of(2)
    assert not before & set(files_in(folder))


# --- records that are gone ---------------------------------------------------------------------------


def test_a_stream_that_was_behind_for_too_long(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot know what it has read, and says so; others read what is there."""
    monkeypatch.setattr(compaction, "KEPT", 1)
    behind, steady, first = Query(folder), Query(folder), Query(folder)
    add(folder, "day=1/a.orc", [1])
    behind.run()
    for number in range(2, 6):
        add(folder, f"day={number % 2}/{number}.orc", [number])
        add(folder, f"day={number % 2}/{number}-more.orc", [number + 100])
        compacted(folder)
        steady.run()
        if number >= 4:
            first.run()
    assert len(list((folder / JOBS_FOLDER).glob("*/plan.json"))) == 1
    with pytest.raises(UsageError, match=r"part-compact-.*\bcheckpoint\b"):
        behind.run()
    wanted = sorted([*range(1, 6), *range(102, 106)])
    add(folder, "day=0/z.orc", [0])
    compacted(folder)
    for query in (steady, first):
        query.run()
        assert sorted(query.ids) == [0, *wanted]
    assert stream_ids(folder) == batch_ids(folder) == [0, *wanted]


def test_what_nobody_knows_any_more_is_not_known_in_another_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does a stream take it for new that has read some of it."""
    monkeypatch.setattr(compaction, "KEPT", 1)
    query = Query(folder)
    add(folder, "day=1/0.orc", [0])
    query.run()
    for number in range(1, 6):
        add(folder, f"day={(1, 2, 2, 1, 1)[number - 1]}/{number}.orc", [number])
        if number in (1, 3, 5):
            compacted(folder)
    (group,) = json.loads((folder / JOBS_FOLDER / "compact-00000003" / "plan.json").read_text())["groups"]
    assert len(group["replaces"]) == 3
    assert "holds" not in str(group), "it was forgotten what the first job had merged"
    with pytest.raises(UsageError, match="part-compact-00000003"):
        query.run()
    assert stream_ids(folder) == batch_ids(folder) == list(range(6))


def test_files_of_a_plan_whose_records_were_removed(folder: Path, killer: Killer) -> None:
    """Jobs are counted from 1 again then: files of the old one are none of the new one's."""
    for number in range(2):
        add(folder, f"day=1/{number}.orc", [number])
    compacted(folder)
    for path in sorted((folder / JOBS_FOLDER).rglob("*.json")):
        path.unlink()
    for number in range(2, 4):
        add(folder, f"day=2/{number}.orc", [number])
    assert dies(partial(compacted, folder), killer, 7)
    assert (folder / JOBS_FOLDER / "compact-00000001" / "plan.json").exists()
    assert batch_ids(folder) == stream_ids(folder) == list(range(4))


@pytest.mark.parametrize("kind", ["job", "writer"])
def test_records_are_forgotten_from_the_plan_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """So that who is killed while they go leaves no compaction that seems to be under way."""
    monkeypatch.setattr(compaction, "KEPT", 1)
    monkeypatch.setattr(commit_log, "KEPT", 1)
    remove, numbers = folders.remove_files, iter(range(10))
    writer = Writer(folder, every=1)

    async def half(url: str, paths: Any, **options: Any) -> None:
        await remove(url, paths, **options)
        raise Killed

    def merge() -> None:
        if kind == "writer":
            writer.write()
            return
        for _ in range(2):
            add(folder / f"day={(number := next(numbers)) // 2}", f"{number}.orc", [number])
        compacted(folder)

    merge()
    monkeypatch.setattr(records, "remove_files", half)
    for _ in range(3):
        try:
            merge()
        except DEATH:
            break
    else:
        raise AssertionError("no record was forgotten")
    left = {path.name for path in folder.rglob("*.json")}
    assert any("merged" in name for name in left)
    ids = batch_ids(folder)
    assert len(ids) == len(set(ids))
    assert ids == (ids_of(len(ids) // 20) if kind == "writer" else list(range(len(ids))))
    assert stream_ids(folder) == ids


def test_damaged_plans_are_named(folder: Path, killer: Killer) -> None:
    for number in range(2):
        add(folder, f"{number}.orc", [number])
    steps = 0
    while not list(folder.glob("part-compact*")):
        assert dies(partial(compacted, folder), killer, steps)
        steps += 1
    plan = folder / JOBS_FOLDER / "compact-00000001" / "plan.json"
    for text in ('{"version": 1, "groups": [{}]}', '{"version": 1, "groups": 5}', "x"):
        plan.write_text(text)
        with pytest.raises(FormatError, match=r"plan\.json"):
            batch_ids(folder)


def test_a_token_may_have_no_letters() -> None:
    """And is no number of a batch then."""
    merges, name = Merges(["/t"], {}), "/t/part-compact-00000001-123456789012-000000.orc"
    merges._journals = {f"{JOBS_FOLDER}/compact-00000001"}
    assert merges.recorded([FoundFile(name, 1, "")]) == {name}


# --- what it costs -----------------------------------------------------------------------------------


def test_records_are_looked_for_where_there_are_merged_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[str] = []
    list_files, read_record = folders.list_files, records.read_record

    async def told(url: str, **options: Any) -> Any:
        listed.append(url.removeprefix(str(folder)))
        return await list_files(url, **options)

    async def read(url: str, storage_options: Any) -> Any:
        listed.append(url.removeprefix(str(folder)))
        return await read_record(url, storage_options)

    monkeypatch.setattr(merge_records, "list_files", told)
    monkeypatch.setattr(merge_records, "read_record", read)
    for number in range(3):
        add(folder, f"{number}.orc", [number])
    batch_ids(folder)
    stream_ids(folder)
    assert listed == []
    compacted(folder)
    assert listed == [f"/{LOG_FOLDER}"] * 2, "what streams are going to merge, before its own plan and after"
    listed.clear()
    (name,) = files_in(folder)
    assert batch_ids(folder / name) == [0, 1, 2]
    assert listed == []
    assert batch_ids(folder) == [0, 1, 2]
    assert listed == [f"/{JOBS_FOLDER}"], "and of a job that is over no record is read"
    listed.clear()
    Writer(folder, every=1).write()
    assert listed == [f"/{JOBS_FOLDER}"] * 2, "what jobs are going to merge, before its own plan and after"
    listed.clear()
    batch_ids(folder)
    assert listed == [f"/{JOBS_FOLDER}", f"/{LOG_FOLDER}"]


def test_more_than_a_thousand_groups(folder: Path) -> None:
    log = folder / LOG_FOLDER / "q1" / "compact-00000007"
    log.mkdir(parents=True)
    groups = []
    for number in range(1001):
        name = f"part-compact-q1-7-{number:06}.orc"
        groups.append({"target": name, "replaces": [{"path": f"{number}.orc", "rows": 1}]})
        if number >= 999:
            add(folder, name, [number])
            add(folder, f"{number}.orc", [number])
            (log / f"{number:06}.merged.json").write_text("{}")
    (log / "plan.json").write_text(json.dumps({"version": 1, "groups": groups}))
    assert batch_ids(folder) == stream_ids(folder) == [999, 1000]
    plan = Writer(folder).plan.files
    opened = the_loop().run(partial(commit_log.CommitLog.open, plan, "q1"))
    assert opened.unfinished == 7
