"""A coroutine of the user's on an event loop, and who has cancelled it.

Both worlds run hooks and tools through a `Guest`, so that both end alike (plain functions do by `threads.its_own`):

- `CancelledError` that nobody asked for (raised by the coroutine itself, or by a task it has waited for) is an error of
  the coroutine's like any other, and reaches the run as a `RuntimeError`;
- a cancellation that was asked for counts, whatever the coroutine makes of it: one that returns, or raises something
  else, ends with the cancellation all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

from loopwright.drive.steps import InContext

__all__ = ["Guest", "own_error"]


def own_error(error: BaseException) -> RuntimeError:
    """What a cancellation becomes that nobody has asked for."""
    mended = RuntimeError(
        "CancelledError was raised, and nobody has cancelled its run: what raised it has waited for a task that was "
        "cancelled, or raises the error itself. Catch it there, or raise an error that says what went wrong."
    )
    mended.__cause__ = error
    return mended


class Guest(InContext):
    """Awaitable like `InContext`, for a coroutine that is not ours."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, Any, Any]:
        task = asyncio.current_task()
        requests = 0 if task is None else task.cancelling()
        told: asyncio.CancelledError | None = None
        run, send, throw = self.context.run, self.coroutine.send, self.coroutine.throw
        step, value = send, None
        try:
            while True:
                yielded = run(step, value)
                try:
                    step, value = send, (yield yielded)
                except asyncio.CancelledError as error:
                    step, value = throw, error
                    told = error
                except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to the coroutine
                    step, value = throw, error
        except StopIteration as stop:
            if told is not None and task is not None and task.cancelling() > requests:
                raise told from None
            return stop.value
        except asyncio.CancelledError as error:
            if task is None or task.cancelling() > requests:
                raise
            raise own_error(error) from error
        except Exception:
            if told is not None and task is not None and task.cancelling() > requests:
                raise told from None
            raise
