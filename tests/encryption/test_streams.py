"""Encrypted streams: read whole, in any pieces, from any place; and the counters that belong to them.

The other side is the AES of the cryptography library, told counters as the specification has them.
"""

from __future__ import annotations

import random
import sys

import hypothesis
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import strategies as st

from orcstream import _cipher
from orcstream._cipher import Keystream, aes_ctr
from orcstream.codec.crypto.streams import MAX_STRIPE_ID, StreamCipher, stream_cipher
from orcstream.codec.metadata.structure import StreamKind
from orcstream.codec.streams._stream import InputStream
from orcstream.codec.streams.compression import Compression, Decompressor
from orcstream.errors import CorruptStream
from tests.generators import chunks
from tests.support.effort import share

# More than is decrypted at a time.
LONG = 700_000


def encrypted(key: bytes, iv: bytes, data: bytes) -> bytes:
    cipher = Cipher(algorithms.AES(key), modes.CTR(iv)).encryptor()
    return cipher.update(data) + cipher.finalize()


def test_the_vectors_of_nist() -> None:
    """SP 800-38A, F.5.1 and F.5.5: CTR-AES128 and CTR-AES256."""
    counter = bytes.fromhex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff")
    plain = bytes.fromhex("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51")
    short = bytes.fromhex("2b7e151628aed2a6abf7158809cf4f3c")
    long = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
    assert aes_ctr(short, counter, plain).hex() == (
        "874d6191b620e3261bef6864990db6ce9806f66b7970fdff8617187bb9fffdff"
    )
    assert aes_ctr(long, counter, plain).hex() == (
        "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5"
    )


@hypothesis.given(
    key=st.binary(min_size=16, max_size=16) | st.binary(min_size=32, max_size=32),
    iv=st.binary(min_size=16, max_size=16) | st.just(b"\xff" * 16),
    data=st.binary(max_size=200),
    start=st.integers(0, 200),
    length=st.integers(0, 200),
)
def test_any_part_by_itself(key: bytes, iv: bytes, data: bytes, start: int, length: int) -> None:
    whole = encrypted(key, iv, data)
    part = memoryview(whole)[start : start + length]
    assert aes_ctr(key, iv, part, start) == data[start : start + length]


@hypothesis.given(
    key=st.binary(min_size=32, max_size=32),
    iv=st.binary(min_size=16, max_size=16) | st.just(b"\xff" * 16),
    places=st.lists(st.tuples(st.none() | st.integers(0, 300), st.integers(0, 100)), max_size=12),
)
def test_pieces_in_any_order(key: bytes, iv: bytes, places: list[tuple[int | None, int]]) -> None:
    """Those that follow the one before (None) and those that do not."""
    plain = random.Random(0).randbytes(2000)
    whole = memoryview(encrypted(key, iv, plain))
    keystream, at = Keystream(key, iv), 0
    for place, length in places:
        start = at if place is None else place
        out = bytearray(length)
        keystream.apply(whole[start : start + length], start, out)
        assert out == plain[start : start + length]
        at = start + length


def test_pieces_that_follow_each_other_share_a_context(monkeypatch: pytest.MonkeyPatch) -> None:
    """One takes as long as 100 KB: reading what is not compressed took a tenth longer with one a piece."""
    made: list[int] = []
    make = _cipher._at

    def noted(key: bytes, iv: bytes, offset: int) -> object:
        made.append(offset)
        return make(key, iv, offset)

    monkeypatch.setattr(_cipher, "_at", noted)
    cipher = stream_cipher(bytes(16), 1, StreamKind.DATA, 1)
    plain = bytes(4 * LONG)
    stream = stream_of(cipher, compressed=False, at=0)
    secret = encrypted(bytes(16), cipher.iv, plain)
    assert read_all(stream, random.Random(0), False, [secret[:LONG], secret[LONG:]]) == plain
    assert made == [0]


def test_counters() -> None:
    """Column in three bytes, kind in two, stripe in three, then the number of the block."""
    cipher = stream_cipher(bytes(16), 0x010203, StreamKind.STRIPE_STATISTICS, 0x0A0B0C)
    assert cipher.iv == bytes.fromhex("010203 0064 0a0b0c 0000000000000000")
    assert "key" not in repr(cipher)
    for column, stripe in ((1 << 24, 1), (-1, 1), (1, 0), (1, MAX_STRIPE_ID + 1)):
        with pytest.raises(ValueError, match=rf"\bcolumn {column}\b.*\bstripe {stripe}\b"):
            stream_cipher(bytes(16), column, StreamKind.DATA, stripe)


