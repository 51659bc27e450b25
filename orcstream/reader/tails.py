"""The first wave of a read: the tail, fetched, or known from an earlier time.

Knows how many requests it takes. Must not know what a tail says (`plan.tail`).
"""

from __future__ import annotations

from dataclasses import replace

from orcstream.byterange import ByteRange, RangeBuffer
from orcstream.plan.tail import Need, Tail, plan_tail
from orcstream.reader.session import Session

__all__ = ["known_tail", "read_tail"]


def known_tail(session: Session, tail: Tail) -> tuple[Tail, RangeBuffer]:
    """No wave: the source is held to the object that the tail is of."""
    session.source.pin(tail.file_length, tail.fingerprint)
    held = tail.held
    return tail, RangeBuffer(ByteRange(tail.file_length - len(held), tail.file_length), held)


async def read_tail(session: Session) -> tuple[Tail, RangeBuffer]:
    """One suffix read, and one more when the guess was too small; and the bytes that came."""
    suffix = await session.fetch_suffix(session.source.cost.tail_bytes)
    data = memoryview(suffix.data)
    planned = plan_tail(data, suffix.file_length)
    while isinstance(planned, Need):
        (more,) = await session.fetch([planned.range])
        await session.source.verify()
        data = memoryview(b"".join([more.view(more.range), data]))
        planned = plan_tail(data, suffix.file_length)
    start = suffix.file_length - len(data)
    planned = replace(planned, fingerprint=session.source.fingerprint)
    return planned, RangeBuffer(ByteRange(start, suffix.file_length), data)
