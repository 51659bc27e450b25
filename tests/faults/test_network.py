"""A network that is slow, breaks off, holds back or is not there, before each store: what a user sees.

Each fault is met by every way to read and by writing. Where it passes, the rows are equal; where it stays,
the error has its class, names the URL and comes in time, and the store is as it was.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import orcstream
from orcstream import col
from orcstream.errors import RetriesExhausted, SinkError
from orcstream.io.loop.clients import leased_clients
from orcstream.io.sink import commit, open_sink
from tests.servers.faults import FILE, TABLE, Place, healing, nothing_leased, place_of, rows_of, whole
from tests.servers.toxiproxy import Link

# Far above what any of these takes on a busy machine, far below what the defaults would.
IN_TIME_S = 30.0
QUICK: dict[str, Any] = {"timeout_s": 20.0, "stall_timeout_s": 0.25}
# Where there are many attempts, one that a busy machine makes too slow is only one more.
MANY: dict[str, Any] = {"retries": 20, "stall_timeout_s": 0.1}


@dataclass(frozen=True)
class Fault:
    """`spoil` begins it; `passes` says that it slows connections and ends none."""

    name: str
    spoil: Callable[[Link], None]
    passes: bool = False

    def __str__(self) -> str:
        return self.name


SLOW = [
    Fault("latency", lambda link: link.spoil("latency", latency=40, jitter=20), passes=True),
    Fault("bandwidth", lambda link: link.spoil("bandwidth", rate=4000), passes=True),
    Fault("slicer", lambda link: link.spoil("slicer", average_size=4000, size_variation=2000), passes=True),
    Fault("slow close", lambda link: link.spoil("slow_close", delay=100), passes=True),
]
READING = [
    *SLOW,
    Fault("reset at once", lambda link: link.spoil("reset_peer", timeout=0)),
    Fault("reset later", lambda link: link.spoil("reset_peer", timeout=20)),
    Fault("cut after bytes", lambda link: link.spoil("limit_data", bytes=500)),
    Fault("black hole", lambda link: link.spoil("timeout", timeout=0)),
    Fault("black hole, closed", lambda link: link.spoil("timeout", timeout=30)),
    Fault("requests lost", lambda link: link.spoil("timeout", "upstream", timeout=0)),
    Fault("refused", lambda link: link.cut()),
]
WRITING = [
    Fault("latency", lambda link: link.spoil("latency", "upstream", latency=40, jitter=20), passes=True),
    Fault("bandwidth", lambda link: link.spoil("bandwidth", "upstream", rate=4000), passes=True),
    Fault(
        "slicer",
        lambda link: link.spoil("slicer", "upstream", average_size=4000, size_variation=2000),
        passes=True,
    ),
    Fault("slow close", lambda link: link.spoil("slow_close", delay=100), passes=True),
    Fault("reset at once", lambda link: link.spoil("reset_peer", timeout=0)),
    Fault("reset later", lambda link: link.spoil("reset_peer", "upstream", timeout=20)),
    Fault("cut after bytes", lambda link: link.spoil("limit_data", "upstream", bytes=100)),
    Fault("answers cut", lambda link: link.spoil("limit_data", bytes=20)),
    Fault("answers lost", lambda link: link.spoil("timeout", timeout=0)),
    Fault("requests lost", lambda link: link.spoil("timeout", "upstream", timeout=0)),
    Fault("refused", lambda link: link.cut()),
]
HOPS = ["http", "s3", "hdfs name", "hdfs data"]


@pytest.fixture(params=HOPS)
def hop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Place, Link]]:
    """A place, and the link to it that is spoiled."""
    kind, _, which = request.param.partition(" ")
    with place_of(kind, tmp_path.name) as place:
        yield place, place.links[which]


def well(link: Link) -> None:
    link.join()
    link.heal()


def reads() -> list[tuple[dict[str, Any], pa.Table]]:
    """Options of a read, and its rows: all, those of a predicate, those of some numbers."""
    few = TABLE.filter(pc.is_in(TABLE["id"], pa.array([17, 12_345, 29_999])))
    return [
        ({"batch_rows": 5000}, TABLE),
        ({"where": col("id").isin([17, 12_345, 29_999])}, few),
        ({"rows": range(20_100, 20_300)}, TABLE.slice(20_100, 200)),
    ]


@pytest.mark.sampled
@pytest.mark.parametrize("fault", READING, ids=str)
async def test_reading(hop: tuple[Place, Link], fault: Fault) -> None:
    place, link = hop
    place.put("a.orc", FILE)
    with healing(lambda: well(link)) as met:
        async with nothing_leased():
            fault.spoil(link)
            tuned = {"retries": 0} if fault.passes else {**QUICK, **MANY}
            async with orcstream.open(
                place.url_of("a.orc"), storage_options=place.options, io_options=tuned
            ) as file:
                assert bool(met.count) != fault.passes
                for options, expected in reads():
                    if not fault.passes:
                        met.count = 0
                        fault.spoil(link)
                    assert (await rows_of(file, **options)).equals(expected)
                    assert bool(met.count) != fault.passes
                    well(link)
                async with file.batches(batch_rows=1000) as stream:
                    first = pa.record_batch(await anext(stream))
                    assert first.equals(TABLE.slice(0, 1000).combine_chunks().to_batches()[0])
                    met.count = 0
                    fault.spoil(link)
                    await stream.seek(25_000)
                    assert pa.record_batch(await anext(stream))["id"][0].as_py() == 25_000


@pytest.mark.sampled
@pytest.mark.parametrize("fault", [one for one in READING if not one.passes], ids=str)
async def test_reading_what_stays_away(hop: tuple[Place, Link], fault: Fault) -> None:
    place, link = hop
    place.put("a.orc", FILE)
    url = place.url_of("a.orc")
    how: dict[str, Any] = {"storage_options": place.options, "io_options": {**QUICK, "retries": 1}}
    with healing() as met:
        async with nothing_leased(), orcstream.open(url, **how) as file:
            fault.spoil(link)
            start_s = time.monotonic()
            with pytest.raises(RetriesExhausted) as caught:
                await rows_of(file)
            assert time.monotonic() - start_s < IN_TIME_S
            assert caught.value.url == url
            with pytest.raises(RetriesExhausted) as caught:
                await orcstream.open(url, **how)
            assert caught.value.url == url
            assert met.count >= 2
            well(link)
            assert (await rows_of(file)).equals(TABLE)


@pytest.fixture(params=HOPS[1:])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Place, Link]]:
    kind, _, which = request.param.partition(" ")
    with place_of(kind, tmp_path.name) as place:
        yield place, place.links[which]


async def write(place: Place, name: str, options: dict[str, Any]) -> None:
    async with orcstream.create(
        place.url_of(name),
        TABLE.schema,
        compression="none",
        storage_options=place.options,
        sink_options={"part_bytes": 200_000, **options},
    ) as out:
        for start in range(0, len(TABLE), 10_000):
            await out.write(TABLE.slice(start, 10_000))


async def write_and_commit(out: orcstream.OrcWriter) -> None:
    await out.write(TABLE)
    await out.commit()


@pytest.mark.sampled
@pytest.mark.parametrize("fault", WRITING, ids=str)
async def test_writing(target: tuple[Place, Link], fault: Fault) -> None:
    place, link = target
    options: dict[str, Any] = {"retries": 0}
    if not fault.passes:
        options = {**MANY, "timeout_s": 0.5}
    with healing(lambda: well(link)) as met:
        async with nothing_leased():
            fault.spoil(link)
            await write(place, "a.orc", options)
            assert bool(met.count) != fault.passes
    well(link)
    assert whole(place.seen("a.orc")).equals(TABLE)
    assert place.left() == []


@pytest.mark.sampled
@pytest.mark.parametrize("fault", [one for one in WRITING if not one.passes], ids=str)
async def test_writing_to_what_stays_away(target: tuple[Place, Link], fault: Fault) -> None:
    """The fault ends when the writer has given up: an abort has to reach the store."""
    place, link = target
    url = place.url_of("a.orc")
    place.put("a.orc", FILE)
    out = await orcstream.create(
        url,
        TABLE.schema,
        storage_options=place.options,
        sink_options={"retries": 1, "timeout_s": 0.5, "stall_timeout_s": 0.25},
    )
    fault.spoil(link)
    start_s = time.monotonic()
    with healing() as met, pytest.raises(SinkError) as caught:
        await write_and_commit(out)
    assert time.monotonic() - start_s < IN_TIME_S
    assert met.count == 1
    assert caught.value.url == url
    well(link)
    await out.abort()
    assert place.seen("a.orc") == FILE
    assert place.left() == []


@pytest.mark.parametrize("kind", ["http", "s3", "hdfs"])
async def test_a_slow_line_is_waited_for(kind: str, tmp_path: Path) -> None:
    """What takes longer than `timeout_s` and moves all the time has not failed."""
    with place_of(kind, tmp_path.name) as place:
        place.put("a.orc", FILE)
        for link in place.links.values():
            link.spoil("bandwidth", rate=250)
            link.spoil("bandwidth", "upstream", rate=250)
        async with nothing_leased():
            # Each way takes longer for the file, and every small request much less.
            options = {"retries": 5, "timeout_s": 1.0, "part_bytes": 10 << 20}
            async with orcstream.open(
                place.url_of("a.orc"), storage_options=place.options, io_options=options
            ) as file:
                assert (await rows_of(file)).equals(TABLE)
            if kind != "http":
                # What the kernel holds counts as sent to S3, and an answer is waited for no longer than this.
                await write(place, "b.orc", {**options, "timeout_s": 6 if kind == "s3" else 1.0})
                assert whole(place.seen("b.orc")).equals(TABLE)


async def test_a_part_that_moves_is_waited_for(tmp_path: Path) -> None:
    with place_of("s3", tmp_path.name) as place:
        part = os.urandom(24 << 20)  # more than the buffers between here and there hold, and 4 s
        place.link.spoil("bandwidth", "upstream", rate=6000)
        sink = await open_sink(
            place.url_of("a"),
            storage_options=place.options,
            sink_options={"part_bytes": len(part), "timeout_s": 3, "retries": 0},
        )
        await sink.write(part)
        await commit(await sink.prepare(), storage_options=place.options)
        await sink.aclose()
        assert place.seen("a") == part


async def test_a_part_that_stalls_is_sent_again(tmp_path: Path) -> None:
    with place_of("s3", tmp_path.name) as place:
        part = os.urandom(24 << 20)  # more than the buffers between here and there hold
        sink = await open_sink(
            place.url_of("a"),
            storage_options=place.options,
            sink_options={"part_bytes": len(part), "stall_timeout_s": 0.2, "timeout_s": 3},
        )
        place.link.spoil("bandwidth", "upstream", rate=20)
        with healing(place.link.heal) as met:
            await sink.write(part)
            prepared = await sink.prepare()
        assert met.count == 1
        await commit(prepared, storage_options=place.options)
        await sink.aclose()
        assert place.seen("a") == part
        assert place.left() == []
        assert leased_clients() == 0


@pytest.mark.parametrize(
    "fault",
    [one for one in WRITING if str(one) in ("reset later", "cut after bytes", "requests lost", "refused")],
    ids=str,
)
async def test_ingesting_and_merging(fault: Fault, tmp_path: Path) -> None:
    """The fault comes back for each file, and for the sources of the merge."""
    with place_of("s3", tmp_path.name) as place:
        sink = {**MANY, "timeout_s": 0.5}
        names: list[str] = []
        async with nothing_leased():
            with healing(lambda: well(place.link)) as met:
                fault.spoil(place.link)
                async with orcstream.ingest(
                    place.url_of("{number}.orc"),
                    TABLE.schema,
                    max_rows=10_000,
                    storage_options=place.options,
                    sink_options=sink,
                    on_file=lambda file: names.append(file.url.rpartition("/")[2]),
                ) as out:
                    await out.write(TABLE)
            assert met.count
            found = [whole(place.seen(name)) for name in sorted(names)]
            assert pa.concat_tables(found).sort_by("id").equals(TABLE)
            with healing(lambda: well(place.link)) as met:
                fault.spoil(place.link)
                await orcstream.merge(
                    [place.url_of(name) for name in sorted(names)],
                    place.url_of("merged.orc"),
                    storage_options=place.options,
                    target_storage_options=place.options,
                    io_options={**QUICK, **MANY},
                    sink_options=sink,
                )
            assert met.count
        assert whole(place.seen("merged.orc")).sort_by("id").equals(TABLE)
        assert place.left() == []
