"""A clock that moves only when somebody sleeps, so that retries, rate limits and timeouts are tested without waiting.

    with ManualClock() as clock:
        agent.invoke(...)
    assert clock.slept == [1.0, 2.0]

Inside the `with` block every run and every model call of the process lives by it. Rules:

- sleeping through the port, or by `clock.sleep` in a function of your own, moves the clock at once;
- a timeout counts what was slept inside the call it guards; real time counts as well, so a call that really hangs
  still ends;
- sleeps of calls that run at the same time add up on the clock, but not in each other's timeouts.
"""

from __future__ import annotations

import asyncio
from _thread import allocate_lock
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextvars import ContextVar
from typing import Any, Self

from loopwright.drive.aio import AioPort
from loopwright.drive.blocking import BlockingPort
from loopwright.port import Port

__all__ = ["ManualClock"]

_WORLDS: tuple[type[Port], ...] = (BlockingPort, AioPort)
_REPLACED = ("sleep", "now", "monotonic", "call", "consume", "within")
_guards: ContextVar[tuple[_Guard, ...]] = ContextVar("loopwright_manual_timeouts", default=())
_installed = allocate_lock()


class _Guard:
    """What was slept inside one call that has a timeout."""

    __slots__ = ("slept_s",)

    def __init__(self) -> None:
        self.slept_s = 0.0


class ManualClock:
    """Time in seconds. A process has one at a time."""

    def __init__(self, start: float = 1_000_000_000.0) -> None:
        self._lock = allocate_lock()
        self.time = start
        """Seconds since the epoch, as far as runs are concerned."""
        self.slept: list[float] = []
        """Every sleep so far, in seconds, in the order they began."""
        self._saved: list[tuple[type[Port], str, Any]] = []

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        with self._lock:
            self.time += seconds

    def sleep(self, seconds: float) -> None:
        """What a plain function under test calls instead of `time.sleep`."""
        with self._lock:
            self.time += seconds
            self.slept.append(seconds)
        for guard in _guards.get():
            guard.slept_s += seconds

    async def asleep(self, seconds: float) -> None:
        """What a coroutine under test awaits instead of `asyncio.sleep`. Others get their turn."""
        self.sleep(seconds)
        await asyncio.sleep(0)

    def __enter__(self) -> Self:
        if not _installed.acquire(blocking=False):
            raise RuntimeError("a ManualClock is already running in this process: leave its `with` block first")
        for world in _WORLDS:
            for name in _REPLACED:
                self._saved.append((world, name, world.__dict__.get(name)))
                setattr(world, name, getattr(self, f"_{name}")(getattr(world, name)))
        return self

    def __exit__(self, *exc_info: object) -> None:
        for world, name, original in self._saved:
            if original is None:
                delattr(world, name)
            else:
                setattr(world, name, original)
        self._saved.clear()
        _installed.release()

    # -- the port's methods, by this clock --------------------------------------------------------------------------

    def _sleep(self, original: Any) -> Any:
        async def sleep(port: Port, seconds: float) -> None:
            self.sleep(seconds)
            if port.asynchronous:
                await asyncio.sleep(0)
            await port.pause()

        return sleep

    def _now(self, original: Any) -> Any:
        def now(port: Port) -> float:
            return self.time

        return now

    _monotonic = _now

    def _call(self, original: Any) -> Any:
        async def call(
            port: Port,
            function: Callable[..., Any],
            /,
            *args: Any,
            is_async: bool,
            timeout_s: float | None = None,
            **kwargs: Any,
        ) -> Any:
            with _guarded(timeout_s):
                return await original(port, function, *args, is_async=is_async, timeout_s=timeout_s, **kwargs)

        return call

    def _within(self, original: Any) -> Any:
        async def within(port: Port, coroutine: Coroutine[Any, Any, Any], timeout_s: float) -> Any:
            with _guarded(timeout_s):
                return await original(port, coroutine, timeout_s)

        return within

    def _consume(self, original: Any) -> Any:
        async def consume(
            port: Port,
            plain: Callable[[], Iterator[Any]] | None,
            coro: Callable[[], AsyncIterator[Any]] | None,
            take: Callable[[Any], Any],
            timeout_s: float | None = None,
        ) -> None:
            with _guarded(timeout_s):
                await original(port, plain, coro, take, timeout_s)

        return consume


class _guarded:  # noqa: N801 - used like a function
    """Raises `TimeoutError` if more than `timeout_s` were slept inside the block."""

    __slots__ = ("_guard", "_timeout_s", "_token")

    def __init__(self, timeout_s: float | None) -> None:
        self._timeout_s = timeout_s
        self._guard = _Guard()

    def __enter__(self) -> None:
        if self._timeout_s is not None:
            self._token = _guards.set((*_guards.get(), self._guard))

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._timeout_s is None:
            return
        _guards.reset(self._token)
        if self._guard.slept_s > self._timeout_s and (error is None or isinstance(error, Exception)):
            raise TimeoutError
