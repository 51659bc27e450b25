"""Ray Data over ORC files: a data set whose read tasks have a share of the stripes each.

Knows Ray's protocol of data sources: projection, predicate and tasks. Must not know how files are shared out
or read, or what becomes of filters (`_arrow_scans`). What goes to workers are values: splits, names, options.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Self, Unpack

try:
    import pyarrow as pa
    import ray.data
    from ray.data.block import BlockMetadata
    from ray.data.datasource import Datasource, ReadTask
except ImportError as error:
    raise ImportError(
        f"orcstream.integrations.ray needs Ray Data: pip install 'orcstream[ray]' ({error})"
    ) from error

import orcstream
from orcstream._keywords import takes
from orcstream.integrations._arrow_scans import ArrowScan
from orcstream.integrations._options import SPLIT_BYTES, DatasetScan, Places, Scan
from orcstream.query.expr import as_expr

__all__ = ["OrcDatasource", "read_orc"]

# The column that Ray's own readers make where it wants none, since blocks forget how many rows they have
# without any. Ray does not show it.
_ROWS_ALONE: Final = "__bsp_stub"


@takes(DatasetScan, orcstream.dataset, orcstream.OrcDataset.batches)
def read_orc(
    url: Places,
    columns: Sequence[str] | None = None,
    *,
    where: Any = None,
    split_bytes: int = SPLIT_BYTES,
    ray_options: Mapping[str, Any] | None = None,
    **options: Unpack[DatasetScan],
) -> ray.data.Dataset:
    """A Ray data set of ORC files. The ends of the files are read now, rows when the data set is executed.

    `url`, `columns`, `where`, `split_bytes` and the other options are those of `OrcDatasource`; `ray_options`
    go to `ray.data.read_datasource` (`num_cpus`, `concurrency`, `override_num_blocks`, ...).

    Raises what `orcstream.dataset` and its `batches` raise.
    """
    source = OrcDatasource(url, columns, where=where, split_bytes=split_bytes, **options)
    return ray.data.read_datasource(source, **(ray_options or {}))


class OrcDatasource(Datasource):  # type: ignore[misc]  # Ray has no types that mypy is shown
    """ORC files as `ray.data.read_datasource` takes them.

    `url` and `options` are those of `orcstream.dataset`, of which `storage_options`, `keys` and so on go to
    the workers with the tasks. `columns` are names of whole columns; those that later steps do not need are
    not read either, and expressions in `filter` are handed down, too. `where` and the options of reading are
    those of `OrcDataset.batches`; `memory_limit` is for each task that is being run. A task has about
    `split_bytes` of one file, in whole stripes, or several of these where Ray wants fewer tasks.

    Raises what `orcstream.dataset` and its `batches` raise.
    """

    @takes(DatasetScan, orcstream.dataset, orcstream.OrcDataset.batches)
    def __init__(
        self,
        url: Places,
        columns: Sequence[str] | None = None,
        *,
        where: Any = None,
        split_bytes: int = SPLIT_BYTES,
        **options: Unpack[DatasetScan],
    ) -> None:
        super().__init__()
        scan = Scan.of(options, where=None if where is None else as_expr(where))
        self._scan = scan.for_splits()
        self._split_bytes = split_bytes
        paths = None if columns is None else [(name,) for name in columns]
        with scan.files(url) as files:
            with files.batches(columns=paths, **scan.reading):
                pass  # reads nothing, and sees what cannot be asked
            with files.batches(**scan.reading) as stream:
                self._schema = pa.schema(stream)
            self._splits = scan.splits(files, split_bytes)
        self.names = self._schema.names if columns is None else list(columns)
        self.predicate: Any = None

    def get_name(self) -> str:
        """What Ray calls its tasks."""
        return "ORC"

    # --- what Ray hands down

    def supports_projection_pushdown(self) -> bool:
        """It does."""
        return True

    def get_projection_map(self) -> dict[str, str]:
        """The columns that are read; none is renamed."""
        return {name: name for name in self.names}

    def apply_projection(self, projection_map: Mapping[str, str] | None) -> Self:
        """A source of those columns alone."""
        clone = copy.copy(self)
        if projection_map is not None:
            clone.names = [name for name in self.names if name in projection_map]
        return clone

    def supports_predicate_pushdown(self) -> bool:
        """It does: what files cannot be asked is evaluated on their rows."""
        return True

    def get_current_predicate(self) -> Any:
        """What Ray has handed down, None where it is nothing."""
        return self.predicate

    def apply_predicate(self, predicate_expr: Any) -> Self:
        """A source of the rows of which that is true, too."""
        clone = copy.copy(self)
        clone.predicate = predicate_expr if self.predicate is None else self.predicate & predicate_expr
        return clone

    # --- tasks

    def estimate_inmemory_data_size(self) -> int:
        """Bytes, before rows are chosen: of fixed widths exactly, and no less than is stored of the rest."""
        return sum(map(self._size_of, self._splits))

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: Any = None,  # noqa: ARG002  # Ray's protocol
    ) -> list[ReadTask]:
        """One for each split, and no more than `parallelism`.

        Each stops after `per_task_row_limit` rows; `data_context` makes no difference.
        """
        filter_ = None if self.predicate is None else self.predicate.to_pyarrow()
        rows = ArrowScan(self._schema, self.names, filter_, self._scan.reading)
        scan = replace(self._scan, reading=rows.reading)
        splits = self._splits
        if self.predicate is not None and splits:
            with scan.files(splits) as files:
                splits = scan.splits(files, self._split_bytes)
        return [
            ReadTask(
                functools.partial(_blocks, some, scan, rows),
                self._metadata(some),
                schema=rows.schema if rows.schema.names else _rows_alone(0).schema,
                per_task_row_limit=per_task_row_limit,
            )
            for some in _shares(splits, parallelism)
        ]

    def _metadata(self, splits: Sequence[orcstream.Split]) -> BlockMetadata:
        """How many rows there are is known unless they are chosen."""
        is_known = self._scan.reading["where"] is None and self.predicate is None
        return BlockMetadata(
            num_rows=sum(split.row_count for split in splits) if is_known else None,
            size_bytes=sum(map(self._size_of, splits)),
            input_files=tuple(split.path for split in splits),
            exec_stats=None,
        )

    def _size_of(self, split: orcstream.Split) -> int:
        """In memory, before rows are chosen: what values of fixed width take, and no less than is stored."""
        width = sum(_width(self._schema.field(name).type) for name in self.names)
        stored = split.weight_bytes * len(self.names) // max(1, len(self._schema.names))
        return max(stored, width * split.row_count)


def _width(type_: pa.DataType) -> int:
    try:
        return int(type_.bit_width + 7) // 8
    except ValueError:  # texts, lists and the like
        return 0


def _shares(splits: Sequence[orcstream.Split], count: int) -> Iterator[Sequence[orcstream.Split]]:
    """Neighbours together. Without splits there is one share all the same, which names the columns."""
    shares = max(1, min(count, len(splits)))
    for share in range(shares):
        yield splits[len(splits) * share // shares : len(splits) * (share + 1) // shares]


def _blocks(splits: Sequence[orcstream.Split], scan: Scan, rows: ArrowScan) -> Iterator[pa.Table]:
    """The rows of one task, as its worker reads them."""
    is_empty = True
    if splits:
        with scan.files(splits) as files:
            for batch in rows.batches(files):
                is_empty = False
                yield pa.Table.from_batches([batch]) if rows.schema.names else _rows_alone(batch.num_rows)
    if is_empty:
        yield rows.schema.empty_table() if rows.schema.names else _rows_alone(0)


def _rows_alone(count: int) -> pa.Table:
    return pa.table({_ROWS_ALONE: pa.nulls(count)})
