"""Which files became one, as records say it: those of a stream's writer, and those of the job `compact`.

Knows the contents of one kind of record. Must not know how files are merged, nor which records there are
(`commit_log`, `jobs.compaction_journal`). Whoever may write to a table may write records, too, and what reads
them may do more: so paths are relative and stay below the table, or there is no such record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from orcstream.io.urls import inner_path

LOG_FOLDER: Final = "_orcstream_log"
JOBS_FOLDER: Final = "_orcstream_jobs"


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

    def __post_init__(self) -> None:
        inner_path(self.path)

    @property
    def originals(self) -> tuple[Source, ...]:
        """The files that its rows were written to first."""
        return self.holds or (self,)

    def to_json(self) -> dict[str, Any]:
        """What `of_json` takes."""
        holds = {"holds": [one.to_json() for one in self.holds]} if self.holds else {}
        return {"path": self.path, "rows": self.row_count, **holds}

    @classmethod
    def of_json(cls, given: Mapping[str, Any]) -> Self:
        """Others may have written more beside it."""
        return cls(
            given["path"],
            row_count_of(given),
            tuple(Source.of_json(one) for one in given.get("holds", ())),
            given.get("length"),
            given.get("fingerprint", ""),
        )


@dataclass(frozen=True, slots=True)
class Group:
    """Files that become one."""

    target: str
    sources: tuple[Source, ...]

    def __post_init__(self) -> None:
        inner_path(self.target)

    @property
    def paths(self) -> tuple[str, ...]:
        """Of the sources."""
        return tuple(one.path for one in self.sources)

    @property
    def originals(self) -> tuple[Source, ...]:
        """The files that its rows were written to first, in the order of the rows."""
        return tuple(original for one in self.sources for original in one.originals)


def record_of(group: Group) -> dict[str, Any]:
    """A group as JSON."""
    return {"target": group.target, "replaces": [one.to_json() for one in group.sources]}


def group_of(record: Mapping[str, Any]) -> Group:
    """The reverse."""
    return Group(record["target"], tuple(Source.of_json(one) for one in record["replaces"]))


def groups_of(record: Mapping[str, Any]) -> tuple[Group, ...]:
    """The groups of a record of one, or of a plan of several."""
    return tuple(group_of(one) for one in record.get("groups", (record,)))


def row_count_of(given: Mapping[str, Any]) -> int:
    """The number of rows that a record says a file has. Raises `ValueError` for what is none."""
    rows = given["rows"]
    if type(rows) is not int or rows < 0:
        raise ValueError(f"{rows!r} is no number of rows")
    return rows
