"""The job `compact`: many small files of a folder become few good ones, folder by folder of its partitions.

Knows which files there are, and that a job which was begun is finished before another. Must not know how
files are made and put in their place (`compact.compacting`).
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from orcstream.io.contract.folder import ListedFile
from orcstream.io.folders import is_hidden, list_files
from orcstream.io.urls import is_inner_path
from orcstream.plan.acid.names import is_table_file
from orcstream.spark.access import run
from orcstream.spark.compact import compacting
from orcstream.spark.compact.compacting import Compaction, GroupWork, How, Looked, grouped, works_of
from orcstream.spark.compact.journal import CompactionJournal, GroupResult, old_records
from orcstream.spark.jobs.distributing import Distribute, Progress, SparkTasks
from orcstream.spark.read.merge_records import (
    JOBS_FOLDER,
    LOG_FOLDER,
    RECORD,
    Group,
    journal_of,
    planned_files,
)
from orcstream.spark.read.merged_files import Merges
from orcstream.spark.stream.commit_log import claimed_paths
from orcstream.spark.write import written
from orcstream.spark.write.target import Folder, Target, records_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The records of so many jobs are kept: a task that was thought dead finds that its work is done.
KEPT = 20
_LOOKED_AT_ONCE: Final = 200


@dataclass(frozen=True, slots=True)
class CompactResult:
    """What a compaction of the folder `url` did. Of each of `groups` it is said what became of it.

    Lengths are in bytes. `is_continued` says that it finished a job that was killed.
    """

    url: str
    groups: tuple[GroupResult, ...]
    is_continued: bool

    @property
    def removed_count(self) -> int:
        """Files that are no more."""
        return sum(len(one.sources) for one in self.groups)

    @property
    def made_count(self) -> int:
        """Files that there are instead."""
        return sum(one.how != "left" for one in self.groups)

    @property
    def left(self) -> tuple[GroupResult, ...]:
        """Groups that were left as they are, each with its reason."""
        return tuple(one for one in self.groups if one.how == "left")


def compact(
    spark: SparkSession,
    folder: str,
    *,
    target_bytes: int = 256 << 20,
    below_bytes: int | None = None,
    how: How = "auto",
    memory_limit: int = 256 << 20,
    storage_options: dict[str, object] | None = None,
    keys: str | None = None,
    sink_options: dict[str, object] | None = None,
    progress: Progress | None = None,
) -> CompactResult:
    """Make few files of the many small ones in a folder, each in the folder of its partition.

    Files below `below_bytes` (half of `target_bytes` unless given) that have the same columns are put
    together, in the order of their names, up to `target_bytes`. `how` is "copy", which copies stripes as
    they are, "rewrite", which decodes rows and writes them in large stripes, or "auto": rewriting where
    stripes have less than 4 MiB on average, copying else, and the other where that cannot be. Encrypted
    files are only copied; `keys` is where their keys are.

    A job that was killed is finished by the next one, whatever that is told, before anything else is begun:
    run it again. Batches and streams that read the folder by this data source see each row once, at any
    time, also if they were planned before the last 20 jobs. Readers that only list files may see rows of one
    group twice for the moment between the appearance of the new file and the removal of the old ones, and
    none less. Nobody may overwrite or remove files of the folder meanwhile; appending is no harm.

    Raises `FileNotFoundError` for a folder that is not there, `UsageError` for a transactional table (see
    `compact_table`), and what stores raise.
    """
    from orcstream.spark.access import Access

    target = Folder(folder, Access(storage_options or {}, keys), sink_options)
    options = Compaction(target_bytes, below_bytes, how, memory_limit)
    return compact_with(SparkTasks(spark, progress), target, options)


def compact_with(distribute: Distribute, target: Target, options: Compaction) -> CompactResult:
    """As `compact`, on anything that does units of work."""
    listed = run(partial(list_files, target.url, storage_options=target.storage_options))
    if any(is_table_file(one.path) for one in listed):
        raise written.transactional_target(target.url)
    records = _records_of_jobs(listed)
    number = max((int(one["number"]) for one in records if one["kind"] == "plan"), default=0)
    is_continued = number > 0 and not any(
        one["kind"] == "end" for one in records if int(one["number"]) == number
    )
    if is_continued:
        journal = CompactionJournal(target, journal_of(None, number))
        groups = run(journal.groups)
    else:
        journal = CompactionJournal(target, journal_of(None, number + 1))
        # A token, since jobs are counted from 1 again where records were removed by hand.
        stem = f"part-compact-{number + 1:08}-{uuid.uuid4().hex[:12]}"
        planned = _planned(distribute, target, options, listed, stem)
        if not planned:
            return CompactResult(target.url, (), is_continued=False)
        groups = run(partial(journal.begin, planned))
    claimed = run(partial(planned_files, target.url, LOG_FOLDER, storage_options=target.storage_options))
    works = works_of(groups, {one.path for one in listed}, claimed)
    results = distribute("merging files", works, partial(_settle, journal, options))
    run(partial(_end, journal, number if is_continued else number + 1, records))
    return CompactResult(target.url, tuple(results), is_continued=is_continued)


def _records_of_jobs(listed: Sequence[ListedFile]) -> list[re.Match[str]]:
    below = f"{JOBS_FOLDER}/"
    paths = [one.path.removeprefix(below) for one in listed if one.path.startswith(below)]
    return [match for path in paths if (match := RECORD.fullmatch(path)) and match["query"] is None]


def _settle(journal: CompactionJournal, options: Compaction, work: GroupWork) -> GroupResult:
    return run(partial(compacting.settle, journal, options, work))


async def _end(journal: CompactionJournal, number: int, records: Sequence[re.Match[str]]) -> None:
    await written.sweep(journal.target, f"compact-{number:08}")
    await journal.end()
    for names in old_records(records, number - KEPT + 1):
        await records_of(journal.target, JOBS_FOLDER).remove(names)


def _planned(
    distribute: Distribute, target: Target, options: Compaction, listed: Sequence[ListedFile], stem: str
) -> list[Group]:
    """Which files become one."""
    claimed = run(partial(claimed_paths, target, [one.path for one in listed]))
    small = [
        one.path
        for one in listed
        if 0 < one.length < options.small_bytes
        and not is_hidden(one.path)
        and one.path not in claimed
        and is_inner_path(one.path)
    ]
    chunks = [small[at : at + _LOOKED_AT_ONCE] for at in range(0, len(small), _LOOKED_AT_ONCE)]
    found = distribute("looking at files", chunks, partial(_look_at, target))
    looked = [one for chunk in found for one in chunk]
    merges = Merges([target.url], target.storage_options)
    run(partial(merges.refresh, [target.url_of(one.source.path) for one in looked]))
    looked = [one.holding(merges.holds(target.url_of(one.source.path))) for one in looked]
    return grouped(looked, options, stem)


def _look_at(target: Target, paths: Sequence[str]) -> list[Looked]:
    return run(partial(compacting.look_at, target, paths))
