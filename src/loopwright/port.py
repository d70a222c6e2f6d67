"""The only ways out of the core.

Everything between a call of the user's and the world outside goes through a `Port`: calling a function that
is not ours, iterating a model's stream, waiting for several things at once, sleeping, reading the clock,
drawing an id, handing a token to whoever reads. The loop, the engine and every node are `async def` over it.

Two worlds implement it, in `drive/`: `blocking.py` runs the same coroutines without an event loop (nothing in
them ever really waits), `aio.py` inside the caller's own task. `testing/simulated.py` is a third; one for a durable
engine is one more subclass. Rules that all of them keep:

- a function that is not ours runs in a copy of the caller's `contextvars`, and never holds up a reader or runs on a
  thread that runs an event loop: while somebody reads, where a loop runs, or with a timeout, a plain function runs on a
  helper thread;
- after something was emitted, `await port.pause()` lets the reader take it before anything else is asked for;
- no port method swallows a cancellation, and a `CancelledError` that nobody has asked for is an error like any other.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator, Sequence
from contextvars import Context, ContextVar
from typing import Any, Final, TypeVar, cast

from loopwright.errors import RunCancelled
from loopwright.ids import new_id

__all__ = ["PAUSE", "Port", "World", "pause", "world_around"]

T = TypeVar("T")


class _Pause:
    """The one thing a core coroutine may yield of its own: "somebody may want to read now"."""

    def __repr__(self) -> str:
        return "PAUSE"


PAUSE: Final = _Pause()


class _Pausing(tuple[_Pause]):
    """Awaiting it yields `PAUSE` once. A tuple's own iterator does that in C, with nothing made but itself."""

    __slots__ = ()
    __await__ = cast("Callable[[_Pausing], Generator[Any, None, None]]", tuple[_Pause].__iter__)


_pausing: Final = _Pausing((PAUSE,))


def pause() -> Awaitable[None]:
    """Await it to stop here until the driver has handed what was emitted to the reader."""
    return _pausing


class Port(ABC):
    """One world that the core can run in."""

    asynchronous: bool
    """Whether this world is an event loop's. Of a pair of hooks, `x` and `ax`, it says which one suits."""
    watched: bool = True
    """Whether `check` has anything to look at."""
    cancellations: tuple[type[BaseException], ...] = (RunCancelled,)
    """What a run is told by that shall stop."""
    reading: bool
    """Whether somebody reads this run while it goes on. `pause` is worth its cost only then."""

    @abstractmethod
    async def call(
        self,
        function: Callable[..., Any],
        /,
        *args: Any,
        is_async: bool,
        timeout_s: float | None = None,
        **kwargs: Any,
    ) -> Any:
        """Call a user's function and return its result.

        `is_async` says whether it is a coroutine function. Raises `TimeoutError` after `timeout_s` seconds; a plain
        function's thread is then left to finish, a coroutine is cancelled.
        """

    @abstractmethod
    async def consume(
        self,
        plain: Callable[[], Iterator[T]] | None,
        coro: Callable[[], AsyncIterator[T]] | None,
        take: Callable[[T], Any],
        timeout_s: float | None = None,
    ) -> None:
        """Iterate a stream and hand each item to `take`, then let the reader read, then ask for the next.

        One of `plain` and `coro` may be missing; each world takes the one that suits it.
        """

    @abstractmethod
    async def gather(
        self, coroutines: Sequence[Coroutine[Any, Any, T]], limit: int | None = None
    ) -> list[T | BaseException]:
        """Run core coroutines at the same time, at most `limit` at once; results in order.

        Exceptions are returned, not raised, so that no sibling is lost. Cancelling it cancels all that run.
        """

    @abstractmethod
    async def within(self, coroutine: Coroutine[Any, Any, T], timeout_s: float) -> T:
        """Run a core coroutine with a deadline. Raises `TimeoutError`; what cannot be stopped is left behind."""

    @abstractmethod
    def beside(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Begin a core coroutine and go on without it; what comes back is for `settled`."""

    @abstractmethod
    async def settled(self, one: Any) -> None:
        """Wait for what `beside` has begun; raises its error. A cancellation is raised after it, as with `finish`."""

    async def finish(self, function: Callable[..., Coroutine[Any, Any, T]], /, *args: Any, **kwargs: Any) -> T:
        """Call a coroutine function that must not be cut off, such as a write; a cancellation is raised after it.

        Where nothing can cut it off, it is a call like others.
        """
        return cast(T, await self.call(function, *args, is_async=True, **kwargs))

    def unread(self) -> Port:
        """This world for a coroutine that nobody steps who serves a reader, such as one that `finish` is given."""
        return self

    async def after_abandoned(self, place: Any) -> None:
        """Wait until runs at `place` whose reader has gone without waiting for them have cleaned up."""
        return

    @abstractmethod
    async def rung(self, listen: Callable[[Callable[[], bool]], object]) -> None:
        """Wait for a bell that somebody else rings. `listen` is called with it, and hands it to them.

        They may ring it once, from any thread and any event loop; it says whether anybody can have heard it.
        """

    @abstractmethod
    async def bridge(
        self,
        hook: Callable[..., Any],
        inner: Callable[..., Awaitable[Any]],
        /,
        *args: Any,
        is_async: bool,
    ) -> Any:
        """Call `hook(*args, handler)`, a user's wrapper around a core coroutine function.

        A coroutine hook awaits `handler(...)`, a plain one calls it and gets the result; either may do so any
        number of times. `inner` itself always runs in the core.
        """

    @abstractmethod
    async def sleep(self, seconds: float) -> None:
        """Wait."""

    @property
    def unattended(self) -> bool:
        """Whether the run is ending where nobody can wait for it: what it has still to do, it does without waiting."""
        return False

    async def pause(self) -> None:
        """Let the reader take what has been emitted."""
        if self.reading:
            await _pausing

    def check(self) -> None:
        """Raise `RunCancelled` where the run's caller has given up on it and cannot stop it otherwise."""
        return

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back."""
        return time.monotonic()

    new_id = staticmethod(new_id)
    """A unique id. Another world may draw them otherwise."""

    def random(self) -> float:
        """A number in 0…1, for jitter."""
        import random

        return random.random()


class World(ABC):
    """A world that keeps what begins in it: a graph that is called while `world_around` names it runs there.

    The drivers of the two known worlds have functions of these names, which take the same.
    """

    @abstractmethod
    def port(self, outbox: Any, *, asynchronous: bool) -> Port:
        """The port of one run; `asynchronous` if its call is awaited. `outbox` is its reader's, None without one."""

    @abstractmethod
    def run(self, coroutine: Coroutine[Any, Any, T], outbox: Any, context: Context) -> T:
        """Run a core coroutine to its end, for a plain caller."""

    @abstractmethod
    async def arun(self, coroutine: Coroutine[Any, Any, T], outbox: Any, context: Context) -> T:
        """The same for one that awaits it."""

    @abstractmethod
    def stream(self, make: Callable[[], Coroutine[Any, Any, Any]], outbox: Any, context: Context) -> Iterator[Any]:
        """Run a core coroutine and yield what it puts into `outbox`."""

    @abstractmethod
    def astream(self, coroutine: Coroutine[Any, Any, Any], outbox: Any, context: Context) -> AsyncIterator[Any]:
        """The same for `async for`."""


world_around: ContextVar[World | None] = ContextVar("loopwright_world", default=None)
"""The world that the running code is kept in; None in the two known ones, which need none."""
