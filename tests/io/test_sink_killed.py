"""A writer that is killed leaves nothing that is visible, and what it left is found and removed."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from orcstream.io.sink import cleanup
from tests.io.sink_child import content
from tests.servers.s3_proxy import S3_KINDS
from tests.servers.sink_stores import SinkStore, make_store


def run_and_kill(store: SinkStore, stage: str, after_s: float) -> None:
    url, options = store.url_of("a.orc"), json.dumps(store.options)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.io.sink_child", stage, url, options, str(store.part_bytes)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(after_s)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("stage", ["writing", "prepared"])
@pytest.mark.parametrize("kind", ["local", "hdfs", *S3_KINDS])
async def test_killed(kind: str, stage: str, tmp_path: Path) -> None:
    store = make_store(kind, tmp_path)
    store.put("a.orc", b"earlier")
    url, options = store.url_of("a.orc"), store.options
    run_and_kill(store, stage, after_s=0)
    assert store.seen("a.orc") == b"earlier"
    assert len(store.left()) == 1
    if not store.is_undated:
        assert await cleanup(url, older_than_s=600, storage_options=options) == []
        assert len(store.left()) == 1
    found = await cleanup(url, older_than_s=0, storage_options=options)
    assert len(found) == 1
    assert store.left() == []
    assert store.seen("a.orc") == b"earlier"


@pytest.mark.parametrize("kind", ["local", *S3_KINDS])
async def test_killed_at_any_moment(kind: str, tmp_path: Path) -> None:
    store = make_store(kind, tmp_path)
    clean = functools.partial(cleanup, store.url_of("a.orc"), older_than_s=0, storage_options=store.options)
    rounds, longest_s = (6, 0.01) if kind == "local" else (4, 0.4)
    for number in range(rounds):
        await anyio.to_thread.run_sync(run_and_kill, store, "again", longest_s * number / rounds)
        for _ in range(100):
            await clean()
            if not store.left():
                break
            await anyio.sleep(0.1)  # the server may still be at what it was asked last
        assert store.left() == []
        seen = store.seen("a.orc")
        assert seen is not None
        assert seen == content(seen[0], store.part_bytes)
