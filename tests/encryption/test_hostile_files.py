"""Encrypted files, opened with their keys: damaged anywhere, and lied in by who has the keys.

Besides rows, only the errors of the invariant come out of reading them, and of merging them under new keys;
`KeyUnavailable` where what is damaged is the name of a key, its version, or a local key as it is stored.
"""

from __future__ import annotations

import io
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

import orcstream
from orcstream.errors import CorruptStripe, CorruptTail, FormatError, KeyUnavailable, OrcError, Unsupported
from orcstream.io.keys import InMemoryKeyProvider, KeyProvider
from orcstream.query.expr import Expr, col
from tests.generators import seeds
from tests.generators.encrypting import SECRETS, CountedKeys, written
from tests.generators.relocking import harmed, relocked
from tests.reference import java_orc
from tests.reference.encryption import FILE_STATISTICS, STRIPE_STATISTICS, Stream
from tests.support import hostile
from tests.support.effort import pairs, share

FLIPS = share(150, 15)
# What the lies themselves take to be made is in it: some hold 40 MiB, several times.
GROWTH_BYTES = 400 << 20
WHERE = (col("who.ssn") == "ssn-3") | (col("pay") > 1500) | col("tags").is_null()


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return seeds.encrypted()


@pytest.fixture(scope="module", autouse=True)
def memory_stays_bounded(files: dict[str, bytes]) -> object:
    before = hostile.peak_bytes()
    yield None
    grown = hostile.peak_bytes() - before
    assert grown < GROWTH_BYTES, f"the process grew by {grown >> 20} MiB"


NAMES = ["encrypted-none", "encrypted-zlib", "encrypted-zstd", "encrypted-merged"]


# --- damage ----------------------------------------------------------------------------------------


def run_all(
    path: Path, data: bytes, what: str, *, keys: KeyProvider | None = None, where: Expr = WHERE
) -> list[int]:
    """What reading answers with keys and without, and merging with and without new keys."""
    path.write_bytes(data)
    keys = CountedKeys() if keys is None else keys
    try:
        rows = [hostile.run(path, keys, where=where), hostile.run(path, where=where)]
        return [*rows, *(hostile.run_merge(path, keys, rekey=rekey) for rekey in (True, False))]
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error


@pytest.mark.parametrize("name", NAMES)
def test_as_it_is_and_cut_off(files: dict[str, bytes], tmp_path: Path, name: str) -> None:
    assert run_all(tmp_path / "bad.orc", files[name], name) == [2200] * 4
    for cut in hostile.truncations(files[name], 331):
        # No bytes are an empty table; no other cut may pass for a file.
        assert max(run_all(tmp_path / "bad.orc", cut, f"{name} cut to {len(cut)} bytes")) <= 0


@pytest.mark.parametrize("name", NAMES)
def test_damaged_anywhere(files: dict[str, bytes], tmp_path: Path, name: str) -> None:
    for seed in range(FLIPS):
        data = hostile.mutate(files[name], random.Random(f"{name} {seed}"))
        run_all(tmp_path / "bad.orc", data, f"{name} with damage of seed {seed}")


@pytest.mark.parametrize("name", NAMES)
def test_damaged_before_it_was_encrypted(files: dict[str, bytes], tmp_path: Path, name: str) -> None:
    for seed in range(FLIPS):
        data = harmed(files[name], SECRETS, random.Random(f"{name} {seed}"))
        run_all(tmp_path / "bad.orc", data, f"{name} with hidden damage of seed {seed}")


@pytest.mark.java
@pytest.mark.usefixtures("java")
def test_a_file_that_spark_encrypted(corpus_folder: Path, tmp_path: Path) -> None:
    """Row indexes of both forms lie in one stream there (ORC-991)."""
    folder = corpus_folder / "apache-orc/encrypted"
    keys = InMemoryKeyProvider()
    keys.add_key("pii", java_orc.key_of_store(folder / "kms.keystore", "ORC_KEY", "pii@0"))
    whole, path = (folder / "sample1.orc").read_bytes(), tmp_path / "bad.orc"
    where = (col("ssn") == "123456789") & (col("email") > "a")
    assert run_all(path, whole, "sample", keys=keys, where=where) == [1] * 4
    for seed in range(2 * FLIPS):
        data = hostile.mutate(whole, random.Random(seed))
        run_all(path, data, f"sample with damage of seed {seed}", keys=keys, where=where)


# --- lies ------------------------------------------------------------------------------------------

