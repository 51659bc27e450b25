"""Where the stripes and streams of real files lie: recorded once, small enough to keep.

`python -m bench.layouts` makes the files anew and records them under bench/layouts. A layout holds what a
planner of reads knows of a file: lengths of stripes and streams, and for some columns where row groups begin.
Knows numpy and pyarrow for making files, orcstream's own names for reading their directories; plans nothing.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from orcstream.byterange import ByteRange
from orcstream.codec.metadata.structure import StripeInformation

__all__ = ["Layout", "load", "main", "record"]

FOLDER = Path(__file__).resolve().parent / "layouts"
GROUP_ROWS = 10_000
# The columns of which layouts know where row groups begin.
_GROUPED = ("l_orderkey", "l_partkey", "l_extendedprice", "l_shipdate", "l_shipmode")


@dataclass(frozen=True)
class Layout:
    """One file. `streams` are (column, length) of data streams in file order, a list for each stripe.

    `groups` are, by "stripe:stream", the offsets in a stream of the chunks that row groups begin in.
    """

    file_length: int
    tail_length: int
    block_size: int
    stripes: tuple[StripeInformation, ...]
    streams: list[list[tuple[int, int]]]
    groups: dict[str, list[int]]

    def wanted(self, stripe: int, columns: frozenset[int] | None) -> list[ByteRange]:
        """The data streams of these columns, of all without a choice."""
        return [range_ for column, range_ in self._placed[stripe] if columns is None or column in columns]

    def slices(self, stripe: int, columns: frozenset[int], group: int) -> list[ByteRange]:
        """What of the streams one row group needs at the most, by ORC Java's rule for where it may end."""
        slop = (2 + (2 + 8 * 512 - 1) // self.block_size) * (3 + self.block_size)
        found = []
        for number, (column, range_) in enumerate(self._placed[stripe]):
            if column not in columns:
                continue
            starts = self.groups.get(f"{stripe}:{number}")
            if starts is None:  # dictionaries are read whole
                found.append(range_)
                continue
            last = group + 1 == len(starts)
            stop = range_.length if last else min(range_.length, starts[group + 1] + slop)
            found.append(ByteRange(range_.start + starts[group], range_.start + stop))
        return found

    def column_count(self) -> int:
        return 1 + max(column for column, _ in self.streams[0])

    @cached_property
    def _placed(self) -> list[list[tuple[int, ByteRange]]]:
        placed = []
        for stripe, streams in zip(self.stripes, self.streams, strict=True):
            at, own = stripe.data_range.start, []
            for column, length in streams:
                own.append((column, ByteRange(at, at + length)))
                at += length
            placed.append(own)
        return placed


def load(name: str) -> Layout:
    found = json.loads((FOLDER / f"{name}.json").read_text())
    stripes, first = [], 0
    for index, (offset, index_length, data, footer, rows) in enumerate(found["stripes"]):
        stripes.append(StripeInformation(index, offset, index_length, data, footer, rows, first))
        first += rows
    streams = [list(zip(found["columns"], lengths, strict=True)) for lengths in found["streams"]]
    return Layout(
        found["file_length"],
        found["tail_length"],
        found["block_size"],
        tuple(stripes),
        streams,
        found["groups"],
    )


async def record(path: Path, grouped: tuple[str, ...] = ()) -> dict[str, Any]:
    """What `load` reads, of the file at `path`. Every stripe must have the same list of streams."""
    import orcstream
    from orcstream.codec.metadata.structure import StreamKind, positions_of, stream_ranges
    from orcstream.codec.streams.compression import Compression

    async with orcstream.open(str(path)) as file:
        tail = file.tail
        wanted = {int(file.schema[name].column_id) for name in grouped}
        columns: list[int] = []
        lengths, groups = [], {}
        for stripe in file.stripes:
            footer = await file.stripe_footer(stripe.index)
            data = [one for one in stream_ranges(stripe, footer) if not one[0].kind.is_index]
            own = [int(stream.column) for stream, _ in data]
            assert columns in ([], own), "stripes differ in their streams"
            columns = own
            lengths.append([range_.length for _, range_ in data])
            indexes = await file.row_index(stripe.index) if wanted else {}
            present = {stream.column for stream, _ in data if stream.kind is StreamKind.PRESENT}
            for number, (stream, _) in enumerate(data):
                if int(stream.column) not in wanted:
                    continue
                parts = positions_of(
                    tail.footer.schema.types[stream.column].kind,
                    footer.encodings[stream.column].kind,
                    has_present=stream.column in present,
                    compressed=file.compression is not Compression.NONE,
                )
                index = indexes[stream.column]
                for part in parts:
                    if part.kind is stream.kind:
                        entries = [int(index.entry(entry)[part.first]) for entry in range(len(index))]
                        groups[f"{stripe.index}:{number}"] = entries
        return {
            "file_length": tail.file_length,
            "tail_length": tail.postscript.tail_bytes,
            "block_size": tail.postscript.compression_block_size,
            "columns": columns,
            "stripes": [
                [one.offset, one.index_length, one.data_length, one.footer_length, one.row_count]
                for one in file.stripes
            ],
            "streams": lengths,
            "groups": groups,
        }


def main() -> None:
    from bench import lineitem

    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        files = {
            "lineitem": (lineitem.path_of("zstd"), _GROUPED),
            "tiny-stripes": (_tiny_stripes(Path(folder)), ()),
            "thousand-columns": (_thousand_columns(Path(folder)), ()),
        }
        for name, (path, grouped) in files.items():
            found = asyncio.run(record(path, grouped))
            text = json.dumps(found, separators=(",", ":")).replace("],[", "],\n[")
            (FOLDER / f"{name}.json").write_text(text + "\n")
            print(name, len(found["stripes"]), "stripes,", found["file_length"], "bytes")


def _tiny_stripes(folder: Path) -> Path:
    """200 stripes of 3,000 rows: what many small appends leave behind."""
    from pyarrow import orc

    from bench import lineitem

    path = folder / "tiny.orc"
    table = lineitem.table(0, 600_000)
    # A stripe is closed at the end of the batch after which it is found to be full.
    orc.write_table(table, path, compression="zstd", stripe_size=1024, batch_size=1000)
    return path


def _thousand_columns(folder: Path) -> Path:
    import numpy as np
    import pyarrow as pa
    from pyarrow import orc

    random = np.random.default_rng(1000)
    rows = 60_000
    columns: dict[str, Any] = {}
    for number in range(1000):
        if number % 4 == 3:
            columns[f"c{number}"] = random.random(rows)
        elif number % 4 == 2:
            columns[f"c{number}"] = pa.array(
                [f"{value:x}" for value in random.integers(0, 1 << 24, rows).tolist()]
            )
        else:
            columns[f"c{number}"] = random.integers(0, 1 << (4 + number % 40), rows)
    path = folder / "wide.orc"
    orc.write_table(pa.table(columns), path, compression="zstd", stripe_size=64 << 20)
    return path


if __name__ == "__main__":
    main()
