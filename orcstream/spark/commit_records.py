"""What the log of a stream's writer says of merged files, for the writer and for readers of its target.

Knows the contents of one kind of record. Must not know how files are merged, nor which records there are
(`commit_log`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from orcstream.errors import FormatError, Unsupported
from orcstream.io.urls import strip_credentials
from orcstream.spark import small_files

__all__ = ["LOG_FOLDER", "Group", "Source", "group_of", "read_record", "record_of"]

LOG_FOLDER: Final = "_orcstream_log"


@dataclass(frozen=True, slots=True)
class Source:
    """A file that is merged into another."""

    path: str
    row_count: int


@dataclass(frozen=True, slots=True)
class Group:
    """Files that become one."""

    target: str
    sources: tuple[Source, ...]


def record_of(group: Group) -> dict[str, Any]:
    """A group as JSON."""
    replaces = [{"path": one.path, "rows": one.row_count} for one in group.sources]
    return {"target": group.target, "replaces": replaces}


def group_of(record: Mapping[str, Any]) -> Group:
    """The reverse."""
    sources = tuple(Source(one["path"], one["rows"]) for one in record["replaces"])
    return Group(record["target"], sources)


async def read_record(url: str, storage_options: Mapping[str, Any] | None) -> dict[str, Any]:
    """A record of any kind. Raises `FormatError`, and `Unsupported` for later versions."""
    data = await small_files.get(url, storage_options=storage_options)
    try:
        record = dict(json.loads(data))
    except (ValueError, TypeError) as error:
        raise FormatError(f"this is no record of a commit log: {error}", url=strip_credentials(url)) from None
    if record.get("version") != 1:
        raise Unsupported(
            f"the record is of version {record.get('version')}; a later orcstream has written it",
            reason="log_version",
            url=strip_credentials(url),
        )
    return record
