"""What a stream has read, as small files beside the data: which batch is of which files.

Knows names and contents of the records. Must not know how files are found or chosen. An offset of Spark names
a stream and a batch and nothing more, so it is small whatever the number of files.

- ``STREAM/_batch.N.json``: the files of batch N. It is written once, before Spark hears of the batch: of two
  drivers one is first, and both read what it has written.
- ``STREAM/_seen.N``: all files up to batch N, in 32 bytes each, so that not all records have to be read.

Of the records, those since the last snapshot but one are kept: a checkpoint may be put back by as many
batches as there are between two snapshots.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Self

from orcstream.errors import UsageError
from orcstream.io.loop.tasks import side_by_side
from orcstream.log.records import KnownRecords, Records, parsing
from orcstream.spark.stream.seen_files import SeenFiles, name_key
from orcstream.spark.write.written import sweep_folder

_NAME: Final = re.compile(r"_(?P<kind>batch|seen)\.(?P<number>[0-9]{20})(?:\.json)?", re.ASCII)
# Temporary files that a killed driver left are swept when they are older.
_SWEEP_AFTER_S: Final = 86400.0


@dataclass(frozen=True, slots=True)
class FileOfBatch:
    """A file as it was found. `version` stands for its contents (`version_key`), in hexadecimal digits."""

    name: str
    length: int
    version: str
    texts: tuple[str | None, ...]
    modified_s: float | None


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """What a batch is of.

    `merged` are files that hold rows of batches up to this one and nothing else. `forgets_before` is the time
    before which files are not remembered. `whole` says of queries up to which of their batches merged files
    were there, unrecorded, when the stream began.
    """

    number: int
    partition_names: tuple[str, ...] = ()
    files: tuple[FileOfBatch, ...] = ()
    merged: tuple[str, ...] = ()
    forgets_before: float | None = None
    whole: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class StreamState:
    """All that was seen up to a batch."""

    batch: int = 0
    seen: SeenFiles = field(default_factory=SeenFiles)
    latest_s: float | None = None
    forgets_before: float | None = None
    whole: dict[str, int] = field(default_factory=dict)

    def add(self, batch: StreamBatch) -> None:
        """The batch that comes next."""
        for file in batch.files:
            self.seen.add(name_key(file.name), bytes.fromhex(file.version), file.modified_s)
            self.note_time(file.modified_s)
        for name in batch.merged:
            self.seen.add(name_key(name), bytes(8), None)
        self.batch = batch.number
        self.forgets_before = batch.forgets_before
        self.whole.update(batch.whole)

    def note_time(self, modified_s: float | None) -> None:
        """A file that was changed then is seen."""
        if modified_s is not None:
            self.latest_s = modified_s if self.latest_s is None else max(self.latest_s, modified_s)


class StreamLog:
    """The records of one stream in a folder, as they were when it was opened, with those added since."""

    def __init__(self, known: KnownRecords, snapshot_every: int) -> None:
        self._known = known
        self._snapshot_every = snapshot_every

    @classmethod
    async def open(cls, url: str, storage_options: Mapping[str, Any], snapshot_every: int) -> Self:
        """With one listing."""
        return cls(await KnownRecords.open(Records(url, storage_options), _NAME), snapshot_every)

    # --- batches

    async def batch(self, number: int) -> StreamBatch | None:
        """What a batch is of, if it was begun."""
        return await self._read_batch(number) if _batch_name(number) in self._known.names else None

    async def begin(self, batch: StreamBatch) -> StreamBatch:
        """Record a batch; answers it, or that of another driver who was first."""
        with _writable():
            is_first = await self._known.put_first(_batch_name(batch.number), _to_json(batch))
        return batch if is_first else await self._read_batch(batch.number)

    async def _read_batch(self, number: int) -> StreamBatch:
        return await self._known.records.read(_batch_name(number), partial(_of_json, number))

    # --- what was seen

    async def state_at(self, number: int) -> StreamState:
        """All that was seen up to a batch. Raises `UsageError` where records are missing."""
        start = max((one for one in self._known.numbers("seen") if one <= number), default=0)
        missing = [one for one in range(start + 1, number + 1) if _batch_name(one) not in self._known.names]
        if missing:
            raise UsageError(
                f"there is no record of batch {missing[0]} of this stream; give the option log that the "
                "stream was started with, or start it with a new checkpoint",
                url=self._known.records.url,
            )
        state = await self._snapshot(start) if start else StreamState()
        for batch in await side_by_side(range(start + 1, number + 1), self._read_batch):
            state.add(batch)
        return state

    async def _snapshot(self, number: int) -> StreamState:
        name, records = _seen_name(number), self._known.records
        head, _, data = (await records.get_bytes(name)).partition(b"\n")
        with parsing(records.url_of(name)):
            return _of_snapshot(number, json.loads(head), data)

    async def save(self, state: StreamState) -> None:
        """Write a snapshot, if it is time for one, and remove what it makes needless."""
        last = max((one for one in self._known.numbers("seen") if one <= state.batch), default=0)
        if state.batch - last < self._snapshot_every:
            return
        await self.snapshot(state)
        await self._shorten(last)

    async def snapshot(self, state: StreamState) -> None:
        """Write down all that was seen."""
        if state.forgets_before is not None:
            state.seen.forget(state.forgets_before)
        data = state.seen.dump()
        record = {
            "version": 1,
            "checksum": _checksum(data),
            "latest": state.latest_s,
            "forgets_before": state.forgets_before,
            "whole": state.whole,
        }
        name = _seen_name(state.batch)
        with _writable():
            await self._known.put_bytes(name, json.dumps(record).encode() + b"\n" + data)

    async def _shorten(self, oldest: int) -> None:
        """Remove what was written before the snapshot after batch `oldest`."""
        gone = [_batch_name(one) for one in self._known.numbers("batch") if one <= oldest]
        gone += [_seen_name(one) for one in self._known.numbers("seen") if one < oldest]
        await self._known.remove(gone)
        url, options = self._known.records.url, self._known.records.storage_options
        await sweep_folder(url, older_than_s=_SWEEP_AFTER_S, storage_options=options)


@contextmanager
def _writable() -> Iterator[None]:
    """Make a store's refusal an error that names the option."""
    try:
        yield
    except PermissionError as error:
        raise UsageError(
            f"the log of the stream cannot be written: {error}; give a folder that can be by "
            "option('log', ...)"
        ) from error


