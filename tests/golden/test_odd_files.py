"""Odd but legal files: read by the reference, by others that accept them, and by ours in every way."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop import judging
from tests.reference import compare, java_orc, peers, reader
from tests.reference.odd_files import FILES


@pytest.fixture(params=sorted(FILES))
def odd_file(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    path = tmp_path / f"{request.param}.orc"
    path.write_bytes(FILES[request.param]().data)
    return request.param, path


def test_the_reference_reads_it(odd_file: tuple[str, Path]) -> None:
    odd = FILES[odd_file[0]]()
    type_, rows = reader.read(odd.data)
    assert str(type_) == str(odd.type_)
    if type_.kind == "struct":
        rows = [(None,) * len(type_.children) if row is None else row for row in rows]
    compare.assert_same_rows(odd.type_, rows, odd.rows)


@pytest.mark.java
@pytest.mark.usefixtures("java")
def test_java_reads_it(odd_file: tuple[str, Path]) -> None:
    odd = FILES[odd_file[0]]()
    if "java" in odd.accepted_by:
        compare.assert_same_rows(odd.type_, java_orc.read(odd_file[1], odd.type_), odd.rows)


def test_pyorc_reads_it(odd_file: tuple[str, Path]) -> None:
    odd = FILES[odd_file[0]]()
    if "pyorc" in odd.accepted_by:
        compare.assert_same_rows(odd.type_, peers.pyorc_rows(odd_file[1], odd.type_), odd.rows)


@pytest.mark.anyio
async def test_we_read_it(odd_file: tuple[str, Path]) -> None:
    odd = FILES[odd_file[0]]()
    await judging.check(odd_file[1], odd.type_, odd.rows)
