"""What the names in a table say, by Hive's own examples, and that any other text is no error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orcstream.plan.acid.names import (
    AcidDirectory,
    DirectoryKind,
    bucket_number,
    bucket_of,
    bucket_property,
    copy_of,
    delta_name,
    is_hidden,
    parse_directory,
    statement_of,
)

BASE, DELTA, DELETES = DirectoryKind.BASE, DirectoryKind.DELTA, DirectoryKind.DELETE_DELTA
LEAST, MOST = -(1 << 63), (1 << 63) - 1
INTS = st.integers(-(1 << 31), (1 << 31) - 1)


@pytest.mark.parametrize(
    ("name", "kind", "first", "last", "statement", "visibility"),
    [
        # TestAcidUtils.testParsing, testOverlapingDelta, testOverlapingDelta2
        ("base_000123", BASE, LEAST, 123, -1, 0),
        ("base_567", BASE, LEAST, 567, -1, 0),
        ("delta_000005_000006", DELTA, 5, 6, -1, 0),
        ("delete_delta_000005_000006", DELETES, 5, 6, -1, 0),
        ("delta_0000063_63", DELTA, 63, 63, -1, 0),
        ("delta_000062_62_3", DELTA, 62, 62, 3, 0),
        # testRecognition of the later releases: what a compaction's transaction adds
        ("base_123_v0", BASE, LEAST, 123, -1, 0),
        ("base_0000005_v0000011", BASE, LEAST, 5, -1, 11),
        ("delta_0000001_0000005_v0000011", DELTA, 1, 5, -1, 11),
        ("delete_delta_0000001_0000005_0002_v0000011", DELETES, 1, 5, 2, 11),
        (f"base_{LEAST}", BASE, LEAST, LEAST, -1, 0),
        (f"delta_{MOST}_{MOST}", DELTA, MOST, MOST, -1, 0),
    ],
)
def test_directories(
    name: str, kind: DirectoryKind, first: int, last: int, statement: int, visibility: int
) -> None:
    assert parse_directory(name) == AcidDirectory(name, kind, first, last, statement, visibility)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "base",
        "base_",
        "base_x",
        "base_1_2",
        "base_1_v",
        "Base_1",
        "xbase_1",
        "base_1 ",
        "base_1\n",
        "base_٣",
        "delta_1",
        "delta_1_",
        "delta_1_2_3_4",
        "delta_2_1",
        "delta_-1_1",
        "deletedelta_1_1",
        "delete_delta_1",
        "delta_1_99999999999999999999",
        f"delta_1_{MOST + 1}",
        f"base_{MOST + 1}",
        f"base_1_v{MOST + 1}",
        "day=2024-01-01",
    ],
)
def test_other_names(name: str) -> None:
    assert parse_directory(name) is None


@pytest.mark.parametrize(
    ("kind", "first", "last", "statement", "visibility", "name"),
    [
        # TestAcidUtils.testCreateFilename, testCreateFilenameLargeIds, testDeleteDeltaSubdirPathGeneration
        (BASE, 100, 200, -1, 0, "base_0000200"),
        (DELTA, 100, 200, 0, 0, "delta_0000100_0000200_0000"),
        (DELETES, 100, 200, 0, 0, "delete_delta_0000100_0000200_0000"),
        (DELTA, 100, 200, -1, 0, "delta_0000100_0000200"),
        (DELETES, 100, 200, 7, 0, "delete_delta_0000100_0000200_0007"),
        (BASE, 1234567880, 1234567890, -1, 0, "base_1234567890"),
        (DELTA, 1234567880, 1234567890, 0, 0, "delta_1234567880_1234567890_0000"),
        (DELETES, 1, 10, -1, 0, "delete_delta_0000001_0000010"),
        (BASE, 0, 5, -1, 11, "base_0000005_v0000011"),
        (DELTA, 1, 5, -1, 11, "delta_0000001_0000005_v0000011"),
    ],
)
def test_names_as_hive_makes_them(
    kind: DirectoryKind, first: int, last: int, statement: int, visibility: int, name: str
) -> None:
    assert delta_name(kind, first, last, statement, visibility) == name


@given(
    st.sampled_from(DirectoryKind),
    st.integers(0, MOST),
    st.integers(0, MOST),
    st.integers(-1, 4095),
    st.integers(0, MOST),
)
def test_names_come_back(kind: DirectoryKind, one: int, other: int, statement: int, visibility: int) -> None:
    first, last = sorted((one, other))
    if kind is BASE:
        statement = -1
    found = parse_directory(delta_name(kind, first, last, statement, visibility))
    assert found is not None
    assert (found.kind, found.last_write_id, found.statement, found.visibility) == (
        kind,
        last,
        statement,
        visibility,
    )
    assert found.first_write_id == (LEAST if kind is BASE else first)


@given(
    st.one_of(
        st.text(max_size=40),
        st.builds(
            "{}_{}".format,
            st.sampled_from(["base", "delta", "delete_delta", "bucket", "0"]),
            st.text("0123456789-_v", max_size=40),
        ),
        st.text("0123456789_copy", max_size=20),
    )
)
def test_any_text(name: str) -> None:
    found = parse_directory(name)
    if found is not None:
        assert found.name == name
        assert LEAST <= found.first_write_id <= found.last_write_id <= MOST
        assert 0 <= found.visibility <= MOST
    bucket = bucket_of(name)
    assert bucket is None or 0 <= bucket < 1 << 31
    assert copy_of(name) >= 0
    assert is_hidden(name) is (name[:1] == "." or (name[:1] == "_" and "=" not in name))


@pytest.mark.parametrize(
    ("name", "bucket", "copy"),
    [
        ("bucket_00001", 1, 0),
        ("bucket_123", 123, 0),
        ("bucket_00003_0", 3, 0),
        ("000123_0", 123, 0),
        ("000001_1", 1, 0),
        ("123456789_0", 123456789, 0),
        ("000000_0_copy_1", 0, 1),
        ("000002_0_copy_12", 2, 12),
        ("random", None, 0),
        ("bucket_00001_flush_length", None, 0),
        ("_orc_acid_version", None, 0),
        ("bucket_", None, 0),
        ("1234567890_0", None, 0),
    ],
)
def test_files(name: str, bucket: int | None, copy: int) -> None:
    assert bucket_of(name) == bucket
    assert copy_of(name) == copy


def test_the_bucket_column() -> None:
    """TestBucketCodec."""
    assert bucket_property(7, 16) == 537329680
    assert bucket_property(7) == bucket_property(7, 0)
    assert bucket_property(0) == 536870912
    assert bucket_number(0x2ABC0000) == 2748
    assert statement_of(0x20000ABC) == 2748
    assert bucket_number(7) == 7
    assert statement_of(7) == 0


@given(st.integers(0, 4095), st.integers(-1, 4095))
def test_the_bucket_column_comes_back(bucket: int, statement: int) -> None:
    value = bucket_property(bucket, statement)
    assert (bucket_number(value), statement_of(value)) == (bucket, max(statement, 0))


@given(st.integers(0, (1 << 31) - 1), st.integers(-1, (1 << 31) - 1))
def test_the_bucket_column_fits_whatever_names_say(bucket: int, statement: int) -> None:
    """Where a bucket has no room the bits above are lost, as Hive loses them."""
    value = bucket_property(bucket, statement)
    assert 1 << 29 <= value < 1 << 30
    assert bucket_number(value) == bucket % 4096


@given(INTS)
def test_any_number_of_the_bucket_column(value: int) -> None:
    assert -(1 << 31) <= bucket_number(value) < 1 << 31
    assert 0 <= statement_of(value) < 4096
