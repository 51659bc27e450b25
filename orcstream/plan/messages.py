"""The messages of a file outside its tail, decompressed as its postscript says, and parsed.

Must not know where they lie, nor how they were fetched or decrypted.
"""

from __future__ import annotations

from orcstream.codec.compression import decompress_metadata
from orcstream.codec.metadata import MESSAGE_CAP_BYTES, parse_stripe_footer
from orcstream.codec.structure import StripeFooter, StripeInformation
from orcstream.errors import FormatError
from orcstream.plan.tail import Tail

__all__ = ["decompress_message", "parse_footer"]


def parse_footer(tail: Tail, stripe: StripeInformation, data: memoryview) -> StripeFooter:
    """The footer of a stripe from the bytes of its `footer_range`."""
    try:
        footer = decompress_message(tail, data)
    except FormatError as error:
        error.locate(stripe=stripe.index, file_offset=stripe.footer_range.start)
        raise
    return parse_stripe_footer(footer, stripe, tail.footer.schema, tail.footer.encryption)


def decompress_message(tail: Tail, data: memoryview) -> bytes:
    """A footer or an index stream."""
    postscript = tail.postscript
    return decompress_metadata(
        data, postscript.compression, postscript.compression_block_size, MESSAGE_CAP_BYTES
    )
