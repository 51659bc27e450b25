"""Tables of before Hive 3, compacted: updates and deletes stand beside inserts, with keys of older rows."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyorc
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from orcstream import acid
from orcstream.acid import WriteIds, open_table
from orcstream.acid.compact import sorting
from orcstream.acid.transactions.contract import TableDefinition, Work
from orcstream.acid.transactions.log import TransactionLog, create_log
from orcstream.errors import Unsupported
from orcstream.schema.schema import Schema
from tests.generators.acid import DELETE, INSERT, NAMES, ROWS, UPDATE, Event, put_events
from tests.generators.acid_history import History, Options
from tests.generators.acid_logs import keep_history
from tests.support.effort import share

Kind = Literal["minor", "major"]
KINDS: tuple[Kind, ...] = ("minor", "major")
OPTIONS = (
    Options(version=1, visibilities=False, originals=True),
    Options(version=1, visibilities=False, partitions=("p=1", "p=2"), steps=5),
    Options(version=1, compactions=False, buckets=1),
)


async def rows_of(folder: Path, ids: WriteIds | int | None = None, **asked: Any) -> Counter[str]:
    async with open_table(folder, write_ids=ids, schema=ROWS) as table:
        found = pa.table(await table.read(row_ids=True, **asked)).to_pylist()
    for row in found:
        bucket = row["row__id"]["bucketid"]
        row["row__id"]["bucketid"] = bucket if bucket >> 29 == 1 else 1 << 29 | bucket << 16
    return Counter(map(str, found))


def are_in_order(path: Path) -> bool:
    """As Hive merges them: by key, the newest of a key first."""
    with path.open("rb") as file:
        rows = [row[:5] for row in pyorc.Reader(file)]
    places = [(*key, -version) for _, *key, version in rows]
    return places == sorted(places) and len(set(places)) == len(places)


@pytest.mark.parametrize("options", OPTIONS, ids=range(len(OPTIONS)))
@given(st.integers(0, 1 << 30), st.sampled_from(KINDS))
@example(504, "minor")  # statements of one write id that Hive 2 brought together
@settings(max_examples=share(30), deadline=None)
async def test_histories_are_compacted(options: Options, seed: int, kind: Kind) -> None:
    """What was read before is read after it, at each snapshot that is still there."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        history = History(folder, seed, options)
        await keep_history(folder, history, (("p", "int"),) if options.partitions[0] else ())
        there = [ids.high_watermark for ids in history.snapshots() if not history.is_gone(ids)]
        snapshots = [there[-1], *random.Random(seed).sample(there[:-1], min(2, len(there) - 1))]
        before = {ids: await rows_of(folder, ids) for ids in snapshots}
        async with open_table(folder, schema=ROWS) as table:
            done = await table.compact(kind)
        for one in done.partitions:
            for directory in one.directories:
                assert all(map(are_in_order, (folder / directory).glob("bucket_*")))
        assert {ids: await rows_of(folder, ids) for ids in snapshots} == before
        async with open_table(folder, schema=ROWS) as table:
            await table.clean(older_than_s=0)
        # Compactions that a history brings with it are not in the log, which cannot say what is gone then.
        for ids in snapshots[: 1 if options.compactions else None]:
            try:
                assert await rows_of(folder, ids) == before[ids]
            except Unsupported as error:
                assert (error.reason, ids < history.last) == ("history_is_gone", True)  # noqa: PT017


# --- by hand


def event(operation: int, write_id: int, row_id: int, written: int, text: str = "") -> Event:
    row = None if operation == DELETE else {"k": row_id, "v": text}
    return Event(operation, (write_id, 0, row_id), written, row)


async def make(folder: Path, *deltas: Sequence[Event]) -> None:
    """A delta for each write id; tuples are statements of one."""
    log = await create_log(str(folder), TableDefinition(Schema.parse(ROWS)))
    for write_id, events in enumerate(deltas, 1):
        name = f"delta_{write_id:07d}_{write_id:07d}_0000"
        put_events(folder / name / "bucket_00000", events)
        await (await log.begin()).commit(Work((name,)))


HISTORY = (
    [event(INSERT, 1, row, 1, "first") for row in range(6)],
    [event(UPDATE, 1, 1, 2, "second"), event(DELETE, 1, 2, 2), event(INSERT, 2, 0, 2, "new")],
    [event(UPDATE, 1, 1, 3, "third"), event(UPDATE, 2, 0, 3, "newer"), event(DELETE, 1, 4, 3)],
)


async def test_a_minor_compaction_keeps_events(tmp_path: Path) -> None:
    await make(tmp_path, *HISTORY)
    before = [await rows_of(tmp_path, ids) for ids in range(1, 4)]
    async with open_table(tmp_path) as table:
        changes = (await changes_of(table)).elements()
        (done,) = (await table.compact("minor")).partitions
    assert done.row_count == sum(map(len, HISTORY))
    (path,) = done.directories
    # It is no directory of Hive 3 or later, whose readers know no updates.
    assert sorted(one.name for one in (tmp_path / path).iterdir()) == ["bucket_00000"]
    with (tmp_path / path / "bucket_00000").open("rb") as file:
        reader = pyorc.Reader(file)
        assert reader.user_metadata["hive.acid.stats"] == b"7,3,2"
        assert "hive.acid.version" not in reader.user_metadata
        assert [row[5] for row in reader if row[0] == DELETE] == [None, None]
    async with open_table(tmp_path) as table:
        await table.clean(older_than_s=0)
        assert sorted((await changes_of(table)).elements()) == sorted(changes)
    assert [await rows_of(tmp_path, ids) for ids in range(1, 4)] == before


