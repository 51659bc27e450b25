"""Compaction loses no row and repeats none, wherever it is killed; Spark itself is not needed.

Before every request that changes the store a driver or a task may die.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.orc
import pytest

import orcstream
from orcstream.blocking.loop import the_loop
from orcstream.io import folders
from orcstream.io.keys import open_keys
from orcstream.spark.access import Access
from orcstream.spark.compact.compacting import Compaction
from orcstream.spark.jobs.compaction import CompactResult, compact_with
from orcstream.spark.read.merge_records import LOG_FOLDER
from orcstream.spark.write import written
from orcstream.spark.write.target import Folder
from tests.generators.footers import DAMAGES, three_stripes, with_footer
from tests.servers.loopback import MotoServer, moto_server
from tests.spark.killer import Killed, Killer
from tests.support.effort import STEP

__all__ = ["moto_server"]

U = TypeVar("U")
R = TypeVar("R")
FOLDERS = ("", "day=1", "day=2")


def here(label: str, units: Sequence[U], work: Callable[[U], R]) -> list[R]:
    """All work in this process, one unit after the other."""
    return [work(unit) for unit in units]


@pytest.fixture
def killer(monkeypatch: pytest.MonkeyPatch) -> Killer:
    return Killer(monkeypatch)


def fill(
    url: str, *, files: int = 3, rows: int = 10, folders: Sequence[str] = FOLDERS, **options: Any
) -> None:
    """Files of rows whose ids follow each other; `options` are those of `create`."""
    start = 0
    for folder in folders:
        if "://" not in url:
            (Path(url) / folder).mkdir(parents=True, exist_ok=True)
        for number in range(files):
            ids = list(range(start, start + rows))
            table = pa.table({"id": ids, "text": [f"text {one}" for one in ids]})
            name = "/".join(part for part in (url, folder, f"part-{number}.orc") if part)
            orcstream.blocking.write(name, table, **options)
            start += rows


def target_of(url: Path | str, **storage_options: Any) -> Folder:
    return Folder(str(url), Access(storage_options))


def visible(folder: Path) -> list[Path]:
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return [folder / path for path in sorted(found) if not folders.is_hidden(path.as_posix())]


def ids_of(files: Sequence[Path]) -> list[int]:
    return sorted(one for file in files for one in pyarrow.orc.read_table(file)["id"].to_pylist())


def left_behind(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*.tmp") if path.is_file()]


def compacted(target: Folder, **options: Any) -> CompactResult:
    return compact_with(here, target, Compaction(**options))


def test_small_files_become_one_in_each_folder(tmp_path: Path) -> None:
    fill(str(tmp_path))
    result = compacted(target_of(tmp_path))
    assert (result.removed_count, result.made_count, result.left) == (9, 3, ())
    assert [one.how for one in result.groups] == ["rewritten"] * 3
    assert [path.parent.name for path in visible(tmp_path)] == ["day=1", "day=2", tmp_path.name]
    assert ids_of(visible(tmp_path)) == list(range(90))
    assert left_behind(tmp_path) == []
    for path in visible(tmp_path):
        with orcstream.blocking.open(path) as file:
            assert len(file.stripes) == 1
            assert file.verify().is_sound
            assert file.read(columns=["id"]).to_pylist() == sorted(
                file.read(columns=["id"]).to_pylist(), key=lambda row: row["id"]
            )
    assert compacted(target_of(tmp_path)).groups == ()


@pytest.mark.parametrize("how", ["copy", "rewrite", "auto"])
def test_what_files_are_is_kept(tmp_path: Path, how: Any) -> None:
    fill(
        str(tmp_path),
        folders=[""],
        rows=2500,
        compression="snappy",
        row_index_stride=1000,
        blooms=["text"],
        user_metadata={"origin": "here"},
    )
    result = compacted(target_of(tmp_path), how=how)
    (path,) = visible(tmp_path)
    with orcstream.blocking.open(path) as file:
        assert (str(file.compression), file.user_metadata) == ("snappy", {"origin": b"here"})
        assert len(file.stripes) == (3 if how == "copy" else 1)
        assert file.tail.footer.row_index_stride == 1000
        found = file.read(where=orcstream.col("text") == "text 4711")
        assert found.to_pylist() == [{"id": 4711, "text": "text 4711"}]
        assert "bloom" in str(file.explain(where=orcstream.col("text") == "text 4711"))
    assert result.groups[0].how == ("copied" if how == "copy" else "rewritten")
    assert result.groups[0].row_count == 7500


def test_only_what_goes_together(tmp_path: Path) -> None:
    def put(name: str, table: pa.Table, **options: Any) -> None:
        orcstream.blocking.write(tmp_path / name, table, **options)

    ids = pa.table({"id": [1]})
    put("a1.orc", ids)
    put("a2.orc", pa.table({"id": [2]}), compression="zlib")
    put("b1.orc", pa.table({"id": ["x"]}))
    put("b2.orc", pa.table({"id": ["y"]}))
    put("c1.orc", pa.table({"id": [3], "more": [4]}))
    put("d1.orc", ids, user_metadata={"batch": "1"})
    put("d2.orc", ids, user_metadata={"batch": "2"})
    (tmp_path / "e.orc").write_bytes(b"")
    (tmp_path / "f.orc").write_bytes(b"no ORC file at all")
    (tmp_path / "_kept.orc").write_bytes((tmp_path / "a1.orc").read_bytes())
    assert compacted(target_of(tmp_path), how="copy").removed_count == 2
    names = {path.name for path in tmp_path.iterdir()}
    assert {"b1.orc", "b2.orc"} & names == set()
    assert {"a1.orc", "a2.orc", "c1.orc", "d1.orc", "d2.orc", "e.orc", "f.orc", "_kept.orc"} < names
    assert compacted(target_of(tmp_path)).removed_count == 2
    assert not (tmp_path / "a2.orc").exists()


def test_times_keep_their_zones(tmp_path: Path) -> None:
    time = pa.table({"at": pa.array([1_700_000_000_000_000], pa.timestamp("us"))})
    for number, zone in enumerate(["Europe/Berlin", "Europe/Berlin", "Asia/Tokyo", "Asia/Tokyo"]):
        orcstream.blocking.write(tmp_path / f"{number}.orc", time, timezone=zone)
    before = _instants(tmp_path)
    assert compacted(target_of(tmp_path)).made_count == 2
    assert _instants(tmp_path) == before
    assert len(set(before)) == 2


def _instants(folder: Path) -> list[Any]:
    found = []
    for path in visible(folder):
        with orcstream.blocking.open(path, instants=True) as file:
            found += [str(row["at"]) for row in file.read().to_pylist()]
    return sorted(found)


def test_sizes(tmp_path: Path) -> None:
    fill(str(tmp_path), files=10, folders=[""], rows=1000, compression="none")
    size = (tmp_path / "part-0.orc").stat().st_size
    result = compacted(target_of(tmp_path), target_bytes=4 * size, below_bytes=2 * size, how="copy")
    assert [len(one.sources) for one in result.groups] == [3, 3, 3] or result.removed_count >= 9
    assert all(one.length_before <= 4 * size for one in result.groups)
    # What is large enough is left.
    assert compacted(target_of(tmp_path), target_bytes=4 * size, below_bytes=2 * size).groups == ()


# --- killed ----------------------------------------------------------------------------------------


def killed(target: Folder, killer: Killer, steps: int, **options: Any) -> bool:
    killer.left = steps
    try:
        compacted(target, **options)
    except (Killed, BaseExceptionGroup):
        return True
    finally:
        killer.left = None
    return False


@pytest.mark.parametrize("how", ["copy", "rewrite"])
def test_it_goes_on_wherever_it_dies(tmp_path: Path, killer: Killer, how: Any) -> None:
    survived, steps = False, 0
    while not survived:
        folder = tmp_path / str(steps)
        fill(str(folder), folders=["", "day=1"], files=2)
        survived = not killed(target_of(folder), killer, steps, how=how)
        seen = ids_of(visible(folder))
        assert set(seen) == set(range(40)), steps
        compacted(target_of(folder), how=how)
        assert ids_of(visible(folder)) == list(range(40)), steps
        assert len(visible(folder)) == 2
        assert left_behind(folder) == []
        steps += STEP
    assert steps > 10


@pytest.mark.parametrize("seed", range(4))
def test_killed_again_and_again(tmp_path: Path, killer: Killer, seed: int) -> None:
    chance = random.Random(seed)
    fill(str(tmp_path), files=4)
    more = 120
    for _ in range(12):
        died = killed(target_of(tmp_path), killer, chance.randrange(14))
        assert set(ids_of(visible(tmp_path))) == set(range(more))
        if not died:
            # Others append to the folder between the jobs.
            rows = pa.table({"id": [more], "text": ["late"]})
            orcstream.blocking.write(tmp_path / "day=1" / f"late-{more}.orc", rows)
            more += 1
    compacted(target_of(tmp_path))
    assert ids_of(visible(tmp_path)) == list(range(more))
    assert left_behind(tmp_path) == []


def test_two_drivers_do_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second begins and ends while the first has made its plan, and again while it makes a file."""
    fill(str(tmp_path), folders=[""])
    merge = orcstream.merge
    inside: list[int] = []

    async def slow(*arguments: Any, **options: Any) -> Any:
        result = await merge(*arguments, **options)
        if not inside:
            inside.append(1)
            await the_thread(lambda: compacted_elsewhere(tmp_path))
        return result

    monkeypatch.setattr(orcstream, "merge", slow)
    compacted(target_of(tmp_path), how="copy")
    assert inside
    assert ids_of(visible(tmp_path)) == list(range(30))
    assert len(visible(tmp_path)) == 1
    assert left_behind(tmp_path) == []


