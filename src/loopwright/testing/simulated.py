"""The third world: the core in a simulated process, by the same port as in the two real ones.

A plain function is a fiber of its own, as it would have a thread of its own, and so is each task and each coroutine of
the user's. All of them are effects, at which the process may have an accident. What differs between blocking and
asyncio for a user (which function of a pair is taken, what can be stopped and what is only told) is played by
`asynchronous`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextvars import Context, copy_context
from typing import Any, Final, TypeVar, cast

from loopwright.drive.outbox import Outbox
from loopwright.drive.steps import InContext
from loopwright.drive.threads import its_own
from loopwright.errors import RunCancelled
from loopwright.port import Port, World, pause
from loopwright.testing.crashing import CrashingSaver
from loopwright.testing.faults import Effect, SimulatedCrash
from loopwright.testing.fibers import Fiber, Wait, current_fiber
from loopwright.testing.process import Accident, Process

__all__ = ["SimulatedWorld", "SimulationPort"]

T = TypeVar("T")

_GRACE_S: Final = 1.0
"""How long an asynchronous run waits for tasks that it has cancelled."""


class SimulationPort(Port):
    """The simulated world of one run. `asynchronous` says which of the two real worlds it plays."""

    __slots__ = ("asynchronous", "outbox", "process", "reading")
    cancellations = (RunCancelled, asyncio.CancelledError)

    def __init__(self, process: Process, outbox: Outbox | None = None, *, asynchronous: bool = False) -> None:
        self.process = process
        self.asynchronous = asynchronous
        self.outbox = outbox
        self.reading = outbox is not None

    # -- effects ----------------------------------------------------------------------------------------------------

    async def call(
        self,
        function: Callable[..., Any],
        /,
        *args: Any,
        is_async: bool,
        timeout_s: float | None = None,
        **kwargs: Any,
    ) -> Any:
        saving = isinstance(getattr(function, "__self__", None), CrashingSaver)  # which has accidents of its own
        accident = None if saving else self._draw("call", function)
        if is_async:
            work = self._befallen(lambda: function(*args, **kwargs), accident)
            fiber = self.process.start(work, copy_context(), stoppable=True)
        else:
            fiber = self._start_plain(lambda: function(*args, **kwargs), accident)
        return await self._join(fiber, timeout_s)

    async def consume(
        self,
        plain: Callable[[], Iterator[T]] | None,
        coro: Callable[[], AsyncIterator[T]] | None,
        take: Callable[[T], Any],
        timeout_s: float | None = None,
    ) -> None:
        if coro is not None and (self.asynchronous or plain is None):
            work = self._read(coro(), take)
        else:
            work = self._read(_as_async(cast(Callable[[], Iterator[T]], plain)()), take)
        await self._join(self.process.start(work, copy_context(), stoppable=True), timeout_s)

    async def _read(self, source: AsyncIterator[T], take: Callable[[T], Any]) -> None:
        try:
            while True:
                accident = self._draw("item", source)
                if accident is not None and accident.delay_s:
                    await self.process.asleep(accident.delay_s)
                try:
                    item = await anext(source)
                except StopAsyncIteration:
                    return
                if accident is not None:
                    accident.strike()
                take(item)
                await self.pause()
        finally:
            close = getattr(source, "aclose", None)
            if close is not None:
                await close()

    async def gather(
        self, coroutines: Sequence[Coroutine[Any, Any, T]], limit: int | None = None
    ) -> list[T | BaseException]:
        waiting = list(reversed(list(enumerate(coroutines))))
        width = min(limit or len(waiting), len(waiting))
        results: list[Any] = [None] * len(waiting)
        running: dict[int, Fiber] = {}
        try:
            accident = self._draw("gather", f"{len(waiting)} tasks")
            while waiting or running:
                while waiting and len(running) < width:
                    index, coroutine = waiting.pop()
                    running[index] = self._start_core(coroutine)
                await Wait(lambda: any(fiber.done for fiber in running.values()))
                for index in [index for index, fiber in running.items() if fiber.done]:
                    fiber = running.pop(index)
                    results[index] = fiber.error if fiber.error is not None else fiber.result
            if accident is not None:
                accident.strike()
        finally:
            for _, coroutine in waiting:
                coroutine.close()
            await self._stop(list(running.values()))
        return results

    async def within(self, coroutine: Coroutine[Any, Any, T], timeout_s: float) -> T:
        return cast(T, await self._join(self._start_core(coroutine), timeout_s))

    def beside(self, coroutine: Coroutine[Any, Any, Any]) -> Fiber:
        return self._start_core(coroutine)

    async def settled(self, one: Fiber) -> None:
        await Wait(lambda: one.done)
        one.outcome()

    async def rung(self, listen: Callable[[Callable[[], bool]], object]) -> None:
        heard: list[bool] = []

        def ring() -> bool:
            heard.append(True)
            return True

        listen(ring)
        await Wait(lambda: bool(heard))

    async def bridge(
        self,
        hook: Callable[..., Any],
        inner: Callable[..., Awaitable[Any]],
        /,
        *args: Any,
        is_async: bool,
    ) -> Any:
        accident = self._draw("hook", hook)
        if is_async:
            work = self._befallen(lambda: hook(*args, inner), accident)
            return await self._join(self.process.start(work, copy_context(), stoppable=True), None)
        given_up: list[bool] = []

        def handler(*a: Any, **k: Any) -> Any:
            if given_up:
                raise RunCancelled
            return self.process.to_the_end(_called(inner, a, k), copy_context())

        try:
            return await self._join(self._start_plain(lambda: hook(*args, handler), accident), None)
        finally:
            given_up.append(True)

    async def sleep(self, seconds: float) -> None:
        accident = self._draw("sleep", f"{seconds:g} s")
        await self.process.asleep(seconds + (0.0 if accident is None else accident.delay_s))
        if accident is not None:
            accident.strike()

    async def pause(self) -> None:
        if self.process.dead:
            raise SimulatedCrash
        if self.reading:
            await pause()

    def check(self) -> None:
        fiber = current_fiber.get()
        if fiber is not None and fiber.cancelled and not fiber.stoppable:
            raise RunCancelled

    def now(self) -> float:
        return self.process.time

    monotonic = now

    def new_id(self) -> str:
        return self.process.new_id()

    def random(self) -> float:
        return self.process.random.random()

    # -- within -----------------------------------------------------------------------------------------------------

    def _draw(self, effect: Effect, what: Any) -> Accident | None:
        words = what if isinstance(what, str) else _name(what)
        return self.process.draw(effect, words, asynchronous=self.asynchronous)

    def _start_core(self, coroutine: Coroutine[Any, Any, Any]) -> Fiber:
        return self.process.start(coroutine, copy_context(), stoppable=self.asynchronous)

    def _start_plain(self, function: Callable[[], Any], accident: Accident | None = None) -> Fiber:
        process = self.process

        def work() -> Any:
            if accident is not None and accident.delay_s:
                process.sleep(accident.delay_s)
            try:
                result = function()
            except BaseException as error:  # noqa: BLE001 - raised again
                fiber = current_fiber.get()
                raise its_own(error, cancelled=fiber is not None and fiber.cancelled)  # noqa: B904 - mostly the same
            if accident is not None:
                accident.strike()
            return result

        return process.start(work, copy_context())

    async def _befallen(self, make: Callable[[], Awaitable[Any]], accident: Accident | None) -> Any:
        """A coroutine of the user's, and what goes wrong with it."""
        if accident is not None and accident.delay_s:
            await self.process.asleep(accident.delay_s)
        result = await make()
        if accident is not None:
            accident.strike()
        return result

    async def _join(self, fiber: Fiber, timeout_s: float | None) -> Any:
        """Wait for something that was begun. Raises `TimeoutError`; what runs then is left behind."""
        until = None if timeout_s is None else self.process.time + timeout_s
        try:
            await Wait(lambda: fiber.done, until)
        finally:
            if not fiber.done:
                await self._stop([fiber], wait=timeout_s is None)
        if not fiber.done:
            raise TimeoutError
        return fiber.outcome()

    async def _stop(self, fibers: list[Fiber], *, wait: bool = True) -> None:
        """Give up on what still runs; an asynchronous run gives its tasks time to clean up."""
        for fiber in fibers:
            fiber.stop()
        left = [fiber for fiber in fibers if fiber.stoppable]
        if left and wait and self.asynchronous and not self.process.dead:
            await Wait(lambda: all(fiber.done for fiber in left), self.process.time + _GRACE_S)


