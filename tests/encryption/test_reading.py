"""Rows that Java encrypted: what ours reads of them with all keys, with some, and with none.

With a key come the rows that went in; without it, what Java itself reads without it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

import orcstream
from orcstream.errors import KeyUnavailable, OrcError
from tests.generators import encrypted_columns, strategies
from tests.generators.encrypted_columns import KEYS, PII, RICH, RICH_ROOTS, SUBSETS, TOP, Root, name_of
from tests.interop import judging
from tests.reference import compare, java_orc
from tests.reference.java_orc import Key
from tests.reference.types import T, parse, struct
from tests.support import reading
from tests.support.effort import share

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("java")]

ROWS: list[Any] = strategies.make_table(RICH, 6_000, 21, strategies.Limits()).rows
STRIPES = {
    "orc.stripe.row.count": 2000,
    "orc.row.index.stride": 1000,
    "orc.proleptic.gregorian": True,  # so that statistics of dates are what they seem
}


def masked_names(roots: Sequence[Root], keys: Sequence[Key]) -> set[str]:
    return {root.name for root in roots if root.key not in keys}


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("encrypted") / "everything.orc"
    encrypted_columns.write(path, RICH, ROWS, RICH_ROOTS, options={"orc.compress": "ZLIB", **STRIPES})
    return path


# --- rows ------------------------------------------------------------------------------------------


@hypothesis.settings(max_examples=share(30))
@hypothesis.given(
    table=strategies.tables(strategies.schemas(strategies.EVERYTHING, unions=True)),
    options=strategies.java_options(),
    data=st.data(),
)
def test_any_schema(
    tmp_path_factory: pytest.TempPathFactory,
    table: strategies.Table,
    options: dict[str, object],
    data: st.DataObject,
) -> None:
    path = tmp_path_factory.mktemp("java") / "any.orc"
    options = {key: value for key, value in options.items() if key != "bloom"}
    roots = data.draw(encrypted_columns.roots(table.type_))
    encrypted_columns.write(path, table.type_, table.rows, roots, options=options)
    whole = java_orc.read(path, table.type_, keys=KEYS)
    compare.assert_same_rows(table.type_, whole, table.rows)
    judging.run(path, table.type_, whole, keys=reading.provider(KEYS))
    some = data.draw(st.sampled_from(SUBSETS[:-1]))
    masked = java_orc.read(path, table.type_, keys=some)
    judging.run(path, table.type_, masked, keys=reading.provider(some))


@pytest.mark.sampled
@pytest.mark.parametrize("form", ["0.11", "0.12"])
@pytest.mark.parametrize("compression", java_orc.COMPRESSIONS)
async def test_compressions_and_versions(tmp_path: Path, compression: str, form: str) -> None:
    path = tmp_path / "a.orc"
    options = {"orc.compress": compression, "orc.write.format": form, "orc.compress.size": 4096, **STRIPES}
    encrypted_columns.write(path, RICH, ROWS[:3500], RICH_ROOTS, options=options)
    for keys in SUBSETS:
        wanted = compare.arrow_shaped(RICH, java_orc.read(path, RICH, keys=keys))
        table = await reading.read_batches(path, keys=reading.provider(keys), batch_rows=701)
        compare.assert_same_rows(RICH, compare.table_rows(RICH, table), wanted)


@pytest.mark.parametrize("size", [16, 32])
@pytest.mark.parametrize("mask", encrypted_columns.MASKS)
async def test_masks_and_key_lengths(tmp_path: Path, mask: str, size: int) -> None:
    key = Key("k", random.Random(size).randbytes(size))
    type_ = struct(a="string", b="int", c="double", d="varchar(70)", e="char(70)", g="array<string>")
    rows = strategies.make_table(type_, 2500, 1, strategies.Limits()).rows
    path = tmp_path / "a.orc"
    roots = encrypted_columns.named(type_, [(name, key, mask) for name in type_.names])
    encrypted_columns.write(path, type_, rows, roots, keys=[key])
    assert java_orc.encryption(path)["keys"] == [("k", 0, f"AES_CTR_{8 * size}")]
    await judging.check(path, type_, list[object](rows), keys=reading.provider([key]))
    masked = java_orc.read(path, type_)
    await judging.check(path, type_, masked)
    assert masked != rows


@pytest.mark.parametrize(
    "text",
    ["struct<a:string,b:struct<c:int>>", "array<struct<a:int>>", "map<string,int>", "uniontype<int,string>"],
)
@pytest.mark.parametrize("keys", [(), (PII,)], ids=["without", "with"])
async def test_whole_compounds(tmp_path: Path, text: str, keys: tuple[Key, ...]) -> None:
    type_ = T("struct", (parse("int"), parse(text), parse("string")), ("before", "x", "after"))
    rows = strategies.make_table(type_, 3000, 4, strategies.Limits()).rows
    path = tmp_path / "a.orc"
    roots = encrypted_columns.named(type_, [("x", PII, "nullify")])
    encrypted_columns.write(path, type_, rows, roots, options={"orc.row.index.stride": 1000})
    expected: list[object] = [row if keys else (row[0], None, row[2]) for row in rows]
    await judging.check(path, type_, expected, keys=reading.provider(keys))


async def test_a_column_that_is_all_there_is(tmp_path: Path) -> None:
    type_ = struct(a="string")
    path = tmp_path / "a.orc"
    roots = encrypted_columns.named(type_, [("a", PII, "nullify")])
    contents: list[list[object]] = [[], [("x",)], [(None,)] * 3]
    for rows in contents:
        encrypted_columns.write(path, type_, rows, roots)
        assert await reading.read_rows(path, type_, keys=reading.provider(KEYS)) == rows
        assert await reading.read_rows(path, type_) == [(None,)] * len(rows)


# --- anywhere --------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", SUBSETS, ids=name_of)
async def test_any_range_of_rows(everything: Path, keys: tuple[Key, ...]) -> None:
    whole = await reading.read_rows(everything, RICH, keys=reading.provider(keys))
    rng = random.Random(3)
    starts = [0, 999, 1000, 1999, 2000, 2001, 5999, *(rng.randrange(6000) for _ in range(6))]
    for start in starts:
        stop = min(6000, start + rng.choice((1, 20, 1500, 4000)))
        rows = range(start, stop)
        part = await reading.read_rows(everything, RICH, keys=reading.provider(keys), rows=rows)
        compare.assert_same_rows(RICH, part, whole[start:stop])
        seeked = java_orc.read_from(everything, RICH, start, min(20, stop - start), keys=keys)
        wanted = compare.arrow_shaped(RICH, seeked)
        compare.assert_same_rows(RICH, part[: len(seeked)], wanted)


@pytest.mark.parametrize("compression", ["NONE", "ZLIB", "ZSTD"])
async def test_seeking_within_streams(tmp_path: Path, compression: str) -> None:
    """Streams of many compression chunks, entered at bytes that are no multiple of the cipher's block."""
    rng = random.Random(8)
    type_ = struct(a="string", n="bigint")
    rows = [
        ("".join(rng.choices("abcdefgh", k=rng.randint(0, 60))), rng.getrandbits(40)) for _ in range(30_000)
    ]
    path = tmp_path / "a.orc"
    roots = encrypted_columns.named(type_, [("a", PII, "nullify"), ("n", TOP, "nullify")])
    options = {
        "orc.compress": compression,
        "orc.compress.size": 1024,
        "orc.row.index.stride": 1000,
        "orc.dictionary.key.threshold": 0.0,
    }
    encrypted_columns.write(path, type_, rows, roots, options=options)
    async with (
        orcstream.open(path, keys=reading.provider(KEYS)) as file,
        file.batches(batch_rows=10) as stream,
    ):
        for _ in range(25):
            row = rng.randrange(30_000)
            await stream.seek(row)
            batch = await anext(stream)
            found = [tuple(one.values()) for one in batch.to_pylist()]
            assert found == rows[row : row + len(found)]
            assert found


