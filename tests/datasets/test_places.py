"""Places that overlap, alternatives in patterns, folders that are named like files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import fsspec
import pytest

import orcstream


@pytest.fixture
async def table(tmp_path: Path) -> Path:
    """`day=1` to `day=3`, with one row in each."""
    for day in (1, 2, 3):
        folder = tmp_path / "t" / f"day={day}"
        folder.mkdir(parents=True)
        await put(folder / "f.orc", day)
    return tmp_path / "t"


async def put(url: Path | str, number: int) -> None:
    async with orcstream.create(url, "struct<a:int>") as out:
        await out.write([{"a": number}])


async def rows(places: Any, **options: Any) -> list[dict[str, Any]]:
    async with orcstream.dataset(places, **options) as files:
        found: list[dict[str, Any]] = (await files.read()).to_pylist()
    return sorted(found, key=lambda row: int(row["a"]))


def days(*numbers: int) -> list[dict[str, Any]]:
    return [{"a": number, "day": number} for number in numbers]


async def test_places_that_overlap(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(table.parent)
    for other in ("{t}/./", "file://{t}", "{t}/day=1", "{t}/day=1/f.orc", "t", "./t/day=[12]"):
        for places in ([str(table), other.format(t=table)], [other.format(t=table), str(table)]):
            assert await rows(places) == days(1, 2, 3), places


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("day=[12]/*.orc", days(1, 2)),
        ("day={1,2}/*.orc", days(1, 2)),
        ("day={1}/f.orc", days(1)),
        ("day={1,9*}/*.orc", days(1)),
        ("day={1,2*}/*.orc", days(1, 2)),
        ("{day=1,day=9}/*.orc", days(1)),
        ("{day=1/f.orc,day=3}", days(1, 3)),
        ("day={1,2}", days(1, 2)),
    ],
)
@pytest.mark.parametrize("where", ["absolute", "relative", "memory"])
async def test_alternatives_keep_the_values_of_their_folders(
    table: Path, monkeypatch: pytest.MonkeyPatch, pattern: str, expected: list[dict[str, Any]], where: str
) -> None:
    monkeypatch.chdir(table)
    folder = {"absolute": f"{table}/", "relative": "", "memory": f"memory://{table.parent.name}/"}[where]
    if where == "memory":
        for day in (1, 2, 3):
            await put(f"{folder}day={day}/f.orc", day)
    assert await rows(folder + pattern) == expected


async def test_no_alternative_is_there(table: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"\{day=8,day=9\}"):
        await rows(f"{table}/{{day=8,day=9}}/*.orc")


NAMES = ["a?.orc", "ab.orc", "[x].orc", "{y,z}.orc", "y.orc", "b\\*.orc"]


@pytest.mark.parametrize("where", ["local", "memory"])
async def test_names_with_pattern_characters(tmp_path: Path, where: str) -> None:
    folder = str(tmp_path) if where == "local" else f"memory://{tmp_path.name}-names"
    for number, name in enumerate(NAMES):
        await put(f"{folder}/{name}", number)
    everything = [{"a": number} for number in range(len(NAMES))]
    async with orcstream.dataset(folder) as files:
        urls = [file.url for file in files.files]
        splits = await files.splits()
    assert await rows(urls) == everything
    assert sorted([row for split in splits for row in await rows(split)], key=str) == everything
    for number, name in enumerate(NAMES):
        assert await rows([f"{folder}/{name}"]) == [{"a": number}], name
        escaped = re.sub(r"([\\*?\[\]{}])", r"\\\1", name)
        assert await rows(f"{folder}/{escaped}") == [{"a": number}], escaped
    assert await rows([f"{folder}/a?.orc", f"{folder}/[xy].orc"]) == [{"a": 0}, {"a": 4}]
    assert await rows(f"{folder}/a?.orc") == [{"a": 0}, {"a": 1}]
    with pytest.raises(FileNotFoundError, match="backslash"):
        await rows(f"{folder}/[x].orc")


async def test_a_folder_named_like_a_file(tmp_path: Path) -> None:
    """As Spark's users name them."""
    url = f"memory://{tmp_path.name}/out.orc"
    for number in (1, 2):
        await put(f"{url}/part-{number}.orc", number)
    assert await rows(url) == [{"a": 1}, {"a": 2}]
    assert await rows(url, schema="struct<a:int>") == [{"a": 1}, {"a": 2}]
    fsspec.filesystem("memory").rm(f"/{tmp_path.name}", recursive=True)
