"""The writer of one file: takes what users have, hands out stripes to the sink, ends with all or nothing.

Knows the order of things: rows are checked before any of them is encoded, encoded a chunk at a time, and a
stripe is closed when it is full or the memory is. Must not know how columns are encoded (`codec`) nor how
bytes are sent (`io`). A writer belongs to one loop, and one task at a time may use it. After a failure or a
cancellation in the middle of a batch only `abort` is left; a batch that does not fit the schema is refused
before anything of it is written, and the writer goes on. One that is dropped before its end can only warn: an
abort takes a loop, and time.
"""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.metadata import version
from types import TracebackType
from typing import Any, Literal, Protocol

from orcstream.byterange import BytesLike
from orcstream.codec.encode._column import EncodeTask
from orcstream.codec.encode.file_encoder import FileEncoder, StripeEncoder
from orcstream.codec.encode.options import EncodeOptions
from orcstream.codec.encode.writable import check_writable, discreetly
from orcstream.codec.ingest.ingest import IngestedRows, UserData
from orcstream.encryption import NO_KEYS, FileKeys
from orcstream.errors import CommitUnknown, OrcError, UsageError
from orcstream.io.contract.byte_sink import Prepared
from orcstream.io.loop.tasks import Closable, OneTask
from orcstream.io.loop.uncancelled import clean_up, until_over
from orcstream.schema.schema import Schema, without_encryption
from orcstream.writer.options import WriteOptions
from orcstream.writer.workers import Outflow, Workers

_State = Literal["open", "prepared", "committed", "aborted", "failed"]


@dataclass(frozen=True, slots=True)
class WriteResult:
    """A file that was committed: its `url` (without credentials) and `schema`.

    It has `row_count` rows in `stripe_count` stripes, and `length` bytes.
    """

    url: str
    schema: Schema
    row_count: int
    stripe_count: int
    length: int


class Outlet(Protocol):
    """Where the bytes of one file go. For one task at a time; only `abort` is left after a failure."""

    @property
    def url(self) -> str: ...

    @property
    def held_bytes(self) -> int:
        """Memory taken by bytes on their way."""

    @property
    def grows(self) -> bool:
        """Whether `flush` shows what was written."""

    async def write(self, data: BytesLike) -> None: ...

    async def flush(self) -> None:
        """What was written is durable and may be read."""

    async def prepare(self) -> Prepared:
        """All bytes are there; make them durable without showing them."""

    async def commit(self) -> None:
        """All bytes are there; make them the file."""

    async def abort(self) -> None:
        """Leave nothing but what readers may have seen."""

    async def aclose(self) -> None:
        """Give back what is held; leaves what was prepared."""


