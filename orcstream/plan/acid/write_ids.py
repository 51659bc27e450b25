"""Which transactions a reader sees: all up to a high watermark, but those that are open or were aborted.

Knows Hive's text form (`ValidReaderWriteIdList.java`, `ValidReadTxnList.java`). Must not know tables.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from orcstream.errors import UsageError

_MOST = (1 << 63) - 1

Share: TypeAlias = Literal["all", "some", "none"]


@dataclass(frozen=True, slots=True)
class WriteIds:
    """The write ids that are visible: those up to `high_watermark` that are neither `open` nor `aborted`.

    `WriteIds(7)` is the table as of write id 7. `open` and `aborted` are kept sorted and distinct. The same
    form says which transactions are visible, for the directories that carry a compaction's.
    """

    high_watermark: int = _MOST
    open: tuple[int, ...] = ()
    aborted: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("open", "aborted"):
            object.__setattr__(self, name, _ids(name, getattr(self, name)))
        mark = self.high_watermark
        if type(mark) is not int or not 0 <= mark <= _MOST:
            raise UsageError(f"a high watermark is an integer of 0 to 2^63 - 1, not {mark!r}")
        both = set(self.open).intersection(self.aborted)
        if both:
            raise UsageError(f"the write id {min(both)} is said to be open, and to be aborted")

    @classmethod
    def of(cls, value: WriteIds | int | str | None) -> WriteIds:
        """As users give a `value`: the ids themselves, the highest one, Hive's text, or None for all."""
        if isinstance(value, WriteIds):
            return value
        if value is None:
            return cls()
        if isinstance(value, str):
            return cls.parse(value)
        return cls(value)

    @classmethod
    def parse(cls, text: str) -> WriteIds:
        """The ids of Hive's `text` form: ``database.table:7:5:5,6:3``, or of transactions without the table.

        The parts are the high watermark, the least id that is open, the open ids and the aborted ones. Raises
        `UsageError` for any other text.
        """
        parts = text.split(":")
        if not parts[0].isdigit():  # the table
            parts = parts[1:]
        try:
            mark, _, opened, aborted = (*parts, *[""] * (4 - len(parts)))
            return cls(_number(mark), _listed(opened), _listed(aborted))
        except ValueError as error:
            raise UsageError(
                f"{text!r} is no list of write ids ({error}); it looks like 'default.orders:7:5:5,6:3'"
            ) from None

    def __str__(self) -> str:
        least = min(self.open, default=_MOST)
        return f"{self.high_watermark}:{least}:{_text(self.open)}:{_text(self.aborted)}"

    def is_visible(self, write_id: int) -> bool:
        """Whether rows of `write_id` are there."""
        return write_id <= self.high_watermark and not (
            _count(self.open, write_id, write_id) or _count(self.aborted, write_id, write_id)
        )

    def is_aborted(self, write_id: int) -> bool:
        """Whether it is known to have been given up."""
        return _count(self.aborted, write_id, write_id) > 0

    def visible(self, first: int, last: int) -> Share:
        """Whether all ids from `first` to `last`, both included, are visible, or some, or none."""
        known = min(last, self.high_watermark)
        beyond = max(0, last - max(first - 1, self.high_watermark))
        hidden = beyond + _count(self.open, first, known) + _count(self.aborted, first, known)
        return _share(last - first + 1 - hidden, last - first + 1)

    def aborted_of(self, first: int, last: int) -> Share:
        """Whether all ids from `first` to `last`, both included, were aborted, or some, or none."""
        return _share(_count(self.aborted, first, last), last - first + 1)

    def has_open_up_to(self, write_id: int) -> bool:
        """Whether an id up to this one is open, or above the high watermark: not all history is known."""
        return write_id > self.high_watermark or bisect_right(self.open, write_id) > 0

    def has_open(self, first: int, last: int) -> bool:
        """Whether an id from `first` to `last`, both included, is open, or above the high watermark."""
        return last > self.high_watermark or _count(self.open, first, last) > 0

    @property
    def hidden(self) -> tuple[int, ...]:
        """The ids up to the high watermark that are not visible, sorted."""
        return tuple(sorted(one for one in (*self.open, *self.aborted) if one <= self.high_watermark))


def _ids(name: str, given: Iterable[int]) -> tuple[int, ...]:
    if not isinstance(given, Iterable):
        raise UsageError(f"{name} write ids are several integers, not {given!r}")
    found = tuple(given)
    for one in found:
        if type(one) is not int or not 0 < one <= _MOST:
            raise UsageError(f"{name} write ids are integers of 1 to 2^63 - 1, not {one!r}")
    return tuple(sorted(set(found)))


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):  # Python's own takes other digits, and underscores
        raise ValueError(f"{text!r} is no number")
    return int(text)


def _listed(text: str) -> tuple[int, ...]:
    return tuple(_number(part) for part in text.split(",")) if text else ()


def _text(ids: tuple[int, ...]) -> str:
    return ",".join(map(str, ids))


def _count(ids: tuple[int, ...], first: int, last: int) -> int:
    return max(0, bisect_right(ids, last) - bisect_left(ids, first))


def _share(count: int, total: int) -> Share:
    return "none" if count == 0 else "all" if count == total else "some"