# --- what is told ----------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", SUBSETS, ids=name_of)
async def test_files_and_batches_say_what_is_masked(everything: Path, keys: tuple[Key, ...]) -> None:
    async with orcstream.open(everything, keys=reading.provider(keys)) as file:
        told = file.encrypted_columns
        assert {one.name: (one.key.name, one.mask and one.mask.name, one.is_open) for one in told} == {
            root.name: (root.key.name, root.mask, root.key in keys) for root in RICH_ROOTS
        }
        async with file.batches() as stream:
            async for batch in stream:
                assert set(batch.masked_columns) == masked_names(RICH_ROOTS, keys)
        async with file.batches(columns=["id", "ssn", "s.a"]) as stream:
            async for batch in stream:
                assert set(batch.masked_columns) == masked_names(RICH_ROOTS, keys) & {"ssn", "s.a"}
        async with file.batches(columns=["id", "z"]) as stream:
            async for batch in stream:
                assert batch.masked_columns == ()


async def test_required_keys(everything: Path) -> None:
    provider = reading.provider([TOP])
    async with orcstream.open(everything, keys=provider, require_keys=["top"]) as file:
        assert file.row_count == 6000
    for required in (["pii"], ["top", "pii"], True):
        with pytest.raises(KeyUnavailable, match="pii"):
            await orcstream.open(everything, keys=provider, require_keys=required)
    with pytest.raises(KeyUnavailable):
        await orcstream.open(everything, require_keys=["pii"])


