"""Opening encrypted files: who is asked for which key, and what follows from the answers.

The files have no stripes; their statistics are encrypted here, by the AES of the cryptography library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import anyio
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

import orcstream
from orcstream.codec.metadata.structure import (
    Calendar,
    DataMask,
    Encryption,
    EncryptionVariant,
    Footer,
    StatisticsList,
    StripeInformation,
)
from orcstream.codec.metadata.write import join_field, statistics_list, tail_bytes
from orcstream.codec.streams.compression import Compression
from orcstream.encryption import EncryptionAlgorithm, EncryptionKey, KeyProviderKind, LocalKey
from orcstream.errors import (
    ColumnNotFound,
    CorruptTail,
    KeyUnavailable,
    RetriesExhausted,
    SourceError,
    Unsupported,
    UsageError,
)
from orcstream.io.keys import InMemoryKeyProvider
from orcstream.schema.column_statistics import ColumnStatistics
from orcstream.schema.schema import Schema
from orcstream.schema.types import FileColumn
from tests.support.errors import because

SCHEMA = Schema.parse("struct<a:int,b:struct<c:int,d:int>>")
PII = EncryptionKey("pii", 2, EncryptionAlgorithm.AES_CTR_128)
TOP = EncryptionKey("top", 0, EncryptionAlgorithm.AES_CTR_256)


def numbers(count: int, maximum: int) -> bytes:
    statistics = ColumnStatistics(count, False, kind="integer", minimum=0, maximum=maximum, sum=maximum)
    return statistics_list([statistics]).serialized[0]


def local_key(variant: int, key: EncryptionKey) -> bytes:
    return bytes([variant + 1]) * key.algorithm.key_bytes


def file_of(variants: Sequence[tuple[int, EncryptionKey]]) -> bytes:
    """A file without rows, whose variants have statistics with their number as maximum."""
    keys = tuple(dict.fromkeys(key for _, key in variants))
    found = []
    for number, (root, key) in enumerate(variants):
        count = SCHEMA.types[root].last_column_id - root + 1
        iv = root.to_bytes(3, "big") + (101).to_bytes(2, "big") + (1).to_bytes(3, "big") + bytes(8)
        cipher = Cipher(algorithms.AES(local_key(number, key)), modes.CTR(iv)).encryptor()
        secret = cipher.update(join_field(1, [numbers(3, number)] * count))
        wrapped = bytes([number]) * key.algorithm.key_bytes
        found.append(EncryptionVariant(FileColumn(root), keys.index(key), wrapped, (), secret))
    masks = (DataMask("redact", ("9",), (FileColumn(1),)),)
    return tail_only(SCHEMA, Encryption(masks, keys, tuple(found), KeyProviderKind.HADOOP))


def tail_only(
    schema: Schema,
    encryption: Encryption,
    stripes: tuple[StripeInformation, ...] = (),
    statistics: tuple[StatisticsList, ...] = (),
) -> bytes:
    """A file of nothing but its tail; `statistics` are those of stripes that stand in the clear."""
    footer = Footer(
        schema=schema,
        stripes=stripes,
        row_count=0,
        row_index_stride=0,
        statistics=StatisticsList((numbers(9, 99),) * 5),
        user_metadata={},
        writer=0,
        software_version=None,
        calendar=Calendar.PROLEPTIC_GREGORIAN,
        encryption=encryption,
        header_length=3,
        content_length=3,
    )
    return b"ORC" + tail_bytes(
        footer, statistics, compression=Compression.NONE, block_size=1 << 18, compressor=None, version=(0, 12)
    )


class Provider(InMemoryKeyProvider):
    """Hands out the keys of `file_of`, but for what is to fail; counts."""

    def __init__(self, **fails: Exception) -> None:
        super().__init__()
        self.fails = fails
        self.asked: list[tuple[EncryptionKey, int]] = []
        self.at_once = self.most_at_once = 0
        self.sent = local_key

    async def decrypt_local_key(self, key: EncryptionKey, encrypted: bytes) -> LocalKey:
        self.asked.append((key, encrypted[0]))
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        try:
            await anyio.sleep(0.01)
        finally:
            self.at_once -= 1
        if key.name in self.fails:
            raise self.fails[key.name]
        return LocalKey(encrypted, self.sent(encrypted[0], key))


FILE = file_of([(1, PII), (2, TOP), (2, PII)])


async def test_all_keys() -> None:
    provider = Provider()
    async with orcstream.open(FILE, keys=provider, require_keys=True) as file:
        a, b = file.encrypted_columns
        assert (a.name, a.path, a.column_id, a.key, a.keys, a.is_open) == ("a", ("a",), 1, PII, (PII,), True)
        assert a.mask == DataMask("redact", ("9",), (FileColumn(1),))
        assert (b.name, b.key, b.keys, b.mask, b.is_open) == ("b", TOP, (TOP, PII), None, True)
        assert [file.statistics[name].maximum for name in ("a", "b.c", "b.d")] == [0, 1, 1]
        assert file.tail.footer.statistics.serialized == (numbers(9, 99),) * 5, "as stored"
        result = await file.read()
        assert (result.num_rows, file.batches().masked_columns) == (0, ())
    assert sorted(provider.asked, key=str) == sorted([(PII, 0), (TOP, 1), (PII, 2)], key=str)
    assert provider.most_at_once == 3, "side by side"


@pytest.mark.parametrize(
    ("refused", "opened", "maxima", "masked"),
    [
        (["top"], [PII, PII], [0, 2, 2], ()),  # the next form of b
        (["pii"], [PII, TOP], [99, 1, 1], ("a",)),
        (["pii", "top"], [PII, TOP], [99, 99, 99], ("a", "b")),
    ],
)
async def test_refused_keys(
    refused: list[str], opened: list[EncryptionKey], maxima: list[int], masked: tuple[str, ...]
) -> None:
    provider = Provider(**{name: KeyUnavailable(f"not {name}") for name in refused})
    async with orcstream.open(FILE, keys=provider) as file:
        assert [column.key for column in file.encrypted_columns] == opened
        assert [file.statistics[name].maximum for name in ("a", "b.c", "b.d")] == maxima
        assert file.batches().masked_columns == masked
        # A struct with one field, of what is masked as a whole.
        assert file.batches(columns=["b.d"]).masked_columns == tuple(n for n in masked if n == "b")
    for required in (refused, True):
        with pytest.raises(KeyUnavailable, match=rf"\bnot {refused[0]}\b"):
            await orcstream.open(FILE, keys=provider, require_keys=required)


async def test_no_keys() -> None:
    async with orcstream.open(FILE) as file:
        assert [column.is_open for column in file.encrypted_columns] == [False, False]
        assert file.batches().masked_columns == ("a", "b")
    with pytest.raises(KeyUnavailable, match=r"\b2\b.*'pii'"):
        await orcstream.open(FILE, require_keys=["pii"])
    for required in (True, ["other"]):
        async with orcstream.open(file_of([]), require_keys=required) as file:
            assert file.encrypted_columns == ()


@pytest.mark.parametrize("required", [["pi"], ["pii", "pi"], ["pi", "pii", "top"]])
@pytest.mark.parametrize("provider", [Provider(), Provider(pii=KeyUnavailable("not pii")), None])
async def test_required_keys_that_the_file_does_not_name(
    required: list[str], provider: Provider | None
) -> None:
    """A name that is misspelt must not pass: masks would be read in place of values."""
    with pytest.raises(UsageError, match=r"'pi'.*'pii', 'top'"):
        await orcstream.open(FILE, keys=provider, require_keys=required)
    assert provider is None or not provider.asked


async def test_what_cannot_be_answered_is_an_error() -> None:
    """Masked values in its place would go unnoticed."""
    for failure in (RetriesExhausted("out of order"), SourceError("cut off"), RuntimeError("a bug")):
        with pytest.raises(type(failure)) as caught:
            await orcstream.open(FILE, keys=Provider(top=failure))
        assert caught.value is failure


async def test_cancelled_while_it_asks() -> None:
    provider = Provider()
    with anyio.move_on_after(0.001) as scope:
        await orcstream.open(FILE, keys=provider)
    assert scope.cancelled_caught
    assert provider.at_once == 0
    async with orcstream.open(FILE, keys=provider) as file:
        assert file.encrypted_columns[0].is_open


@pytest.mark.parametrize("name", ["pii", "top"])
async def test_another_key_of_that_name(name: str) -> None:
    provider = Provider()
    provider.sent = lambda variant, key: (
        bytes(key.algorithm.key_bytes) if key.name == name else local_key(variant, key)
    )
    with pytest.raises(CorruptTail, match=rf"\bstatistics\b.*'{name}'"):
        await orcstream.open(FILE, keys=provider)


async def test_a_key_of_another_length() -> None:
    provider = Provider()
    provider.sent = lambda variant, key: bytes(48 - len(local_key(variant, key)))
    with pytest.raises(CorruptTail, match=r"'pii'.*\b32 bytes\b.*\b16\b.*\bAES_CTR_128\b"):
        await orcstream.open(FILE, keys=provider)


async def test_variants_without_statistics() -> None:
    """Nothing is known then: those in the clear are of the mask."""
    async with orcstream.open(FILE) as file:
        tail = file.tail
    encryption = tail.footer.encryption
    assert encryption is not None
    bare = tuple(replace(variant, file_statistics=b"") for variant in encryption.variants)
    footer = replace(tail.footer, encryption=replace(encryption, variants=bare))
    data = b"ORC" + tail_bytes(
        footer, (), compression=Compression.NONE, block_size=1 << 18, compressor=None, version=(0, 12)
    )
    async with orcstream.open(data, keys=Provider()) as file:
        assert (file.statistics["a"].maximum, file.statistics["a"].value_count) == (None, None)
        with pytest.raises(ColumnNotFound):
            file.statistics["e"]


@pytest.mark.parametrize("given", ["pii", 3, ["pii", 3]])
async def test_what_is_no_list_of_keys(given: object) -> None:
    with pytest.raises(UsageError, match=r"\brequire_keys\b"):
        orcstream.open(FILE, require_keys=given)  # type: ignore[arg-type]


async def test_what_is_no_provider() -> None:
    with pytest.raises(UsageError, match=r"\bkeys\b.*\bdict\b"):
        orcstream.open(FILE, keys={"pii": bytes(16)})  # type: ignore[arg-type]


def test_keys_do_not_show() -> None:
    secret = LocalKey(b"wrapped", b"the key itself")
    assert "itself" not in repr(secret)


@pytest.mark.parametrize(("count", "is_too_much"), [(1_000, False), (2_000, True)])
async def test_stripes_without_statistics_take_no_memory_for_their_columns(
    count: int, is_too_much: bool
) -> None:
    """A few bytes name a stripe, and another few a column: both together must not be multiplied."""
    schema = Schema.parse(f"struct<{','.join(f'c{number}:int' for number in range(count))}>")
    variant = EncryptionVariant(FileColumn(0), 0, bytes(16), (), b"")
    stripes = tuple(
        StripeInformation(number, 3, 0, 0, 0, 0, 0, number + 1, (bytes(16),)) for number in range(count)
    )
    encryption = Encryption((), (PII,), (variant,), KeyProviderKind.HADOOP)
    clear = (StatisticsList((numbers(9, 99),) * 5),)  # of what the mask left
    data = tail_only(schema, encryption, stripes, clear)
    async with orcstream.open(data, keys=Provider(), require_keys=True) as file:
        if is_too_much:
            with pytest.raises(Unsupported, match=r"\b2001\b.*\b2000\b", check=because("metadata_too_large")):
                await file.stripe_statistics()
            return
        found = await file.stripe_statistics()
        assert sum(map(len, found)) <= 5
        for column in range(5):
            assert (known := found[0].get(column)) is None or known.value_count is None
            assert (
                of_file := file._tail.footer.statistics.get(column)
            ) is None or of_file.value_count is None


async def test_an_outage_is_told_at_once_and_not_after_every_other_key() -> None:
    class Down(Provider):
        async def decrypt_local_key(self, key: EncryptionKey, encrypted: bytes) -> LocalKey:  # noqa: ARG002
            if key == TOP:
                raise SourceError("the store is down")
            await anyio.sleep(3600)
            raise AssertionError

    with anyio.fail_after(5), pytest.raises(SourceError, match="is down"):
        await orcstream.open(FILE, keys=Down())
