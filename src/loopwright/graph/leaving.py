"""How a run ends before its end: with an error, a cancellation, a command for the graph around, a reader that has gone.

What was done is kept, and the thread can go on. Whatever goes wrong on the way out, what ended the run is what its
caller is told.
"""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from loopwright.errors import GraphRecursionError, LoopwrightError, ParentCommand
from loopwright.graph.keeping import ask, keep_account, save, save_ended, written
from loopwright.graph.saved import joined
from loopwright.graph.starting import mend

if TYPE_CHECKING:
    from loopwright.graph.engine import Run

__all__ = ["leave", "out_of_steps"]


async def leave(run: Run, error: BaseException) -> None:
    """Put a run that `error` ends in order."""
    await _leave(run, error)
    if run.writing:
        await _saved(error, written(run))
    is_root = run.claim is not None and run.below is None
    if is_root and not isinstance(error, (Exception, ParentCommand)):  # threads that nobody waits for may still write
        await _saved(error, ask(run, "release", run.thread_id, run.claim))


async def _leave(run: Run, error: BaseException) -> None:
    if isinstance(error, ParentCommand):
        return
    repair = run.graph.repair
    before = run.state
    done = [(task.name, task.writes) for task in run.tasks if task.done]
    state, changed = joined(run.graph.channels, before, done)
    if isinstance(error, Exception):
        if run.begun:
            with suppress(Exception):  # the saver may be what has failed
                await keep_account(run)
        if isinstance(error, LoopwrightError) or not hasattr(error, "state"):
            mended = repair(state) if repair else {}
            with suppress(Exception):  # an exception class of the user's may refuse attributes
                error.state = run.public({**state, **mended})  # type: ignore[attr-defined]
    elif run.saver is not None and repair is not None:
        run.state = state
        if run.graph.repair_cancelled is not None:
            cut_off = [task for task in run.tasks if task.begun and not task.done]
            repair = partial(run.graph.repair_cancelled, cut_off=cut_off)
        if mend(run, repair):
            run.unsaved |= changed
            run.tasks = []
            run.step += 1
            await _saved(error, save(run, "loop", at_exit=True))
            return
        run.state = before
        await _saved(error, _save_results(run))
    if run.durability == "exit" and run.begun:
        await _saved(error, save(run, "loop", at_exit=True))


async def _save_results(run: Run) -> None:
    """What has ended stays so: the cancellation may have met it on its way to the saver."""
    for task in run.tasks:
        if task.done:
            await save_ended(run, task)


async def _saved(error: BaseException, saving: Awaitable[object]) -> None:
    try:
        await saving
    except Exception as failure:  # noqa: BLE001 - what ended the run is what its caller has to know
        error.add_note(f"The state could not be saved: {failure!r}")


def out_of_steps(limit: int) -> GraphRecursionError:
    """The error of a run that has made as many steps as it may."""
    return GraphRecursionError(
        f"{limit} steps were made and the graph has not ended (recursion_limit={limit}). "
        'Raise it with config={"recursion_limit": …}, or give the graph a way to end; '
        "the state so far is in error.state."
    )
