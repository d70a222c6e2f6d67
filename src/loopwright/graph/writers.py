"""Who writes to the thread of a run beside the run itself: its parallel tasks, and the runs below it.

They do so under its claim, and only for as long as it is under way. A thread of the machine cannot be stopped: a tool
that was left behind (the reader has gone, its time is over), or an agent in one, may be about to save while the run
around it has ended long ago. To the next run on that thread it would look as if somebody else had changed it. So a root
closes this when it ends, and waits for who is just writing.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from loopwright.errors import RunCancelled

if TYPE_CHECKING:
    from loopwright.port import Port

__all__ = ["Writers"]

_GRACE_S = 5.0
"""How long a root waits for a write below that has begun. It is one write, and most take less than a millisecond."""


class Writers:
    """Who may write, and how many just do."""

    __slots__ = ("_busy", "_changed", "_open")

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._busy = 0
        self._open = True

    @contextmanager
    def writing(self) -> Generator[None, None, None]:
        """One write. Raises `RunCancelled` once the root has ended."""
        with self._changed:
            if not self._open:
                raise RunCancelled("The run around this one has ended: what is done here is not kept on its thread.")
            self._busy += 1
        try:
            yield
        finally:
            with self._changed:
                self._busy -= 1
                self._changed.notify_all()

    async def close(self, port: Port) -> None:
        """The root has ended. From now on its thread belongs to whoever comes next."""
        with self._changed:
            self._open = False
            busy = self._busy
        if busy and port.asynchronous:
            await port.finish(self._calm, port.unread())
        elif busy:
            await self._calm(port)

    async def _calm(self, port: Port) -> None:
        await port.call(self._wait, is_async=False)

    def _wait(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._busy, _GRACE_S)
