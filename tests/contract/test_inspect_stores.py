"""Inspections of files in a store: what they ask of it, and that its secrets are in none of their forms."""

from __future__ import annotations

import io

import pytest
from pyarrow import orc

import orcstream
from orcstream import col
from orcstream.inspect import inspect
from tests.generators.trips import trips
from tests.servers.loopback import RangeServer, range_server

__all__ = ["range_server"]

SECRET = "hunter2"


@pytest.fixture(scope="module")
def data() -> bytes:
    buffer = io.BytesIO()
    orc.write_table(trips(), buffer)
    return buffer.getvalue()


async def test_the_requests_shown_are_those_that_the_store_saw(
    range_server: RangeServer, data: bytes
) -> None:
    url = range_server.serve("trips.orc", data)
    found = await inspect(url, columns=["city"], where=col("id") == 4711)
    looked = len(range_server.requests)
    found = await inspect(url, columns=["city"], where=col("id") == 4711, run=True)
    assert found.run is not None
    assert found.question is not None
    assert found.question.explanation is not None
    seen = range_server.requests[2 * looked :]
    assert len(seen) == len(found.run.requests) == found.question.explanation.request_count


@pytest.mark.parametrize("is_damaged", [False, True])
async def test_credentials_are_nowhere(range_server: RangeServer, data: bytes, *, is_damaged: bool) -> None:
    if is_damaged:
        async with orcstream.open(data) as file:
            footer = file.stripes[0].footer_range
        data = data[: footer.start] + bytes(footer.length) + data[footer.stop :]
    url = range_server.serve("trips.orc", data) + f"?sig={SECRET}"
    found = await inspect(url, where=col("id") == 1, run=True)
    assert bool(found.problems) is is_damaged
    for text in (found.to_html(), found.to_text(), found.to_json(), repr(found)):
        assert "trips.orc" in text
        assert SECRET not in text
