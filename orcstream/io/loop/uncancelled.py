"""Calls that run to their end, whoever is cancelled while waiting for them.

Knows both kinds of cancellation. Must not know what the calls do. anyio's scopes heed a shield; asyncio's own
`cancel`, of `wait_for`, `timeout` and a loop that ends, knows none, so that a call gets a task of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import anyio

T = TypeVar("T")


async def until_over(call: Coroutine[Any, Any, T], *, name: str | None = None) -> T:
    """What the call answers. A cancellation is raised when the call is over, whatever it answered."""
    task = asyncio.create_task(call, name=name)
    try:
        await until_done(task)
    except asyncio.CancelledError:
        if not task.cancelled():
            task.exception()  # nobody else looks at it
        raise
    return task.result()


async def until_done(work: asyncio.Future[Any]) -> None:
    """Wait for it, however often this is cancelled; then raise the last cancellation, if it was asyncio's."""
    cancelled = None
    with anyio.CancelScope(shield=True):
        while not work.done():
            try:
                await asyncio.wait([work])
            except asyncio.CancelledError as error:
                cancelled = error
    if cancelled is not None:
        raise cancelled


async def end_task(task: asyncio.Task[Any]) -> None:
    """Cancel a task that has no cancel scope, and wait for its end."""
    task.cancel()
    await until_done(task)


async def clean_up(error: BaseException, work: Callable[[], Awaitable[object]], failing: str = "") -> None:
    """Clean up because of `error`; where that fails, `error` gets a note, because it came first.

    `failing` begins the note. `work` goes through `until_over` by itself.
    """
    try:
        await work()
    except Exception as failure:  # noqa: BLE001 - it is in the note
        error.add_note(f"{failing}: {failure}" if failing else str(failure))
