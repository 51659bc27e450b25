"""AES in counter mode: the only cipher of the format, for data and for local keys alike.

Knows keys, counters and bytes. Must not know what is encrypted. Encrypting and decrypting are the same
operation. Measured: 4 to 8 GB/s a core for 64 KiB and more. The library holds the GIL meanwhile: 20 to 40 ms
for 110 MB, about a tenth of the time that decompressing them takes. It is imported with the first key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import CipherContext

__all__ = ["BLOCK_BYTES", "aes_ctr", "aes_ctr_into"]

BLOCK_BYTES = 16


def aes_ctr(key: bytes, iv: bytes, data: bytes | bytearray | memoryview, offset: int = 0) -> bytes:
    """`data`, en- or decrypted: bytes that stand `offset` bytes into what `iv` is the counter's start of.

    `key` has 16 or 32 bytes, `iv` 16.
    """
    return _at(key, iv, offset).update(data)


def aes_ctr_into(
    key: bytes, iv: bytes, data: bytes | bytearray | memoryview, offset: int, out: bytearray | memoryview
) -> None:
    """The same, written to `out`, which is as long as the data."""
    _at(key, iv, offset).update_into(data, out)


def _at(key: bytes, iv: bytes, offset: int) -> CipherContext:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    block, skip = divmod(offset, BLOCK_BYTES)
    counter = (int.from_bytes(iv, "big") + block) % (1 << 128)
    cipher = Cipher(algorithms.AES(key), modes.CTR(counter.to_bytes(BLOCK_BYTES, "big"))).encryptor()
    if skip:
        cipher.update(bytes(skip))
    return cipher
