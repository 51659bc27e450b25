"""The names of `orcstream.blocking` for many files as one table.

Must not know how anything is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orcstream.batch import ReadResult
from orcstream.blocking.loop import Batches, Facade, made, method_as, takes_as, the_loop
from orcstream.datasets import dataset as datasets_dataset
from orcstream.datasets import opening as datasets_opening
from orcstream.datasets.dataset import DatasetFile
from orcstream.datasets.listing import Places, Split
from orcstream.reader.options import Where
from orcstream.schema.schema import Schema


class TableStream(Batches):
    """`orcstream.TableStream` without `await`: ``for batch in stream``."""


class OrcDataset(Facade):
    """`orcstream.OrcDataset` without `await`; from any thread."""

    _inner: datasets_dataset.OrcDataset

    @property
    def schema(self) -> Schema:
        """`OrcDataset.schema`."""
        return self._inner.schema

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """`OrcDataset.partition_columns`."""
        return self._inner.partition_columns

    @property
    def files(self) -> tuple[DatasetFile, ...]:
        """`OrcDataset.files`."""
        return self._inner.files

    @method_as(datasets_dataset.OrcDataset.batches)
    def batches(self, **options: Any) -> TableStream:
        """`OrcDataset.batches`: a stream to iterate with `for`."""
        return TableStream(self._run(lambda: made(lambda: self._inner.batches(**options))), self._loop)

    @method_as(datasets_dataset.OrcDataset.read)
    def read(self, **options: Any) -> ReadResult:
        """`OrcDataset.read`."""
        return self._run(lambda: self._inner.read(**options))

    @method_as(datasets_dataset.OrcDataset.count)
    def count(self, where: Where = None, **options: Any) -> int:
        """`OrcDataset.count`."""
        return self._run(lambda: self._inner.count(where, **options))

    @method_as(datasets_dataset.OrcDataset.splits)
    def splits(self, where: Where = None, **options: Any) -> tuple[Split, ...]:
        """`OrcDataset.splits`."""
        return self._run(lambda: self._inner.splits(where, **options))


@takes_as(datasets_opening.dataset)
def dataset(url: Places | Split | Sequence[Split], **options: Any) -> OrcDataset:
    """`orcstream.dataset`: close it, or use it as ``with ... as files``."""
    loop = the_loop()
    return OrcDataset(loop.run(lambda: datasets_opening.dataset(url, **options)), loop)
