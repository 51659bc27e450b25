"""The messages of a file outside its tail, decompressed as its postscript says, and parsed.

Must not know where they lie, nor how they were fetched or decrypted.
"""

from __future__ import annotations

from orcstream.codec.metadata.limits import AT_ONCE_BYTES, MESSAGE_CAP_BYTES, message_cap
from orcstream.codec.metadata.parse import parse_stripe_footer
from orcstream.codec.metadata.structure import StripeFooter, StripeInformation
from orcstream.codec.streams.compression import decompress_metadata
from orcstream.errors import FormatError, Unsupported
from orcstream.plan.tail import Tail


def check_footer_length(stripe: StripeInformation) -> None:
    """Before the footer of a stripe is fetched: one that claims more than any may have is `Unsupported`."""
    if stripe.footer_length > MESSAGE_CAP_BYTES:
        raise Unsupported(
            f"a stripe footer of {stripe.footer_length} bytes, more than {MESSAGE_CAP_BYTES}",
            reason="metadata_too_large",
            stripe=stripe.index,
        )


def parse_footer(tail: Tail, stripe: StripeInformation, data: memoryview) -> StripeFooter:
    """The footer of a stripe from the bytes of its `footer_range`."""
    try:
        footer = decompress_message(tail, data)
    except FormatError as error:
        error.locate(stripe=stripe.index, file_offset=stripe.footer_range.start)
        raise
    return parse_stripe_footer(footer, stripe, tail.footer.schema, tail.footer.encryption)


def decompress_message(tail: Tail, data: memoryview, most_bytes: int | None = None) -> bytes:
    """A footer or an index stream; of `most_bytes` at most, where that is less than any may have."""
    postscript = tail.postscript
    cap_bytes = message_cap(tail.file_length)
    if most_bytes is not None:
        cap_bytes = min(cap_bytes, max(0, most_bytes))
    return decompress_metadata(data, postscript.compression, postscript.compression_block_size, cap_bytes)


def is_large(tail: Tail, data: memoryview) -> bool:
    """Whether a message takes longer to parse than other tasks of a loop should wait."""
    if len(data) > AT_ONCE_BYTES // 4:
        return True
    try:
        decompress_message(tail, data, AT_ONCE_BYTES)
    except Unsupported:
        return True
    except FormatError:  # raised by who parses it
        return False
    return False
