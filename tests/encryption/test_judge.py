"""The Java judge of encryption judged: files that it encrypts hold no plain values, and open with their keys.

What the corpus knows of a file that others made, and Java's own words, are the expectations here.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.generators import encrypted_columns
from tests.generators.encrypted_columns import KEYS, PII, TOP
from tests.reference import java_orc
from tests.reference.java_orc import Key
from tests.reference.types import parse, struct

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("java")]

TYPE = struct(id="bigint", ssn="string", n="int", s="struct<a:string,b:double>")
ROWS = [(i, f"secret-{i:03}", i * 7, (f"inner-{i}", i / 2)) for i in range(100)]
ROOTS = encrypted_columns.named(TYPE, [("ssn", PII, "redact"), ("n", TOP, "nullify"), ("s.a", PII, "sha256")])


@pytest.fixture
def encrypted(tmp_path: Path) -> Path:
    path = tmp_path / "encrypted.orc"
    options = {"orc.compress": "NONE"}
    encrypted_columns.write(path, TYPE, ROWS, ROOTS, options=options)
    return path


def test_keys_open_what_they_closed(encrypted: Path) -> None:
    assert java_orc.read(encrypted, TYPE, keys=KEYS) == ROWS
    masked = java_orc.read(encrypted, TYPE, keys=[TOP])
    expected = [(i, "xxxxxx.999", n, (sha256(a), b)) for i, _, n, (a, b) in ROWS]
    assert masked == expected
    assert java_orc.read(encrypted, TYPE) == [(i, ssn, None, s) for i, ssn, _, s in expected]


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest().upper()


def test_no_value_stands_in_clear(encrypted: Path) -> None:
    data = encrypted.read_bytes()
    assert b"secret-" not in data
    assert b"inner-" not in data


def test_files_say_what_is_encrypted(encrypted: Path) -> None:
    found = java_orc.encryption(encrypted)
    assert found["keys"] == [("pii", 0, "AES_CTR_128"), ("top", 0, "AES_CTR_256")]
    assert found["variants"] == [(2, "pii", 0), (5, "pii", 0), (3, "top", 0)]
    assert found["masks"] == [("nullify", (), [3]), ("redact", (), [2]), ("sha256", (), [5])]


def test_a_seed_makes_equal_files(tmp_path: Path) -> None:
    def write(name: str, seed: int | None) -> bytes:
        path = tmp_path / name
        encrypted_columns.write(path, TYPE, ROWS, ROOTS, seed=seed)
        return path.read_bytes()

    assert write("a", 7) == write("b", 7) != write("c", 8)
    assert write("d", None) != write("e", None)


def test_the_newest_version_encrypts(tmp_path: Path) -> None:
    path = tmp_path / "rolled.orc"
    rolled = Key("pii", bytes(16), 3)
    java_orc.write(path, TYPE, ROWS, keys=[PII, rolled], encrypt="pii:ssn", masks="redact:ssn")
    assert java_orc.encryption(path)["keys"] == [("pii", 3, "AES_CTR_128")]
    assert java_orc.read(path, TYPE, keys=[PII]) != ROWS
    assert java_orc.read(path, TYPE, keys=[rolled]) == ROWS


def test_masks_of_values() -> None:
    assert java_orc.mask(parse("string"), "redact", ["Xx9"], ["Ab 12", None]) == ["Xx 99", None]
    assert java_orc.mask(parse("array<int>"), "redact", [], [[12, None], None]) == [[99, None], None]
    assert java_orc.mask(parse("string"), "sha256", [], ["abc"]) == [sha256("abc")]


def test_merged_files_keep_their_keys(tmp_path: Path) -> None:
    parts = [tmp_path / "a.orc", tmp_path / "b.orc"]
    encrypted_columns.write(parts[0], TYPE, ROWS, ROOTS)
    encrypted_columns.write(parts[1], TYPE, ROWS[:5], ROOTS)
    merged = tmp_path / "merged.orc"
    assert len(java_orc.merge(merged, parts, keys=KEYS)) == 2
    assert java_orc.read(merged, TYPE, keys=KEYS) == ROWS + ROWS[:5]
    assert java_orc.encryption(merged)["variants"] == java_orc.encryption(parts[0])["variants"]


def test_growing_files(tmp_path: Path) -> None:
    path = tmp_path / "growing.orc"
    growing = java_orc.GrowingFile(path, keys=[PII], encrypt="pii:n")
    first, second = growing.add(range(10)), growing.add(range(10, 30))
    growing.close()
    assert java_orc.longs_up_to(path, first, keys=[PII]) == list(range(10))
    assert java_orc.longs_up_to(path, second, keys=[PII]) == list(range(30))
    assert java_orc.statistics(path, keys=[PII])["file"][1]["maximum"] == "29"
    assert java_orc.statistics(path)["file"][1]["count"] == 0


def test_a_file_that_spark_encrypted(corpus_folder: Path) -> None:
    type_ = struct(ssn="string", email="string", name="string")
    folder = corpus_folder / "apache-orc/encrypted"
    master = Key("pii", java_orc.key_of_store(folder / "kms.keystore", "ORC_KEY", "pii@0"))
    rows = java_orc.read(folder / "sample1.orc", type_, keys=[master])
    assert rows == [("123456789", "dongjoon@apache.org", "Dongjoon Hyun")]
