"""Files of a job of Spark: tasks prepare them, the driver makes them visible, or leaves nothing of them.

Knows names of files, which carry the job, and in which order things become visible. Must not know Spark's
interfaces, nor when a job is repeated. A task's files are durable and invisible; each appears whole, at once.
"""

from __future__ import annotations

import datetime
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import orcstream
from orcstream import IngestedFile, Prepared
from orcstream._credentials import strip_credentials
from orcstream._printable import logger_of
from orcstream.encryption import KeyProvider
from orcstream.errors import OrcError, UsageError
from orcstream.io import small_files
from orcstream.io.contract.folder import ListedFile
from orcstream.io.folders import is_hidden, list_files, list_names, make_folder_of, remove_files
from orcstream.io.loop.tasks import side_by_side
from orcstream.io.loop.uncancelled import clean_up
from orcstream.plan.acid.names import is_table_file, parse_directory
from orcstream.spark.access import run
from orcstream.spark.read.merge_records import row_count_of
from orcstream.spark.read.partitions import zone_named
from orcstream.spark.write.options import WritePlan
from orcstream.spark.write.prepared_json import prepared_from_json, prepared_to_json
from orcstream.spark.write.target import Target

_logger = logger_of("orcstream.spark")
_CYCLE_SECONDS = 12_622_780_800  # after 400 years the calendar repeats
_YEAR_10000 = 253_402_300_800


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that a task has prepared: its path below the target, its rows, and how to commit it."""

    path: str
    row_count: int
    prepared: Prepared

    def to_json(self) -> dict[str, Any]:
        """What `of_json` takes, for records."""
        return {"path": self.path, "rows": self.row_count, **prepared_to_json(self.prepared)}

    @classmethod
    def of_json(cls, record: Mapping[str, Any], target: Target, path: str) -> Self:
        """A file of the target that has this path there."""
        return cls(path, row_count_of(record), prepared_from_json(record, target.url_of(path), path))

    @property
    def length(self) -> int:
        """In bytes."""
        return self.prepared.length


# --- tasks -----------------------------------------------------------------------------------------


def write_files(
    plan: WritePlan, batches: Iterable[pa.RecordBatch], stem: str, *, threads: int
) -> list[WrittenFile]:
    """Write rows to files whose names begin with `stem`; none where there are no rows.

    Raises what `ingest` raises; then nothing is left.
    """
    task = _Task(plan, stem, threads)
    try:
        run(task.begin)
        for batch in batches:
            run(partial(task.write, batch))
        return run(task.prepare)
    except BaseException as error:
        run(partial(task.abort, error))
        raise


@dataclass(slots=True)
class _Task:
    """The files of one task; all its methods run on the loop."""

    _plan: WritePlan
    _stem: str
    _threads: int
    _out: orcstream.Ingester | None = None

    async def begin(self) -> None:
        plan = self._plan
        keys = await plan.access.key_provider()
        self._out = await _ingest(plan, self._stem, self._threads, keys)

    async def write(self, batch: pa.RecordBatch) -> None:
        assert self._out is not None
        await self._out.write(as_stored(batch, self._plan.spelled, self._plan.spelled_in))

    async def prepare(self) -> list[WrittenFile]:
        assert self._out is not None
        found = await self._out.commit()
        return [_written(self._plan, file) for file in found]

    async def abort(self, error: BaseException) -> None:
        """Leave nothing; what would not go is told with what came first."""
        await clean_up(error, self._leave_nothing)

    async def _leave_nothing(self) -> None:
        if self._out is not None:
            await self._out.abort()
            await discard_files(self._plan, [_written(self._plan, one) for one in self._out.files])


def _ingest(plan: WritePlan, stem: str, threads: int, keys: KeyProvider | None) -> Any:
    folder = plan.url.rstrip("/").replace("{", "{{").replace("}", "}}")
    options: dict[str, Any] = {"encode_threads": threads, **plan.file_options}
    return orcstream.ingest(
        f"{folder}/{stem}-c{{number:03}}{plan.suffix}",
        plan.schema,
        partition_by=plan.partition_by,
        max_bytes=plan.max_bytes,
        max_rows=plan.max_rows,
        memory_limit=plan.memory_limit,
        overwrite=True,  # no other file has the name: it holds the ids of the job and of the attempt
        prepare_only=True,
        keys=keys,
        storage_options=plan.storage_options,
        **options,
    )


def _written(plan: WritePlan, file: IngestedFile) -> WrittenFile:
    assert file.prepared is not None
    return WrittenFile(
        file.prepared.url.removeprefix(f"{plan.url.rstrip('/')}/"), file.row_count, file.prepared
    )


# --- Arrow data as files of Spark have it --------------------------------------------------------------


def as_stored(batch: pa.RecordBatch, spelled: Sequence[str] = (), timezone: str = "UTC") -> pa.RecordBatch:
    """With microseconds as the numbers that they are; nothing is copied but the frames of nested columns.

    Times in the columns `spelled` become texts; points in time as what clocks of `timezone` showed.
    """
    for name in spelled:
        texts = _texts(batch.column(name), timezone)
        batch = batch.set_column(batch.schema.get_field_index(name), name, texts)
    fields = [field.with_type(_stored(field.type)) for field in batch.schema]
    wanted = pa.schema(fields)
    return batch if wanted.equals(batch.schema) else batch.cast(wanted)


def _texts(times: pa.Array, timezone: str) -> pa.Array:
    """As Spark names folders: `2024-01-31 12:00:00.5`, without zeros at the end of a fraction."""
    clocks = times if times.type.tz is None else _clocks(times, timezone)
    texts = clocks.cast(pa.timestamp("us")).cast(pa.string())  # with six digits after the point
    return pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), ".")


def _clocks(times: pa.Array, timezone: str) -> pa.Array:
    """What the clocks of a zone show. pyarrow's own conversion ignores summer time after 2037."""
    micros = times.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    seconds = np.floor_divide(micros.fill_null(0).to_numpy(zero_copy_only=False), 1_000_000)
    distinct, at = np.unique(seconds, return_inverse=True)
    shifts = np.array([_shift(second, timezone) for second in distinct.tolist()], np.int64)
    return pc.add(micros, pa.array(shifts[at] * 1_000_000)).cast(pa.timestamp("us"))


