"""Statistics and bloom filters of real writers never rule out what the rows hold, and rule out what they should."""

from __future__ import annotations

import zoneinfo
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import hypothesis
import pyarrow as pa
import pytest
from hypothesis import strategies as st
from pyarrow import orc

from orcstream.plan.prune import Outcome
from orcstream.predicate import Negation, Op
from tests.interop import pruning
from tests.support import compare, corpus, java_orc, peers, strategies
from tests.support.reference.types import T, struct

JAVA_KINDS = strategies.EVERYTHING
CPP_KINDS = tuple(kind for kind in strategies.EVERYTHING if kind != "char")


def tables(kinds: tuple[str, ...], *, zone: str = "UTC") -> st.SearchStrategy[strategies.Table]:
    level = st.one_of(
        strategies.leaves(kinds), strategies.structs(strategies.leaves(kinds), plain_names=True, most=3)
    )
    shapes = strategies.structs(level, plain_names=True)
    return strategies.tables(shapes, strategies.Limits(zone=zone))


def load(path: Path, **options: Any) -> pruning.Known:
    async def run() -> pruning.Known:
        return await pruning.load(path, **options)

    return anyio.run(run)


UNITS = st.sampled_from(("us", "us", "ms", "s"))


@pytest.mark.java
@pytest.mark.usefixtures("java")
@hypothesis.settings(max_examples=60)
@hypothesis.given(
    table=tables(JAVA_KINDS),
    stride=st.sampled_from((1000, 10_000)),
    proleptic=st.booleans(),
    unit=UNITS,
    old=st.booleans(),
)
def test_java(
    tmp_path_factory: pytest.TempPathFactory,
    table: strategies.Table,
    stride: int,
    proleptic: bool,
    unit: str,
    old: bool,
) -> None:
    path = tmp_path_factory.mktemp("java") / "a.orc"
    options = {
        "orc.row.index.stride": stride,
        "orc.proleptic.gregorian": proleptic,
        "orc.stripe.row.count": 2000,
        "orc.bloom.filter.columns": ",".join(table.type_.names),
        "orc.bloom.filter.write.version": "original" if old else "utf8",
    }
    java_orc.write(path, table.type_, table.rows, options=options)
    pruning.check_many(load(path, unit=unit), table.seed)


@hypothesis.settings(max_examples=60)
@hypothesis.given(
    table=tables(CPP_KINDS), stride=st.sampled_from((100, 1000)), unit=UNITS, blooms=st.booleans()
)
def test_pyorc(
    tmp_path_factory: pytest.TempPathFactory, table: strategies.Table, stride: int, unit: str, blooms: bool
) -> None:
    path = tmp_path_factory.mktemp("pyorc") / "a.orc"
    columns = {"bloom_filter_columns": list(range(1, len(table.type_.flatten())))} if blooms else {}
    peers.write_pyorc(path, table.type_, table.rows, row_index_stride=stride, stripe_size=16_384, **columns)
    pruning.check_many(load(path, unit=unit), table.seed)
