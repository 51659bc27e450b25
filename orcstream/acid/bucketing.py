"""Which bucket a row belongs to: by its id, or by the values that a table is bucketed by.

Knows Hive's hash (`ObjectInspectorUtils.getBucketHashCode`, version 2). Must not know files.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from orcstream.acid.row_ids import Ints
from orcstream.codec.ingest import IngestedRows
from orcstream.errors import Unsupported
from orcstream.plan.acid_names import MOST_BUCKET

__all__ = ["bucket_numbers", "buckets_of_rows"]


def bucket_numbers(values: Ints) -> Ints:
    """The buckets of numbers that stand in the column `bucket`, of either version."""
    found: Ints = np.where(values >> 29 == 1, values >> 16 & MOST_BUCKET, values)
    return found


def buckets_of_rows(rows: IngestedRows, columns: Sequence[int], bucket_count: int) -> Ints:
    """The bucket of each row, by the values of some of its columns."""
    del rows, columns
    raise Unsupported(
        f"rows cannot be told by {bucket_count} buckets yet; leave it to Hive", reason="bucketed_insert"
    )
