"""How streams are encrypted: which counter belongs to which stream, and any part of one by itself.

Knows columns, kinds and stripes as counters hold them. Must not know key stores, nor where streams lie.
A counter never serves twice under one local key as long as no stripe id does: data and indexes take that of
their stripe, statistics the one after the last stripe. Specification: "Column Encryption"; where its text
says that statistics take the number of stripes, ORC Java takes that plus one, as is done here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from orcstream._cipher import BLOCK_BYTES, Keystream, aes_ctr
from orcstream.byterange import BytesLike
from orcstream.codec.metadata.structure import StreamKind

MAX_STRIPE_ID = 0xFFFFFF
_MAX_COLUMN = 0xFFFFFF


@dataclass(frozen=True, slots=True)
class StreamCipher:
    """En- and decrypts one stream, compression chunks and their headers alike."""

    key: bytes = field(repr=False)
    iv: bytes

    def apply(self, data: BytesLike, stream_offset: int = 0) -> bytes:
        """What stands `stream_offset` bytes into the stream, the other way round."""
        return aes_ctr(self.key, self.iv, data, stream_offset)

    def keystream(self) -> Keystream:
        """For pieces of the stream, one after the other."""
        return Keystream(self.key, self.iv)


def stream_cipher(key: bytes, column: int, kind: StreamKind, stripe_id: int) -> StreamCipher:
    """The cipher of a stream of a column (its id in the file's schema).

    Raises ValueError for numbers that a counter has no room for.
    """
    if not 0 <= column <= _MAX_COLUMN or not 0 < stripe_id <= MAX_STRIPE_ID:
        raise ValueError(f"no counter for column {column} of stripe {stripe_id}")
    iv = column.to_bytes(3, "big") + kind.to_bytes(2, "big") + stripe_id.to_bytes(3, "big")
    return StreamCipher(key, iv.ljust(BLOCK_BYTES, b"\0"))