SCHEMA = "struct<id:int,who:struct<ssn:string,age:int>,pay:bigint>"
# By key: pay is column 5, who (with 3 and 4 below it) is 2.
ENCRYPT = (orcstream.Encrypt("pay", ["pay"]), orcstream.Encrypt("pii", ["who"]))
ROWS = 3000
DATA = written(
    SCHEMA,
    [
        [
            {"id": row, "who": {"ssn": f"{row % 9}", "age": row % 90}, "pay": row}
            for row in range(first, first + 1500)
        ]
        for first in (0, 1500)
    ],
    ENCRYPT,
    stripe_bytes=1024,
    row_index_stride=1000,
    blooms=["pay", "who.ssn"],
)
_DATA, _PRESENT = 1, 0
INDEX_PLACE, DATA_PLACE = 9, 10
READS, MERGES = "read", "merged"
BOTH = (READS, MERGES)

Hooks = dict[str, Any]
Lie = tuple[Hooks, type[OrcError] | None, str]
"""What is changed; the error that comes out of reading and merging, or None; a pattern of its facts."""


def in_encryption(change: Callable[[Any], object]) -> Hooks:
    return {"footer": lambda footer: change(footer.encryption)}


def in_first_stripe(change: Callable[[Any], object]) -> Hooks:
    return {"footer": lambda footer: change(footer.stripes[0])}


def in_stripe_footers(change: Callable[[Any], object]) -> Hooks:
    return {"stripe_footer": change}


def in_streams(kind: int, change: Callable[[bytes], bytes]) -> Hooks:
    def content(stream: Stream, plain: bytes) -> bytes:
        return change(plain) if stream.kind == kind else plain

    return {"content": content}


def put(part: Any, **fields: Any) -> None:
    for name, value in fields.items():
        setattr(part, name, value)


def replace_keys(stripe: Any, keys: list[bytes]) -> None:
    del stripe.encrypted_local_keys[:]
    stripe.encrypted_local_keys.extend(keys)


def again(variants: Any, count: int, **fields: Any) -> None:
    """More variants like the first."""
    for _ in range(count):
        put(variants.add(root=variants[0].root, key=variants[0].key, encrypted_key=b"x" * 16), **fields)


def placeholder(footer: Any, kind: int, length: int) -> None:
    next(stream for stream in footer.streams if stream.kind == kind).length = length


def encrypts_only(encryption: Any, root: int) -> None:
    """The second variant is another column, about which nothing is known."""
    put(encryption.variants[1], root=root, file_statistics=b"")
    del encryption.variants[1].stripe_statistics[:]


def the_root_alone(footer: Any) -> None:
    """The root becomes the only variant."""
    encrypts_only(footer.encryption, 0)
    footer.encryption.variants.pop(0)
    for stripe in footer.stripes:
        del stripe.encrypted_local_keys[:1]


