"""What comes back to a core that waits for something which runs elsewhere.

A wrap hook gets a `handler`. Where the hook runs on a helper thread or on another loop, its `handler(...)` becomes a
`Call`: a request that the core answers, carrying the context variables the hook has set by then. Calls, rings of
the outbox's bell and news of a job's end all arrive at one `Desk`. A closed desk turns everybody away at once,
so that whoever was left behind by a cancelled run never waits for an answer.
"""

from __future__ import annotations

from _thread import allocate_lock
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from loopwright.drive.outbox import Ack, Outbox
from loopwright.drive.steps import InContext
from loopwright.errors import RunCancelled

__all__ = [
    "Call",
    "Desk",
    "answer",
    "awaited",
    "drain",
    "drain_on_loop",
    "handler_on_loop",
    "handler_on_thread",
    "turn_away",
]

T = TypeVar("T")

_LOOK_UP_S = 1.0
"""A Ctrl-C that comes in the moment before a thread goes to sleep does not wake it: it looks up by itself."""


class Call:
    """One `handler(...)`: what to run, and the way its outcome goes back."""

    __slots__ = ("_notify", "_outcome", "args", "context", "function", "kwargs")

    def __init__(self, function: Callable[..., Awaitable[Any]], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs
        self.context = copy_context()
        self._outcome: tuple[Any, BaseException | None] = (None, RunCancelled())
        self._notify: Callable[[], object] = _nothing

    def answer(self, result: Any, error: BaseException | None) -> None:
        """Send the outcome back."""
        self._outcome = (result, error)
        self._notify()

    def ask(self, send: Callable[[Call], object]) -> Any:
        """Hand this call to the core and wait for the answer, on a helper thread."""
        answered = allocate_lock()
        answered.acquire()
        self._notify = answered.release
        send(self)
        answered.acquire()
        return self._given()

    async def aask(self, send: Callable[[Call], object]) -> Any:
        """The same on an event loop."""
        import asyncio

        loop = asyncio.get_running_loop()
        answered: asyncio.Future[None] = loop.create_future()

        def settle() -> None:
            if not answered.done():
                answered.set_result(None)

        self._notify = lambda: loop.call_soon_threadsafe(settle)
        send(self)
        await answered
        return self._given()

    def _given(self) -> Any:
        result, error = self._outcome
        if error is not None:
            raise error
        return result


def _nothing() -> None:
    return None


class Desk:
    """Where a blocking core waits. Items: a `Call`, an `Ack` to give once the reader has read, or None for news."""

    __slots__ = ("_lock", "_open", "_queue")
    loop = None
    """No event loop waits here."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Call | Ack | None] = SimpleQueue()
        self._lock = allocate_lock()
        self._open = True

    def put(self, item: Call | Ack | None) -> None:
        """Leave something, from any thread."""
        with self._lock:
            if self._open:
                self._queue.put(item)
                return
        turn_away(item)

    def news(self, _: Any = None) -> None:
        """Wake whoever waits: a job has ended."""
        self.put(None)

    async def get(self, timeout_s: float | None) -> Call | Ack | None:
        """The next item. Raises `TimeoutError` after `timeout_s` seconds."""
        while True:
            try:
                return self._queue.get(timeout=_LOOK_UP_S if timeout_s is None else timeout_s)
            except Empty:
                if timeout_s is not None:
                    raise TimeoutError from None

    def close(self) -> None:
        """Turn away whoever waits here, and whoever comes later."""
        with self._lock:
            self._open = False
        while not self._queue.empty():
            turn_away(self._queue.get_nowait())


def turn_away(item: Call | Ack | None) -> None:
    """Release somebody whom no core will serve any more."""
    if isinstance(item, Call):
        item.answer(None, RunCancelled())
    elif item is not None:
        item()


async def awaited(awaitable: Awaitable[T]) -> T:
    """An awaitable as a coroutine."""
    return await awaitable


async def answer(call: Call, outbox: Outbox | None) -> None:
    """Run what a hook's `handler(...)` asked for, here in the core, with the context the hook has made.

    `outbox` is given by a root that stands still: its bell is down while the core itself runs.
    """
    bell = None if outbox is None else outbox.bell
    if outbox is not None:
        outbox.bell = None
    try:
        result = await InContext(awaited(call.function(*call.args, **call.kwargs)), call.context)
    except Exception as error:  # noqa: BLE001 - it is the hook's to see
        call.answer(None, error)
    except BaseException as error:
        call.answer(None, error)
        raise
    else:
        call.answer(result, None)
    finally:
        if outbox is not None:
            outbox.bell = bell


def handler_on_thread(inner: Callable[..., Awaitable[Any]], send: Callable[[Call], object]) -> Callable[..., Any]:
    """The `handler` of a plain hook on a helper thread: the core runs `inner`, the thread waits."""

    def handler(*args: Any, **kwargs: Any) -> Any:
        return Call(inner, args, kwargs).ask(send)

    return handler


def handler_on_loop(
    inner: Callable[..., Awaitable[Any]], send: Callable[[Call], object]
) -> Callable[..., Coroutine[Any, Any, Any]]:
    """The `handler` of a coroutine hook on another loop: the core runs `inner`, the coroutine waits."""

    async def handler(*args: Any, **kwargs: Any) -> Any:
        return await Call(inner, args, kwargs).aask(send)

    return handler


def drain(
    source: Callable[[], Iterator[Any]],
    accept: Callable[[Any], Awaitable[None]],
    send: Callable[[Call], object],
) -> None:
    """Read a stream on this thread; the core accepts each item before the next is asked for."""
    for item in source():
        Call(accept, (item,), {}).ask(send)


async def drain_on_loop(
    source: Callable[[], AsyncIterator[Any]],
    accept: Callable[[Any], Awaitable[None]],
    send: Callable[[Call], object],
) -> None:
    """Read an asynchronous stream on this loop; the core accepts each item before the next is asked for."""
    items = source()
    try:
        async for item in items:
            await Call(accept, (item,), {}).aask(send)
    finally:
        close = getattr(items, "aclose", None)
        if close is not None:
            await close()
