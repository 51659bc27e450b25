"""A writer that is killed leaves nothing that is visible, and what it left is found and removed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from orcstream.io.sink import cleanup
from tests.support.s3_proxy import S3_KINDS
from tests.support.sink_stores import make_store


@pytest.mark.parametrize("stage", ["writing", "prepared"])
@pytest.mark.parametrize("kind", ["local", "hdfs", *S3_KINDS])
async def test_killed(kind: str, stage: str, tmp_path: Path) -> None:
    store = make_store(kind, tmp_path)
    store.put("a.orc", b"earlier")
    url, options = store.url_of("a.orc"), store.options
    process = subprocess.Popen(  # noqa: ASYNC220 - nothing else runs meanwhile
        [sys.executable, "-m", "tests.io.sink_child", stage, url, json.dumps(options), str(store.part_bytes)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    finally:
        process.kill()
        process.communicate()
    assert store.seen("a.orc") == b"earlier"
    assert len(store.left()) == 1
    if not store.is_undated:
        assert await cleanup(url, older_than_s=600, storage_options=options) == []
        assert len(store.left()) == 1
    found = await cleanup(url, older_than_s=0, storage_options=options)
    assert len(found) == 1
    assert store.left() == []
    assert store.seen("a.orc") == b"earlier"