def _shift(second: int, timezone: str) -> int:
    """What to add to UTC, in seconds. Python knows the years from 1 to 9999; others follow their rules."""
    if second >= _YEAR_10000 - 86_400:
        second = _YEAR_10000 - _CYCLE_SECONDS + (second - _YEAR_10000) % _CYCLE_SECONDS
    known = max(second, -62_135_596_800 + 86_400)
    shift = datetime.datetime.fromtimestamp(known, zone_named(timezone)).utcoffset()
    assert shift is not None
    return shift // datetime.timedelta(seconds=1)


def _stored(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_duration(type_) or (pa.types.is_timestamp(type_) and type_.tz is None):
        return pa.int64()
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_stored(field.type)) for field in type_])
    if pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(_stored(type_.value_type)))
    if pa.types.is_map(type_):
        key, item = type_.key_field, type_.item_field
        return pa.map_(key.with_type(_stored(key.type)), item.with_type(_stored(item.type)))
    return type_


# --- the driver ------------------------------------------------------------------------------------


async def check_plan(plan: WritePlan) -> None:
    """Raise on the driver what every task would raise."""
    _ingest(plan, "part", 1, await plan.access.key_provider())
    await refuse_transactional(plan, [""])


async def refuse_transactional(plan: Target, folders: Iterable[str]) -> None:
    """Raise `UsageError` where some folders below the target hold a transactional table's directories.

    Its readers would not see files that are put there, or take them for rows of all time.
    """
    from orcstream.acid.transactions.log import LOG_FOLDER

    async def names_in(path: str) -> list[str]:
        return await list_names(plan.url_of(path).rstrip("/"), storage_options=plan.storage_options)

    async def look(folder: str) -> None:
        for name in await names_in(folder):
            path = posixpath.join(folder, name)
            is_events = parse_directory(name) is not None and any(
                is_table_file(f"{name}/{one}") for one in await names_in(path)
            )
            if name == LOG_FOLDER or is_events:
                raise transactional_target(plan.url)

    await side_by_side(sorted(set(folders)), look)


