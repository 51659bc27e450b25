"""Tails kept as bytes: they come back as they were, and damaged ones are told as such."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc

from orcstream.errors import CorruptTail, FormatError, OrcError, Unsupported, UsageError
from orcstream.plan.tail import Need, Tail, _check_sum, parse_stripe_statistics, plan_tail
from tests.reference.corpus import manifest


def _file() -> bytes:
    out = io.BytesIO()
    orc.write_table(pa.table({"a": [1, 2, 3], "s": ["x", "y", None]}), out, compression="zlib")
    return out.getvalue()


DATA = _file()
HEAD_BYTES = 8 + 16 + 8 + 4


def tail_of(data: bytes = DATA, fingerprint: str = '"0af"') -> Tail:
    tail = plan_tail(memoryview(data), len(data))
    assert isinstance(tail, Tail)
    return replace(tail, fingerprint=fingerprint)


def saved(body: bytes, *, version: int = 1) -> bytes:
    """Bytes with a check sum that is right."""
    return b"ORCTAIL" + bytes([version]) + _check_sum(body) + body


def body_of(file_length: int, fingerprint: bytes, held: bytes) -> bytes:
    return file_length.to_bytes(8, "little") + len(fingerprint).to_bytes(4, "little") + fingerprint + held


@pytest.mark.parametrize("fingerprint", ["", '"0af"', "modified Sat, 21 Nov 2020", "ü\udcff"])
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_tail_comes_back(fingerprint: str, kind: type) -> None:
    tail = tail_of(fingerprint=fingerprint)
    again = Tail.from_bytes(kind(tail.to_bytes()))
    assert again == tail
    assert again.fingerprint == fingerprint
    assert again.to_bytes() == tail.to_bytes()


def test_it_holds_the_files_own_bytes_and_little_else() -> None:
    tail = tail_of()
    count = tail.postscript.tail_bytes
    assert tail.held == DATA[-count:]
    assert len(tail.to_bytes()) == HEAD_BYTES + len(tail.fingerprint) + count


def test_of_a_file_of_no_bytes() -> None:
    tail = tail_of(b"", "0")
    assert Tail.from_bytes(tail.to_bytes()) == tail


def test_without_the_metadata_that_the_suffix_did_not_hold() -> None:
    tail = tail_of()
    assert tail.metadata
    cut = plan_tail(memoryview(tail.ending), len(DATA))
    assert isinstance(cut, Tail)
    assert cut.metadata is None
    assert Tail.from_bytes(cut.to_bytes()) == cut


def test_every_real_tail_comes_back(corpus_folder: Path) -> None:
    count = 0
    for item in manifest(corpus_folder)["files"]:
        data = (corpus_folder / item["path"]).read_bytes()
        try:
            tail = plan_tail(memoryview(data), len(data))
        except (FormatError, Unsupported):
            continue
        assert not isinstance(tail, Need)
        again = Tail.from_bytes(replace(tail, fingerprint="x").to_bytes())
        assert (again.footer.schema, again.footer.stripes) == (tail.footer.schema, tail.footer.stripes)
        assert (again.metadata, again.postscript) == (tail.metadata, tail.postscript)
        assert _statistics_of(again) == _statistics_of(tail)
        count += 1
    assert count > 100


def _statistics_of(tail: Tail) -> Any:
    assert tail.metadata is not None
    try:
        return len(parse_stripe_statistics(tail, tail.metadata))
    except OrcError as error:
        return str(error)


@pytest.mark.parametrize("wrong", [None, 5, "text", [1]])
def test_what_is_no_bytes(wrong: Any) -> None:
    with pytest.raises(UsageError, match=type(wrong).__name__):
        Tail.from_bytes(wrong)


@pytest.mark.parametrize("data", [b"", b"ORC", DATA, b"ORCTAIL", b"ORCTAIL\x01" + bytes(20)])
def test_what_is_no_saved_tail(data: bytes) -> None:
    with pytest.raises(UsageError, match=r"Tail\.to_bytes\b"):
        Tail.from_bytes(data)


def test_another_version() -> None:
    body = body_of(len(DATA), b"", tail_of().held)
    assert Tail.from_bytes(saved(body)) == tail_of(fingerprint="")
    with pytest.raises(UsageError, match=r"\bversion\b"):
        Tail.from_bytes(saved(body, version=2))


@given(at=st.integers(0, len(tail_of().to_bytes()) - 1), flip=st.integers(1, 255))
def test_every_flipped_bit_is_noticed(at: int, flip: int) -> None:
    data = bytearray(tail_of().to_bytes())
    data[at] ^= flip
    with pytest.raises(UsageError):
        Tail.from_bytes(data)


def test_every_cut_is_noticed() -> None:
    data = tail_of().to_bytes()
    for length in range(len(data)):
        with pytest.raises(UsageError):
            Tail.from_bytes(data[:length])
        with pytest.raises(UsageError):
            Tail.from_bytes(data + data[: length + 1])


@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    with pytest.raises(UsageError):
        Tail.from_bytes(data)


@given(
    st.one_of(
        st.binary(max_size=300),
        st.builds(
            body_of,
            st.integers(0, 2**64 - 1) | st.just(len(DATA)),
            st.binary(max_size=5),
            st.integers(0, len(DATA)).map(lambda start: DATA[start:])
            | st.binary(max_size=400).map(lambda more: more + tail_of().ending),
        ),
    )
)
def test_any_bytes_with_a_right_check_sum(body: bytes) -> None:
    """Only who means harm can make these; still nothing but our errors comes out."""
    try:
        tail = Tail.from_bytes(saved(body))
    except (UsageError, FormatError, Unsupported):
        return
    assert Tail.from_bytes(tail.to_bytes()) == tail


def test_a_length_that_the_held_bytes_exceed() -> None:
    with pytest.raises(CorruptTail):
        Tail.from_bytes(saved(body_of(10, b"", tail_of().held)))
