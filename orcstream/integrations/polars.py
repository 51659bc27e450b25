"""A lazy frame of polars over ORC files: ``pip install 'orcstream[polars]'``.

Knows polars' protocol for sources. Must not know how anything is read, nor how predicates are worded.

What polars pushes down is the columns, the predicate, the number of rows and the size of batches. Of a
predicate, the parts that ORC can be asked are (`_polars_predicates`); polars filters what arrives by all of
it, so that rows are the same whatever is understood. What it does not push down (groupings, joins, sorts) it
does itself, over batches as they come.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Unpack

try:
    import polars as pl
    from polars.io.plugins import register_io_source
except ImportError as error:
    raise ImportError("polars 1.38.1 or newer is needed: pip install 'orcstream[polars]'") from error

import orcstream
from orcstream._keywords import takes
from orcstream.datasets.opening import DatasetKeywords
from orcstream.errors import Unsupported
from orcstream.integrations._options import Places, Scan
from orcstream.integrations._polars_predicates import pushed_down
from orcstream.reader.options import ArrowKeywords, BatchKeywords
from orcstream.schema.types import Kind

__all__ = ["scan_orc"]


class _Scan(DatasetKeywords, ArrowKeywords, total=False):
    pass


@takes(_Scan, orcstream.dataset, orcstream.OrcDataset.batches)
def scan_orc(url: Places, **options: Unpack[_Scan]) -> pl.LazyFrame:
    """A lazy frame over a file, a folder, a pattern, or several of these, in any store.

    `url` and the options of opening are those of `orcstream.dataset`, those of reading of
    `OrcDataset.batches`. Nothing is read before polars asks: for the schema, the tail of one file and perhaps
    a listing; for rows, the columns, row groups and stripes that the query needs. The streaming engine
    (``collect(engine="streaming")``) takes batches as they come, in bounded memory.

    polars has no unions: files that have such columns can be read without them, by `schema=`.

    Raises what `orcstream.dataset` and `OrcDataset.batches` raise, when the frame is collected.
    """
    source = _Source(url, Scan.of(options))

    def rows(
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        return source.frames(with_columns, predicate, n_rows, batch_size)

    return register_io_source(rows, schema=source.frame_schema, is_pure=True)


class _Source:
    """The files, opened when they are first asked for; sent to another process, they are opened anew."""

    def __init__(self, url: Places, scan: Scan) -> None:
        self._url = url
        self._scan = scan
        self._opened: orcstream.blocking.OrcDataset | None = None

    def __getstate__(self) -> tuple[Any, ...]:
        return self._url, self._scan

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._url, self._scan = state
        self._opened = None

    @property
    def files(self) -> orcstream.blocking.OrcDataset:
        if self._opened is None:
            self._opened = self._scan.files(self._url)
        return self._opened

    def frame_schema(self) -> pl.Schema:
        unions = [".".join(path) for path, type_ in self.files.schema.walk() if type_.kind is Kind.UNION]
        if unions:
            raise Unsupported(
                f"polars has no unions, which {unions[0]!r} is; name the columns to be read by schema=",
                reason="no_unions",
            )
        return self._empty(None).schema

    def frames(
        self,
        columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_rows: int | None,
    ) -> Iterator[pl.DataFrame]:
        """The rows of the first `n_rows` that match, as frames."""
        where = None
        if predicate is not None and n_rows is None:  # else they are counted before they are filtered
            where = pushed_down(predicate, self.files.schema)
        more: BatchKeywords = {"batch_rows": batch_rows} if batch_rows else {}
        asked: list[tuple[str, ...]] | None = None if columns is None else [(name,) for name in columns]
        has_rows = False
        reading = {**self._scan.reading, **more}
        with self.files.batches(columns=asked, where=where, limit=n_rows, **reading) as stream:
            for batch in stream:
                frame = _frame(batch)
                has_rows = True
                yield frame if predicate is None else frame.filter(predicate)
        if not has_rows:
            yield self._empty(asked)

    def _empty(self, columns: list[tuple[str, ...]] | None) -> pl.DataFrame:
        with self.files.batches(columns=columns, limit=0, **self._scan.reading) as stream:
            return _frame(orcstream.ReadResult(stream.batch_schema, []))


def _frame(rows: Any) -> pl.DataFrame:
    """Without a copy, but for texts, of which polars has another layout."""
    if not rows.num_columns:
        return pl.DataFrame(height=rows.num_rows)
    return pl.DataFrame(rows)
