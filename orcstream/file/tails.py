"""The first wave of a file: its tail, asked for until it is whole.

Knows how much of a file's end to ask for, and that it may not be enough. Must not know who asks: those that
read the file's rows and those that copy its stripes do. What a tail means is known by `plan.tail`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Protocol

from orcstream.byterange import ByteRange, RangeBuffer
from orcstream.io.contract.byte_source import ByteSource, Suffix
from orcstream.io.loop.threads import run_in_thread
from orcstream.plan.tail import Large, Tail, plan_tail


class TailFetcher(Protocol):
    """A source, asked with retries."""

    @property
    def source(self) -> ByteSource: ...

    async def fetch_suffix(self, length: int) -> Suffix: ...

    async def fetch(self, ranges: list[ByteRange]) -> list[RangeBuffer]: ...


async def read_tail(fetcher: TailFetcher) -> tuple[Tail, RangeBuffer]:
    """The tail, and the bytes it was made of: one suffix read, and one more when the guess was too small."""
    suffix = await fetcher.fetch_suffix(fetcher.source.cost.tail_bytes)
    data = memoryview(suffix.data)
    planned = plan_tail(data, suffix.file_length, at_once=True)
    while not isinstance(planned, Tail):
        if isinstance(planned, Large):  # other tasks of the loop would wait
            planned = await run_in_thread(partial(plan_tail, data, suffix.file_length))
            continue
        (more,) = await fetcher.fetch([planned.range])
        await fetcher.source.verify()
        data = memoryview(b"".join([more.view(more.range), data]))
        planned = plan_tail(data, suffix.file_length, at_once=True)
    start = suffix.file_length - len(data)
    planned = replace(planned, fingerprint=fetcher.source.fingerprint)
    return planned, RangeBuffer(ByteRange(start, suffix.file_length), data)


def known_tail(fetcher: TailFetcher, tail: Tail) -> tuple[Tail, RangeBuffer]:
    """No request: the source is held to the object that the tail is of."""
    fetcher.source.pin(tail.file_length, tail.fingerprint)
    held = tail.held
    return tail, RangeBuffer(ByteRange(tail.file_length - len(held), tail.file_length), held)
