"""Records that somebody else wrote: whatever paths they name, nothing outside of the table is touched."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from orcstream.blocking.loop import the_loop
from orcstream.errors import FormatError, UsageError
from orcstream.io.contract.byte_sink import Prepared, temporary_name
from orcstream.io.stores.local.sink import LocalFile
from orcstream.spark.access import Access
from orcstream.spark.compact.compacting import Compaction
from orcstream.spark.jobs.compaction import compact_with
from orcstream.spark.read.merge_records import JOBS_FOLDER, LOG_FOLDER
from orcstream.spark.read.reading import reader_of
from orcstream.spark.stream.commit_log import CommitLog, claimed_paths
from orcstream.spark.stream.writing import BatchFiles, StreamPlan, commit_batch
from orcstream.spark.write.prepared_json import prepared_to_json
from orcstream.spark.write.target import Folder
from tests.spark.stream_driver import add
from tests.spark.test_stream_commits import QUERY, SCHEMA, plan_of, prepared

BATCH = f"{0:020}"
PLAN = f"{LOG_FOLDER}/{QUERY}/compact-00000000/plan.json"


class Scene:
    """A table with one file, and beside it what must not change."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.table = base / "table"
        self.victim = base / "victim"
        self.victim.mkdir()
        self.plan = plan_of(str(self.table))
        for name in ("a.orc", "b.orc"):
            add(self.victim, name, [1])
        self.table.mkdir()
        (self.table / "link").symlink_to(self.victim)
        self.before = self.outside()

    def outside(self) -> dict[str, bytes]:
        return {
            str(path.relative_to(self.base)): path.read_bytes()
            for path in self.base.rglob("*")
            if path.is_file() and not path.is_relative_to(self.table)
        }

    def put(self, folder: str, name: str, record: object) -> None:
        place = self.table / folder / f"{name}.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps({"version": 1, **dict(record)}))  # type: ignore[call-overload]

    def put_stream(self, name: str, record: object) -> None:
        self.put(f"{LOG_FOLDER}/{QUERY}", name, record)

    def commit(self) -> None:
        the_loop().run(partial(commit_batch, self.plan, 0, [BatchFiles(QUERY, "run", 0, [])]))

    def compact(self) -> None:
        def here(label: str, units: Sequence[Any], work: Callable[[Any], Any]) -> list[Any]:
            return [work(unit) for unit in units]

        compact_with(here, Folder(str(self.table), Access()), Compaction())

    def log(self) -> CommitLog:
        return the_loop().run(partial(CommitLog.open, self.plan.files, QUERY))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def outside_paths(scene: Scene) -> list[str]:
    found = ["../victim/a.orc", f"{scene.victim}/a.orc", "x/../../victim/a.orc", "link/a.orc"]
    return [*found, f"file://{scene.victim}/a.orc", "..\\victim\\a.orc", "%2e%2e/victim/a.orc", ""]


NUMBERS = range(8)


def file_record(path: str, state: LocalFile) -> dict[str, Any]:
    one = Prepared(url="", length=1, overwrite=True, state=state)
    return {"path": path, "rows": 1, **prepared_to_json(one)}


@pytest.mark.parametrize("number", NUMBERS)
def test_a_batch_that_removes(scene: Scene, number: int) -> None:
    path = outside_paths(scene)[number]
    scene.put_stream(f"{BATCH}.intent", {"files": [], "removes": [path]})
    with pytest.raises((FormatError, UsageError)) as info:
        scene.commit()
    assert scene.outside() == scene.before
    assert "below the table" in str(info.value) or "leads out of the folder" in str(info.value)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_batch_that_commits(scene: Scene, number: int) -> None:
    """The file that is moved lies there, as another table's writer would leave it."""
    path = outside_paths(scene)[number]
    temporary = scene.victim / temporary_name("a.orc")
    temporary.write_bytes(b"other")
    state = LocalFile.of(str(scene.victim / "a.orc"), str(temporary))
    scene.before = scene.outside()
    scene.put_stream(f"{BATCH}.intent", {"files": [file_record(path, state)], "removes": []})
    with pytest.raises((FormatError, UsageError)):
        scene.commit()
    with pytest.raises((FormatError, UsageError)):
        the_loop().run(partial(_opened_intent, scene))
    assert scene.outside() == scene.before


