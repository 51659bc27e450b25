"""What a compaction has done, as records in its folder: ``_orcstream_jobs/compact-NUMBER/``.

Knows names and contents of records. Must not know how files are made. Jobs are numbered; one begins when the
one before it is over, so that of several drivers one makes the plan and the others follow it.

- ``plan.json``: which files become one: of each group `target`, and `replaces`, the paths and numbers of
  rows of its files in the order of their rows, with `holds`, the same of those that such a file was merged
  from itself. Never replaced.
- ``GROUP.prepared.json``: a new file is durable and invisible, with the rows of these files. Never replaced.
- ``GROUP.merged.json``: it is visible and counts, so that what it replaces may go; or why there is none.
- ``end.json``: nothing is left of what was replaced.

Readers understand plans, and that the other two are there (`merge_records`).
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from orcstream.io.folders import check_links
from orcstream.log.records import Records, parsing
from orcstream.spark.compact import commit_records
from orcstream.spark.compact.commit_records import JOBS_FOLDER, record_of, row_count_of
from orcstream.spark.write.prepared_json import prepared_from_json, prepared_to_json
from orcstream.spark.write.target import Target, records_of
from orcstream.spark.write.written import WrittenFile

# The records of so many jobs are kept: a task that was thought dead finds that its work is done.
KEPT = 20
_NAME = re.compile(rf"{JOBS_FOLDER}/compact-(\d{{8}})/(plan|end|\d{{6}}\.(?:prepared|merged))\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source(commit_records.Source):
    """A file that is to be merged into another, as it was when it was looked at."""

    length: int
    fingerprint: str
    stripe_count: int

    def to_json(self) -> dict[str, Any]:
        looked = {"length": self.length, "fingerprint": self.fingerprint, "stripes": self.stripe_count}
        return {**commit_records.Source.to_json(self), **looked}

    @classmethod
    def of_json(cls, given: Mapping[str, Any]) -> Self:
        source = commit_records.Source.of_json(given)
        return cls(
            source.path,
            source.row_count,
            source.holds,
            length=given["length"],
            fingerprint=given["fingerprint"],
            stripe_count=given["stripes"],
        )


@dataclass(frozen=True, slots=True)
class Group(commit_records.Group):
    """Files that are to become one. `rewrites` says that no stripes are to be copied if it can be helped."""

    sources: tuple[Source, ...]
    number: int
    rewrites: bool


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
    """The records of one job."""

    target: Target
    number: int

    @property
    def name(self) -> str:
        """That no other job in this folder has."""
        return f"compact-{self.number:08}"

    @property
    def _records(self) -> Records:
        return records_of(self.target, f"{JOBS_FOLDER}/{self.name}")

    # --- the driver

    @classmethod
    async def begin(cls, target: Target, number: int, groups: Sequence[Group]) -> tuple[Self, list[Group]]:
        """The journal of a new job with its plan; that of another driver who was first."""
        journal = cls(target, number)
        plan = [{**record_of(one), "rewrites": one.rewrites} for one in groups]
        try:
            await journal._records.put("plan.json", {"groups": plan}, overwrite=False)
        except FileExistsError:
            return journal, await journal.groups()
        return journal, list(groups)

    async def groups(self) -> list[Group]:
        """The plan."""
        record = await self._records.get("plan.json")
        with parsing(self._records.url_of("plan.json")):
            groups = [
                Group(one["target"], tuple(map(Source.of_json, one["replaces"])), number, one["rewrites"])
                for number, one in enumerate(record["groups"])
            ]
        await check_links(self.target.url, [path for one in groups for path in (one.target, *one.paths)])
        return groups

    async def end(self) -> None:
        """The job is over."""
        await self._records.put("end.json", {})

    async def forget(self, names: Iterable[str]) -> None:
        """Remove the records of jobs that were long ago; `names` are paths of records."""
        matches = (match for name in names if (match := _NAME.fullmatch(name)))
        old = [match for match in matches if int(match[1]) <= self.number - KEPT]
        # A plan without what came of it would be a job that is not over.
        for is_plan in (True, False):
            gone = [match[0] for match in old if (match[2] == "plan") == is_plan]
            await records_of(self.target, JOBS_FOLDER).remove(
                [one.removeprefix(f"{JOBS_FOLDER}/") for one in gone]
            )

    # --- tasks

    async def prepared(self, group: Group) -> Made | None:
        """The file that was made for a group."""
        name = f"{group.number:06}.prepared.json"
        try:
            record = await self._records.get(name)
        except FileNotFoundError:
            return None
        with parsing(self._records.url_of(name)):
            prepared = prepared_from_json(record, self.target.url_of(group.target), group.target)
            file = WrittenFile(group.target, row_count_of(record), prepared)
            return Made(file, _sources_of(group, record), record["how"])

    async def prepare(self, group: Group, made: Made) -> None:
        """A file was made; `FileExistsError` where another task was first."""
        record: dict[str, Any] = {"rows": made.file.row_count, "sources": made.sources, "how": made.how}
        await self._records.put(
            f"{group.number:06}.prepared.json",
            {**record, **prepared_to_json(made.file.prepared)},
            overwrite=False,
        )

    async def result(self, group: Group) -> GroupResult | None:
        """What became of a group, if that is known."""
        name = f"{group.number:06}.merged.json"
        try:
            record = await self._records.get(name)
        except FileNotFoundError:
            return None
        del record["version"]
        with parsing(self._records.url_of(name)):
            return GroupResult(**{**record, "sources": _sources_of(group, record)})

    async def settle(self, group: Group, result: GroupResult) -> None:
        """The new file counts, and its sources do not; or they are left as they are."""
        await self._records.put(f"{group.number:06}.merged.json", asdict(result))


def _sources_of(group: Group, record: Mapping[str, Any]) -> tuple[str, ...]:
    """The files that are replaced: of this group, and no others."""
    sources = tuple(record["sources"])
    if others := set(sources).difference(group.paths):
        raise ValueError(f"the group has no file {min(others)!r}")
    return sources


def last_number(names: Iterable[str]) -> tuple[int, bool]:
    """The newest job by the paths of all records in a folder, and whether it is over; 0 for none."""
    matches = [match for name in names if (match := _NAME.fullmatch(name))]
    number = max((int(match[1]) for match in matches if match[2] == "plan"), default=0)
    return number, any(int(match[1]) == number and match[2] == "end" for match in matches)


def new_token() -> str:
    """What makes names of files those of one plan, even where records were removed by hand."""
    return uuid.uuid4().hex[:12]
