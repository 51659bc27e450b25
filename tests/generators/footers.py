"""Files whose stripes have damaged footers, each as long as the sound one."""

from __future__ import annotations

import io
from collections.abc import Callable

from orcstream import blocking
from orcstream._proto.orc_proto import StripeFooter
from orcstream.plan.tail import Tail, plan_tail


def three_stripes() -> bytes:
    """A sound file, without compression."""
    one, three = io.BytesIO(), io.BytesIO()
    blocking.write(one, [(i, f"t{i}") for i in range(10)], "struct<a:int,s:string>", compression="none")
    blocking.merge([one.getvalue()] * 3, three)
    return three.getvalue()


def with_footer(data: bytes, stripe: int, change: Callable[[bytes], bytes]) -> bytes:
    """A file with another footer of one stripe, as long as the one that it has."""
    tail = plan_tail(memoryview(data), len(data))
    assert isinstance(tail, Tail)
    place = tail.footer.stripes[stripe].footer_range
    footer = change(data[place.start : place.stop])
    assert len(footer) == place.length
    return data[: place.start] + footer + data[place.stop :]


def longer_stream(footer: bytes) -> bytes:
    message = StripeFooter.FromString(footer)
    last = message.streams[-1]
    last.length = (1 << (last.length.bit_length() + 6) // 7 * 7) - 1  # the longest in as many bytes
    return message.SerializeToString()


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "no message": lambda footer: b"\xff" * len(footer),
    "zeros": lambda footer: bytes(len(footer)),
    "a stream that is too long": longer_stream,
}
