"""Verification of many files: what is found, by whom it is looked at, and that a killed job goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import fsspec
import pyarrow as pa
import pytest

import orcstream
from orcstream.io.keys import InMemoryKeyProvider
from orcstream.spark.access import Access
from orcstream.spark.jobs import looking
from orcstream.spark.jobs.verification import verify_with
from orcstream.spark.read.files import FoundFile, FoundFiles
from orcstream.spark.write.target import Folder

U = TypeVar("U")
R = TypeVar("R")


def here(label: str, units: Sequence[U], work: Callable[[U], R]) -> list[R]:
    return [work(unit) for unit in units]


def fill(folder: Path, *, files: int = 3, rows: int = 3000) -> None:
    for number in range(files):
        table = pa.table({"id": range(number * rows, (number + 1) * rows), "text": ["x"] * rows})
        (folder / f"p={number % 2}").mkdir(exist_ok=True, parents=True)
        with orcstream.blocking.create(
            folder / f"p={number % 2}" / f"{number}.orc", row_index_stride=1000, compression="none"
        ) as out:
            for start in range(0, rows, 1000):
                out.write(table.slice(start, 1000))
                out.end_stripe()


def test_sound_files(tmp_path: Path) -> None:
    fill(tmp_path)
    found = verify_with(here, [str(tmp_path)], Access())
    assert found.is_sound
    assert (found.file_count, found.row_count, found.stripe_count, found.row_group_count) == (3, 9000, 9, 9)
    assert found.findings == ()


def test_large_files_are_shared_out(tmp_path: Path) -> None:
    fill(tmp_path)
    counts: dict[str, int] = {}

    def counting(label: str, units: Sequence[U], work: Callable[[U], R]) -> list[R]:
        counts[label] = len(units)
        return here(label, units, work)

    whole = verify_with(here, [str(tmp_path)], Access())
    found = verify_with(counting, [str(tmp_path)], Access(), piece_bytes=1)
    assert counts["verifying"] == 9
    assert (found.row_count, found.stripe_count, found.row_group_count) == (9000, 9, 9)
    # The footers' claims, about two columns and the rows, are those that only whole files are held against.
    assert found.claim_count == whole.claim_count - 3 * 3


def test_what_is_wrong_is_reported(tmp_path: Path) -> None:
    fill(tmp_path)
    damaged = tmp_path / "p=0" / "0.orc"
    data = bytearray(damaged.read_bytes())
    with orcstream.blocking.open(damaged) as file:
        at = file.stripes[1].offset + file.stripes[1].index_length
    data[at : at + 8] = b"\xff" * 8
    damaged.write_bytes(data)
    (tmp_path / "p=1" / "none.orc").write_bytes(b"no ORC file")
    for piece_bytes in (1, 1 << 30):
        found = verify_with(here, [str(tmp_path)], Access(), piece_bytes=piece_bytes)
        assert not found.is_sound
        assert {one.url.rpartition("/")[2] for one in found.findings} == {"0.orc", "none.orc"}
        assert {one.stripe for one in found.findings if one.url.endswith("0.orc")} == {1}
        assert found.row_count >= 7000


def test_a_job_that_was_killed_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path / "table")
    journal = Folder(str(tmp_path / "journal"))
    verify, calls = orcstream.OrcFile.verify, []

    async def counted(self: orcstream.OrcFile, **options: Any) -> Any:
        calls.append(self.url)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return await verify(self, **options)

    monkeypatch.setattr(orcstream.OrcFile, "verify", counted)
    paths = [str(tmp_path / "table")]
    with pytest.raises(KeyboardInterrupt):
        verify_with(here, paths, Access(), piece_bytes=4096, journal=journal)
    found = verify_with(here, paths, Access(), piece_bytes=4096, journal=journal)
    assert (found.row_count, found.is_sound) == (9000, True)
    assert len(calls) < 3 + found.stripe_count
    before = len(calls)
    verify_with(here, paths, Access(), piece_bytes=4096, journal=journal)
    assert len(calls) == before


def encrypted(folder: Path, keys: InMemoryKeyProvider) -> None:
    with orcstream.blocking.create(
        folder / "t.orc", "struct<id:int>", encrypt=[orcstream.Encrypt("pii", ["id"])], keys=keys
    ) as out:
        out.write([(one,) for one in range(100)])


def test_what_was_seen_without_keys_is_looked_at_again_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = InMemoryKeyProvider()
    keys.add_key("pii", bytes(16))

    async def provider(self: Access) -> InMemoryKeyProvider | None:
        return keys if self.keys else None

    monkeypatch.setattr(Access, "key_provider", provider)
    (tmp_path / "table").mkdir()
    encrypted(tmp_path / "table", keys)
    looked, verify = [], orcstream.OrcFile.verify

    async def counted(self: orcstream.OrcFile, **options: Any) -> Any:
        looked.append(self.url)
        return await verify(self, **options)

    monkeypatch.setattr(orcstream.OrcFile, "verify", counted)
    journal = Folder(str(tmp_path / "journal"))
    for number, access in (
        (1, Access()),
        (1, Access()),
        (2, Access(keys="store")),
        (2, Access(keys="store")),
    ):
        assert verify_with(here, [str(tmp_path / "table")], access, journal=journal).is_sound
        assert len(looked) == number


@pytest.mark.parametrize("modified_s", [None, 1.0])
def test_files_that_a_store_does_not_tell_apart_are_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, modified_s: float | None
) -> None:
    """Replaced by one of its length, such a file would pass for the one that was looked at."""
    fill(tmp_path / "table", files=1)
    (url,) = [str(path) for path in (tmp_path / "table").rglob("*.orc")]
    clock = modified_s

    async def listed(*_: Any) -> FoundFiles:
        return FoundFiles([FoundFile(url, Path(url).stat().st_size, "", (), clock)])

    monkeypatch.setattr(looking, "find_counted", listed)
    journal = Folder(str(tmp_path / "journal"))
    assert verify_with(here, [url], Access(), journal=journal).is_sound
    data = bytearray(Path(url).read_bytes())
    data[100:200] = b"\xff" * 100
    Path(url).write_bytes(data)
    clock = None if modified_s is None else modified_s + 1
    assert not verify_with(here, [url], Access(), journal=journal).is_sound


def test_reports_and_journals_hold_no_credentials(tmp_path: Path) -> None:
    home = "memory://me:hush@host/verified"
    filesystem = fsspec.filesystem("memory")
    path = "/me:hush@host/verified/t.orc"
    with orcstream.blocking.create(f"{home}/t.orc", row_index_stride=1000, compression="none") as out:
        out.write(pa.table({"id": range(3000)}))
    good = filesystem.cat(path)
    journal = Folder(str(tmp_path))
    for damaged in (b"no ORC file", good[:40] + b"\xff" * 40 + good[80:]):
        filesystem.pipe(path, damaged)
        found = verify_with(here, [home], Access(), journal=journal)
        assert {one.url for one in found.findings} == {"memory://host/verified/t.orc"}
    records = list(tmp_path.rglob("*.json"))
    assert len(records) == 2
    assert not any("hush" in one.read_text() for one in records)
