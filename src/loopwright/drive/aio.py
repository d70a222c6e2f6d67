"""The asyncio world: the core inside the caller's own task.

A root run is stepped where its reader stands: the futures it waits for are passed on to the loop, and at a pause the
step returns to the reader (0.4 µs a token, against 7 through a second task and an event). Whatever else runs at the
same time (tasks of a gather, a user's coroutine while somebody reads) is a task of its own, and hands over at each
pause. As in the blocking world there is one place where a root stands still and delivers meanwhile (`standing`).

No timeout, task group or context token spans a pause: a reader may stay away for an hour, and it is the reader's
task that such a timeout would cancel.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator, Sequence
from contextvars import Context, copy_context
from math import inf
from threading import get_ident
from time import sleep
from typing import Any, NoReturn, TypeVar, cast

from loopwright.drive.bridge import Call, awaited, drain, handler_on_thread, turn_away
from loopwright.drive.guest import Guest, own_error
from loopwright.drive.leaving import abandon, abandoned_at
from loopwright.drive.outbox import Ack, Outbox
from loopwright.drive.owned import Owned
from loopwright.drive.standing import Counter, Elsewhere, StandingPort
from loopwright.drive.steps import InContext
from loopwright.drive.threads import start
from loopwright.errors import RunCancelled, UsageError
from loopwright.port import PAUSE, pause

__all__ = ["AioPort", "AioStream", "run", "started"]

T = TypeVar("T")

_GRACE_S = 1.0
"""How long a cancelled run waits for its tasks to clean up. One that swallows its cancellation is left behind.

What runs in the caller's own task (a lone coroutine of a run that nobody reads, a model's stream) is stepped by that
task alone, so nobody could leave it behind: there asyncio's own rule holds, and it is waited for.
"""
_BREATH_S = 0.001
"""How long the loop's thread stands aside each time a task that is finishing something is cancelled once more."""


class _Steps:
    """Awaitable that runs a core coroutine up to its next pause (True) or its end (False, then `result` is set)."""

    __slots__ = ("coroutine", "enter", "result")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], context: Context) -> None:
        self.coroutine = coroutine
        self.enter = context.run
        self.result: Any = None

    def __await__(self) -> Generator[Any, Any, bool]:
        return self.step(self.coroutine.send, None)

    def step(self, step: Callable[[Any], Any], value: Any) -> Generator[Any, Any, bool]:
        """Begin with `step(value)`: a send, or a throw."""
        enter, coroutine = self.enter, self.coroutine
        try:
            yielded = enter(step, value)
            while yielded is not PAUSE:
                try:
                    value = yield yielded
                except BaseException as error:  # noqa: BLE001 - it belongs to the coroutine
                    yielded = enter(coroutine.throw, error)
                else:
                    yielded = enter(coroutine.send, value)
        except StopIteration as stop:
            self.result = stop.value
            return False
        return True


class _Throwing:
    """Awaitable that throws into a core coroutine and runs it up to its next pause or its end."""

    __slots__ = ("error", "steps")

    def __init__(self, steps: _Steps, error: BaseException) -> None:
        self.steps, self.error = steps, error

    def __await__(self) -> Generator[Any, Any, bool]:
        return self.steps.step(self.steps.coroutine.throw, self.error)


class _Resumed:
    """Awaitable that goes on with a coroutine which has already yielded a future."""

    __slots__ = ("steps", "yielded")

    def __init__(self, steps: _Steps, yielded: Any) -> None:
        self.steps, self.yielded = steps, yielded

    def __await__(self) -> Generator[Any, Any, bool]:
        coroutine = self.steps.coroutine
        try:
            value = yield self.yielded
        except BaseException as error:  # noqa: BLE001 - it belongs to the coroutine
            return (yield from self.steps.step(coroutine.throw, error))
        return (yield from self.steps.step(coroutine.send, value))


