"""The blocking world: the core without an event loop.

Nothing in the core really waits here, so `coroutine.send(None)` runs it to its end, or to its next pause. The root
run lives on the caller's own thread. What must not hold it up (a user's function while somebody reads, several
tools at once, a coroutine function) runs elsewhere as a `Job`, and the root waits for it in `_join`, the one place
where a blocking run stands still: it delivers what is emitted meanwhile and answers the calls of wrap hooks.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextvars import Context, copy_context
from queue import Empty
from typing import Any, TypeVar, cast

from loopwright.drive.bridge import (
    Call,
    Desk,
    answer,
    awaited,
    drain,
    drain_on_loop,
    handler_on_loop,
    handler_on_thread,
)
from loopwright.drive.outbox import Outbox, hold_loop
from loopwright.drive.steps import InContext, foreign, unwind
from loopwright.drive.threads import Job, current_job, start
from loopwright.errors import RunCancelled
from loopwright.port import PAUSE, Port, pause

__all__ = ["BlockingPort", "run", "stream"]

T = TypeVar("T")


def run(
    coroutine: Coroutine[Any, Any, T],
    outbox: Outbox | None = None,
    context: Context | None = None,
    job: Job | None = None,
) -> T:
    """Run a core coroutine to its end on this thread.

    With an `outbox` (a nested run, or one of several tasks) each pause waits until the reader has read. `job` is the
    one this runs for: once it is cancelled, the coroutine is stopped at its next pause.
    """
    context = hold_loop(context)
    job = job or current_job.get()
    step = coroutine.send if context is None else _within(context, coroutine)
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


def _within(context: Context, coroutine: Coroutine[Any, Any, Any]) -> Callable[[None], Any]:
    enter, send = context.run, coroutine.send
    return lambda value: enter(send, value)


def stream(make: Callable[[], Coroutine[Any, Any, Any]], outbox: Outbox, context: Context) -> Iterator[Any]:
    """Run a core coroutine and yield what it puts into `outbox`, each item before it goes on.

    The coroutine is made when the first item is asked for: a stream that nobody reads leaves nothing behind.
    """
    coroutine = make()
    hold_loop(context)
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
        unwind(coroutine, context)
    if failure is not None:
        raise failure


class BlockingPort(Port):
    """The blocking world of one run. `root` is the run whose own thread serves the reader."""

    __slots__ = ("outbox", "reading", "root")
    asynchronous = False

    def __init__(self, outbox: Outbox | None = None, *, root: bool = False) -> None:
        self.outbox = outbox
        self.reading = outbox is not None
        self.root = root

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
        if timeout_s is None and not self.reading:
            return copy_context().run(function, *args, **kwargs)
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

        def begin(desk: Desk) -> Job:
            if plain is None:
                return _on_loop(drain_on_loop(cast(Any, coro), accept, desk.put))
            return start(drain, plain, accept, desk.put)

        await self._join(begin, timeout_s)

    async def gather(
        self, coroutines: Sequence[Coroutine[Any, Any, T]], limit: int | None = None
    ) -> list[T | BaseException]:
        count = len(coroutines)
        width = min(limit or count, count)
        if width == 1:
            try:
                return [await _caught(InContext(coroutine, copy_context())) for coroutine in coroutines]
            finally:
                for coroutine in coroutines:  # of a cancelled run, those whose turn never came
                    coroutine.close()
        waiting = list(reversed(list(enumerate(coroutines))))
        results: list[Any] = [None] * count
        running: dict[int, Job] = {}
        desk = Desk()
        outbox = self._hang_bell(desk)
        try:
            while waiting or running:
                while waiting and len(running) < width:
                    index, coroutine = waiting.pop()
                    running[index] = self._start_child(coroutine, desk)
                await self._listen(desk, lambda: any(job.done for job in running.values()), None, outbox)
                for index in [index for index, job in running.items() if job.done]:
                    job = running.pop(index)
                    results[index] = job.error if job.error is not None else job.result
        finally:
            for job in running.values():
                job.cancel()
            for _, coroutine in waiting:
                coroutine.close()
            self._close(desk, outbox)
        return results

    def _start_child(self, coroutine: Coroutine[Any, Any, Any], desk: Desk) -> Job:
        job = Job()
        job.on_done(desk.news)
        return start(lambda: run(coroutine, self.outbox, job=job), job=job)

    async def within(self, coroutine: Coroutine[Any, Any, T], timeout_s: float) -> T:
        return cast(T, await self._join(lambda desk: self._start_child(coroutine, desk), timeout_s))

    async def bridge(
        self,
        hook: Callable[..., Any],
        inner: Callable[..., Awaitable[Any]],
        /,
        *args: Any,
        is_async: bool,
    ) -> Any:
        if not is_async and not self.reading:
            return copy_context().run(hook, *args, _handler_here(inner))

        def begin(desk: Desk) -> Job:
            if is_async:
                return _on_loop(hook(*args, handler_on_loop(inner, desk.put)))
            return start(hook, *args, handler_on_thread(inner, desk.put))

        return await self._join(begin, None)

    async def sleep(self, seconds: float) -> None:
        if self.reading:
            await self._join(lambda _: start(time.sleep, seconds), None)
        else:
            time.sleep(seconds)  # noqa: ASYNC251 - in this world waiting is blocking

    async def _join(self, begin: Callable[[Desk], Job], timeout_s: float | None) -> Any:
        """Begin a job and wait for it; meanwhile serve the reader and answer calls that come back from the job."""
        desk = Desk()
        outbox = self._hang_bell(desk)
        job = begin(desk)
        job.on_done(desk.news)
        try:
            await self._listen(desk, lambda: job.done, timeout_s, outbox)
        finally:
            if not job.done:
                job.cancel()
            self._close(desk, outbox)
        return job.outcome()

    def _hang_bell(self, desk: Desk) -> Outbox | None:
        """Before anything begins elsewhere: from now on, whoever emits finds a root that listens."""
        outbox = self.outbox
        if not self.root or outbox is None or outbox.bell is not None:
            return None
        outbox.bell = desk.put
        return outbox

    def _close(self, desk: Desk, outbox: Outbox | None) -> None:
        if outbox is not None:
            outbox.bell = None
        desk.close()

    async def _listen(
        self, desk: Desk, ended: Callable[[], bool], timeout_s: float | None, outbox: Outbox | None
    ) -> None:
        """Stand still until `ended`. `outbox` is given where this is the reader's root.

        Raises `TimeoutError` after `timeout_s`.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not ended():
            try:
                item = desk.get(None if deadline is None else max(0.0, deadline - time.monotonic()))
            except Empty:
                if not ended():
                    raise TimeoutError from None
                return
            if outbox is not None and outbox.items:
                await pause()
            if isinstance(item, Call):
                await answer(item, outbox)
            elif item is not None:
                item()


def _handler_here(inner: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    """The `handler` of a plain hook that runs on the core's own thread, as nobody reads."""

    def handler(*args: Any, **kwargs: Any) -> Any:
        return run(awaited(inner(*args, **kwargs)))

    return handler


def _on_loop(coroutine: Coroutine[Any, Any, Any]) -> Job:
    """Start a user's coroutine on the kept loop. Loaded when needed: a run of plain functions needs no asyncio."""
    from loopwright.drive.kept import start_on_loop

    return start_on_loop(coroutine)


async def _caught(coroutine: Awaitable[T]) -> T | BaseException:
    """A lone task's outcome in the form of `gather`'s; cancellation is never an outcome."""
    try:
        return await coroutine
    except RunCancelled:
        raise
    except BaseException as error:  # noqa: BLE001 - returned, not lost
        return error
