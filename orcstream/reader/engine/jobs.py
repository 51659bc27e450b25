"""What a worker takes on of one column: windows of rows that follow each other, for one call of the kernels.

Knows decoders and where their rows stand in the file, and how much is worth a call. Must not know threads,
nor what is taken on when.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from orcstream.codec.decode._column import DecodeTask
from orcstream.codec.vectors.column import Vector
from orcstream.errors import OrcError
from orcstream.reader.engine.runs import ColumnRun

# So much is decoded in one call, about, which takes some milliseconds; and its columns hold no more of chunks
# in progress before those are counted. Each call waits for the interpreter's lock. Beside threads that run
# Python this takes long, and calls are larger; else smaller ones share the columns out better.
_CALL_BYTES = 8 << 20
_CROWDED_CALL_BYTES = 16 << 20
_LEAST_CALL_BYTES = 1 << 20
# A call that waits so long for the lock counts one up, one that does not counts one down again. At this count
# the read is among threads that run Python, to its end.
_CROWDED_CALLS = 3
_LONG_WAIT_S = 0.002


class CallSize:
    """How many bytes are decoded in one call of a read."""

    def __init__(self) -> None:
        self.most_bytes = _CALL_BYTES
        self._long_waits = 0

    def note(self, wait_s: float) -> None:
        """Note how long a call waited for the interpreter's lock when it was done."""
        self._long_waits = max(0, self._long_waits + (1 if wait_s > _LONG_WAIT_S else -1))
        if self._long_waits >= _CROWDED_CALLS:
            self.most_bytes = _CROWDED_CALL_BYTES

    @property
    def is_crowded(self) -> bool:
        """Whether calls wait for threads that run Python."""
        return self.most_bytes == _CROWDED_CALL_BYTES

    def share_of(self, total_bytes: float, parts: int) -> int:
        """The bytes of a call where a total is shared out."""
        return min(self.most_bytes, max(_LEAST_CALL_BYTES, int(total_bytes / parts)))


@dataclass(slots=True)
class Job:
    """Windows of one run that a worker has taken on, expected to be so many bytes; and what came of them."""

    run: ColumnRun
    stop: int  # the row, among the stripe's wanted ones, that the windows go up to
    is_first: bool  # whether its stripe was to be delivered next
    windows: list[tuple[int, int]] = field(default_factory=list)  # rows and budget of each
    expected: int = 0
    tasks: list[DecodeTask] = field(default_factory=list)
    vectors: list[Vector] = field(default_factory=list)
    error: BaseException | None = None

    def begin(self, share: int, limit: int) -> list[DecodeTask]:
        """What is to be decoded; nothing where the run cannot go on.

        A row may have `limit` bytes if it must.
        """
        run = self.run
        try:
            run.enter_span()
            before: DecodeTask | None = None
            for rows, budget in self.windows:
                # In front of them, the budget of the wanted rows may be that of a single one.
                drop = run.rows_to_drop if before is None else 0
                before = DecodeTask(run.decoder, rows, budget, limit, drop, max(budget, share), before)
                self.tasks.append(before)
        except Exception as caught:  # noqa: BLE001  # raised to the consumer, whatever it is
            self.error = self._placed(caught)
            self.tasks.clear()
        return self.tasks

    def end(self) -> None:
        """Take what was decoded, up to where a stream ran dry or something failed."""
        for task in self.tasks:
            self.run.rows_to_drop -= task.dropped
            try:
                vector = task.vector()
            except Exception as caught:  # noqa: BLE001  # raised to the consumer, whatever it is
                self.error = self._placed(caught)
                return
            if vector is None:
                return
            self.vectors.append(vector)

    def let_go(self) -> None:
        """Who keeps an error keeps the job, whose method it came through."""
        self.tasks.clear()
        self.vectors.clear()

    def _placed(self, error: Exception) -> Exception:
        """The error, with its place in the file."""
        run = self.run
        if isinstance(error, OrcError):
            column = run.decoder.type.column_id
            if error.row is not None:
                # Decoders count the rows of their own column: children's are not the file's.
                done = run.row + sum(vector.length for vector in self.vectors)
                row = run.stripe.stripe_row(done) - run.rows_to_drop + error.row
                error.row = run.stripe.information.first_row + row if error.column == column else None
            error.locate(stripe=run.stripe.information.index, column=column)
        return error
