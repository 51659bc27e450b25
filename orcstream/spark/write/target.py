"""The folder that files of a job are in, and how it is reached.

Values only: it goes to every task. Must not know what is written there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from orcstream.log.records import Records
from orcstream.spark.access import Access


class Target(Protocol):
    """What has to be known of a folder to put files there, and to remove them."""

    @property
    def url(self) -> str: ...

    @property
    def access(self) -> Access: ...

    @property
    def storage_options(self) -> Mapping[str, Any]: ...

    @property
    def sink_options(self) -> Mapping[str, Any] | None: ...

    def url_of(self, path: str) -> str: ...


@dataclass(frozen=True, slots=True)
class Folder:
    """See `Target`."""

    url: str
    access: Access = field(default_factory=Access)
    sink_options: Mapping[str, Any] | None = None

    @property
    def storage_options(self) -> Mapping[str, Any]:
        """How the store is reached."""
        return self.access.storage_options

    def url_of(self, path: str) -> str:
        """The URL of a file below the folder."""
        return f"{self.url.rstrip('/')}/{path}"


def records_of(target: Target, folder: str) -> Records:
    """The records in a folder below the target."""
    return Records(target.url_of(folder), target.storage_options, target.sink_options)
