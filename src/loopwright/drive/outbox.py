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

import sys
from _thread import allocate_lock
from collections import deque
from collections.abc import Callable
from typing import Any

__all__ = ["Ack", "Bell", "Outbox"]

Ack = Callable[[], object]
"""Called once the reader has taken what was there."""
Bell = Callable[[Ack | None], object]
"""Wakes the waiting root run, from any thread."""

_RECHECK_S = 0.5
"""How often a waiting emitter looks whether the root has gone; only a lost race ever waits that long."""


class Outbox:
    """Items emitted and not yet read, oldest first."""

    __slots__ = ("bell", "closed", "items")

    def __init__(self) -> None:
        self.items: deque[Any] = deque()
        self.bell: Bell | None = None
        self.closed = False
        """The reader has left: nothing is kept for it any more."""

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
        if bell is None or self.closed or _loop_runs_here():
            return
        taken = allocate_lock()
        taken.acquire()
        bell(taken.release)
        while not taken.acquire(timeout=_RECHECK_S):
            if self.bell is not bell or self.closed:
                return

    def close(self) -> None:
        """The reader has left."""
        self.closed = True
        self.items.clear()


def _loop_runs_here() -> bool:
    """Whether this thread is running an event loop. Where nobody has loaded asyncio, none can be."""
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None
