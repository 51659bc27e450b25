"""Small files appear whole, and nothing is left of those that do not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from orcstream.errors import CommitUnknown, RetriesExhausted, SinkError
from orcstream.io import sink, small_files
from orcstream.io.contract import folder
from orcstream.io.contract.byte_source import IoOptions
from orcstream.io.stores.local import sink as sink_local


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def put(folder: Path, data: bytes = b"{}", *, overwrite: bool = False) -> None:
    await small_files.put(f"{folder}/a.json", data, overwrite=overwrite, storage_options=None)


async def test_the_first_of_two_stays(tmp_path: Path) -> None:
    await put(tmp_path)
    with pytest.raises(FileExistsError):
        await put(tmp_path, b"[]")
    assert left(tmp_path) == ["a.json"]
    assert await small_files.get(f"{tmp_path}/a.json", storage_options=None) == b"{}"
    await put(tmp_path, b"[]", overwrite=True)
    assert await small_files.get(f"{tmp_path}/a.json", storage_options=None) == b"[]"


@pytest.mark.parametrize("failure", [SinkError("no"), PermissionError("no"), asyncio.CancelledError()])
async def test_a_commit_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    async def commit(*_: Any, **__: Any) -> None:
        raise failure

    monkeypatch.setattr(sink, "commit", commit)
    with pytest.raises(type(failure)):
        await put(tmp_path)
    assert left(tmp_path) == []


async def test_a_store_that_loses_answers_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost, commit = 2, sink.commit

    async def losing(*arguments: Any, **options: Any) -> None:
        nonlocal lost
        await commit(*arguments, **options)
        if lost:
            lost -= 1
            raise CommitUnknown("the answer was lost")

    monkeypatch.setattr(sink, "commit", losing)
    await put(tmp_path)
    lost = 100
    with pytest.raises(CommitUnknown):
        await put(tmp_path, b"[]", overwrite=True)
    # It was visible already, and stays.
    assert left(tmp_path) == ["a.json"]


async def test_a_cleanup_that_fails_is_a_note_of_what_came_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def commit(*_: Any, **__: Any) -> None:
        raise PermissionError("no")

    async def discard(*_: Any) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(sink, "commit", commit)
    monkeypatch.setattr(sink_local._Upload, "discard", discard)
    with pytest.raises(PermissionError) as caught:
        await put(tmp_path)
    (note,) = caught.value.__notes__
    assert "the disk is gone" in note


async def test_a_store_that_does_not_answer_is_named_once_and_without_credentials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(folder, "IoOptions", lambda: IoOptions(retries=0))
    url = "http://user:secret@127.0.0.1:1/a.json?sig=secret"
    with pytest.raises(RetriesExhausted) as caught:
        await small_files.get(url, storage_options=None)
    assert str(caught.value).count("http://127.0.0.1:1/a.json") == 1
    assert "secret" not in str(caught.value)
