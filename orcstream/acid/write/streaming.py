"""Rows that keep arriving: written to a table in small transactions, one after the other, as Hive streams.

Knows when a batch of transactions begins and ends, and what is done at each commit. Must not know how ids are
given (`acid.transactions`), how files grow, nor where rows go. For one task at a time.

A batch has as many write ids as transactions, one following the other, and one directory in each partition.
At each commit the files are flushed, and the transaction is committed then: readers go by the length that was
flushed last, and leave out events whose write id they do not see. What a transaction wrote that was aborted
stays in the files, for a compaction to drop.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from types import TracebackType
from typing import Any, Self, TypeAlias

from orcstream.acid.transactions.contract import (
    MOST_TRANSACTIONS,
    TableDefinition,
    Transaction,
    TransactionBatch,
    Transactions,
    Work,
    check_encryption,
    kept_alive,
)
from orcstream.acid.write.delta_files import DeltaFiles
from orcstream.acid.write.placing import Placing
from orcstream.errors import Unsupported, UsageError, located
from orcstream.io.append_sink import check_appendable
from orcstream.io.loop.tasks import Closable, OneTask, Pending
from orcstream.io.loop.uncancelled import clean_up, until_over

_NOT_GIVEN_UP = "what was not committed could not be given up"

# Raises where what a transaction is about to commit would be hidden.
_Check: TypeAlias = Callable[[Transaction, Work], Awaitable[None]]


class WritingStream(Pending["StreamingWriter"]):
    """A stream about to be begun: await it, or enter it."""

    made_by = "acid.AcidTable.stream"

    def __init__(
        self,
        url: str,
        place: str,
        transactions: Transactions,
        make_files: Callable[[TableDefinition, range], DeltaFiles],
        check: _Check,
        count: int,
        partition: Mapping[str, Any] | None,
        storage_options: Mapping[str, Any] | None,
        *,
        is_encrypted: bool = False,
        hidden: Sequence[str | tuple[str, ...]] = (),
    ) -> None:
        super().__init__()
        if type(count) is not int or not 1 <= count <= MOST_TRANSACTIONS:
            raise UsageError(f"a batch has 1 to {MOST_TRANSACTIONS} transactions, not {count!r}", url=url)
        self._url = url
        self._place = place
        self._transactions = transactions
        self._make_files = make_files
        self._check = check
        self._count = count
        self._partition = partition
        self._storage_options = storage_options
        self._is_encrypted = is_encrypted
        self._hidden = hidden

    async def _make(self) -> StreamingWriter:
        with located(url=self._url):
            definition = await self._transactions.definition()
            check_encryption(definition, is_encrypted=self._is_encrypted)
            if self._count > 1:
                check_appendable(self._place, storage_options=self._storage_options)
                if definition.insert_only:
                    raise Unsupported(
                        "files of a table that only takes inserts do not tell its transactions apart: "
                        "stream to it with transactions=1",
                        reason="insert_only",
                    )
            placing = Placing(definition, self._hidden)
            if self._partition is not None:
                placing.path_of(self._partition)  # raises for what is none
        return StreamingWriter(
            self._url,
            self._transactions,
            placing,
            lambda write_ids: self._make_files(definition, write_ids),
            self._check,
            self._count,
            self._partition,
        )


class StreamingWriter(Closable):
    """Rows of one table that keep arriving; made by `AcidTable.stream`.

    ``await stream.write(rows)`` and, now and then, ``await stream.commit()``: from then on the rows are
    there, for all who open the table. At the end of its block it commits what is left; an error that leaves
    the block gives that up. What was committed before stays.
    """

    def __init__(
        self,
        url: str,
        transactions: Transactions,
        placing: Placing,
        make_files: Callable[[range], DeltaFiles],
        check: _Check,
        count: int,
        partition: Mapping[str, Any] | None,
    ) -> None:
        self._url = url
        self._transactions = transactions
        self._placing = placing
        self._make_files = make_files
        self._check = check
        self._count = count
        self._partition = partition
        self._batch: _Batch | None = None
        self._is_closed = False
        self._one_task = OneTask("two tasks use one stream", url)

    # --- facts

    @property
    def write_id(self) -> int:
        """The id of the rows that are written now; 0 where none was written since the last commit."""
        current = None if self._batch is None else self._batch.current
        return 0 if current is None else current.write_id

    @property
    def write_ids(self) -> range:
        """The ids of the batch that is open; none before the first row, and where a batch has ended."""
        return range(0) if self._batch is None else self._batch.write_ids

    # --- rows

    async def write(self, data: object) -> int:
        """Write rows; answers how many. They are there for others after the next `commit`.

        `data` is what `OrcWriter.write` takes. Of a partitioned table it has the partition columns, unless
        the stream was given a partition. Raises `SchemaMismatch` for data that does not fit; where part of it
        was written when that was found, or the store failed, only `abort` is left of the transaction.
        """
        async with self._use():
            batch = await self._begun()
            batch.check_usable(self._url)
            count, before = 0, batch.files.write_count
            try:
                async for one in self._placing.placed(data, self._partition):
                    await batch.lock(one.partition)
                    await batch.files.insert(one.partition, one.bucket, one.rows)
                    count += one.rows.row_count
            except BaseException:
                # Half of a call must not count.
                batch.is_failed |= batch.files.write_count > before
                raise
            return count

    async def commit(self) -> int:
        """Let others see what was written since the last commit; answers its write id, 0 where nothing was.

        May be called again after `CommitUnknown`. Raises `CommitFailed` where the transaction was given up by
        others because it had not shown a sign of life for too long, or where somebody has overwritten a
        partition that rows were written to since the batch began; after that, and after any other error,
        `abort`, and write the rows again.
        """
        async with self._use():
            batch = self._batch
            if batch is None or batch.current is None:
                return 0
            batch.check_usable(self._url)
            return await batch.commit()

    async def abort(self) -> None:
        """Give up what was written since the last commit. Not cancelled."""
        async with self._use():
            await self._abort()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """``async with stream.transaction(): ...``: commit at the end of the block, abort on an error."""
        if self.write_id:
            raise UsageError("rows were written that are not committed yet", url=self._url)
        try:
            yield self
            await self.commit()
        except BaseException as error:
            await clean_up(error, self.abort, _NOT_GIVEN_UP)
            raise

    # --- life time

    async def aclose(self) -> None:
        """Give up what was not committed, and end; may be called again."""
        if not self._is_closed:
            async with self._use():
                self._is_closed = True
                try:
                    await self._abort()
                finally:
                    await self._end_batch()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            await clean_up(error, self.aclose, _NOT_GIVEN_UP)
            return
        try:
            if not self._is_closed:
                await self.commit()
        except BaseException as failure:
            await clean_up(failure, self.aclose, _NOT_GIVEN_UP)
            raise
        await self.aclose()

    # --- helpers

    @asynccontextmanager
    async def _use(self) -> AsyncIterator[None]:
        with self._one_task, located(url=self._url):
            if self._is_closed:
                raise UsageError("the stream is closed")
            yield

    async def _begun(self) -> _Batch:
        """The batch, in the middle of a transaction."""
        if self._batch is not None and self._batch.is_over:
            await self._end_batch()
        if self._batch is None:
            ids = await self._transactions.begin_batch(self._count)
            self._batch = await _Batch.begun(ids, self._make_files, self._check)
        if self._batch.current is None:
            self._batch.go_on()
        return self._batch

    async def _abort(self) -> None:
        if self._batch is not None:
            await self._batch.abort()

    async def _end_batch(self) -> None:
        batch, self._batch = self._batch, None
        if batch is not None:
            await batch.end()


class _Batch:
    """Transactions of one batch, and their files. `current` is the one that rows are written in."""

    def __init__(
        self, ids: TransactionBatch, make_files: Callable[[range], DeltaFiles], check: _Check
    ) -> None:
        self._ids = ids
        self._check = check
        self._left = iter(ids.transactions)
        self._left_count = len(ids.transactions)
        first = ids.transactions[0].write_id
        self.write_ids = range(first, first + self._left_count)
        self.files = make_files(self.write_ids)
        self.current: Transaction | None = None
        self._alive = AsyncExitStack()
        self._locked: set[str] = set()
        self._commit_count = 0
        self.is_failed = False  # what the current one wrote is not all that it was to write
        self._is_checked = self._is_broken = False

    @classmethod
    async def begun(
        cls, ids: TransactionBatch, make_files: Callable[[range], DeltaFiles], check: _Check
    ) -> Self:
        """One that gives signs of life until its end."""
        batch = cls(ids, make_files, check)
        await batch._alive.enter_async_context(kept_alive(ids))
        return batch

    @property
    def is_over(self) -> bool:
        """Whether no transaction of it can be begun any more."""
        return self.current is None and (self._is_broken or not self._left_count or self.files.is_full)

    def check_usable(self, url: str) -> None:
        if self.is_failed:
            raise UsageError("a write of the transaction failed half-way: abort it", url=url)

    def go_on(self) -> None:
        """Begin its next transaction."""
        self.current = next(self._left)
        self._left_count -= 1
        self._locked.clear()
        self._is_checked = False
        self.files.go_on(self.current.write_id)

    async def lock(self, partition: str) -> None:
        """Say that rows are going to be inserted."""
        assert self.current is not None
        if partition not in self._locked:
            await self.current.lock("insert", [partition])
            self._locked.add(partition)

    async def commit(self) -> int:
        """Let the rows of the current transaction count; answers its write id."""
        current = self.current
        assert current is not None
        try:
            await self.files.flush()
        except BaseException:
            self.is_failed = True
            raise
        work = Work(self.files.written)
        try:
            if not self._is_checked:
                await self._check(current, work)
                self._is_checked = True
            await current.commit(work)
        except BaseException:
            # Others have given it up, or overwritten what is there, with all of the batch; or who knows.
            self._is_broken = True
            raise
        self._ended(is_committed=True)
        return current.write_id

    async def abort(self) -> None:
        """Give up the current transaction, unless it was committed. Not cancelled."""
        if self.current is None:
            return
        # Files that failed cannot go on; and while it is not known what became of it, nothing may follow.
        self._is_broken |= self.is_failed
        self.is_failed = True
        await until_over(self._give_up(self.current))

    async def _give_up(self, current: Transaction) -> None:
        self._ended(is_committed=await current.abort() == "committed")

    def _ended(self, *, is_committed: bool) -> None:
        self.current, self.is_failed = None, False
        self._commit_count += is_committed

    async def end(self) -> None:
        """Complete the files, and give up the transactions that are left."""
        async with self._alive:
            try:
                if self._is_broken or self.current is not None or not self._commit_count:
                    await self.files.abort_open()
                else:
                    await self.files.end_statement()
            finally:
                await until_over(self._give_up_rest())

    async def _give_up_rest(self) -> None:
        await self._ids.abort()
        # Of one of which nobody knows whether it was committed, everything stays.
        if not self._commit_count and self.current is None:
            await self.files.discard()