async def _opened_intent(scene: Scene) -> None:
    await (await CommitLog.open(scene.plan.files, QUERY)).intent_of(0)


def test_a_file_of_another_table_with_the_same_name(scene: Scene) -> None:
    temporary = scene.victim / temporary_name("a.orc")
    temporary.write_bytes(b"other")
    state = LocalFile.of(str(scene.victim / "a.orc"), str(temporary))
    scene.before = scene.outside()
    scene.put_stream(f"{BATCH}.intent", {"files": [file_record("a.orc", state)], "removes": []})
    with pytest.raises(FormatError, match=r"a\.orc .*/victim/a\.orc'"):
        scene.commit()
    assert scene.outside() == scene.before


def group(path: str, target: str = "x.orc", **more: Any) -> dict[str, Any]:
    return {"target": target, "replaces": [{"path": path, "rows": 1, **more}]}


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("place", ["source", "target", "holds"])
def test_a_merge_of_a_stream(scene: Scene, number: int, place: str) -> None:
    """Killed before files were merged, and after it."""
    path = outside_paths(scene)[number]
    made = {
        "source": group(path),
        "target": group("y.orc", path),
        "holds": group("y.orc", holds=[{"path": path, "rows": 1}]),
    }[place]
    scene.put_stream("compact-00000000/plan", {"groups": [made]})
    for is_merged in (False, True):
        if is_merged:
            scene.put_stream("compact-00000000/000000.merged", {"how": "copied", "sources": [path]})
        scene.commit()  # rows are committed all the same; the merge is left for somebody to look at
        assert scene.outside() == scene.before
        if path != "link/a.orc":
            with pytest.raises(FormatError, match=rf"plan\.json: .*{re.escape(repr(path))}"):
                the_loop().run(partial(claimed_paths, scene.plan.files, [PLAN]))


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("place", ["source", "target", "holds"])
def test_a_plan_of_a_job(scene: Scene, number: int, place: str) -> None:
    path = outside_paths(scene)[number]
    looked: dict[str, Any] = {"length": 1, "fingerprint": "", "stripes": 1}
    made = {
        "source": group(path, **looked),
        "target": group("y.orc", path, **looked),
        "holds": group("y.orc", holds=[{"path": path, "rows": 1}], **looked),
    }[place]
    folder = f"{JOBS_FOLDER}/compact-00000001"
    scene.put(folder, "plan", {"groups": [{**made, "rewrites": False}]})
    if place == "holds" and path == "link/a.orc":
        return  # which no job opens
    with pytest.raises((FormatError, UsageError)) as info:
        scene.compact()
    assert "below the table" in str(info.value) or "leads out of the folder" in str(info.value)
    assert scene.outside() == scene.before


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("name", ["merged", "prepared"])
def test_a_result_of_a_job(scene: Scene, number: int, name: str) -> None:
    """What was made of a group replaces files of this group, and no others."""
    looked: dict[str, Any] = {"length": 1, "fingerprint": "", "stripes": 1}
    folder = f"{JOBS_FOLDER}/compact-00000001"
    scene.put(folder, "plan", {"groups": [{**group("y.orc", **looked), "rewrites": False}]})
    path = [*outside_paths(scene), "z.orc"][number + 1]
    state = LocalFile(str(scene.table / "x.orc"), str(scene.table / temporary_name("x.orc")), 1, 2, 3)
    record = {**file_record("x.orc", state), "sources": [path], "how": "copied"}
    (scene.table / "z.orc").write_bytes(b"z")
    if name == "merged":
        record = {"how": "copied", "sources": [path]}
    scene.put(folder, f"{0:06}.{name}", record)
    with pytest.raises(FormatError, match=rf"{name}\.json: .*{re.escape(repr(path))}"):
        scene.compact()
    assert scene.outside() == scene.before
    assert (scene.table / "z.orc").exists()


