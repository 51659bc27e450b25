"""Random histories of a table against a dictionary: after every step, and at every snapshot of the past."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from orcstream import CommitFailed, Unsupported, acid, col
from tests.generators.acid_tables import SCHEMA, rows_of
from tests.support.effort import share

IDS = st.integers(0, 60)
WIDTHS = st.integers(0, 20)


class GivenUp(Exception):
    """An error of the program that changes the table."""


class Histories(RuleBasedStateMachine):
    """A table that several programs change, compact and clean."""

    @initialize(partitioned=st.booleans())
    def create(self, partitioned: bool) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.url = str(self.folder / "table")
        self.loop = asyncio.Runner()
        self.rows: dict[int, str] = {}
        self.past: dict[int, dict[int, str]] = {0: {}}
        self.parts: dict[int, int | None] = {}  # which partition each row ever was in
        self.next_id = 0
        self.steps = 0
        self.oldest = 0
        partitions = {"part": "int"} if partitioned else None
        self.partitioned = partitioned
        self.run(acid.create_table(self.url, SCHEMA, partitions=partitions))

    def run(self, work: Any) -> Any:
        return self.loop.run(work)

    def data(self, ids: range, name: str) -> list[dict[str, Any]]:
        part = {"part": self.next_id % 3} if self.partitioned else {}
        self.parts.update(dict.fromkeys(ids, part.get("part")))
        return [{"id": one, "name": name, **part} for one in ids]

    def matching(self, first: int, width: int) -> list[int]:
        return [one for one in self.rows if first <= one <= first + width]

    def name(self) -> str:
        self.steps += 1
        return f"step {self.steps}"

    def remember(self, write_id: int) -> None:
        self.past[write_id] = dict(self.rows)

    # --- changes

    @rule(count=st.integers(1, 30), calls=st.integers(1, 3))
    def insert(self, count: int, calls: int) -> None:
        name = self.name()

        async def work() -> int:
            async with acid.open_table(self.url) as table, await table.transaction() as transaction:
                for _ in range(calls):
                    ids = range(self.next_id, self.next_id + count)
                    self.next_id += count
                    assert await transaction.insert(self.data(ids, name)) == count
                    self.rows.update(dict.fromkeys(ids, name))
                return transaction.write_id

        self.remember(self.run(work()))

    @rule(first=IDS, width=WIDTHS, again=IDS)
    def change(self, first: int, width: int, again: int) -> None:
        """Updates and deletes in one transaction, of which each sees what came before."""
        name = self.name()
        condition = col("id").between(first, first + width)

        async def work() -> int:
            async with acid.open_table(self.url) as table, await table.transaction() as transaction:
                updated = self.matching(first, width)
                assert await transaction.update({"name": name}, condition) == len(updated)
                self.rows.update(dict.fromkeys(updated, name))
                deleted = self.matching(again, 5)
                count = await transaction.delete(col("id").between(again, again + 5))
                assert count == len(deleted)
                for one in deleted:
                    del self.rows[one]
                return transaction.write_id

        self.remember(self.run(work()))

    @rule(count=st.integers(0, 20), part=st.integers(0, 2))
    def overwrite(self, count: int, part: int) -> None:
        self.run(self.overwritten(count, part))

    async def overwritten(self, count: int, part: int) -> None:
        """All rows are replaced, or those of one partition, perhaps by none."""
        name, ids = self.name(), range(self.next_id, self.next_id + count)
        self.next_id += count
        async with acid.open_table(self.url) as table, await table.transaction() as transaction:
            rows = [{"id": one, "name": name} for one in ids]
            partition = {"part": part} if self.partitioned else None
            assert await transaction.overwrite(rows, partition=partition) == count
        self.rows = {
            one: kept for one, kept in self.rows.items() if self.partitioned and self.parts[one] != part
        }
        self.rows.update(dict.fromkeys(ids, name))
        self.parts.update(dict.fromkeys(ids, part if self.partitioned else None))
        self.remember(transaction.write_id)

    @rule(first=IDS, width=WIDTHS)
    def delete_by_ids(self, first: int, width: int) -> None:
        async def work() -> int:
            async with acid.open_table(self.url) as table:
                columns = list(table.partition_columns)
                where = col("id").between(first, first + width)
                found = await table.read(columns=columns, where=where, row_ids=True)
                async with await table.transaction() as transaction:
                    gone = self.matching(first, width)
                    assert await transaction.delete_rows(found) == len(gone)
                    for one in gone:
                        del self.rows[one]
                    return transaction.write_id

        self.remember(self.run(work()))

    @rule(first=IDS)
    def give_up(self, first: int) -> None:
        async def work() -> None:
            async with acid.open_table(self.url) as table, await table.transaction() as transaction:
                await transaction.insert(self.data(range(1000, 1005), "never"))
                await transaction.delete(col("id") >= first)
                raise GivenUp

        try:
            self.run(work())
        except GivenUp:
            return
        raise AssertionError("the error was lost")

    @rule(counts=st.lists(st.integers(0, 9), min_size=1, max_size=3), transactions=st.integers(1, 3))
    def stream(self, counts: list[int], transactions: int) -> None:
        """Rows that are committed bit by bit; 0 is for some that are given up."""
        name = self.name()

        async def work() -> None:
            async with acid.open_table(self.url) as table, table.stream(transactions=transactions) as stream:
                for count in counts:
                    ids = range(self.next_id, self.next_id + count)
                    self.next_id += count
                    await stream.write(self.data(ids or range(1000, 1003), name))
                    if not count:
                        await stream.abort()
                        continue
                    self.rows.update(dict.fromkeys(ids, name))
                    self.remember(await stream.commit())
                assert await rows_of(self.url) == self.rows

        self.run(work())

    @rule(count=st.integers(1, 9), part=st.integers(0, 2))
    def stream_while_overwritten(self, count: int, part: int) -> None:
        """Between two transactions of one batch: the second fails if its rows go where that was."""
        name = self.name()

        async def work() -> None:
            async with acid.open_table(self.url) as table, table.stream(transactions=3) as stream:
                await stream.write(self.data(range(self.next_id, self.next_id + count), name))
                self.rows.update(dict.fromkeys(range(self.next_id, self.next_id + count), name))
                self.next_id += count
                self.remember(await stream.commit())
                await self.overwritten(count, part)
                ids = range(self.next_id, self.next_id + count)
                data = self.data(ids, name)
                self.next_id += count
                await stream.write(data)
                if data[0].get("part", part) == part:
                    with pytest.raises(CommitFailed, match=r"\boverwritten\b"):
                        await stream.commit()
                    await stream.abort()
                    await stream.write(data)
                write_id = await stream.commit()
                before = max(one for one in self.past if one < write_id)
                self.past[write_id] = dict(self.past[before])
                for then in [one for one in self.past if one >= write_id]:
                    self.past[then].update(dict.fromkeys(ids, name))
                self.rows.update(dict.fromkeys(ids, name))

        self.run(work())

    # --- what changes no row

    @rule(kind=st.sampled_from(["minor", "major"]))
    def compact(self, kind: Any) -> None:
        async def work() -> acid.Compaction:
            async with acid.open_table(self.url) as table:
                return await table.compact(kind)

        done = self.run(work())
        if done.transaction_id:
            self.past[done.transaction_id] = dict(self.rows)

    @precondition(lambda self: self.steps > 3)
    @rule()
    def clean(self) -> None:
        async def work() -> acid.Cleaned:
            async with acid.open_table(self.url) as table:
                return await table.clean(older_than_s=0)

        if self.run(work()).directories:
            self.oldest = max(self.past)  # what lies before may be gone, and must be said to be

    # --- what holds

    @invariant()
    def now_is_as_the_model(self) -> None:
        if hasattr(self, "url"):
            assert self.run(rows_of(self.url)) == self.rows

    @rule(data=st.data())
    def the_past_is_as_it_was(self, data: st.DataObject) -> None:
        then = data.draw(st.sampled_from(sorted(self.past)))
        try:
            found = self.run(rows_of(self.url, then))
        except Unsupported as error:
            assert (error.reason, then < self.oldest) == ("history_is_gone", True)  # noqa: PT017
        else:
            assert found == self.past[then]

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self.loop.close()
            shutil.rmtree(self.folder)


Histories.TestCase.settings = settings(
    max_examples=share(40),
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestHistories = pytest.mark.timeout(600)(Histories.TestCase)
