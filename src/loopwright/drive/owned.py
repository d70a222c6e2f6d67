"""Asynchronous generators that their reader closes, and nobody else.

A loop that ends closes all generators it has been told of, at the same time: of two that read each other, one finds the
other one busy, and asyncio reports an error. What is closed by its reader in any case is therefore not announced.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import contextmanager
from sys import get_asyncgen_hooks, set_asyncgen_hooks
from typing import Any, Generic, TypeVar

__all__ = ["Owned"]

T = TypeVar("T")


class Owned(AsyncIterator[T], Generic[T]):
    """The items of `source`, of which no loop is told; with `deep`, nor of the generators that its first item starts.

    `deep` is for generators that close each other, and have nothing to wait for when `source` is closed.
    """

    __slots__ = ("_deep", "_is_begun", "_next", "begun")

    def __init__(self, source: AsyncIterator[T], *, deep: bool = False) -> None:
        self.begun, self._deep = source, deep
        """The source itself: to be read directly once it has begun, where `deep` does not matter."""
        self._next: Callable[[], Awaitable[T]] = aiter(source).__anext__
        self._is_begun = False

    def __anext__(self) -> Awaitable[T]:
        if self._is_begun:
            return self._next()
        self._is_begun = True
        with _unannounced():  # a generator is announced when its first item is asked for
            first = self._next()
        return _Deep(first) if self._deep else first

    async def aclose(self) -> None:
        """Close the source, if it can be closed."""
        close = getattr(self.begun, "aclose", None)
        if close is not None:
            await close()


class _Deep(Awaitable[Any]):
    """Awaitable like `awaitable`, each step of it unannounced."""

    __slots__ = ("_awaitable",)

    def __init__(self, awaitable: Awaitable[Any]) -> None:
        self._awaitable = awaitable

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = _steps(self._awaitable)
        step: Callable[[Any], Any] = steps.send
        value: Any = None
        while True:
            try:
                with _unannounced():
                    yielded = step(value)
            except StopIteration as stop:
                return stop.value
            try:
                step, value = steps.send, (yield yielded)
            except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to the source
                step, value = steps.throw, error


async def _steps(awaitable: Awaitable[T]) -> T:
    return await awaitable


@contextmanager
def _unannounced() -> Generator[None, None, None]:
    hooks = get_asyncgen_hooks()
    set_asyncgen_hooks(None, None)
    try:
        yield
    finally:
        set_asyncgen_hooks(*hooks)
