"""Helper threads: kept when idle, and never bounded.

A bounded pool would deadlock as soon as nested agents wait on its threads for children that need a thread too.
How many run at once is decided where it belongs: `max_concurrency`, a tool's own limit. Threads are daemons:
a tool that sleeps for ever does not keep the program from ending.
"""

from __future__ import annotations

import os
import threading
from _thread import allocate_lock
from collections.abc import Callable
from contextvars import Context, copy_context
from queue import SimpleQueue
from typing import Any

__all__ = ["Job", "start"]

_KEPT_IDLE = 64
_idle: list[_Worker] = []


class Job:
    """Something that runs elsewhere: its outcome, and who wants to be told."""

    __slots__ = ("_callbacks", "_lock", "cancel", "cancelled", "done", "error", "result")

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._callbacks: list[Callable[[], object]] = []
        self.done = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.cancelled = False
        """Set by whoever gave up on it; a thread cannot be stopped, only told."""
        self.cancel: Callable[[], object] = self._mark
        """Ask it to stop. What runs on an event loop replaces this by its task's own."""

    def _mark(self) -> None:
        self.cancelled = True

    def finish(self, result: Any, error: BaseException | None) -> None:
        """Settle the outcome, on whatever thread it came about."""
        with self._lock:
            self.result, self.error = result, error
            self.done = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def on_done(self, callback: Callable[[], object]) -> None:
        """Call `callback` once it is done: on the thread that finishes it, or now."""
        with self._lock:
            if not self.done:
                self._callbacks.append(callback)
                return
        callback()

    def outcome(self) -> Any:
        """The result, or the error raised."""
        if self.error is not None:
            raise self.error
        return self.result


class _Worker:
    """One helper thread with an inbox."""

    __slots__ = ("inbox",)

    def __init__(self) -> None:
        self.inbox: SimpleQueue[tuple[Job, Context, Callable[..., Any], tuple[Any, ...]]] = SimpleQueue()
        threading.Thread(target=self._work, name="loopwright-helper", daemon=True).start()

    def _work(self) -> None:
        while True:
            job, context, function, args = self.inbox.get()
            result, error = None, None
            try:
                result = context.run(function, *args)
            except BaseException as caught:  # noqa: BLE001 - handed to whoever waits for the job
                error = caught
            del context, function, args
            # Idle before it is settled, so that whoever was waiting for it can use this thread at once.
            keep = len(_idle) < _KEPT_IDLE
            if keep:
                _idle.append(self)
            job.finish(result, error)
            del job, result, error
            if not keep:
                return


def start(function: Callable[..., Any], *args: Any, job: Job | None = None) -> Job:
    """Run `function(*args)` on a helper thread, in a copy of the caller's context variables."""
    job = job or Job()
    try:
        worker = _idle.pop()
    except IndexError:
        worker = _Worker()
    worker.inbox.put((job, copy_context(), function, args))
    return job


def _forget_after_fork() -> None:
    """Threads do not survive a fork."""
    _idle.clear()


os.register_at_fork(after_in_child=_forget_after_fork)
