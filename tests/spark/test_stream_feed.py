"""A stream reads each row exactly once, wherever its driver is killed; Spark itself is not needed."""

from __future__ import annotations

import json
import os
import random
import re
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxFiles, ReadMaxRows
from pyspark.sql.types import StringType, StructField, StructType

import orcstream
from orcstream.errors import FormatError, OrcError, SourceChanged, UsageError
from orcstream.io import small_files
from orcstream.spark.stream.reading import stream_reader_of
from orcstream.spark.stream.seen_files import SeenFiles, name_key, version_key
from tests.servers.loopback import MotoServer, moto_server
from tests.spark.stream_driver import (
    DEATH,
    LOG,
    SCHEMA,
    Killer,
    Query,
    add,
    folder,
    killer,
    stream_of,
)
from tests.support.effort import STEP

__all__ = ["folder", "killer", "moto_server"]


# --- exactly once ----------------------------------------------------------------------------------


@pytest.mark.parametrize("at", range(0, 36, STEP))
def test_a_driver_that_is_killed_anywhere_reads_each_file_once(folder: Path, killer: Killer, at: int) -> None:
    """Files come while it is down and while it runs; snapshots and their removal are among the steps."""
    query = Query(folder, maxFilesPerTrigger="2", log_snapshot_every="1")
    query.step = killer.step
    for number in range(4):
        add(folder, f"f{number}.orc", [number])
    arriving = iter(range(4, 100))
    query.between = lambda: add(folder, f"a{(n := next(arriving))}.orc", [n]) if len(query.sink) < 4 else None
    killer.left = at
    with pytest.raises(DEATH):
        query.run()
    before = len(query.sink)
    query.run_on()
    wanted = {int(path.stem[1:]) for path in folder.glob("*.orc")}
    assert sorted(query.ids) == sorted(wanted)
    assert len(query.sink) > before or at > 30
    assert len(list((folder / LOG / stream_of(query)).glob("_seen.*"))) <= 3


def test_drivers_that_are_killed_again_and_again(folder: Path, killer: Killer) -> None:
    chance = random.Random(20)
    query = Query(folder, maxFilesPerTrigger="1", log_snapshot_every="3")
    query.step = killer.step
    for number in range(40):
        add(folder, f"{chance.randrange(1 << 30):x}.orc", [number])
        killer.left = chance.randrange(12)
        try:
            query.run()
        except DEATH:
            continue
    killer.left = None
    query.run_on()
    assert sorted(query.ids) == list(range(40))
    assert max(map(len, query.sink)) == 1


def test_two_drivers_with_one_checkpoint_agree(folder: Path) -> None:
    """One that was thought to be dead: who is second reads what the first has written down."""
    add(folder, "a.orc", [1])
    first = Query(folder)
    first.run()
    reader: Any = stream_reader_of(SCHEMA, first.options)
    other: Any = stream_reader_of(SCHEMA, first.options)
    start = json.loads(first.offsets[-1])
    assert other.latestOffset(start, ReadAllAvailable()) == start
    add(folder, "b.orc", [2])
    end = reader.latestOffset(start, ReadAllAvailable())
    add(folder, "c.orc", [3])
    assert other.latestOffset(start, ReadAllAvailable()) == end
    assert [batch.to_pydict() for task in other.partitions(start, end) for batch in other.read(task)] == [
        {"id": [2]}
    ]


def test_a_checkpoint_may_be_put_back(folder: Path) -> None:
    query = Query(folder, maxFilesPerTrigger="1", log_snapshot_every="2")
    for number in range(5):
        add(folder, f"f{number}.orc", [number])
    query.run()
    kept = list(query.sink)
    query.offsets, query.committed = query.offsets[:3], 2
    query.sink = query.sink[:3]
    add(folder, "f9.orc", [9])
    query.run()
    assert query.sink == [*kept, [9]]


# --- offsets and the log -----------------------------------------------------------------------------