LIES: dict[str, Lie] = {
    "stripe_id_0": (
        in_first_stripe(lambda s: put(s, encrypt_stripe_id=0)),
        CorruptTail,
        r"\bstripe id\b.* 0$",
    ),
    "stripe_id_beyond": (
        in_first_stripe(lambda s: put(s, encrypt_stripe_id=1 << 24)),
        CorruptTail,
        "stripe id",
    ),
    "stripe_id_huge": (
        in_first_stripe(lambda s: put(s, encrypt_stripe_id=(1 << 64) - 1)),
        CorruptTail,
        "stripe id",
    ),
    "stripe_id_that_leaves_none_for_the_next": (
        in_first_stripe(lambda s: put(s, encrypt_stripe_id=0xFFFFFF)),
        CorruptTail,
        "16777216",
    ),
    "no_local_keys": (in_first_stripe(lambda s: replace_keys(s, [])), CorruptTail, "0 local keys"),
    "too_few_local_keys": (in_first_stripe(lambda s: replace_keys(s, [b"x"])), CorruptTail, "1 local keys"),
    "too_many_local_keys": (
        in_first_stripe(lambda s: replace_keys(s, [b"x" * 16] * 3)),
        CorruptTail,
        "3 local keys",
    ),
    "empty_local_keys": (
        in_first_stripe(lambda s: replace_keys(s, [b"", b""])),
        KeyUnavailable,
        r"'pay'.*\b16 bytes\b",
    ),
    "short_local_keys": (
        in_first_stripe(lambda s: replace_keys(s, [b"x" * 15, b"x" * 31])),
        KeyUnavailable,
        r"'pay'.*\b16 bytes\b",
    ),
    "long_local_keys": (
        in_first_stripe(lambda s: replace_keys(s, [bytes(1 << 20)] * 2)),
        KeyUnavailable,
        r"'pay'.*\b16 bytes\b",
    ),
    "no_such_root": (in_encryption(lambda e: put(e.variants[0], root=99)), CorruptTail, "column 99"),
    "no_such_key": (in_encryption(lambda e: put(e.variants[0], key=9)), CorruptTail, "key 9"),
    "no_keys_at_all": (in_encryption(lambda e: e.ClearField("key")), CorruptTail, r"\bkey 0\b.*\b0$"),
    "a_root_within_another": (in_encryption(lambda e: encrypts_only(e, 0)), CorruptTail, r"\bcolumn 5\b"),
    "the_root_without_streams": (
        {
            "footer": the_root_alone,
            "stripe_footer": lambda f: (f.encryption[1].encoding.extend(f.columns[:3]), f.encryption.pop(0)),
        },
        CorruptStripe,
        "ENCRYPTED_INDEX",
    ),
    "another_column_of_another_length": (
        in_encryption(lambda e: encrypts_only(e, 1)),
        CorruptStripe,
        r"\bcolumn 2\b.*\b1 to 1\b",
    ),
    "fewer_variants_in_stripes": (
        in_stripe_footers(lambda f: f.encryption.pop()),
        CorruptStripe,
        r"\b1 encryption variants\b.*\b2\b",
    ),
    "statistics_of_another_column": (
        in_encryption(lambda e: put(e.variants[0].stripe_statistics[0], column=1)),
        CorruptTail,
        r"\bvariant 0\b.*\bcolumn 1\b",
    ),
    "statistics_longer_than_there_are": (
        in_encryption(lambda e: put(e.variants[0].stripe_statistics[0], length=1 << 60)),
        CorruptTail,
        r"\bstripe statistics\b.* 11529\d+ bytes\b",
    ),
    "room_for_statistics_beyond_the_file": (
        {"postscript": lambda p: put(p, stripe_statistics_length=1 << 40)},
        CorruptTail,
        r"\btail\b.* 1099511\d+ bytes\b",
    ),
    "statistics_that_shift_the_others": (
        in_encryption(lambda e: put(e.variants[0].stripe_statistics[0], length=0)),
        CorruptTail,
        "not the key",
    ),
    "a_mask_of_no_column": (
        in_encryption(lambda e: e.mask[0].columns.append(99)),
        CorruptTail,
        "'nullify'",
    ),
    "an_encoding_too_few": (
        in_stripe_footers(lambda f: f.encryption[1].encoding.pop()),
        CorruptStripe,
        r"\b2 encodings\b.*\b3\b",
    ),
    "a_dictionary_of_billions": (
        in_stripe_footers(lambda f: put(f.encryption[1].encoding[1], dictionary_size=1 << 31)),
        CorruptStripe,
        "dictionary",
    ),
    "a_stream_of_another_variant": (
        in_stripe_footers(lambda f: put(f.encryption[1].streams[-1], column=5)),
        CorruptStripe,
        "column 5",
    ),
    "a_placeholder_within_a_variant": (
        in_stripe_footers(lambda f: put(f.encryption[0].streams[-1], kind=DATA_PLACE)),
        CorruptStripe,
        r"\bENCRYPTED_DATA\b.*\bvariant 0\b",
    ),
    "statistics_within_a_stripe": (
        in_stripe_footers(lambda f: put(f.encryption[0].streams[-1], kind=STRIPE_STATISTICS)),
        CorruptStripe,
        "STRIPE_STATISTICS",
    ),
    "data_in_the_index_area": (
        in_stripe_footers(lambda f: put(f.encryption[0].streams[-1], kind=7)),
        CorruptStripe,
        "ENCRYPTED_INDEX",
    ),
    "two_streams_of_one_kind": (
        in_stripe_footers(lambda f: f.encryption[0].streams.add(kind=_DATA, column=5, length=0)),
        CorruptStripe,
        r"\bstreams\b.*\bkind\b",
    ),
    "a_second_placeholder": (
        in_stripe_footers(lambda f: f.streams.add(kind=DATA_PLACE, length=0)),
        CorruptStripe,
        r"\bstreams\b.*\bkind\b",
    ),
    "no_placeholder": (
        in_stripe_footers(lambda f: placeholder(f, DATA_PLACE, 0)),
        CorruptStripe,
        r"\bENCRYPTED_DATA\b.*\b0 bytes\b",
    ),
    "a_placeholder_too_long": (
        in_stripe_footers(lambda f: placeholder(f, INDEX_PLACE, 1 << 40)),
        CorruptStripe,
        "stripe body",
    ),
    "a_placeholder_of_all_numbers": (
        in_stripe_footers(lambda f: placeholder(f, DATA_PLACE, (1 << 64) - 1)),
        CorruptStripe,
        "stripe body",
    ),
    "local_keys_by_the_hundred_thousand": (
        in_encryption(lambda e: again(e.variants, 1 << 18)),
        Unsupported,
        r"\bfooter\b",
    ),
    "stripe_statistics_without_end": (
        in_streams(STRIPE_STATISTICS, lambda _: b"\x0a\x00" * 100_000),
        CorruptTail,
        "not the key",
    ),
    "stripe_statistics_of_other_fields": (
        in_streams(STRIPE_STATISTICS, lambda _: b"\x10\x00" * 10_000_000),
        CorruptTail,
        r"'pay'.*\b100000\b",
    ),
    "stripe_statistics_that_decompress_to_too_much": (
        in_streams(STRIPE_STATISTICS, lambda _: bytes(40 << 20)),
        Unsupported,
        r"\bmetadata\b.* \d+ bytes\b",
    ),
    "file_statistics_of_fewer_columns": (
        in_streams(FILE_STATISTICS, lambda _: b"\x0a\x00"),
        CorruptTail,
        r"\b1 columns\b.*\b3\b",
    ),
    "file_statistics_that_are_none": (
        in_streams(FILE_STATISTICS, lambda plain: b"\x0a\x04\xff\xff\xff\xff" + plain),
        CorruptTail,
        "not the key",
    ),
    "file_statistics_that_together_are_too_much": (
        in_streams(FILE_STATISTICS, lambda plain: plain + b"\x12\x80\x80\x80\x0a" + bytes(20 << 20)),
        Unsupported,
        r"\bmetadata\b.* \d+ bytes\b",
    ),
}


