"""The records of compactions in a folder, of both kinds: which there are, and which of them have to be read.

Knows how records are named, by a stream's writer (`_orcstream_log/QUERY/`) and by the job `compact`
(`_orcstream_jobs/compact-NUMBER/`), and what it means that one is there. Must not know of files that are
listed, nor what was read.

Both kinds have three: a plan says which files are going to be one, another that a merged file counts, and the
last that nothing is left of what was replaced. A job makes what its plan says, so the plan alone is read; a
stream's writer may leave out files that do not go together, so what counts is said for each merged file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from orcstream.errors import Unsupported
from orcstream.io.contract.folder import ListedFile
from orcstream.io.folders import list_files
from orcstream.io.urls import name_of
from orcstream.log.records import parsing
from orcstream.spark.compact.commit_records import JOBS_FOLDER, LOG_FOLDER, Group, groups_of

# Whose, which one, which group of it, and what is said.
_NAMES: Final = {
    LOG_FOLDER: re.compile(
        r"([0-9A-Za-z-]+)/([0-9]{20})(?:-([0-9]{3,5}))?\.(compaction|merged|compacted)\.json", re.ASCII
    ),
    JOBS_FOLDER: re.compile(r"(compact)-([0-9]{8})/(?:([0-9]{6})\.)?(plan|merged|end)\.json", re.ASCII),
}
_Read = Mapping[str, Sequence[Group]]  # the groups of records, by their URLs


@dataclass(slots=True)
class Compaction:
    """One of a stream's writer, or of a job, below `root`: the URLs of its records, as far as there are."""

    root: str
    is_job: bool
    key: tuple[str, int]  # the query and its batch, or "compact" and the number of the job
    plan: str | None = None
    merged: dict[int, str] = field(default_factory=dict)  # by the group's number
    is_over: bool = False

    @property
    def needed(self) -> Iterator[str]:
        """The records that have to be read."""
        if self.plan is not None and (self.is_job or not self.is_over):
            yield self.plan
        if not self.is_job:
            yield from self.merged.values()

    def counted(self, read: _Read) -> Iterator[Group]:
        """What its merged files have that count."""
        for number, url in self.merged.items():
            if not self.is_job:
                yield from read[url]
            elif self.plan is not None and number < len(read[self.plan]):
                yield read[self.plan][number]

    def pending(self, read: _Read) -> Iterator[Group]:
        """What its merged files have that do not count yet."""
        if self.plan is not None and not self.is_over:
            for number, group in enumerate(read[self.plan]):
                if number not in self.merged:
                    yield group

    def name_of(self, path: str) -> str:
        """The name of one of its files."""
        return name_of(f"{self.root}/{path}")


async def find_compactions(
    root: str, folder: str, *, storage_options: Mapping[str, Any]
) -> Sequence[Compaction]:
    """Those that there are records of in one of the two folders below a root."""
    found: dict[tuple[str, int], Compaction] = {}
    for record in await _listed(f"{root}/{folder}", storage_options):
        match = _NAMES[folder].fullmatch(record.path)
        if match is None:
            continue
        key = match[1], int(match[2])
        one = found.setdefault(key, Compaction(root, folder == JOBS_FOLDER, key))
        if match[4] == "merged":
            one.merged[int(match[3] or 0)] = record.url
        elif match[4] in ("compaction", "plan"):
            one.plan = record.url
        else:
            one.is_over = True
    return list(found.values())


async def _listed(url: str, storage_options: Mapping[str, Any]) -> Sequence[ListedFile]:
    try:
        return await list_files(url, storage_options=storage_options)
    except FileNotFoundError:
        return ()
    except Unsupported as error:
        if error.reason != "no_listing":
            raise
        return ()


def groups_in(url: str, record: Mapping[str, Any]) -> Sequence[Group]:
    """What a record says. Raises `FormatError` where it says something else."""
    with parsing(url):
        return groups_of(record)
