"""Where the tables of these tests are, and those that Hive made."""

from __future__ import annotations

from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from orcstream.acid.transactions import log
from tests.generators.acid_logs import MEMORY
from tests.generators.hive_tables import HiveTable, kept_tables
from tests.servers.disks import unhurried_disk

__all__ = ["unhurried_disk"]


@pytest.fixture(autouse=True)
def empty_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "_LOOK_AGAIN_S", 0)
    for path in [path for path in MemoryFileSystem.store if path.startswith("/acid-log/")]:
        del MemoryFileSystem.store[path]


@pytest.fixture(params=["memory", "local"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return MEMORY if request.param == "memory" else str(tmp_path / "table")


@pytest.fixture(scope="session")
def hive_tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, HiveTable]:
    """Tables that Hive made, by name; nobody changes them."""
    return kept_tables(tmp_path_factory.mktemp("hive"))
