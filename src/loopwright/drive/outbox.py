"""The place where a run's output waits for its reader.

One outbox belongs to one reader and serves the whole tree of runs below it. Three kinds of code meet here:

- whoever emits calls `put`, from any thread;
- the root run, while it waits for something that runs elsewhere, hangs up a `bell`: a function that wakes it,
  so that output is delivered as it comes;
- a run or a task that is not the root and has emitted something calls `handover` (its asynchronous twin is in
  `aio`), which returns when the reader has taken everything: that is how a nested agent's token, too,
  is delivered before the next is asked for.

Invariant: while `bell` is None, the root itself is running and will deliver at its next pause, so nobody waits.
"""

from __future__ import annotations

import os
import sys
from _thread import allocate_lock
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

__all__ = ["Ack", "Bell", "Outbox", "hold_loop", "is_held", "release_loop", "running_loop"]

Ack = Callable[[], object]
"""Called once the reader has taken what was there."""
Bell = Callable[[Ack | None], object]
"""Wakes the waiting root run, from any thread."""

_RECHECK_S = 0.5
"""How often a waiting emitter looks whether the root has gone, or is held up meanwhile; both are rare."""


class Outbox:
    """Items emitted and not yet read, oldest first."""

    __slots__ = ("bell", "closed", "dropped", "items", "loop", "place")

    def __init__(self) -> None:
        self.place: Any = None
        """What the root run works on, such as a thread. The next one there waits for a run that was abandoned."""
        self.items: deque[Any] = deque()
        self.bell: Bell | None = None
        self.loop: Any = None
        """The event loop that the root is stepped on; None for a root that blocks."""
        self.closed = False
        """The reader has left: nothing is kept for it any more."""
        self.dropped = False
        """It has left without closing, and nobody can wait for what the run has still to do."""

    def put(self, item: Any) -> None:
        """Add an item and wake the root run if it waits."""
        if self.closed:
            return
        self.items.append(item)
        bell = self.bell
        if bell is not None:
            bell(None)

    def handover(self) -> None:
        """Wait, on a thread that is not the root's, until the reader has taken everything.

        A blocking call on an event loop's own thread does not wait: it holds up that loop, and maybe its reader too.
        """
        bell = self.bell
        if bell is None or self.closed or running_loop() is not None or self.is_held_up():
            return
        taken = allocate_lock()
        taken.acquire()
        bell(taken.release)
        while not taken.acquire(timeout=_RECHECK_S):
            if self.bell is not bell or self.closed or self.is_held_up():
                return

    def is_held_up(self) -> bool:
        """Whether the root's loop is stopped by a blocking call, which may be waiting for this very code."""
        return self.loop in _held

    def close(self) -> None:
        """The reader has left."""
        self.closed = True
        self.items.clear()


_held: Final[list[Any]] = []
"""Event loops that stand still, each as often as a blocking call is made on its own thread: for as long as that lasts.

Whoever would wait for one of them might be who the call waits for, and no context variable tells: a plain thread below
the call has inherited none.
"""


def running_loop() -> Any:
    """The event loop that this thread runs, None without one. Where nobody has loaded asyncio, there is none."""
    asyncio = sys.modules.get("asyncio")
    return None if asyncio is None else asyncio._get_running_loop()


def hold_loop() -> Any:
    """A blocking call begins: the loop that it stops until `release_loop`. None if there is none."""
    loop = running_loop()
    if loop is not None:
        _held.append(loop)
    return loop


def release_loop(loop: Any) -> None:
    """The blocking call has ended."""
    with suppress(ValueError):  # in a forked child nothing is held any more
        _held.remove(loop)


def is_held(loop: Any) -> bool:
    """Whether the loop stands still."""
    return loop in _held


os.register_at_fork(after_in_child=_held.clear)