async def the_thread(work: Callable[[], object]) -> None:
    import anyio.to_thread

    await anyio.to_thread.run_sync(work)


def compacted_elsewhere(folder: Path) -> None:
    """By another process."""
    import subprocess
    import sys

    program = f"""
from orcstream.spark.compact.compacting import Compaction
from orcstream.spark.jobs.compaction import compact_with
from orcstream.spark.write.target import Folder
def here(label, units, work):
    return [work(unit) for unit in units]
compact_with(here, Folder({str(folder)!r}), Compaction(how="copy"))
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("at", ["prepared", "visible"])
def test_files_that_others_removed_do_not_come_back(tmp_path: Path, killer: Killer, at: str) -> None:
    fill(str(tmp_path), folders=[""])
    steps = 0
    while not list(tmp_path.rglob("*.prepared.json" if at == "prepared" else "part-compact-*.orc")):
        assert killed(target_of(tmp_path), killer, steps)
        steps += 1
    for path in visible(tmp_path):
        if not path.name.startswith("part-compact-"):
            path.unlink()
    result = compacted(target_of(tmp_path))
    assert result.is_continued
    assert [one.how for one in result.left] == ["left"]
    assert visible(tmp_path) == []
    assert left_behind(tmp_path) == []


def test_files_of_unfinished_batches_are_left(tmp_path: Path) -> None:
    fill(str(tmp_path), folders=[""], files=4)
    log = tmp_path / LOG_FOLDER / "query"
    log.mkdir(parents=True)
    done, open_ = f"{0:020}", f"{1:020}"
    for batch, names in ((done, ["part-0.orc"]), (open_, ["part-1.orc"])):
        record = {"version": 1, "files": [{"path": name} for name in names], "removes": []}
        (log / f"{batch}.intent.json").write_text(json.dumps(record))
    (log / f"{done}.done.json").write_text(json.dumps({"version": 1, "run": "r"}))
    compacted(target_of(tmp_path))
    assert len(visible(tmp_path)) == 2
    assert (tmp_path / "part-1.orc").exists()


def test_a_file_that_is_replaced_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(str(tmp_path), folders=[""])

    def late(label: str, units: Sequence[U], work: Callable[[U], R]) -> list[R]:
        if label == "merging files":
            orcstream.blocking.write(tmp_path / "part-1.orc", pa.table({"id": [7, 8], "text": ["a", "b"]}))
        return here(label, units, work)

    for how in ("copy", "rewrite"):
        result = compact_with(late, target_of(tmp_path), Compaction(how=how))
        assert [one.how for one in result.groups] == ["left"]
    assert set(ids_of(visible(tmp_path))) == {*range(10), 7, 8, *range(20, 30)}
    assert left_behind(tmp_path) == []


def test_on_s3(moto_server: MotoServer, killer: Killer) -> None:
    moto_server.client.create_bucket(Bucket="compacted")
    url, options = "s3://compacted/table", moto_server.options
    fill(url, folders=["", "day=1"], storage_options=options)
    target = Folder(url, Access(options))
    for steps in (3, 2, 5):
        killed(target, killer, steps)
    compacted(target)
    found = the_loop().run(lambda: written.visible_files(target))
    assert len(found) == 2
    ids = []
    for one in found:
        with orcstream.blocking.open(one.url, storage_options=options) as file:
            ids += [row["id"] for row in file.read().to_pylist()]
    assert sorted(ids) == list(range(60))
    assert the_loop().run(lambda: orcstream.cleanup(url, older_than_s=0, storage_options=options)) == []


def test_encrypted_files_are_copied(tmp_path: Path) -> None:
    keys = tmp_path / "_keys.json"
    keys.write_text(json.dumps({"pii": "00" * 16}))
    keys.chmod(0o600)
    fill(
        str(tmp_path),
        folders=[""],
        encrypt=[orcstream.Encrypt("pii", ["text"], "redact")],
        keys=the_loop().run(lambda: open_keys(keys)),
    )
    without = compacted(target_of(tmp_path))
    assert [one.how for one in without.left] == ["left"]
    assert "key" in without.left[0].reason
    target = Folder(str(tmp_path), Access({}, str(keys)))
    assert [one.how for one in compact_with(here, target, Compaction()).groups] == ["copied"]
    (path,) = visible(tmp_path)
    with orcstream.blocking.open(path, keys=the_loop().run(lambda: open_keys(keys))) as file:
        assert file.read().to_pylist()[29] == {"id": 29, "text": "text 29"}
    with orcstream.blocking.open(path) as file:
        assert file.read(columns=["text"]).to_pylist()[29] == {"text": "xxxx 99"}


def test_a_damaged_footer_is_not_copied(tmp_path: Path) -> None:
    sound = three_stripes()
    (tmp_path / "a.orc").write_bytes(sound)
    (tmp_path / "b.orc").write_bytes(with_footer(sound, 1, DAMAGES["zeros"]))
    (group,) = compact_with(here, target_of(tmp_path), Compaction(how="copy")).groups
    assert group.how == "left"
    assert [path.name for path in visible(tmp_path)] == ["a.orc", "b.orc"]