async def outcome_of(path: Path, how: str) -> OrcError | None:
    try:
        if how == MERGES:
            await orcstream.merge([path], path.with_suffix(".merged"), keys=CountedKeys(), rekey=True)
            return None
        async with orcstream.open(path, keys=CountedKeys()) as file:
            await file.stripe_statistics()
            await file.read(where=WHERE_OF_LIES)
            assert (await file.read()).num_rows == ROWS
    except OrcError as error:
        return error
    return None


WHERE_OF_LIES = (col("who.ssn") == "3") & (col("pay") >= 0)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("name", "how"), pairs(LIES, BOTH))
async def test_lies(tmp_path: Path, name: str, how: str) -> None:
    hooks, wanted, text = LIES[name]
    path = tmp_path / f"{name}.orc"
    path.write_bytes(relocked(DATA, SECRETS, **hooks))
    error = await outcome_of(path, how)
    assert wanted is not None
    assert isinstance(error, wanted), error
    assert isinstance(error, FormatError | Unsupported | KeyUnavailable)
    assert re.search(text, error.message)
    assert error.url is not None
    assert name in error.url
    assert list(tmp_path.iterdir()) == [path]


# What does not matter for the values, or for one of the ways alone.
HARMLESS: dict[str, Lie] = {
    "masks_of_other_columns": (in_encryption(lambda e: e.mask[0].columns.extend([0, 1, 1, 4])), None, ""),
    "no_masks": (in_encryption(lambda e: e.ClearField("mask")), None, ""),
    "statistics_of_an_unknown_kind": (
        in_encryption(lambda e: put(e.variants[0].stripe_statistics[0], kind=4242)),
        None,
        "",
    ),
    "no_file_statistics": (in_encryption(lambda e: put(e.variants[0], file_statistics=b"")), None, ""),
}


@pytest.mark.parametrize("how", BOTH)
@pytest.mark.parametrize("name", HARMLESS)
async def test_what_does_not_matter(tmp_path: Path, name: str, how: str) -> None:
    path = tmp_path / f"{name}.orc"
    path.write_bytes(relocked(DATA, SECRETS, **HARMLESS[name][0]))
    assert await outcome_of(path, how) is None


