"""What a run writes to its thread: its checkpoints, and what each task has written the moment it ends.

A run below another one is kept on the thread of the root, in a namespace of its own, under the root's claim.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from loopwright.checkpoint.plain import plain_copy
from loopwright.checkpoint.record import Pending, Record
from loopwright.errors import Escalated
from loopwright.graph.saved import ACCOUNT_KEY, JOINS_KEY, RAN_KEY, RUN_ID, STOPPED_KEY, paused_form, saved_form
from loopwright.ids import new_ordered_id
from loopwright.messages.history import History

if TYPE_CHECKING:
    from loopwright.checkpoint.base import BaseCheckpointSaver
    from loopwright.graph.engine import Run
    from loopwright.graph.task import Task
    from loopwright.graph.writers import Writers

__all__ = ["ask", "keep_account", "load", "save", "save_ended", "save_task"]

_OWN_KEYS = frozenset({"thread_id", "checkpoint_id", "checkpoint_ns"})


async def ask(run: Run, name: str, *args: Any, **kwargs: Any) -> Any:
    """Call a method of the run's saver: the plain one where nothing waits, its twin where there is an event loop.

    A saver that fails ends the whole run: below a tool, too, it is none of the tool's failures.
    """
    try:
        if run.below is None or name == "load":
            return await _asked(run, name, args, kwargs)
        with cast("Writers", run.writers).writing():
            return await _asked(run, name, args, kwargs)
    except Exception as error:
        if run.below is None:
            raise
        raise Escalated(error) from error


async def _asked(run: Run, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A write that has begun is waited for, also by a run that is cancelled: the next one has to find it done."""
    saver, port = cast("BaseCheckpointSaver", run.saver), run.port
    if saver.instant or not port.asynchronous or port.unattended:
        return getattr(saver, name)(*args, **kwargs)
    if name == "load":
        return await port.call(saver.aload, *args, is_async=True, **kwargs)
    return await port.finish(getattr(saver, "a" + name), *args, **kwargs)


async def load(run: Run, checkpoint_id: str | None) -> Record | None:
    """The thread's head, or one of its checkpoints."""
    if run.saver is None:
        return None
    return cast("Record | None", await ask(run, "load", run.thread_id, run.namespace, checkpoint_id))


async def _write(run: Run, name: str, *args: Any, **kwargs: Any) -> None:
    """Have something written: now, or with durability "async" beside the next step."""
    if _waits_later(run):
        await run.beside.add(run.port, partial(ask, run, name, *args, **kwargs))
    else:
        await ask(run, name, *args, **kwargs)


def _waits_later(run: Run) -> bool:
    return run.durability == "async" and not cast("BaseCheckpointSaver", run.saver).instant


def _own(key: str, value: Any) -> Any:
    """A value that stays what it is while the run goes on. Messages do anyway."""
    return value if isinstance(value, History) else plain_copy(value, f'state["{key}"]')


async def save_task(run: Run, task: Task, writes: Sequence[tuple[str, Any]]) -> None:
    """Keep what a task has written, in place of what it had written before."""
    await _save_writes(run, task.id, writes)


async def save_ended(run: Run, task: Task) -> None:
    """Keep what a task has written that has ended, and what was spent for it: both are there after a crash, or none."""
    spent: list[tuple[str, Any]] = []
    if len(run.tasks) == 1:
        account = run.account()
        if account != run.kept:
            spent = [(ACCOUNT_KEY, account)]
    elif task.tally is not None and task.spent is None:
        task.spent = task.tally.spent()
    await _save_writes(run, task.id, [*saved_form(task.writes, task.goto, task.spent), *spent])


async def keep_account(run: Run) -> None:
    """Keep what an unfinished step has spent, beside what its tasks have written."""
    account = run.account()
    if account is not None:
        await _save_writes(run, RUN_ID, [(ACCOUNT_KEY, account), *_stopped(run)])


async def _save_writes(run: Run, task_id: str, writes: Sequence[tuple[str, Any]]) -> None:
    if run.saver is not None and run.durability != "exit" and run.checkpoint_id is not None:
        place = (run.thread_id, run.namespace, run.checkpoint_id, task_id)
        if _waits_later(run):
            writes = [(key, plain_copy(value, f"writes[{key!r}]")) for key, value in writes]
        await _write(run, "save_writes", *place, writes, claim=run.claim)


async def save(run: Run, source: str, *, at_exit: bool = False) -> Record | None:
    """Write a checkpoint of the state as it is now, with what is due next."""
    if run.saver is None or (run.durability == "exit" and not at_exit):
        return None
    channels = run.graph.channels
    values = {key: value for key, value in run.state.items() if key not in channels or not channels[key].ephemeral}
    values[RAN_KEY] = run.ran
    run.unsaved.add(RAN_KEY)
    if run.graph.joins:
        values[JOINS_KEY] = run.arrived
        run.unsaved.add(JOINS_KEY)
    account = run.account()
    writes = [(task.id, *write) for task in run.tasks for write in _written(task)]
    if at_exit and account is not None:
        writes.append((RUN_ID, ACCOUNT_KEY, account))  # what the unfinished step has spent is in it
    record = Record(
        id=new_ordered_id(),
        parent_id=run.checkpoint_id,
        thread_id=cast(str, run.thread_id),
        ns=run.namespace,
        step=run.step,
        source=source,
        metadata=_metadata(run),
        created_at=datetime.fromtimestamp(run.port.now(), UTC).isoformat(),
        values=values,
        pending=tuple(_pending(task) for task in run.tasks),
        writes=writes,
        account=account,
    )
    if at_exit:
        record.writes += [(RUN_ID, *write) for write in _stopped(run)]
    if _waits_later(run):
        record.values = {key: _own(key, value) if key in run.unsaved else value for key, value in values.items()}
        record.pending = plain_copy(record.pending, "pending")
    await _write(run, "save", record, run.unsaved, claim=run.claim)
    run.unsaved, run.kept = set(), record.account
    run.parent_checkpoint_id, run.checkpoint_id = run.checkpoint_id, record.id
    return record


def _stopped(run: Run) -> list[tuple[str, Any]]:
    return [(STOPPED_KEY, True)] if run.passed == run.step else []


def _pending(task: Task) -> Pending:
    """A task that is due. The path of one that an edge has led to goes without saying."""
    return Pending(task.id, task.name, () if task.path == task.node.pulled else task.path, task.arg)


def _written(task: Task) -> list[tuple[str, Any]]:
    if task.done:
        return saved_form(task.writes, task.goto, task.spent)
    had = task.interrupts or task.answers or task.finished
    return paused_form(task.interrupts, task.answers, task.finished) if had else []


def _metadata(run: Run) -> dict[str, Any]:
    """What of the config is kept with a checkpoint: the metadata, and plain values of the caller's own keys."""
    configurable = run.config.get("configurable") or {}
    own = {
        key: value
        for key, value in configurable.items()
        if isinstance(value, (str, int, float, bool)) and not key.startswith("__")
    }
    kept = {**own, **(run.config.get("metadata") or {})}
    return {key: value for key, value in kept.items() if key not in _OWN_KEYS}
