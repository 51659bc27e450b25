"""Compaction: many small files of a folder become few good ones, folder by folder of its partitions.

Knows which files go together, and that a job which was begun is finished before another. Must not know how
files are made and put in their place (`compacting`).
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from orcstream._keywords import check_integer
from orcstream.errors import UsageError
from orcstream.io import globs
from orcstream.io.contract.folder import ListedFile
from orcstream.io.folders import list_files
from orcstream.io.urls import is_inner_path
from orcstream.plan.acid.names import is_table_file
from orcstream.spark.access import run
from orcstream.spark.jobs.compacting import GroupWork, How, Looked, look_at, settle
from orcstream.spark.jobs.compaction_journal import (
    CompactionJournal,
    Group,
    GroupResult,
    last_number,
    new_token,
)
from orcstream.spark.jobs.distributing import Distribute, Progress, SparkTasks
from orcstream.spark.read.merged_files import Merges
from orcstream.spark.stream.commit_log import claimed_paths
from orcstream.spark.write import written
from orcstream.spark.write.target import Folder, Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOKED_AT_ONCE: Final = 200
# A file of stripes smaller than these is hardly read better than the files that they came from.
_GOOD_STRIPE_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Compaction:
    """How files are compacted; sizes in bytes."""

    target_bytes: int = 256 << 20
    below_bytes: int | None = None
    how: How = "auto"
    memory_limit: int = 256 << 20

    def __post_init__(self) -> None:
        if self.how not in ("auto", "copy", "rewrite"):
            raise UsageError(f"how is auto, copy or rewrite, not {self.how!r}")
        check_integer("target_bytes", self.target_bytes, 1)
        if self.below_bytes is not None:
            check_integer("below_bytes", self.below_bytes, 1)
        check_integer("memory_limit", self.memory_limit, 1)

    @property
    def small_bytes(self) -> int:
        """Files below this size are compacted."""
        return self.below_bytes or max(1, self.target_bytes // 2)


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
    names = [one.path for one in listed]
    if any(map(is_table_file, names)):
        raise written.transactional_target(target.url)
    number, is_over = last_number(names)
    is_continued = number > 0 and not is_over
    if is_continued:
        journal = CompactionJournal(target, number)
        groups = run(journal.groups)
    else:
        planned = _planned(distribute, target, options, listed, number + 1)
        if not planned:
            return CompactResult(target.url, (), is_continued=False)
        journal, groups = run(partial(CompactionJournal.begin, target, number + 1, planned))
    visible = {one.path for one in listed}
    works = [GroupWork(group, visible.issuperset(group.paths), group.target in visible) for group in groups]
    work = partial(settle, journal, options.how, options.memory_limit)
    results = distribute("merging files", works, work)
    run(partial(_end, journal, names))
    return CompactResult(target.url, tuple(results), is_continued=is_continued)


async def _end(journal: CompactionJournal, names: Sequence[str]) -> None:
    await written.sweep(journal.target, journal.name)
    await journal.end()
    await journal.forget(names)


def _planned(
    distribute: Distribute, target: Target, options: Compaction, listed: Sequence[ListedFile], number: int
) -> list[Group]:
    """Which files become one."""
    claimed = run(partial(claimed_paths, target, [one.path for one in listed]))
    small = [
        one.path
        for one in listed
        if 0 < one.length < options.small_bytes
        and not globs.is_hidden(one.path)
        and one.path not in claimed
        and is_inner_path(one.path)
    ]
    chunks = [small[at : at + _LOOKED_AT_ONCE] for at in range(0, len(small), _LOOKED_AT_ONCE)]
    looked = [
        one for chunk in distribute("looking at files", chunks, partial(look_at, target)) for one in chunk
    ]
    stem = f"part-{CompactionJournal(target, number).name}-{new_token()}"
    merges = Merges([target.url], target.storage_options)
    run(partial(merges.refresh, [target.url_of(one.source.path) for one in looked]))
    looked = [one.holding(merges.holds(target.url_of(one.source.path))) for one in looked]
    return grouped(looked, options, stem)


def grouped(looked: Iterable[Looked], options: Compaction, stem: str) -> list[Group]:
    """Files of one folder that can be one file, in their order, up to the size that files are to have."""
    bins: dict[tuple[str, ...], list[list[Looked]]] = {}
    for one in looked:
        folder = posixpath.dirname(one.source.path)
        by_form = options.how == "copy" or one.is_encrypted
        rows = bins.setdefault((folder, one.likeness, one.form if by_form else ""), [[]])
        if sum(each.source.length for each in rows[-1]) + one.source.length > options.target_bytes:
            rows.append([])
        rows[-1].append(one)
    several = [some for key in sorted(bins) for some in bins[key] if len(some) > 1]
    return [_group(number, some, stem) for number, some in enumerate(several)]


def _group(number: int, some: Sequence[Looked], stem: str) -> Group:
    folder = posixpath.dirname(some[0].source.path)
    suffix = some[0].source.path.rpartition("/")[2].partition(".")[2] or "orc"
    sources = tuple(one.source for one in some)
    stripes = sum(one.stripe_count for one in sources)
    has_small = sum(one.length for one in sources) < stripes * _GOOD_STRIPE_BYTES
    rewrites = has_small and not some[0].is_encrypted
    return Group(posixpath.join(folder, f"{stem}-{number:06}.{suffix}"), sources, number, rewrites)
