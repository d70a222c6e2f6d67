"""The blocking world: the core without an event loop.

Nothing in the core really waits here, so `coroutine.send(None)` runs it to its end, or to its next pause. The root
run lives on the caller's own thread. What must not hold it up (a user's function while somebody reads, several
tools at once, a coroutine function) or must not run there (a plain function, where that thread runs an event loop)
runs elsewhere as a `Job`, and the root stands still for it (`standing`). It does not wait for what it gives up on: a
job that is cancelled is left behind at once.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextvars import Context, copy_context
from typing import Any, TypeVar, cast

from loopwright.drive.bridge import Desk, awaited, drain, drain_on_loop, handler_on_loop, handler_on_thread
from loopwright.drive.outbox import Outbox, hold_loop, release_loop, running_loop
from loopwright.drive.standing import Counter, StandingPort
from loopwright.drive.steps import foreign, unwind
from loopwright.drive.threads import Job, current_job, its_own, start
from loopwright.errors import RunCancelled
from loopwright.port import PAUSE, pause

__all__ = ["BlockingPort", "run", "stream"]

T = TypeVar("T")


def run(
    coroutine: Coroutine[Any, Any, T],
    outbox: Outbox | None = None,
    context: Context | None = None,
) -> T:
    """Run a core coroutine to its end on this thread.

    With an `outbox` (a nested run, or one of several tasks) each pause waits until the reader has read. Once the job
    that this runs for is cancelled, the coroutine is stopped at its next pause.
    """
    job = current_job.get()
    step = coroutine.send if context is None else _within(context, coroutine)
    loop = hold_loop()
    try:
        while True:
            if step(None) is not PAUSE:
                raise foreign(coroutine)
            if outbox is not None:
                outbox.handover()
                if outbox.closed or (job is not None and job.cancelled):
                    unwind(coroutine, context or copy_context())
                    raise RunCancelled
    except StopIteration as stop:
        return stop.value
    finally:
        if loop is not None:
            release_loop(loop)


def _within(context: Context, coroutine: Coroutine[Any, Any, Any]) -> Callable[[None], Any]:
    enter, send = context.run, coroutine.send
    return lambda value: enter(send, value)


def stream(make: Callable[[], Coroutine[Any, Any, Any]], outbox: Outbox, context: Context) -> Iterator[Any]:
    """Run a core coroutine and yield what it puts into `outbox`, each item before it goes on.

    The coroutine is made when the first item is asked for: a stream that nobody reads leaves nothing behind.
    """
    coroutine = make()
    loop = hold_loop()  # also while the reader is at work: what runs below may need another one before it comes back
    items, take = outbox.items, outbox.items.popleft
    enter, send = context.run, coroutine.send
    failure: BaseException | None = None
    try:
        while True:
            try:
                yielded = enter(send, None)
            except StopIteration:
                break
            except BaseException as error:  # noqa: BLE001 - raised again once the reader has what came before it
                failure = error
                break
            while items:
                yield take()
            if yielded is not PAUSE:
                raise foreign(coroutine)
        while items:
            yield take()
    finally:
        outbox.close()
        try:
            unwind(coroutine, context)
        finally:
            if loop is not None:
                release_loop(loop)
    if failure is not None:
        raise failure


class BlockingPort(StandingPort):
    """The blocking world of one run."""

    __slots__ = ("here", "watched")
    asynchronous = False

    def __init__(self, outbox: Outbox | None = None, *, root: bool = False) -> None:
        super().__init__(outbox, root=root)
        self.here = not self.reading and running_loop() is None
        """Whether plain functions run on the core's own thread. Where it runs a loop, `asyncio.run` would fail."""
        self.watched = current_job.get() is not None

    def check(self) -> None:
        job = current_job.get()
        if job is not None and job.cancelled:
            raise RunCancelled

    async def call(
        self,
        function: Callable[..., Any],
        /,
        *args: Any,
        is_async: bool,
        timeout_s: float | None = None,
        **kwargs: Any,
    ) -> Any:
        if is_async:
            return await self._join(lambda _: _on_loop(function(*args, **kwargs)), timeout_s)
        if timeout_s is None and self.here:
            try:
                return copy_context().run(function, *args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - raised again
                raise _its_own(error)  # noqa: B904 - mostly the very same
        return await self._join(lambda _: start(lambda: function(*args, **kwargs)), timeout_s)

    async def consume(
        self,
        plain: Callable[[], Iterator[T]] | None,
        coro: Callable[[], AsyncIterator[T]] | None,
        take: Callable[[T], Any],
        timeout_s: float | None = None,
    ) -> None:
        if plain is None or timeout_s is not None:
            await self._consume_elsewhere(plain, coro, take, timeout_s)
            return
        source = plain()
        reading, pausing, job = self.reading, pause(), current_job.get()
        try:
            for item in source:
                take(item)
                if reading:
                    await pausing
                elif job is not None and job.cancelled:
                    raise RunCancelled
        except BaseException as error:  # noqa: BLE001 - raised again
            raise _its_own(error)  # noqa: B904 - mostly the very same
        finally:
            close = getattr(source, "close", None)
            if close is not None:
                close()

    async def _consume_elsewhere(
        self,
        plain: Callable[[], Iterator[T]] | None,
        coro: Callable[[], AsyncIterator[T]] | None,
        take: Callable[[T], Any],
        timeout_s: float | None,
    ) -> None:
        """A stream that only an event loop can read, or that has a deadline: each item is handed over here."""

        async def accept(item: T) -> None:
            take(item)
            await self.pause()

        def begin(desk: Counter) -> Job:
            if plain is None:
                return _on_loop(drain_on_loop(cast(Any, coro), accept, desk.put))
            return start(drain, plain, accept, desk.put)

        await self._join(begin, timeout_s)

    def _desk(self) -> Counter:
        return Desk()

    def _begin(self, coroutine: Coroutine[Any, Any, Any]) -> Job:
        return start(run, coroutine, self.outbox)

    async def _caught(self, coroutine: Awaitable[T]) -> T | BaseException:
        try:
            return await coroutine
        except RunCancelled:
            raise
        except BaseException as error:  # noqa: BLE001 - returned, not lost
            return error

    async def bridge(
        self,
        hook: Callable[..., Any],
        inner: Callable[..., Awaitable[Any]],
        /,
        *args: Any,
        is_async: bool,
    ) -> Any:
        if not is_async and self.here:
            try:
                return copy_context().run(hook, *args, _handler_here(inner))
            except BaseException as error:  # noqa: BLE001 - raised again
                raise _its_own(error)  # noqa: B904 - mostly the very same

        def begin(desk: Counter) -> Job:
            if is_async:
                return _on_loop(hook(*args, handler_on_loop(inner, desk.put)))
            return start(hook, *args, handler_on_thread(inner, desk.put))

        return await self._join(begin, None)

    async def sleep(self, seconds: float) -> None:
        if self.reading:
            await self._join(lambda _: start(time.sleep, seconds), None)
        else:
            time.sleep(seconds)  # noqa: ASYNC251 - in this world waiting is blocking


def _its_own(error: BaseException) -> BaseException:
    """What the error of a plain function counts as that ran on this thread."""
    job = current_job.get()
    return its_own(error, cancelled=job is not None and job.cancelled)


def _handler_here(inner: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    """The `handler` of a plain hook that runs on the core's own thread, as nobody reads."""

    def handler(*args: Any, **kwargs: Any) -> Any:
        return run(awaited(inner(*args, **kwargs)))

    return handler


def _on_loop(coroutine: Coroutine[Any, Any, Any]) -> Job:
    """Start a user's coroutine on the kept loop. Loaded when needed: a run of plain functions needs no asyncio."""
    from loopwright.drive.kept import start_on_loop

    return start_on_loop(coroutine)
