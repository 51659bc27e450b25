"""DuckDB over ORC files: relations that read the columns and rows of a query, when it asks for them.

Knows how DuckDB hands down what it needs: of an object that is a `pyarrow.dataset.Dataset` it asks a scanner,
with names of columns and a filter, and pulls Arrow batches until it has enough. It does not evaluate again
what it has handed down. Must not know how files are read, or what becomes of filters (`_arrow_scans`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

try:
    import duckdb
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as pads
except ImportError as error:
    raise ImportError(
        f"orcstream.integrations.duckdb needs duckdb and pyarrow: pip install 'orcstream[duckdb]' ({error})"
    ) from error

import orcstream
from orcstream._keywords import takes
from orcstream.datasets.opening import DatasetKeywords
from orcstream.integrations._arrow_scans import ArrowScan
from orcstream.integrations._options import Places, Scan
from orcstream.query.expr import as_expr
from orcstream.reader.options import ANY_TIME, ThreadKeywords

__all__ = ["scan_orc"]


class _Scan(DatasetKeywords, ThreadKeywords, total=False):
    pass


@takes(_Scan, orcstream.dataset, orcstream.OrcDataset.batches, defaults=ANY_TIME)
def scan_orc(
    url: Places,
    *,
    connection: duckdb.DuckDBPyConnection | None = None,
    where: Any = None,
    **options: Unpack[_Scan],
) -> duckdb.DuckDBPyRelation:
    """A relation of ORC files, of which each query reads the columns and rows that it needs.

    It is of `connection`, or of DuckDB's default one. `url` and `options` are those of `orcstream.dataset`: a
    file, a folder, a pattern or several of these, which are listed once, here. `where` limits the relation to
    some rows, exactly: for questions that DuckDB does not hand down itself (docs/integrations.md says which).

    `memory_limit` is for each pass over the files. Times are microseconds, as DuckDB's TIMESTAMP; with
    another unit, it may hand down no filters of them.

    Raises what `orcstream.dataset` raises, and `UsageError` for columns that `where` cannot ask about. While
    a query runs, errors of a store or a file come as errors of DuckDB that have their text.
    """
    scan = Scan.of(options, where=None if where is None else as_expr(where))
    source = _Source(scan.files(url), scan.reading)
    relation: duckdb.DuckDBPyRelation = (duckdb if connection is None else connection).from_arrow(source)
    return relation


class _Source(pads.Dataset):  # type: ignore[misc]  # pyarrow has no types
    """What DuckDB takes for a dataset of pyarrow: `schema` and `scanner` are all that it asks for."""

    def __init__(self, dataset: orcstream.blocking.OrcDataset, reading: Mapping[str, Any]) -> None:
        self._dataset = dataset
        self._reading = reading
        with dataset.batches(**reading) as stream:  # reads nothing, and sees what cannot be asked
            self._schema = pa.schema(stream)

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def scanner(
        self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, **_: Any
    ) -> _Scanner:
        """Rows of which the filter is true, in some columns; nothing is read before they are asked for."""
        scan = ArrowScan(self._schema, columns, filter, self._reading)
        return _Scanner(self._dataset, scan)


class _Scanner:
    """One pass over a data set."""

    def __init__(self, dataset: orcstream.blocking.OrcDataset, scan: ArrowScan) -> None:
        self._dataset = dataset
        self._scan = scan

    def to_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self._scan.schema, self._scan.batches(self._dataset))
