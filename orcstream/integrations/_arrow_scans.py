"""Rows of which a filter of pyarrow is true, in some columns, as pyarrow's batches.

Knows how to read what can be asked of files (`_arrow_filters` says what), and to evaluate the filter on what
comes where that is not all of it. Must not know who asks, or which files there are.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import orcstream
from orcstream.integrations._arrow_filters import Asked, as_where

_EVERYTHING = Asked(None, is_exact=True, columns=frozenset())


class ArrowScan:
    """What to read of rows of a `schema`: all of its columns, or those of `names`.

    `reading` are options of `batches`, whose `where` is asked besides the filter. A scan can be pickled, and
    made use of any number of times.
    """

    def __init__(
        self,
        schema: pa.Schema,
        names: Sequence[str] | None,
        filter_: pc.Expression | None,
        reading: Mapping[str, Any],
    ) -> None:
        self.schema = schema if names is None else pa.schema([schema.field(name) for name in names])
        asked = _EVERYTHING if filter_ is None else as_where(filter_, schema)
        both = [one for one in (reading["where"], asked.where) if one is not None]
        columns = list(self.schema.names)
        self._filter = None if asked.is_exact else filter_
        if self._filter is not None:
            more = schema.names if asked.columns is None else sorted(asked.columns)
            columns += [name for name in more if name not in columns]
        self.reading = {
            **reading,
            "where": functools.reduce(operator.and_, both) if both else None,
            "columns": [(name,) for name in columns],
        }

    def batches(self, source: orcstream.blocking.OrcDataset) -> Iterator[pa.RecordBatch]:
        """Of what has `batches`, from the first that is taken until the last, or until nobody wants more."""
        with source.batches(**self.reading) as stream:
            for batch in stream:
                found = pa.record_batch(batch)
                if self._filter is None:
                    yield found
                else:
                    table = pa.Table.from_batches([found]).filter(self._filter)
                    yield from table.select(self.schema.names).to_batches()
