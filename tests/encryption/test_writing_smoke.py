"""Encrypted files of ours as ORC Java and ORC C++ see them: with all keys, with some, and with none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orcstream import Encrypt
from tests.generators import encrypted_columns, strategies
from tests.generators.encrypted_columns import KEYS, PII, TOP
from tests.reference import compare, java_orc, peers
from tests.reference.encryption import Locked
from tests.reference.types import parse
from tests.support import reading, writing

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("java")]

TYPE = parse("struct<id:bigint,ssn:string,pay:decimal(10,2),s:struct<a:int,b:array<string>>,at:timestamp>")
ROWS: list[Any] = strategies.make_table(TYPE, 3000, 4, strategies.Limits()).rows
CHOICES = [("ssn", PII, "nullify"), ("s.b", TOP, "nullify"), ("pay", TOP, "nullify")]
ENCRYPT = [Encrypt(PII.name, ["ssn"]), Encrypt(TOP.name, ["s.b", "pay"])]


def write(path: Path, **options: Any) -> None:
    parts = [[writing.python_value(TYPE, row) for row in ROWS[at : at + 1000]] for at in (0, 1000, 2000)]
    keys = reading.provider(KEYS)
    writing.write(path, TYPE, parts, encrypt=ENCRYPT, keys=keys, stripe_bytes=50_000, **options)


def masked(*hidden: str) -> list[Any]:
    return [
        (
            id_,
            None if "ssn" in hidden else ssn,
            None if "pay" in hidden else pay,
            None if s is None else (s[0], None if "b" in hidden else s[1]),
            at,
        )
        for id_, ssn, pay, s, at in ROWS
    ]


@pytest.mark.parametrize("compression", ["none", "zlib", "zstd"])
def test_java_reads_what_its_keys_open(tmp_path: Path, compression: str) -> None:
    path = tmp_path / "a.orc"
    write(path, compression=compression, row_index_stride=100)
    assert len(Locked(path.read_bytes()).stripes) == 3
    for keys, hidden in ((KEYS, ()), ((PII,), ("b", "pay")), ((TOP,), ("ssn",)), ((), ("ssn", "b", "pay"))):
        expected = masked(*hidden)
        compare.assert_same_rows(TYPE, java_orc.read(path, TYPE, keys=keys), expected)
        from_2050 = java_orc.read_from(path, TYPE, 2050, 100, keys=keys)
        compare.assert_same_rows(TYPE, from_2050, expected[2050:2150])


def test_java_prunes_with_encrypted_statistics_and_filters(tmp_path: Path) -> None:
    path, type_ = tmp_path / "a.orc", parse("struct<a:bigint>")
    rows = [(2 * number,) for number in range(3000)]
    options: dict[str, Any] = {"blooms": ["a"], "row_index_stride": 1000}
    encrypt, keys = [Encrypt(PII.name, ["a"])], reading.provider(KEYS)
    writing.write(path, type_, [rows], encrypt=encrypt, keys=keys, **options)
    for literal, expected in ((2500, rows[1000:2000]), (2501, []), (99_999, [])):
        assert java_orc.read_groups(path, type_, "a", "LONG", "EQUALS", [literal], keys=KEYS) == expected


def test_java_says_the_same_of_its_own_file(tmp_path: Path) -> None:
    write(tmp_path / "ours.orc")
    roots = encrypted_columns.named(TYPE, CHOICES)
    encrypted_columns.write(tmp_path / "theirs.orc", TYPE, ROWS, roots)
    assert java_orc.encryption(tmp_path / "ours.orc") == java_orc.encryption(tmp_path / "theirs.orc")


def test_who_knows_no_encryption_reads_what_is_masked(tmp_path: Path) -> None:
    write(tmp_path / "a.orc")
    hidden = masked("ssn", "b", "pay")
    compare.assert_same_rows(TYPE, peers.pyarrow_rows(tmp_path / "a.orc", TYPE), hidden)
    compare.assert_same_rows(TYPE, peers.pyorc_rows(tmp_path / "a.orc", TYPE), hidden)