def transactional_target(url: str) -> UsageError:
    """The error for a folder that is a transactional table's, and was to be written or compacted as files."""
    return UsageError(
        "this is a transactional table, whose files belong to transactions; write it with "
        "orcstream.acid.open_table(url) and its transaction(), compact it with "
        "orcstream.spark.jobs.compact_table",
        url=url,
    )


async def write_empty(plan: WritePlan, stem: str) -> list[WrittenFile]:
    """One file without rows, which says what the columns are."""
    path = f"{stem}-c000{plan.suffix}"
    await make_folder_of(plan.url_of(path))
    out = await orcstream.create(
        plan.url_of(path),
        plan.schema,
        keys=await plan.access.key_provider(),
        storage_options=plan.storage_options,
        **plan.file_options,
    )
    try:
        return [WrittenFile(path, 0, await out.prepare())]
    finally:
        await out.aclose()


async def commit_files(plan: Target, files: Sequence[WrittenFile]) -> None:
    """Make files visible, several at a time, each at once. May be called again, with the same files."""
    await side_by_side(files, lambda file: small_files.commit(file.prepared, **_of_sink(plan)), cancels=False)


async def discard_files(plan: Target, files: Sequence[WrittenFile]) -> None:
    """Leave nothing of files that were not committed; those that were stay."""
    await side_by_side(files, lambda file: orcstream.discard(file.prepared, **_of_sink(plan)), cancels=False)


async def sweep(plan: Target, job: str) -> None:
    """Remove what tasks of a job left that nobody has heard of; what is visible stays."""
    await sweep_folder(plan.url, containing=job, storage_options=plan.storage_options)


async def sweep_folder(
    url: str, *, containing: str = "", older_than_s: float = 0.0, storage_options: Mapping[str, Any] | None
) -> None:
    """Remove what is not visible, of paths with a text in them; where that cannot be done, it is told."""
    try:
        await orcstream.cleanup(
            url, older_than_s=older_than_s, containing=containing, storage_options=storage_options
        )
    except FileNotFoundError:
        return
    except (OrcError, OSError) as error:
        _logger.warning(
            "what killed tasks may have left in %s stays there: %s; orcstream cleanup removes it",
            strip_credentials(url),
            error,
        )


async def visible_files(plan: Target) -> list[ListedFile]:
    """The files that readers of the folder see. Raises `UsageError` for a transactional table."""
    try:
        found = await list_files(plan.url, storage_options=plan.storage_options)
    except FileNotFoundError:
        return []
    visible = [file for file in found if not is_hidden(file.path)]
    if any(is_table_file(file.path) for file in visible):
        raise transactional_target(plan.url)
    return visible


async def remove_paths(plan: Target, paths: Iterable[str]) -> None:
    """Remove files below the target; those that are gone already are no failure."""
    found = list(paths)
    if found:
        await remove_files(plan.url, found, storage_options=plan.storage_options)


async def put(plan: Target, path: str, data: bytes, *, overwrite: bool) -> None:
    """A small file below the target, whole and at once; `FileExistsError` with ``overwrite=False``."""
    await small_files.put(plan.url_of(path), data, overwrite=overwrite, **_of_sink(plan))


def _of_sink(plan: Target) -> dict[str, Any]:
    return {
        "storage_options": plan.storage_options,
        "sink_options": plan.sink_options,
    }
