"""Compaction of transactional tables by tasks: as on one machine; nothing of it if it fails or is killed."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from shutil import copytree
from typing import Any, Literal, TypeVar

import pytest
from pyspark.sql import SparkSession

from orcstream import acid, col
from orcstream.acid.compact import compacting
from orcstream.acid.transactions.contract import kept_alive
from orcstream.acid.transactions.log import TransactionLog
from orcstream.cli.main import main
from orcstream.encryption import Encrypt
from orcstream.errors import CommitFailed, KeyUnavailable, UsageError
from orcstream.io.keys import open_keys
from orcstream.spark import jobs
from orcstream.spark.access import Access, run
from orcstream.spark.jobs.acid_compaction import TableToCompact, compact_table_with
from orcstream.spark.jobs.distributing import SparkTasks
from tests.generators.acid_history import History, Options
from tests.generators.acid_logs import keep_history
from tests.servers.loopback import MotoServer, moto_server
from tests.spark.killer import Killed, Killer
from tests.support.effort import STEP

__all__ = ["moto_server"]

U = TypeVar("U")
R = TypeVar("R")
Kind = Literal["minor", "major"]
KINDS: tuple[Kind, ...] = ("minor", "major")
COUNTRIES = ("DE", "FR", "IT")
SCHEMA = "struct<id:bigint,name:string>"


def here(label: str, units: Sequence[U], work: Callable[[U], R]) -> list[R]:
    """All work in this process; units, work and answers go through pickle, as Spark's do."""
    assert label
    sent: list[U] = pickle.loads(pickle.dumps(list(units)))
    answers: list[R] = pickle.loads(pickle.dumps([pickle.loads(pickle.dumps(work))(unit) for unit in sent]))
    return answers


def twice_at_once(label: str, units: Sequence[U], work: Callable[[U], R]) -> list[R]:
    """Each unit by two attempts at the same time."""
    assert label
    with ThreadPoolExecutor(2) as threads:
        pairs = [list(threads.map(work, [unit, unit])) for unit in units]
    assert all(first == second for first, second in pairs)
    return [first for first, _ in pairs]


async def _make(url: str, *, partitions: bool = True, insert_only: bool = False) -> None:
    columns = {"country": "string"} if partitions else None
    await acid.create_table(url, SCHEMA, partitions=columns, insert_only=insert_only)
    async with acid.open_table(url) as table:
        for number in range(3):
            rows = [
                {"id": number * 30 + one, "name": f"row {one}", "country": COUNTRIES[one % 3]}
                for one in range(30)
            ]
            if not partitions:
                rows = [{"id": row["id"], "name": row["name"]} for row in rows]
            async with await table.transaction() as change:
                await change.insert(rows)
        if not insert_only:
            async with await table.transaction() as change:
                await change.update({"name": "new"}, col("id") < 10)
            async with await table.transaction() as change:
                await change.delete(col("id").between(5, 40))


def make(url: Path, **options: Any) -> str:
    run(partial(_make, str(url), **options))
    return str(url)


async def _rows(url: str, row_ids: bool, write_id: int | None) -> list[Any]:
    async with acid.open_table(url, write_ids=write_id) as table:
        rows = (await table.read(row_ids=row_ids)).to_pylist()
    return sorted(rows, key=lambda row: row["id"])


def rows_of(url: str, *, row_ids: bool = True, write_id: int | None = None) -> list[Any]:
    return run(partial(_rows, url, row_ids, write_id))


async def _on_one_machine(url: str, kind: Kind) -> acid.Compaction:
    async with acid.open_table(url) as table:
        return await table.compact(kind)


async def _changes(url: str) -> list[Any]:
    async with acid.open_table(url) as table:
        events = [row async for batch in table.changes(0) for row in batch.to_pylist()]
    return sorted(map(str, events))


async def _clean(url: str) -> None:
    async with acid.open_table(url) as table:
        await table.clean(older_than_s=0)


def files_of(url: str) -> list[str]:
    """All but the log."""
    found = (path.relative_to(url).as_posix() for path in Path(url).rglob("*") if path.is_file())
    return sorted(path for path in found if not path.startswith("_"))


