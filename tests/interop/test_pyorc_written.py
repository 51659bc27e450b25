"""Files of pyorc's writer (the C++ implementation), read back by ours; Java is the second judge."""

from __future__ import annotations

import zoneinfo
from pathlib import Path
from typing import Any

import hypothesis
import pyorc
import pytest
from hypothesis import strategies as st

from tests.generators import strategies
from tests.interop import judging
from tests.reference import compare, java_orc, peers, reader
from tests.support.effort import share

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("java")]

SCHEMAS = strategies.schemas(strategies.EVERYTHING)
# The C++ writer counts days in the proleptic calendar and does not say so: Java takes them for hybrid.
LIMITS = strategies.Limits(first_day=-141_427)
COMPRESSIONS = {
    "uncompressed": pyorc.CompressionKind.NONE,
    "zlib": pyorc.CompressionKind.ZLIB,
    "snappy": pyorc.CompressionKind.SNAPPY,
    "lz4": pyorc.CompressionKind.LZ4,
    "zstd": pyorc.CompressionKind.ZSTD,
}


def write(path: Path, table: strategies.Table, options: dict[str, Any], zone: str) -> None:
    chosen = dict(options)
    chosen["compression"] = COMPRESSIONS[chosen.pop("compression")]
    if "dictionary_key_size_threshold" in chosen:
        chosen["dict_key_size_threshold"] = chosen.pop("dictionary_key_size_threshold")
    if "compression_block_size" in chosen:
        chosen["memory_block_size"] = chosen["compression_block_size"]
    if chosen.pop("bloom", False):
        chosen["bloom_filter_columns"] = list(range(1, 1 + len(table.type_.names)))
    peers.write_pyorc(path, table.type_, table.rows, timezone=zoneinfo.ZoneInfo(zone), **chosen)


@hypothesis.settings(max_examples=share(150))
@hypothesis.given(
    table=strategies.tables(SCHEMAS, LIMITS),
    options=strategies.cpp_options(),
    zone=st.sampled_from(strategies.ZONES),
)
def test_any_schema(
    tmp_path_factory: pytest.TempPathFactory, table: strategies.Table, options: dict[str, Any], zone: str
) -> None:
    path = tmp_path_factory.mktemp("pyorc") / "any.orc"
    write(path, table, options, zone)
    type_, rows = reader.read(path.read_bytes())
    if zone == "UTC" or "timestamp" not in type_.walk_kinds():
        compare.assert_same_rows(type_, rows, table.rows)
    compare.assert_same_rows(type_, java_orc.read(path, type_), rows)
    judging.run(path, type_, rows)
