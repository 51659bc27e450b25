"""Files with encrypted columns: where everything stands in them, whose keys they take, and what is refused.

Decryption is that of `reference.encryption`, which shares nothing with the package.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest

import orcstream
from orcstream import Encrypt, Mask
from orcstream.codec.crypto import streams as codec_encryption
from orcstream.codec.encode import file_encoder
from orcstream.codec.encode.file_encoder import FileEncoder, StripeEncoder
from orcstream.encryption import NO_KEYS, EncryptionAlgorithm, EncryptionKey, KeyProviderKind, LocalKey
from orcstream.errors import KeyUnavailable, SourceError, Unsupported, UsageError
from orcstream.io.keys import InMemoryKeyProvider
from orcstream.writer.creating import Creating
from orcstream.writer.workers import Outflow
from tests.generators.encrypting import SECRETS, CountedKeys, written
from tests.reference import encryption, reader, values, wire
from tests.reference.encryption import Locked

SCHEMA = "struct<id:int,who:struct<ssn:string,age:int>,tags:array<string>,pay:decimal(10,2)>"
ENCRYPT = (Encrypt("pii", ["who.ssn", "tags"]), Encrypt("pay", ["pay"]))


def rows(count: int, start: int = 0) -> list[Any]:
    return [
        {"id": i, "who": {"ssn": f"ssn-{i % 7}", "age": i % 90}, "tags": [f"t{i}"] * (i % 3), "pay": i}
        for i in range(start, start + count)
    ]


def plain(count: int, start: int = 0) -> list[Any]:
    """The same, as the reference reader has them."""
    return [
        (i, (f"ssn-{i % 7}", i % 90), [f"t{i}"] * (i % 3), values.decimal_of(i * 100, 2, 2))
        for i in range(start, start + count)
    ]


def masked(found: Iterable[Any], *columns: str) -> list[Any]:
    return [
        (
            id_,
            (None if "ssn" in columns else ssn, age),
            None if "tags" in columns else tags,
            None if "pay" in columns else pay,
        )
        for id_, (ssn, age), tags, pay in found
    ]


# --- what a file holds -----------------------------------------------------------------------------


@pytest.mark.parametrize("compression", ["none", "zlib", "snappy", "lzo", "lz4", "zstd", "brotli"])
def test_who_has_the_keys_reads_the_values(compression: str) -> None:
    parts = [rows(500, start) for start in range(0, 2500, 500)]
    data = written(SCHEMA, parts, ENCRYPT, compression=compression, stripe_bytes=1024)
    locked = Locked(data)
    assert len(locked.stripes) > 1
    assert locked.rows(SECRETS) == plain(2500)
    assert locked.rows({"pii": SECRETS["pii"]}) == masked(plain(2500), "pay")
    assert locked.rows({"pay": SECRETS["pay"]}) == masked(plain(2500), "ssn", "tags")
    assert reader.read(data)[1] == masked(plain(2500), "ssn", "tags", "pay"), "who knows no encryption"


def test_the_order_of_variants_keys_and_streams() -> None:
    data = written(SCHEMA, [rows(50), rows(50, 50)], ENCRYPT, blooms=["pay", "id"], compression="none")
    locked = Locked(data)
    assert [(v.root, v.key_name, v.key_version, v.key_bits) for v in locked.variants] == [
        (7, "pay", 0, 128),
        (3, "pii", 0, 256),
        (5, "pii", 0, 256),
    ], "by key, then by column"
    assert wire.number(locked.encryption, 4) == KeyProviderKind.HADOOP
    (stripe,) = locked.stripes
    areas = [(s.variant is not None, s.kind in (6, 7, 8)) for s in stripe.streams]
    assert list(dict.fromkeys(areas)) == [(False, True), (True, True), (False, False), (True, False)]
    hidden = [s.variant for s in stripe.streams if s.variant is not None]
    assert hidden == [*[0] * 2, 1, 2, 2, *hidden[5:]], "index streams, a bloom filter among them"
    assert hidden[5:] == sorted(hidden[5:])
    assert {s.column for s in stripe.streams if s.variant == 2} == {5, 6}
    footer = wire.parse(locked.stripe_footer(stripe.span))
    kinds = [wire.number(wire.parse(s), 1) for s in wire.blobs(footer, 1)]
    assert (kinds.count(9), kinds.count(10), kinds[-1]) == (1, 1, 10)
    assert kinds.index(9) == len([k for k in kinds if k in (6, 7, 8)]), "after the clear index streams"
    assert [len(found) for found in stripe.encodings] == [1, 1, 2]


def test_without_indexes_there_is_no_room_for_encrypted_ones() -> None:
    data = written(SCHEMA, [rows(50)], ENCRYPT, row_index_stride=0)
    footer = wire.parse(Locked(data).stripe_footer(Locked(data).stripes[0].span))
    kinds = [wire.number(wire.parse(s), 1) for s in wire.blobs(footer, 1)]
    assert 9 not in kinds
    assert Locked(data).rows(SECRETS) == plain(50)


def test_masks_are_listed_once_with_their_columns() -> None:
    data = written(SCHEMA, [rows(9)], [Encrypt("zz", ["pay"]), Encrypt("pii", ["tags", "who.ssn"])])
    masks = [wire.parse(mask) for mask in wire.blobs(Locked(data).encryption, 1)]
    assert [(wire.blob(m, 1), wire.blobs(m, 2), wire.numbers(m, 3)) for m in masks] == [
        (b"nullify", [], [3, 5, 7])
    ]


def test_a_file_without_rows() -> None:
    data = written(SCHEMA, [], ENCRYPT)
    locked = Locked(data)
    assert locked.rows(SECRETS) == []
    assert [stream.stripe_id for stream in locked.statistics] == [1] * len(locked.statistics)
    found = locked.column_statistics(SECRETS)
    assert {key: len(parts) for key, parts in found.items()} == {(0, 7): 1, (1, 3): 1, (2, 5): 1, (2, 6): 1}


def test_the_schema_may_come_with_the_first_rows() -> None:
    encrypt = [Encrypt("pii", ["b"]), Encrypt("pay", ["a"])]
    data = written(None, [[{"a": 1, "b": "x"}], [{"a": 2, "b": "y"}]], encrypt)
    assert Locked(data).rows(SECRETS) == [(1, "x"), (2, "y")]
    with pytest.raises(UsageError, match="'a'"):
        written(None, [[{"b": "x"}]], encrypt)


def test_names_with_dots_and_whole_structs() -> None:
    schema = "struct<`a.b`:struct<c:int>,m:map<string,int>>"
    encrypt = [Encrypt("pii", [("a.b",), ("m", "_value")])]
    data = written(schema, [[{"a.b": {"c": 5}, "m": {"k": 6}}]], encrypt)
    assert [variant.root for variant in Locked(data).variants] == [1, 5]
    assert Locked(data).rows({}) == [(None, [("k", None)])]
    assert Locked(data).rows(SECRETS) == [((5,), [("k", 6)])]


def test_the_same_keys_give_the_same_bytes() -> None:
    options: dict[str, Any] = {"stripe_bytes": 2048, "blooms": ["who.ssn"]}
    one = written(SCHEMA, [rows(3000)], ENCRYPT, encode_threads=1, **options)
    assert one == written(SCHEMA, [rows(3000)], ENCRYPT, encode_threads=3, **options)


def test_statistics_and_filters_of_values_are_encrypted_and_those_of_masks_are_not() -> None:
    data = written(SCHEMA, [rows(100)], ENCRYPT, blooms=["who.ssn", "pay", "id"])
    locked = Locked(data)
    filtered = {(s.variant, s.column) for s in locked.stripes[0].streams if s.kind in encryption.BLOOMS}
    assert filtered == {(None, 1), (0, 7), (1, 3)}
    clear = [wire.parse(part) for part in wire.blobs(locked.footer, 7)]
    assert [wire.number(part, 1) for part in clear] == [100, 100, 100, 0, 100, 0, 0, 0]
    texts = [wire.parse(wire.parse(part)[4][0]) for part in locked.column_statistics(SECRETS)[1, 3]]  # type: ignore[arg-type]
    assert [(wire.blob(t, 1), wire.blob(t, 2)) for t in texts] == [(b"ssn-0", b"ssn-6")] * 2


@pytest.mark.parametrize(
    ("type_", "value", "mask", "options"),
    [
        ("date", "1582-01-01", Mask("redact", ("", "_ 10 10")), {"calendar": "hybrid"}),
        ("timestamp", "1582-01-01", Mask("redact", ("", "_ 10 10")), {"calendar": "hybrid"}),
        (
            "timestamp",
            "2025-01-01",
            Mask("redact", ("", "_ 3 30 2 30 0")),
            {"timezone": "Europe/Berlin"},
        ),
        (
            "timestamp",
            "1970-01-01T05:00",
            Mask("redact", ("", "1969 12 31 23 59 59")),
            {},
        ),
    ],
)
def test_masks_may_leave_times_that_no_user_could_write(
    type_: str, value: str, mask: Mask, options: dict[str, Any]
) -> None:
    time = np.datetime64(value, "D" if type_ == "date" else "us")
    data = written(f"struct<a:{type_}>", [[(time,)]], [Encrypt("pii", ["a"], mask)], **options)
    days_or_nanoseconds = int(time.astype(int)) * (1 if type_ == "date" else 1000)
    assert Locked(data).rows(SECRETS) == [(days_or_nanoseconds,)]
    assert Locked(data).rows({}) not in ([(days_or_nanoseconds,)], [(None,)])


# --- keys ------------------------------------------------------------------------------------------


def test_every_column_of_every_file_has_a_key_of_its_own() -> None:
    keys = InMemoryKeyProvider()
    for name, secret in SECRETS.items():
        keys.add_key(name, secret)
    found = []
    for _ in range(3):
        locked = Locked(written(SCHEMA, [rows(5)], ENCRYPT, keys=keys))
        found += [variant.encrypted_key for variant in locked.variants]
        assert {s.encrypted_key for s in locked.encrypted()} == {v.encrypted_key for v in locked.variants}
    assert len(set(found)) == 9


async def test_every_file_of_an_ingest_has_keys_of_its_own(tmp_path: Path) -> None:
    keys = CountedKeys()
    options: dict[str, Any] = {"encrypt": ENCRYPT, "keys": keys, "max_rows": 40}
    async with orcstream.ingest(f"{tmp_path}/{{number}}.orc", SCHEMA, **options) as out:
        for start in range(0, 200, 10):
            await out.write(rows(10, start))
    files = [Locked((tmp_path / f"{number}.orc").read_bytes()) for number in range(5)]
    assert len(out.files) == 5
    assert len({variant.encrypted_key for file in files for variant in file.variants}) == 15
    assert [row for file in files for row in file.rows(SECRETS)] == plain(200)


async def test_new_files_take_the_newest_version_of_a_key() -> None:
    keys = CountedKeys()
    keys.add_key("pii", bytes(16), version=3)
    buffer = io.BytesIO()
    async with orcstream.create(buffer, SCHEMA, encrypt=[Encrypt("pii", ["tags"])], keys=keys) as out:
        await out.write(rows(5))
    (variant,) = Locked(buffer.getvalue()).variants
    assert (variant.key_version, variant.key_bits) == (3, 128)
    assert not keys.is_closed, "it is the user's"


class Refusing(CountedKeys):
    """A store that answers one of its calls with an error."""

    def __init__(self, call: str, error: Exception) -> None:
        super().__init__()
        self.call, self.error = call, error

    async def current_key(self, name: str) -> EncryptionKey:
        if self.call == "current_key" and name == "pii":
            raise self.error
        return await super().current_key(name)

    async def create_local_key(self, key: EncryptionKey) -> LocalKey:
        await anyio.lowlevel.checkpoint()
        if self.call == "create_local_key" and key.name == "pii":
            raise self.error
        return await super().create_local_key(key)


@pytest.mark.parametrize("call", ["current_key", "create_local_key"])
@pytest.mark.parametrize("error", [KeyUnavailable("refused"), SourceError("down"), ValueError("a bug")])
async def test_what_the_key_store_says_comes_before_anything_is_opened(
    call: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(_: Creating) -> Any:
        raise AssertionError("opened")

    monkeypatch.setattr(Creating, "open_outlet", never)
    options: dict[str, Any] = {"encrypt": ENCRYPT, "keys": Refusing(call, error)}
    with pytest.raises(type(error), match=str(error)):
        await orcstream.create("memory://never/a.orc", SCHEMA, **options)
    with pytest.raises(type(error), match=str(error)):
        async with orcstream.create("memory://never/a.orc", **options):
            pass
    if call == "current_key":
        with pytest.raises(type(error), match=str(error)):
            await orcstream.ingest("memory://never/{uuid}.orc", SCHEMA, **options)


async def test_a_key_that_is_taken_away_ends_an_ingest(tmp_path: Path) -> None:
    keys = Refusing("none of them", KeyUnavailable("refused"))
    options: dict[str, Any] = {"encrypt": ENCRYPT, "keys": keys, "max_rows": 10}

    async def ingest() -> None:
        async with orcstream.ingest(f"{tmp_path}/{{number}}.orc", SCHEMA, **options) as out:
            await out.write(rows(10))
            await out.flush()
            keys.call = "current_key"
            await out.write(rows(10))
            await out.flush()

    with pytest.raises(KeyUnavailable, match="refused"):
        await ingest()
    assert [path.name for path in tmp_path.iterdir()] == ["0.orc"]


async def test_a_create_that_is_cancelled_while_keys_are_drawn(tmp_path: Path) -> None:
    class Silent(CountedKeys):
        async def create_local_key(self, key: EncryptionKey) -> LocalKey:
            await anyio.sleep_forever()
            return await super().create_local_key(key)

    with anyio.move_on_after(0.05) as scope:
        await orcstream.create(tmp_path / "a.orc", SCHEMA, encrypt=ENCRYPT, keys=Silent())
    assert scope.cancelled_caught
    assert list(tmp_path.iterdir()) == []


async def test_an_unknown_key(tmp_path: Path) -> None:
    with pytest.raises(KeyUnavailable, match="'nobody'"):
        await orcstream.create(
            tmp_path / "a.orc", SCHEMA, encrypt=[Encrypt("nobody", ["pay"])], keys=CountedKeys()
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [0, 16, 33])
async def test_a_key_of_another_length_than_its_algorithm_has(size: int) -> None:
    class Wrong(CountedKeys):
        async def create_local_key(self, key: EncryptionKey) -> LocalKey:  # noqa: ARG002
            return LocalKey(b"x" * size, b"y" * size)

    with pytest.raises(KeyUnavailable, match=f"{size} bytes"):
        await orcstream.create(io.BytesIO(), SCHEMA, encrypt=[Encrypt("pii", ["pay"])], keys=Wrong())


async def test_an_algorithm_that_is_not_known() -> None:
    class Later(CountedKeys):
        async def current_key(self, name: str) -> EncryptionKey:
            return EncryptionKey(name, 0, EncryptionAlgorithm.UNKNOWN)

        async def create_local_key(self, key: EncryptionKey) -> LocalKey:  # noqa: ARG002
            return LocalKey(b"", b"")

    with pytest.raises(KeyUnavailable, match="0 bytes"):
        await orcstream.create(io.BytesIO(), SCHEMA, encrypt=[Encrypt("pii", ["pay"])], keys=Later())


async def test_local_keys_are_drawn_side_by_side() -> None:
    under_way = most = 0

    class Slow(CountedKeys):
        async def create_local_key(self, key: EncryptionKey) -> LocalKey:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            await anyio.sleep(0.001)
            under_way -= 1
            return await super().create_local_key(key)

    names = [f"c{i}" for i in range(30)]
    schema = f"struct<{','.join(f'{name}:int' for name in names)}>"
    out = await orcstream.create(io.BytesIO(), schema, encrypt=[Encrypt("pii", names)], keys=Slow())
    assert 1 < most <= 8
    await out.abort()


# --- counters --------------------------------------------------------------------------------------


def used_once(files: Iterable[bytes]) -> dict[tuple[bytes, int, int, int], bytes]:
    """What stands under each counter of some files or states of one; fails where two things do."""
    found: dict[tuple[bytes, int, int, int], bytes] = {}
    for data in files:
        for stream in Locked(data).encrypted():
            assert found.setdefault(stream.counter, stream.data) == stream.data, stream.counter[1:]
    return found


class Counters:
    """The texts by key and counter, pieced together, and those that took one that had served another."""

    def __init__(self) -> None:
        self.texts: dict[bytes, bytearray] = {}
        self.twice: list[bytes] = []

    def note(self, counter: bytes, data: bytes, offset: int) -> None:
        text = self.texts.setdefault(counter, bytearray())
        assert offset <= len(text), "pieces come one after the other"
        known = text[offset : offset + len(data)]
        if known != data[: len(known)]:
            self.twice.append(counter)
        text += data[len(known) :]

    def assert_used_once(self) -> None:
        assert self.texts
        assert self.twice == []


@pytest.fixture
def counters(monkeypatch: pytest.MonkeyPatch) -> Counters:
    """Every text that is encrypted, whether it reaches a file or not."""
    found = Counters()
    apply = codec_encryption.StreamCipher.apply

    def noted(cipher: codec_encryption.StreamCipher, data: Any, stream_offset: int = 0) -> bytes:
        found.note(cipher.key + cipher.iv, bytes(data), stream_offset)
        return apply(cipher, data, stream_offset)

    monkeypatch.setattr(codec_encryption.StreamCipher, "apply", noted)
    return found


def test_a_counter_that_serves_twice_is_seen() -> None:
    found = Counters()
    for offset, data in ((0, b"abc"), (3, b"def"), (0, b"abc"), (2, b"cdefg")):
        found.note(b"key", data, offset)
    found.assert_used_once()
    found.note(b"key", b"x", 5)
    with pytest.raises(AssertionError):
        found.assert_used_once()


async def test_footers_of_a_growing_file(tmp_path: Path, counters: Counters) -> None:
    path = tmp_path / "a.orc"
    states = []
    options: dict[str, Any] = {"encrypt": ENCRYPT, "keys": CountedKeys(), "growing": True}
    async with orcstream.create(path, SCHEMA, **options) as out:
        await out.flush()
        states.append(path.read_bytes())
        for start in range(0, 60, 20):
            await out.write(rows(10, start))
            await out.end_stripe()
            await out.write(rows(10, start + 10))
            await out.flush()
            states.append(path.read_bytes())
            await out.flush()
            out.add_user_metadata({"seen": str(start)})  # another footer after as many stripes
            await out.flush()
            states.append(path.read_bytes())
    states.append(path.read_bytes())
    assert len(set(states)) == 7
    assert [len(Locked(state).stripes) for state in states] == [0, 2, 2, 4, 4, 6, 6, 6]
    assert Locked(states[-1]).rows(SECRETS) == plain(60)
    assert Locked(states[3]).rows(SECRETS) == plain(40)
    used_once(states)
    counters.assert_used_once()


async def test_a_stripe_that_failed_is_not_encoded_again(
    monkeypatch: pytest.MonkeyPatch, counters: Counters
) -> None:
    lay_out = FileEncoder.lay_out

    def failing(encoder: FileEncoder, *values: Any) -> Any:
        monkeypatch.setattr(FileEncoder, "lay_out", lay_out)
        lay_out(encoder, *values)
        raise MemoryError

    monkeypatch.setattr(FileEncoder, "lay_out", failing)
    options: dict[str, Any] = {"encrypt": ENCRYPT, "keys": CountedKeys()}
    out = await orcstream.create(io.BytesIO(), SCHEMA, **options)
    await out.write(rows(10))
    with pytest.raises(MemoryError):
        await out.end_stripe()
    for again in (out.end_stripe, out.commit, out.prepare, lambda: out.write(rows(1))):
        with pytest.raises(UsageError, match=r"\babort\b"):
            await again()
    await out.abort()
    counters.assert_used_once()


async def test_a_stripe_that_was_cancelled_is_not_encoded_again(
    monkeypatch: pytest.MonkeyPatch, counters: Counters
) -> None:
    async def never(*_: Any) -> None:
        await anyio.sleep_forever()

    monkeypatch.setattr(Outflow, "start", never)
    options: dict[str, Any] = {"encrypt": ENCRYPT, "keys": CountedKeys()}
    out = await orcstream.create(io.BytesIO(), SCHEMA, **options)
    await out.write(rows(10))
    with anyio.move_on_after(0.05):
        await out.end_stripe()
    with pytest.raises(UsageError, match=r"\babort\b"):
        await out.commit()
    await out.abort()
    counters.assert_used_once()


async def test_stripes_that_are_begun_and_left_take_their_ids_along() -> None:
    out = await orcstream.create(io.BytesIO(), SCHEMA, encrypt=ENCRYPT, keys=CountedKeys())
    encoder = out._encoder
    assert encoder is not None
    assert [encoder.begin_stripe().id for _ in range(3)] == [1, 2, 3]
    await out.write(rows(10))
    await out.end_stripe()
    await out.write(rows(10, 10))
    await out.commit()


def test_a_gap_in_the_ids_of_stripes_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    begin, left = FileEncoder.begin_stripe, []

    def begin_two(encoder: FileEncoder) -> StripeEncoder:
        left.append(begin(encoder))
        return begin(encoder)

    monkeypatch.setattr(FileEncoder, "begin_stripe", begin_two)
    data = written(
        SCHEMA, [rows(1000)], ENCRYPT, stripe_bytes=1024, compression="none", memory_limit=16 << 20
    )
    locked = Locked(data)
    assert [stripe.id for stripe in locked.stripes] == [2 * n for n in range(1, len(left) + 1)]
    assert locked.rows(SECRETS) == plain(1000)


async def test_as_many_stripes_as_counters_have_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_encoder, "MAX_STRIPE_ID", 4)
    options: dict[str, Any] = {"encrypt": ENCRYPT, "keys": CountedKeys()}
    buffer = io.BytesIO()
    async with orcstream.create(buffer, SCHEMA, **options) as out:
        for start in range(3):
            await out.write(rows(1, start))
            await out.end_stripe()
    assert [stream.stripe_id for stream in Locked(buffer.getvalue()).statistics] == [4] * 7
    out = await orcstream.create(io.BytesIO(), SCHEMA, **options)
    for start in range(3):
        await out.write(rows(1, start))
        await out.end_stripe()
    with pytest.raises(Unsupported, match=r"\b3\b") as caught:
        await out.write(rows(1))
    assert caught.value.reason == "too_many_stripes"
    await out.abort()
    async with orcstream.create(io.BytesIO(), SCHEMA) as clear:
        for start in range(5):
            await clear.write(rows(1, start))
            await clear.end_stripe()


# --- memory and threads ----------------------------------------------------------------------------


async def test_both_forms_are_held_memory() -> None:
    held = []
    for encrypt in ([], [Encrypt("pii", ["a"], Mask())]):
        out = await orcstream.create(
            io.BytesIO(), "struct<a:bigint>", encrypt=encrypt, keys=CountedKeys(), row_index_stride=10
        )
        await out.write([(i * 12345678912345,) for i in range(50_000)])
        held.append((out.size_bytes, out.held_bytes))
        await out.abort()
    (size, memory), (both_size, both_memory) = held
    assert both_size > size
    assert both_memory > 1.5 * memory, "the row groups of the masked form, too"


async def test_nothing_is_encrypted_on_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[int] = set()
    apply = codec_encryption.StreamCipher.apply
    sizes: list[int] = []

    def noted(cipher: codec_encryption.StreamCipher, data: Any, stream_offset: int = 0) -> bytes:
        threads.add(threading.get_ident())
        sizes.append(memoryview(data).nbytes)
        return apply(cipher, data, stream_offset)

    monkeypatch.setattr(codec_encryption.StreamCipher, "apply", noted)
    buffer = io.BytesIO()
    options: dict[str, Any] = {"compression": "none", "block_bytes": 4096, "row_index_stride": 0}
    async with orcstream.create(
        buffer, "struct<a:string>", encrypt=[Encrypt("pii", ["a"])], keys=CountedKeys(), **options
    ) as out:
        await out.write([(f"{i * 7919:050}",) for i in range(20_000)])
    assert threading.get_ident() not in threads
    assert max(sizes) <= 4096, "a block at a time"


# --- what cannot be --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("encrypt", "message"),
    [
        ([Encrypt("pii", ["nothing"])], "'nothing'"),
        ([Encrypt("pii", ["who.name"])], r"'who\.name'.*'ssn', 'age'"),
        ([Encrypt("pii", [""])], "''.*'id', 'who', 'tags', 'pay'"),
        ([Encrypt("pii", [()])], r"\bname\b.*\(\)"),
        ([Encrypt("pii", [5])], r"\bname\b.*\b5\b"),  # type: ignore[list-item]
        ([Encrypt("pii", ["pay", "pay"])], "'pay'"),
        ([Encrypt("pii", ["pay"]), Encrypt("zz", [("pay",)])], r"\('pay',\)"),
        ([Encrypt("pii", ["who.ssn", "who"])], r"'who\.ssn'.*'who'"),
        ([Encrypt("pii", ["tags._elem"]), Encrypt("zz", ["tags"])], r"'tags\._elem'.*'tags'"),
        ([Encrypt("pii", [])], r"'pii'.*\bnames\b.*\[\]"),
        ([Encrypt("pii", "pay")], r"'pii'.*\bnames\b.*'pay'"),
        ([Encrypt("", ["pay"])], r"\bkey\b.*\bname\b.*''"),
        ([Encrypt(None, ["pay"])], r"\bkey\b.*\bname\b.*\bNone\b"),  # type: ignore[arg-type]
        ([Encrypt("pii", ["pay"], "rot13")], "rot13"),
        (Encrypt("pii", ["pay"]), r"\bencrypt\b.*\blist\b.*Encrypt\("),
        (["pii:pay"], r"\bencrypt\b.*\bEncrypt\b.*'pii:pay'"),
        ("pii:pay", r"\bencrypt\b.*\bEncrypt\b.*'pii:pay'"),
    ],
)
def test_what_cannot_be_encrypted(encrypt: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        orcstream.create(io.BytesIO(), SCHEMA, encrypt=encrypt, keys=CountedKeys())


def test_encryption_needs_keys() -> None:
    with pytest.raises(UsageError, match=r"\bkeys\b.*\bcreate\(\)"):
        orcstream.create(io.BytesIO(), SCHEMA, encrypt=ENCRYPT)
    with pytest.raises(UsageError, match=r"\bkeys\b.*\bcreate\(\)"):
        orcstream.ingest("memory://a/{uuid}.orc", SCHEMA, encrypt=ENCRYPT)
    path: Any = "keys.json"
    with pytest.raises(UsageError, match=r"\bstr\b.*\bopen_keys\b"):
        orcstream.create(io.BytesIO(), SCHEMA, encrypt=ENCRYPT, keys=path)


def test_keys_alone_do_nothing() -> None:
    keys = CountedKeys()
    data = written(SCHEMA, [rows(9)], [], keys=keys)
    assert keys.drawn == []
    assert data == written(SCHEMA, [rows(9)], [], keys=None)
    assert Locked(data).variants == []


@pytest.mark.parametrize("name", ["id", ("id",)])
@pytest.mark.parametrize("keep", [True, False])
def test_columns_in_the_names_of_files_cannot_be_encrypted(name: Any, keep: bool) -> None:
    options: dict[str, Any] = {"encrypt": [Encrypt("pii", [name])], "keys": CountedKeys()}
    for schema in (SCHEMA, None):
        with pytest.raises(UsageError, match="'id'"):
            orcstream.ingest(
                "memory://a/{uuid}.orc",
                schema,
                partition_by=["id"],
                keep_partition_columns=keep,
                **options,
            )


@pytest.mark.parametrize("name", ["id", ("id",)])
@pytest.mark.parametrize("keep", [True, False])
def test_columns_in_the_names_of_files_cannot_be_masked(name: Any, keep: bool) -> None:
    url = "memory://a/id={id}/{uuid}.orc"
    with pytest.raises(UsageError, match="'id'"):
        orcstream.ingest(url, SCHEMA, keep_partition_columns=keep, masks={name: "nullify"})


def test_blocking(tmp_path: Path) -> None:
    options: dict[str, Any] = {"encrypt": ENCRYPT, "keys": CountedKeys()}
    orcstream.blocking.write(tmp_path / "a.orc", rows(20), SCHEMA, **options)
    with orcstream.blocking.create(tmp_path / "b.orc", SCHEMA, **options) as out:
        out.write(rows(20))
    for name in ("a.orc", "b.orc"):
        assert Locked((tmp_path / name).read_bytes()).rows(SECRETS) == plain(20)


def test_as_many_local_keys_as_variants() -> None:
    options = orcstream.create(io.BytesIO(), SCHEMA, encrypt=ENCRYPT, keys=CountedKeys()).options
    schema = orcstream.Schema.parse(SCHEMA)
    with pytest.raises(ValueError, match=r"\b0\b.*\b3\b"):
        file_encoder.FileVariants(schema, options.encode_options(schema), NO_KEYS)