async def test_without_a_provider_all_is_masked(everything: Path) -> None:
    expected = compare.arrow_shaped(RICH, java_orc.read(everything, RICH))
    compare.assert_same_rows(RICH, await reading.read_rows(everything, RICH), expected)


# --- versions of keys, and other keys --------------------------------------------------------------

SMALL = struct(a="string", n="bigint")
SMALL_ROWS: list[object] = [(f"secret {i}", i * i) for i in range(5000)]
SMALL_ROOTS = encrypted_columns.named(SMALL, [("a", PII, "redact"), ("n", PII, "nullify")])


@pytest.mark.parametrize("version", [0, 1, 5])
async def test_versions_of_a_key(tmp_path: Path, version: int) -> None:
    versions = [Key("pii", random.Random(number).randbytes(16), number) for number in (0, 1, 5)]
    path = tmp_path / "a.orc"
    older = [key for key in versions if key.version <= version]
    encrypted_columns.write(path, SMALL, SMALL_ROWS, SMALL_ROOTS, keys=older)
    assert await reading.read_rows(path, SMALL, keys=reading.provider(versions)) == SMALL_ROWS
    others = reading.provider(key for key in versions if key.version != version)
    masked = java_orc.read(path, SMALL)
    assert await reading.read_rows(path, SMALL, keys=others) == masked
    with pytest.raises(KeyUnavailable):
        await orcstream.open(path, keys=others, require_keys=["pii"])


@pytest.mark.parametrize("compression", java_orc.COMPRESSIONS)
@pytest.mark.parametrize("other", range(4))
async def test_another_key_of_the_same_name(tmp_path: Path, compression: str, other: int) -> None:
    """It opens nothing, and no row comes out of it."""
    path = tmp_path / "a.orc"
    encrypted_columns.write(
        path, SMALL, SMALL_ROWS, SMALL_ROOTS, options={"orc.compress": compression}, seed=1
    )
    keys = reading.provider([Key("pii", random.Random(other).randbytes(16))])
    with pytest.raises(OrcError) as caught:
        await reading.read_rows(path, SMALL, keys=keys)
    assert not isinstance(caught.value, KeyUnavailable)
    assert "pii" in str(caught.value)


