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

from loopwright.drive.bridge import awaited
from loopwright.drive.guest import Guest
from loopwright.drive.outbox import is_held
from loopwright.drive.threads import Job, current_job

__all__ = ["kept_loop", "start_on_loop"]

_lock = threading.Lock()
_loops: list[asyncio.AbstractEventLoop] = []


def kept_loop() -> asyncio.AbstractEventLoop:
    """The loop; started at the first use, and again in a forked child. One that stands still is passed over."""
    with _lock:
        for loop in _loops:
            if not is_held(loop) and not loop.is_closed():
                return loop
        loop = asyncio.new_event_loop()
        threading.Thread(target=_serve, args=(loop,), name="loopwright-loop", daemon=True).start()
        _loops.append(loop)
        return loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop for good.

    A task that raises `KeyboardInterrupt` or `SystemExit` stops its loop; that error is the task's, and the loop has
    others to serve.
    """
    while not loop.is_closed():
        try:
            loop.run_forever()
        except (KeyboardInterrupt, SystemExit):
            continue


def start_on_loop(coroutine: Coroutine[Any, Any, Any]) -> Job:
    """Run a coroutine on the kept loop, in a copy of the caller's context variables.

    A plain call made by a coroutine on that loop stops the loop until it has ended: what it waits for, however deep,
    runs on another one.
    """
    loop, job, context = kept_loop(), Job(), copy_context()
    context.run(current_job.set, job)

    def settle(task: asyncio.Task[Any]) -> None:
        coroutine.close()  # one that was cancelled first has never begun
        if task.cancelled():
            job.finish(None, asyncio.CancelledError())
        else:
            error = task.exception()
            job.finish(None if error else task.result(), error)

    def begin() -> None:
        task = loop.create_task(awaited(Guest(coroutine, context)))
        job.stop = lambda: loop.call_soon_threadsafe(task.cancel)
        if job.cancelled:
            task.cancel()
        task.add_done_callback(settle)

    loop.call_soon_threadsafe(begin)
    return job


def _forget_after_fork() -> None:
    global _lock
    _loops.clear()
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_after_fork)
