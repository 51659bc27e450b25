"""Which pieces of which files each task reads.

Knows sizes: large files are shared out by their stripes, and where these are larger than a task by their row
groups; small files are read several by one task. Stripes that option `where` rules out are in no piece.
Tails are read side by side, where they are needed, and become small values at once: what is held grows with
the pieces and not with what is in the files. Must not know how rows are read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from orcstream import OrcFile, open_many
from orcstream.io.loop.system import core_count
from orcstream.plan.slices import slices
from orcstream.spark.options import Options
from orcstream.spark.read.files import FoundFile
from orcstream.spark.read.pieces import Piece

# What a task reads, and what opening one file more is counted for: Spark's own numbers.
_PARTITION_BYTES: Final = 128 << 20
_OPEN_COST_BYTES: Final = 4 << 20
# Of an open file, the stripes that are to be read.
Look = Callable[[OrcFile, FoundFile], Awaitable[Sequence[int]]]
# Called where a file cannot be opened: raises, or lets it be.
OnError = Callable[[Any, Exception], object]


@dataclass(frozen=True, slots=True)
class PieceOptions:
    """How much one task reads. `cores` is how many there are at least, as far as the driver knows."""

    partition_bytes: int = _PARTITION_BYTES
    open_cost_bytes: int = _OPEN_COST_BYTES
    min_partitions: int = 1

    @classmethod
    def of(cls, options: Options) -> PieceOptions:
        return cls(
            options.size("partition_bytes", _PARTITION_BYTES),
            options.size("open_cost_bytes", _OPEN_COST_BYTES),
            options.count("min_partitions", core_count()),
        )


def target_bytes(total_bytes: int, file_count: int, options: PieceOptions) -> int:
    """The size of a task, as Spark has it: fewer bytes where there would not be enough tasks."""
    share = (total_bytes + file_count * options.open_cost_bytes) // options.min_partitions
    return min(options.partition_bytes, max(options.open_cost_bytes, share))


def packed(pieces: Iterable[Piece], target: int, open_cost_bytes: int) -> list[list[Piece]]:
    """Pieces put together until they reach the size of a task; in their order."""
    tasks: list[list[Piece]] = []
    weight = 0
    for piece in pieces:
        if not tasks or weight + piece.weight > target:
            tasks.append([])
            weight = 0
        tasks[-1].append(piece)
        weight += piece.weight + open_cost_bytes
    return tasks


# --- pieces of one file ----------------------------------------------------------------------------


def _pieces(
    file: OrcFile, found: FoundFile, wanted: Sequence[int], rows: range | None, target: int
) -> list[Piece]:
    tail = file.tail
    pieces = []
    stripes = [file.stripes[number] for number in wanted]
    for one in slices(stripes, target, tail.footer.row_index_stride):
        start = one.start if rows is None else max(one.start, rows.start)
        stop = one.stop if rows is None else min(one.stop, rows.stop)
        if start < stop:
            pieces.append(
                Piece(found.url, tail.file_length, tail.fingerprint, one.weight, (start, stop), found.texts)
            )
    return pieces


async def plan_pieces(
    files: Sequence[FoundFile],
    target: int,
    open_options: Mapping[str, Any],
    *,
    look: Look | None = None,
    rows: range | None = None,
    on_error: OnError | None = None,
) -> list[Piece]:
    """The pieces of these files, in their order.

    A file is opened where it is larger than `target` bytes or its size is not known, and all files where
    `look` is to choose stripes, or only `rows` of them are wanted; `open_options` are those of
    `orcstream.open_many`.
    """
    unopened = look is None and rows is None
    found: dict[str, list[Piece]] = {}
    waiting: dict[str, FoundFile] = {}
    for file in files:
        if unopened and file.length is not None and file.length <= target:
            found[file.url] = [Piece(file.url, file.length, file.version, file.length, None, file.texts)]
        else:
            waiting[file.url] = file
    # Files know their URLs without credentials, so they are told apart by their order.
    coming = iter(waiting.values())

    def skip(url: Any, error: Exception) -> None:
        file = next(coming)
        if isinstance(error, FileNotFoundError) and rows is None and file.length is not None:
            # It was listed: whoever reads it looks where its rows are now.
            found[file.url] = [Piece(file.url, file.length, file.version, file.length, None, file.texts)]
        elif on_error is None:
            raise error
        else:
            on_error(url, error)

    async with open_many(waiting, ordered=True, on_error=skip, **open_options) as opened:
        async for one in opened:
            async with one:
                file = next(coming)
                wanted = range(len(one.stripes)) if look is None else await look(one, file)
                found[file.url] = _pieces(one, file, wanted, rows, target)
    return [piece for file in files for piece in found.get(file.url, ())]
