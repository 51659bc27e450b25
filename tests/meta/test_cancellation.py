"""The rule of cancellation in docs/design.md: who may catch one, who may cause one, and what none interrupts.

`testing` is left out: its checks play the callers, who cancel in both ways.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.meta.tree import PACKAGE, source_files

SOURCES = [
    path for path in source_files("orcstream") if path.suffix == ".py" and path.parent.name != "testing"
]

# Shields stop the cancellations of anyio alone, and are in this one place beside a task of its own.
MAY_SHIELD = {"io/loop/uncancelled.py"}
# The first waits in spite of it and raises it afterwards; the others do so on threads, without one.
MAY_SWALLOW = {"io/loop/uncancelled.py", "blocking/loop.py", "writer/workers.py"}
# The second owns the event loop and all that runs on it.
MAY_CANCEL_TASKS = {"io/loop/uncancelled.py", "blocking/loop.py"}

# What `asyncio` has for waiting with a limit, in groups, or shielded: anyio and `io.loop.uncancelled` do it.
NOT_FROM_ASYNCIO = {"wait_for", "timeout", "timeout_at", "gather", "shield", "TaskGroup"}
# The names of cancel scopes, tickets, timers and futures of threads; what else is cancelled may be a task.
SCOPES = {"scope", "_scope", "cancel_scope", "_looking", "ticket", "timer", "state"}
TAKES_CANCELLATIONS = {"BaseException", "asyncio.CancelledError", "anyio.get_cancelled_exc_class()"}


def shields_in(tree: ast.Module) -> Iterator[int]:
    """The lines of calls with `shield=True`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "shield":
            yield node.value.lineno


def _caught(handler: ast.ExceptHandler) -> set[str]:
    if handler.type is None:
        return {"BaseException"}
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return {ast.unparse(one) for one in types}


def swallowed_in(tree: ast.Module) -> Iterator[int]:
    """The lines of handlers that take a cancellation and raise nothing."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Try):
            for handler in node.handlers:
                if not _caught(handler) & TAKES_CANCELLATIONS:
                    continue
                if not any(isinstance(one, ast.Raise) for part in handler.body for one in ast.walk(part)):
                    yield handler.lineno
                break  # those after it get none any more
        elif (
            isinstance(node, ast.Call)
            and ast.unparse(node.func).split(".")[-1] == "suppress"
            and TAKES_CANCELLATIONS & {ast.unparse(one) for one in node.args}
        ):
            yield node.lineno


def cancels_in(tree: ast.Module) -> Iterator[int]:
    """The lines where something is cancelled that is no scope."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "cancel":
            target = node.func.value
            name = target.attr if isinstance(target, ast.Attribute) else ast.unparse(target)
            if name not in SCOPES:
                yield node.lineno


def foreign_waits_in(tree: ast.Module) -> Iterator[int]:
    """The lines that use another way to wait, or to name a cancellation, than ours."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "asyncio":
            if node.attr in NOT_FROM_ASYNCIO:
                yield node.lineno
        elif (isinstance(node, ast.Attribute) and node.attr == "get_cancelled_exc_class") or (
            isinstance(node, ast.ImportFrom) and node.module == "asyncio"
        ):
            yield node.lineno


def _users(rule: Callable[[ast.Module], Iterator[int]]) -> set[str]:
    return {
        str(path.relative_to(PACKAGE)) for path in SOURCES if list(rule(ast.parse(Path(path).read_text())))
    }


@pytest.mark.parametrize(
    ("rule", "broken", "kept"),
    [
        (shields_in, "with anyio.CancelScope(shield=True):\n    pass", "with anyio.CancelScope():\n    pass"),
        (swallowed_in, "try: f()\nexcept: pass", "try: f()\nexcept: raise"),
        (swallowed_in, "try: f()\nexcept BaseException: pass", "try: f()\nexcept Exception: pass"),
        (
            swallowed_in,
            "try: f()\nexcept (OSError, asyncio.CancelledError): g()",
            "try: f()\nexcept asyncio.CancelledError: raise\nexcept BaseException: pass",
        ),
        (swallowed_in, "with contextlib.suppress(BaseException): f()", "with suppress(OSError): f()"),
        (cancels_in, "self._task.cancel()", "self._scope.cancel()"),
        (cancels_in, "task.cancel()", "tasks.cancel_scope.cancel()"),
        (foreign_waits_in, "asyncio.wait_for(f(), 1)", "asyncio.wait([task])"),
        (foreign_waits_in, "from asyncio import timeout", "from anyio import fail_after"),
        (foreign_waits_in, "anyio.get_cancelled_exc_class()", "asyncio.CancelledError"),
    ],
)
def test_the_rules_notice(rule: Callable[[ast.Module], Iterator[int]], broken: str, kept: str) -> None:
    assert list(rule(ast.parse(broken)))
    assert not list(rule(ast.parse(kept)))


@pytest.mark.parametrize(
    ("rule", "allowed"),
    [
        (shields_in, MAY_SHIELD),
        (swallowed_in, MAY_SWALLOW),
        (cancels_in, MAY_CANCEL_TASKS),
        (foreign_waits_in, set()),
    ],
)
def test_the_rules_are_kept(rule: Callable[[ast.Module], Iterator[int]], allowed: set[str]) -> None:
    assert _users(rule) == allowed
