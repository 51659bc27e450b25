"""Files that ours encrypted, merged by ORC Java: what is encrypted it takes from attributes of types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.encryption.test_writing import SORTED, SORTED_ROOTS, SORTED_ROWS, write
from tests.generators.encrypted_columns import KEYS
from tests.interop import judging
from tests.reference import java_orc
from tests.support import reading

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("java")]


def test_java_merges_them(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a.orc", "b.orc", "c.orc")]
    options: dict[str, Any] = {"compression": "zlib", "row_index_stride": 1000}
    write(paths[0], SORTED, [SORTED_ROWS[:3000]], SORTED_ROOTS, stripe_bytes=1024, **options)
    write(paths[1], SORTED, [SORTED_ROWS[3000:]], SORTED_ROOTS, **options)
    assert len(java_orc.merge(paths[2], paths[:2], keys=KEYS)) == 2
    assert java_orc.read(paths[2], SORTED, keys=KEYS) == SORTED_ROWS
    judging.run(paths[2], SORTED, list(SORTED_ROWS), keys=reading.provider(KEYS))