def stream_of(cipher: StreamCipher | None, *, compressed: bool, at: int) -> InputStream:
    return InputStream(
        compressed=compressed,
        block_size=1 << 16,
        file_offset=at,
        decrypt=cipher.keystream().apply if cipher else None,
    )


def read_all(stream: InputStream, rng: random.Random, compressed: bool, pieces: list[bytes]) -> bytes:
    """Reads while it feeds, sometimes across the ends of what is there."""
    decompress = Decompressor(Compression.ZLIB if compressed else Compression.NONE)
    out = b""
    for number, piece in enumerate(pieces):
        stream.feed(piece, last=number == len(pieces) - 1)
        if rng.random() < 0.6:
            out += bytes(stream.read(rng.choice((1, 100, 70_000)), decompress))
    while part := bytes(stream.read(1 << 17, decompress)):
        out += part
    return out


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "zlib"])
@pytest.mark.parametrize("key_bytes", [16, 32])
@hypothesis.settings(max_examples=share(25))
@hypothesis.given(seed=st.integers(0, 1 << 32))
def test_in_any_pieces_from_any_chunk(compressed: bool, key_bytes: int, seed: int) -> None:
    rng = random.Random(seed)
    plain = rng.randbytes(rng.choice((1, 1000, 60_000, LONG)))
    sizes = [rng.randint(1, 1 << 16) for _ in range(40)]
    parts = chunks.pieces(plain, sizes)
    stored = [chunks.framed(part, [len(part)], deflate=rng.random() < 0.5) for part in parts]
    if not compressed:
        stored = parts
    key, at = rng.randbytes(key_bytes), rng.randrange(1 << 40)
    cipher = stream_cipher(key, rng.randrange(1 << 24), StreamKind.DATA, rng.randrange(1, 1 << 24))
    secret = encrypted(key, cipher.iv, b"".join(stored))
    # At the end, or exactly where what is decrypted at a time ends, pieces may end too.
    steps = [rng.choice((1, 2, 3, 1000, 1 << 18, (1 << 18) + 1, LONG)) for _ in range(200)]
    stream = stream_of(cipher, compressed=compressed, at=at)
    assert read_all(stream, rng, compressed, chunks.pieces(secret, steps)) == plain
    first = rng.randrange(len(parts))
    offset = sum(len(part) for part in stored[:first])
    skip = rng.randrange(len(parts[first]))
    stream.restart(file_offset=at + offset, bytes_to_skip=skip)
    rest = b"".join(parts[first:])[skip:]
    assert read_all(stream, rng, compressed, chunks.pieces(secret[offset:], steps)) == rest


def test_damage_is_found_by_decompression_and_located() -> None:
    cipher = stream_cipher(bytes(16), 1, StreamKind.DATA, 1)
    stored = chunks.framed(b"a" * 100_000, [50_000], deflate=True)
    secret = bytearray(encrypted(bytes(16), cipher.iv, stored))
    secret[20] ^= 255
    stream = stream_of(cipher, compressed=True, at=1000)
    stream.feed(bytes(secret), last=True)
    with pytest.raises(CorruptStream) as caught:
        stream.read(100_000, Decompressor(Compression.ZLIB))
    assert caught.value.file_offset is not None
    assert 1000 <= caught.value.file_offset <= 1000 + len(stored)


def test_what_is_decrypted_is_let_go() -> None:
    """The lease of a piece lives until its last byte was read, and no longer."""

    class Lease:
        """Something whose references can be counted."""

    cipher = stream_cipher(bytes(16), 1, StreamKind.DATA, 1)
    lease = Lease()
    before = sys.getrefcount(lease)
    stream = stream_of(cipher, compressed=False, at=0)
    secret = encrypted(bytes(16), cipher.iv, bytes(LONG))
    stream.feed(secret, last=True, lease=lease)
    assert sys.getrefcount(lease) > before
    decompress = Decompressor(Compression.NONE)
    while bytes(stream.read(1 << 16, decompress)):
        pass
    stream.restart(file_offset=0)
    assert sys.getrefcount(lease) == before
