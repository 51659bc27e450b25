"""Arrow arrays of every layout, through a file and back: what pyarrow says of them before and after."""

from __future__ import annotations

import io
from typing import Any

import anyio
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import orcstream
from tests.generators.arrow_vectors import patient
from tests.property.test_ingest import foreign

OPTIONS = st.fixed_dictionaries(
    {"compression": st.sampled_from(("none", "zstd"))},
    optional={
        "row_index_stride": st.sampled_from((0, 1, 3)),
        "dictionary_threshold": st.sampled_from((0, 1)),
        "stripe_bytes": st.just(1024),
        "file_version": st.sampled_from(("0.11", "UNSTABLE-PRE-2.0")),
    },
)


@patient
@given(data=st.data(), options=OPTIONS, calls=st.integers(1, 3))
def test_every_layout_keeps_its_values(data: st.DataObject, options: dict[str, Any], calls: int) -> None:
    size = data.draw(st.integers(0, 10))
    columns = data.draw(st.lists(foreign(size), min_size=1, max_size=3))
    batch = pa.record_batch(columns, [f"c{i}" for i in range(len(columns))])
    buffer = io.BytesIO()

    async def write_and_read() -> pa.Table:
        async with orcstream.create(buffer, **options) as out:
            for _ in range(calls):
                assert await out.write(batch) == size
        async with orcstream.open(buffer.getvalue()) as file:
            return pa.table(await file.read())

    table = anyio.run(write_and_read)
    table.validate(full=True)
    assert table.num_rows == calls * size
    for before, after in zip(columns, table.columns, strict=True):
        assert after.to_pylist() == calls * before.to_pylist()
