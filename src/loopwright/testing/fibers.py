"""A scheduler that never waits: what goes on next is drawn from a seed.

A `Fiber` is one thing that runs: a coroutine that is stepped, or a plain function that is called. Rules:

- one of those that can go on is drawn and makes one step; nothing else decides an order;
- time passes only when nothing can go on: it jumps to the next moment somebody waits for;
- a plain function may stand still in the middle. The first that does has the scheduler's own thread, and others go on
  in a loop on top of it; one that begins meanwhile has a thread of its own. One thread moves at a time and says which
  is the next, so the machine decides nothing;
- a plain function cannot be stopped, it can only be told (`cancelled`).
"""

from __future__ import annotations

import asyncio
from _thread import allocate_lock
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, ContextVar
from random import Random
from typing import Any, cast

from loopwright.drive.threads import start
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

    def is_over(self, time: float) -> bool:
        return (self.until is not None and self.until <= time) or (self.ready is not None and self.ready())


class Fiber:
    """One thing that runs, what it waits for, and how it ended."""

    __slots__ = (
        "_resumed",
        "_stands",
        "above",
        "begun",
        "below",
        "cancelled",
        "context",
        "coroutine",
        "done",
        "error",
        "function",
        "has_thread",
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
        self.function: Any = None if self.coroutine is not None else work
        self._resumed, self._stands = allocate_lock(), allocate_lock()
        self._resumed.acquire()
        self._stands.acquire()
        self.begun = False
        """Of a function: whether it was called."""
        self.has_thread = False
        """Of a function: whether it has a thread of its own."""
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
        """Whether it waits for nothing that has not come about."""
        return not self.running and (self.wait is None or self.wait.is_over(time))

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
                self._call()
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

    def _call(self) -> None:
        """Call the function, or let its thread move until it stands still or ends."""
        if not self.has_thread:
            self.begun = True
            self.result = self.context.run(self.function)
            self.done = True
            return
        if self.begun:
            self.wait = None
            self._resumed.release()
        else:
            self.begun = True
            start(self._body)
        self._stands.acquire()

    def _body(self) -> None:
        try:
            self.result = self.context.run(self.function)
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits for it
            self.error = error
        self.done = True
        self._stands.release()

    def stand_still(self, wait: Wait) -> None:
        """On a function's own thread: wait, and let others go on."""
        self.wait = wait
        self._stands.release()
        self._resumed.acquire()
        error, self.next_error = self.next_error, None
        if error is not None:
            raise error

    def outcome(self) -> Any:
        """The result, or the error raised."""
        if self.error is not None:
            raise self.error
        return self.result

    def kill(self, error: BaseException) -> None:
        """Raise `error` in it, again and again, until it is gone."""
        if self.begun and self.has_thread:
            while not self.done:
                self.next_error = error
                self._call()
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
        self.loops: list[Fiber | None] = []
        """Who stands still below each loop that runs on top of another: the innermost last."""
        self._here: Fiber | None = None
        """The function that has the scheduler's own thread."""

    def start(
        self, work: Coroutine[Any, Any, Any] | Callable[[], Any], context: Context, *, stoppable: bool = False
    ) -> Fiber:
        """Begin something; it makes its first step when it is drawn."""
        fiber = Fiber(work, context, stoppable=stoppable)
        self.fibers.append(fiber)
        return fiber

    def turn(self) -> Fiber | None:
        """Let one fiber go on, or time pass. Returns the one that stands still right below this loop, if drawn."""
        fiber = self._drawn()
        if fiber is None or fiber is self._here:
            return fiber
        if fiber.function is not None and not fiber.begun:
            fiber.has_thread = self._here is not None
            if not fiber.has_thread:
                self._here = fiber
        fiber.step()
        if fiber.done:
            self.fibers.remove(fiber)
            if fiber is self._here:
                self._here = None
        return None

    def stand_still(self, fiber: Fiber, wait: Wait, turn: Callable[[], Fiber | None]) -> None:
        """On the scheduler's own thread: let others go on (`turn`) until `fiber` has waited and is drawn."""
        fiber.wait, fiber.running = wait, False
        self.loops.append(fiber)
        try:
            while turn() is not fiber:
                pass
        finally:
            self.loops.pop()
            fiber.wait, fiber.running = None, True

    def _drawn(self) -> Fiber | None:
        here = self._here if not self.loops or self.loops[-1] is not self._here else None
        ready = [fiber for fiber in self.fibers if fiber is not here and fiber.can_go_on(self.time)]
        if ready:
            return ready[0] if len(ready) == 1 else ready[int(self.random.random() * len(ready))]
        waiting = [fiber for fiber in self.fibers if fiber.wait is not None and not fiber.running]
        moments = [fiber.wait.until for fiber in waiting if fiber.wait is not None and fiber.wait.until is not None]
        if not moments:
            raise InternalError("Nothing in the simulation can go on: everybody waits for somebody else.")
        self.time = max(self.time, min(moments))
        return None

    def kill_all(self, error: BaseException) -> None:
        """Nothing that runs goes on: each gets `error`, the youngest first."""
        while self.fibers:
            self.fibers.pop().kill(error)
