"""How the user tunes reading from a store: `IoOptions`.

Knows numbers and their limits. Must not know any store; None means "what suits the kind of source".
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar, cast

from orcstream._keywords import check_integer
from orcstream.byterange import CostModel
from orcstream.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class IoOptions:
    """`request_cap` requests at once, `part_bytes` in the longest, `tail_bytes` in the first.

    A failed request is sent again up to `retries` times. An attempt is given up when nothing arrives for
    `stall_timeout_s` seconds (S3, HTTP and WebHDFS), and when it is not over after `timeout_s` seconds, plus
    one for each 64 KiB that are asked for.
    Which gaps are read and how long parts are follows from the store's latency and bandwidth: measured while
    reading, unless `adaptive` is False (then a read's requests are the same each time), or as named by
    `latency_s` (seconds for one request) and `bandwidth` (bytes a second, all connections together).
    With `hedge`, a request that takes longer than 99 in 100 like it did is sent a second time, at most one
    in 100; the first answer counts.
    """

    request_cap: int | None = None
    retries: int = 5
    timeout_s: float = 60.0
    stall_timeout_s: float = 10.0
    part_bytes: int | None = None
    tail_bytes: int | None = None
    adaptive: bool = True
    hedge: bool = False
    latency_s: float | None = None
    bandwidth: float | None = None

    def __post_init__(self) -> None:
        check_options(
            self,
            "io_options",
            integers={"request_cap": 1, "part_bytes": 1, "tail_bytes": 1, "retries": 0},
            numbers=("timeout_s", "stall_timeout_s", "latency_s", "bandwidth"),
            flags=("adaptive", "hedge"),
            may_be_none=("request_cap", "part_bytes", "tail_bytes", "latency_s", "bandwidth"),
        )
        if max(self.latency_s or 0, self.bandwidth or 0) == math.inf:
            raise UsageError("io_options: latency_s and bandwidth must be finite")

    @classmethod
    def of(cls, value: IoOptions | Mapping[str, Any] | None) -> IoOptions:
        """The options as given by the user: themselves, a dictionary of their fields, or None."""
        return options_of(cls, "io_options", value)

    def tune(self, cost: CostModel) -> CostModel:
        """`cost` with what the user decided; what the user names is not measured."""
        named = self.latency_s is not None or self.bandwidth is not None
        return replace(
            cost,
            request_cap=self.request_cap or cost.request_cap,
            part_bytes=self.part_bytes or cost.part_bytes,
            tail_bytes=self.tail_bytes or cost.tail_bytes,
            latency_s=cost.latency_s if self.latency_s is None else self.latency_s,
            bandwidth=self.bandwidth or cost.bandwidth,
            adaptive=cost.adaptive and self.adaptive and not named,
        )


def check_options(
    options: object,
    of: str,
    *,
    integers: Mapping[str, int],
    numbers: Collection[str],
    flags: Collection[str],
    may_be_none: Collection[str] = (),
) -> None:
    """Raise `UsageError` for values that `options` of this name cannot have.

    `integers` have a least value, `numbers` are above 0, and `flags` are True or False.
    """
    for name in (*integers, *numbers, *flags):
        value = getattr(options, name)
        if value is None and name in may_be_none:
            continue
        if name in integers:
            check_integer(f"{of}: {name}", value, integers[name])
        elif name in flags:
            if not isinstance(value, bool):
                raise UsageError(f"{of}: {name} must be True or False, not {value!r}")
        elif not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
            raise UsageError(f"{of}: {name} must be above 0, not {value!r}")


_Options = TypeVar("_Options")


def options_of(cls: type[_Options], name: str, value: _Options | Mapping[str, Any] | None) -> _Options:
    """Options of a dataclass as a user gives them in the parameter `name`; UsageError for unknown ones."""
    if value is None:
        return cls()
    if isinstance(value, cls):
        return value
    if not isinstance(value, Mapping):
        raise UsageError(f"{name} must be {cls.__name__} or a dictionary, not {type(value).__name__}")
    known = [field.name for field in fields(cast("Any", cls))]
    for given in value:
        if given not in known:
            raise UsageError(f"{name}: unknown option {given!r}; there are {', '.join(known)}")
    return cls(**value)


def unknown_option(error: Exception) -> str:
    """What a library says of an option that it does not know; empty of everything else."""
    found = (
        re.search(r"unexpected keyword argument '(\w+)'", str(error))
        if isinstance(error, TypeError)
        else None
    )
    return f"there is no option {found[1]!r}" if found else ""


def plain_options(given: object) -> dict[str, Any]:
    """Return storage options as a dictionary of their own; none of them is in the error for others."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise UsageError(
            "storage_options must be a dictionary with names of options as keys, such as {'anon': True}, not "
            f"a {type(given).__name__}"
        )
    return dict(given)
