"""What records of a transaction log may say, and what becomes of those that say something else."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orcstream.acid.transactions.contract import TableDefinition, Work
from orcstream.acid.transactions.log import LOG_FOLDER, TransactionLog, create_log
from orcstream.acid.transactions.log_state import Entry, LogState
from orcstream.errors import FormatError, Unsupported, UsageError
from orcstream.schema.schema import Schema
from tests.generators.acid_logs import TABLE, delta, write


def values() -> st.SearchStrategy[Any]:
    leaves = st.none() | st.booleans() | st.integers(-2, 2**70) | st.text(max_size=5) | st.floats()
    return st.recursive(leaves, lambda inner: st.lists(inner, max_size=3), max_leaves=5)


def _mutants(record: Any) -> Iterator[Any]:
    """The paths to all values inside a record."""
    yield ()
    if isinstance(record, dict):
        for name, value in record.items():
            yield from ((name, *rest) for rest in _mutants(value))
    elif isinstance(record, list):
        for at, value in enumerate(record):
            yield from ((at, *rest) for rest in _mutants(value))


def _set(record: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copy = dict(record) if isinstance(record, dict) else list(record)
    copy[path[0]] = _set(record[path[0]], path[1:], value)
    return copy


async def make_records(folder: Path) -> None:
    """A log with a record of each kind that is read, in it all that a record may say."""
    log = await create_log(str(folder), TABLE)
    await write(log, deletes=True)
    await (await log.begin()).abort()
    compaction = await log.begin("compaction")
    await compaction.commit(Work(("country=DE/base_0000001_v0000003",), replaces=(delta(1),)))
    await log.removing([delta(1)])
    await log.clean()
    await write(log)
    await log.begin()


@pytest.fixture(scope="module")
def whole_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    asyncio.run(make_records(folder))
    return folder


@given(data=st.data())
def test_any_record_is_read_or_refused(
    whole_log: Path, tmp_path_factory: pytest.TempPathFactory, data: Any
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    shutil.copytree(whole_log, folder, dirs_exist_ok=True)

    async def run() -> None:
        name = data.draw(
            st.sampled_from(["table.json", *(f"{k}-{n:010}.json" for k, n in DAMAGED)]), label="record"
        )
        path = folder / LOG_FOLDER / name
        record = json.loads(path.read_text())
        if data.draw(st.integers(0, 4)) == 0:
            whole = path.read_bytes()
            cut = data.draw(st.integers(0, len(whole)))
            path.write_bytes(whole[:cut] + data.draw(st.binary(max_size=10)) + whole[cut + 3 :])
        else:
            at = data.draw(st.sampled_from(list(_mutants(record))))
            path.write_text(json.dumps(_set(record, at, data.draw(values()))))
        log = TransactionLog(str(folder))
        for call in (log.definition, log.snapshot, log.begin, log.clean):
            with suppress(FormatError, Unsupported):
                await call()

    asyncio.run(run())


DAMAGED = (("checkpoint", 4), ("entry", 5), ("claim", 5))


@pytest.mark.parametrize(
    ("name", "text", "fact"),
    [
        ("entry-0000000005.json", "[" * 100_000, r"/entry-0000000005\.json: "),
        ("checkpoint-9999999999.json", '{"version": 1}', r"/checkpoint-9999999999\.json: "),
        ("entry-9999999999.json", '{"version": 1}', r"\bentries\b"),
        ("claim-9999999999.json", '{"version": 1, "purpose": "write", "token": ""}', r"\b5 to 9999999999\b"),
        ("table.json", '{"version": 2}', r"/table\.json: .*\b2\b"),
    ],
)
async def test_hostile_records(tmp_path: Path, name: str, text: str, fact: str) -> None:
    await make_records(tmp_path)
    (tmp_path / LOG_FOLDER / name).write_text(text)
    log = TransactionLog(str(tmp_path))
    call = log.definition if name == "table.json" else log.snapshot
    with pytest.raises((FormatError, Unsupported), match=fact):
        await call()


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "..",
        "a/../b",
        "/etc",
        "a//b",
        ".",
        "..\\b",
        "C:b",
        "s3://b/k",
        "a::b",
        "%2e%2e/b",
        "a\0",
        "\ud800",
    ],
)
def test_paths_stay_below_the_table(path: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(path))):
        Entry.of({"id": 1, "outcome": "committed", "purpose": "write", "directories": [path]})


async def test_an_entry_that_is_missing_is_no_end_of_the_log(tmp_path: Path) -> None:
    log = await create_log(str(tmp_path), TABLE)
    for _ in range(3):
        await write(log)
    (tmp_path / LOG_FOLDER / "entry-0000000002.json").unlink()
    with pytest.raises(FormatError, match=r"\blog\b.*\bentries\b"):
        await TransactionLog(str(tmp_path)).snapshot()


@given(order=st.permutations(range(1, 9)), fates=st.lists(st.booleans(), min_size=8, max_size=8))
def test_a_checkpoint_says_what_its_entries_say(order: list[int], fates: list[bool]) -> None:
    state = LogState()
    for number in order:
        purpose: Any = "compaction" if number % 3 == 0 else "write"
        outcome: Any = "committed" if fates[number - 1] else "aborted"
        state = state.add(Entry(number, outcome, purpose, Work((delta(number),), ("country=DE",))))
        state = state.add(Entry(number, "aborted" if fates[number - 1] else "committed"))  # too late
    state = state.add(Entry(0, "removed", work=Work((delta(order[0]), delta(99)))))
    assert LogState.of(json.loads(json.dumps(state.record()))) == state
    assert [state.outcome(number) == "committed" for number in range(1, 9)] == fates
    assert state.open_up_to(10, most=10) == [9, 10]
    assert state.highest == 8


@pytest.mark.parametrize(
    "make",
    [
        lambda: TableDefinition(Schema.parse("int")),
        lambda: TableDefinition(Schema.parse("struct<a:int>"), (("A", "int"),)),
        lambda: TableDefinition(Schema.parse("struct<a:int>"), (("b", "array<int>"),)),
        lambda: TableDefinition(Schema.parse("struct<a:int>"), (("", "int"),)),
        lambda: TableDefinition(Schema.parse("struct<a:int>"), bucket_columns=("a",)),
        lambda: TableDefinition(Schema.parse("struct<a:int>"), bucket_columns=("b",), bucket_count=2),
        lambda: TableDefinition(Schema.parse("struct<a:int>"), bucket_columns=("a",), bucket_count=5000),
    ],
)
def test_tables_that_cannot_be(make: Callable[[], TableDefinition]) -> None:
    with pytest.raises(UsageError):
        make()