# --- without Spark ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("options", "distribute"),
    [({}, twice_at_once), ({"partitions": False}, here), ({"insert_only": True}, here)],
)
def test_as_on_one_machine(tmp_path: Path, kind: Kind, options: Any, distribute: Any) -> None:
    url = make(tmp_path / "table", **options)
    other = str(copytree(url, tmp_path / "other"))
    has_ids = not options.get("insert_only")
    before = rows_of(url, row_ids=has_ids)
    expected = run(partial(_on_one_machine, other, kind))
    done = compact_table_with(distribute, TableToCompact(url, kind))
    assert done.partitions == expected.partitions
    assert done.transaction_id == expected.transaction_id > 0
    assert files_of(url) == files_of(other)
    assert rows_of(url, row_ids=has_ids) == before
    if kind == "minor" and has_ids:
        assert run(partial(_changes, url)) == run(partial(_changes, other))
    run(partial(_clean, url))
    assert rows_of(url, row_ids=has_ids) == before
    assert compact_table_with(distribute, TableToCompact(url, kind)).partitions == ()


@pytest.mark.parametrize("kind", KINDS)
def test_tables_of_before_hive_3(tmp_path: Path, kind: Kind) -> None:
    """Updates beside inserts: each task sorts its bucket."""
    history = History(tmp_path / "table", 24, Options(version=1, compactions=False))
    assert history.open == []
    run(partial(keep_history, tmp_path / "table", history))
    url, other = str(tmp_path / "table"), str(copytree(tmp_path / "table", tmp_path / "other"))
    before = sorted(map(str, run(partial(_read, url))))
    run(partial(_on_one_machine, other, kind))
    (done,) = compact_table_with(here, TableToCompact(url, kind)).partitions
    run(partial(_clean, url))
    assert done.row_count
    assert sorted(map(str, run(partial(_read, url)))) == before != []
    assert run(partial(_read, url)) == run(partial(_read, other))


async def _read(url: str) -> list[Any]:
    async with acid.open_table(url) as table:
        return (await table.read(row_ids=True)).to_pylist()


def test_partitions(tmp_path: Path) -> None:
    url = make(tmp_path / "table")
    done = compact_table_with(here, TableToCompact(url, "major", ["country=FR"]))
    assert [one.path for one in done.partitions] == ["country=FR"]
    with pytest.raises(UsageError, match="'country=US'"):
        compact_table_with(here, TableToCompact(url, "major", ["country=US"]))
    with pytest.raises(UsageError, match=r"\bminor\b.*\bmajor\b"):
        compact_table_with(here, TableToCompact(url, "all"))  # type: ignore[arg-type]


def test_a_task_s_values_are_those_of_its_bucket_alone(tmp_path: Path) -> None:
    url = make(tmp_path / "table")
    seen: list[acid.CompactionPiece] = []

    def look(label: str, units: Sequence[U], work: Callable[[U], R]) -> list[R]:
        seen.extend(units)  # type: ignore[arg-type]
        return here(label, units, work)

    compact_table_with(look, TableToCompact(url, "major"))
    assert len(seen) == len(COUNTRIES)
    for piece in seen:
        (partition,) = piece.snapshot.partitions
        assert set(piece.snapshot.listing.files) == {
            file.path for file in (*partition.inserts, *partition.deletes)
        }
        assert piece.path.startswith(f"{partition.path}/base_")
        assert url not in repr(piece)


def test_a_job_that_fails_leaves_nothing(tmp_path: Path) -> None:
    url = make(tmp_path / "table")
    before, files = rows_of(url), files_of(url)

    def failing(label: str, units: Sequence[U], work: Callable[[U], R]) -> list[R]:
        here(label, units[:-1], work)
        assert len(files_of(url)) > len(files)
        raise OSError("the executor is gone")

    for kind in KINDS:
        with pytest.raises(OSError, match="is gone") as error:
            compact_table_with(failing, TableToCompact(url, kind))
        assert not hasattr(error.value, "__notes__")
        assert files_of(url) == files
        assert rows_of(url) == before
    assert run(TransactionLog(url).snapshot).transactions.open == ()
    assert compact_table_with(here, TableToCompact(url, "major")).partitions


def test_two_jobs_at_once(tmp_path: Path) -> None:
    """The first one to commit wins, and the other leaves nothing."""
    url = make(tmp_path / "table")
    before = rows_of(url)

    def slower(label: str, units: Sequence[U], work: Callable[[U], R]) -> list[R]:
        compact_table_with(here, TableToCompact(url, "major"))
        return here(label, units, work)

    with pytest.raises(CommitFailed):
        compact_table_with(slower, TableToCompact(url, "major"))
    assert rows_of(url) == before
    assert len({path.split("/")[1] for path in files_of(url) if "base_" in path}) == 1


