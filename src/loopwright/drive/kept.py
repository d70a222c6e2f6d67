"""One event loop on a helper thread, kept for the whole process.

Coroutine functions of the user's (tools, hooks, models) run here when they are called from a blocking run, so that
what they keep open between calls (sessions, connection pools) lives on one loop.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from contextvars import copy_context
from typing import Any

from loopwright.drive.threads import Job, start

__all__ = ["kept_loop", "start_on_loop"]

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def kept_loop() -> asyncio.AbstractEventLoop:
    """The loop; started at the first use, and again in a forked child."""
    global _loop
    with _lock:
        if _loop is None or _loop.is_closed():
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="loopwright-loop", daemon=True).start()
            _loop = loop
        return _loop


def start_on_loop(coroutine: Coroutine[Any, Any, Any]) -> Job:
    """Run a coroutine on the kept loop, in a copy of the caller's context variables.

    A plain call made by a coroutine on that loop stops the loop: what it waits for gets one of its own.
    """
    loop, job, context = kept_loop(), Job(), copy_context()
    if asyncio._get_running_loop() is loop:
        return start(asyncio.run, coroutine)

    def settle(task: asyncio.Task[Any]) -> None:
        if task.cancelled():
            job.finish(None, asyncio.CancelledError())
        else:
            error = task.exception()
            job.finish(None if error else task.result(), error)

    def begin() -> None:
        task = loop.create_task(coroutine, context=context)
        job.cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        if job.cancelled:
            task.cancel()
        task.add_done_callback(settle)

    loop.call_soon_threadsafe(begin)
    return job


def _forget_after_fork() -> None:
    global _loop, _lock
    _loop, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget_after_fork)
