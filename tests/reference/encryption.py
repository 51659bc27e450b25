"""Encrypted columns: where they stand, and what they are for who has the keys ("Column Encryption").

Local keys are protected as ORC Java's store in memory does it. Where the specification's text and ORC Java
differ about the counters of statistics, Java is right: they take the number of stripes plus one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from . import compression, reader, wire
from .errors import Malformed
from .types import T

BLOOMS = (7, 8)
ENCRYPTED_INDEX, ENCRYPTED_DATA = 9, 10
STRIPE_STATISTICS, FILE_STATISTICS = 100, 101
_INDEXES = (reader.ROW_INDEX, *BLOOMS, ENCRYPTED_INDEX)


class Variant(NamedTuple):
    root: int
    key_name: str
    key_version: int
    key_bits: int
    encrypted_key: bytes


class Stream(NamedTuple):
    """A stream as it stands in the file; `variant` is None for clear ones."""

    variant: int | None
    column: int
    kind: int
    start: int
    data: bytes
    stripe_id: int = 0
    encrypted_key: bytes = b""

    @property
    def counter(self) -> tuple[bytes, int, int, int]:
        """What must never serve for two different texts."""
        return self.encrypted_key, self.column, self.kind, self.stripe_id


@dataclass(frozen=True)
class Stripe:
    span: reader.StripeSpan
    id: int
    streams: list[Stream]
    encodings: list[list[tuple[int, int]]]
    """Of each variant."""


class Locked:
    """A file, taken apart as far as that needs no keys. Raises Malformed where its parts contradict."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.tail = reader.read_tail(data)
        stop = len(data) - 1 - data[-1]
        self.postscript = wire.parse(data[stop:-1])
        self.footer_bytes = self._plain(data[stop - wire.number(self.postscript, 1) : stop])
        stop -= wire.number(self.postscript, 1)
        self.metadata_bytes = self._plain(data[stop - wire.number(self.postscript, 5) : stop])
        self.statistics_stop = stop - wire.number(self.postscript, 5)
        self.footer = wire.parse(self.footer_bytes)
        self.encryption = wire.parse(wire.blob(self.footer, 10))
        self.variants = list(self._variants())
        self.stripes = list(self._stripes())
        self.statistics = list(self._statistics())

    def _plain(self, section: bytes) -> bytes:
        return compression.unframe(section, self.tail.compression, self.tail.block_size)

    def _variants(self) -> Iterator[Variant]:
        keys = [wire.parse(key) for key in wire.blobs(self.encryption, 2)]
        for item in map(wire.parse, wire.blobs(self.encryption, 3)):
            key = keys[wire.number(item, 2)]
            bits = {1: 128, 2: 256}[wire.number(key, 3)]
            name = wire.blob(key, 1).decode()
            yield Variant(wire.number(item, 1), name, wire.number(key, 2), bits, wire.blob(item, 3))

    def _stripes(self) -> Iterator[Stripe]:
        id_, keys = 0, list[bytes]()
        for span, item in zip(self.tail.stripes, wire.blobs(self.footer, 3), strict=True):
            message = wire.parse(item)
            id_ = wire.number(message, 6, id_ + 1)
            keys = wire.blobs(message, 7) or keys
            if len(keys) != len(self.variants):
                raise Malformed(f"{len(keys)} local keys for {len(self.variants)} variants")
            footer = wire.parse(self.stripe_footer(span))
            parts = [wire.parse(part) for part in wire.blobs(footer, 4)]
            if len(parts) != len(self.variants):
                raise Malformed(f"a stripe of {len(parts)} variants in a file of {len(self.variants)}")
            streams = list(_placed(self.data, span, footer, parts, id_, keys))
            encodings = [
                [(wire.number(e, 1), wire.number(e, 2)) for e in map(wire.parse, wire.blobs(part, 2))]
                for part in parts
            ]
            yield Stripe(span, id_, streams, encodings)

    def stripe_footer(self, span: reader.StripeSpan) -> bytes:
        """Decompressed."""
        start = span.offset + span.index_bytes + span.data_bytes
        return self._plain(self.data[start : start + span.footer_bytes])

    def _statistics(self) -> Iterator[Stream]:
        """Those of stripes, and then those of the file."""
        stripe_id = len(self.stripes) + 1
        at = self.statistics_stop - wire.number(self.postscript, 7)
        items = [wire.parse(item) for item in wire.blobs(self.encryption, 3)]
        for number, (variant, item) in enumerate(zip(self.variants, items, strict=True)):
            for stream in map(wire.parse, wire.blobs(item, 4)):
                kind, column, length = (wire.number(stream, key) for key in (1, 2, 3))
                if kind != STRIPE_STATISTICS:
                    raise Malformed(f"statistics of kind {kind}")
                data = self.data[at : at + length]
                yield Stream(number, column, kind, at, data, stripe_id, variant.encrypted_key)
                at += length
        if at != self.statistics_stop:
            raise Malformed("statistics end elsewhere than they should")
        for number, (variant, item) in enumerate(zip(self.variants, items, strict=True)):
            data, kind = wire.blob(item, 5), FILE_STATISTICS
            yield Stream(number, variant.root, kind, -1, data, stripe_id, variant.encrypted_key)

    # --- what needs keys

    def encrypted(self) -> Iterator[Stream]:
        """All encrypted streams."""
        for stripe in self.stripes:
            yield from (stream for stream in stripe.streams if stream.variant is not None)
        yield from self.statistics

    def plain(self, stream: Stream, secrets: Mapping[str, bytes]) -> bytes:
        """A stream, decrypted where it is encrypted, and decompressed."""
        if stream.variant is None:
            return self._plain(stream.data)
        local = local_key(secrets[self.variants[stream.variant].key_name], stream.encrypted_key)
        counter = b"".join(
            number.to_bytes(width, "big")
            for number, width in ((stream.column, 3), (stream.kind, 2), (stream.stripe_id, 3), (0, 8))
        )
        return self._plain(_aes_ctr(local, counter, stream.data))

    def rows(self, secrets: Mapping[str, bytes]) -> list[object]:
        """Every row; columns whose keys are not among the secrets are masked."""
        rows: list[object] = []
        for stripe in self.stripes:
            footer = reader.read_stripe(self.data, self.tail, stripe.span)
            rows += reader.rows_of(self.tail, self._unlocked(footer, stripe, secrets), stripe.span.row_count)
        return rows

    def _unlocked(
        self, footer: reader.StripeFooter, stripe: Stripe, secrets: Mapping[str, bytes]
    ) -> reader.StripeFooter:
        streams, encodings = dict(footer.streams), list(footer.encodings)
        for number, variant in enumerate(self.variants):
            if variant.key_name not in secrets:
                continue
            last = variant.root + len(stripe.encodings[number]) - 1
            encodings[variant.root : last + 1] = stripe.encodings[number]
            streams = {key: data for key, data in streams.items() if not variant.root <= key[0] <= last}
            for stream in stripe.streams:
                if stream.variant == number and stream.kind not in _INDEXES:
                    streams[stream.column, stream.kind] = self.plain(stream, secrets)
        return replace(footer, streams=streams, encodings=encodings)

    def column_statistics(self, secrets: Mapping[str, bytes]) -> dict[tuple[int, int], list[bytes]]:
        """By variant and column: the (serialized) statistics of each stripe, and then those of the file."""
        found: dict[tuple[int, int], list[bytes]] = {}
        for stream in self.statistics:
            assert stream.variant is not None
            if self.variants[stream.variant].key_name not in secrets:
                continue
            parts = wire.blobs(wire.parse(self.plain(stream, secrets)), 1)
            if stream.kind == STRIPE_STATISTICS:
                found[stream.variant, stream.column] = parts
                continue
            for column, part in enumerate(parts, stream.column):
                found[stream.variant, column].append(part)
        return found