async def run(coroutine: Coroutine[Any, Any, T], outbox: Outbox | None = None, context: Context | None = None) -> T:
    """Run a core coroutine to its end in this task. With an `outbox`, each pause waits until the reader has read."""
    context = context or copy_context()
    if outbox is None:
        return cast(T, await InContext(coroutine, context))
    steps = _Steps(coroutine, context)
    paused = await steps
    while paused:
        try:
            await _handover(outbox)
            error: BaseException | None = RunCancelled() if outbox.closed else None
        except BaseException as caught:  # noqa: BLE001 - our task is cancelled: the coroutine has to know
            error = caught
        paused = await steps if error is None else await _Throwing(steps, error)
    return cast(T, steps.result)


async def _handover(outbox: Outbox) -> None:
    """`Outbox.handover` for a task: wait until the reader has taken everything."""
    bell = outbox.bell
    if bell is None or outbox.closed or outbox.is_held_up():
        return
    loop = asyncio.get_running_loop()
    taken: asyncio.Future[None] = loop.create_future()
    thread = get_ident()

    def settle() -> None:
        if not taken.done():
            taken.set_result(None)

    bell(lambda: settle() if get_ident() == thread else loop.call_soon_threadsafe(settle))
    await taken


class AioStream(AsyncIterator[Any]):
    """A run and its reader. Leaving it early, by `aclose` or by dropping it, ends the run in good order.

    It is no asynchronous generator on purpose: after a `break` those clean up only when the event loop comes round
    to it, and this does so at once unless the clean-up itself has to wait.
    """

    __slots__ = ("_enter", "_failure", "_items", "_live", "_loop", "_outbox", "_send", "_steps", "_waiting")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], outbox: Outbox, context: Context) -> None:
        self._steps = _Steps(coroutine, context)
        self._enter, self._send = context.run, coroutine.send
        self._outbox = outbox
        self._items = outbox.items
        self._live = True
        """Whether the run can be stepped: it has not ended, and waits for nothing."""
        self._waiting = False
        self._loop: asyncio.AbstractEventLoop | None = None
        """Where the run has waited for something."""
        self._failure: BaseException | None = None

    def __iter__(self) -> NoReturn:
        self.__del__()  # nobody will read it
        raise TypeError(
            "This stream is asynchronous: write `async for chunk in agent.astream(input)`, "
            "or without asyncio `for chunk in agent.stream(input)`."
        )

    def __aiter__(self) -> AioStream:
        return self

    async def __anext__(self) -> Any:
        items = self._items
        while not items:
            if not self._live:
                raise self._over()
            try:
                yielded = self._enter(self._send, None)
                if yielded is not PAUSE:
                    self._live = await self._wait(yielded)
            except StopIteration:
                self._live = False
            except asyncio.CancelledError:  # the reader's own: those of the run have another form by now
                self._live = False
                self._outbox.close()
                raise
            except BaseException as error:  # noqa: BLE001 - raised once the reader has what came before it
                self._live, self._failure = False, error
                if isinstance(error, StopAsyncIteration):  # raised as it is, it would be the end of a sound stream
                    self._failure = RuntimeError("The run raised StopAsyncIteration")
                    self._failure.__cause__ = error
        return items.popleft()

    async def _wait(self, yielded: Any) -> bool:
        """The run waits for something of the loop's: until that is there, nobody else may step it."""
        self._live, self._waiting = False, True
        self._loop = asyncio.get_running_loop()
        try:
            return await _Resumed(self._steps, yielded)
        finally:
            self._waiting = False

    def _over(self) -> BaseException:
        if self._waiting:
            return UsageError(
                "This stream is already being read, and its reader waits for the next item. A tool or hook cannot "
                "read or close the stream that runs it, and two tasks cannot read one stream: write "
                "`stream_mode=[...]` for a reader that sees more, and cancel the reader's task to end the run."
            )
        failure, self._failure = self._failure, None
        return StopAsyncIteration() if failure is None else failure

    async def aclose(self) -> None:
        """End the run now; its clean-up is over when this returns.

        A task that swallows its cancellation is left behind after a second. Raises `UsageError` while another task
        waits for the next item.
        """
        if self._waiting:
            raise self._over()
        self._outbox.close()
        if not self._live:
            return
        self._live = False
        try:
            paused = await _Throwing(self._steps, RunCancelled())
            while paused:
                paused = await self._steps
        except RunCancelled:
            pass

    def __del__(self) -> None:
        if not self._live:
            return
        self._live = False
        self._outbox.dropped = True
        self._outbox.close()
        abandon(self._steps, self._loop, self._outbox.place)


