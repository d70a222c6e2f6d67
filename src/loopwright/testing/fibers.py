"""A scheduler without threads and without waiting: what goes on next is drawn from a seed.

A `Fiber` is one thing that runs: a coroutine that is stepped, or a plain function that is called once. Rules:

- one of those that can go on is drawn and makes one step; nothing else decides an order;
- time passes only when nothing can go on: it jumps to the next moment somebody waits for;
- a plain function that has to wait (for an agent that it calls, say) lets others go on meanwhile. It cannot be stopped
  then, as a thread cannot be: it can only be told (`cancelled`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, ContextVar
from random import Random
from typing import Any, cast

from loopwright.errors import InternalError, RunCancelled
from loopwright.port import PAUSE

__all__ = ["Fiber", "Scheduler", "Wait", "current_fiber"]


class Wait:
    """Await it to stand still until `ready()`, or until a moment in the scheduler's time."""

    __slots__ = ("ready", "until")

    def __init__(self, ready: Callable[[], bool] | None = None, until: float | None = None) -> None:
        self.ready, self.until = ready, until

    def __await__(self) -> Generator[Wait, None, None]:
        yield self


class Fiber:
    """One thing that runs, what it waits for, and how it ended."""

    __slots__ = (
        "above",
        "below",
        "cancelled",
        "context",
        "coroutine",
        "done",
        "error",
        "function",
        "next_error",
        "result",
        "running",
        "stoppable",
        "wait",
    )

    def __init__(
        self, work: Coroutine[Any, Any, Any] | Callable[[], Any], context: Context, *, stoppable: bool
    ) -> None:
        self.coroutine: Coroutine[Any, Any, Any] | None = cast(Any, work) if isinstance(work, Coroutine) else None
        self.function: Any = work
        self.context = context
        self.stoppable = stoppable
        """Whether stopping it throws into it; others are only told."""
        self.above = current_fiber.get()
        """The fiber that has begun it."""
        self.below: list[Fiber] = []
        self.cancelled = False
        self.done = self.running = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.next_error: BaseException | None = None
        """What is thrown into it at its next step."""
        self.wait: Wait | None = None
        if self.above is not None:
            self.above.below.append(self)
            self.cancelled = self.above.cancelled and not self.above.stoppable
        context.run(current_fiber.set, self)

    def can_go_on(self, time: float) -> bool:
        if self.running:
            return False
        wait = self.wait
        if wait is None:
            return True
        return (wait.until is not None and wait.until <= time) or (wait.ready is not None and wait.ready())

    def throw(self, error: BaseException) -> None:
        """Raise `error` in it at its next step, which is due at once."""
        self.next_error, self.wait = error, None

    def stop(self) -> None:
        """Give up on it, and on what it has begun."""
        self.cancelled = True
        if self.done:
            return
        if self.stoppable:
            self.throw(asyncio.CancelledError())
        else:
            for fiber in list(self.below):
                fiber.stop()

    def step(self) -> None:
        """Go on to the next point where it waits, or to the end."""
        self.running = True
        try:
            if self.coroutine is not None:
                self._step(self.coroutine)
            else:
                self.result = self.context.run(self.function)
                self.done = True
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits for it
            self.error, self.done = error, True
        finally:
            self.running = False
            if self.done and self.above is not None:
                self.above.below.remove(self)

    def _step(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        error, self.next_error, self.wait = self.next_error, None, None
        try:
            if error is None:
                yielded = self.context.run(coroutine.send, None)
            else:
                yielded = self.context.run(coroutine.throw, error)
        except StopIteration as stop:
            self.result, self.done = stop.value, True
            return
        if isinstance(yielded, Wait):
            self.wait = yielded
        elif yielded is not PAUSE:
            self.next_error = InternalError(
                f"A coroutine in a simulation waits for {yielded!r:.80}, which only an event loop can give it. "
                "Await simulation.asleep(seconds) where the real thing would wait."
            )
        elif self.cancelled and not self.stoppable:
            self.next_error = RunCancelled()

    def outcome(self) -> Any:
        """The result, or the error raised."""
        if self.error is not None:
            raise self.error
        return self.result

    def kill(self, error: BaseException) -> None:
        """Raise `error` in it, again and again, until it is gone."""
        self.done = True
        while self.coroutine is not None:
            try:
                self.context.run(self.coroutine.throw, error)
            except BaseException:  # noqa: BLE001 - whatever it says, it is gone
                return


current_fiber: ContextVar[Fiber | None] = ContextVar("loopwright_fiber", default=None)
"""The fiber that the running code belongs to."""


class Scheduler:
    """All that runs, and the time."""

    def __init__(self, random: Random, start: float) -> None:
        self.random = random
        self.time = start
        """Seconds since the epoch, as far as runs are concerned."""
        self.fibers: list[Fiber] = []

    def start(
        self, work: Coroutine[Any, Any, Any] | Callable[[], Any], context: Context, *, stoppable: bool = False
    ) -> Fiber:
        """Begin something; it makes its first step when it is drawn."""
        fiber = Fiber(work, context, stoppable=stoppable)
        self.fibers.append(fiber)
        return fiber

    def turn(self) -> None:
        """Let one fiber go on, or time pass."""
        ready = [fiber for fiber in self.fibers if fiber.can_go_on(self.time)]
        if not ready:
            moments = [f.wait.until for f in self.fibers if f.wait and f.wait.until is not None and not f.running]
            if not moments:
                raise InternalError("Nothing in the simulation can go on: everybody waits for somebody else.")
            self.time = max(self.time, min(moments))
            return
        fiber = ready[0] if len(ready) == 1 else ready[int(self.random.random() * len(ready))]
        fiber.step()
        if fiber.done:
            self.fibers.remove(fiber)

    def kill_all(self, error: BaseException) -> None:
        """Nothing that runs goes on: each gets `error`, the youngest first."""
        while self.fibers:
            self.fibers.pop().kill(error)
