"""What a compaction has done, as records in a folder of its own, `compact-NUMBER/`.

Knows names and contents of records, and which are needed no more. Must not know how files are made. Those of
the job `compact` are in ``_orcstream_jobs/``, those of a stream's writer in ``_orcstream_log/QUERY/``. Jobs
are numbered; one begins when the one before it is over, so that of several drivers one makes the plan and the
others follow it. A stream's compactions have the number of the batch that they come after.

- ``plan.json``: which files become one: of each group `target`, and `replaces`, the paths and numbers of
  rows of its files in the order of their rows, with `holds`, the same of those that such a file was merged
  from itself. Never replaced.
- ``GROUP.prepared.json``: a new file is durable and invisible, with the rows of these files. Never replaced.
- ``GROUP.merged.json``: it is visible and counts, so that what it replaces may go. There is none for groups
  that are left as they are.
- ``end.json``: nothing is left of what was replaced.

Readers understand plans, and that the other two are there (`merge_records`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from orcstream.io.folders import check_links
from orcstream.log.records import Records
from orcstream.spark.read.merge_records import Group, groups_of
from orcstream.spark.write.target import Target, records_of
from orcstream.spark.write.written import WrittenFile


@dataclass(frozen=True, slots=True)
class Made:
    """A file with the rows of `sources`, prepared; `how` it was made, copied or rewritten."""

    file: WrittenFile
    sources: tuple[str, ...]
    how: str


@dataclass(frozen=True, slots=True)
class GroupResult:
    """What became of a group: `how` is copied, rewritten or left; then `reason` says why.

    `sources` are the files that are replaced; lengths are in bytes.
    """

    how: str
    sources: tuple[str, ...] = ()
    row_count: int = 0
    length_before: int = 0
    length: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CompactionJournal:
    """The records of one compaction, in a folder below the target."""

    target: Target
    folder: str

    # --- the driver

    async def begin(self, groups: Sequence[Group]) -> Sequence[Group]:
        """Record the plan; answers it, or that of another driver who was first."""
        is_first = await self._records.put_first("plan.json", {"groups": [one.to_json() for one in groups]})
        return groups if is_first else await self.groups()

    async def groups(self) -> Sequence[Group]:
        """The plan."""
        groups = await self._records.read("plan.json", groups_of)
        await check_links(self.target.url, [path for one in groups for path in one.files])
        return groups

    async def end(self) -> None:
        """The compaction is over."""
        await self._records.put("end.json", {})

    # --- tasks

    async def prepared(self, group: Group) -> Made | None:
        """The file that was made for a group."""

        def made(record: Mapping[str, Any]) -> Made:
            file = WrittenFile.of_json(record, self.target, group.target)
            return Made(file, _sources_of(group, record), record["how"])

        try:
            return await self._records.read(f"{group.number:06}.prepared.json", made)
        except FileNotFoundError:
            return None

    async def prepare(self, group: Group, made: Made) -> bool:
        """Record that a file was made; false where another task was first."""
        record = {**made.file.to_json(), "sources": made.sources, "how": made.how}
        return await self._records.put_first(f"{group.number:06}.prepared.json", record)

    async def result(self, group: Group) -> GroupResult | None:
        """What became of a group that was merged."""

        def result(record: Mapping[str, Any]) -> GroupResult:
            known = {name: value for name, value in record.items() if name != "version"}
            return GroupResult(**{**known, "sources": _sources_of(group, record)})

        try:
            return await self._records.read(f"{group.number:06}.merged.json", result)
        except FileNotFoundError:
            return None

    async def settle(self, group: Group, result: GroupResult) -> None:
        """Record that the new file counts, and its sources do not."""
        await self._records.put(f"{group.number:06}.merged.json", asdict(result))

    # --- both

    @property
    def _records(self) -> Records:
        return records_of(self.target, self.folder)


def _sources_of(group: Group, record: Mapping[str, Any]) -> tuple[str, ...]:
    """The files that are replaced: of this group, and no others."""
    sources = tuple(record["sources"])
    if others := set(sources).difference(group.paths):
        raise ValueError(f"the group has no file {min(others)!r}")
    return sources


def old_records(found: Iterable[re.Match[str]], before: int) -> tuple[list[str], list[str]]:
    """The names of the records of compactions before a number: plans, and others, to be removed after them.

    A plan without what came of it would be a compaction that is not over.
    """
    old = [one for one in found if int(one["number"]) < before]
    plans = [one[0] for one in old if one["kind"] == "plan"]
    return plans, [one[0] for one in old if one["kind"] != "plan"]
