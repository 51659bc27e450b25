"""Merging the small files of a stream's earlier batches, stripe by stripe.

Knows which files are merged, and in which order the steps are taken so that a driver that is killed at any of
them goes on later. Must not know how stripes are copied (`orcstream.merge`), nor how records are kept.

A group of files is merged in three steps: the merged file appears; a record says that it counts; the files
that it replaces go. Who knows the log sees each row once at any time. Others, who list files, see the rows of
one group twice between the first step and the last.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

import orcstream
from orcstream._printable import logger_of
from orcstream.errors import FormatError, OrcError, UsageError
from orcstream.spark.compact.commit_records import Group, Source
from orcstream.spark.stream.commit_log import CommitLog
from orcstream.spark.write import written
from orcstream.spark.write.options import WritePlan
from orcstream.spark.write.written import WrittenFile

_logger = logger_of("orcstream.spark")
# Trying again would change nothing.
_HOPELESS = (UsageError, FormatError, FileNotFoundError, orcstream.KeyUnavailable)


async def begin_compaction(log: CommitLog, below_bytes: int) -> None:
    """Merge the files of all batches that no compaction has looked at; a failure is told and no more."""
    batches = log.uncompacted
    found = [intent for batch in batches if (intent := await log.intent_of(batch)) is not None]
    files = [one for intent in found for one in intent.files]
    groups = grouped(log.plan, f"part-compact-{log.query}-{batches[-1]}", files, below_bytes)
    try:
        await log.begin_compaction(batches[-1], groups)
    except FileExistsError:
        return  # another driver does it
    await finish_compaction(log)


def grouped(plan: WritePlan, stem: str, files: Iterable[WrittenFile], below_bytes: int) -> list[Group]:
    """Small files that lie in one folder, in their order, up to the size that files have."""
    folders: dict[str, list[list[WrittenFile]]] = {}
    for file in files:
        if file.length >= below_bytes:
            continue
        rows = folders.setdefault(posixpath.dirname(file.path), [[]])
        if sum(one.length for one in rows[-1]) + file.length > plan.max_bytes:
            rows.append([])
        rows[-1].append(file)
    found: list[Group] = []
    for folder in sorted(folders):
        for some in folders[folder]:
            if len(some) > 1:
                target = posixpath.join(folder, f"{stem}-{len(found):03}{plan.suffix}")
                found.append(Group(target, tuple(Source(one.path, one.row_count) for one in some)))
    return found


async def finish_compaction(log: CommitLog) -> None:
    """Go on with the compaction that was begun, if there is one, wherever it was left."""
    batch = log.unfinished
    if batch is None:
        return
    try:
        for number, group in enumerate(await log.groups_of(batch)):
            merged = await log.merged(batch, number)
            if merged is None:
                merged = await _merged(log.plan, group)
                await log.end_group(batch, number, merged)
            await written.remove_paths(log.plan, [one.path for one in merged.sources])
        await log.end_compaction(batch)
    except (OrcError, OSError) as error:
        _logger.warning("the compaction after batch %d goes on after the next one: %s", batch, error)


async def _merged(plan: WritePlan, group: Group) -> Group:
    """Merge what goes together; files that do not are left as they are."""
    urls = [plan.url_of(one.path) for one in group.sources]
    try:
        result = await orcstream.merge(
            urls,
            plan.url_of(group.target),
            storage_options=plan.storage_options,
            sink_options=plan.sink_options,
            user_metadata=plan.file_options.get("user_metadata"),
            skip_incompatible=True,
            keys=await plan.access.key_provider(),
        )
    except _HOPELESS as error:
        _logger.warning("%d files are left as they are: %s", len(urls), error)
        return Group(group.target, ())
    done = set(result.files)
    return Group(group.target, tuple(one for one in group.sources if plan.url_of(one.path) in done))
