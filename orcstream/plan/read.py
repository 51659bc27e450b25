"""What a read asks the store for: footers of stripes first, then the streams, piece by piece.

Knows ranges and a cost model. Must not fetch, and must not know types or encodings. All functions are pure.

The control wave (`plan_control`) asks for stripe footers; a stripe that is no longer than the gap worth
reading is asked for whole, so that files of many tiny stripes are read in few large requests and no
second hop. The data wave reads each stripe in windows (`plan_windows`): the next piece of every stream
it needs, together no longer than a share of the memory budget. Decoders keep what they do not need yet,
so pieces need not end at a row: no index is read for a scan. `plan_requests` turns the pieces of a
window into requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orcstream.byterange import ByteRange, CostModel, Request, coalesce
from orcstream.codec.structure import StripeInformation

__all__ = ["CONTROL_STRIPES", "Piece", "control_count", "plan_control", "plan_requests", "plan_windows"]

# Stripes whose footers are asked for together, once the first ones are known.
CONTROL_STRIPES = 64

# Gaps may add this share to what is wanted; more requests are the lesser evil then.
_WASTE_SHARE = 0.1
_WASTE_BYTES = 1 << 16
# Streams up to this length are not cut: their requests would cost more than their memory.
_WHOLE_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive bytes of one stream; `stream` is its place in the caller's list."""

    stream: int
    range: ByteRange


def control_count(first: int, cost: CostModel) -> int:
    """How many stripes' footers to ask for together, from stripe `first` on.

    The first rows should not wait for more footers than can be fetched at once.
    """
    return cost.request_cap if first == 0 else CONTROL_STRIPES


def plan_control(stripes: Sequence[StripeInformation], cost: CostModel, window_bytes: int) -> list[Request]:
    """Requests for the footers of `stripes`; members are places in that list.

    What comes along with the footers, whole stripes included, is at most about `window_bytes`.
    """
    gap_bytes = min(cost.gap_bytes, window_bytes // max(1, len(stripes)))
    wanted = [stripe.range if stripe.range.length <= gap_bytes else stripe.footer_range for stripe in stripes]
    return coalesce(wanted, gap_bytes=gap_bytes, max_bytes=cost.part_bytes)


def plan_windows(streams: Sequence[ByteRange], window_bytes: int) -> list[list[Piece]]:
    """The pieces of each window: equal shares of every stream, but for short ones, which come whole at first.

    A window holds at most about `window_bytes`, never less than one piece.
    """
    total = sum(stream.length for stream in streams)
    count = max(1, -(-total // max(1, window_bytes)))
    windows: list[list[Piece]] = [[] for _ in range(count)]
    for index, stream in enumerate(streams):
        parts = count if stream.length > _WHOLE_BYTES else 1
        parts = min(parts, max(1, stream.length // _WHOLE_BYTES))
        cuts = [stream.start + stream.length * part // parts for part in range(parts + 1)]
        for part in range(parts):
            # A stream of fewer parts spreads them over the windows, the first one at once.
            windows[part * count // parts].append(Piece(index, ByteRange(cuts[part], cuts[part + 1])))
    return [window for window in windows if window]


def plan_requests(wanted: Sequence[ByteRange], cost: CostModel) -> list[Request]:
    """Requests for the ranges of one window; gaps are read where that is cheaper, within reason.

    The cost model says what a gap is worth; but what all gaps add is kept to a tenth of what is wanted.
    Parts are small enough to use all connections at once, since each has a bandwidth of its own.
    """
    total = sum(range_.length for range_ in wanted)
    part_bytes = max(cost.least_part_bytes, min(cost.part_bytes, -(-total // cost.request_cap)))
    allowed = max(total * _WASTE_SHARE, _WASTE_BYTES)
    gap_bytes = cost.gap_bytes
    while True:
        requests = coalesce(wanted, gap_bytes=gap_bytes, max_bytes=part_bytes)
        if gap_bytes == 0 or sum(request.range.length for request in requests) - total <= allowed:
            return requests
        gap_bytes //= 2
