"""Files of pyarrow's writer, read back by ours.

pyarrow 26 turns the fields of a struct inside a nullable struct into zeros at times. So what was written
is demanded only of other schemas; of all, that pyorc and the plain-Python reference agree on the bytes.
It also stores times before 1970 with a negative fraction, which the specification does not know; every
C++ reader adds it up.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hypothesis
import pytest
from pyarrow import orc

from tests.generators import arrow, strategies
from tests.interop import judging
from tests.reference import compare, peers, reader
from tests.reference.types import T
from tests.support.effort import share

KINDS = (*strategies.PLAIN, "timestamp with local time zone")
SCHEMAS = strategies.schemas(KINDS, plain_names=True)


def struct_in_nullable(type_: T) -> bool:
    """Whether a struct lies anywhere below another that may be null (the root never is)."""

    def below(node: T, inside: bool) -> bool:
        if node.kind == "struct" and inside:
            return True
        return any(below(child, inside or node.kind == "struct") for child in node.children)

    return any(below(child, inside=False) for child in type_.children)


def write(path: Path, table: strategies.Table, options: dict[str, Any]) -> None:
    chosen = dict(options)
    if chosen.pop("bloom", False):
        chosen["bloom_filter_columns"] = list(range(1, len(table.type_.flatten())))  # the root is column 0
    if chosen.get("row_index_stride") == 0:
        del chosen["row_index_stride"]
    # pyarrow's memory block is 64 KiB, and chunks must be a multiple of it.
    if "compression_block_size" in chosen:
        chosen["compression_block_size"] = max(65536, chosen["compression_block_size"])
    orc.write_table(arrow.table_of(table.type_, table.rows), path, **chosen)


@hypothesis.settings(max_examples=share(150))
@hypothesis.given(table=strategies.tables(SCHEMAS), options=strategies.cpp_options())
def test_any_schema(
    tmp_path_factory: pytest.TempPathFactory, table: strategies.Table, options: dict[str, Any]
) -> None:
    path = tmp_path_factory.mktemp("pyarrow") / "any.orc"
    write(path, table, options)
    type_, rows = reader.read(path.read_bytes())
    if not struct_in_nullable(type_):
        compare.assert_same_rows(type_, rows, table.rows)
    compare.assert_same_rows(type_, peers.pyorc_rows(path, type_), rows)
    judging.run(path, type_, rows)
