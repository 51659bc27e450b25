"""What is said of data that cannot be written as it is.

Knows how errors name columns and rows. Must not know any form of data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn, TypeAlias

from orcstream.errors import SchemaMismatch, Unsupported
from orcstream.schema.types import Type

Path: TypeAlias = tuple[str, ...]


def refuse(path: Path, type_: Type | None, problem: str, row: int | None = None) -> NoReturn:
    """Raise the SchemaMismatch of a column, and of one of its rows."""
    subject = f"the column {'.'.join(path)!r}" if path else "the data"
    raise SchemaMismatch(f"{subject} {problem}", column=None if type_ is None else type_.column_id, row=row)


@contextmanager
def row_of(owner: Callable[[int], int]) -> Iterator[None]:
    """Errors about values below speak of the row that they belong to."""
    try:
        yield
    except SchemaMismatch as error:
        if error.row is not None:
            error.row = owner(error.row)
        raise


def too_large(what: str) -> Unsupported:
    """The error of a vector that cannot be so large."""
    return Unsupported(
        f"{what} for one vector, which holds 2^31 - 1 at most; hand in fewer rows at a time",
        reason="vector_too_large",
    )
