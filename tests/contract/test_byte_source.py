"""What every source of bytes keeps, whichever store is behind it, and what the package's own keep besides."""

from __future__ import annotations

from pathlib import Path

import pytest

from orcstream.io.urls import open_source
from orcstream.testing import ByteSourceContract, SourceStore
from tests.servers.source_stores import SOURCE_STORES, make_source_store, range_server

__all__ = ["range_server"]  # a fixture


@pytest.fixture(params=SOURCE_STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SourceStore:
    return make_source_store(request, tmp_path)


class TestByteSource(ByteSourceContract):
    """Of every store there is."""


async def test_io_options_tune_the_cost(store: SourceStore) -> None:
    await store.put("a.orc", b"data")
    tuned = {"request_cap": 3, "part_bytes": 1 << 20, "tail_bytes": 999}
    source = await open_source(store.url_of("a.orc"), storage_options=store.storage_options, io_options=tuned)
    assert {name: getattr(source.cost, name) for name in tuned} == tuned
    await source.aclose()
