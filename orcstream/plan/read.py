"""What a read asks the store for: footers of stripes first, then the streams, piece by piece.

Knows ranges and a cost model. Must not fetch, and must not know types or encodings. All functions are pure.

The control wave (`plan_control`) asks for stripe footers; a stripe that is no longer than the gap worth
reading is asked for whole, so that files of many tiny stripes are read in few large requests and no
second hop. The data wave reads each stripe in windows (`plan_windows`): the next piece of every stream
it needs, together no longer than a share of the memory budget. Decoders keep what they do not need yet,
so pieces need not end at a row: no index is read for a scan. Where only some rows are wanted, each stream
has a slice for each span of rows (`plan.selection`). From a distance pieces are cut once more (`streamed`),
to be decoded while their request is on its way. `plan_requests` turns the pieces of a window into requests,
and `order_of_rows` says which of these to start first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from orcstream.byterange import ByteRange, CostModel, Request, coalesce
from orcstream.codec.metadata.structure import StripeInformation
from orcstream.plan.messages import check_footer_length

# Stripes whose footers are asked for together, once the first ones are known.
CONTROL_STRIPES = 64

# Gaps may add this share to what is wanted; more requests are the lesser evil then.
_WASTE_SHARE = 0.1
_WASTE_BYTES = 1 << 16
_FIRST_WINDOW_BYTES = 4 << 20
# So many bytes of indexes that nobody wants are read rather than wait for a footer, from any store.
_INDEX_BYTES = 1 << 18
# Answers of distant stores are decoded as they come, so many bytes of a stream at a time.
_STREAMED_BYTES = 1 << 19
# Streams up to this length are not cut: their requests would cost more than their memory.
_WHOLE_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive bytes of one stream for one span; `stream` and `span` are places in the caller's lists."""

    stream: int
    range: ByteRange
    span: int = 0


def control_count(first: int, cost: CostModel) -> int:
    """How many stripes' footers to ask for together, from stripe `first` on.

    The first rows should not wait for more footers than can be fetched at once.
    """
    return cost.request_cap if first == 0 else CONTROL_STRIPES


@dataclass(frozen=True, slots=True)
class ControlPlan:
    """The ranges of a control wave, the places of their stripes in the caller's list, and their requests.

    Members of the requests are places in `wanted`.
    """

    wanted: tuple[ByteRange, ...]
    owners: tuple[int, ...]
    requests: tuple[Request, ...]


