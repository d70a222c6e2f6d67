"""A simulated process: what runs in it, its clock, its ids, and the accidents that befall it.

It knows nothing of graphs. `simulated.py` runs the core in it, `simulation.py` is what a test sees.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextvars import Context, copy_context
from random import Random
from typing import Any

from loopwright.errors import RunCancelled
from loopwright.testing.faults import POSSIBLE, Effect, Faults, Injected, InjectedError, SimulatedCrash
from loopwright.testing.fibers import Fiber, Scheduler, Wait, current_fiber

__all__ = ["Accident", "Process"]

_processes = itertools.count(1)


class Process:
    """One simulated process. After a crash it is a new one with the same clock and the same luck."""

    def __init__(self, seed: int | str, faults: Faults, start: float) -> None:
        self.faults = faults
        self.random = Random(seed)
        self.injected: list[Injected] = []
        self.effects = 0
        """How many there have been."""
        self.dead = False
        self._scheduler = Scheduler(self.random, start)
        self._root: Fiber | None = None
        self._cancel: BaseException | None = None
        self._ids = itertools.count(1)
        self._number = next(_processes)

    # -- what runs --------------------------------------------------------------------------------------------------

    def start(
        self, work: Coroutine[Any, Any, Any] | Callable[[], Any], context: Context, *, stoppable: bool = False
    ) -> Fiber:
        """Begin something beside what runs."""
        return self._scheduler.start(work, context, stoppable=stoppable)

    def wait_for(self, wait: Wait) -> None:
        """Let things happen until `wait` is over. Raises `SimulatedCrash` once the process is dead."""
        fiber = current_fiber.get()
        if fiber is None or fiber.function is None or not fiber.running:
            self._scheduler.loops.append(None)
            try:
                while not wait.is_over(self.time):
                    self.turn()
            finally:
                self._scheduler.loops.pop()
        elif fiber.has_thread:
            fiber.stand_still(wait)
            if self.dead:
                raise SimulatedCrash
        else:
            self._scheduler.stand_still(fiber, wait, self.turn)

    def turn(self) -> Fiber | None:
        """`Scheduler.turn`. Raises `SimulatedCrash` once the process is dead."""
        root = self._root
        if self._cancel is not None and root is not None and not root.running and not root.done:
            error, self._cancel = self._cancel, None
            root.throw(error)
        drawn = None if self.dead else self._scheduler.turn()
        if self.dead:
            raise SimulatedCrash
        return drawn

    def to_the_end(self, coroutine: Coroutine[Any, Any, Any], context: Context) -> Any:
        """Run a coroutine and return its result."""
        fiber = self._begin(coroutine, context)
        try:
            self.wait_for(Wait(lambda: fiber.done))
        except SimulatedCrash:
            self._drop(fiber)
            raise
        return fiber.outcome()

    def shown(self, make: Callable[[], Coroutine[Any, Any, Any]], items: deque[Any], context: Context) -> Iterator[Any]:
        """Run what `make` makes, and yield what it puts into `items`, each before anything else happens."""
        fiber = self._begin(make(), context)
        try:
            while not fiber.done:
                self.wait_for(Wait(lambda: fiber.done or bool(items)))
                while items:
                    yield items.popleft()
        except SimulatedCrash:
            self._drop(fiber)
            raise
        finally:
            if not fiber.done and not self.dead:  # the reader has left
                fiber.throw(RunCancelled())
                self.wait_for(Wait(lambda: fiber.done))
        fiber.outcome()

    def _begin(self, coroutine: Coroutine[Any, Any, Any], context: Context) -> Fiber:
        """Begin a run. The one that no other has begun is the one that is cancelled."""
        fiber = self.start(coroutine, context)
        if fiber.above is None:
            self.dead, self._cancel, self._root = False, None, fiber
        return fiber

    def _drop(self, fiber: Fiber) -> None:
        """After a crash nothing is left. An inner run leaves that to the outermost, on whose stack it stands."""
        if fiber.above is None:
            self._scheduler.kill_all(SimulatedCrash())

    def close(self) -> None:
        """Drop what was left behind: functions that have outlived a timeout, say."""
        self.dead = True
        self._scheduler.kill_all(SimulatedCrash())

    # -- time and ids -----------------------------------------------------------------------------------------------

    @property
    def time(self) -> float:
        """Seconds since the epoch."""
        return self._scheduler.time

    def sleep(self, seconds: float) -> None:
        """Wait in a plain function; others go on meanwhile."""
        until = self.time + seconds
        fiber = current_fiber.get()
        if fiber is None or fiber.function is None:
            self.start(self.asleep(seconds), copy_context())
        self.wait_for(Wait(until=until))

    async def asleep(self, seconds: float) -> None:
        """Wait in a coroutine."""
        await Wait(until=self.time + seconds)

    def new_id(self) -> str:
        """A unique id."""
        return f"{self._number:08x}-0000-4000-8000-{next(self._ids):012x}"

    # -- accidents --------------------------------------------------------------------------------------------------

    def draw(self, effect: Effect, what: str, *, asynchronous: bool = False) -> Accident | None:
        """One more effect: what goes wrong once it is done, None if nothing does.

        Raises what goes wrong before it is done, and `SimulatedCrash` in a process that is dead.
        """
        if self.dead:
            raise SimulatedCrash
        self.effects += 1
        faults = self.faults
        if len(self.injected) >= faults.most or (faults.at is not None and effect not in faults.at):
            return None
        lot = self.random.random()
        for fault in POSSIBLE[effect]:
            lot -= getattr(faults, fault)
            if lot < 0:
                break
        else:
            return None
        injected = Injected(self.effects, fault, effect, what)
        self.injected.append(injected)
        if fault == "cancel":
            kinds = (asyncio.CancelledError, RunCancelled) if asynchronous else (RunCancelled, KeyboardInterrupt)
            self._cancel = self.random.choice(kinds)()
            return None
        accident = Accident(self, injected)
        if self.random.random() < 0.5:
            accident.strike()
        return accident

    def die(self) -> None:
        """It is killed: nothing goes on, and nothing that tries to do something gets anything done."""
        self.dead = True
        raise SimulatedCrash


class Accident:
    """A fault at one effect."""

    __slots__ = ("injected", "process")

    def __init__(self, process: Process, injected: Injected) -> None:
        self.process, self.injected = process, injected

    @property
    def delay_s(self) -> float:
        """By how much the effect comes later."""
        return self.process.faults.slow_s if self.injected.fault == "slow" else 0.0

    def strike(self) -> None:
        """Raise what it raises."""
        if self.injected.fault == "crash":
            self.process.die()
        if self.injected.fault == "error":
            raise InjectedError(f"injected: {self.injected}")
