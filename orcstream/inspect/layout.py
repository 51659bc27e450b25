"""Which bytes of a file are what: parts that follow each other from the first byte to the last.

Knows the order of a file's parts and of a stripe's streams. Must not fetch anything, nor know how parts are
shown. Contract: pure functions of checked values; the parts of a file cover it exactly once, those of a
stripe likewise. Specification: "File Tail", "Stripes", "Stream Encryption".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from orcstream.byterange import ByteRange
from orcstream.codec.metadata.structure import StreamKind, StripeFooter, StripeInformation, stream_ranges
from orcstream.plan.tail import Tail

_MAGIC_BYTES = 3


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes of one use. `kind` is a key of `terms.PARTS`.

    `stripe` is the number of the stripe they are or lie in; `column` the column id of a stream, and
    `encrypted` whether it is one of an encrypted form of that column.
    """

    kind: str
    range: ByteRange
    stripe: int | None = None
    column: int | None = None
    encrypted: bool = False


def file_parts(tail: Tail) -> list[Part]:
    """The file's own parts, each stripe as one."""
    if tail.file_length == 0:
        return []
    footer_start = tail.footer_range.start
    known = [
        *(Part("stripe", stripe.range, stripe.index) for stripe in tail.footer.stripes),
        Part("encrypted_statistics", tail.stripe_statistics_range),
        Part("metadata", tail.metadata_range),
        Part("footer", tail.footer_range),
        Part("postscript", ByteRange(tail.footer_range.stop, tail.file_length - 1)),
        Part("postscript_length", ByteRange(tail.file_length - 1, tail.file_length)),
    ]
    known = sorted((part for part in known if part.range.length), key=lambda part: part.range.start)
    first = min(known[0].range.start, footer_start)
    if first >= _MAGIC_BYTES:
        known.insert(0, Part("header", ByteRange(0, _MAGIC_BYTES)))
    return list(_filled(known, ByteRange(0, tail.file_length), None))


def stripe_parts(stripe: StripeInformation, footer: StripeFooter) -> list[Part]:
    """The streams of one stripe, in the order of the file, and its footer."""
    known = [
        Part(_kind_of(stream.kind), range_, stripe.index, stream.column, stream.variant is not None)
        for stream, range_ in stream_ranges(stripe, footer)
        if range_.length
    ]
    if stripe.footer_length:
        known.append(Part("stripe_footer", stripe.footer_range, stripe.index))
    return list(_filled(known, stripe.range, stripe.index))


def brought(parts: Iterable[Part], ranges: Iterable[ByteRange]) -> list[tuple[Part, int]]:
    """How many bytes of each part lie in any of the ranges; without the parts of which none do."""
    asked = sorted(ranges, key=lambda range_: range_.start)
    found: list[tuple[Part, int]] = []
    first = 0
    for part in sorted(parts, key=lambda part: part.range.start):
        # Ranges may overlap, but one that ends before this part is of no use to those behind it.
        while first < len(asked) and asked[first].stop <= part.range.start:
            first += 1
        length, at = 0, part.range.start
        for range_ in islice(asked, first, None):
            if range_.start >= part.range.stop:
                break
            stop = min(range_.stop, part.range.stop)
            length += max(0, stop - max(at, range_.start))
            at = max(at, stop)
        if length:
            found.append((part, length))
    return found


def _kind_of(kind: StreamKind) -> str:
    if kind is StreamKind.BLOOM_FILTER_UTF8:
        return "bloom_filter"
    return kind.name.lower()


def _filled(parts: Iterable[Part], whole: ByteRange, stripe: int | None) -> Iterator[Part]:
    """The parts, and what lies between them."""
    at = whole.start
    for part in parts:
        if at < part.range.start:
            yield Part("padding", ByteRange(at, part.range.start), stripe)
        yield part
        at = part.range.stop
    if at < whole.stop:
        yield Part("padding", ByteRange(at, whole.stop), stripe)
