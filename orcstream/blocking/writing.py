"""The names of `orcstream.blocking` that write.

Must not know how anything is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Unpack

from orcstream._keywords import takes
from orcstream.blocking.loop import Facade, awaited, made, takes_as, the_loop
from orcstream.io import sink as io_sink
from orcstream.io.contract.byte_sink import Prepared
from orcstream.schema.schema import Schema
from orcstream.writer import creating as writer_creating
from orcstream.writer import ingester as writer_ingester
from orcstream.writer import ingesting as writer_ingesting
from orcstream.writer import merge as writer_merge
from orcstream.writer import writer as writer_writer
from orcstream.writer.creating import Target
from orcstream.writer.ingested import IngestedFile
from orcstream.writer.options import CreateOptions
from orcstream.writer.writer import WriteResult


class _Writing(Facade):
    """What takes rows. Its block ends with a commit, or with an abort where an exception leaves it."""

    _inner: writer_writer.OrcWriter | writer_ingester.Ingester

    @property
    def schema(self) -> Schema | None:
        """`schema` of the asynchronous class."""
        return self._inner.schema

    @property
    def row_count(self) -> int:
        """`row_count` of the asynchronous class."""
        return self._inner.row_count

    @property
    def held_bytes(self) -> int:
        """`held_bytes` of the asynchronous class."""
        return self._inner.held_bytes

    def write(self, data: object) -> int:
        """`write` of the asynchronous class."""
        return self._run(lambda: self._inner.write(data))

    def flush(self) -> None:
        """`flush` of the asynchronous class."""
        self._run(self._inner.flush)

    def abort(self) -> None:
        """`abort` of the asynchronous class."""
        self._run(self._inner.abort)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(lambda: self._inner.__aexit__(kind, error, trace))


class OrcWriter(_Writing):
    """`orcstream.OrcWriter` without `await`: ``with create(...) as out``, which ends the file."""

    _inner: writer_writer.OrcWriter

    @property
    def url(self) -> str:
        """`OrcWriter.url`."""
        return self._inner.url

    @property
    def stripe_count(self) -> int:
        """`OrcWriter.stripe_count`."""
        return self._inner.stripe_count

    @property
    def stripe_row_counts(self) -> tuple[int, ...]:
        """`OrcWriter.stripe_row_counts`."""
        return self._inner.stripe_row_counts

    @property
    def size_bytes(self) -> int:
        """`OrcWriter.size_bytes`."""
        return self._inner.size_bytes

    @property
    def is_ended(self) -> bool:
        """`OrcWriter.is_ended`."""
        return self._inner.is_ended

    @property
    def result(self) -> WriteResult:
        """`OrcWriter.result`."""
        return self._inner.result

    def add_user_metadata(self, metadata: Mapping[str, bytes | str]) -> None:
        """`OrcWriter.add_user_metadata`."""
        self._run(lambda: made(lambda: self._inner.add_user_metadata(metadata)))

    def end_stripe(self) -> None:
        """`OrcWriter.end_stripe`."""
        self._run(self._inner.end_stripe)

    def prepare(self) -> Prepared:
        """`OrcWriter.prepare`."""
        return self._run(self._inner.prepare)

    def commit(self) -> WriteResult:
        """`OrcWriter.commit`."""
        return self._run(self._inner.commit)


class Ingester(_Writing):
    """`orcstream.Ingester` without `await`: ``with ingest(...) as out``. Several threads may write.

    Files end by their age on the loop's thread, whether anything is called meanwhile or not.
    """

    _inner: writer_ingester.Ingester

    @property
    def files(self) -> tuple[IngestedFile, ...]:
        """`Ingester.files`."""
        return self._inner.files

    def commit(self) -> tuple[IngestedFile, ...]:
        """`Ingester.commit`."""
        return self._run(self._inner.commit)


@takes_as(writer_creating.create)
def create(url: Target, schema: object = None, **options: Any) -> OrcWriter:
    """`orcstream.create`: use it as ``with ... as out``, or end with `commit` or `abort`."""
    loop = the_loop()
    return OrcWriter(loop.run(lambda: writer_creating.create(url, schema, **options)), loop)


@takes(CreateOptions, writer_creating.create)
def write(url: Target, data: object, schema: object = None, **options: Unpack[CreateOptions]) -> WriteResult:
    """Create, `OrcWriter.write`, commit; `options` are those of `orcstream.create`."""

    async def work() -> WriteResult:
        async with writer_creating.create(url, schema, **options) as out:
            await out.write(data)
        return out.result

    return the_loop().run(work)


@takes_as(writer_ingesting.ingest)
def ingest(url_template: str, schema: object = None, **options: Any) -> Ingester:
    """`orcstream.ingest`; `on_file` is called on the loop's thread and must not call this module."""
    loop = the_loop()
    inner = loop.run(lambda: writer_ingesting.ingest(url_template, schema, **options))
    return Ingester(inner, loop)


merge = awaited(
    writer_merge.merge, "; `progress` is called on the loop's thread and must not call this module"
)
cleanup = awaited(io_sink.cleanup)
commit = awaited(io_sink.commit)
discard = awaited(io_sink.discard)
