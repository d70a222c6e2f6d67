"""How the public calls of a model run its core coroutine: blocking, in the caller's task, or with a reader.

Rules:

- `invoke` and `stream` need no event loop; `ainvoke` and `astream` stay in the caller's own task;
- inside a run whose tokens are read, a call hands each token to that run's reader before it asks for the next one;
- a coroutine is made when it is first stepped, so that a stream nobody reads costs nothing and warns of nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeVar

from loopwright.drive import blocking
from loopwright.drive.blocking import BlockingPort
from loopwright.drive.outbox import Outbox
from loopwright.port import Port, pause
from loopwright.scope import Scope, current_scope

if TYPE_CHECKING:
    from loopwright.drive.aio import AioStream

__all__ = ["Make", "MakeStream", "arun", "astream", "run", "stream"]

T = TypeVar("T")

Make = Callable[[Port], Coroutine[Any, Any, T]]
"""Makes the core coroutine of one call for a port."""
MakeStream = Callable[[Port, Callable[[Any], None]], Coroutine[Any, Any, Any]]
"""The same for a call whose pieces go to the given function."""


def run(make: Make[T]) -> T:
    """Run to the end on this thread."""
    outbox = _shown_in(current_scope.get())
    if outbox is None:
        return blocking.run(make(BlockingPort()))
    return blocking.run(make(BlockingPort(outbox)), outbox)


async def arun(make: Make[T]) -> T:
    """Run to the end in the caller's task."""
    from loopwright.drive import aio

    outbox = _shown_in(current_scope.get())
    if outbox is None:
        return await make(aio.AioPort())
    return await aio.run(make(aio.AioPort(outbox)), outbox)


def stream(make: MakeStream) -> Iterator[Any]:
    """Run on this thread, and yield each piece before going on."""
    outer = _shown_in(current_scope.get())
    pieces = _blocking_pieces(make)
    return pieces if outer is None else _paced(pieces, outer)


def _blocking_pieces(make: MakeStream) -> Iterator[Any]:
    outbox = Outbox()
    port = BlockingPort(outbox, root=True)
    return blocking.stream(lambda: make(port, outbox.put), outbox, copy_context())


def _paced(pieces: Iterator[Any], outer: Outbox) -> Iterator[Any]:
    """The reader of the run around it comes first: it may be waiting for the same piece."""
    for piece in pieces:
        outer.handover()
        yield piece


def astream(make: MakeStream) -> AsyncIterator[Any]:
    """Run in the reader's task, and give each piece before going on."""
    from loopwright.drive import aio

    outbox = Outbox()
    inner = aio.AioStream(make(aio.AioPort(outbox, root=True), outbox.put), outbox, copy_context())
    outer = _shown_in(current_scope.get())
    return inner if outer is None else _AioPaced(inner, outer)


class _AioPaced(AsyncIterator[Any]):
    """`_paced` for asyncio. No generator, for the reason that `AioStream` is none."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, inner: AioStream, outer: Outbox) -> None:
        self._inner, self._outer = inner, outer

    def __aiter__(self) -> _AioPaced:
        return self

    async def __anext__(self) -> Any:
        from loopwright.drive import aio

        piece = await self._inner.__anext__()
        await aio.run(_one_pause(), self._outer)
        return piece

    async def aclose(self) -> None:
        """End the call now."""
        await self._inner.aclose()


async def _one_pause() -> None:
    await pause()


def _shown_in(scope: Scope | None) -> Outbox | None:
    """Where the tokens of a call made inside a run wait for its reader; None if nobody reads them."""
    if scope is None or not scope.wants_tokens:
        return None
    return getattr(scope.port, "outbox", None)