async def test_a_key_of_another_length(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    encrypted_columns.write(path, SMALL, SMALL_ROWS, SMALL_ROOTS)
    longer = reading.provider([Key("pii", bytes(32))])
    with pytest.raises(KeyUnavailable):
        await orcstream.open(path, keys=longer, require_keys=["pii"])


# --- files in parts --------------------------------------------------------------------------------


async def test_merged_files(tmp_path: Path) -> None:
    """Stripes keep their numbers and local keys: both begin anew within the file."""
    rows = [SMALL_ROWS, SMALL_ROWS[:7], SMALL_ROWS[100:4000]]
    for index, part in enumerate(rows):
        options = {"orc.stripe.row.count": 1000, "orc.row.index.stride": 1000}
        encrypted_columns.write(tmp_path / f"{index}.orc", SMALL, part, SMALL_ROOTS, options=options)
    path = tmp_path / "merged.orc"
    assert len(java_orc.merge(path, [tmp_path / f"{i}.orc" for i in range(3)], keys=KEYS)) == 3
    everything = [row for part in rows for row in part]
    assert java_orc.read(path, SMALL, keys=KEYS) == everything
    await judging.check(path, SMALL, list(everything), keys=reading.provider(KEYS))
    await judging.check(path, SMALL, java_orc.read(path, SMALL))
    for start in (0, 4990, 5003, 5007, 6500):
        part = await reading.read_rows(
            path, SMALL, keys=reading.provider(KEYS), rows=range(start, start + 30)
        )
        assert part == everything[start : start + 30]


@pytest.mark.parametrize("keys", [(), (PII,)], ids=["without", "with"])
async def test_growing_files(tmp_path: Path, keys: tuple[Key, ...]) -> None:
    path, part = tmp_path / "growing.orc", tmp_path / "part.orc"
    growing = java_orc.GrowingFile(path, keys=[PII], encrypt="pii:n")
    lengths = {}
    for start, stop in ((0, 100), (100, 1100), (1100, 2000)):
        lengths[growing.add(range(start, stop))] = stop
    growing.close()
    lengths[path.stat().st_size] = 2000
    for length, count in lengths.items():
        part.write_bytes(path.read_bytes()[:length])
        async with orcstream.open(part, keys=reading.provider(keys)) as file:
            assert file.row_count == count
            found = [row["n"] for batch in [b async for b in file.batches()] for row in batch.to_pylist()]
            assert found == (list(range(count)) if keys else count * [None])
            assert file.statistics["n"].maximum == (count - 1 if keys else None)


@pytest.mark.parametrize("with_key", [False, True])
async def test_a_file_that_spark_encrypted(corpus_folder: Path, with_key: bool) -> None:
    """Of ORC Java 1.6, which wrote row indexes of encrypted columns in clear, before those of the masked."""
    type_: Any = struct(ssn="string", email="string", name="string")
    folder = corpus_folder / "apache-orc/encrypted"
    path = folder / "sample1.orc"
    master = Key("pii", java_orc.key_of_store(folder / "kms.keystore", "ORC_KEY", "pii@0"))
    digest = "841626795E7D351555B835A002E3BF10669DE9B81C95A3D59E10865AC37EA7C3"
    rows: list[Any] = [(None, digest, "Dongjoon Hyun")]
    if with_key:
        rows = [("123456789", "dongjoon@apache.org", "Dongjoon Hyun")]
    keys = [master] if with_key else []
    assert java_orc.read(path, type_, keys=keys) == rows
    await judging.check(path, type_, rows, keys=reading.provider(keys))
    async with orcstream.open(path, keys=reading.provider(keys)) as file:
        for columns in ([file.statistics[name] for name in type_.names],):
            assert [one.minimum for one in columns] == list(rows[0])
            assert [one.maximum for one in columns] == list(rows[0])
        (stripe,) = await file.stripe_statistics()
        stripes = [stripe.get(file.schema[name].column_id) for name in type_.names]
        assert [one and one.maximum for one in stripes] == list(rows[0])
        index = await file.row_index(0)
        groups = [index[file.schema[name].column_id] for name in type_.names]
        assert [len(one) for one in groups] == [1, 1, 1]
        told = [one.statistics(0) for one in groups]
        assert [one and one.maximum for one in told] == list(rows[0])
