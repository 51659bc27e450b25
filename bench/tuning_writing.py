"""What the settings of writing cost, and mean for the reader: to the local disk, and to a distant store.

The table is that of `lineitem`, a million rows from Arrow. Files are removed before each write, outside
of the clock.
"""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import orc

import orcstream
from bench import lineitem, servers
from bench.tuning_reading import DEFAULT, MIB, ROWS
from bench.tuning_tables import Table, against, in_turns


@dataclass(frozen=True, slots=True)
class Question:
    """A read of little, and what has to be read for it: index, filters and data."""

    what: str
    chosen: dict[str, Any]

    async def bytes_of(self, path: Path) -> str:
        async with orcstream.open(path) as file:
            plan = await file.explain(columns=["l_extendedprice", "l_shipmode"], **self.chosen)
            return f"{plan.bytes_wanted / 1e6:.2f} MB"


ONE_ROW = Question("bytes for one row, by number", {"rows": range(ROWS // 2, ROWS // 2 + 1)})
# Its values are spread over all of the file.
ONE_PART = Question("bytes for the rows of one `l_partkey`", {"where": orcstream.col("l_partkey") == 123_457})


def measure_local(*, quick: bool) -> list[Table]:
    table = orc.read_table(str(lineitem.path_of("none", ROWS)))
    with tempfile.TemporaryDirectory(dir=lineitem.DATA) as folder:
        return asyncio.run(_Local(table, Path(folder), 1 if quick else 3).tables())


class _Local:
    """One table, written in many ways to one folder."""

    def __init__(self, table: pa.Table, folder: Path, rounds: int) -> None:
        self._table = table
        self._folder = folder
        self._rounds = rounds
        self._number = 0

    async def tables(self) -> list[Table]:
        stripes = {f"{size} MiB": {"stripe_bytes": size * MIB} for size in (4, 16, 64)}
        strides = {f"{stride:,}": {"row_index_stride": stride} for stride in (1_000, 10_000, 100_000, 0)}
        blooms: dict[str, Any] = {
            "none": None,
            '`["l_partkey"]`': ["l_partkey"],
            '`{"l_partkey": 0.1}`': {"l_partkey": 0.1},
            '`{"l_partkey": 0.001}`': {"l_partkey": 0.001},
        }
        shares = {str(share): {"dictionary_threshold": share} for share in (0.0, 0.8, 1.0)}
        threads = {str(count): {"encode_threads": count} for count in (1, 2, 4)}
        return [
            await self._compression(),
            await self._options("stripe-bytes", "stripe_bytes", stripes, "64 MiB", ONE_ROW),
            await self._options("stride", "row_index_stride", strides, "10,000", ONE_ROW),
            await self._options(
                "blooms", "blooms", {name: {"blooms": one} for name, one in blooms.items()}, "none", ONE_PART
            ),
            await self._options("dictionary-threshold", "dictionary_threshold", shares, "0.8"),
            await self._options("encode-threads", "encode_threads", threads, "2"),
        ]

    async def _write(self, **options: Any) -> Path:
        """A new file each time: removing one may take longer than writing it."""
        self._number += 1
        path = self._folder / f"{self._number}.orc"
        async with orcstream.create(path, **options) as out:
            await out.write(self._table)
        return path

    async def _written(self, choices: dict[str, dict[str, Any]]) -> tuple[dict[str, Path], dict[str, float]]:
        """The last file of each, and how long it took."""
        files: dict[str, Path] = {}

        async def write(name: str, options: dict[str, Any]) -> None:
            files[name], earlier = await self._write(**options), files.get(name)
            if earlier is not None:
                earlier.unlink()

        actions = {name: partial(write, name, options) for name, options in choices.items()}
        return files, await in_turns(self._rounds, actions)

    async def _compression(self) -> Table:
        levels: dict[str, tuple[str, int | None]] = {
            "`none`": ("none", None),
            "`snappy`": ("snappy", None),
            "`lz4`": ("lz4", None),
            "`zstd`, level 1": ("zstd", 1),
            "`zstd`": ("zstd", None),
            "`zstd`, level 9": ("zstd", 9),
            "`zlib`, level 2": ("zlib", 2),
            "`zlib`": ("zlib", None),
        }
        choices = {
            name: {"compression": codec, "compression_level": level}
            for name, (codec, level) in levels.items()
        }
        files, seconds = await self._written(choices)
        reading = await in_turns(self._rounds, {name: partial(_read, path) for name, path in files.items()})
        written, read = against(seconds, "`zstd`"), against(reading, "`zstd`")
        rows = [(name, written[name], _size(files[name], files["`zstd`"]), read[name]) for name in choices]
        self._remove(files)
        return Table("compression", ("`compression`", "written in", "size", "read in"), rows)

    async def _options(
        self,
        name: str,
        option: str,
        choices: dict[str, dict[str, Any]],
        default: str,
        question: Question | None = None,
    ) -> Table:
        files, seconds = await self._written(choices)
        written = against(seconds, default)
        rows: list[tuple[str, ...]] = [
            (choice, written[choice], _size(path, files[default])) for choice, path in files.items()
        ]
        head: tuple[str, ...] = (f"`{option}`", "written in", "size")
        if question is not None:
            head = (*head, question.what)
            rows = [(*row, await question.bytes_of(files[row[0]])) for row in rows]
        self._remove(files)
        return Table(name, head, rows)

    def _remove(self, files: dict[str, Path]) -> None:
        for path in files.values():
            path.unlink()


async def _read(path: Path) -> None:
    async with orcstream.open(path) as file, file.batches() as stream:
        async for batch in stream:
            pa.record_batch(batch)


def _size(path: Path, default: Path) -> str:
    size = path.stat().st_size
    return f"{size / 1e6:.1f} MB ({size / default.stat().st_size:.2f})"


# --- to a distant store ----------------------------------------------------------------------------


def measure_upload(*, quick: bool) -> list[Table]:
    table = orc.read_table(str(lineitem.path_of("none", ROWS)))
    with servers.near() as store, servers.distant(store) as distance:
        store.put()
        servers.move_to_client_core()
        return [asyncio.run(_upload(table, distance.store.storage_options, 1 if quick else 3))]


async def _upload(table: pa.Table, options: dict[str, Any], rounds: int) -> Table:
    """Uncompressed, so that the line is what is waited for."""
    choices: dict[str, dict[str, int]] = {
        DEFAULT: {},
        "`part_bytes=5 MiB`": {"part_bytes": 5 * MIB},
        "`part_bytes=32 MiB`": {"part_bytes": 32 * MIB},
        "`upload_cap=1`": {"upload_cap": 1},
        "`upload_cap=2`": {"upload_cap": 2},
        "`upload_cap=16`": {"upload_cap": 16},
        "`in_flight_bytes=16 MiB`": {"in_flight_bytes": 16 * MIB},
    }

    async def write(sink: dict[str, int]) -> None:
        url = f"s3://{servers.BUCKET}/tuning.orc"
        async with orcstream.create(
            url, compression="none", storage_options=options, sink_options=sink
        ) as out:
            await out.write(table)

    seconds = await in_turns(rounds, {name: partial(write, sink) for name, sink in choices.items()})
    shown = against(seconds, DEFAULT)
    return Table("sink-options", ("`sink_options`", "time"), [(name, shown[name]) for name in choices])