def test_attempts_after_the_commit_change_nothing(tmp_path: Path) -> None:
    url = make(tmp_path / "table")
    late: list[Callable[[], Any]] = []

    def with_stragglers(label: str, units: Sequence[U], work: Callable[[U], R]) -> list[R]:
        late.extend(partial(work, unit) for unit in units)
        return here(label, units, work)

    done = compact_table_with(with_stragglers, TableToCompact(url, "major"))
    made = [path for path in Path(url).rglob("bucket_*") if "base_" in str(path)]
    states = [(path.stat().st_ino, path.stat().st_mtime_ns) for path in made]
    assert sum(one() for one in late) == sum(one.row_count for one in done.partitions)
    assert [(path.stat().st_ino, path.stat().st_mtime_ns) for path in made] == states
    assert not [path for path in files_of(url) if path.endswith(".tmp")]


def test_a_job_that_takes_long_gives_signs_of_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compacting, "kept_alive", partial(kept_alive, interval_s=0.01))
    url = make(tmp_path / "table")

    def slow(label: str, units: Sequence[U], work: Callable[[U], R]) -> list[R]:
        end_s = time.monotonic() + 60
        while not list(Path(url).glob("_orcstream_acid/beat-*.json")):
            assert time.monotonic() < end_s
            time.sleep(0.01)
        return here(label, units, work)

    assert compact_table_with(slow, TableToCompact(url, "major")).partitions


@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_each_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Kind) -> None:
    monkeypatch.setattr("orcstream.acid.transactions.log._LOOK_AGAIN_S", 0)
    source = make(tmp_path / "source", partitions=False)
    before = rows_of(source)
    killer = Killer(monkeypatch)
    for steps in range(0, 100, STEP):
        url = str(copytree(source, tmp_path / f"table{steps}"))
        killer.left = steps
        try:
            compact_table_with(here, TableToCompact(url, kind))
            is_done = True
        except Killed:
            is_done = False
        killer.left = None
        assert rows_of(url) == before
        assert rows_of(url, write_id=3) == rows_of(source, write_id=3)
        run(partial(TransactionLog(url).abort_dead, 0))
        compact_table_with(here, TableToCompact(url, "major"))
        run(partial(_clean, url))
        assert rows_of(url) == before
        assert len({path.split("/")[0] for path in files_of(url) if not path.endswith(".tmp")}) == 1
        if is_done:
            assert steps > 5
            return
    raise AssertionError("there is no end to it")


def test_encrypted_columns(tmp_path: Path) -> None:
    store = tmp_path / "keys.json"
    store.write_text(json.dumps({"pii": "00" * 16}))
    store.chmod(0o600)
    url, encrypt = str(tmp_path / "table"), [Encrypt("pii", ["row.name"])]

    async def fill() -> None:
        await acid.create_table(url, SCHEMA)
        keys = await open_keys(store)
        async with acid.open_table(url, keys=keys) as table:
            for number in range(2):
                async with await table.transaction(encrypt=encrypt, keys=keys) as change:
                    await change.insert([{"id": number, "name": f"row {number}"}])

    async def names(keys: Any) -> list[Any]:
        async with acid.open_table(url, keys=keys) as table:
            return [row["name"] for row in (await table.read()).to_pylist()]

    run(fill)
    files = files_of(url)
    what = TableToCompact(url, "major", access=Access({}, str(store)))
    for without, message in ((TableToCompact(url, "major"), r"\brow\.name\b.*\bkey\b"), (what, "encrypt=")):
        with pytest.raises((UsageError, KeyUnavailable), match=message):
            compact_table_with(here, without)
        assert files_of(url) == files
    compact_table_with(here, what, options={"encrypt": encrypt})
    run(partial(_clean, url))
    assert run(partial(names, run(partial(open_keys, store)))) == ["row 0", "row 1"]
    assert run(partial(names, None)) == [None, None]


