"""A file of several stripes that is worth not reading whole, and how much of it was asked for."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tests.integrations.samples import as_orc
from tests.servers.loopback import RangeServer

ROWS = 40_000
LARGE = pa.table(
    {
        "id": pa.array(range(ROWS)),
        "group": pa.array([row // 10_000 for row in range(ROWS)]),
        "text": pa.array([f"{row * 7919 % 40_009:08}" * 4 for row in range(ROWS)]),
        "amount": pa.array([row * 0.37 for row in range(ROWS)]),
    }
)
LARGE_DATA = as_orc(LARGE, stripe_size=400_000, compression="uncompressed")
# A request costs as much as a thousand bytes, so that what lies between is not worth reading.
PLAN: dict[str, Any] = {"io_options": {"adaptive": False, "latency_s": 0.001, "bandwidth": 1e6}}


def bytes_asked(server: RangeServer) -> int:
    """Of all requests since the last call."""
    total = 0
    for text in server.ranges_asked:
        start, stop = text.removeprefix("bytes=").split("-")
        total += int(stop) - int(start) + 1 if start else int(stop)
    server.requests.clear()
    return total
