"""What `open`, `create` and `ingest` answer before anybody has waited for it.

Knows how it looks to somebody who forgot to wait: the commonest slip of asynchronous programs. Must not know
what is waited for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

__all__ = ["Pending"]


class Pending:
    """Awaited or entered by whoever made it; `made_by` is the function that did."""

    made_by: ClassVar[str]

    def __repr__(self) -> str:
        return f"<{self._not_yet}>"

    @property
    def _not_yet(self) -> str:
        call = f"orcstream.{self.made_by}(...)"
        return f"{call} that was not waited for: write `async with {call} as ...` or `await {call}`"

    if not TYPE_CHECKING:  # or every name would be one

        def __getattr__(self, name: str) -> object:
            raise AttributeError(f"no {name!r} yet, of {self._not_yet}", name=name, obj=self)