class OrcWriter(Closable):
    """A file that is being written; made by `orcstream.create`."""

    def __init__(
        self,
        outlet: Outlet,
        schema: Schema | None,
        options: WriteOptions,
        *,
        user_metadata: Mapping[str, bytes],
        keys: FileKeys = NO_KEYS,
        workers: Workers | None = None,
    ) -> None:
        """`workers` are given by an ingest, whose writers share them, and which ends them all."""
        self._outlet = outlet
        self._options = options
        self._user_metadata = dict(user_metadata)
        self._keys = keys
        self._workers = workers or Workers(options.threads, options.new_compressor)
        self._outflow = Outflow(outlet.write)
        self._encoder: FileEncoder | None = None
        self._stripe: StripeEncoder | None = None
        self._state: _State = "open"
        self._one_task = OneTask("two tasks use one writer", outlet.url)
        # Where the last footer ended, and the user metadata it has.
        self._footer: tuple[int, dict[str, bytes]] | None = None
        self._result: WriteResult | None = None
        if schema is not None:
            self._encoder = self._new_encoder(schema, options.encode_options(schema))
        self._is_users = workers is None  # to end

    def __repr__(self) -> str:
        return f"<OrcWriter {self.url}: {self.row_count} rows, {self._state}>"

    # --- what is known

    @property
    def url(self) -> str:
        """Where the file will be, without credentials."""
        return self._outlet.url

    @property
    def schema(self) -> Schema | None:
        """The file's schema; None before the first batch, where none was given."""
        return None if self._encoder is None else self._encoder.schema

    @property
    def row_count(self) -> int:
        """Rows written so far."""
        done = 0 if self._encoder is None else self._encoder.row_count
        return done + (0 if self._stripe is None else self._stripe.row_count)

    @property
    def stripe_count(self) -> int:
        """Stripes that are complete."""
        return 0 if self._encoder is None else self._encoder.stripe_count

    @property
    def stripe_row_counts(self) -> tuple[int, ...]:
        """The rows of each stripe that is complete."""
        return () if self._encoder is None else tuple(one.row_count for one in self._encoder.stripes)

    @property
    def size_bytes(self) -> int:
        """About how long the file is with the rows written so far; footer and open indexes not counted."""
        done = 0 if self._encoder is None else self._encoder.position
        return done + (0 if self._stripe is None else self._stripe.size_bytes)

    @property
    def held_bytes(self) -> int:
        """Memory that the writer holds: the stripe under construction, and bytes on their way.

        What encoders take by themselves, up to 20 KB a column, is not counted.
        """
        stripe = 0 if self._stripe is None else self._stripe.held_bytes
        return stripe + self._outflow.held_bytes + self._outlet.held_bytes

    @property
    def is_ended(self) -> bool:
        """Whether it was prepared, committed or aborted."""
        return self._state in ("prepared", "committed", "aborted")

    @property
    def result(self) -> WriteResult:
        """What was committed. Raises UsageError before that."""
        if self._result is None:
            raise UsageError(f"the file is not committed; it is {self._state}", url=self.url)
        return self._result

    # --- rows

    async def write(self, data: object) -> int:
        """Append rows; answers how many.

        `data` is anything with `__arrow_c_array__` or `__arrow_c_stream__` (of pyarrow, polars, pandas,
        duckdb, batches of this package), a dictionary of numpy arrays, or a list of rows (dictionaries,
        dataclasses or tuples). Columns go by name; one that the data lacks is null. Without a schema, the
        first data's is taken. Nothing keeps a reference to the data afterwards.

        Raises `SchemaMismatch` (with `column` and `row`) for data that does not fit: of that batch nothing
        is written, and what was written before stays. An error of the store (`SinkError` and others) or a
        cancellation leaves only `abort`.
        """
        async with self._use("write to"):
            if isinstance(data, UserData):
                source = data
            else:
                source = await self._workers.run(
                    lambda: UserData(data, hides_values=self._options.hides_values)
                )
            if self._encoder is None and source.is_nothing:
                return 0  # rows that come later say the schema
            encoder = self._encoder or await self._first(source)
            count = 0
            batches = discreetly(source.vectors(encoder.schema), encoder.schema, encoder.options.hidden)
            while (rows := await self._workers.run(lambda: self._next(batches, encoder.options))) is not None:
                with self._failing():
                    await self._encode(encoder, rows)
                count += rows.row_count
            return count

    async def end_stripe(self) -> None:
        """Close the stripe under construction, if it has rows: what follows begins another one."""
        async with self._use("write to"):
            with self._failing():
                await self._end_stripe()

    def add_user_metadata(self, metadata: Mapping[str, bytes | str]) -> None:
        """Set values of the file's user metadata, up to the commit; those that are there are replaced."""
        if self._state != "open":
            raise UsageError(f"the file is {self._state}: nothing can be added", url=self.url)
        self._user_metadata.update(metadata_of(metadata))

    async def _first(self, source: UserData) -> FileEncoder:
        schema = without_encryption(await self._workers.run(source.schema))
        self._encoder = self._new_encoder(schema, self._options.encode_options(schema))
        return self._encoder

    def _new_encoder(self, schema: Schema, options: EncodeOptions) -> FileEncoder:
        return FileEncoder(
            schema,
            options,
            writer_timezone=self._options.timezone,
            software_version=_software_version(),
            keys=self._keys,
        )

    def _next(self, batches: Iterator[IngestedRows], options: EncodeOptions) -> IngestedRows | None:
        rows = next(batches, None)
        if rows is not None:
            check_writable(rows, options, lossy_timestamps=self._options.lossy_timestamps)
        return rows

    async def _encode(self, encoder: FileEncoder, rows: IngestedRows) -> None:
        start = 0
        while start < rows.row_count:
            start, size_bytes, held_bytes = await self._encode_chunk(encoder, rows, start)
            # Both stripes, the one that flows out and the one that grows, have one share of the memory.
            most = self._options.memory_limit // 2
            if size_bytes >= self._options.stripe_limit or held_bytes >= most:
                await self._end_stripe()
            else:
                await self._outflow.wait(most - held_bytes)

    async def _encode_chunk(
        self, encoder: FileEncoder, rows: IngestedRows, start: int
    ) -> tuple[int, int, int]:
        """Encode rows from `start` on; where they end, and the stripe's `size_bytes` and `held_bytes`."""
        stop = start

        def take() -> list[EncodeTask]:
            nonlocal stop
            if self._stripe is None:
                self._stripe = encoder.begin_stripe()
            stop = min(rows.row_count, start + self._chunk_rows(rows, self._stripe.size_bytes))
            return self._stripe.take(rows, start, stop)

        def measure(_: object) -> tuple[int, int, int]:
            assert self._stripe is not None
            return stop, self._stripe.size_bytes, self._stripe.held_bytes

        return await self._workers.round(take, measure)

    def _chunk_rows(self, rows: IngestedRows, stripe_bytes: int) -> int:
        """Rows to encode before sizes are checked again; whole row groups where that is more than one."""
        each = max(1, rows.size_bytes // max(1, rows.row_count))
        limit = self._options.stripe_limit
        # Rows that do not compress end the stripe where it is full, or a sixteenth later.
        room = max(limit - stripe_bytes, limit // 16)
        count = max(1, min(self._options.chunk_bytes, room) // each)
        stride = self._options.row_index_stride
        return count if not stride or count < stride else count - count % stride

    async def _end_stripe(self) -> None:
        stripe, encoder = self._stripe, self._encoder
        if stripe is None or encoder is None:
            return
        begin = encoder.position
        header = encoder.header() if not begin else b""
        lay_out = partial(encoder.lay_out, stripe)
        pieces = await self._workers.round(stripe.close, lay_out)
        self._stripe = None
        await self._outflow.start(_with_header(header, pieces), encoder.position - begin)

    # --- the end

    async def prepare(self) -> Prepared:
        """Complete the file and make it durable, but not visible; `orcstream.commit` then makes it appear.

        The answer is a plain value that can be pickled and committed, or discarded, elsewhere. Raises
        `UsageError` where nothing said what the schema is, and the errors of the store.
        """
        if self._state == "prepared":
            return await self._outlet.prepare()
        async with self._use("prepare"):
            with self._failing():
                await self._complete()
                prepared = await self._outlet.prepare()
            if self._state != "open":  # by another task, meanwhile: nothing of it is left
                raise UsageError(f"cannot prepare the file: it is {self._state}", url=self.url)
            self._state = "prepared"
            return prepared

    async def flush(self) -> None:
        """Let readers have everything that was written so far: it is durable, with a footer behind it.

        For files made with ``growing=True``; of others it is a `UsageError`. Ends the stripe. Raises what
        `prepare` raises.
        """
        if not self._outlet.grows:
            raise UsageError("only a file made with growing=True can be flushed", url=self.url)
        async with self._use("flush"):
            with self._failing():
                await self._complete()
                await self._outlet.flush()

    async def commit(self) -> WriteResult:
        """Complete the file and make it appear, whole, in place of any earlier one of that name.

        May be called again after it failed with `CommitUnknown`. Raises `CommitFailed` where the store
        refused and nothing appeared, `FileExistsError` with ``overwrite=False``, and what `prepare` raises.
        """
        if self._result is not None:
            return self._result
        if not self._outlet.grows:
            await self.prepare()
            with self._one_task:
                await self._outlet.commit()
        else:
            async with self._use("commit"):
                with self._failing():
                    await self._complete()
                    await self._outlet.commit()
        encoder = self._encoder
        assert encoder is not None
        self._result = WriteResult(
            self.url, encoder.schema, encoder.row_count, encoder.stripe_count, encoder.position
        )
        self._state = "committed"
        return self._result

    async def _complete(self) -> None:
        """Everything is written, with a footer behind it: what there is, is a complete file."""
        encoder = self._encoder
        if encoder is None:
            raise UsageError("the file has no schema: give create() one, or write a batch", url=self.url)
        await self._end_stripe()
        await self._outflow.wait()
        metadata = dict(self._user_metadata)
        if self._footer != (encoder.position, metadata):
            begin = b"" if encoder.position else encoder.header()
            tail = await self._workers.alone(lambda compressor: encoder.tail(metadata, compressor))
            await self._outlet.write(begin + tail)
            self._footer = (encoder.position, metadata)

    async def abort(self) -> None:
        """Leave nothing of the file; an earlier one of that name stays. May be called again.

        A growing file ends at its last flush, since readers may have seen it; nothing stays of one that was
        never flushed. Not cancelled, and bounded in time. Raises `SinkError` where the store would not let
        go; its message says what was left. A file that was committed stays.
        """
        if self._state in ("committed", "aborted"):
            return
        if self._one_task.is_held and self._state == "prepared":
            raise UsageError("another task commits the file", url=self.url)
        self._state = "aborted"
        await until_over(self._leave_nothing())

    async def _leave_nothing(self) -> None:
        await self._outflow.stop()
        self._stripe = None
        await self._outlet.abort()

    async def aclose(self) -> None:
        """Give back what the writer holds; aborts what was neither committed nor prepared."""
        if self._state == "prepared":
            await self._outlet.aclose()
        else:
            await self.abort()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit, or abort because of an error; a file that was prepared in the block stays prepared."""
        if error is not None:
            await clean_up(error, self.abort)
            return
        try:
            if not self.is_ended:
                await self.commit()
        except CommitUnknown:
            # It may have appeared, or do so yet: whoever catches this can ask again.
            await self.aclose()
            raise
        except BaseException as failure:
            await clean_up(failure, self.abort)
            raise
        await self.aclose()

    def __del__(self) -> None:
        if getattr(self, "_is_users", False) and self._state in ("open", "failed"):
            lost = "rows after its last flush are lost" if self._outlet.grows else "there will be no file"
            warnings.warn(
                f"{self!r} was dropped before its end, and {lost}; write "
                "`async with orcstream.create(...) as out`, or at the end `await out.commit()` or `abort()`",
                ResourceWarning,
                stacklevel=2,
            )

    # --- who may do what when

    @asynccontextmanager
    async def _use(self, verb: str) -> AsyncIterator[None]:
        with self._one_task:
            if self._state == "failed":
                raise UsageError(f"cannot {verb} the file: an earlier call failed, abort it", url=self.url)
            if self._state != "open":
                raise UsageError(f"cannot {verb} the file: it is {self._state}", url=self.url)
            try:
                yield
            except OrcError as error:
                error.locate(url=self.url)
                raise
            except BaseException as error:
                # Cancelled: perhaps some of the data was taken in, and perhaps not all of it.
                if not isinstance(error, Exception):
                    self._fail()
                raise

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Whatever leaves the block leaves the file incomplete: it can only be aborted."""
        try:
            yield
        except BaseException:
            self._fail()
            raise

    def _fail(self) -> None:
        if self._state == "open":
            self._state = "failed"


@lru_cache(maxsize=1)
def _software_version() -> str:
    return f"orcstream {version('orcstream')}"


def _with_header(header: bytes, pieces: Iterator[Any]) -> Iterator[Any]:
    if header:
        yield header
    yield from pieces


def metadata_of(metadata: Mapping[Any, Any]) -> dict[str, bytes]:
    """User metadata as files have it. Raises UsageError for anything but text and bytes."""
    if not isinstance(metadata, Mapping):
        raise UsageError(f"user metadata are a dictionary of bytes or text by name, not {metadata!r:.80}")
    found: dict[str, bytes] = {}
    for name, value in metadata.items():
        if not isinstance(name, str) or not isinstance(value, str | bytes):
            raise UsageError(f"user metadata are bytes or text by name, not {name!r}: {value!r:.80}")
        try:
            name.encode()
            found[name] = value.encode() if isinstance(value, str) else value
        except UnicodeEncodeError:
            raise UsageError(
                f"user metadata hold half of a surrogate pair: {name!r}: {value!r:.80}"
            ) from None
    return found
