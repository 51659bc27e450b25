"""What a read has done, measured."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(slots=True)
class PrunedRows:
    """How many rows were not read, by what proved that they do not match; and how many were read in vain."""

    by_file: int = 0
    by_stripe: int = 0
    by_row_group: int = 0
    by_bloom: int = 0
    filtered: int = 0


@dataclass(frozen=True, slots=True)
class ReadStatistics:
    """What a stream has done so far, measured.

    `row_count` rows in `batch_count` batches were delivered, of `stripe_count` stripes.
    `rows_pruned_by_file`, `rows_pruned_by_stripe`, `rows_pruned_by_row_group` and `rows_pruned_by_bloom`
    are rows of the file that statistics or bloom filters showed to have no match, by what showed it
    first; `rows_filtered` were looked at and had none. `request_count` requests were sent, `retry_count`
    of them again after a failure and `hedge_count` a second time beside a slow one; `bytes_wanted` were
    needed, `bytes_read` asked for, with the gaps between. `hop_count` is how often the store's latency
    was paid in full, `wait_s` how long the consumer waited for batches, `decode_s` how long workers
    decoded (of all threads together), `peak_fetched_bytes` the most that was fetched and not yet
    decompressed at one time. Opening the file is not in these figures. Two can be added.
    """

    row_count: int
    batch_count: int
    stripe_count: int
    request_count: int
    retry_count: int
    hedge_count: int
    hop_count: int
    bytes_wanted: int
    bytes_read: int
    rows_pruned_by_file: int
    rows_pruned_by_stripe: int
    rows_pruned_by_row_group: int
    rows_pruned_by_bloom: int
    rows_filtered: int
    wait_s: float
    decode_s: float
    peak_fetched_bytes: int

    def __add__(self, other: ReadStatistics) -> ReadStatistics:
        """Of two reads together."""
        sums = {
            one.name: getattr(self, one.name) + getattr(other, one.name)
            for one in fields(self)
            if one.name != "peak_fetched_bytes"
        }
        return ReadStatistics(
            **sums, peak_fetched_bytes=max(self.peak_fetched_bytes, other.peak_fetched_bytes)
        )
