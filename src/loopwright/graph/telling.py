"""What readers are told of a run: the facts, made from the run as it stands when they happen.

Each of these is called only where somebody reads. Which readers want which facts, the feed knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from loopwright.checkpoint.record import NO_ARG, Record
from loopwright.graph.events import CheckpointSaved, DueTask, MessageAdded, StepCommitted, TaskFinished, TaskStarted
from loopwright.graph.types import Overwrite
from loopwright.graph.writes import told_of
from loopwright.messages import BaseMessage, RemoveMessage
from loopwright.messages.history import messages_with_ids

if TYPE_CHECKING:
    from loopwright.graph.engine import Run
    from loopwright.graph.task import Task

__all__ = ["name_messages", "tell_checkpoint", "tell_end", "tell_messages", "tell_start", "tell_step"]


def tell_start(run: Run, task: Task) -> None:
    """A task begins. Of a state its readers see the public part; what a task was sent, they see whole."""
    given = run.public(task.input) if task.arg is NO_ARG else task.input
    metadata = {**(run.config.get("metadata") or {}), **task.node.metadata}
    tags = [*run.config.get("tags", ()), *task.node.tags]
    if tags:
        metadata["tags"] = tags
    run.emit(TaskStarted, task.step, task.id, task.name, given, task.triggers, metadata, run.port.now())


def tell_end(run: Run, task: Task, error: str | None) -> None:
    """A task has ended. Keys that the state does not know change nothing, and are not told of."""
    update, known = task.update, run.graph.channels
    if any(key not in known for key, _ in task.writes):
        update = told_of([(key, value) for key, value in task.writes if key in known])
    run.emit(TaskFinished, task.step, task.id, task.name, update, error, task.interrupts, run.port.now())


def tell_messages(run: Run, task: Task) -> None:
    """Messages in a task's update that no reader of tokens has seen."""
    if not run.tokens:
        return
    for key, value in task.writes:
        if key in run.graph.message_keys:
            messages = value.value if isinstance(value, Overwrite) else value
            for message in cast("list[Any]", messages if isinstance(messages, list) else [messages]):
                known = getattr(message, "id", None) is not None and not isinstance(message, RemoveMessage)
                if known and run.first_sight(message.id):
                    run.emit(MessageAdded, message, task.metadata)


def name_messages(run: Run, task: Task) -> None:
    """Messages of a task's update get their ids before they are shown or kept, so that the state has the same ones."""
    writes = cast("list[tuple[str, Any]]", task.writes)
    named = False
    for at, (key, value) in enumerate(writes):
        if key not in run.graph.message_keys or isinstance(value, Overwrite):
            continue
        messages: list[Any] = cast("list[Any]", value) if isinstance(value, list) else [value]
        if any(not isinstance(message, BaseMessage) or message.id is None for message in messages):
            writes[at], named = (key, messages_with_ids(value)), True
    if named:
        task.update = told_of(writes)


async def tell_step(run: Run, saved: Record | None, *, changed: bool) -> None:
    """A step is reported when it is on record, not before."""
    if run.wants(StepCommitted):
        run.emit(StepCommitted, run.step, run.public(run.state), changed)
    tell_checkpoint(run, saved)
    await run.port.pause()


def tell_checkpoint(run: Run, record: Record | None) -> None:
    if record is None or not run.wants(CheckpointSaved):
        return
    config = {"thread_id": record.thread_id, "checkpoint_ns": record.ns}
    parent = None if record.parent_id is None else {"configurable": {**config, "checkpoint_id": record.parent_id}}
    tasks = tuple(DueTask(pending.id, pending.name) for pending in record.pending)
    run.emit(
        CheckpointSaved,
        record.step,
        {"configurable": {**config, "checkpoint_id": record.id}},
        parent,
        {key: record.values[key] for key in run.graph.channels if key in record.values},
        record.describe(),
        tuple(pending.name for pending in record.pending),
        tasks,
        run.port.now(),
    )
