"""The memory of one stream: who may take how much, and who is told when some is given back.

Knows bytes and shares of a limit, and about how much a read keeps for a column of each kind. Must not know
what else they hold. Three kinds of bytes are counted apart, because they would block each other if they
shared one purse: those fetched and not yet decompressed, those decoded and not yet delivered, and
dictionaries. Their shares may add up to a quarter more than the limit, when all are used up at once; one
chunk and its block for each stream under decompression is not counted. A fetched buffer is given back when
its last view dies, on whatever thread and, where the garbage collector finds it, in the middle of whatever
that thread does: so `give_back` takes no lock. The other methods of budgets are for the event loop's thread.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence

from orcstream.errors import Unsupported, UsageError
from orcstream.schema.types import TEXTS, TIMES, Kind, Type

DEFAULT_MEMORY_LIMIT = 256 << 20
LEAST_LIMIT = 1 << 16
_LEAST_CHUNK_LIMIT = 48 << 20
TOO_MANY_COLUMNS = "too_many_columns"
# What a read keeps for each column, whatever is in it: measured, and as if all columns had nulls. More of it
# where the predicate's columns are read first.
_COLUMN_BYTES, _LATE_BYTES, _STREAM_BYTES = 1600, 1500, 1800
_BLOBS = (Kind.BINARY, Kind.GEOMETRY, Kind.GEOGRAPHY)
_STREAMS = dict.fromkeys(TEXTS, 4) | dict.fromkeys((*TIMES, Kind.DECIMAL, *_BLOBS), 3)
_USUAL_STREAMS = 2
# So much of it is not taken from the limit.
_FREE_KEPT_BYTES = 96 << 20


def chunk_limit_of(limit: int) -> int:
    """Bytes for the chunks that columns are in the middle of, in a read of so much memory.

    Those of thousands of columns take more than the limit.
    """
    return max(4 * limit, _LEAST_CHUNK_LIMIT)


def kept_bytes(types: Sequence[Type], *, late: bool) -> int:
    """What a read keeps for columns of these types while it reads a stripe."""
    each = _COLUMN_BYTES + late * _LATE_BYTES
    kinds = Counter([type_.kind for type_ in types])
    return sum(
        count * (each + _STREAM_BYTES * _STREAMS.get(kind, _USUAL_STREAMS)) for kind, count in kinds.items()
    )


def beside_columns(limit: int, types: Sequence[Type], *, late: bool) -> tuple[int, bool]:
    """What of a limit is left beside what a read keeps for its columns, and whether some can be read `late`.

    Raises `Unsupported` where that is less than half.
    """
    for is_late in (True, False) if late else (False,):
        kept = kept_bytes(types, late=is_late)
        left = limit - max(0, kept - _FREE_KEPT_BYTES)
        if left >= max(limit // 2, LEAST_LIMIT * (1 + is_late)):
            return left, is_late
    raise Unsupported(
        f"a read of {len(types)} columns keeps about {kept} bytes for them; read fewer at a time (columns=), "
        f"or raise memory_limit=: {2 * (kept - _FREE_KEPT_BYTES)} bytes are enough for one file",
        reason=TOO_MANY_COLUMNS,
    )


class Lease:
    """Bytes of a fetched buffer; gives them back when it is dropped."""

    __slots__ = ("_budget", "_size")

    def __init__(self, budget: MemoryBudget, size: int) -> None:
        self._budget = budget
        self._size = size

    def __del__(self) -> None:
        self._budget.give_back(self._size)


class Shares:
    """How a limit is shared out."""

    def __init__(self, limit: int) -> None:
        if type(limit) is not int or limit < LEAST_LIMIT:
            raise UsageError(f"memory_limit must be at least {LEAST_LIMIT} bytes, not {limit!r}")
        self.limit = limit
        self.fetch_limit = limit // 2
        self.decode_limit = limit // 4
        self.dictionary_limit = limit // 2
        # Two fetch windows fit, one on its way and one in use; and three windows of decoded rows.
        self.window_bytes = self.fetch_limit // 2
        # Near sources give so much of a stripe at once, since pieces cost more there than the wait: the usual
        # stripe, a little over 64 MiB, with the usual limit.
        self.whole_bytes = self.fetch_limit // 16 * 9
        self.decoded_window_bytes = self.decode_limit // 3


class ChunkRoom:
    """Chunks in progress of all pipelines of one read, which share a limit. Counts may be a moment old."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._budgets: list[MemoryBudget] = []

    def join(self, budget: MemoryBudget) -> None:
        self._budgets.append(budget)

    @property
    def is_short(self) -> bool:
        """Whether so much is held that its memory is trimmed, and no other stripe begun."""
        return sum(one.chunks for one in self._budgets) > self.limit // 4 * 3

    def left_for(self, budget: MemoryBudget) -> int:
        """What one stripe of a pipeline may take beside the stripes that the others have to deliver next."""
        return self.limit - sum(one.first_chunks for one in self._budgets if one is not budget)


class MemoryBudget(Shares):
    """See the module. `on_release` is called, from any thread, when fetched bytes are given back."""

    def __init__(self, limit: int, chunk_room: ChunkRoom, on_release: Callable[[], None]) -> None:
        super().__init__(limit)
        self.decoded = 0
        self.dictionaries = 0
        self.chunks = 0
        self.first_chunks = 0  # those of the stripe that is delivered next
        self.chunk_room = chunk_room
        chunk_room.join(self)
        self.peak_fetched = 0
        self._lent = 0
        self._given_back: deque[int] = deque()
        self._on_release = on_release

    @property
    def fetched(self) -> int:
        """Bytes fetched and not yet decompressed."""
        while self._given_back:
            self._lent -= self._given_back.popleft()
        return self._lent

    def lend(self, size: int) -> Lease:
        """Count fetched bytes, whether they fit or not: that was decided before."""
        self._lent += size
        self.peak_fetched = max(self.peak_fetched, self.fetched)
        return Lease(self, size)

    def fits(self, size: int) -> bool:
        """Whether so many more bytes may be fetched now; when nothing is held, any number."""
        fetched = self.fetched
        return fetched == 0 or fetched + size <= self.fetch_limit

    def give_back(self, size: int) -> None:
        self._given_back.append(size)
        self._on_release()