def _batch_name(number: int) -> str:
    return f"_batch.{number:020}.json"


def _seen_name(number: int) -> str:
    return f"_seen.{number:020}"


def _checksum(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _of_snapshot(number: int, record: Mapping[str, Any], data: bytes) -> StreamState:
    if record["version"] != 1 or record["checksum"] != _checksum(data):
        raise ValueError("it is damaged, or of another version")
    seen = SeenFiles.load(data)
    return StreamState(number, seen, record["latest"], record["forgets_before"], dict(record["whole"]))


def _to_json(batch: StreamBatch) -> dict[str, Any]:
    files = [[one.name, one.length, one.version, list(one.texts), one.modified_s] for one in batch.files]
    return {
        "batch": batch.number,
        "partition_names": list(batch.partition_names),
        "merged": list(batch.merged),
        "forgets_before": batch.forgets_before,
        "whole": dict(batch.whole),
        "files": files,
    }


def _of_json(number: int, record: Mapping[str, Any]) -> StreamBatch:
    if record["batch"] != number:
        raise ValueError(f"it is of batch {record['batch']}")
    files = tuple(
        FileOfBatch(name, length, bytes.fromhex(version).hex(), tuple(texts), modified_s)
        for name, length, version, texts, modified_s in record["files"]
    )
    return StreamBatch(
        number,
        tuple(record["partition_names"]),
        files,
        tuple(record["merged"]),
        record["forgets_before"],
        dict(record["whole"]),
    )
