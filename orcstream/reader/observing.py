"""What can be watched of a read: its requests and the work of its decoders, as spans of time.

Knows what a span says. Must not know who watches, nor how spans are shown. An observer is handed to `open`
and carried down once; without one, nothing is recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from orcstream.byterange import ByteRange

__all__ = ["DecodeSpan", "ReadObserver", "RequestSpan"]


@dataclass(frozen=True, slots=True)
class RequestSpan:
    """One request that delivered its bytes, from its first attempt to its last byte.

    `wave` is why it was sent, in the words of `Explanation.waves`: ``tail``, ``statistics``, ``control``,
    ``index``, ``predicate``, ``data``, and ``rest`` for what follows a predicate; ``metadata`` for what tools
    ask of a file. `range` are its bytes of the file. `start_s` and `stop_s` are seconds of
    `time.perf_counter`.
    """

    wave: str
    range: ByteRange
    start_s: float
    stop_s: float


@dataclass(frozen=True, slots=True)
class DecodeSpan:
    """What one thread did at a stretch: decompressing and decoding rows of one top-level column of a stripe.

    `stripe` counts from 0, `column_id` is the file's. `row_count` is 0 where the bytes for a whole step were
    not there yet. `start_s` and `stop_s` are seconds of `time.perf_counter`.
    """

    stripe: int
    column_id: int
    row_count: int
    start_s: float
    stop_s: float


class ReadObserver(Protocol):
    """Is told of each span when it is over.

    Both must return soon and raise nothing: the read waits for them, and fails with what they raise.
    """

    def on_request(self, span: RequestSpan) -> None:
        """Called on the event loop."""

    def on_decode(self, span: DecodeSpan) -> None:
        """Called on a decoding thread, of which there may be several."""