def test_offsets_and_the_log_stay_small(folder: Path) -> None:
    """Of a thousand files: the offset is of one size, each file is in one batch, and the log is cut."""
    first = add(folder, "f0000.orc", [7])
    for number in range(1, 1000):
        os.link(first, folder / f"f{number:04}.orc")
    options = {"path": str(folder), "maxFilesPerTrigger": "50", "log_snapshot_every": "4"}
    reader: Any = stream_reader_of(SCHEMA, options)
    start, planned = reader.initialOffset(), []
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        planned += [piece.url for task in reader.partitions(start, end) for piece in task.pieces]
        assert len(json.dumps(end)) < 60
        start = end
    assert start["batch"] == 20
    assert sorted(planned) == sorted(str(path) for path in folder.glob("*.orc"))
    log = sorted((folder / LOG / start["stream"]).iterdir())
    assert [path.name.lstrip("_").replace("0", "") for path in log] == [
        *(f"batch.{number}.json".replace("0", "") for number in (17, 18, 19, 20)),
        "seen.16",
        "seen.2",
    ]
    assert max(path.stat().st_size for path in log if path.name.startswith("_seen")) < 1000 * 32 + 300


def test_seen_files_are_what_a_dictionary_would_say() -> None:
    chance = random.Random(4)
    seen, wanted = SeenFiles(), {}
    for _ in range(12000):
        name = name_key(str(chance.randrange(9000)))
        version = version_key(chance.randrange(100), "v")
        seen.add(name, version, float(chance.randrange(100)))
        wanted[name] = version
        if chance.random() < 0.001:
            seen = SeenFiles.load(seen.dump())
    assert len(seen) == len(wanted)
    for number in range(9500):
        assert seen.version_of(name_key(str(number))) == wanted.get(name_key(str(number)))
    assert len(seen.dump()) == 32 * len(wanted)


def test_seen_files_forget_by_time() -> None:
    seen = SeenFiles()
    for number, time in enumerate([1.0, 5.0, None, 9.0]):
        seen.add(name_key(str(number)), bytes(8), time)
    seen.forget(5.0)
    assert [seen.version_of(name_key(str(n))) is not None for n in range(4)] == [False, True, True, True]


def test_the_log_may_be_elsewhere(folder: Path, tmp_path: Path) -> None:
    add(folder, "a.orc", [1])
    query = Query(folder, log=str(tmp_path / "logs"))
    query.run()
    assert not (folder / LOG).exists()
    assert [path.name for path in (tmp_path / "logs").iterdir()] == [stream_of(query)]
    query.options["log"] = str(tmp_path / "others")
    with pytest.raises(UsageError, match=r"\bbatch 1 .*\boption log\b"):
        query.run()


