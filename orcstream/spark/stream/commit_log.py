"""What a stream has committed, as small files in its target: ``_orcstream_log/QUERY/``.

Knows names and contents of records, and which of them are needed no more. Must not know how files are
committed or merged. A record is there whole or not at all; one that begins something is never replaced, so of
two drivers one begins it.

- ``BATCH.intent.json``: the files of a batch, all of them durable, none visible yet, and what they replace.
- ``BATCH.done.json``: all of them are visible.
- ``compact-BATCH/``: the journal of a compaction after this batch (`compact.journal`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from orcstream.io.folders import check_links
from orcstream.io.urls import inner_path
from orcstream.log.records import KnownRecords, Records, parsing
from orcstream.spark.compact.journal import CompactionJournal, old_records
from orcstream.spark.read.merge_records import LOG_FOLDER, journal_of, planned_files
from orcstream.spark.write.options import WritePlan
from orcstream.spark.write.target import Target, records_of
from orcstream.spark.write.written import WrittenFile

# Of so many batches, and of so many compactions, records are kept, whether they are needed or not.
KEPT = 100
_NAME: Final = re.compile(
    r"(?:compact-)?(?P<number>[0-9]{8,20})(?:\.|/(?:[0-9]{6}\.)?)"
    r"(?P<kind>intent|done|plan|prepared|merged|end)\.json",
    re.ASCII,
)


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


class CommitLog:
    """The records of one query, as they were when it was opened, with those that were added since."""

    def __init__(self, plan: WritePlan, query: str, known: KnownRecords) -> None:
        self.plan = plan
        self.query = query
        self._known = known

    @classmethod
    async def open(cls, plan: WritePlan, query: str) -> Self:
        """With one listing."""
        return cls(plan, query, await KnownRecords.open(_records(plan, query), _NAME))

    # --- batches

    @property
    def last_done(self) -> int:
        """The newest batch that is done, and with it all before it; -1 for none."""
        return max(self._known.numbers("done"), default=-1)

    async def intent_of(self, batch: int) -> Intent | None:
        """What was begun for a batch."""
        return await self._read_intent(batch) if _name(batch, "intent") in self._known.names else None

    async def begin(self, intent: Intent) -> Intent:
        """Record an intent; answers it, or that of another driver who was first."""
        await check_links(self.plan.url, intent.paths)
        record = {"files": [one.to_json() for one in intent.files], "removes": list(intent.removes)}
        is_first = await self._known.put_first(_name(intent.batch, "intent"), record)
        return intent if is_first else await self._read_intent(intent.batch)

    async def end(self, batch: int, run: str) -> None:
        """All files of a batch are visible; `run` is the start of the query that saw to it."""
        await self._known.put(_name(batch, "done"), {"run": run})

    async def last_run(self) -> str | None:
        """Which start of the query ended the newest batch."""
        if self.last_done < 0:
            return None
        return str((await self._known.records.get(_name(self.last_done, "done")))["run"])

    async def _read_intent(self, batch: int) -> Intent:
        def intent_of(record: Mapping[str, Any]) -> Intent:
            files = [WrittenFile.of_json(one, self.plan, inner_path(one["path"])) for one in record["files"]]
            return Intent(batch, tuple(files), tuple(record["removes"]))

        intent = await self._known.records.read(_name(batch, "intent"), intent_of)
        await check_links(self.plan.url, intent.paths)
        return intent

    # --- compactions

    def journal(self, batch: int) -> CompactionJournal:
        """The records of a compaction after a batch."""
        return CompactionJournal(self.plan, journal_of(self.query, batch))

    @property
    def compacted(self) -> int:
        """The batch up to which files were merged; -1 for none."""
        return max(self._known.numbers("end"), default=-1)

    @property
    def unfinished(self) -> int | None:
        """The compaction that was begun and is not over."""
        return min(_unfinished(self._known), default=None)

    @property
    def uncompacted(self) -> list[int]:
        """The batches that are done, and whose files no compaction has looked at."""
        done = set(self._known.numbers("done")).intersection(self._known.numbers("intent"))
        return sorted(batch for batch in done if batch > self.compacted)

    async def end_compaction(self, batch: int) -> None:
        """Nothing is left of what was merged."""
        await self.journal(batch).end()
        self._known.names.add(f"compact-{batch:08}/end.json")

    # --- length

    async def shorten(self, *, compacts: bool) -> None:
        """Remove records that nobody needs."""
        batches = sorted(self._known.numbers("done"))[:-KEPT]
        old = {batch for batch in batches if not compacts or batch <= self.compacted}
        merged = [one for one in self._known.matches() if one[0].startswith("compact-")]
        kept = sorted(self._known.numbers("end"))[-KEPT:]
        plans, others = old_records(merged, min(kept, default=0))
        # What begins something goes before what ends it: else it would seem to be under way for ever.
        for kind, beside in (("intent", plans), ("done", others)):
            of_batches = [_name(batch, kind) for batch in old]
            await self._known.remove([*self._known.names.intersection(of_batches), *beside])


def _records(target: Target, query: str) -> Records:
    return records_of(target, f"{LOG_FOLDER}/{query}")


def _name(batch: int, kind: str) -> str:
    return f"{batch:020}.{kind}.json"


def _unfinished(known: KnownRecords) -> set[int]:
    return set(known.numbers("plan")).difference(known.numbers("end"))


async def claimed_paths(target: Target, paths: Iterable[str]) -> set[str]:
    """Files that streams have not done with: of batches and compactions that are under way.

    `paths` are those of all files of the target, records among them.
    """
    queries: dict[str, KnownRecords] = {}
    for path in paths:
        folder, _, rest = path.partition("/")
        query, _, name = rest.partition("/")
        if folder == LOG_FOLDER and _NAME.fullmatch(name):
            queries.setdefault(query, KnownRecords(_records(target, query), _NAME)).names.add(name)
    found = await planned_files(target.url, LOG_FOLDER, storage_options=target.storage_options)
    for known in queries.values():
        for batch in set(known.numbers("intent")).difference(known.numbers("done")):
            record = await known.records.get(_name(batch, "intent"))
            with parsing(known.records.url_of(_name(batch, "intent"))):
                found.update(inner_path(one["path"]) for one in record["files"])
                found.update(map(inner_path, record["removes"]))
    return found
