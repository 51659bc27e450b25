"""The same names without `await`, for scripts and notebooks.

    with orcstream.blocking.open("t.orc") as file:
        for batch in file.batches(columns=["id"]):
            ...

Calls are made on an event loop on a thread of its own (`blocking.loop`). So this works where a loop is
running already, as in a notebook, and from any thread. Must not know how anything is read. What writes is in
`blocking.writing`, what reads many files as one in `blocking.tables`: each is imported when it is first used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from orcstream._keywords import shared, takes
from orcstream._lazy import lazy_names
from orcstream.batch import ReadResult
from orcstream.blocking.loop import Batches, Facade, FacadeStream, made, method_as, takes_as, the_loop
from orcstream.codec.metadata.indexes import RowIndex
from orcstream.codec.metadata.structure import StatisticsList, StripeFooter, StripeInformation
from orcstream.codec.streams.compression import Compression
from orcstream.file.unlocking import EncryptedColumn
from orcstream.plan.tail import Tail
from orcstream.reader import file as reader_file
from orcstream.reader import opening as reader_opening
from orcstream.reader import stream as reader_stream
from orcstream.reader.file import FileStatistics
from orcstream.reader.opening import FileKeywords, Url, Urls
from orcstream.reader.options import ReadKeywords, Where
from orcstream.schema.schema import Schema

if TYPE_CHECKING:
    from orcstream.blocking.tables import OrcDataset, TableStream, dataset
    from orcstream.blocking.writing import (
        Ingester,
        OrcWriter,
        cleanup,
        commit,
        create,
        discard,
        ingest,
        merge,
        write,
    )
    from orcstream.reader.explain import Explanation
    from orcstream.reader.verifying import Verification

__all__ = [
    "BatchStream",
    "FileStream",
    "Ingester",
    "OrcDataset",
    "OrcFile",
    "OrcWriter",
    "TableStream",
    "cleanup",
    "commit",
    "create",
    "dataset",
    "discard",
    "ingest",
    "merge",
    "open",
    "open_many",
    "read",
    "write",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".tables": ("OrcDataset", "TableStream", "dataset"),
        ".writing": (
            *("Ingester", "OrcWriter", "cleanup", "commit", "create", "discard", "ingest", "merge", "write"),
        ),
    },
)


class OrcFile(Facade):
    """`orcstream.OrcFile` without `await`; from any thread."""

    _inner: reader_file.OrcFile

    @property
    def url(self) -> str:
        """`OrcFile.url`."""
        return self._inner.url

    @property
    def tail(self) -> Tail:
        """`OrcFile.tail`."""
        return self._inner.tail

    @property
    def schema(self) -> Schema:
        """`OrcFile.schema`."""
        return self._inner.schema

    @property
    def row_count(self) -> int:
        """`OrcFile.row_count`."""
        return self._inner.row_count

    @property
    def stripes(self) -> tuple[StripeInformation, ...]:
        """`OrcFile.stripes`."""
        return self._inner.stripes

    @property
    def compression(self) -> Compression:
        """`OrcFile.compression`."""
        return self._inner.compression

    @property
    def user_metadata(self) -> Mapping[str, bytes]:
        """`OrcFile.user_metadata`."""
        return self._inner.user_metadata

    @property
    def statistics(self) -> FileStatistics:
        """`OrcFile.statistics`."""
        return self._inner.statistics

    @property
    def encrypted_columns(self) -> tuple[EncryptedColumn, ...]:
        """`OrcFile.encrypted_columns`."""
        return self._inner.encrypted_columns

    @property
    def is_complete(self) -> bool:
        """`OrcFile.is_complete`."""
        return self._inner.is_complete

    @method_as(reader_file.OrcFile.batches)
    def batches(self, **options: Any) -> BatchStream:
        """`OrcFile.batches`: a stream to iterate with `for`."""
        return BatchStream(self._run(lambda: made(lambda: self._inner.batches(**options))), self._loop)

    @method_as(reader_file.OrcFile.read)
    def read(self, **options: Any) -> ReadResult:
        """`OrcFile.read`."""
        return self._run(lambda: self._inner.read(**options))

    @method_as(reader_file.OrcFile.take)
    def take(self, rows: Sequence[int], **options: Any) -> ReadResult:
        """`OrcFile.take`."""
        return self._run(lambda: self._inner.take(rows, **options))

    @method_as(reader_file.OrcFile.explain)
    def explain(self, **options: Any) -> Explanation:
        """`OrcFile.explain`."""
        return self._run(lambda: self._inner.explain(**options))

    @method_as(reader_file.OrcFile.verify)
    def verify(self, **options: Any) -> Verification:
        """`OrcFile.verify`."""
        return self._run(lambda: self._inner.verify(**options))

    def refresh(self) -> int:
        """`OrcFile.refresh`."""
        return self._run(self._inner.refresh)

    def stripe_footer(self, stripe: int) -> StripeFooter:
        """`OrcFile.stripe_footer`."""
        return self._run(lambda: self._inner.stripe_footer(stripe))

    def row_index(self, stripe: int) -> Mapping[int, RowIndex]:
        """`OrcFile.row_index`."""
        return self._run(lambda: self._inner.row_index(stripe))

    def stripe_statistics(self) -> tuple[StatisticsList, ...]:
        """`OrcFile.stripe_statistics`."""
        return self._run(self._inner.stripe_statistics)

    @method_as(reader_file.OrcFile.matching_stripes)
    def matching_stripes(self, where: Where, **options: Any) -> tuple[int, ...]:
        """`OrcFile.matching_stripes`."""
        return self._run(lambda: self._inner.matching_stripes(where, **options))

    def _facade_of(self, found: Any) -> Any:
        return BatchStream(found, self._loop) if isinstance(found, reader_stream.BatchStream) else found


class BatchStream(Batches):
    """`orcstream.BatchStream` without `await`: ``for batch in stream``."""

    _inner: reader_stream.BatchStream

    @property
    def masked_columns(self) -> tuple[str, ...]:
        """`BatchStream.masked_columns`."""
        return self._inner.masked_columns

    def seek(self, row: int) -> None:
        """`BatchStream.seek`."""
        self._run(lambda: self._inner.seek(row))


class FileStream(FacadeStream[OrcFile]):
    """`orcstream.FileStream` without `await`: ``for file in files``."""

    def _facade_of(self, found: Any) -> Any:
        return OrcFile(found, self._loop) if isinstance(found, reader_file.OrcFile) else found


@takes_as(reader_opening.open)
def open(url: Url, **options: Any) -> OrcFile:  # noqa: A001 - the name users expect
    """`orcstream.open`: close the file, or use it as ``with ... as file``."""
    loop = the_loop()
    return OrcFile(loop.run(lambda: reader_opening.open(url, **options)), loop)


class _AtOnce(FileKeywords, ReadKeywords, total=False):
    pass


@takes(_AtOnce, reader_opening.open, reader_file.OrcFile.read)
def read(url: Url, **options: Unpack[_AtOnce]) -> ReadResult:
    """`orcstream.open`, `OrcFile.read`, close."""

    async def work() -> ReadResult:
        async with reader_opening.open(url, **shared(options, FileKeywords)) as file:
            return await file.read(**shared(options, ReadKeywords))

    return the_loop().run(work)


@takes_as(reader_opening.open_many)
def open_many(urls: Urls, **options: Any) -> FileStream:
    """`orcstream.open_many`: ``for file in files``, best inside ``with ... as files``.

    `urls` is iterated, and `on_error` called, on the loop's thread: neither may call this module.
    """
    loop = the_loop()
    files = loop.run(lambda: made(lambda: reader_opening.open_many(urls, **options)))
    return FileStream(files, loop)