class _Desk:
    """Where a core waits on an event loop. Items as of `bridge.Desk`; whoever comes after `close` is turned away."""

    __slots__ = ("_items", "_open", "_thread", "_waiter", "loop")

    def __init__(self) -> None:
        self.loop, self._thread = asyncio.get_running_loop(), get_ident()
        self._items: deque[Call | Ack | None] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._open = True

    def put(self, item: Call | Ack | None) -> None:
        """Leave something, from any thread."""
        if get_ident() == self._thread:
            self._put(item)
            return
        try:
            self.loop.call_soon_threadsafe(self._put, item)
        except RuntimeError:  # the loop is closed
            turn_away(item)

    def news(self, _: Any = None) -> None:
        """Wake whoever waits: something has ended."""
        self.put(None)

    def _put(self, item: Call | Ack | None) -> None:
        if not self._open:
            turn_away(item)
            return
        self._items.append(item)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def get(self, timeout_s: float | None) -> Call | Ack | None:
        """The next item. Raises `TimeoutError` after `timeout_s` seconds."""
        if not self._items:
            self._waiter = self.loop.create_future()
            timer = None if timeout_s is None else self.loop.call_later(timeout_s, self._wake)
            try:
                await self._waiter
            finally:
                self._waiter = None
                if timer is not None:
                    timer.cancel()
            if not self._items:
                raise TimeoutError
        return self._items.popleft()

    def close(self) -> None:
        """Turn away whoever waits here, and whoever comes later."""
        self._open = False
        while self._items:
            turn_away(self._items.popleft())


