"""Verification of many files: what is found, by whom it is looked at, and that a killed job goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pytest

import orcstream
from orcstream.spark.access import Access
from orcstream.spark.jobs.verification import verify_with
from orcstream.spark.target import Folder

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
    # The footers' claims are those that only whole files are held against.
    assert found.claim_count == whole.claim_count - 3 * 2


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
