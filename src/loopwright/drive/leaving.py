"""The end of a run on an event loop whose stream was dropped instead of closed.

Rules:

- its clean-up begins at once, and if it has to wait for something, a task goes on with it;
- that task is the current one from the first step on: what a clean-up enters (a cancel scope of anyio's,
  `asyncio.timeout`) may only be left by the task that has entered it;
- it happens on the run's own loop, though the garbage collector may drop a stream on any thread;
- when that loop is closed, nothing can be waited for: each wait ends with the run's cancellation, and nobody is told of
  errors that only say that there is no loop;
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, Protocol

from loopwright.errors import RunCancelled

__all__ = ["abandon", "abandoned_at"]

_MOST_WAITS = 100
"""How often a clean-up without a loop may try to wait for one more thing."""
_CLOSED_BEFORE = "cannot reuse already awaited coroutine"
"""What Python says to a coroutine that waits for one which the collector has closed."""


class _Steps(Protocol):
    """A core coroutine and how it is stepped, `aio._Steps`."""

    coroutine: Coroutine[Any, Any, Any]
    enter: Callable[..., Any]

    def step(self, step: Callable[[Any], Any], value: Any) -> Generator[Any, Any, bool]: ...


_ending: dict[asyncio.Task[None], Any] = {}
"""Clean-ups that nobody waits for, and the place of each."""


def abandoned_at(place: Any) -> list[asyncio.Task[None]]:
    """The clean-ups on the running loop that are not over, of runs that wrote at `place`."""
    loop = asyncio.get_running_loop()
    return [task for task, where in list(_ending.items()) if where == place and task.get_loop() is loop]


def abandon(steps: _Steps, loop: asyncio.AbstractEventLoop | None, place: Any) -> None:
    """End a run that nobody reads any more. `loop` is where it has waited, None if it never had to."""
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        running = None
    home = loop or running
    if home is None or home.is_closed():
        with suppress(RuntimeError) if home else nullcontext():  # it says that there is no loop
            _end_without_loop(steps)
    elif home is running:
        _end_on(home, steps, place)
    else:
        home.call_soon_threadsafe(_end_on, home, steps, place)


def _end_on(loop: asyncio.AbstractEventLoop, steps: _Steps, place: Any) -> None:
    ending = _Ending(_to_the_end(steps))
    task = loop.create_task(ending)
    _ending[task] = place
    task.add_done_callback(_ending.pop)
    with _as_current(loop, task):
        ending.begin()


@contextmanager
def _in_any_order() -> Generator[None, None, None]:
    """A stream that is part of a cycle may be dropped after what its run was waiting in: that is closed by then."""
    try:
        yield
    except RuntimeError as error:
        if str(error) != _CLOSED_BEFORE:
            raise


def _to_the_end(steps: _Steps) -> Generator[Any, Any, None]:
    with _in_any_order(), suppress(RunCancelled):
        paused = yield from steps.step(steps.coroutine.throw, RunCancelled())
        while paused:
            paused = yield from steps.step(steps.coroutine.send, None)


class _Ending(Coroutine[Any, Any, None]):
    """A coroutine for a task, which may have taken its first step before the task takes it."""

    __slots__ = ("_first", "_work")

    def __init__(self, work: Generator[Any, Any, None]) -> None:
        self._work = work
        self._first: Callable[[], Any] | None = None

    def begin(self) -> None:
        """Run to the first wait now. Whatever comes of it, the task will hear of it."""
        try:
            yielded = self._work.send(None)
        except BaseException as error:  # noqa: BLE001 - the end, or what went wrong: it is the task's
            self._first = _raising(error)
        else:
            self._first = lambda: yielded

    def send(self, value: Any) -> Any:
        first, self._first = self._first, None
        return self._work.send(value) if first is None else first()

    def throw(self, *error: Any) -> Any:
        self._first = None
        return self._work.throw(*error)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, None]:
        return self._work


def _raising(error: BaseException) -> Callable[[], Any]:
    def again() -> Any:
        raise error

    return again


@contextmanager
def _as_current(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> Generator[None, None, None]:
    """Step on behalf of `task`, by the functions that asyncio has for those who step tasks themselves."""
    current = asyncio.current_task(loop)
    if current is not None:
        asyncio._leave_task(loop, current)
    asyncio._enter_task(loop, task)
    try:
        yield
    finally:
        asyncio._leave_task(loop, task)
        if current is not None:
            asyncio._enter_task(loop, current)


def _end_without_loop(steps: _Steps) -> None:
    with _in_any_order(), suppress(RunCancelled, StopIteration):
        for _ in range(_MOST_WAITS):
            steps.enter(steps.coroutine.throw, RunCancelled())
        steps.coroutine.close()
