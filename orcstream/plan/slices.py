"""How the rows of a file are shared out to several readers.

Knows rows and bytes of stripes. Pure functions over values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from orcstream.codec.metadata.structure import StripeInformation


@dataclass(frozen=True, slots=True)
class Slice:
    """Rows that follow each other, of some stripes or of a part of one, and their bytes."""

    start: int
    stop: int
    weight: int


def slices(wanted: Sequence[StripeInformation], target_bytes: int, stride: int) -> Iterator[Slice]:
    """Rows of stripes, in slices of about `target_bytes`; between them may be others.

    Stripes stay whole, but where one is larger than that: then slices begin at row groups, of `stride` rows.
    Without row groups (0), stripes stay whole in any case.
    """
    stripes = [_whole(one) for one in wanted]
    if stride and any(stripe.weight > target_bytes for stripe in stripes):
        return _cut(stripes, target_bytes, stride)
    return _together(stripes, target_bytes)


def _whole(stripe: StripeInformation) -> Slice:
    stop = stripe.first_row + stripe.row_count
    return Slice(stripe.first_row, stop, stripe.index_length + stripe.data_length)


def _together(stripes: Iterable[Slice], target: int) -> Iterator[Slice]:
    """Whole stripes, as many together as a reader takes."""
    found: Slice | None = None
    for one in stripes:
        if found is not None and found.weight + one.weight <= target:
            found = Slice(found.start, one.stop, found.weight + one.weight)
            continue
        if found is not None:
            yield found
        found = one
    if found is not None:
        yield found


def _cut(stripes: Sequence[Slice], target: int, stride: int) -> Iterator[Slice]:
    """As few slices of the same size as can be: who has a large stripe would be the last to end.

    They begin at row groups, which the index finds, or with a stripe that begins close by.
    """
    total = sum(stripe.weight for stripe in stripes)
    count = -(-total // target)
    share = total // count
    start, passed, number = stripes[0].start, 0, 1
    for stripe in stripes:
        while number < count and number * share < passed + stripe.weight:
            stop = _nearby(stripe, number * share - passed, share // 8, stride)
            if start < stop:
                yield Slice(start, stop, share)
            start, number = stop, number + 1
        passed += stripe.weight
    if start < stripes[-1].stop:
        yield Slice(start, stripes[-1].stop, share)


def _nearby(stripe: Slice, inside: int, slack: int, stride: int) -> int:
    """A row of a stripe, about so many bytes into it, that is good to begin at."""
    if inside < slack:
        return stripe.start
    if stripe.weight - inside < slack:
        return stripe.stop
    rows = (stripe.stop - stripe.start) * inside // stripe.weight
    return stripe.start + rows // stride * stride
