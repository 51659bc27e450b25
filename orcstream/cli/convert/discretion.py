"""What errors may say of texts that are converted, where columns are to be encrypted or masked.

Knows which columns are hidden. Must not know how texts are read. Errors of writing are seen to by
`codec.encode.discretion`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Discretion:
    """`columns` are the names of top-level columns that are hidden, or hold what is."""

    columns: frozenset[str] = frozenset()

    def told(self, text: str, instead: str, column: str | None = None) -> str:
        """`text`, which may show values of the column, or of any; or `instead`, if one of them is hidden."""
        if not self.columns or (column is not None and column not in self.columns):
            return text
        return f"{instead}; what is encrypted or masked is not shown"
