"""How the user tunes reading from a store: `IoOptions`.

Knows numbers and their limits. Must not know any store; None means "what suits the kind of source".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from orcstream.byterange import CostModel
from orcstream.errors import UsageError

__all__ = ["IoOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class IoOptions:
    """`request_cap` requests at once, `part_bytes` in the longest, `tail_bytes` in the first.

    A failed request is sent again up to `retries` times; each attempt may take `timeout_s` seconds.
    """

    request_cap: int | None = None
    retries: int = 5
    timeout_s: float = 60.0
    part_bytes: int | None = None
    tail_bytes: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("request_cap", 1), ("part_bytes", 1), ("tail_bytes", 1), ("retries", 0)):
            value = getattr(self, name)
            if value is None and name != "retries":
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise UsageError(f"io_options: {name} must be an integer of at least {least}, not {value!r}")
        timeout_s: object = self.timeout_s
        if not isinstance(timeout_s, int | float) or not timeout_s > 0:
            raise UsageError(f"io_options: timeout_s must be above 0, not {timeout_s!r}")

    @classmethod
    def of(cls, value: IoOptions | Mapping[str, Any] | None) -> IoOptions:
        """The options as given by the user: themselves, a dictionary of their fields, or None."""
        if value is None:
            return cls()
        if isinstance(value, cls):
            return value
        if not isinstance(value, Mapping):
            raise UsageError(f"io_options must be IoOptions or a dictionary, not {type(value).__name__}")
        names = [field.name for field in fields(cls)]
        for name in value:
            if name not in names:
                raise UsageError(f"io_options: unknown option {name!r}; there are {', '.join(names)}")
        return cls(**value)

    def tune(self, cost: CostModel) -> CostModel:
        """`cost` with what the user decided."""
        return replace(
            cost,
            request_cap=self.request_cap or cost.request_cap,
            part_bytes=self.part_bytes or cost.part_bytes,
            tail_bytes=self.tail_bytes or cost.tail_bytes,
        )