async def _called(function: Callable[..., Awaitable[Any]], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return await function(*args, **kwargs)


async def _as_async(source: Iterator[T]) -> AsyncIterator[T]:
    for item in source:
        yield item


def _name(function: Any) -> str:
    while hasattr(function, "func"):
        function = function.func
    return getattr(function, "__qualname__", type(function).__qualname__).rpartition("<locals>.")[2]


class SimulatedWorld(World):
    """Where the calls of graphs run that are made in a simulated process."""

    def __init__(self, process: Process) -> None:
        self.process = process

    def port(self, outbox: Outbox | None, *, asynchronous: bool) -> SimulationPort:
        return SimulationPort(self.process, outbox, asynchronous=asynchronous)

    def run(self, coroutine: Coroutine[Any, Any, T], outbox: Outbox | None, context: Context) -> T:
        return cast(T, self.process.to_the_end(coroutine, context))

    async def arun(self, coroutine: Coroutine[Any, Any, T], outbox: Outbox | None, context: Context) -> T:
        return cast(T, await InContext(coroutine, context))

    def stream(self, make: Callable[[], Coroutine[Any, Any, Any]], outbox: Outbox, context: Context) -> Iterator[Any]:
        return self.process.shown(make, outbox.items, context)

    async def astream(
        self, coroutine: Coroutine[Any, Any, Any], outbox: Outbox, context: Context
    ) -> AsyncIterator[Any]:
        fiber, items = self.process.start(coroutine, context, stoppable=True), outbox.items
        try:
            while items or not fiber.done:
                if items:
                    yield items.popleft()
                else:
                    await Wait(lambda: fiber.done or bool(items))
        finally:
            if not fiber.done:
                fiber.throw(RunCancelled())
                if not self.process.dead:
                    await Wait(lambda: fiber.done)
        fiber.outcome()