def plan_control(
    stripes: Sequence[StripeInformation],
    cost: CostModel,
    window_bytes: int,
    *,
    indexed: Sequence[bool] = (),
    index_share: float = 1.0,
) -> ControlPlan:
    """Requests for the footers of `stripes`, and for the index streams of those that are `indexed`.

    Only a footer says where in the index area a column's index is. The whole area comes with the footer where
    that costs less than one more hop; `index_share` is about how much of it is wanted. What comes along with
    the footers, whole stripes included, is at most about `window_bytes`.
    """
    gap_bytes = min(cost.gap_bytes, window_bytes // max(1, len(stripes)))
    index_bytes = sum(stripe.index_length for stripe, wants in zip(stripes, indexed, strict=False) if wants)
    unwanted_bytes = index_bytes * (1 - index_share)
    with_indexes = unwanted_bytes <= max(cost.hop_bytes, _INDEX_BYTES) and index_bytes <= window_bytes
    wanted: list[ByteRange] = []
    owners: list[int] = []
    for place, stripe in enumerate(stripes):
        if stripe.range.length <= gap_bytes:
            ranges = [stripe.range]
        elif with_indexes and indexed and indexed[place]:
            ranges = [stripe.index_range, stripe.footer_range]
        else:
            ranges = [stripe.footer_range]
        wanted += ranges
        owners += [place] * len(ranges)
    requests = coalesce(wanted, gap_bytes=gap_bytes, max_bytes=cost.part_bytes)
    return ControlPlan(tuple(wanted), tuple(owners), tuple(requests))


def fitting(stripes: Sequence[StripeInformation], window_bytes: int) -> int:
    """How many of some stripes have footers that fit into a window; at least one.

    Raises `Unsupported` (``metadata_too_large``) for a footer that claims more than any may have.
    """
    size = 0
    for count, stripe in enumerate(stripes):
        check_footer_length(stripe)
        size += stripe.footer_length
        if count and size > window_bytes:
            return count
    return len(stripes)


def first_window_bytes(cost: CostModel) -> int | None:
    """How much to ask for before anything can be decoded: what the store brings in a latency, or little.

    None for near sources, where more and smaller pieces cost more than the wait.
    """
    return None if cost.is_near else max(_FIRST_WINDOW_BYTES, cost.hop_bytes)


def plan_windows(
    spans: Sequence[Sequence[ByteRange | None]], window_bytes: int, first_bytes: int | None = None
) -> list[list[Piece]]:
    """The pieces of each window, for the slices of all streams in each span, in the order of rows.

    A window holds at most about `window_bytes`, never less than one piece. Spans share one as long as they
    fit; one that does not is cut: each window has the same share of every stream, but that no piece is
    shorter than is worth a request. With `first_bytes`, the first window is that small and the next ones
    double, so that decoding begins while the rest is on its way.
    """
    windows: list[list[Piece]] = []
    room = 0
    limit = first_bytes or window_bytes
    for number, slices in enumerate(spans):
        total = sum(part.length for part in slices if part is not None)
        shares = _shares(total, window_bytes, limit)
        if not windows or len(shares) > 1 or total > room:
            windows.append([])
            room = window_bytes
        first = len(windows) - 1
        windows += ([] for _ in shares[1:])
        for stream, part in enumerate(slices):
            if part is not None:
                for at, piece in _cut(part, shares):
                    windows[first + at].append(Piece(stream, piece, number))
        room -= total
        limit = window_bytes
    return [window for window in windows if window]


def _shares(total: int, window_bytes: int, first_bytes: int) -> list[float]:
    """Where the windows of one span end, as shares of all its bytes."""
    ends: list[float] = []
    done, size = 0, max(1, min(first_bytes, window_bytes))
    while size < window_bytes and done + 2 * size < total:
        done += size
        ends.append(done / total)
        size *= 2
    count = max(1, -(-(total - done) // max(1, window_bytes)))
    return [*ends, *((done + (total - done) * part / count) / max(1, total) for part in range(1, count)), 1.0]


def _cut(stream: ByteRange, shares: Sequence[float]) -> list[tuple[int, ByteRange]]:
    """The pieces of one stream, with their windows."""
    pieces: list[tuple[int, ByteRange]] = []
    at = stream.start
    for window, share in enumerate(shares):
        if at == stream.stop:
            break
        stop = max(stream.start + int(stream.length * share), at + _WHOLE_BYTES)
        if share == 1.0 or stop + _WHOLE_BYTES > stream.stop:
            stop = stream.stop
        pieces.append((window, ByteRange(at, stop)))
        at = stop
    return pieces


def streamed(piece: Piece, cost: CostModel) -> list[Piece]:
    """A piece in parts that can be decoded while the rest of their request is on its way.

    From near stores a request comes so fast that more parts would only cost more.
    """
    if cost.is_near or piece.range.length <= _STREAMED_BYTES:
        return [piece]
    start, stop = piece.range.start, piece.range.stop
    return [
        Piece(piece.stream, ByteRange(at, min(at + _STREAMED_BYTES, stop)), piece.span)
        for at in range(start, stop, _STREAMED_BYTES)
    ]


def plan_requests(
    wanted: Sequence[ByteRange], cost: CostModel, *, one_of_many: bool = False
) -> list[Request]:
    """Requests for the ranges of one window; gaps are read where that is cheaper, within reason.

    Between the pieces of a window that is `one_of_many` of its stripe lie those of the other windows, which
    must not be read twice: there, only gaps shorter than any of those are read.

    The cost model says what a gap is worth; but what all gaps add is kept to a tenth of what is wanted.
    Parts are small enough to use all connections at once, since each has a bandwidth of its own.
    """
    total = sum(range_.length for range_ in wanted)
    part_bytes = max(cost.least_part_bytes, min(cost.part_bytes, -(-total // cost.request_cap)))
    allowed = max(total * _WASTE_SHARE, _WASTE_BYTES)
    gap_bytes = min(cost.gap_bytes, _WHOLE_BYTES // 2) if one_of_many else cost.gap_bytes
    while True:
        requests = coalesce(wanted, gap_bytes=gap_bytes, max_bytes=part_bytes)
        if gap_bytes == 0 or sum(request.range.length for request in requests) - total <= allowed:
            return requests
        gap_bytes //= 2


def order_of_rows(
    requests: Sequence[Request], wanted: Sequence[ByteRange], streams: Sequence[Hashable]
) -> list[int]:
    """The places of requests in the order in which to start them; `streams` says of which each range is.

    Rows take bytes of all streams: the first share of each is worth more than all of one.
    """
    before: list[int] = []
    lengths: Counter[Hashable] = Counter()
    for range_, stream in zip(wanted, streams, strict=True):
        before.append(lengths[stream])
        lengths[stream] += range_.length
    shares = [length / max(1, lengths[stream]) for length, stream in zip(before, streams, strict=True)]
    return sorted(range(len(requests)), key=lambda place: min(shares[at] for at in requests[place].members))