@pytest.mark.parametrize("column", [5, 99, 1 << 31])
async def test_streams_of_a_later_format_take_up_room(column: int) -> None:
    """What they hold is not known, nor under which counter: they can be passed over, but not be rekeyed."""

    def add(footer: Any) -> None:
        # Of the last variant's last stream, the end: it is one byte longer than its values need.
        footer.encryption[1].streams.add(kind=11, column=column, length=1)
        footer.encryption[1].streams[-2].length -= 1

    data = relocked(
        DATA, SECRETS, stripe_footer=add, content=lambda s, p: p + b"\0" * 64 if s.kind == _DATA else p
    )
    async with orcstream.open(data, keys=CountedKeys()) as file:
        assert (await file.stripe_footer(0)).variants[1].streams[-1].length == 1
        await file.row_index(0)
        assert (await file.read(columns=["id", "pay"])).num_rows == ROWS
    with pytest.raises(Unsupported) as caught:
        await orcstream.merge([data], io.BytesIO(), keys=CountedKeys(), rekey=True)
    assert caught.value.reason == "unknown_stream"
    assert (caught.value.stripe, caught.value.url) == (0, "<bytes>")
    assert (await orcstream.merge([data], io.BytesIO(), keys=CountedKeys())).row_count == ROWS


@pytest.mark.parametrize("algorithm", [0, 3, 77])
async def test_keys_of_an_unknown_algorithm_open_nothing(algorithm: int) -> None:
    def change(footer: Any) -> None:
        for key in footer.encryption.key:
            key.algorithm = algorithm

    data = relocked(DATA, SECRETS, footer=change)
    async with orcstream.open(data, keys=CountedKeys()) as file:
        assert file.batches().masked_columns == ("who", "pay")
        assert (await file.read()).num_rows == ROWS
    with pytest.raises(KeyUnavailable):
        await orcstream.open(data, keys=CountedKeys(), require_keys=True)
    with pytest.raises(KeyUnavailable):
        await orcstream.merge([data], io.BytesIO(), keys=CountedKeys())


def with_variants(count: int, **fields: Any) -> bytes:
    """The variant of "pay", and behind all others `count` more of that column, without streams."""

    def in_tail(footer: Any) -> None:
        again(footer.encryption.variants, count, **fields)
        for stripe in footer.stripes:
            if stripe.encrypted_local_keys:
                stripe.encrypted_local_keys.extend([b"x" * 16] * count)

    def in_stripe(footer: Any) -> None:
        for _ in range(count):
            footer.encryption.add().encoding.add(kind=2)

    return relocked(DATA, SECRETS, footer=in_tail, stripe_footer=in_stripe)


async def test_several_variants_of_one_column() -> None:
    """The first one that opens is read, whatever the others are."""
    data = with_variants(3)
    async with orcstream.open(data, keys=CountedKeys(), require_keys=True) as file:
        assert file.statistics["pay"].maximum == ROWS - 1
        assert [len(column.keys) for column in file.encrypted_columns] == [1, 4]
        assert (await file.read(columns=["pay"])).to_pylist() == [{"pay": row} for row in range(ROWS)]
    assert (await orcstream.merge([data], io.BytesIO(), keys=CountedKeys(), rekey=True)).row_count == ROWS


@pytest.mark.timeout(60)
async def test_ten_thousand_variants() -> None:
    keys = CountedKeys()
    data = with_variants(10_000)
    async with orcstream.open(data, keys=keys) as file:
        assert (await file.read(columns=["pay"])).to_pylist() == [{"pay": row} for row in range(ROWS)]
        assert (await file.stripe_statistics())[0].get(5) is not None
    assert (await orcstream.merge([data], io.BytesIO(), keys=keys, rekey=True)).row_count == ROWS


async def test_stripes_times_columns() -> None:
    """A file of 200 KB claims statistics of 400 million columns of stripes: nothing is made of that."""
    columns, stripes = 20_000, 20_000
    names = [f"c{number}" for number in range(columns)]
    first = await anyio.to_thread.run_sync(
        written, f"struct<{':int,'.join(names)}:int>", [], [orcstream.Encrypt("pay", ["c0"])]
    )

    def change(footer: Any) -> None:
        for _ in range(stripes):
            footer.stripes.add(offset=3)
        footer.stripes[0].encrypted_local_keys.append(footer.encryption.variants[0].encrypted_key)
        put(footer.encryption.variants[0], file_statistics=b"")
        del footer.encryption.variants[0].stripe_statistics[:]

    data = relocked(first, SECRETS, footer=change)
    assert len(data) < 200_000
    async with orcstream.open(data, keys=CountedKeys()) as file:
        with pytest.raises(Unsupported) as caught:
            await file.stripe_statistics()
    assert caught.value.reason == "metadata_too_large"
    with pytest.raises(Unsupported):
        await orcstream.merge([data], io.BytesIO(), keys=CountedKeys(), rekey=True)