def test_a_folder_that_is_not_to_be_written_to_wants_another_for_the_log(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(folder, "a.orc", [1])

    async def put(url: str, *_: Any, **__: Any) -> None:
        raise PermissionError(f"read only: {url}")

    monkeypatch.setattr(small_files, "put", put)
    with pytest.raises(UsageError, match=r"option\('log', \.\.\.\)"):
        Query(folder).run()


@pytest.mark.parametrize(
    "damage",
    [b"", b"{}", b'{"version": 2, "batch": 1}', b'{"version": 1, "batch": 2}', b"x", b"[" * 100_000],
    ids=lambda damage: damage[:20].decode(),
)
def test_damaged_records_are_named(folder: Path, damage: bytes) -> None:
    add(folder, "a.orc", [1])
    query = Query(folder)
    query.run()
    record = next((folder / LOG).glob("*/_batch*"))
    record.write_bytes(damage)
    with pytest.raises(OrcError, match=r"_batch\.0+1\.json"):
        query.run()


def test_damaged_snapshots_are_named(folder: Path) -> None:
    query = Query(folder, maxFilesPerTrigger="1", log_snapshot_every="2")
    for number in range(3):
        add(folder, f"{number}.orc", [number])
    query.run()
    snapshot = next((folder / LOG).glob("*/_seen*"))
    data = bytearray(snapshot.read_bytes())
    data[-1] ^= 1
    snapshot.write_bytes(data)
    with pytest.raises(FormatError, match=r"_seen\.\d+: .*\bdamaged\b"):
        query.run()


@pytest.mark.parametrize(
    "offset", [{}, {"stream": "../x", "batch": 1}, {"stream": "", "batch": 3}, {"batch": "1"}]
)
def test_offsets_of_others_are_refused(folder: Path, offset: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=rf"\bcheckpoint\b.*{re.escape(repr(offset))}"):
        stream_reader_of(SCHEMA, {"path": str(folder)}).latestOffset(offset, ReadAllAvailable())


# --- limits ----------------------------------------------------------------------------------------


def test_caps_hold(folder: Path) -> None:
    for number in range(7):
        add(folder, f"f{number}.orc", [number], modified_s=1e9 - number)
    query = Query(folder, maxFilesPerTrigger="3")
    query.run()
    assert query.sink == [[4, 5, 6], [1, 2, 3], [0]]
    length = max(path.stat().st_size for path in folder.glob("*.orc"))
    by_size = Query(folder, maxBytesPerTrigger=str(2 * length))
    by_size.run()
    assert [len(batch) for batch in by_size.sink] == [2, 2, 2, 1]
    tiny = Query(folder, maxBytesPerTrigger="1")
    tiny.run()
    assert [len(batch) for batch in tiny.sink] == [1] * 7
    every = Query(folder)
    every.run()
    assert [len(batch) for batch in every.sink] == [7]


def test_limits_of_spark_come_first(folder: Path) -> None:
    for number in range(4):
        add(folder, f"f{number}.orc", [number])
    reader: Any = stream_reader_of(SCHEMA, {"path": str(folder), "maxFilesPerTrigger": "1"})
    assert reader.getDefaultReadLimit() == ReadMaxFiles(1)
    start = reader.initialOffset()
    with pytest.raises(UsageError, match="ReadMaxRows"):
        reader.latestOffset(start, ReadMaxRows(1))
    middle = reader.latestOffset(start, ReadMaxBytes(1))
    assert reader.reportLatestOffset()["files_waiting"] == 3
    end = reader.latestOffset(middle, ReadAllAvailable())
    assert sum(len(task.pieces) for task in reader.partitions(middle, end)) == 3
    assert sum(len(task.pieces) for task in reader.partitions(start, end)) == 4
    assert reader.partitions(end, end) == []
    assert reader.reportLatestOffset() == {**end, "files_waiting": 0, "bytes_waiting": 0}


def test_latest_first(folder: Path) -> None:
    for number in range(5):
        add(folder, f"f{number}.orc", [number], modified_s=1e9 + number)
    query = Query(folder, maxFilesPerTrigger="2", latestFirst="true")
    query.between = lambda: add(folder, "new.orc", [9], modified_s=2e9) if not query.sink else None
    query.run()
    assert query.sink == [[3, 4], [2, 9], [0, 1]]


def test_available_now_ends_with_what_was_there(folder: Path) -> None:
    for number in range(5):
        add(folder, f"f{number}.orc", [number])
    arriving = iter(range(5, 50))
    query = Query(folder, maxFilesPerTrigger="2")
    query.between = lambda: add(folder, f"a{(n := next(arriving))}.orc", [n])
    query.run(available_now=True)
    assert [len(batch) for batch in query.sink] == [2, 2, 1]
    assert sorted(query.ids) == list(range(5))
    query.between = lambda: None
    query.run(available_now=True)
    assert sorted(query.ids) == list(range(8))


# --- which files -----------------------------------------------------------------------------------


def test_existing_files_can_be_ignored(folder: Path, killer: Killer) -> None:
    add(folder, "old.orc", [1])
    query = Query(folder, existing_files="ignore")
    query.step = killer.step
    killer.left = 4
    with pytest.raises(DEATH):
        query.run()
    query.run_on()
    assert query.ids == []
    add(folder, "new.orc", [2], modified_s=1.0)
    query.run_on()
    assert query.ids == [2]


def test_names_that_do_not_count(folder: Path) -> None:
    for name in ("_temporary/x.orc", ".hidden.orc", "a.orc._COPYING_", "_x.orc", "part.orc"):
        add(folder, name, [1 if name == "part.orc" else 0])
    (folder / "empty.orc").touch()
    query = Query(folder)
    query.run()
    assert query.ids == [1]


def test_a_file_that_is_old_when_it_comes_is_read(folder: Path) -> None:
    add(folder, "b.orc", [1], modified_s=2e9)
    query = Query(folder)
    query.run()
    add(folder, "a.orc", [2], modified_s=5.0)
    query.run()
    assert query.sink == [[1], [2]]


def test_an_age_bounds_what_is_remembered(folder: Path) -> None:
    """Files count as old beside the newest one that was read; forgotten ones are never read again."""
    now = 1.7e9
    query = Query(folder, maxFileAge="1h", log_snapshot_every="1", maxFilesPerTrigger="1")
    for number in range(5):
        add(folder, f"f{number}.orc", [number], modified_s=now + number * 3000)
    query.run()
    assert query.ids == [0, 1, 2, 3, 4]
    add(folder, "late.orc", [8], modified_s=now)
    add(folder, "new.orc", [9], modified_s=now + 12000)
    query.run()
    assert query.ids == [0, 1, 2, 3, 4, 9]
    query.options["maxFileAge"] = "7d"
    query.run()
    assert query.ids == [0, 1, 2, 3, 4, 9]
    query.run()
    newest = max((folder / LOG).glob("*/_seen*"))
    assert newest.stat().st_size < 300 + 4 * 32


@pytest.mark.parametrize(("word", "wanted"), [("ignore", [[1]]), ("read", [[1], [2, 3]]), ("fail", None)])
def test_files_that_are_replaced(folder: Path, word: str, wanted: list[list[int]] | None) -> None:
    query = Query(folder, replaced_files=word)
    add(folder, "a.orc", [1])
    query.run()
    add(folder, "a.orc", [2, 3])
    if wanted is None:
        with pytest.raises(SourceChanged, match=r"a\.orc.*replaced_files"):
            query.run()
    else:
        query.run()
        query.run()
        assert query.sink == wanted


@pytest.mark.parametrize(
    ("word", "wanted"), [("ignore", [[2, 3], [5]]), ("read", [[], [2, 3, 5]]), ("fail", None)]
)
def test_files_that_are_replaced_before_they_are_read(
    folder: Path, word: str, wanted: list[list[int]] | None
) -> None:
    """After the batch was planned and before its tasks run: Spark starts the query again."""
    query = Query(folder, replaced_files=word)
    add(folder, "a.orc", [1])
    query.between = lambda: add(folder, "a.orc", [2, 3])
    with pytest.raises(SourceChanged, match=r"a\.orc"):
        query.run()
    query.between = lambda: None
    add(folder, "b.orc", [5])
    if wanted is None:
        with pytest.raises(SourceChanged, match=r"a\.orc.*\bbatch 1\b"):
            query.run()
    else:
        query.run()
        assert query.sink == wanted


def test_files_that_vanish_before_they_are_read(folder: Path) -> None:
    query = Query(folder)
    for name in "ab":
        add(folder, f"{name}.orc", [ord(name)])
    query.between = (folder / "a.orc").unlink
    with pytest.raises(FileNotFoundError):
        query.run()
    query.between = lambda: None
    with pytest.raises(FileNotFoundError, match=r"a\.orc.*\b1\b.*ignoreMissingFiles"):
        query.run()
    query.options["ignoreMissingFiles"] = "true"
    query.run()
    assert query.sink == [[ord("b")]]


def test_one_name_for_one_file_however_the_path_is_spelled(folder: Path) -> None:
    add(folder, "a.orc", [1])
    query = Query(folder)
    query.run()
    for spelling in (f"file://{folder}", f"file:{folder}", f"{folder}/"):
        query.options["path"] = spelling
        query.run()
    assert query.sink == [[1]]


def test_values_in_folders_and_patterns(folder: Path) -> None:
    schema = StructType([*SCHEMA.fields, StructField("day", StringType())])
    query = Query(folder, schema)
    add(folder, "day=1/a.orc", [1])
    query.run()
    add(folder, "day=2/a.orc", [2])
    query.run()
    assert query.sink == [[(1, "1")], [(2, "2")]]
    pattern = Query(f"{folder}/day=*/*.orc", basePath=str(folder), log=str(folder / "_log"))
    pattern.run()
    add(folder, "day=3/a.orc", [3])
    pattern.run()
    assert pattern.sink == [[1, 2], [3]]


def test_a_pattern_may_match_nothing_yet(folder: Path) -> None:
    query = Query(f"{folder}/in-*/*.orc")
    query.run()
    add(folder, "in-1/a.orc", [1])
    query.run()
    assert query.sink == [[1]]
    with pytest.raises(FileNotFoundError, match="nowhere"):
        Query(folder / "nowhere").run()


def test_columns_that_come_later(folder: Path) -> None:
    """A file that lacks a column has nulls there; one that has more is read without them."""
    schema = StructType([*SCHEMA.fields, StructField("name", StringType())])
    query = Query(folder, schema)
    add(folder, "a.orc", [1])
    query.run()
    table = pa.table({"name": ["x"], "more": [1.5], "id": pa.array([2], pa.int32())})
    pyarrow.orc.write_table(table, str(folder / "b.orc"))
    query.run()
    assert query.sink == [[(1, None)], [(2, "x")]]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"cleanSource": "delete"}, "cleanSource"),
        (
            {"maxFilesPerTrigger": "1", "maxBytesPerTrigger": "1m"},
            r"\bmaxFilesPerTrigger\b.*\bmaxBytesPerTrigger\b",
        ),
        ({"maxFilesPerTrigger": "none"}, r"\bmaxFilesPerTrigger\b.*'none'"),
        ({"latestFirst": "true", "maxFileAge": "7d"}, r"\blatestFirst\b.*\bmaxFileAge\b"),
        ({"maxFileAge": "soon"}, r"\bmaxFileAge\b.*'soon'"),
        ({"existing_files": "some"}, "include, ignore"),
        ({"replaced_files": "x"}, "ignore, read, fail"),
        ({"rows": "1:2"}, r"\boption rows\b"),
        ({"pushdown": "true"}, "pushdown"),
        ({"maxFiles": "3"}, r"\bmaxfiles\b.*\bmaxFilesPerTrigger\b"),
        ({"paths": '["/a", "/b"]'}, r"option\('log'"),
    ],
)
def test_options_that_cannot_be(folder: Path, options: dict[str, str], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        stream_reader_of(SCHEMA, {"path": str(folder), **options})


@pytest.mark.parametrize("given", [[1], "x", 7, {"stream": "..", "batch": 1}])
def test_what_is_no_offset(folder: Path, given: object) -> None:
    reader: Any = stream_reader_of(SCHEMA, {"path": str(folder)})
    with pytest.raises(UsageError, match=rf"\bcheckpoint\b.*{re.escape(repr(given))}"):
        reader.partitions(given, given)


# --- S3 ---------------------------------------------------------------------------------------------


def test_a_stream_of_a_bucket(moto_server: MotoServer, tmp_path: Path, killer: Killer) -> None:
    client = moto_server.client
    client.create_bucket(Bucket="growing")
    storage = json.dumps(moto_server.options)
    query = Query(
        "s3a://growing/in/", maxFilesPerTrigger="1", log_snapshot_every="2", storage_options=storage
    )
    query.step = killer.step
    query.run()
    for number in range(3):
        path = add(tmp_path, "x.orc", [number])
        client.put_object(Bucket="growing", Key=f"in/f{number}.orc", Body=path.read_bytes())
    for at in (1, 6, 9, 3):
        killer.left = at
        try:
            query.run()
        except DEATH:
            continue
    killer.left = None
    query.options["path"] = "s3://growing/in"
    query.run_on()
    assert sorted(query.ids) == [0, 1, 2]
    names = [one["Key"] for one in client.list_objects_v2(Bucket="growing")["Contents"]]
    assert len([name for name in names if LOG in name]) >= 3


def test_a_log_whose_leavings_may_not_be_looked_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(*_: Any, **__: Any) -> None:
        raise PermissionError("you may not list uploads")

    monkeypatch.setattr(orcstream, "cleanup", refused)
    query = Query(folder, maxFilesPerTrigger="1", log_snapshot_every="1")
    for number in range(4):
        add(folder, f"{number}.orc", [number])
    query.run()
    assert query.ids == [0, 1, 2, 3]


def test_options_may_change_between_starts(folder: Path) -> None:
    """The log stays where it is; each file is read once, whatever a start is told."""
    query = Query(folder, maxFilesPerTrigger="1", recursiveFileLookup="true")
    lives: list[dict[str, str]] = [
        {"path": f"file:{folder}/", "maxFilesPerTrigger": "2"},
        {"path": f"{folder}/*", "latestFirst": "true", "log_snapshot_every": "1"},
        {"maxBytesPerTrigger": "1", "replaced_files": "read"},
        {"existing_files": "ignore", "replaced_files": "fail"},
        {"maxFileAge": "1h", "log_snapshot_every": "2"},
        {"path": f"file://{folder}", "case_sensitive": "true", "timezone": "Europe/Berlin"},
        {"basePath": str(folder), "memory_limit": "64m"},
    ]
    for number, options in enumerate(lives):
        for file in range(3):
            add(folder, f"sub/{number}-{file}.orc", [number * 10 + file])
        query.step = lambda: None
        query.run(batches=1)
        add(folder, f"sub/{number}-3.orc", [number * 10 + 3])
        query.step = partial(next, iter([None]))  # dies when the next batch is logged, and not read
        with pytest.raises(StopIteration):
            query.run()
        assert query.committed == len(query.offsets) - 1
        query.options = {"path": str(folder), "recursiveFileLookup": "true", **options}
    query.step = lambda: None
    query.run_on()
    assert sorted(query.ids) == [number * 10 + file for number in range(len(lives)) for file in range(4)]
