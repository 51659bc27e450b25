"""What opening is told, as all integrations take it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypedDict, cast

from orcstream import IoOptions, ReadObserver
from orcstream.io.key_provider import KeyProvider

__all__ = ["DatasetOptions", "Places", "for_splits"]

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


# What is known of a split, and who watches, which stays where it is.
_NOT_FOR_SPLITS: Final = ("pattern", "partitioning", "partition_schema", "schema", "observer")


def for_splits(options: DatasetOptions) -> DatasetOptions:
    """The options with which a worker opens splits of a data set that was opened with all of them."""
    return cast(
        "DatasetOptions", {name: value for name, value in options.items() if name not in _NOT_FOR_SPLITS}
    )
