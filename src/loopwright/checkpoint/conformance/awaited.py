"""A saver seen through its async methods, so that each test of the plain ones is one of both."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any

from loopwright.checkpoint.base import BaseCheckpointSaver

__all__ = ["Awaited"]

_WAIT_S = 60
"""For one answer; a saver that is this late has hung."""


class Awaited:
    """Each call of a method runs its async twin on one event loop, which has a thread of its own.

    Callers in several threads are then several tasks of that loop.
    """

    def __init__(self, saver: BaseCheckpointSaver) -> None:
        self._saver = saver
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the loop; the saver stays open."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_WAIT_S)
        self._loop.close()

    def __getattr__(self, name: str) -> Any:
        twin = getattr(self._saver, "a" + name, None)
        if twin is None:  # one that both worlds share: `get_next_version`, `register`
            return getattr(self._saver, name)
        answer = self._items if name in ("walk", "list") else self._result

        def call(*args: Any, **options: Any) -> Any:
            return answer(twin(*args, **options))

        return call

    def _result(self, call: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result(_WAIT_S)

    def _items(self, items: AsyncIterator[Any]) -> Iterator[Any]:
        async def following() -> tuple[Any, ...]:
            async for item in items:
                return (item,)
            return ()

        while found := self._result(following()):
            yield from found
