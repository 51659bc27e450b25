"""What reads of encrypted columns ask of a store, in words: no hop more than in the clear.

Calls to key stores are counted apart; they are made beside requests where nothing depends on them.
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import lru_cache
from typing import Any

import anyio
import anyio.to_thread
import pytest

from orcstream import Encrypt
from orcstream.byterange import ByteRange, CostModel
from orcstream.codec.metadata.structure import stream_ranges
from orcstream.query.expr import col
from orcstream.reader.file import OrcFile
from tests.generators import seeds
from tests.generators.encrypting import CountedKeys, ProbeKeys, written
from tests.io.test_traffic import describe, record
from tests.support.read_sources import cost_of, opened, sample_rows
from tests.support.recording import RecordingSource

# --- in words --------------------------------------------------------------------------------------

SAMPLE = "struct<a:int,s:string,d:double>"
HIDDEN = [Encrypt("pii", ["s"]), Encrypt("pay", ["d"])]
_PLAIN_FORM: dict[str, Any] = {"compression": "none", "row_index_stride": 0}
_KEYS = CountedKeys()
FILES = [written(SAMPLE, [sample_rows(stripe, 40)], HIDDEN, keys=_KEYS, **_PLAIN_FORM) for stripe in range(2)]
DATA = seeds.merged(FILES, _KEYS)
Parts = list[tuple[str, str, ByteRange]]


async def parts_of(file: OrcFile) -> Parts:
    """All parts of a file, in file order; what is encrypted is named so."""
    parts: Parts = []
    for stripe in file.stripes:
        where = f"stripe {stripe.index}"
        for stream, range_ in stream_ranges(stripe, await file.stripe_footer(stripe.index)):
            hidden = "" if stream.variant is None else "encrypted "
            parts.append((where, f"{hidden}column {stream.column} {stream.kind.name}", range_))
        parts.append((where, "footer", stripe.footer_range))
    tail = file.tail
    parts.append(("file", "encrypted statistics", tail.stripe_statistics_range))
    parts.append(("file", "statistics", tail.metadata_range))
    return [*parts, ("file", "footer", ByteRange(tail.footer_range.start, tail.file_length))]


async def traffic(tail_bytes: int, keys: CountedKeys | None, **options: Any) -> list[str]:
    source = record(DATA, cost_of(tail_bytes=tail_bytes))
    async with opened(source, keys=keys) as file:
        await file.read(**options)
        asked, hops = list(source.ranges), source.hop_count
        parts = await parts_of(file)
    return [*(describe(one, parts) for one in asked), f"{hops} hops, {len(asked)} requests"]


async def tail_bytes_of() -> tuple[int, int]:
    """Of the footer with all behind it, and of the whole tail."""
    async with opened(record(DATA, cost_of())) as file:
        tail = file.tail
        return tail.file_length - tail.footer_range.start, tail.postscript.tail_bytes


async def test_encrypted_columns() -> None:
    footer, _ = await tail_bytes_of()
    assert await traffic(footer, CountedKeys(), columns=["d"]) == [
        f"file: footer {footer}",
        "stripe 0: footer 126",
        "stripe 1: footer 126",
        "stripe 0: encrypted column 3 DATA 320",
        "stripe 1: encrypted column 3 DATA 320",
        "3 hops, 5 requests",
    ]


async def test_masked_columns() -> None:
    """Without keys, what is encrypted is not read."""
    footer, _ = await tail_bytes_of()
    lines = await traffic(footer, None)
    assert not any("encrypted" in line for line in lines)
    assert lines[-1].startswith("3 hops")


async def test_encrypted_statistics_come_with_the_others() -> None:
    """One range, before any footer: two requests where a file in the clear has two."""
    footer, tail = await tail_bytes_of()
    lines = await traffic(footer, CountedKeys(), columns=["a"], where=col("d") > 5)
    assert lines[1] == f"file: encrypted statistics {tail - footer - 116}, statistics 116"
    assert lines[2:] == [
        "stripe 1: footer 126",
        "stripe 1: column 1 DATA 82",
        "stripe 1: encrypted column 3 DATA 320",
        "4 hops, 5 requests",
    ]
    # What came with the tail is not asked for.
    assert (await traffic(tail, CountedKeys(), columns=["a"], where=col("d") > 5))[-1] == "3 hops, 4 requests"


@pytest.mark.parametrize(("columns", "variant_count"), [(["d"], 1), (None, 2)])
async def test_keys_of_stripes_are_asked_for_while_footers_are_on_their_way(
    columns: list[str] | None, variant_count: int
) -> None:
    footer, _ = await tail_bytes_of()
    source = record(DATA, cost_of(tail_bytes=footer))
    under_way: list[int] = []
    keys = ProbeKeys()
    keys.on_call = lambda _: under_way.append(source.under_way)
    async with opened(source, keys=keys) as file:
        assert under_way == [0, 0], "those of the tail, once that is known"
        await file.read(columns=columns)
    assert under_way[2:] == [2] * 2 * variant_count
    assert source.hop_count == 3


# --- beside the same file in the clear -------------------------------------------------------------

ROWS = 60_000
SCHEMA = "struct<id:bigint,a:bigint,s:string,who:struct<ssn:string,age:int>,d:double>"
ENCRYPT = [Encrypt("pii", ["s", "who"]), Encrypt("pay", ["a"])]


@lru_cache
def rows() -> list[dict[str, Any]]:
    rng = random.Random(1)
    return [
        {
            "id": row,
            "a": rng.getrandbits(40),
            "s": f"{rng.getrandbits(64):x}",
            "who": {"ssn": f"{rng.getrandbits(30)}", "age": row % 90},
            "d": rng.random(),
        }
        for row in range(ROWS)
    ]


@lru_cache
def file_of(*, encrypted: bool) -> bytes:
    parts = [rows()[start : start + 2000] for start in range(0, ROWS, 2000)]
    options: dict[str, Any] = {"stripe_bytes": 1 << 19, "row_index_stride": 2000, "blooms": ["s"]}
    return written(SCHEMA, parts, ENCRYPT if encrypted else [], keys=CountedKeys(), **options)


QUERIES: dict[str, dict[str, Any]] = {
    "everything": {},
    "one-column": {"columns": ["a"]},
    "two-columns": {"columns": ["a", "who.ssn"]},
    "clear-and-encrypted": {"columns": ["id", "s"]},
    "clear": {"columns": ["id", "d"]},
    "some-rows": {"rows": range(31_000, 31_010)},
    "some-rows-of-a-column": {"rows": range(31_000, 31_010), "columns": ["s"]},
    "by-statistics": {"where": col("id") == 30_000},
    "by-encrypted-statistics": {"where": col("who.age") > 100},
    "by-encrypted-filters": {"where": col("s") == "no such text"},
    "by-an-encrypted-column": {"where": col("a") > 1 << 39, "columns": ["s"]},
}


async def asked_of(data: bytes, cost: CostModel, query: dict[str, Any]) -> tuple[RecordingSource, list[Any]]:
    source = record(data, cost)
    async with opened(source, keys=CountedKeys()) as file:
        found = (await file.read(**query)).to_pylist()
    return source, found


@pytest.mark.sampled
@pytest.mark.parametrize("preset", ["http", "object_store", "hdfs", "local"])
@pytest.mark.parametrize("name", QUERIES)
def test_hops_and_requests_are_those_of_a_file_in_the_clear(name: str, preset: str) -> None:
    """Streams of two variants may lie apart where those of two columns do not: that may be one range more."""
    cost = replace(getattr(CostModel, preset)(), adaptive=False)
    (plain, wanted), (hidden, found) = (
        anyio.run(asked_of, file_of(encrypted=encrypted), cost, QUERIES[name]) for encrypted in (False, True)
    )
    assert found == wanted
    assert hidden.hop_count == plain.hop_count <= 4
    more = 1 if "encrypted" in name else 0
    assert len(hidden.ranges) <= len(plain.ranges) + more
    assert hidden.byte_count <= plain.byte_count * 1.02 + 1000
