"""The options of a read: their keywords, defaults, checks and meaning.

A new option is a line in a `TypedDict`, a field and an entry of the docstring here, and its use.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict

from orcstream.codec.vectors.column import VectorOptions
from orcstream.codec.vectors.times import UNITS
from orcstream.errors import UsageError
from orcstream.io.loop.system import core_count
from orcstream.reader.engine.budget import DEFAULT_MEMORY_LIMIT
from orcstream.schema.schema import Schema

if TYPE_CHECKING:
    from orcstream.query.expr import Expr, Matching

DEFAULT_BATCH_ROWS: Final = 1 << 16

Columns = Sequence[str | tuple[str, ...]]
Where: TypeAlias = "Expr | Sequence[Any] | None"


# Memory for each thread that decodes by default. A thread decodes up to 16 MiB of rows at a time.
_THREAD_BYTES = 32 << 20
_LEAST_THREADS = 2


class _Times(TypedDict, total=False):
    timestamp_unit: str


class _Names(TypedDict, total=False):
    case_sensitive: bool


class _Memory(TypedDict, total=False):
    memory_limit: int


class MatchKeywords(_Times, _Names, total=False):
    """How values and names are compared."""


class CountKeywords(_Names, _Memory, total=False):
    """How rows are counted."""


class ScanKeywords(_Times, _Memory, total=False):
    """What other libraries pass on."""


class ThreadKeywords(ScanKeywords, total=False):
    """With control of threads."""

    decode_threads: int | None


class ArrowKeywords(ThreadKeywords, total=False):
    """With all types of Arrow."""

    dictionaries: bool


class _Decoding(ArrowKeywords, MatchKeywords, total=False):
    invalid_utf8: str


class BatchKeywords(TypedDict, total=False):
    """How rows are put into batches."""

    batch_rows: int


class _Rows(TypedDict, total=False):
    where: Where


class _Columns(TypedDict, total=False):
    columns: Columns | None


class _Schema(TypedDict, total=False):
    schema: object


class QuestionKeywords(_Columns, _Rows, total=False):
    """Columns and rows of a file."""

    rows: range | None


class StreamKeywords(_Columns, _Decoding, BatchKeywords, total=False):
    """A stream of all rows."""


class TableKeywords(StreamKeywords, _Rows, total=False):
    """A read of a table of several files."""


class StripesKeywords(_Schema, MatchKeywords, total=False):
    """Which stripes may match."""


class TakeKeywords(_Columns, _Schema, _Decoding, total=False):
    """A read of rows that are known by number."""

    row_numbers: bool


class ExplainKeywords(StripesKeywords, QuestionKeywords, _Memory, total=False):
    """A read that delivers nothing."""


class ReadKeywords(TakeKeywords, TableKeywords, ExplainKeywords, total=False):
    """A read of one file."""


MICROSECONDS: Final[_Times] = {"timestamp_unit": "us"}
# Delivers no times, so those far from 1970 need not fit.
ANY_TIME: Final = MICROSECONDS
# A result keeps all rows anyway, and larger batches save work for each.
LARGE_BATCHES: Final[BatchKeywords] = {"batch_rows": 1 << 17}


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """What a read is asked for.

    Parameters
    ----------
    columns : sequence of str or tuple of str
        The output has these `columns`, in this order: dotted names, or tuples where names contain dots.
    where : Expr or sequence
        Only rows that match `where` are read: an expression of `col`, or tuples as pyarrow takes them.
    rows : range
        Only the `rows` with these numbers in the file are read, before `where`; cut off at the last row.
    schema : str, Schema or object with ``__arrow_c_schema__``
        The file is read as if it had this `schema`.
    batch_rows : int
        A batch has at most `batch_rows` rows.
    memory_limit : int
        The read holds at most `memory_limit` bytes at a time.
    decode_threads : int
        Values are decoded on `decode_threads` threads at a time: by default on as many as there are cores for
        the process, by its affinity and its control group, but on no more than one for each 32 MiB of
        `memory_limit`, or two.
    row_numbers : bool
        With `row_numbers`, a last column ``row_number`` has the number of each row in the file.
    timestamp_unit : {"ns", "us", "ms", "s"}
        Times are cut to `timestamp_unit`, then compared and delivered.
    dictionaries : bool
        With `dictionaries`, text comes as Arrow dictionaries.
    invalid_utf8 : {"error", "binary"}
        With ``invalid_utf8="binary"``, all text comes as bytes, unchecked. Otherwise text that is not UTF-8
        raises `FormatError`.
    case_sensitive : bool
        Without `case_sensitive`, names may differ from those of the file in upper and lower case.
    chunk_limit : int
        Of a table's files: bytes for chunks that columns are in the middle of, where it shares those out.

    """

    columns: Columns | None = None
    where: Where = None
    rows: range | None = None
    schema: object = None
    batch_rows: int = DEFAULT_BATCH_ROWS
    memory_limit: int = DEFAULT_MEMORY_LIMIT
    decode_threads: int | None = None
    row_numbers: bool = False
    timestamp_unit: str = field(default="ns", metadata={"choices": UNITS})
    dictionaries: bool = False
    invalid_utf8: str = field(default="error", metadata={"choices": ("error", "binary")})
    case_sensitive: bool = True
    chunk_limit: int | None = None

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            _one_of(name, getattr(self, name), allowed)
        _at_least_1("batch_rows", self.batch_rows)
        _at_least_1("memory_limit", self.memory_limit)
        if self.decode_threads is not None:
            _at_least_1("decode_threads", self.decode_threads)
        rows: object = self.rows
        if rows is not None and not (isinstance(rows, range) and rows.step == 1):
            raise UsageError(f"rows must be a range of step 1, not {rows!r}")
        if self.rows is not None and self.rows.start < 0:
            raise UsageError(f"rows count from the file's first, which is 0, not {self.rows!r}")

    @cached_property
    def expr(self) -> Expr | None:
        """`where` as an expression."""
        if self.where is None:
            return None
        from orcstream.query.expr import as_expr

        return as_expr(self.where)

    @cached_property
    def matching(self) -> Matching:
        """How `where` is compared."""
        from orcstream.query.expr import Matching

        return Matching(self.vectors.unit, self.case_sensitive)

    @cached_property
    def vectors(self) -> VectorOptions:
        """How values are delivered."""
        return VectorOptions(self.timestamp_unit, bool(self.dictionaries), self.invalid_utf8)

    @cached_property
    def read_schema(self) -> Schema | None:
        """What the file is read as."""
        if self.schema is None or isinstance(self.schema, Schema):
            return self.schema
        from orcstream.codec.arrow.schema import schema_of

        return schema_of(self.schema)

    @property
    def threads(self) -> int:
        """How many threads decode."""
        if self.decode_threads is not None:
            return self.decode_threads
        return min(core_count(), max(_LEAST_THREADS, self.memory_limit // _THREAD_BYTES))


_CHOICES: Final[dict[str, Collection[str]]] = {
    one.name: tuple(one.metadata["choices"]) for one in fields(ReadOptions) if one.metadata
}


def _one_of(name: str, value: object, allowed: Collection[str]) -> None:
    if value not in allowed:
        raise UsageError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")


def _at_least_1(name: str, value: int) -> None:
    if type(value) is not int or value < 1:
        raise UsageError(f"{name} must be an integer of at least 1, not {value!r}")