def test_on_s3(moto_server: MotoServer) -> None:
    moto_server.client.create_bucket(Bucket="compacted-tables")
    url, options = "s3://compacted-tables/table", moto_server.options

    async def fill() -> None:
        await acid.create_table(url, SCHEMA, storage_options=options)
        async with acid.open_table(url, storage_options=options) as table:
            for number in range(2):
                async with await table.transaction() as change:
                    await change.insert([{"id": number, "name": "new"}])

    async def ids() -> list[int]:
        async with acid.open_table(url, storage_options=options) as table:
            assert len(table.partitions[0].inserts) == 1
            return [row["id"] for row in (await table.read()).to_pylist()]

    run(fill)
    compact_table_with(twice_at_once, TableToCompact(url, "major", access=Access(options)))
    assert run(ids) == [0, 1]
    assert "Uploads" not in moto_server.client.list_multipart_uploads(Bucket="compacted-tables")


# --- with Spark ------------------------------------------------------------------------------------


def failing(spark: SparkSession, marks: Path, times: int) -> Any:
    """Tasks on Spark whose first attempts fail, after their files have appeared."""

    def distribute(label: str, units: Sequence[U], work: Callable[[U], R]) -> list[R]:
        folder = str(marks)

        def attempt(unit: Any) -> Any:
            answer = work(unit)
            marked = Path(folder, unit.path.replace("/", " "))
            attempts = int(marked.read_text()) if marked.exists() else 0
            marked.write_text(str(attempts + 1))
            if attempts < times:
                raise OSError("the executor is gone")
            return answer

        return SparkTasks(spark)(label, units, attempt)

    marks.mkdir()
    return distribute


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", KINDS)
def test_on_spark(spark: SparkSession, tmp_path: Path, kind: Kind) -> None:
    url = make(tmp_path / "table")
    other = str(copytree(url, tmp_path / "other"))
    before = rows_of(url)
    expected = run(partial(_on_one_machine, other, kind))
    told: list[tuple[str, int, int]] = []
    done = jobs.compact_table(spark, url, kind=kind, progress=lambda *how_far: told.append(how_far))
    assert (done.partitions, done.transaction_id) == (expected.partitions, expected.transaction_id)
    assert files_of(url) == files_of(other)
    assert rows_of(url) == before
    assert told[-1][0] == "writing buckets"
    assert told[-1][1] == told[-1][2] == sum(len(one.directories) for one in done.partitions)


@pytest.mark.timeout(300)
def test_tasks_that_fail_once(spark: SparkSession, tmp_path: Path) -> None:
    url = make(tmp_path / "table")
    other = str(copytree(url, tmp_path / "other"))
    before = rows_of(url)
    expected = run(partial(_on_one_machine, other, "major"))
    done = compact_table_with(failing(spark, tmp_path / "marks", 1), TableToCompact(url, "major"))
    assert done.partitions == expected.partitions
    assert [path.read_text() for path in (tmp_path / "marks").iterdir()] == ["2"] * len(COUNTRIES)
    assert files_of(url) == files_of(other)
    assert rows_of(url) == before


@pytest.mark.timeout(300)
def test_tasks_that_fail_for_good(spark: SparkSession, tmp_path: Path) -> None:
    url = make(tmp_path / "table")
    before, files = rows_of(url), files_of(url)
    with pytest.raises(Exception, match="the executor is gone"):
        compact_table_with(failing(spark, tmp_path / "marks", 99), TableToCompact(url, "major"))
    assert rows_of(url) == before
    seen = run(TransactionLog(url).snapshot).transactions
    assert (seen.open, seen.aborted) == ((), (6,))
    # Another task may have been at work still: nobody sees what it made, and it goes with the next cleaning.
    run(partial(_clean, url))
    assert [path for path in files_of(url) if "base_" not in path] == files
    assert rows_of(url) == before


@pytest.mark.timeout(300)
def test_command_line(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = make(tmp_path / "table")
    assert main(["job", "compact-acid", url, "--kind", "major", "--partition", "country=DE"]) == 0
    assert capsys.readouterr().out == ("country=DE/base_0000005_v0000006: 18 rows, in place of 6\n")
    assert main(["job", "compact-acid", url, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["path"] for one in found["partitions"]] == ["country=FR", "country=IT"]
    assert main(["job", "compact-acid", url]) == 0
    assert capsys.readouterr().out == "nothing to compact\n"
    assert main(["job", "compact-acid", url, "--partition", "country=US"]) == 2
    assert "no partition 'country=US'" in capsys.readouterr().err
