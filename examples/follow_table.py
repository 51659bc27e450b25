"""Change capture: keeps a copy of a transactional table in SQLite, by reading only what changed.

    python examples/follow_table.py s3://bucket/orders copy.db          # until Ctrl-C
    python examples/follow_table.py s3://bucket/orders copy.db --once   # up to now

The changes of some transactions, and the position after them, go into SQLite in one transaction of its own.
So a follower that was stopped, failed or was killed goes on where it was: nothing twice, nothing left out.
The first time, and where a compaction has taken the place of the changes, the whole table is copied.

Rows of a partition are known by their ids (`row__id`), which never change and are never used again: a delete
finds its row whatever the order in which changes come. For tables of Hive 3 and later, and those that
`orcstream.acid` made.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Any

from orcstream import Unsupported, acid

DELETE = 2
KEY = "_partition, _write_id, _bucket, _row"


class Copy:
    """The rows by their ids, and `position`: the write id up to which they are those of the table."""

    def __init__(self, path: str) -> None:
        self._db = sqlite3.connect(path)
        self._db.execute("create table if not exists position (write_id integer)")
        self._db.execute(f"create table if not exists rows ({KEY}, primary key ({KEY}))")
        self._db.execute(f"create temporary table deleted ({KEY})")

    @property
    def position(self) -> int | None:
        found = self._db.execute("select write_id from position").fetchone()
        return None if found is None else int(found[0])

    async def take(
        self, stream: acid.TableStream, partition_columns: Sequence[str], position: int, *, anew: bool = False
    ) -> int:
        """All rows or changes of the stream, or nothing; answers how many."""
        count = 0
        try:
            if anew:
                self._db.execute("delete from rows")
            async with stream:
                async for batch in stream:
                    self._add(batch.to_pylist(), partition_columns)
                    count += batch.num_rows
            # Only now, because a delete may come before the insert that it is about.
            self._db.execute(f"delete from rows where ({KEY}) in (select {KEY} from deleted)")
            self._db.execute("delete from deleted")
            self._db.execute("delete from position")
            self._db.execute("insert into position values (?)", (position,))
            self._db.commit()
        finally:
            self._db.rollback()  # what was not committed
        return count

    def _add(self, rows: list[dict[str, Any]], partition_columns: Sequence[str]) -> None:
        names = [name for name in rows[0] if name not in ("row__id", "operation", "write_id")]
        self._add_columns(names)
        inserts, deletes = [], []
        for row in rows:
            partition = json.dumps([row[name] for name in partition_columns], default=str)
            key = (partition, *row["row__id"].values())
            if row.get("operation") == DELETE:
                deletes.append(key)
            else:
                inserts.append(key + tuple(_value(row[name]) for name in names))
        columns = ", ".join([KEY, *map(_quoted, names)])
        places = ", ".join("?" * (4 + len(names)))
        self._db.executemany(f"insert into rows ({columns}) values ({places})", inserts)
        self._db.executemany("insert into deleted values (?, ?, ?, ?)", deletes)

    def _add_columns(self, names: Iterable[str]) -> None:
        known = {row[1] for row in self._db.execute("pragma table_info(rows)")}
        for name in names:
            if name not in known:
                self._db.execute(f"alter table rows add column {_quoted(name)}")

    def close(self) -> None:
        self._db.close()


async def catch_up(url: str, copy: Copy, options: dict[str, Any] | None = None) -> int:
    """Bring the copy up to what is committed; answers how many rows or changes that took."""
    async with acid.open_table(url, storage_options=options) as table:
        # A transaction that is open may commit after others with higher ids: the copy stays below it.
        seen = table.write_ids
        last = min(seen.open, default=seen.high_watermark + 1) - 1
        if copy.position == last:
            return 0
        if copy.position is not None:
            try:
                return await copy.take(table.changes(copy.position + 1, last), table.partition_columns, last)
            except Unsupported as error:
                if error.reason != "history_is_gone":
                    raise
    whole = acid.WriteIds(last, aborted=seen.aborted)
    async with acid.open_table(url, write_ids=whole, storage_options=options) as table:
        return await copy.take(table.batches(row_ids=True), table.partition_columns, last, anew=True)


async def follow(
    url: str, path: str, *, once: bool, poll_s: float = 5.0, options: dict[str, Any] | None = None
) -> None:
    # A table that is open keeps the connections to the store from one look to the next.
    async with acid.open_table(url, storage_options=options):
        with closing(Copy(path)) as copy:
            while True:
                count = await catch_up(url, copy, options)
                if count or once:
                    print(f"{count:,} rows or changes, up to write id {copy.position}", flush=True)
                if once:
                    return
                await asyncio.sleep(poll_s)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _value(value: Any) -> Any:
    """What SQLite has no type for becomes text."""
    if value is None or isinstance(value, int | float | str | bytes):
        return value
    return json.dumps(value, default=str) if isinstance(value, list | dict) else str(value)


def main() -> None:
    parser = argparse.ArgumentParser(description="a copy of a transactional table that is kept up to date")
    parser.add_argument("url")
    parser.add_argument("database", help="the file of SQLite")
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--poll-s", type=float, default=5.0)
    parser.add_argument("--storage-options", type=json.loads, metavar="JSON")
    given = parser.parse_args()
    follow_it = follow(
        given.url, given.database, once=given.once, poll_s=given.poll_s, options=given.storage_options
    )
    asyncio.run(follow_it)


if __name__ == "__main__":
    main()
