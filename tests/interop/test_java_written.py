"""Files of the Java writer: every type, codec, encoding and zone it can write, read back by ours."""

from __future__ import annotations

import random
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.generators import strategies
from tests.interop import judging
from tests.reference import compare, java_orc, reader
from tests.reference.types import struct
from tests.support.effort import share

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("java")]

SCHEMAS = strategies.schemas(strategies.EVERYTHING, unions=True)


def write(path: Path, table: strategies.Table, options: dict[str, object], zone: str = "UTC") -> None:
    conf = dict(options)
    if conf.pop("bloom", False):
        names = table.type_.names
        conf["orc.bloom.filter.columns"] = ",".join(name for name in names if name.isidentifier())
    java_orc.write(path, table.type_, table.rows, options=conf, zone=zone)


@hypothesis.settings(max_examples=share(150))
@hypothesis.given(table=strategies.tables(SCHEMAS), options=strategies.java_options())
def test_any_schema(
    tmp_path_factory: pytest.TempPathFactory, table: strategies.Table, options: dict[str, object]
) -> None:
    path = tmp_path_factory.mktemp("java") / "any.orc"
    write(path, table, options)
    type_, rows = reader.read(path.read_bytes())
    compare.assert_same_rows(type_, rows, table.rows)
    judging.run(path, type_, rows)


@pytest.mark.parametrize("zone", strategies.ZONES)
@hypothesis.settings(max_examples=share(5))
@hypothesis.given(seed=st.integers(0, 2**32))
def test_wall_clocks_of_a_zone(tmp_path_factory: pytest.TempPathFactory, zone: str, seed: int) -> None:
    """Times that no clock there ever showed come back moved; Java itself and the bytes say where."""
    path = tmp_path_factory.mktemp("java") / "zone.orc"
    type_ = struct(at="timestamp")
    table = strategies.make_table(type_, 500, seed, strategies.Limits(zone=zone))
    write(path, table, {"orc.compress": "ZLIB"}, zone)
    _, rows = reader.read(path.read_bytes())
    compare.assert_same_rows(type_, rows, java_orc.read(path, type_))
    judging.run(path, type_, rows)


# Those of java.util.TimeZone that are none of the tz database, and three that it has other rules for.
SHORT_ZONES = (
    "ACT AET AGT ART AST BET BST CAT CNT CST CTT EAT ECT IET IST JST MIT NET NST PLT PNT PRT PST SST VST "
    "EST HST MST"
).split()


@pytest.mark.parametrize("zone", SHORT_ZONES)
def test_zones_with_names_of_three_letters(tmp_path: Path, zone: str) -> None:
    path = tmp_path / "zone.orc"
    type_ = struct(at="timestamp")
    rng = random.Random(zone)
    rows = [(rng.randrange(-2_400_000_000, 1_700_000_000) * 10**9,) for _ in range(500)]
    java_orc.write(path, type_, rows, zone=zone)
    judging.run(path, type_, java_orc.read(path, type_))
