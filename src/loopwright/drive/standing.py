"""Where a run stands still: what both worlds do alike while something runs elsewhere.

A run waits for jobs (of threads, of the kept loop) and under asyncio for tasks. To both it speaks as one does to a
future (`Elsewhere`); their news, the bell of the outbox and the calls of wrap hooks arrive at one desk. So `_listen`
is the one place where a run stands still: it delivers what is emitted meanwhile and answers those calls. What a world
adds is how something begins, and what becomes of it when nobody wants it any more.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any, Protocol, TypeVar, cast

from loopwright.drive.bridge import Ack, Call, answer
from loopwright.drive.outbox import Outbox
from loopwright.drive.steps import InContext
from loopwright.port import Port, pause

__all__ = ["Counter", "Elsewhere", "StandingPort"]

T = TypeVar("T")


class Elsewhere(Protocol):
    """Something that runs elsewhere: a `Job`, or a task."""

    def done(self) -> bool: ...

    def cancel(self) -> Any: ...

    def result(self) -> Any: ...

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None: ...


class Counter(Protocol):
    """A desk, of whatever world."""

    @property
    def loop(self) -> Any: ...

    def put(self, item: Call | Ack | None) -> None: ...

    def news(self, _: Any = None) -> None: ...

    async def get(self, timeout_s: float | None) -> Call | Ack | None: ...

    def close(self) -> None: ...


class StandingPort(Port):
    """One world of one run. `root` is the run whose own thread, or task, serves the reader."""

    __slots__ = ("outbox", "reading", "root")

    def __init__(self, outbox: Outbox | None = None, *, root: bool = False) -> None:
        self.outbox = outbox
        self.reading = outbox is not None
        self.root = root

    @property
    def unattended(self) -> bool:
        return self.outbox is not None and self.outbox.dropped

    def unread(self) -> StandingPort:
        return type(self)()

    @abstractmethod
    def _desk(self) -> Counter:
        """Where this run will wait."""

    @abstractmethod
    def _begin(self, coroutine: Coroutine[Any, Any, Any]) -> Elsewhere:
        """Run a core coroutine at the same time as this one."""

    async def _leave(self, cancelled: Sequence[Elsewhere], *, patient: bool) -> None:
        """What has been cancelled may clean up; `patient` unless it had its time."""

    async def gather(
        self, coroutines: Sequence[Coroutine[Any, Any, T]], limit: int | None = None
    ) -> list[T | BaseException]:
        count = len(coroutines)
        width = min(limit or count, count)
        if width == 1:
            try:
                return [await self._caught(InContext(coroutine, copy_context())) for coroutine in coroutines]
            finally:
                for coroutine in coroutines:  # of a cancelled run, those whose turn never came
                    coroutine.close()
        waiting = list(reversed(list(enumerate(coroutines))))
        results: list[Any] = [None] * count
        running: dict[int, Elsewhere] = {}
        ended: deque[int] = deque()
        desk = self._desk()
        outbox = self._hang_bell(desk)
        try:
            while waiting or running:
                while waiting and len(running) < width:
                    index, coroutine = waiting.pop()
                    one = running[index] = self._begin(coroutine)
                    one.add_done_callback(partial(_told, index, ended, desk))
                await self._listen(desk, lambda: bool(ended), None, outbox)
                while ended:
                    index = ended.popleft()
                    results[index] = _outcome_of(running.pop(index))
        finally:
            for _, coroutine in waiting:
                coroutine.close()
            await self._end(list(running.values()), desk, outbox)
        return results

    @abstractmethod
    async def _caught(self, coroutine: Awaitable[T]) -> T | BaseException:
        """A lone task's outcome in the form of `gather`'s; cancellation is never an outcome."""

    async def within(self, coroutine: Coroutine[Any, Any, T], timeout_s: float) -> T:
        return cast(T, await self._join(lambda _: self._begin(coroutine), timeout_s))

    def beside(self, coroutine: Coroutine[Any, Any, Any]) -> Elsewhere:
        return self._begin(coroutine)

    async def settled(self, one: Elsewhere) -> None:
        desk = self._desk()
        outbox = self._hang_bell(desk)
        try:
            one.add_done_callback(desk.news)
            await self._listen(desk, one.done, None, outbox)
        finally:
            await self._end((), desk, outbox)
        one.result()

    async def rung(self, listen: Callable[[Callable[[], bool]], object]) -> None:
        await self.call(_rung, listen, is_async=True)

    async def _join(self, begin: Callable[[Counter], Elsewhere], timeout_s: float | None) -> Any:
        """Begin something and wait for it; meanwhile serve the reader and answer calls that come back from it."""
        desk = self._desk()
        outbox = self._hang_bell(desk)
        begun: list[Elsewhere] = []
        try:
            one = begin(desk)
            begun.append(one)
            one.add_done_callback(desk.news)
            await self._listen(desk, one.done, timeout_s, outbox)
        finally:
            await self._end(begun, desk, outbox, patient=timeout_s is None)
        return one.result()

    async def _end(
        self, begun: Sequence[Elsewhere], desk: Counter, outbox: Outbox | None, *, patient: bool = True
    ) -> None:
        """Serve nobody any more, and cancel what still runs."""
        left = [one for one in begun if not one.done()]
        for one in left:
            one.cancel()
        if outbox is not None:
            outbox.bell = None
        desk.close()
        if left:
            await self._leave(left, patient=patient)

    def _hang_bell(self, desk: Counter) -> Outbox | None:
        """Before anything begins elsewhere: from now on, whoever emits finds a root that listens."""
        outbox = self.outbox
        if not self.root or outbox is None or outbox.bell is not None:
            return None
        outbox.bell, outbox.loop = desk.put, desk.loop
        return outbox

    async def _listen(
        self, desk: Counter, ended: Callable[[], bool], timeout_s: float | None, outbox: Outbox | None
    ) -> None:
        """Stand still until `ended`. `outbox` is given where this is the reader's root.

        Raises `TimeoutError` after `timeout_s`.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not ended():
            try:
                item = await desk.get(None if deadline is None else max(0.0, deadline - time.monotonic()))
            except TimeoutError:
                if ended():
                    return
                raise
            if outbox is not None and outbox.items:
                await pause()
            if isinstance(item, Call):
                await answer(item, outbox)
            elif item is not None:
                item()


async def _rung(listen: Callable[[Callable[[], bool]], object]) -> None:
    """On an event loop, in either world: so a wait that nobody wants any more ends as every coroutine does."""
    import asyncio

    loop = asyncio.get_running_loop()
    heard: asyncio.Future[None] = loop.create_future()

    def settle() -> None:
        if not heard.done():
            heard.set_result(None)

    def ring() -> bool:
        try:
            loop.call_soon_threadsafe(settle)
        except RuntimeError:  # the loop was closed with somebody waiting on it
            return False
        return True

    listen(ring)
    await heard


def _told(index: int, ended: deque[int], desk: Counter, _: Any) -> None:
    """One of several has ended, on whatever thread it did."""
    ended.append(index)
    desk.news()


def _outcome_of(one: Elsewhere) -> Any:
    """Result or error of what is done, as a value."""
    try:
        return one.result()
    except BaseException as error:  # noqa: BLE001 - returned, not lost
        return error
