"""Which write ids are visible: Hive's text, and every answer against plain sets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orcstream.acid import WriteIds
from orcstream.errors import UsageError

MOST = (1 << 63) - 1


@st.composite
def write_ids(draw: st.DrawFn, most: int = 12) -> WriteIds:
    hidden = draw(st.sets(st.integers(1, most)))
    opened = draw(st.sets(st.sampled_from(sorted(hidden)))) if hidden else set()
    return WriteIds(draw(st.integers(0, most)), tuple(opened), tuple(hidden - opened))


@given(write_ids(), st.integers(1, 14), st.integers(0, 14))
def test_against_sets(ids: WriteIds, first: int, more: int) -> None:
    last = first + more
    seen = set(range(1, ids.high_watermark + 1)) - set(ids.open) - set(ids.aborted)
    asked = set(range(first, last + 1))

    def share(some: set[int]) -> str:
        return "all" if asked <= some else "some" if asked & some else "none"

    assert ids.visible(first, last) == share(seen)
    assert ids.aborted_of(first, last) == share(set(ids.aborted))
    assert ids.is_visible(first) is (first in seen)
    assert ids.is_aborted(first) is (first in ids.aborted)
    unknown = {one for one in range(1, last + 1) if one in ids.open or one > ids.high_watermark}
    assert ids.has_open_up_to(last) is bool(unknown)
    assert ids.has_open(first, last) is bool(unknown & asked)
    assert set(ids.hidden) == set(range(1, ids.high_watermark + 1)) - seen
    assert sorted(ids.hidden) == list(ids.hidden)


@given(write_ids())
def test_text_comes_back(ids: WriteIds) -> None:
    assert WriteIds.parse(str(ids)) == ids
    assert WriteIds.parse(f"db.table:{ids}") == ids
    assert WriteIds.of(str(ids)) == WriteIds.of(ids) == ids


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # TestAcidUtils and the javadoc of ValidReaderWriteIdList
        (f"tbl:100:{MOST}:", WriteIds(100)),
        ("tbl:100:4:4", WriteIds(100, (4,))),
        ("tbl:4:4", WriteIds(4)),
        (f"tbl:4:{MOST}", WriteIds(4)),
        ("default.t:7:5:5,6:3", WriteIds(7, (5, 6), (3,))),
        (f"db.t:1:{MOST}::", WriteIds(1)),
        (f"1:{MOST}::", WriteIds(1)),
        (f"{MOST}:{MOST}::", WriteIds()),
        (f"9:{MOST}::9,1", WriteIds(9, (), (1, 9))),
    ],
)
def test_hives_text(text: str, expected: WriteIds) -> None:
    assert WriteIds.parse(text) == expected
    assert WriteIds.of(text) == expected


@given(st.one_of(st.text(max_size=30), st.text("0123456789:,-_ .t²", max_size=30)))
def test_any_text(text: str) -> None:
    try:
        found = WriteIds.parse(text)
    except UsageError:
        return
    assert WriteIds.parse(str(found)) == found


@pytest.mark.parametrize(
    "text", ["", "t", "t:", "t:x", "t:1:2:3:4:5", "t:1::0", "t:-1", "7:5:5:5", "²:1", "t:1_0"]
)
def test_text_that_is_none(text: str) -> None:
    with pytest.raises(UsageError, match=rf"^'{text}'.*\bwrite ids\b"):
        WriteIds.parse(text)


@pytest.mark.parametrize(
    "make",
    [
        lambda: WriteIds(-1),
        lambda: WriteIds(1 << 63),
        lambda: WriteIds(True),
        lambda: WriteIds(1.0),  # type: ignore[arg-type]
        lambda: WriteIds(5, (0,)),
        lambda: WriteIds(5, (1 << 63,)),
        lambda: WriteIds(5, ("1",)),  # type: ignore[arg-type]
        lambda: WriteIds(5, (1, None)),  # type: ignore[arg-type]
        lambda: WriteIds(5, 3),  # type: ignore[arg-type]
        lambda: WriteIds(5, (3,), (3,)),
        lambda: WriteIds.of(1.5),  # type: ignore[arg-type]
        lambda: WriteIds.of([1]),  # type: ignore[arg-type]
    ],
)
def test_ids_that_cannot_be(make: object) -> None:
    assert callable(make)
    with pytest.raises(UsageError):
        make()


def test_given_as_users_do() -> None:
    assert WriteIds.of(None) == WriteIds() == WriteIds(MOST)
    assert WriteIds.of(7) == WriteIds(7)
    assert WriteIds(7, (5, 3, 5)).open == (3, 5)
    assert WriteIds(7, (9, 5), (2, 11)).hidden == (2, 5)
