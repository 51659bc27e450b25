"""What ours encrypts: ORC Java reads the values with keys, and with or without them what the masks left.

Masks are compared with those of a file that Java encrypted; ORC C++ knows no encryption, and stands for all
readers that see the masked form only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

import orcstream
from orcstream.encryption import Encrypt, Mask
from orcstream.errors import KeyUnavailable
from tests.generators import encrypted_columns, strategies
from tests.generators.encrypted_columns import KEYS, PII, RICH, RICH_ROOTS, SUBSETS, TOP, Root
from tests.interop import judging, test_written_statistics
from tests.reference import compare, java_orc, peers
from tests.reference.java_orc import Key
from tests.reference.types import T, Union, parse, struct
from tests.support import reading, selecting, writing
from tests.support.effort import share

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("java")]


def encrypt(roots: Sequence[Root]) -> list[Encrypt]:
    """As `create` takes it; by tuples, since names of tests hold dots."""
    return [Encrypt(root.key.name, [root.steps], root.mask) for root in roots]


def write(
    path: Path,
    type_: T,
    parts: Sequence[object],
    roots: Sequence[Root],
    keys: Sequence[Key] = KEYS,
    **options: Any,
) -> None:
    writing.write(path, type_, parts, encrypt=encrypt(roots), keys=reading.provider(keys), **options)


def masker(type_: T, closed: set[int], column: int = 0) -> Callable[[Any], Any]:
    """Makes of a value the one where columns that are closed are nullified."""
    if column in closed:
        return lambda _: None
    inner = []
    for child in type_.children:
        column += 1
        inner.append(masker(child, closed, column))
        column += len(child.flatten()) - 1
    if not inner:
        return lambda value: value
    if type_.kind == "struct":
        return _unless_null(lambda value: tuple(mask(item) for mask, item in zip(inner, value, strict=True)))
    if type_.kind == "array":
        return _unless_null(lambda value: list(map(inner[0], value)))
    if type_.kind == "map":
        return _unless_null(lambda value: [(inner[0](key), inner[1](item)) for key, item in value])
    return _unless_null(lambda value: Union(value.tag, inner[value.tag](value.value)))


def _unless_null(mask: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else mask(value)


def nullified(type_: T, rows: Sequence[Any], roots: Sequence[Root], keys: Sequence[Key]) -> list[Any]:
    """The rows as they are read with these keys, where everything is masked by nullify."""
    closed = {root.column for root in roots if root.key not in keys}
    return list(map(masker(type_, closed), rows))


# --- rows ------------------------------------------------------------------------------------------


@hypothesis.settings(max_examples=share(20))
@hypothesis.given(
    table=strategies.tables(strategies.schemas(strategies.EVERYTHING, unions=True)),
    options=writing.options(),
    data=st.data(),
)
def test_any_schema(
    tmp_path_factory: pytest.TempPathFactory,
    table: strategies.Table,
    options: dict[str, Any],
    data: st.DataObject,
) -> None:
    path = tmp_path_factory.mktemp("written") / "any.orc"
    type_ = table.type_
    roots = [replace(root, mask="nullify") for root in data.draw(encrypted_columns.roots(type_))]
    parts = writing.pieces(type_, table.rows, table.seed)
    write(path, type_, parts, roots, **writing.with_blooms(type_, options))
    rows = [writing.in_file(type_, row) for row in table.rows]
    for keys in SUBSETS:
        expected = nullified(type_, rows, roots, keys)
        compare.assert_same_rows(type_, java_orc.read(path, type_, keys=keys), expected)
    some = data.draw(st.sampled_from(SUBSETS))
    judging.run(path, type_, nullified(type_, rows, roots, some), keys=reading.provider(some))
    selecting.run(path, type_, table.seed, keys=reading.provider(some))


@hypothesis.settings(max_examples=share(15))
@hypothesis.given(
    table=strategies.tables(strategies.schemas(strategies.EVERYTHING)),
    options=writing.options([name for name in writing.COMPRESSIONS if name != "lzo"]),
    data=st.data(),
)
def test_readers_without_encryption(
    tmp_path_factory: pytest.TempPathFactory,
    table: strategies.Table,
    options: dict[str, Any],
    data: st.DataObject,
) -> None:
    path = tmp_path_factory.mktemp("written") / "any.orc"
    type_ = table.type_
    roots = data.draw(encrypted_columns.roots(type_))
    parts = writing.pieces(type_, table.rows, table.seed)
    write(path, type_, parts, roots, **writing.with_blooms(type_, options))
    expected = java_orc.read(path, type_)
    compare.assert_same_rows(type_, peers.pyarrow_rows(path, type_), expected)
    if "map" not in type_.walk_kinds():  # pyorc has dictionaries, and masked keys may be equal
        compare.assert_same_rows(type_, peers.pyorc_rows(path, type_), expected)


TYPES = (
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "date",
    "timestamp", "timestamp with local time zone", "decimal(9,2)", "decimal(38,10)", "char(8)", "char(64)",
    "varchar(8)", "varchar(80)", "array<int>", "map<string,bigint>", "struct<a:string,b:int>",
    "uniontype<int,string>",
)  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("mask", encrypted_columns.MASKS)
@pytest.mark.parametrize("text", TYPES)
def test_types_and_masks(tmp_path: Path, text: str, mask: str) -> None:
    """Masked as Java does it, but for what it cannot do (docs/masks.md)."""
    type_ = T("struct", (parse("int"), parse(text)), ("n", "x"))
    rows = strategies.make_table(type_, 1100, 13, strategies.Limits()).rows
    roots = encrypted_columns.named(type_, [("x", PII, mask)])
    ours, theirs = tmp_path / "ours.orc", tmp_path / "theirs.orc"
    write(ours, type_, writing.pieces(type_, rows, 1), roots, stripe_bytes=20_000, row_index_stride=500)
    stored = [writing.in_file(type_, row) for row in rows]
    compare.assert_same_rows(type_, java_orc.read(ours, type_, keys=[PII]), stored)
    if mask in encrypted_columns.masks_of(parse(text)) and (text, mask) != ("binary", "sha256"):
        encrypted_columns.write(theirs, type_, rows, roots)
        expected = [writing.in_file(type_, row) for row in java_orc.read(theirs, type_)]
        compare.assert_same_rows(type_, java_orc.read(ours, type_), expected)


RICH_ROWS: list[Any] = strategies.make_table(RICH, 1_100, 21, strategies.Limits()).rows
NULLIFIED = [replace(root, mask="nullify") for root in RICH_ROOTS]


@pytest.mark.sampled
@pytest.mark.parametrize("version", ["0.11", "0.12", "UNSTABLE-PRE-2.0"])
@pytest.mark.parametrize("compression", writing.COMPRESSIONS)
def test_compressions_and_versions(tmp_path: Path, compression: str, version: str) -> None:
    path = tmp_path / "a.orc"
    options: dict[str, Any] = {"compression": compression, "file_version": version, "stripe_bytes": 50_000}
    parts = writing.pieces(RICH, RICH_ROWS, 3)
    write(path, RICH, parts, NULLIFIED, row_index_stride=300, block_bytes=4096, **options)
    rows = [writing.in_file(RICH, row) for row in RICH_ROWS]
    for keys in SUBSETS:
        expected = nullified(RICH, rows, NULLIFIED, keys)
        compare.assert_same_rows(RICH, java_orc.read(path, RICH, keys=keys), expected)
        if compression == "none" and keys:
            continue  # Java cannot read encrypted indexes of such files
        for start in (0, 299, 301, 899, 1090):
            found = java_orc.read_from(path, RICH, start, 20, keys=keys)
            compare.assert_same_rows(RICH, found, expected[start : start + 20])


@pytest.mark.parametrize("rows", [[], [("x", 1)], [(None, None)] * 3])
@pytest.mark.parametrize("size", [16, 32])
def test_small_files(tmp_path: Path, rows: list[Any], size: int) -> None:
    path = tmp_path / "a.orc"
    type_ = struct(a="string", n="int")
    key = Key("k", bytes(range(size)))
    roots = encrypted_columns.named(type_, [("a", key, "redact"), ("n", key, "nullify")])
    write(path, type_, [rows], roots, [key])
    assert java_orc.read(path, type_, keys=[key]) == rows
    assert len(java_orc.read(path, type_)) == len(rows)
    assert java_orc.encryption(path)["keys"] == [("k", 0, f"AES_CTR_{8 * size}")]


# --- what Java is told -----------------------------------------------------------------------------


def test_java_finds_what_is_encrypted(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.orc", tmp_path / "theirs.orc"
    choices = [("ssn", PII, "redact"), ("n", TOP, "nullify"), ("s.a", PII, "sha256"), ("l", TOP, "redact")]
    roots = encrypted_columns.named(RICH, choices)
    write(ours, RICH, [[]], roots)
    encrypted_columns.write(theirs, RICH, [], roots)
    found, expected = java_orc.encryption(ours), java_orc.encryption(theirs)
    assert found["keys"] == expected["keys"]
    assert found["variants"] == expected["variants"]
    assert sorted(found["masks"]) == sorted(expected["masks"])


def test_parameters_of_masks(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    type_ = struct(a="string")
    mask = Mask("redact", ("Zz0",))
    out = {"encrypt": [Encrypt("pii", ["a"], mask)], "keys": reading.provider(KEYS)}
    writing.write(path, type_, [[("Ab 12",)]], **out)
    assert java_orc.read(path, type_) == [("Zz 00",)]
    assert java_orc.encryption(path)["masks"] == [("redact", ("Zz0",), [1])]


@pytest.mark.parametrize("keys", SUBSETS, ids=["none", "pii", "top", "both"])
def test_statistics(tmp_path: Path, keys: tuple[Key, ...]) -> None:
    """Of file, stripes and row groups, each of the form that the keys open."""
    path = tmp_path / "a.orc"
    options: dict[str, Any] = {"stripe_bytes": 60_000, "row_index_stride": 500}
    write(path, RICH, writing.pieces(RICH, RICH_ROWS, 3), NULLIFIED, **options)
    rows = nullified(RICH, [writing.in_file(RICH, row) for row in RICH_ROWS], NULLIFIED, keys)
    told = java_orc.statistics(path, keys=keys)
    check(RICH, rows, told["file"])
    start = 0
    assert len(told["stripes"]) > 1
    for stripe, groups in zip(told["stripes"], told["groups"], strict=True):
        count = stripe[0]["count"]
        check(RICH, rows[start : start + count], stripe)
        for number, group in enumerate(groups):
            first = start + 500 * number
            check(RICH, rows[first : min(first + 500, start + count)], group)
        start += count
    assert start == len(rows)


def check(type_: T, rows: list[Any], told: list[dict[str, Any]]) -> None:
    columns = test_written_statistics.columns_of(type_, rows)
    for (column, values), found in zip(columns, told, strict=True):
        kind = found["kind"].replace("Decimal64", "Decimal")  # of columns in variants
        test_written_statistics.check(column, values, found | {"kind": kind})


SORTED = struct(n="bigint", a="string", z="bigint")
SORTED_ROWS: list[Any] = [(i * 3, f"name {i:06}", i) for i in range(6000)]
SORTED_ROOTS = encrypted_columns.named(SORTED, [("n", PII, "nullify"), ("a", TOP, "sha256")])


def test_java_prunes(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    write(path, SORTED, [SORTED_ROWS], SORTED_ROOTS, row_index_stride=500)
    for column, kind, at, row in (("n", "LONG", 0, 777), ("a", "STRING", 1, 5321)):
        literal = SORTED_ROWS[row][at]
        found = java_orc.read_groups(path, SORTED, column, kind, "EQUALS", [literal], keys=KEYS)
        assert SORTED_ROWS[row] in found
        assert len(found) == 500
        assert java_orc.read_groups(path, SORTED, column, kind, "EQUALS", [literal]) == []


@pytest.mark.parametrize("original", [False, True])
async def test_filters_of_variants(tmp_path: Path, original: bool) -> None:
    """Who has the key finds all rows by them, and few row groups else."""
    path = tmp_path / "a.orc"
    rows = [SORTED_ROWS[number * 1009 % 6000] for number in range(6000)]
    async with orcstream.create(
        path,
        str(SORTED),
        encrypt=encrypt(SORTED_ROOTS),
        keys=reading.provider(KEYS),
        blooms={"n": 0.001, "a": 0.001, "z": 0.001},
        original_blooms=original,
        row_index_stride=500,
    ) as out:
        await out.write(rows)
    for keys in ((), KEYS):
        full: list[Any] = java_orc.read(path, SORTED, keys=keys)
        async with orcstream.open(path, keys=reading.provider(keys)) as file:
            for row in rows[700::1000]:
                for at, (column, kind) in enumerate((("n", "LONG"), ("a", "STRING"), ("z", "LONG"))):
                    wanted = [one for one in full if one[at] == row[at]]
                    found: list[Any] = java_orc.read_groups(
                        path, SORTED, column, kind, "EQUALS", [row[at]], keys=keys
                    )
                    assert [one for one in found if one[at] == row[at]] == wanted
                    assert len(found) <= 1000
                    stream = file.batches(where=orcstream.col(column) == row[at])
                    assert await selecting.rows_of(stream, SORTED) == wanted
                    assert stream.stats.rows_pruned_by_bloom >= (5000 if keys or column == "z" else 0)


# --- keys ------------------------------------------------------------------------------------------


def test_the_newest_version_encrypts(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    rolled = [Key("pii", bytes(16)), Key("pii", bytes(range(32)), 2)]
    roots = encrypted_columns.named(SORTED, [("n", rolled[0], "nullify")])
    write(path, SORTED, [SORTED_ROWS[:10]], roots, rolled)
    assert java_orc.encryption(path)["keys"] == [("pii", 2, "AES_CTR_256")]
    assert java_orc.read(path, SORTED, keys=rolled) == SORTED_ROWS[:10]


async def test_local_keys_are_drawn_for_each_file_and_variant(tmp_path: Path) -> None:
    drawn = set()
    for number in range(4):
        path = tmp_path / f"{number}.orc"
        async with orcstream.create(
            path, str(SORTED), encrypt=encrypt(SORTED_ROOTS), keys=reading.provider(KEYS)
        ) as out:
            await out.write(SORTED_ROWS[:10])
        async with orcstream.open(path) as file:
            encryption = file.tail.footer.encryption
            assert encryption is not None
            drawn |= {variant.encrypted_key for variant in encryption.variants}
    assert len(drawn) == 8


async def test_keys_that_are_not_there(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    with pytest.raises(KeyUnavailable):
        await orcstream.create(path, str(SORTED), encrypt=encrypt(SORTED_ROOTS), keys=reading.provider([PII]))
    assert not list(tmp_path.iterdir())


# --- files in parts --------------------------------------------------------------------------------


async def test_growing_files(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    keys = reading.provider([PII])
    asked = [Encrypt("pii", ["n"])]
    lengths = {}
    async with orcstream.create(path, "struct<n:bigint>", growing=True, encrypt=asked, keys=keys) as out:
        for start, stop in ((0, 10), (10, 500), (500, 501)):
            await out.write([{"n": number} for number in range(start, stop)])
            await out.flush()
            data = Path(f"{path}_flush_length").read_bytes()
            lengths[int.from_bytes(data[-8:], "big")] = stop
        for length, count in lengths.items():
            assert java_orc.longs_up_to(path, length, keys=[PII]) == list(range(count))
    for length, count in (lengths | {path.stat().st_size: 501}).items():
        assert java_orc.longs_up_to(path, length, keys=[PII]) == list(range(count))
        part = tmp_path / "part.orc"
        part.write_bytes(path.read_bytes()[:length])
        statistics = java_orc.statistics(part, keys=[PII])
        assert statistics["file"][1]["maximum"] == str(count - 1)
        assert java_orc.statistics(part)["file"][1]["count"] == 0
