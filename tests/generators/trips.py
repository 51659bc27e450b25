"""The table that the documentation's examples read."""

from __future__ import annotations

import pyarrow as pa

__all__ = ["trips"]


def trips() -> pa.Table:
    """12,000 rows, so that there are several row groups."""
    count = 12_000
    return pa.table(
        {
            "id": pa.array(range(count)),
            "city": pa.array(["Aachen", "Berlin", "Celle", None]).take(
                pa.array([i % 4 for i in range(count)])
            ),
            "amount": pa.array([i % 100 / 4 for i in range(count)]),
            "started": pa.array([1_700_000_000 + 60 * i for i in range(count)], pa.timestamp("s")).cast(
                pa.timestamp("ns")
            ),
            "stop": pa.array([{"name": "Markt", "wait_s": i % 90} for i in range(count)]),
        }
    )
