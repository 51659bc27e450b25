"""What a stream has committed, as small files in its target: ``_orcstream_log/QUERY/``.

Knows names and contents of records, and which of them are needed no more. Must not know how files are
committed or merged. A record is there whole or not at all; one that begins something is never replaced, so of
two drivers one begins it.

- ``BATCH.intent.json``: the files of a batch, all of them durable, none visible yet, and what they replace.
- ``BATCH.done.json``: all of them are visible.
- ``BATCH.compaction.json``: which files are going to be merged, after this batch.
- ``BATCH-GROUP.merged.json``: a merged file, and the files whose rows it has now, in their order.
- ``BATCH.compacted.json``: the compaction is over.

Who knows the log sees each row once: merged files count from their record on, what they replace up to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from orcstream.io.folders import check_links
from orcstream.io.urls import inner_path
from orcstream.log.records import Records, parsing
from orcstream.spark.compact.commit_records import (
    LOG_FOLDER,
    Group,
    group_of,
    groups_of,
    record_of,
    row_count_of,
)
from orcstream.spark.write.options import WritePlan
from orcstream.spark.write.prepared_json import prepared_from_json, prepared_to_json
from orcstream.spark.write.target import Target, records_of
from orcstream.spark.write.written import WrittenFile

# Of so many batches, and of so many compactions, records are kept, whether they are needed or not.
KEPT = 100
_NAME = re.compile(r"(\d{20})(?:-(\d{3,5}))?\.(intent|done|compaction|merged|compacted)\.json")


@dataclass(frozen=True, slots=True)
class Intent:
    """A batch that is going to be visible: its files, and the paths of those that go then."""

    batch: int
    files: tuple[WrittenFile, ...]
    removes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for path in self.paths:
            inner_path(path)

    @property
    def paths(self) -> list[str]:
        """Of the files that come and of those that go."""
        return [*(one.path for one in self.files), *self.removes]


@dataclass(slots=True)
class CommitLog:
    """The records of one query, as they were when it was opened, with those that were added since."""

    plan: WritePlan
    query: str
    names: set[str] = field(default_factory=set)

    @classmethod
    async def open(cls, plan: WritePlan, query: str) -> Self:
        """With one listing."""
        log = cls(plan, query)
        log.names.update(
            name for name in [one.path for one in await log._records.listed()] if _NAME.fullmatch(name)
        )
        return log

    @property
    def folder(self) -> str:
        """Where the records are, below the target."""
        return f"{LOG_FOLDER}/{self.query}"

    @property
    def _records(self) -> Records:
        return records_of(self.plan, self.folder)

    # --- batches

    @property
    def last_done(self) -> int:
        """The newest batch that is done, and with it all before it; -1 for none."""
        return max(self._batches("done"), default=-1)

    async def intent_of(self, batch: int) -> Intent | None:
        """What was begun for a batch."""
        name = _name(batch, "intent")
        return await self._read_intent(batch) if name in self.names else None

    async def begin(self, intent: Intent) -> Intent:
        """Record an intent; answers it, or that of another driver who was first."""
        await check_links(self.plan.url, intent.paths)
        files = [
            {"path": one.path, "rows": one.row_count, **prepared_to_json(one.prepared)}
            for one in intent.files
        ]
        try:
            await self._put(_name(intent.batch, "intent"), {"files": files, "removes": list(intent.removes)})
        except FileExistsError:
            return await self._read_intent(intent.batch)
        return intent

    async def end(self, batch: int, run: str) -> None:
        """All files of a batch are visible; `run` is the start of the query that saw to it."""
        await self._put(_name(batch, "done"), {"run": run}, overwrite=True)

    async def last_run(self) -> str | None:
        """Which start of the query ended the newest batch."""
        if self.last_done < 0:
            return None
        return str((await self._get(_name(self.last_done, "done")))["run"])

    async def _read_intent(self, batch: int) -> Intent:
        record = await self._get(name := _name(batch, "intent"))
        files = []
        with parsing(self._records.url_of(name)):
            for one in record["files"]:
                path = inner_path(one["path"])
                prepared = prepared_from_json(one, self.plan.url_of(path), path)
                files.append(WrittenFile(path, row_count_of(one), prepared))
            intent = Intent(batch, tuple(files), tuple(record["removes"]))
        await check_links(self.plan.url, intent.paths)
        return intent

    # --- compactions

    @property
    def compacted(self) -> int:
        """The batch up to which files were merged; -1 for none."""
        return max(self._batches("compacted"), default=-1)

    @property
    def unfinished(self) -> int | None:
        """The compaction that was begun and is not over."""
        return next(iter(set(self._batches("compaction")) - set(self._batches("compacted"))), None)

    @property
    def uncompacted(self) -> list[int]:
        """The batches that are done, and whose files no compaction has looked at."""
        done = set(self._batches("done"))
        return sorted(batch for batch in self._batches("intent") if batch in done and batch > self.compacted)

    async def begin_compaction(self, batch: int, groups: Sequence[Group]) -> None:
        """Record what is going to be merged; `FileExistsError` where another driver was first."""
        await self._put(_name(batch, "compaction"), {"groups": [record_of(group) for group in groups]})

    async def groups_of(self, batch: int) -> Sequence[Group]:
        """What is to be merged."""
        return await self._groups_in(_name(batch, "compaction"), groups_of)

    async def merged(self, batch: int, number: int) -> Group | None:
        """What became of a group: a merged file, and what it replaces."""
        name = _name(batch, "merged", number)
        return (await self._groups_in(name, _one_group))[0] if name in self.names else None

    async def end_group(self, batch: int, number: int, merged: Group) -> None:
        """The merged file is visible, and counts; what it replaces may go."""
        await self._put(_name(batch, "merged", number), record_of(merged), overwrite=True)

    async def end_compaction(self, batch: int) -> None:
        """Nothing is left of what was merged."""
        await self._put(_name(batch, "compacted"), {}, overwrite=True)

    async def _groups_in(
        self, name: str, parse: Callable[[Mapping[str, Any]], Sequence[Group]]
    ) -> Sequence[Group]:
        record = await self._get(name)
        with parsing(self._records.url_of(name)):
            groups = parse(record)
        await check_links(self.plan.url, [path for one in groups for path in (one.target, *one.paths)])
        return groups

    # --- length

    async def shorten(self, *, compacts: bool) -> None:
        """Remove records that nobody needs."""
        batches = sorted(self._batches("done"))[:-KEPT]
        if compacts:
            batches = [batch for batch in batches if batch <= self.compacted]
        old = set(batches)
        merged = set(sorted(self._batches("compacted"))[:-KEPT])
        # What begins something goes before what ends it: else it would seem to be under way for ever.
        for of_batches, of_merges in ((("intent",), ("compaction",)), (("done",), ("merged", "compacted"))):
            gone = [name for name in self.names if _is_of(name, of_batches, old)]
            gone += [name for name in self.names if _is_of(name, of_merges, merged)]
            await self._remove(gone)

    # --- records

    def _batches(self, kind: str) -> Iterable[int]:
        for name in self.names:
            match = _NAME.fullmatch(name)
            if match is not None and match[3] == kind:
                yield int(match[1])

    async def _put(self, name: str, record: dict[str, Any], *, overwrite: bool = False) -> None:
        await self._records.put(name, record, overwrite=overwrite)
        self.names.add(name)

    async def _get(self, name: str) -> dict[str, Any]:
        return await self._records.get(name)

    async def _remove(self, names: list[str]) -> None:
        await self._records.remove(names)
        self.names.difference_update(names)


def _one_group(record: Mapping[str, Any]) -> Sequence[Group]:
    return (group_of(record),)


def _name(batch: int, kind: str, number: int | None = None) -> str:
    group = "" if number is None else f"-{number:03}"
    return f"{batch:020}{group}.{kind}.json"


def _is_of(name: str, kinds: Sequence[str], batches: set[int]) -> bool:
    match = _NAME.fullmatch(name)
    return match is not None and match[3] in kinds and int(match[1]) in batches


async def claimed_paths(target: Target, paths: Iterable[str]) -> set[str]:
    """Files that streams have not done with: of batches and compactions that are under way.

    `paths` are those of all files of the target, records among them.
    """
    queries: dict[str, set[str]] = {}
    for path in paths:
        folder, _, rest = path.partition("/")
        query, _, name = rest.partition("/")
        if folder == LOG_FOLDER and _NAME.fullmatch(name):
            queries.setdefault(query, set()).add(name)
    found: set[str] = set()
    for query, names in queries.items():
        records = records_of(target, f"{LOG_FOLDER}/{query}")
        for name in names:
            match = _NAME.fullmatch(name)
            assert match is not None
            if match[3] == "intent" and _name(int(match[1]), "done") not in names:
                record = await records.get(name)
                with parsing(records.url_of(name)):
                    found.update(inner_path(one["path"]) for one in record["files"])
                    found.update(map(inner_path, record["removes"]))
            elif match[3] == "compaction" and _name(int(match[1]), "compacted") not in names:
                record = await records.get(name)
                with parsing(records.url_of(name)):
                    for group in groups_of(record):
                        found.update([group.target, *group.paths])
    return found
