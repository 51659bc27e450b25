"""What opening is told, as all integrations take it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypedDict

from orcstream import IoOptions, ReadObserver
from orcstream.io.keys import KeyProvider

__all__ = ["DatasetOptions", "Places"]

Places: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


class DatasetOptions(TypedDict, total=False):
    """The options of `orcstream.dataset`."""

    pattern: str | None
    partitioning: str | None
    partition_schema: object
    schema: object
    storage_options: Mapping[str, Any] | None
    io_options: IoOptions | Mapping[str, Any] | None
    keys: KeyProvider | None
    require_keys: Iterable[str] | bool
    timezone: str | None
    default_timezone: str
    calendar: str
    instants: bool
    observer: ReadObserver | None
