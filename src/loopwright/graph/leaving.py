"""How a run ends before its end: with an error, a cancellation, a command for the graph around, a reader that has gone.

What was done is kept, and the thread can go on. Whatever goes wrong on the way out, what ended the run is what its
caller is told. A cancellation may come more than once; each thing that is done here is finished all the same.
"""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from loopwright.errors import Escalated, GraphRecursionError, LoopwrightError, ParentCommand
from loopwright.graph.keeping import keep_account, save, save_ended
from loopwright.graph.saved import joined
from loopwright.graph.starting import mend

if TYPE_CHECKING:
    from loopwright.graph.engine import Run

__all__ = ["leave", "out_of_steps"]


async def leave(run: Run, error: BaseException) -> None:
    """Put a run that `error` ends in order."""
    await _finished(run, error, run.keep_alone())
    await _leave(run, error)
    await _finished(run, error, run.beside.over(run.port))


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
            close = run.graph.close
            begun = [task.input for task in run.tasks if task.begun and not task.done]
            mended = close(state, begun=begun, cancelled=False) if close else repair(state) if repair else {}
            with suppress(Exception):  # an exception class of the user's may refuse attributes
                error.state = run.public({**state, **mended})  # type: ignore[attr-defined]
    elif run.claim is not None and repair is not None:
        run.state = state
        if run.graph.close is not None:
            begun = [task.input for task in run.tasks if task.begun and not task.done]
            repair = partial(run.graph.close, begun=begun, cancelled=True)
        if mend(run, repair):
            run.unsaved |= changed
            run.give_up_step()
            await _finished(run, error, save(run, "loop", at_exit=True))
            return
        run.state = before
        for task in run.tasks:
            if task.done:  # and stays so: the cancellation may have met its result on the way to the saver
                await _finished(run, error, save_ended(run, task))
    if run.durability == "exit" and run.begun:
        await _finished(run, error, save(run, "loop", at_exit=True))


async def _finished(run: Run, error: BaseException, saving: Awaitable[object]) -> None:
    try:
        await saving
    except run.port.cancellations:
        if isinstance(error, Exception):
            raise
    except (Exception, Escalated) as raised:  # noqa: BLE001 - what ended the run is what its caller has to know
        failure = raised.error if isinstance(raised, Escalated) else raised
        if failure is not error:
            error.add_note(f"The state could not be saved: {failure!r}")


def out_of_steps(limit: int) -> GraphRecursionError:
    """The error of a run that has made as many steps as it may."""
    return GraphRecursionError(
        f"{limit} steps were made and the graph has not ended (recursion_limit={limit}). "
        'Raise it with config={"recursion_limit": …}, or give the graph a way to end; '
        "the state so far is in error.state."
    )
