"""Which directories a reader reads: Hive's own layouts with the answers of its tests, and rules for any."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orcstream.acid import AcidDirectory, DirectoryKind, Partition, WriteIds
from orcstream.acid.snapshot import TableListing
from orcstream.acid.transactions.contract import Snapshot
from orcstream.errors import Unsupported
from orcstream.plan.acid.names import delta_name, parse_directory
from orcstream.plan.acid.snapshot import PartitionListing, list_partitions, plan_snapshot, uncertain_bases

LEAST, MOST = -(1 << 63), (1 << 63) - 1


def listed(names: Iterable[str]) -> dict[str, PartitionListing]:
    """Of directories, and of files with a length of 500."""
    lengths = {}
    for name in names:
        last = name.rpartition("/")[2]
        lengths[f"{name}/bucket_0" if parse_directory(last) else name] = 500
    return list_partitions(lengths)


def directories(*names: str) -> set[AcidDirectory]:
    return {directory for name in names if (directory := parse_directory(name))}


def plan(
    names: Iterable[str], ids: str, *, compacted: Iterable[str] = (), transactions: str = "1000"
) -> Partition:
    (listing,) = listed(names).values()
    return plan_snapshot(
        listing,
        WriteIds.parse(ids),
        WriteIds.parse(transactions),
        compacted=directories(*compacted),
    )


def names_of(some: Iterable[AcidDirectory]) -> list[str]:
    return [one.name for one in some]


@dataclass(frozen=True)
class Layout:
    """What TestAcidUtils puts into a folder, and what it expects; `compacted` are bases of compactions."""

    names: list[str]
    ids: str
    base: str | None
    deltas: list[str]
    obsolete: list[str]
    originals: tuple[str, ...] = ()
    compacted: tuple[str, ...] = ()


LAYOUTS = {
    "testOriginal": Layout(
        [
            "000000_0",
            "000000_0_copy_1",
            "000000_0_copy_2",
            "000001_1",
            "000002_0",
            "random",
            "_done",
            "subdir/000000_0",
        ],
        f"tbl:100:{MOST}:",
        None,
        [],
        [],
        (
            "000000_0",
            "000000_0_copy_1",
            "000000_0_copy_2",
            "000001_1",
            "000002_0",
            "random",
            "subdir/000000_0",
        ),
    ),
    "testOriginalDeltas": Layout(
        [
            "000000_0",
            "000001_1",
            "000002_0",
            "random",
            "_done",
            "subdir/000000_0",
            "delta_025_025",
            "delta_029_029",
            "delta_025_030",
            "delta_050_100",
            "delta_101_101",
        ],
        f"tbl:100:{MOST}:",
        None,
        ["delta_025_030", "delta_050_100"],
        ["delta_025_025", "delta_029_029"],
        ("000000_0", "000001_1", "000002_0", "random", "subdir/000000_0"),
    ),
    "testBaseDeltas": Layout(
        [
            "base_5",
            "base_10",
            "base_49",
            "delta_025_025",
            "delta_029_029",
            "delta_025_030",
            "delta_050_105",
            "delta_90_120",
        ],
        f"tbl:100:{MOST}:",
        "base_49",
        ["delta_050_105"],
        ["base_5", "base_10", "delta_025_030", "delta_025_025", "delta_029_029"],
    ),
    "testObsoleteOriginals": Layout(
        ["base_10", "base_5", "000000_0", "000001_1"],
        f"tbl:150:{MOST}:",
        "base_10",
        [],
        ["base_5"],
    ),
    "testOverlapingDelta": Layout(
        [
            "delta_0000063_63",
            "delta_000062_62",
            "delta_00061_61",
            "delta_40_60",
            "delta_0060_60",
            "delta_052_55",
            "base_50",
        ],
        f"tbl:100:{MOST}:",
        "base_50",
        ["delta_40_60", "delta_00061_61", "delta_000062_62", "delta_0000063_63"],
        ["delta_052_55", "delta_0060_60"],
    ),
    "testOverlapingDelta2": Layout(
        [
            "delta_0000063_63_0",
            "delta_000062_62_0",
            "delta_000062_62_3",
            "delta_00061_61_0",
            "delta_40_60",
            "delta_0060_60_1",
            "delta_0060_60_4",
            "delta_0060_60_7",
            "delta_052_55",
            "delta_058_58",
            "base_50",
        ],
        f"tbl:100:{MOST}:",
        "base_50",
        ["delta_40_60", "delta_00061_61_0", "delta_000062_62_0", "delta_000062_62_3", "delta_0000063_63_0"],
        ["delta_052_55", "delta_058_58", "delta_0060_60_1", "delta_0060_60_4", "delta_0060_60_7"],
    ),
    "deltasWithOpenTxnInRead": Layout(
        ["delta_1_1", "delta_2_5"], "tbl:100:4:4", None, ["delta_1_1", "delta_2_5"], []
    ),
    "deltasWithOpenTxnInRead2": Layout(
        ["delta_1_1", "delta_2_5", "delta_4_4_1", "delta_4_4_3", "delta_101_101_1"],
        "tbl:100:4:4",
        None,
        ["delta_1_1", "delta_2_5"],
        [],
    ),
    "testBaseWithDeleteDeltas": Layout(
        [
            "base_5",
            "base_10",
            "base_49",
            "delta_025_025",
            "delta_029_029",
            "delete_delta_029_029",
            "delta_025_030",
            "delete_delta_025_030",
            "delta_050_105",
            "delete_delta_050_105",
            "delete_delta_110_110",
        ],
        f"tbl:100:{MOST}:",
        "base_49",
        ["delete_delta_050_105", "delta_050_105"],
        [
            "base_5",
            "base_10",
            "delete_delta_025_030",
            "delta_025_030",
            "delta_025_025",
            "delete_delta_029_029",
            "delta_029_029",
        ],
    ),
    "testOverlapingDeltaAndDeleteDelta": Layout(
        [
            "delta_0000063_63",
            "delta_000062_62",
            "delta_00061_61",
            "delete_delta_00064_64",
            "delta_40_60",
            "delete_delta_40_60",
            "delta_0060_60",
            "delta_052_55",
            "delete_delta_052_55",
            "base_50",
        ],
        f"tbl:100:{MOST}:",
        "base_50",
        [
            "delete_delta_40_60",
            "delta_40_60",
            "delta_00061_61",
            "delta_000062_62",
            "delta_0000063_63",
            "delete_delta_00064_64",
        ],
        ["delete_delta_052_55", "delta_052_55", "delta_0060_60"],
    ),
    "testMinorCompactedDeltaMakesInBetweenDelteDeltaObsolete": Layout(
        ["delta_40_60", "delete_delta_50_50"],
        f"tbl:100:{MOST}:",
        None,
        ["delta_40_60"],
        ["delete_delta_50_50"],
    ),
    "deleteDeltasWithOpenTxnInRead": Layout(
        [
            "delta_1_1",
            "delta_2_5",
            "delete_delta_2_5",
            "delete_delta_3_3",
            "delta_4_4_1",
            "delta_4_4_3",
            "delta_101_101_1",
        ],
        "tbl:100:4:4",
        None,
        ["delta_1_1", "delete_delta_2_5", "delta_2_5"],
        ["delete_delta_3_3"],
    ),
    # Its compactor sees ids up to 4 in directories that lie below as a whole; a reader of 4 sees the same.
    "deltasAndDeleteDeltasBelow": Layout(
        ["delta_1_1", "delete_delta_2_2", "delete_delta_7_7", "delta_6_10"],
        "tbl:4:4",
        None,
        ["delta_1_1", "delete_delta_2_2"],
        [],
    ),
    "testBestBase of 150": Layout(
        ["base_5", "base_10", "base_25", "delta_98_100", "base_100", "delta_120_130", "base_200"],
        f"150:{MOST}:",
        "base_100",
        ["delta_120_130"],
        ["base_5", "base_10", "base_25", "delta_98_100"],
        compacted=("base_5", "base_10", "base_25", "base_100", "base_200"),
    ),
    "testBestBase of 10": Layout(
        ["base_5", "base_10", "base_25", "delta_98_100", "base_100", "delta_120_130", "base_200"],
        f"10:{MOST}:",
        "base_10",
        [],
        ["base_5"],
        compacted=("base_5", "base_10", "base_25", "base_100", "base_200"),
    ),
    "testBestBase with open 7": Layout(
        ["base_5", "base_10", "base_25", "delta_98_100", "base_100", "delta_120_130", "base_200"],
        "10:7:7",
        "base_5",
        [],
        [],
        compacted=("base_5", "base_10", "base_25", "base_100", "base_200"),
    ),
    "conversion": Layout(
        [f"base_{LEAST}", "delta_1_1", "base_100"],
        f"1:{MOST}:",
        f"base_{LEAST}",
        ["delta_1_1"],
        [],
        compacted=("base_100",),
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_as_hive_reads_them(layout: Layout) -> None:
    found = plan(layout.names, layout.ids, compacted=layout.compacted)
    assert (found.base.name if found.base else None) == layout.base
    assert names_of(found.deltas) == layout.deltas
    assert sorted(names_of(found.obsolete)) == sorted(layout.obsolete)
    originals = [file.path for file in found.inserts if file.directory is None]
    assert originals == list(layout.originals)
    hidden = [file.path for file in found.obsolete_originals]
    assert hidden == ([name for name in layout.names if parse_directory(name) is None] if layout.base else [])


@pytest.mark.parametrize(
    ("names", "ids"),
    [
        # testBestBase of TestAcidUtils: not enough history
        (["base_5", "base_10", "base_25", "base_100"], "125:5:5"),
        (["delta_1_10", "delta_12_25", "base_25", "base_100"], "150:7:7"),
        (["delta_2_10", "base_25", "base_100"], "150:7:7"),
        (["base_0000005_v0000011"], "4"),
    ],
)
def test_history_that_is_gone(names: list[str], ids: str) -> None:
    bases = [name for name in names if name.startswith("base")]
    with pytest.raises(Unsupported) as caught:
        plan(names, ids, compacted=bases)
    assert caught.value.reason == "history_is_gone"
    (listing,) = listed(names).values()
    ids_ = WriteIds.parse(ids)
    found = plan_snapshot(listing, ids_, WriteIds(), compacted=directories(*bases), history_is_whole=True)
    assert found.base is None


def test_an_overwrite_is_like_a_delta() -> None:
    names = ["base_3", "delta_1_1", "delta_2_2", "delta_4_4"]
    assert names_of(plan(names, "2").deltas) == ["delta_1_1", "delta_2_2"]
    assert plan(names, "2").base is None
    found = plan(names, "4")
    assert found.base is not None
    assert (found.base.name, names_of(found.deltas)) == ("base_3", ["delta_4_4"])
    assert names_of(found.obsolete) == ["delta_1_1", "delta_2_2"]
    open_below = plan(names, "4:2:2")  # what it overwrites may be open
    assert open_below.base == found.base
    aborted = plan(names, "4:::3")
    assert aborted.base is None
    assert names_of(aborted.deltas) == ["delta_1_1", "delta_2_2", "delta_4_4"]
    assert names_of(aborted.aborted) == ["base_3"]


def test_what_a_transaction_did_not_commit_is_not_there() -> None:
    names = ["delta_1_1", "delta_2_2", "delta_1_2_v0000007", "base_0000002_v0000009"]
    found = plan(names, "2", transactions="6")
    assert (found.base, names_of(found.deltas), found.aborted) == (None, ["delta_1_1", "delta_2_2"], ())
    found = plan(names, "2", transactions="8")
    assert names_of(found.deltas) == ["delta_1_2_v0000007"]
    assert names_of(found.obsolete) == ["delta_1_1", "delta_2_2"]
    found = plan(names, "2", transactions="9:::7")
    assert found.base is not None
    assert found.base.name == "base_0000002_v0000009"
    assert names_of(found.aborted) == ["delta_1_2_v0000007"]


def test_of_two_compactions_of_one_range_the_newer_counts() -> None:
    names = ["delta_1_2_v07", "delete_delta_1_2_v07", "delta_1_2_v09", "delete_delta_1_2_v09", "delta_1_2"]
    found = plan(names, "2")
    assert names_of(found.deltas) == ["delete_delta_1_2_v09", "delta_1_2_v09"]
    names = ["base_2", "base_0000002_v09", "base_0000002_v11"]
    assert (found := plan(names, "2")).base is not None
    assert found.base.name == "base_0000002_v11"
    assert names_of(found.obsolete) == ["base_0000002_v09", "base_2"]


def test_aborted_deltas() -> None:
    found = plan(["delta_1_1", "delta_2_2", "delta_3_4", "delete_delta_2_2"], "4:::2,3")
    assert names_of(found.deltas) == ["delta_1_1", "delta_3_4"]
    assert names_of(found.aborted) == ["delete_delta_2_2", "delta_2_2"]


def test_files_of_partitions() -> None:
    found = list_partitions(
        {
            "a=1/b=x/delta_1_1/bucket_00000": 5,
            "a=1/b=x/delta_1_1/_orc_acid_version": 1,
            "a=1/b=x/delta_1_1/bucket_00001": 5,
            "a=1/b=x/delta_1_1/bucket_00001_flush_length": 16,
            "a=1/b=x/delta_1_1/bucket_00002": 5,
            "a=1/b=x/delta_1_1/bucket_00002_flush_length": 0,
            "a=1/b=y/delta_1_1/sub=3/000000_0": 5,
            "a=1/b=y/base_2/_metadata_acid": 44,
            "a=2/b=x/000001_0_copy_3": 5,
            "a=2/b=x/.hidden/000001_0": 5,
            "a=3/b=x/_tmp/delta_1_1/bucket_00000": 5,
            "a=3/b=x/delta_1_1/_tmp/bucket_00000": 5,
            "a=3/b=x/.staging=1/delta_1_1/bucket_00000": 5,
            "-tmp.delta_0000002_0000002_0000/000000_0.manifest": 5,
            "a=3/b=x/-tmp.base_0000002_0/000000_0.manifest": 5,
            "_orcstream_acid/entry-0000000001.json": 5,
            "_SUCCESS": 0,
        }
    )
    assert list(found) == ["a=1/b=x", "a=1/b=y", "a=2/b=x"]
    (delta,) = directories("delta_1_1")
    (base,) = directories("base_2")
    first, second, third = found.values()
    assert [(file.path[18:], file.bucket, file.is_growing) for file in first.files[delta]] == [
        ("bucket_00000", 0, False),
        ("bucket_00001", 1, True),
    ]
    assert first.versioned == {delta}
    assert second.files[base] == []
    assert second.described == {base} == set(uncertain_bases(second))
    assert [file.path for file in second.files[delta]] == ["a=1/b=y/delta_1_1/sub=3/000000_0"]
    assert [(file.path, file.bucket, file.copy) for file in third.originals] == [
        ("a=2/b=x/000001_0_copy_3", 1, 3)
    ]


def test_empty_directories_count() -> None:
    """As an overwrite with nothing, which hides all that is older."""
    found = list_partitions(
        {"delta_1_1/bucket_00000": 5}, ["base_2", "delta_3_3", "a", "a/b", ".x", "_x/base_9"]
    )
    (listing,) = found.values()
    assert set(listing.files) == directories("delta_1_1", "base_2", "delta_3_3")
    partition = plan_snapshot(listing, WriteIds(), WriteIds())
    assert partition.base is not None
    assert partition.base.name == "base_2"
    assert partition.inserts == ()
    assert names_of(partition.obsolete) == ["delta_1_1"]
    assert list_partitions({}, ["a=1", "a=1/b=2"]) == {}
    assert list(list_partitions({}, ["a=1/base_2", "_a=1/base_2", "_a/base_2"])) == ["_a=1", "a=1"]


# --- any layout --------------------------------------------------------------------------------------


@st.composite
def layouts(draw: st.DrawFn) -> list[str]:
    names = set()
    for _ in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from(DirectoryKind))
        first = draw(st.integers(1, 8))
        last = draw(st.integers(first, 8))
        is_base = kind is DirectoryKind.BASE
        statement = draw(st.integers(-1, 2)) if first == last and not is_base else -1
        visibility = draw(st.sampled_from([0, 0, 3, 5])) if statement < 0 else 0
        names.add(delta_name(kind, first, last, statement, visibility))
    return sorted(names)


@given(
    layouts(), st.integers(0, 9), st.sets(st.integers(1, 9)), st.sets(st.integers(1, 9)), st.integers(0, 6)
)
def test_any_layout(names: list[str], mark: int, opened: set[int], aborted: set[int], seen: int) -> None:
    ids = WriteIds(mark, tuple(opened - aborted), tuple(aborted))
    (listing,) = listed(names).values()
    found = plan_snapshot(listing, ids, WriteIds(seen), history_is_whole=True)
    try:
        assert plan_snapshot(listing, ids, WriteIds(seen)) == found
    except Unsupported:
        assert found.base is None
    chosen = [*([found.base] if found.base else []), *found.deltas]
    parts = [*chosen, *found.obsolete, *found.aborted]
    assert len(set(parts)) == len(parts)  # a directory is one of these
    assert set(parts) <= set(listing.files)
    assert all(one.visibility <= seen for one in chosen)
    for one in found.deltas:
        assert ids.visible(one.first_write_id, one.last_write_id) != "none"
        assert found.base is None or one.last_write_id > found.base.last_write_id
    for kind in (DirectoryKind.DELTA, DirectoryKind.DELETE_DELTA):
        # None inside another one, but for statements side by side.
        mine = [one for one in found.deltas if one.kind is kind]
        for one, other in ((a, b) for a in mine for b in mine if a is not b):
            inside = other.first_write_id <= one.first_write_id <= one.last_write_id <= other.last_write_id
            assert not inside or (one.statement >= 0 and other.statement >= 0)
    # What is visible is read, or what stands in for it: nothing ends above all that is read.
    reached = max((one.last_write_id for one in chosen), default=0)
    for one in listing.files:
        if not one.is_base and one.visibility <= seen:
            above = range(max(one.first_write_id, reached + 1), one.last_write_id + 1)
            assert not any(map(ids.is_visible, above)), one


def test_a_table_of_thousands_of_directories_is_checked_at_once() -> None:
    """That all that was written is there: in a time that does not grow with the square of the directories."""
    count = 10_000
    names = [f"delta_{one:07}_{one:07}_0000" for one in range(1, count + 1)]
    listing = TableListing("file:///t", "file:///t", listed(names), {}, frozenset())
    seen = Snapshot(WriteIds(count), WriteIds(count), {"": frozenset(names)})
    start = time.process_time()
    (partition,) = listing.snapshot(seen).partitions
    assert len(partition.deltas) == count
    assert time.process_time() - start < 4
    lost = replace(seen, directories={"": frozenset([*names, "delta_0000002_0000003_0000"])})
    with pytest.raises(Unsupported, match="delta_0000002_0000003_0000"):
        listing.snapshot(lost)
