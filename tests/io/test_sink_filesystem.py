"""Commits to file systems that answer wrongly or not at all: what the writer is told, and what is there."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orcstream.errors import CommitFailed, CommitUnknown
from orcstream.io.contract.byte_source import IoOptions
from orcstream.io.stores.fsspec.sink import ATOMIC_RENAMES
from orcstream.io.stores.fsspec.source import lease_filesystem
from orcstream.io.urls import StoreUrl
from tests.servers.sink_stores import FILES, RenamingFileSystem, SinkStore, make_store, rename_at_once

RENAMING = "tests.servers.sink_stores.RenamingFileSystem"
Rename = Callable[[Any, str, str, bool], None]


def answered_never(filesystem: Any, source: str, target: str, overwrite: bool) -> None:
    rename_at_once(filesystem, source, target, overwrite)
    raise ConnectionResetError(errno.ECONNRESET, "reset")


def not_done(filesystem: Any, source: str, target: str, overwrite: bool) -> None: ...


def refused(filesystem: Any, source: str, target: str, overwrite: bool) -> None:
    raise PermissionError(source)


def misunderstood(filesystem: Any, source: str, target: str, overwrite: bool) -> None:
    raise ValueError("a store of another kind")


def overtaken(filesystem: Any, source: str, target: str, overwrite: bool) -> None:
    rename_at_once(filesystem, source, target, overwrite)
    FILES[target] = (b"of another writer", 0.0)


def lost(filesystem: Any, source: str, target: str, overwrite: bool) -> None:
    del FILES[source]


@pytest.fixture
def store(tmp_path: Path) -> SinkStore:
    return make_store("renametest", tmp_path)


async def test_an_answer_that_was_lost_is_found_out(
    store: SinkStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ATOMIC_RENAMES, RENAMING, answered_never)
    prepared = await store.write("a.orc", b"content")
    await store.commit(prepared, retries=0)
    assert store.seen("a.orc") == b"content"
    await store.commit(prepared, retries=0)


@pytest.mark.parametrize(
    ("rename", "error", "message"),
    [
        (not_done, CommitFailed, r"\bmove\b"),
        (refused, PermissionError, "denied"),
        (misunderstood, CommitFailed, "of another kind"),
        (overtaken, CommitUnknown, r"\b17 bytes\b.*\b7\b"),
        (lost, CommitFailed, r"\bgone\b"),
    ],
    ids=lambda case: getattr(case, "__name__", None),
)
async def test_commits_that_fail(
    store: SinkStore,
    monkeypatch: pytest.MonkeyPatch,
    rename: Rename,
    error: type[Exception],
    message: str,
) -> None:
    monkeypatch.setitem(ATOMIC_RENAMES, RENAMING, rename)
    prepared = await store.write("a.orc", b"content")
    with pytest.raises(error, match=message):
        await store.commit(prepared, retries=0)


async def test_what_cannot_be_found_out(store: SinkStore, monkeypatch: pytest.MonkeyPatch) -> None:
    info = RenamingFileSystem.info
    monkeypatch.setitem(ATOMIC_RENAMES, RENAMING, answered_never)
    prepared = await store.write("a.orc", b"content")

    def silent(filesystem: Any, path: str, **options: Any) -> Any:
        if store.seen("a.orc") is not None:
            raise ConnectionResetError(errno.ECONNRESET, "reset")
        return info(filesystem, path, **options)

    with monkeypatch.context() as patch:
        patch.setattr(RenamingFileSystem, "info", silent)
        with pytest.raises(CommitUnknown, match=r"\breset\b"):
            await store.commit(prepared, retries=0)
    await store.commit(prepared)
    assert store.seen("a.orc") == b"content"


async def test_a_refusal_before_anything_was_sent_is_one(
    store: SinkStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ATOMIC_RENAMES, RENAMING, rename_at_once)
    prepared = await store.write("a.orc", b"content")

    def refuses(filesystem: Any, path: str, **options: Any) -> Any:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    with monkeypatch.context() as patch:
        patch.setattr(RenamingFileSystem, "info", refuses)
        with pytest.raises(PermissionError):
            await store.commit(prepared, retries=0)
    await store.commit(prepared)
    assert store.seen("a.orc") == b"content"


async def test_an_unknown_commit_names_its_url_once(
    store: SinkStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ATOMIC_RENAMES, RENAMING, answered_never)
    prepared = await store.write("a.orc", b"content")

    def silent(filesystem: Any, path: str, **options: Any) -> Any:
        if store.seen("a.orc") is not None:
            raise ConnectionResetError(errno.ECONNRESET, "reset")
        return info(filesystem, path, **options)

    info = RenamingFileSystem.info
    monkeypatch.setattr(RenamingFileSystem, "info", silent)
    with pytest.raises(CommitUnknown) as caught:
        await store.commit(prepared, retries=0)
    assert str(caught.value).count(store.url_of("a.orc")) == 1


async def test_readers_may_ask_more_than_who_came_first(store: SinkStore) -> None:
    url = store.url_of("a.orc")
    first, _ = await lease_filesystem(StoreUrl.of(url, store.options))
    second, _ = await lease_filesystem(StoreUrl.of(url, store.options, IoOptions(request_cap=200)))
    assert second.client is first.client
    assert second.client.limiter.total_tokens == 200
    await first.aclose()
    await second.aclose()


@pytest.mark.parametrize("name", ["what?.orc", "[a].orc", "*.orc"])
async def test_a_name_is_no_pattern(name: str, tmp_path: Path) -> None:
    store = make_store("copytest", tmp_path)
    for other in ("whatX.orc", "a.orc"):
        store.put(other, b"other")
    await store.discard(await store.write(name, b"content"))
    assert store.seen(name) is None
    await store.commit(await store.write(name, b"content"))
    assert store.seen(name) == b"content"
    assert sorted(FILES) == sorted(f"sinks/{one}" for one in ("whatX.orc", "a.orc", name))
