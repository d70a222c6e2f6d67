"""A limit on how many calls of one tool run at once, whatever threads and event loops they are on.

Whoever finds it full waits without a thread of its own and is let in in order of arrival; one that gives up while it
waits takes nothing from those behind it. A call that is made from inside the tool (by a nested agent that has the same
tool) runs in its caller's place: waiting for a place that its own caller holds would be waiting for ever.
"""

from __future__ import annotations

import os
from _thread import allocate_lock
from collections import deque
from collections.abc import Callable
from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

if TYPE_CHECKING:
    from loopwright.port import Port

__all__ = ["Gate"]

_inside: Final[ContextVar[frozenset[int]]] = ContextVar("loopwright_gates", default=frozenset())
"""The gates that the running code has passed, by `id`."""


class _Waiter:
    """Somebody in the queue. `admitted` is set under the gate's lock."""

    __slots__ = ("admit", "admitted")

    def __init__(self) -> None:
        self.admitted = False
        self.admit: Callable[[], bool] | None = None


class Gate:
    """At most `width` at once."""

    __slots__ = ("__weakref__", "_free", "_lock", "_queue", "width")

    def __init__(self, width: int) -> None:
        self.width = width
        self.open()
        _gates.add(self)

    def open(self) -> None:
        """Nobody is inside, and nobody waits."""
        self._free = self.width
        self._lock = allocate_lock()
        self._queue: deque[_Waiter] = deque()

    def __reduce__(self) -> tuple[Any, ...]:
        return Gate, (self.width,)

    def is_inside(self) -> bool:
        """Whether the running code was called from inside of this gate."""
        return id(self) in _inside.get()

    def mark(self, context: Context) -> None:
        """What runs in this context is inside."""
        context.run(_inside.set, context.get(_inside, frozenset[int]()) | {id(self)})

    async def enter(self, port: Port) -> None:
        """Wait for a place."""
        waiter = _Waiter()  # made outside of the lock: the garbage collector may run code that needs it
        with self._lock:
            if self._free > 0:
                self._free -= 1
                return
            self._queue.append(waiter)
        try:
            await port.rung(lambda ring: self._listen(waiter, ring))
        except BaseException:
            self._give_up(waiter)
            raise

    def leave(self) -> None:
        """Give the place to the next."""
        with self._lock:
            if not self._queue:
                self._free += 1
                return
            waiter = self._queue.popleft()
            waiter.admitted = True
            admit = waiter.admit
        if admit is not None and not admit():  # nobody is there any more to be let in
            self.leave()

    def _listen(self, waiter: _Waiter, ring: Callable[[], bool]) -> None:
        with self._lock:
            if not waiter.admitted:
                waiter.admit = ring
                return
        ring()

    def _give_up(self, waiter: _Waiter) -> None:
        with self._lock:
            if not waiter.admitted:
                self._queue.remove(waiter)
                return
        self.leave()


_gates: Final[WeakSet[Gate]] = WeakSet()


def _open_after_fork() -> None:
    """Whoever was inside, or waited, did not come along into the child."""
    for gate in _gates:
        gate.open()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open_after_fork)
