"""What is written beside a run, with durability "async": one after the other, in the order in which it came to be.

Each write waits for those before it, and a run below begins only when those of the run around it are over, so what is
on record never depends on something that is not. Behind the first that fails nothing is written, by runs below neither.
"""

from __future__ import annotations

from _thread import allocate_lock
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from loopwright.errors import Escalated

if TYPE_CHECKING:
    from loopwright.port import Port

__all__ = ["Beside"]


class _Write:
    """One of them. `handle` is what the port knows it by."""

    __slots__ = ("done", "handle")

    def __init__(self) -> None:
        self.handle: Any = None
        self.done = False


class Beside:
    """The writes beside one run."""

    __slots__ = ("_around", "_bells", "_error", "_lock", "_open", "_writes")

    def __init__(self, around: Beside | None = None) -> None:
        """`around`: the writes beside the run around this one."""
        self._around = around
        self._writes: deque[_Write] = deque()
        self._error: BaseException | None = None
        self._lock = allocate_lock()
        self._open = 0
        self._bells: list[Callable[[], bool]] = []

    async def add(self, port: Port, write: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin a write when those before it are over, also for a run that is cancelled. Raises what `over` does."""
        told = await self._settle(port)
        if self._failed() is None:
            begun = _Write()
            with self._lock:
                self._open += 1
            begun.handle = port.beside(self._do(write, begun))
            self._writes.append(begun)
        self._raise(told)

    async def over(self, port: Port) -> None:
        """Wait until all is written. Raises the error of the first write that failed, however often it is called.

        A cancellation is raised afterwards.
        """
        self._raise(await self._settle(port))

    async def over_around(self, port: Port) -> None:
        """The same for a run below, which may be in another world and has a `port` of its own."""
        if self._open:
            await port.rung(self._listen)
        self._raise(None)

    async def _settle(self, port: Port) -> BaseException | None:
        told: BaseException | None = None
        while (oldest := self._oldest()) is not None:
            try:
                await port.settled(oldest.handle)
            except port.cancellations as error:
                if not oldest.done:
                    if told is not None:  # it has had its time
                        raise
                    told = error
                    continue
                told = error
            self._forget(oldest)
        return told

    def _oldest(self) -> _Write | None:
        """It is left in its place while it is waited for: a task beside this one has to wait for it too."""
        with self._lock:
            return self._writes[0] if self._writes else None

    def _forget(self, write: _Write) -> None:
        with self._lock:
            if self._writes and self._writes[0] is write:
                self._writes.popleft()

    def _raise(self, told: BaseException | None) -> None:
        for error in (told, self._failed()):
            if error is not None:
                raise error

    def _failed(self) -> BaseException | None:
        """The first error of these writes, or of those around: that is the end of the whole run."""
        if self._error is not None or self._around is None:
            return self._error
        above = self._around._failed()
        return Escalated(above) if isinstance(above, Exception) else above

    def _listen(self, ring: Callable[[], bool]) -> None:
        with self._lock:
            if self._open:
                self._bells.append(ring)
                return
        ring()

    async def _do(self, write: Callable[[], Coroutine[Any, Any, None]], begun: _Write) -> None:
        try:
            await write()
        except BaseException as error:
            self._error = self._error or error
            if not isinstance(error, Exception):
                raise
        finally:
            begun.done = True
            self._ring()

    def _ring(self) -> None:
        """One write less; whoever waits for the last is told."""
        bells: list[Callable[[], bool]] = []  # not made under the lock: the collector may run code that needs it
        with self._lock:
            self._open -= 1
            if not self._open:
                bells, self._bells = self._bells, bells
        for ring in bells:
            ring()
