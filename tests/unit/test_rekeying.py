"""New keys for merged files: what the user may ask for, and what it costs."""

from __future__ import annotations

import gc
import io
import tracemalloc
from typing import Any

import anyio
import pytest

import orcstream
from orcstream import Encrypt
from orcstream.byterange import ByteRange
from orcstream.codec.crypto.sealing import Rekeyed, rekey
from orcstream.codec.crypto.streams import stream_cipher
from orcstream.codec.metadata.structure import StreamKind
from orcstream.encryption import EncryptionKey, LocalKey
from orcstream.errors import KeyUnavailable, Unsupported, UsageError
from orcstream.plan.merge import variants as merge_variants
from orcstream.plan.tail import Tail
from orcstream.writer import merge as merging
from tests.generators.encrypting import CountedKeys, written

SCHEMA = "struct<a:int,b:string,c:string>"
ROWS = [(i, f"b{i}", f"c{i}") for i in range(10)]
PII = written(SCHEMA, [ROWS], [Encrypt("pii", ["b"])])
PAY = written(SCHEMA, [ROWS], [Encrypt("pay", ["b"])])
PLAIN = written(SCHEMA, [ROWS], [])


@pytest.mark.parametrize(
    ("files", "rekey", "message"),
    [
        ([PII], {"piii": "pay"}, "'piii'.*'pii'"),
        ([PII], {"pii": "pay", "zz": "pay"}, "'zz'"),
        ([PLAIN], {"pii": "pay"}, "'pii'"),
    ],
)
async def test_a_key_that_no_file_has_is_not_replaced_in_silence(
    files: list[bytes], rekey: dict[str, str], message: str
) -> None:
    target = io.BytesIO()
    with pytest.raises(UsageError, match=message):
        await orcstream.merge(files, target, keys=CountedKeys(), rekey=rekey)
    assert target.getvalue() == b""


async def test_files_of_different_keys_go_together_under_a_new_one() -> None:
    target = io.BytesIO()
    await orcstream.merge([PII, PAY], target, keys=CountedKeys(), rekey={"pii": "zz", "pay": "zz"})
    async with orcstream.open(target.getvalue(), keys=CountedKeys(), require_keys=True) as file:
        assert [column.key.name for column in file.encrypted_columns] == ["zz"]
        assert [tuple(row.values()) for row in (await file.read()).to_pylist()] == ROWS * 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keys": "keys.json"}, r"^keys\b.*\bstr\b"),
        ({"keys": CountedKeys(), "rekey": True, "target_keys": {}}, r"^target_keys\b.*\bdict\b"),
        ({"keys": CountedKeys(), "rekey": {"pii": 5}}, r"\brekey\b.*\{'pii': 5\}"),
    ],
)
async def test_what_is_no_key(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        await orcstream.merge([PII], io.BytesIO(), **options)


@pytest.mark.parametrize("rekey", [False, True])
async def test_a_new_key_of_a_wrong_length_is_refused(rekey: bool) -> None:
    class Short(CountedKeys):
        async def create_local_key(self, key: EncryptionKey) -> LocalKey:
            return LocalKey(key.name.encode(), bytes(15))

    target = io.BytesIO()
    with pytest.raises(KeyUnavailable, match=r"'pii'.*\b15\b"):
        await orcstream.merge([PII], target, keys=Short(), rekey=rekey)
    assert target.getvalue() == b""


@pytest.mark.parametrize(("name", "cap"), [("MESSAGE_CAP_BYTES", 100), ("METADATA_CAP_BYTES", 100)])
async def test_statistics_that_nobody_would_read_are_refused_before_anything_is_copied(
    monkeypatch: pytest.MonkeyPatch, name: str, cap: int
) -> None:
    monkeypatch.setattr(merge_variants, name, cap)
    await orcstream.merge([PII], io.BytesIO(), keys=CountedKeys())
    target = io.BytesIO()
    with pytest.raises(Unsupported) as caught:
        await orcstream.merge([PII] * 9, target, keys=CountedKeys())
    assert caught.value.reason == "metadata_too_large"
    assert target.getvalue() == b""


# --- memory ----------------------------------------------------------------------------------------


def test_what_is_encrypted_anew_stands_in_memory_twice_and_not_more() -> None:
    size = 8 << 20
    place, data = ByteRange(5, 5 + size), memoryview(bytes(size))
    ciphers = [stream_cipher(bytes([n]) * 16, 1, StreamKind.DATA, 1) for n in range(2)]
    tracemalloc.start()
    try:
        rekey(data, place, [Rekeyed(ByteRange(0, 10 + size), *ciphers)])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1.2 * size


def test_of_files_that_are_encrypted_anew_little_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the streams of all stripes, nor the statistics of all files."""
    monkeypatch.setattr(merging, "PIECE_BYTES", 1 << 12)
    monkeypatch.setattr(merging, "IN_FLIGHT_BYTES", 1 << 16)
    columns = [f"c{n}" for n in range(20)]
    rows = [tuple(f"{n}.{i}" for n in range(20)) for i in range(50)]
    schema = f"struct<{','.join(f'{name}:string' for name in columns)}>"
    keys = CountedKeys()
    data = written(
        schema, [rows] * 30, [Encrypt("pii", columns)], keys=keys, stripe_bytes=1 << 10, compression="none"
    )
    target = io.BytesIO()
    calls = most_streams = most_tails = 0
    # Those that other tests have left are held meanwhile, so that their places are not taken.
    others = [one for one in gc.get_objects() if isinstance(one, Tail | Rekeyed)]
    known = set(map(id, others))

    def count(_: int, __: int) -> None:
        nonlocal calls, most_streams, most_tails
        calls += 1
        if calls % 8:
            return
        found = [one for one in gc.get_objects() if isinstance(one, Tail | Rekeyed) and id(one) not in known]
        tails = [one for one in found if isinstance(one, Tail) and (one.metadata or one.stripe_statistics)]
        most_tails = max(most_tails, len(tails))
        most_streams = max(most_streams, sum(isinstance(one, Rekeyed) for one in found))

    async def run() -> None:
        result = await orcstream.merge([data] * 3, target, keys=keys, rekey=True, progress=count)
        assert result.stripe_count >= 90
        async with orcstream.open(target.getvalue(), keys=keys, require_keys=True) as file:
            assert (await file.read()).num_rows == 4_500

    anyio.run(run)
    others.clear()
    # A stripe has 60 streams: those of stripes across borders of pieces, of two files, and a few under way.
    assert 60 <= most_streams <= 60 * 36
    assert most_tails <= 1
