"""Running a core coroutine step by step inside a context of its own.

Shared by both drivers: what is left to them is who waits, and on what.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from contextvars import Context
from typing import Any

from loopwright.errors import InternalError, RunCancelled
from loopwright.port import PAUSE

__all__ = ["InContext", "foreign", "unwind"]


class InContext:
    """Awaitable that runs every step of a coroutine inside `context`, so that its variables stay its own."""

    __slots__ = ("context", "coroutine")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], context: Context) -> None:
        self.coroutine = coroutine
        self.context = context

    def __await__(self) -> Generator[Any, Any, Any]:
        run, send, throw = self.context.run, self.coroutine.send, self.coroutine.throw
        step, value = send, None
        while True:
            try:
                yielded = run(step, value)
            except StopIteration as stop:
                return stop.value
            try:
                step, value = send, (yield yielded)
            except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to the coroutine
                step, value = throw, error


def foreign(coroutine: Coroutine[Any, Any, Any]) -> InternalError:
    """The error for a coroutine that waited for something only an event loop can wait for."""
    coroutine.close()
    return InternalError(
        "The blocking driver was asked to wait for an event loop's future. "
        "A user's coroutine function must be called through `port.call`, which runs it on the kept loop."
    )


def unwind(coroutine: Coroutine[Any, Any, Any], context: Context) -> None:
    """Stop a run whose reader has left: raise inside it, then let its cleanup pause as often as it needs."""
    if coroutine.cr_frame is None:  # type: ignore[attr-defined]
        return
    try:
        yielded = context.run(coroutine.throw, RunCancelled())
        while yielded is PAUSE:
            yielded = context.run(coroutine.send, None)
    except (RunCancelled, StopIteration):
        return
    raise foreign(coroutine)