def read(data: bytes, secrets: Mapping[str, bytes]) -> tuple[T, list[object]]:
    """The schema and every row."""
    locked = Locked(data)
    return locked.tail.schema, locked.rows(secrets)


def local_key(master: bytes, encrypted: bytes) -> bytes:
    """The key that data is encrypted with."""
    return _aes_ctr(master, encrypted[:16], encrypted)


def _aes_ctr(key: bytes, counter: bytes, data: bytes) -> bytes:
    return Cipher(algorithms.AES(key), modes.CTR(counter)).decryptor().update(data)


def _placed(
    data: bytes,
    span: reader.StripeSpan,
    footer: wire.Message,
    parts: list[wire.Message],
    id_: int,
    keys: list[bytes],
) -> Iterator[Stream]:
    at = span.offset
    for item in map(wire.parse, wire.blobs(footer, 1)):
        kind, column, length = (wire.number(item, key) for key in (1, 2, 3))
        if kind not in (ENCRYPTED_INDEX, ENCRYPTED_DATA):
            yield Stream(None, column, kind, at, data[at : at + length])
            at += length
            continue
        start = at
        for number, part in enumerate(parts):
            for stream in map(wire.parse, wire.blobs(part, 1)):
                inner, column, size = (wire.number(stream, key) for key in (1, 2, 3))
                if (inner in _INDEXES) is (kind == ENCRYPTED_INDEX):
                    yield Stream(number, column, inner, at, data[at : at + size], id_, keys[number])
                    at += size
        if at - start != length:
            raise Malformed(f"a placeholder of {length} bytes for {at - start}")
    if at != span.offset + span.index_bytes + span.data_bytes:
        raise Malformed("the streams of a stripe end elsewhere than they should")