DAMAGED: list[Any] = [
    {},
    {"groups": 5},
    {"groups": ["text"]},
    {"groups": [{"target": 1, "replaces": []}]},
    {"groups": [{"target": "x.orc", "replaces": [{"path": ["a"], "rows": 1}]}]},
    {"groups": [{"target": "x.orc", "replaces": [{"path": "a", "rows": "1"}]}]},
    {"groups": [{"target": "x.orc", "replaces": [{"path": "a", "rows": -1}]}]},
    {"groups": [{"target": "x.orc", "replaces": [{"path": "a", "rows": True}]}]},
    {"groups": [{"target": "x.orc", "replaces": None}]},
]


@pytest.mark.parametrize("record", DAMAGED)
def test_damaged_groups(scene: Scene, record: Any) -> None:
    scene.put_stream("compact-00000000/plan", record)
    with pytest.raises(FormatError, match=r"plan\.json"):
        the_loop().run(partial(claimed_paths, scene.plan.files, [PLAN]))
    with pytest.raises(FormatError, match=r"plan\.json"):
        the_loop().run(scene.log().journal(0).groups)
    scene.put(f"{JOBS_FOLDER}/compact-00000001", "plan", record)
    with pytest.raises(FormatError):
        scene.compact()


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"files": 1, "removes": []},
        {"files": [], "removes": 1},
        {"files": [], "removes": [1]},
        {"files": [{}], "removes": []},
        {"files": [{"path": "a.orc", "rows": 1, "store": [], "length": 1, "state": {}}], "removes": []},
    ],
)
def test_damaged_intents(scene: Scene, record: Any) -> None:
    scene.put_stream(f"{BATCH}.intent", record)
    with pytest.raises(FormatError):
        scene.commit()


def test_readers_refuse_such_records(scene: Scene) -> None:
    """A merged file with a record that names files elsewhere."""
    target = f"part-compact-{QUERY}-0-000000.orc"
    add(scene.table, target, [1])
    scene.put_stream("compact-00000000/plan", {"groups": [group("../victim/a.orc", target)]})
    scene.put_stream("compact-00000000/000000.merged", {})
    with pytest.raises(FormatError, match=r"plan\.json: .*'\.\./victim/a\.orc'"):
        reader_of(SCHEMA, {"path": str(scene.table)}).partitions()


def test_a_batch_that_leads_out_by_a_link_is_not_begun(scene: Scene) -> None:
    """Rows behind such a link would not be seen by any reader."""
    (scene.table / "p=p0").symlink_to(scene.victim)
    plan = plan_of(str(scene.table), partition_by='["p"]')
    messages = prepared(plan, 0)
    with pytest.raises(UsageError, match=r"'p=p0/.*/victim\b"):
        the_loop().run(partial(commit_batch, plan, 0, messages))
    assert not list((scene.table / LOG_FOLDER).rglob("*.json"))


def test_names_that_no_record_may_hold(scene: Scene) -> None:
    """The job leaves such files; a batch that is to replace them all says so."""
    for name in ("a\\b.orc", "c\\d.orc", "1.orc", "2.orc"):
        add(scene.table, name, [1])
    scene.compact()
    names = {path.name for path in scene.table.glob("*.orc")}
    assert {"a\\b.orc", "c\\d.orc"} < names
    assert len(names) == 3
    plan = StreamPlan(scene.plan.files, 0, 1, overwrite=True)
    with pytest.raises(UsageError, match=r"'a\\\\b\.orc'"):
        the_loop().run(partial(commit_batch, plan, 0, prepared(plan, 0)))
    assert {path.name for path in scene.table.glob("*.orc") if path.stem.count("\\")} < names
