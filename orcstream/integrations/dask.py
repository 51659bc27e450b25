"""dask over ORC files: a dataframe with a partition for each share of the stripes.

Knows dask's `from_map`, whose optimiser hands the columns of a computation down. Must not know how files are
shared out or read. What goes to workers are values: splits, names, options.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

try:
    import dask.dataframe as dd
    import pyarrow as pa
except ImportError as error:
    raise ImportError(
        f"orcstream.integrations.dask needs dask and pyarrow: pip install 'orcstream[dask]' ({error})"
    ) from error

import pandas as pd

import orcstream
from orcstream._keywords import takes
from orcstream.errors import UsageError
from orcstream.integrations._options import SPLIT_BYTES, DatasetScan, Places, Scan
from orcstream.integrations.pandas import DtypeBackend, frame_of

__all__ = ["read_orc"]


@takes(DatasetScan, orcstream.dataset, orcstream.OrcDataset.batches)
def read_orc(
    url: Places,
    columns: Any = None,
    *,
    where: Any = None,
    split_bytes: int = SPLIT_BYTES,
    dtype_backend: DtypeBackend = "pyarrow",
    **options: Unpack[DatasetScan],
) -> dd.DataFrame:
    """A dask dataframe of ORC files. The ends of the files are read now, rows when a partition is computed.

    `url` and the options of opening are those of `orcstream.dataset`, of which `storage_options`, `keys` and
    so on go to the workers with the partitions. `columns`, `where` and the options of reading are those of
    `OrcDataset.batches`; `memory_limit` is for each partition that is being read. Of the columns, each
    computation reads those that it needs. `where` is exact, and what the stripes' statistics rule out is in
    no partition.

    A partition has about `split_bytes` of one file, in whole stripes, and a `RangeIndex` of its own.
    `dtype_backend` is `"pyarrow"` or `"numpy_nullable"`, whose types do not depend on whether a partition has
    nulls.

    Raises what `orcstream.dataset` and its `batches` raise; `UsageError` for options that cannot be.
    """
    if dtype_backend not in ("pyarrow", "numpy_nullable"):
        raise UsageError(f'dtype_backend is "pyarrow" or "numpy_nullable", not {dtype_backend!r}')
    scan = Scan.of(options, where=where)
    with scan.files(url) as files:
        with files.batches(columns=columns, **scan.reading) as stream:
            arrow = pa.schema(stream)
        splits = scan.splits(files, split_bytes)
    meta = frame_of(arrow.empty_table(), dtype_backend)
    if not splits:
        return dd.from_pandas(meta, npartitions=1)
    return dd.from_map(
        _frame,
        splits,
        columns=list(meta.columns),
        paths=_paths(columns, arrow.names),
        scan=scan.for_splits(),
        dtype_backend=dtype_backend,
        meta=meta,
        label="read-orc",
    )


def _paths(columns: Any, names: Sequence[str]) -> dict[str, list[Any]]:
    """What to read for each column of the frame: all of it, or those of its fields that were asked for."""
    if columns is None:
        return {name: [(name,)] for name in names}
    found: dict[str, list[Any]] = {}
    for asked in columns:
        top = asked.split(".")[0] if isinstance(asked, str) else asked[0]
        found.setdefault(top, []).append(asked)
    return found


def _frame(
    split: orcstream.Split,
    *,
    columns: Sequence[str],
    paths: Mapping[str, Sequence[Any]],
    scan: Scan,
    dtype_backend: DtypeBackend,
) -> pd.DataFrame:
    """One partition, as its worker reads it."""
    with scan.files(split) as rows:
        asked = [path for name in columns for path in paths[name]]
        return frame_of(rows.read(columns=asked, **scan.reading), dtype_backend)