class AioPort(StandingPort):
    """The asyncio world of one run. A root is stepped in its reader's task."""

    __slots__ = ()
    asynchronous = True
    watched = False
    cancellations = (RunCancelled, asyncio.CancelledError)

    async def call(
        self,
        function: Callable[..., Any],
        /,
        *args: Any,
        is_async: bool,
        timeout_s: float | None = None,
        **kwargs: Any,
    ) -> Any:
        if not is_async:
            return await self._join(lambda _: start(lambda: function(*args, **kwargs)), timeout_s)
        if timeout_s is None and not self.reading:
            return await Guest(function(*args, **kwargs), copy_context())
        return await self._join_guest(lambda: function(*args, **kwargs), timeout_s)

    async def consume(
        self,
        plain: Callable[[], Iterator[T]] | None,
        coro: Callable[[], AsyncIterator[T]] | None,
        take: Callable[[T], Any],
        timeout_s: float | None = None,
    ) -> None:
        if coro is None:
            await self._consume_thread(cast(Callable[[], Iterator[T]], plain), take, timeout_s)
            return
        source, reading, pausing = Owned(coro()), self.reading, pause()
        try:
            if timeout_s is None:
                try:
                    take(await anext(source))
                except StopAsyncIteration:
                    return
                if reading:
                    await pausing
                async for item in source.begun:  # a frame fewer for each token
                    take(item)
                    if reading:
                        await pausing
            else:
                await self._consume_until(source, take, asyncio.get_running_loop().time() + timeout_s)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise own_error(error) from error
        finally:
            await source.aclose()

    async def _consume_until(self, source: AsyncIterator[T], take: Callable[[T], Any], deadline: float) -> None:
        """The deadline counts the model's time and the reader's; only the waiting for the next item is cut short."""
        while True:
            remaining = max(0.0, deadline - asyncio.get_running_loop().time())
            try:
                async with asyncio.timeout(remaining):
                    item = await anext(source)
            except StopAsyncIteration:
                return
            take(item)
            await self.pause()

    async def _consume_thread(
        self, plain: Callable[[], Iterator[T]], take: Callable[[T], Any], timeout_s: float | None
    ) -> None:
        """A stream that only a thread can read: each item is handed over here."""

        async def accept(item: T) -> None:
            take(item)
            await self.pause()

        await self._join(lambda desk: start(drain, plain, accept, desk.put), timeout_s)

    def _desk(self) -> Counter:
        return _Desk()

    def _begin(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        return started(run(coroutine, self.outbox), coroutine)

    async def _caught(self, coroutine: Awaitable[T]) -> T | BaseException:
        try:
            return await coroutine
        except (RunCancelled, asyncio.CancelledError, GeneratorExit):
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
        if not is_async:
            return await self._join(lambda desk: start(hook, *args, handler_on_thread(inner, desk.put)), None)
        if not self.reading:
            return await Guest(hook(*args, inner), copy_context())

        async def handler(*a: Any, **k: Any) -> Any:
            return await run(awaited(inner(*a, **k)), self.outbox)

        return await self._join_guest(lambda: hook(*args, handler), None)

    async def sleep(self, seconds: float) -> None:
        if self.reading:
            await self._join_guest(lambda: asyncio.sleep(seconds), None)
        else:
            await asyncio.sleep(seconds)

    async def _join_guest(self, make: Callable[[], Coroutine[Any, Any, Any]], timeout_s: float | None) -> Any:
        """Run a coroutine of the user's in a task of its own, and wait for it."""

        def begin(_: Counter) -> asyncio.Task[Any]:
            coroutine = make()
            return started(awaited(Guest(coroutine, copy_context())), coroutine)

        return await self._join(begin, timeout_s)

    async def _leave(self, cancelled: Sequence[Elsewhere], *, patient: bool) -> None:
        tasks = cast("list[asyncio.Task[Any]]", [one for one in cancelled if isinstance(one, asyncio.Task)])
        if tasks and patient:
            await _outlasting(tasks, asyncio.get_running_loop().time() + _GRACE_S)

    async def finish(self, function: Callable[..., Coroutine[Any, Any, T]], /, *args: Any, **kwargs: Any) -> T:
        asyncio.get_running_loop()  # raises before there is a coroutine that nobody would await
        coroutine = function(*args, **kwargs)
        task = started(awaited(Guest(coroutine, copy_context())), coroutine)
        try:
            await _outlasting([task])
        except asyncio.CancelledError:
            task.cancel()
            raise
        return cast(T, task.result())

    async def settled(self, one: Elsewhere) -> None:
        await _outlasting([cast("asyncio.Task[Any]", one)])
        one.result()

    async def after_abandoned(self, place: Any) -> None:
        tasks = abandoned_at(place)
        if tasks:
            await asyncio.wait(tasks)


def started(work: Coroutine[Any, Any, T], inner: Coroutine[Any, Any, Any]) -> asyncio.Task[T]:
    """A task of ours, around `inner`. However it ends, and whoever looks, asyncio has nothing to complain of."""

    def over(task: asyncio.Task[T]) -> None:
        inner.close()  # one that was cancelled first has never begun
        if not task.cancelled():
            task.exception()

    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(over)
    return task


async def _outlasting(tasks: Sequence[asyncio.Task[Any]], end: float = inf) -> None:
    """Wait for tasks until `end`, whatever cancellations arrive; the last one is raised afterwards.

    The first sets an end, too: what does not come to one, nobody can wait for. It is not all that comes: `asyncio.run`
    cancels anew when it ends, and anyio in every turn of the loop. Such a loop never rests, and a write on another
    thread would have to fight for the interpreter: a second where it takes a third of a millisecond.
    """
    now, told = asyncio.get_running_loop().time, None
    while now() < end and not all(task.done() for task in tasks):
        try:
            await asyncio.wait(tasks, timeout=None if end == inf else end - now())
        except asyncio.CancelledError as error:
            if told is not None:
                sleep(_BREATH_S)  # noqa: ASYNC251 - the loop itself has to rest
            told, end = error, min(end, now() + _GRACE_S)
    if told is not None:
        raise told
