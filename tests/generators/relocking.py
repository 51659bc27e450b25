"""Encrypted files taken apart, lied in, and locked again under the keys that they have.

What a hostile writer with the right keys could make: hooks are handed messages and decrypted streams, and
change them; lengths, places and ciphers are made to agree, unless the hook of a message lies about them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from orcstream._proto import orc_proto as pb
from orcstream.codec.crypto.streams import stream_cipher
from orcstream.codec.metadata.structure import StreamKind
from orcstream.codec.metadata.write import frame_metadata
from orcstream.codec.streams.compression import Compression, Compressor
from tests.reference import encryption
from tests.reference.encryption import ENCRYPTED_DATA, ENCRYPTED_INDEX, Locked, Stream
from tests.support.hostile import mutate

__all__ = ["harmed", "relocked"]

Content = Callable[[Stream, bytes], bytes]
"""Takes an encrypted stream and what it says, decompressed; answers what it shall say."""
Lie = Callable[[Any], object]
"""Changes a message."""


def relocked(
    data: bytes,
    secrets: Mapping[str, bytes],
    *,
    content: Content = lambda _, plain: plain,
    stripe_footer: Lie = lambda _: None,
    footer: Lie = lambda _: None,
    postscript: Lie = lambda _: None,
) -> bytes:
    """The file with other contents of its encrypted streams (statistics, too) and other messages."""
    return _Relocking(Locked(data), secrets, content).run(stripe_footer, footer, postscript)


class _Relocking:
    def __init__(self, locked: Locked, secrets: Mapping[str, bytes], content: Content) -> None:
        self.locked = locked
        self._secrets = secrets
        self._content = content
        self._compressor = (
            Compressor(Compression(locked.tail.compression)) if locked.tail.compression else None
        )

    def run(self, stripe_footer: Lie, footer: Lie, postscript: Lie) -> bytes:
        locked = self.locked
        message = pb.FooterView.FromString(locked.footer_bytes)
        body = bytearray(b"ORC")
        for place, stripe in zip(message.stripes, locked.stripes, strict=True):
            found = pb.StripeFooter.FromString(locked.stripe_footer(stripe.span))
            place.offset = len(body)
            areas = self._streams(found, stripe.streams)
            stripe_footer(found)
            section = self._framed(found.SerializeToString())
            place.index_length, place.data_length = map(len, areas)
            place.footer_length = len(section)
            body += b"".join((*areas, section))
        statistics = self._statistics(message)
        footer(message)
        section = self._framed(message.SerializeToString())
        metadata = self._framed(locked.metadata_bytes)
        last = pb.PostScript.FromString(bytes(locked.data[-1 - locked.data[-1] : -1]))
        last.footer_length, last.metadata_length = len(section), len(metadata)
        last.stripe_statistics_length = len(statistics)
        postscript(last)
        end = last.SerializeToString()
        return bytes(body) + statistics + metadata + section + end + bytes((len(end),))

    def _framed(self, plain: bytes) -> bytes:
        return frame_metadata(plain, self.locked.tail.block_size, self._compressor)

    def _sealed(self, stream: Stream) -> bytes:
        assert stream.variant is not None
        if not stream.data:
            return b""
        said = self.locked.plain(stream, self._secrets)
        plain = self._content(stream, said)
        if plain == said:
            return stream.data
        secret = self._secrets[self.locked.variants[stream.variant].key_name]
        local = encryption.local_key(secret, stream.encrypted_key)
        cipher = stream_cipher(local, stream.column, StreamKind(stream.kind), stream.stripe_id)
        return cipher.apply(self._framed(plain))

    def _streams(self, footer: Any, streams: list[Stream]) -> tuple[bytes, bytes]:
        """The bytes of both areas; their lengths are noted in the message."""
        areas = (bytearray(), bytearray())
        hidden = [0, 0]
        for stream in streams:
            area = stream.kind not in (*encryption.BLOOMS, 6)
            data = stream.data
            if stream.variant is not None:
                data = self._sealed(stream)
                hidden[area] += len(data)
                listed = footer.encryption[stream.variant].streams
                next(s for s in listed if (s.kind, s.column) == (stream.kind, stream.column)).length = len(
                    data
                )
            areas[area].extend(data)
        for one in footer.streams:
            if one.kind in (ENCRYPTED_INDEX, ENCRYPTED_DATA):
                one.length = hidden[one.kind == ENCRYPTED_DATA]
        return bytes(areas[0]), bytes(areas[1])

    def _statistics(self, message: Any) -> bytes:
        out = bytearray()
        for stream in self.locked.statistics:
            assert stream.variant is not None
            variant = message.encryption.variants[stream.variant]
            data = self._sealed(stream)
            if stream.kind == encryption.FILE_STATISTICS:
                variant.file_statistics = data
                continue
            next(s for s in variant.stripe_statistics if s.column == stream.column).length = len(data)
            out += data
        return bytes(out)


def harmed(data: bytes, secrets: Mapping[str, bytes], rng: random.Random) -> bytes:
    """Damage of what is encrypted, under the right keys: compression does not find it."""
    chosen = rng.random() < 0.5  # one of the statistics; else one of a stripe's streams, or two
    share = rng.choice((0.05, 0.3))

    def content(stream: Stream, plain: bytes) -> bytes:
        is_statistics = stream.kind >= encryption.STRIPE_STATISTICS
        return mutate(plain, rng) if is_statistics is chosen and rng.random() < share else plain

    return relocked(data, secrets, content=content)
