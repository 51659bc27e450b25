"""What all integrations take: how files are opened, and how they are read."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self, TypeAlias

import orcstream
from orcstream._keywords import shared
from orcstream.datasets.opening import DatasetKeywords
from orcstream.reader.options import MatchKeywords, ScanKeywords

Places: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
SPLIT_BYTES: Final = 64 << 20
# What is known of a split, and who watches, which stays where it is.
_NOT_FOR_SPLITS: Final = ("pattern", "partitioning", "partition_schema", "schema", "observer")


class DatasetScan(DatasetKeywords, ScanKeywords, total=False):
    """The options of `orcstream.dataset`, and those of its batches that every library has."""


@dataclass(frozen=True, slots=True)
class Scan:
    """How files are opened, and how their batches are read; workers get it with the splits that they read."""

    opening: DatasetKeywords
    reading: Mapping[str, Any]

    @classmethod
    def of(cls, options: Mapping[str, Any], **more: Any) -> Self:
        """Both kinds of options together, and more of reading."""
        reading = {
            name: value for name, value in options.items() if name not in DatasetKeywords.__annotations__
        }
        return cls(shared(options, DatasetKeywords), {**reading, **more})

    def files(
        self, url: Places | orcstream.Split | Sequence[orcstream.Split]
    ) -> orcstream.blocking.OrcDataset:
        """The data set, opened."""
        return orcstream.blocking.dataset(url, **self.opening)

    def splits(self, files: orcstream.blocking.OrcDataset, split_bytes: int) -> tuple[orcstream.Split, ...]:
        """What workers read, each with the scan that is `for_splits`."""
        matching = shared(self.reading, MatchKeywords)
        return files.splits(where=self.reading["where"], split_bytes=split_bytes, **matching)

    def for_splits(self) -> Self:
        """The scan of who reads splits of a data set that was opened with all of the options."""
        left: Any = {name: value for name, value in self.opening.items() if name not in _NOT_FOR_SPLITS}
        return replace(self, opening=left)
