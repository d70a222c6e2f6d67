"""What readers are told of a run: the facts, made from the run as it stands when they happen.

Each of these is called only where somebody reads. Which readers want which facts, the feed knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from loopwright.checkpoint.record import NO_ARG, Record
from loopwright.graph.events import CheckpointSaved, MessageAdded, StepCommitted, TaskFinished, TaskStarted

if TYPE_CHECKING:
    from loopwright.graph.engine import Run
    from loopwright.graph.task import Task

__all__ = ["tell_checkpoint", "tell_end", "tell_messages", "tell_start", "tell_step"]


def tell_start(run: Run, task: Task) -> None:
    """A task begins. Of a state its readers see the public part; what a task was sent, they see whole."""
    given = run.public(task.input) if task.arg is NO_ARG else task.input
    run.emit(TaskStarted, task.step, task.id, task.name, given, task.triggers, task.node.metadata, run.port.now())


def tell_end(run: Run, task: Task, error: str | None) -> None:
    run.emit(TaskFinished, task.step, task.id, task.name, task.update, error, (), run.port.now())


def tell_messages(run: Run, task: Task) -> None:
    """Messages in a task's update that no reader of tokens has seen."""
    if not run.tokens:
        return
    for key, value in task.writes:
        if key in run.graph.message_keys:
            messages = cast("list[Any]", value if isinstance(value, list) else [value])
            for message in messages:
                if getattr(message, "id", None) is not None and run.first_sight(message.id):
                    run.emit(MessageAdded, message, task.metadata)


async def tell_step(run: Run, saved: Record | None, *, changed: bool) -> None:
    """A step is reported when it is on record, not before."""
    if run.wants(StepCommitted):
        run.emit(StepCommitted, run.step, run.public(run.state), changed, ())
    tell_checkpoint(run, saved)
    await run.port.pause()


def tell_checkpoint(run: Run, record: Record | None) -> None:
    if record is None or not run.wants(CheckpointSaved):
        return
    config = {"thread_id": record.thread_id, "checkpoint_ns": record.ns}
    parent = None if record.parent_id is None else {"configurable": {**config, "checkpoint_id": record.parent_id}}
    tasks = tuple({"id": p.id, "name": p.name, "interrupts": (), "state": None} for p in record.pending)
    run.emit(
        CheckpointSaved,
        record.step,
        {"configurable": {**config, "checkpoint_id": record.id}},
        parent,
        run.public(record.values),
        record.describe(),
        tuple(pending.name for pending in record.pending),
        tasks,
        run.port.now(),
    )
