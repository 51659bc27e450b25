"""What a file said of its stripes is asked for once while it is open."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import orcstream
from orcstream import col
from orcstream.byterange import ByteRange
from orcstream.errors import SourceChanged
from orcstream.reader.engine.session import DecodeSpan, Remembered, RequestSpan
from tests.servers.loopback import RangeServer, range_server

__all__ = ["range_server"]  # fixture

ROWS = 40_000


class Requests:
    """The waves of the requests that were sent."""

    def __init__(self) -> None:
        self.waves: list[str] = []

    def on_request(self, span: RequestSpan) -> None:
        self.waves.append(span.wave)

    def on_decode(self, span: DecodeSpan) -> None: ...


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("remembered") / "a.orc"
    table = pa.table({"n": range(ROWS), "t": [f"{row * 7919 % 100_003:06d}" * 3 for row in range(ROWS)]})
    with orcstream.blocking.create(path, table.schema, row_index_stride=1000, blooms=["n"]) as out:
        for first in range(0, ROWS, 20_000):
            out.write(table.slice(first, 20_000))
            out.end_stripe()
    return path


@pytest.fixture
def url(path: Path, range_server: RangeServer) -> str:
    return range_server.serve("remembered.orc", path.read_bytes())


async def waves_of(file: orcstream.OrcFile, requests: Requests, row: int, **options: Any) -> set[str]:
    """The waves of a read of one row, which is found."""
    requests.waves.clear()
    if "where" in options:
        found = await file.read(**options)
    else:
        found = await file.take([row], **options)
    assert [one["n"] for one in found.to_pylist()] == [row]
    return set(requests.waves)


async def test_footers_and_indexes_are_asked_for_once(url: str) -> None:
    requests = Requests()
    async with orcstream.open(url, observer=requests, io_options={"tail_bytes": 4096}) as file:
        assert "control" in await waves_of(file, requests, 1500)
        assert await waves_of(file, requests, 9500) == {"data"}
        assert "control" in await waves_of(file, requests, 39_000)
        assert await waves_of(file, requests, 21_000, columns=["n"]) == {"data"}
        assert await waves_of(file, requests, 3, columns=["n"]) == {"data"}


async def test_filters_are_asked_for_once(url: str) -> None:
    requests = Requests()
    async with orcstream.open(url, observer=requests, io_options={"tail_bytes": 4096}) as file:
        await waves_of(file, requests, 1500, where=col("n") == 1500)
        again = await waves_of(file, requests, 3333, where=col("n") == 3333)
        assert not again & {"control", "index", "tail"}


async def test_a_plan_knows_what_is_remembered(url: str) -> None:
    requests = Requests()
    async with orcstream.open(url, observer=requests, io_options={"tail_bytes": 4096}) as file:
        for row in (1500, 1501, 25_000):
            options: dict[str, Any] = {"rows": range(row, row + 1)}
            plan = await file.explain(**options)
            requests.waves.clear()
            assert (await file.read(**options)).num_rows == 1
            waves = [wave for wave in plan.waves if wave.name != "tail"]
            assert len(requests.waves) == sum(wave.request_count for wave in waves)


async def test_nothing_is_remembered_where_nothing_may_be(url: str) -> None:
    requests = Requests()
    io_options = {"tail_bytes": 4096, "remembered_bytes": 0}
    async with orcstream.open(url, observer=requests, io_options=io_options) as file:
        first = await waves_of(file, requests, 1500)
        assert await waves_of(file, requests, 1501) == first >= {"control"}


async def test_a_file_that_was_replaced_is_another_one(path: Path, range_server: RangeServer) -> None:
    url = range_server.serve("replaced.orc", path.read_bytes())
    async with orcstream.open(url, io_options={"tail_bytes": 4096}) as file:
        await file.take([1500])
        range_server.serve("replaced.orc", path.read_bytes()[:-1] + b"x")
        with pytest.raises(SourceChanged):
            await file.take([1501])


async def test_tasks_share_what_is_remembered(url: str) -> None:
    async with orcstream.open(url, io_options={"tail_bytes": 4096}) as file:
        found = await asyncio.gather(*(file.take([row]) for row in range(0, ROWS, 997)))
    assert [one.to_pylist()[0]["n"] for one in found] == list(range(0, ROWS, 997))


def test_what_was_used_last_stays() -> None:
    """Each entry counts 500 bytes besides its own."""
    kept = Remembered(3500)
    ranges = [ByteRange(at, at + 200) for at in range(0, 1400, 200)]
    for number, range_ in enumerate(ranges[:5]):
        kept.put(range_, memoryview(bytes([number]) * 200))
    assert bytes(kept.get(ranges[0]) or b"") == bytes(200)
    kept.put(ranges[5], memoryview(bytes(200)))
    assert [kept.has(range_) for range_ in ranges] == [True, False, True, True, True, True, False]
    kept.put(ByteRange(0, 876), memoryview(bytes(876)))
    assert not kept.has(ByteRange(0, 876))
    assert kept.get(ByteRange(0, 199)) is None


@pytest.mark.parametrize("remembered_bytes", [2000, 4000, 9000])
async def test_what_is_forgotten_meanwhile_is_not_missed(
    tmp_path: Path, url: str, path: Path, remembered_bytes: int
) -> None:
    """A footer was known when the requests were planned, and forgotten when it was wanted."""
    many = tmp_path / "many.orc"
    with orcstream.blocking.create(many, "struct<n:bigint>") as out:
        for row in range(60):
            out.write([(row,)])
            out.end_stripe()
    io_options = {"tail_bytes": 1024, "remembered_bytes": remembered_bytes}
    async with orcstream.open(many, io_options=io_options) as file:
        for row in range(150):
            rows = [row % 58, (row * 7 + 3) % 60, row % 58 + 1]
            found = await file.take(rows)
            assert [one["n"] for one in found.to_pylist()] == rows
    async with orcstream.open(url, io_options=io_options) as file:
        for at in range(0, 3000, 300):
            wanted = range(at, ROWS, 4000)
            found_by_tasks = await asyncio.gather(*(file.take([row]) for row in wanted))
            assert [one.to_pylist()[0]["n"] for one in found_by_tasks] == list(wanted)
