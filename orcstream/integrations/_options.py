"""What all integrations take: how files are opened, and how they are read."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from orcstream.datasets.opening import DatasetKeywords
from orcstream.reader.options import (
    ANY_TIME,
    ArrowKeywords,
    BatchKeywords,
    MatchKeywords,
    ScanKeywords,
    ThreadKeywords,
)

__all__ = [
    "ANY_TIME",
    "ArrowKeywords",
    "BatchKeywords",
    "DatasetKeywords",
    "DatasetScan",
    "MatchKeywords",
    "Places",
    "ScanKeywords",
    "ThreadKeywords",
    "for_splits",
]

Places: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


class DatasetScan(DatasetKeywords, ScanKeywords, total=False):
    """The options of `orcstream.dataset`, and those of its batches that every library has."""


# What is known of a split, and who watches, which stays where it is.
_NOT_FOR_SPLITS: Final = ("pattern", "partitioning", "partition_schema", "schema", "observer")


def for_splits(options: Mapping[str, Any]) -> DatasetKeywords:
    """The options with which a worker opens splits of a data set that was opened with all of them."""
    names = DatasetKeywords.__annotations__.keys() & options.keys() - set(_NOT_FOR_SPLITS)
    found: Any = {name: options[name] for name in names}
    return found  # type: ignore[no-any-return]
