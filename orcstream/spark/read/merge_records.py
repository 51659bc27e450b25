"""Records of compactions: which files became one, by a stream's writer or by the job `compact`.

Knows where records are (`_orcstream_log/QUERY/compact-NUMBER/` and `_orcstream_jobs/compact-NUMBER/`), and
what a reader needs of them: a plan says which files are going to be one, another record that a merged file
counts, and the last that nothing is left of what was replaced. Must not know how files are merged, nor what
was read. Whoever may write to a table may write records, too, and what reads them may do more: so paths are
relative and stay below the table, or there is no such record.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from orcstream.errors import Unsupported
from orcstream.io.contract.folder import ListedFile
from orcstream.io.folders import list_files
from orcstream.io.urls import inner_path, name_of
from orcstream.log.records import parsing, read_record

LOG_FOLDER: Final = "_orcstream_log"
JOBS_FOLDER: Final = "_orcstream_jobs"
# The name of a record of a compaction in one of these folders.
RECORD: Final = re.compile(
    r"(?P<journal>(?:(?P<query>[0-9A-Za-z-]+)/)?compact-(?P<number>[0-9]{8,20}))"
    r"/(?:(?P<group>[0-9]{6})\.)?(?P<kind>plan|prepared|merged|end)\.json",
    re.ASCII,
)


def journal_of(query: str | None, number: int) -> str:
    """The folder of the records of a compaction, by a stream's writer or by a job."""
    above = JOBS_FOLDER if query is None else f"{LOG_FOLDER}/{query}"
    return f"{above}/compact-{number:08}"


@dataclass(frozen=True, slots=True)
class Source:
    """A file that is merged into another.

    `holds` are those that it was merged from itself, as far as that was known, in the order of their rows.
    `length` and `fingerprint` tell it from others of its name, where they are known.
    """

    path: str
    row_count: int
    holds: tuple[Source, ...] = ()
    length: int | None = None
    fingerprint: str = ""
    stripe_count: int = 0

    def __post_init__(self) -> None:
        inner_path(self.path)

    @property
    def originals(self) -> tuple[Source, ...]:
        """The files that its rows were written to first."""
        return self.holds or (self,)

    def to_json(self) -> dict[str, Any]:
        """What `of_json` takes."""
        record: dict[str, Any] = {"path": self.path, "rows": self.row_count}
        if self.holds:
            record["holds"] = [{"path": one.path, "rows": one.row_count} for one in self.holds]
        if self.length is not None:
            record |= {"length": self.length, "fingerprint": self.fingerprint, "stripes": self.stripe_count}
        return record

    @classmethod
    def of_json(cls, given: Mapping[str, Any]) -> Self:
        """Others may have written more beside it."""
        return cls(
            given["path"],
            row_count_of(given),
            tuple(Source.of_json(one) for one in given.get("holds", ())),
            given.get("length"),
            given.get("fingerprint", ""),
            given.get("stripes", 0),
        )


@dataclass(frozen=True, slots=True)
class Group:
    """Files that become one. `rewrites` says that no stripes are to be copied if it can be helped."""

    target: str
    sources: tuple[Source, ...]
    number: int
    rewrites: bool = False

    def __post_init__(self) -> None:
        inner_path(self.target)

    @property
    def paths(self) -> tuple[str, ...]:
        """Of the sources."""
        return tuple(one.path for one in self.sources)

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of all files that it is about."""
        return (self.target, *self.paths)

    @property
    def originals(self) -> tuple[Source, ...]:
        """The files that its rows were written to first, in the order of the rows."""
        return tuple(original for one in self.sources for original in one.originals)

    def to_json(self) -> dict[str, Any]:
        """A part of what `groups_of` takes."""
        replaces = [one.to_json() for one in self.sources]
        return {"target": self.target, "replaces": replaces, "rewrites": self.rewrites}


def groups_of(record: Mapping[str, Any]) -> tuple[Group, ...]:
    """The groups of a plan."""
    return tuple(
        Group(one["target"], tuple(map(Source.of_json, one["replaces"])), number, one.get("rewrites", False))
        for number, one in enumerate(record["groups"])
    )


def row_count_of(given: Mapping[str, Any]) -> int:
    """The number of rows that a record says a file has. Raises `ValueError` for what is none."""
    rows = given["rows"]
    if type(rows) is not int or rows < 0:
        raise ValueError(f"{rows!r} is no number of rows")
    return rows


@dataclass(slots=True)
class RecordedCompaction:
    """A compaction below `root`, as far as there are records: `merged` are numbers of groups."""

    root: str
    journal: str
    plan: str | None = None  # the URL of its record
    merged: set[int] = field(default_factory=set)
    is_over: bool = False

    def counted(self, groups: Sequence[Group]) -> Iterator[Group]:
        """The groups whose merged files count."""
        return (one for one in groups if one.number in self.merged)

    def pending(self, groups: Sequence[Group]) -> Iterator[Group]:
        """The groups whose merged files do not count yet."""
        return (one for one in groups if one.number not in self.merged and not self.is_over)

    def name_of(self, path: str) -> str:
        """The name of one of its files."""
        return name_of(f"{self.root}/{path}")


async def find_compactions(
    root: str, folder: str, *, storage_options: Mapping[str, Any]
) -> Sequence[RecordedCompaction]:
    """Those that there are records of in one of the two folders below a root."""
    found: dict[str, RecordedCompaction] = {}
    for record in await _listed(f"{root}/{folder}", storage_options):
        match = RECORD.fullmatch(record.path)
        if match is None or (match["query"] is None) != (folder == JOBS_FOLDER):
            continue
        one = found.setdefault(match["journal"], RecordedCompaction(root, f"{folder}/{match['journal']}"))
        if match["kind"] == "plan":
            one.plan = record.url
        elif match["kind"] == "merged":
            one.merged.add(int(match["group"] or 0))
        elif match["kind"] == "end":
            one.is_over = True
    return list(found.values())


async def planned_files(root: str, folder: str, *, storage_options: Mapping[str, Any]) -> set[str]:
    """The files of compactions that were begun and are not over, of one of the two folders below a root."""
    found = await find_compactions(root, folder, storage_options=storage_options)
    plans = [one.plan for one in found if one.plan is not None and not one.is_over]
    groups = [group for plan in plans for group in await read_plan(plan, storage_options)]
    return {path for group in groups for path in group.files}


async def _listed(url: str, storage_options: Mapping[str, Any]) -> Sequence[ListedFile]:
    try:
        return await list_files(url, storage_options=storage_options)
    except FileNotFoundError:
        return ()
    except Unsupported as error:
        if error.reason != "no_listing":
            raise
        return ()


async def read_plan(url: str, storage_options: Mapping[str, Any]) -> Sequence[Group]:
    """The groups of a plan; none where it was forgotten meanwhile. `FormatError` where it is damaged."""
    try:
        record = await read_record(url, storage_options)
    except FileNotFoundError:
        return ()
    with parsing(url):
        return groups_of(record)
