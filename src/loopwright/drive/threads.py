"""Helper threads: kept when idle, and never bounded.

A bounded pool would deadlock as soon as nested agents wait on its threads for children that need a thread too.
How many run at once is decided where it belongs: `max_concurrency`, a tool's own limit. Threads are daemons:
a tool that sleeps for ever does not keep the program from ending.

What runs here may begin jobs of its own: an agent in a tool does. Whoever gives up on a job gives up on those below it.
A thread cannot be stopped, but a run on it looks before each step whether its job is still wanted (`current_job`).
"""

from __future__ import annotations

import os
import sys
import threading
from _thread import allocate_lock
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from queue import SimpleQueue
from typing import Any

__all__ = ["Job", "current_job", "its_own", "start"]

_KEPT_IDLE = 64
_idle: list[_Worker] = []


class Job:
    """Something that runs elsewhere: its outcome, and who wants to be told. Methods are named as those of a future."""

    __slots__ = ("_above", "_below", "_callbacks", "_done", "_error", "_lock", "_result", "cancelled", "stop")

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._callbacks: list[Callable[[Job], object]] = []
        self._below: list[Job] = []
        self._done = False
        self._result: Any = None
        self._error: BaseException | None = None
        self.cancelled = False
        """Set by whoever gave up on it; a thread cannot be stopped, only told."""
        self.stop: Callable[[], object] | None = None
        """Stops what runs on an event loop."""
        self._above = current_job.get()
        if self._above is not None:
            self._above._begin(self)

    def _begin(self, below: Job) -> None:
        with self._lock:
            self._below.append(below)
            below.cancelled = self.cancelled

    def cancel(self) -> None:
        """Ask it to stop, and what it has begun."""
        with self._lock:
            self.cancelled = True
            below = list(self._below)
        if self.stop is not None:
            self.stop()
        for job in below:
            job.cancel()

    def finish(self, result: Any, error: BaseException | None) -> None:
        """Settle the outcome, on whatever thread it came about."""
        with self._lock:
            self._result, self._error = result, error
            self._done = True
            callbacks, self._callbacks = self._callbacks, []
        above = self._above
        if above is not None:
            with above._lock:
                above._below.remove(self)
        for callback in callbacks:
            callback(self)

    def done(self) -> bool:
        """Whether it has ended."""
        return self._done

    def add_done_callback(self, callback: Callable[[Job], object]) -> None:
        """Call `callback(job)` once it is done: on the thread that finishes it, or now."""
        with self._lock:
            if not self._done:
                self._callbacks.append(callback)
                return
        callback(self)

    def result(self) -> Any:
        """The result of a job that is done, or its error raised."""
        if self._error is not None:
            raise self._error
        return self._result


current_job: ContextVar[Job | None] = ContextVar("loopwright_job", default=None)
"""The job that the running code belongs to; None on a thread that is not ours."""


def its_own(error: BaseException, *, cancelled: bool) -> BaseException:
    """What the error of a plain function counts as. Nobody can throw a cancellation into one: if it raises one all the
    same, and was not `cancelled`, that is an error like any other.
    """
    known = sys.modules.get("asyncio.exceptions")  # whoever raises one has it
    if cancelled or known is None or not isinstance(error, known.CancelledError):
        return error
    from loopwright.drive.guest import own_error

    return own_error(error)


class _Worker:
    """One helper thread with an inbox."""

    __slots__ = ("inbox",)

    def __init__(self) -> None:
        self.inbox: SimpleQueue[tuple[Job, Context, Callable[..., Any], tuple[Any, ...]]] = SimpleQueue()
        threading.Thread(target=self._work, name="loopwright-helper", daemon=True).start()

    def _work(self) -> None:
        while True:
            job, context, function, args = self.inbox.get()
            idle = _idle
            result, error = None, None
            try:
                result = context.run(function, *args)
            except BaseException as caught:  # noqa: BLE001 - handed to whoever waits for the job
                error = its_own(caught, cancelled=job.cancelled)
            del context, function, args
            if idle is not _idle:  # the function has returned in a child that it forked: nobody there waits for it
                return
            # Idle before it is settled, so that whoever was waiting for it can use this thread at once.
            keep = len(_idle) < _KEPT_IDLE
            if keep:
                _idle.append(self)
            job.finish(result, error)
            del job, result, error
            if not keep:
                return


def start(function: Callable[..., Any], *args: Any) -> Job:
    """Run `function(*args)` on a helper thread, in a copy of the caller's context variables."""
    job = Job()
    context = copy_context()
    context.run(current_job.set, job)
    try:
        worker = _idle.pop()
    except IndexError:
        worker = _Worker()
    worker.inbox.put((job, context, function, args))
    return job


def _forget_after_fork() -> None:
    """Threads do not survive a fork, and nobody in the child waits for its parent's jobs."""
    global _idle
    _idle = []
    current_job.set(None)


os.register_at_fork(after_in_child=_forget_after_fork)
