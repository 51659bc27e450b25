"""Row indexes whose positions were changed: rows or one of our errors, never another exception."""

from __future__ import annotations

import io

import numpy as np
import pytest

import orcstream
import orcstream.blocking
from orcstream.errors import FormatError
from tests.reference.varint import write_varint

ROWS, STRIDE = 30_000, 1000


async def changed(group: int, claimed: int) -> bytes:
    """Doubles whose index says that a row group begins where another does."""
    whole = io.BytesIO()
    values = np.random.default_rng(0).random(ROWS)
    orcstream.blocking.write(whole, {"x": values}, row_index_stride=STRIDE, compression="none")
    data = bytearray(whole.getvalue())
    async with orcstream.open(bytes(data)) as file:
        start = file.stripes[0].offset
        rows_start = start + file.stripes[0].index_length
    right, wrong = write_varint(8 * STRIDE * group), write_varint(8 * STRIDE * claimed)
    assert len(right) == len(wrong)
    assert data.count(right, start, rows_start) == 1
    at = data.index(right, start, rows_start)
    data[at : at + len(right)] = wrong
    return bytes(data)


@pytest.mark.parametrize("claimed", range(20, ROWS // STRIDE))
@pytest.mark.parametrize("group", [20, 26, 27, 28])
async def test_rows_of_a_group_that_lies_elsewhere(group: int, claimed: int) -> None:
    """What is missing then is asked for late, and may lie in what was read with the file's tail."""
    async with orcstream.open(await changed(group, claimed)) as file:
        for start in (group * STRIDE - 1, group * STRIDE, (group + 1) * STRIDE - 1):
            for rows in (1, 2, STRIDE // 2):
                try:
                    async with file.batches(rows=range(start, start + rows)) as batches:
                        assert sum([batch.num_rows async for batch in batches]) == rows
                except FormatError:
                    assert claimed != group
