"""pandas from ORC files: `read_orc` as pandas has it, and frames of so many rows at a time.

Knows what pandas makes of Arrow's types. Must not know how files are read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Literal, Self, TypeAlias, Unpack, overload

try:
    import pandas as pd
    import pyarrow as pa
except ImportError as error:
    raise ImportError(
        f"orcstream.integrations.pandas needs pandas and pyarrow: pip install 'orcstream[pandas]' ({error})"
    ) from error

import orcstream
from orcstream import Batch, ReadResult, UsageError
from orcstream._keywords import takes
from orcstream.integrations._options import DatasetScan, Scan

__all__ = ["FrameReader", "read_orc"]

DtypeBackend: TypeAlias = Literal["numpy_nullable", "pyarrow"]


@overload
def read_orc(
    path: Any,
    columns: Any = None,
    *,
    chunksize: None = None,
    where: Any = None,
    dtype_backend: DtypeBackend | None = None,
    **options: Unpack[DatasetScan],
) -> pd.DataFrame: ...


@overload
def read_orc(
    path: Any,
    columns: Any = None,
    *,
    chunksize: int,
    where: Any = None,
    dtype_backend: DtypeBackend | None = None,
    **options: Unpack[DatasetScan],
) -> FrameReader: ...


@takes(DatasetScan, orcstream.dataset, orcstream.OrcDataset.batches)
def read_orc(
    path: Any,
    columns: Any = None,
    *,
    chunksize: int | None = None,
    where: Any = None,
    dtype_backend: DtypeBackend | None = None,
    **options: Unpack[DatasetScan],
) -> pd.DataFrame | FrameReader:
    """The rows of ORC files as a `pandas.DataFrame`; with `chunksize`, as a `FrameReader` of several.

    `path` is what `orcstream.dataset` takes (a file, a folder, a pattern or several of these), or an object
    with `read()`, of which all is read first. `columns` and `where` are those of `OrcFile.batches`; columns
    come in the order asked. `dtype_backend` is pandas': `"numpy_nullable"` or `"pyarrow"` for types that hold
    nulls, as the same call of `pandas.read_orc` gives them.

    Raises what `orcstream.dataset` and `OrcFile.batches` raise; `UsageError` for options that cannot be.
    """
    if dtype_backend not in (None, "numpy_nullable", "pyarrow"):
        raise UsageError(f'dtype_backend is "numpy_nullable" or "pyarrow", not {dtype_backend!r}')
    scan = Scan.of(options, columns=columns, where=where)
    if chunksize is None:
        with _opened(path, scan) as source:
            return frame_of(source.read(**scan.reading), dtype_backend)
    if chunksize < 1:
        raise UsageError(f"chunksize is how many rows a frame has, 1 or more, not {chunksize!r}")
    return FrameReader(_opened(path, scan), chunksize, scan.reading, dtype_backend)


def _opened(path: Any, scan: Scan) -> Any:
    """What has rows. The bytes of objects that can be read are a file, as bytes are."""
    data = path.read() if hasattr(path, "read") else path
    if isinstance(data, bytes | bytearray | memoryview):
        opening: Any = scan.opening
        return orcstream.blocking.open(data, **opening)
    return scan.files(data)


class FrameReader(Iterator[pd.DataFrame]):
    """Frames of `chunksize` rows each, the last of fewer: what `read_orc(chunksize=...)` answers.

    Iterate it, best within ``with ... as frames``, which stops reading when the block is left. Their indexes
    go on from frame to frame. No more is in memory than a frame, the batch that comes after it, and
    `memory_limit`.
    """

    def __init__(
        self, source: Any, chunksize: int, reading: Mapping[str, Any], dtype_backend: DtypeBackend | None
    ) -> None:
        self._source = source
        self._size = chunksize
        self._backend = dtype_backend
        self._held: deque[Batch] = deque()
        self._row = 0
        try:
            self._stream = source.batches(batch_rows=min(chunksize, 65_536), **reading)
        except BaseException:
            source.close()
            raise

    def __next__(self) -> pd.DataFrame:
        rows = sum(batch.num_rows for batch in self._held)
        while rows < self._size and (batch := next(self._stream, None)) is not None:
            self._held.append(batch)
            rows += batch.num_rows
        if not rows:
            self.close()
            raise StopIteration
        found = frame_of(
            ReadResult(self._stream.batch_schema, self._taken(min(rows, self._size))), self._backend
        )
        found.index = pd.RangeIndex(self._row, self._row + len(found))
        self._row += len(found)
        return found

    def _taken(self, rows: int) -> Iterator[Batch]:
        """The first of the rows that are held, which are no longer."""
        while rows:
            batch = self._held.popleft()
            if batch.num_rows > rows:
                self._held.appendleft(batch.slice(rows))
                batch = batch.slice(0, rows)
            rows -= batch.num_rows
            yield batch

    def close(self) -> None:
        """Stops reading; may be called again."""
        self._held.clear()
        self._stream.close()
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# As pandas' own readers map them.
_NULLABLE = {
    pa.bool_(): pd.BooleanDtype(),
    pa.int8(): pd.Int8Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.float32(): pd.Float32Dtype(),
    pa.float64(): pd.Float64Dtype(),
    pa.string(): pd.StringDtype(),
}


def frame_of(rows: Any, dtype_backend: DtypeBackend | None) -> pd.DataFrame:
    """A frame of what is read, or of a `pyarrow.Table`, in the types of a backend."""
    if dtype_backend is None:
        return rows.to_pandas()
    mapper = pd.ArrowDtype if dtype_backend == "pyarrow" else _NULLABLE.get
    return pa.table(rows).to_pandas(types_mapper=mapper)
