"""A stream of a folder whose writer merges files reads each row once; Spark itself is not needed."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from orcstream.errors import UsageError
from orcstream.spark.stream.reading import stream_reader_of
from tests.spark.stream_driver import (
    DEATH,
    SCHEMA,
    Killer,
    Query,
    Writer,
    folder,
    ids_of,
    killer,
)
from tests.support.effort import share

__all__ = ["folder", "killer"]


@pytest.mark.parametrize("cap", ["1", "3", "100"])
def test_merged_files_are_not_read_again(folder: Path, cap: str) -> None:
    """Some of the rows of a merged file were read before it was there, and some not."""
    writer, query = Writer(folder), Query(folder, maxFilesPerTrigger=cap, log_snapshot_every="2")
    for _ in range(7):
        writer.write()
        query.run(batches=1)
    query.run()
    assert len(list(folder.glob("part-compact-*"))) == 3
    assert sorted(query.ids) == ids_of(7)


def test_a_stream_that_begins_after_merges(folder: Path) -> None:
    writer, query = Writer(folder), Query(folder)
    for _ in range(5):
        writer.write()
    reader: Any = stream_reader_of(SCHEMA, query.options)
    start = reader.initialOffset()
    tasks = reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
    assert sum(len(task.pieces) for task in tasks) == 4, "a merged file is opened once"
    query.run()
    assert sorted(query.ids) == ids_of(5)


def test_files_that_are_merged_while_a_batch_runs(folder: Path) -> None:
    """Those that were planned are gone; the batch reads their rows of the merged file."""
    writer, query = Writer(folder), Query(folder, maxFilesPerTrigger="3")
    writer.write()
    query.between = lambda: writer.write() if writer.batch < 2 else None
    query.run()
    query.run_on()
    assert sorted(query.ids) == ids_of(2)


@pytest.mark.parametrize("seed", range(share(12, 3)))
def test_writers_and_readers_that_are_killed(folder: Path, killer: Killer, seed: int) -> None:
    chance = random.Random(seed)
    writer = Writer(folder, every=chance.choice([1, 2, 3]))
    query = Query(folder, maxFilesPerTrigger=str(chance.choice([1, 2, 5])), log_snapshot_every="2")
    query.step = killer.step
    while writer.batch < 5:
        killer.left = chance.randrange(40)
        try:
            writer.write() if chance.random() < 0.5 else query.run(batches=2)
        except (*DEATH, FileNotFoundError):
            continue
    killer.left = None
    query.run_on()
    writer.write()
    query.run_on()
    assert sorted(query.ids) == ids_of(6)


def forget_merges(folder: Path) -> None:
    """As the writer does after a hundred of them."""
    records = list((folder / "_orcstream_log" / "q1").glob("compact-*/*.json"))
    assert len(records) == 4
    for path in records:
        path.unlink()


def test_merged_files_whose_record_is_gone(folder: Path) -> None:
    """A stream that has begun cannot know what they hold; one that begins takes them as they are."""
    writer, query, other = Writer(folder), Query(folder), Query(folder)
    writer.write()
    query.run()
    writer.write()
    forget_merges(folder)
    with pytest.raises(UsageError, match=r"part-compact.*\bcheckpoint\b"):
        query.run()
    other.run()
    assert sorted(other.ids) == ids_of(2)
    writer.write()
    other.run()
    assert sorted(other.ids) == ids_of(3)


def test_merged_files_that_were_read_need_no_record_any_more(folder: Path) -> None:
    writer, query = Writer(folder), Query(folder)
    for _ in range(2):
        writer.write()
        query.run()
    writer.write()
    query.run()
    assert list(folder.glob("part-compact-*"))
    forget_merges(folder)
    query.run()
    writer.write()
    query.run()
    assert sorted(query.ids) == ids_of(4)


def test_an_age_is_not_for_merged_files(folder: Path) -> None:
    writer = Writer(folder)
    writer.write()
    writer.write()
    with pytest.raises(UsageError, match="maxFileAge"):
        Query(folder, maxFileAge="1d").run()