async def changes_of(table: acid.AcidTable) -> Counter[str]:
    async with table.changes(1) as stream:
        return Counter([str(row) async for batch in stream for row in batch.to_pylist()])


async def test_a_major_compaction_makes_a_base_of_today(tmp_path: Path) -> None:
    await make(tmp_path, *HISTORY)
    now = await rows_of(tmp_path)
    async with open_table(tmp_path) as table:
        (done,) = (await table.compact("major")).partitions
        await table.clean(older_than_s=0)
    (path,) = done.directories
    assert (tmp_path / path / "_orc_acid_version").read_text() == "2"
    with (tmp_path / path / "bucket_00000").open("rb") as file:
        reader = pyorc.Reader(file)
        assert reader.user_metadata["hive.acid.stats"] == b"5,0,0"
        assert reader.user_metadata["hive.acid.key.index"] == b"2,0,0;"
        assert [row[:5] for row in reader] == [
            (INSERT, 1, 0, 0, 1),
            (INSERT, 1, 0, 1, 3),
            (INSERT, 1, 0, 3, 1),
            (INSERT, 1, 0, 5, 1),
            (INSERT, 2, 0, 0, 3),
        ]
    assert await rows_of(tmp_path) == now
    async with open_table(tmp_path) as table, await table.transaction() as change:
        assert await change.update({"v": "of today"}) == 5
    async with open_table(tmp_path) as table:
        assert (await table.read(columns=["v"])).to_pylist() == [{"v": "of today"}] * 5


@pytest.mark.parametrize("kind", KINDS)
async def test_of_one_transaction_what_was_done_last_is_kept(kind: Kind, tmp_path: Path) -> None:
    log = await create_log(str(tmp_path), TableDefinition(Schema.parse(ROWS)))
    statements = (
        [event(INSERT, 1, row, 1, "inserted") for row in range(4)],
        [event(UPDATE, 1, 1, 1, "updated"), event(UPDATE, 1, 2, 1, "updated")],
        [event(DELETE, 1, 2, 1), event(UPDATE, 1, 1, 1, "again")],
    )
    names = [f"delta_0000001_0000001_{number:04d}" for number in range(3)]
    for name, events in zip(names, statements, strict=True):
        put_events(tmp_path / name / "bucket_00000", events)
    await (await log.begin()).commit(Work(tuple(names)))
    before = await rows_of(tmp_path)
    assert len(before) == 3
    async with open_table(tmp_path) as table:
        await table.compact(kind)
        await table.clean(older_than_s=0)
    assert await rows_of(tmp_path) == before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("memory_limit", [1 << 14, 1 << 28])
async def test_files_out_of_order(
    kind: Kind,
    memory_limit: int,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sorted in memory, or on disk and merged more than once."""
    temporary = tmp_path_factory.mktemp("temporary")  # others use the usual one at the same time
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setattr(sorting, "_FAN_IN", 3)
    monkeypatch.setattr(sorting, "_WINDOW_ROWS", 100)
    log = await create_log(str(tmp_path), TableDefinition(Schema.parse(ROWS)))
    rng = random.Random(1)
    for write_id in (1, 2):
        rows = [
            (INSERT, write_id, 1 << 29, row, write_id, {"k": row, "v": "x" * rng.randrange(20)})
            for row in range(3000)
        ]
        rng.shuffle(rows)
        path = tmp_path / f"delta_{write_id:07d}_{write_id:07d}_0000" / "bucket_00000"
        path.parent.mkdir()
        kinds = ("int", "bigint", "int", "bigint", "bigint", ROWS)
        schema = ",".join(f"{name}:{kind}" for name, kind in zip(NAMES, kinds, strict=True))
        with (
            path.open("wb") as file,
            pyorc.Writer(file, f"struct<{schema}>", struct_repr=pyorc.StructRepr.DICT) as writer,
        ):
            writer.writerows(dict(zip(NAMES, row, strict=True)) for row in rows)
        (path.parent / "_orc_acid_version").write_text("2")
        await (await log.begin()).commit(Work((path.parent.name,)))
    before = await rows_of(tmp_path)
    told: list[int] = []
    async with open_table(tmp_path) as table:
        (done,) = (await table.compact(kind, memory_limit=memory_limit, on_rows=told.append)).partitions
        await table.clean(older_than_s=0)
    assert done.row_count == told[-1] == 6000
    assert are_in_order(tmp_path / done.directories[0] / "bucket_00000")
    assert await rows_of(tmp_path) == before
    assert list(temporary.iterdir()) == []


async def test_the_log_is_kept(tmp_path: Path) -> None:
    """What `keep_history` says is what a history is read as."""
    history = History(tmp_path, 5, OPTIONS[0])
    await keep_history(tmp_path, history)
    found = (await TransactionLog(str(tmp_path)).snapshot()).write_ids
    assert found == WriteIds(history.last, tuple(history.open), tuple(sorted(history.aborted)))
