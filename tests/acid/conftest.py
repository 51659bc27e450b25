"""What the tests of transactional tables share."""

from __future__ import annotations

import pytest

from tests.support.hive_tables import HiveTable, tables_of_hive


@pytest.fixture(scope="session")
def hive_tables() -> dict[str, HiveTable]:
    """Tables that Hive made, by name; nobody changes them."""
    return tables_of_hive()
