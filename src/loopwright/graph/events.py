"""The facts of a run, in the past tense.

Every fact has a `seq`, its place in the order of the whole tree of runs, and a `path`, the names of the nested runs it
happened in (empty at the root). Facts say what happened, never who listens: what a stream mode shows of them
is a row in `modes.py`. A fact that nobody reads is not made.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct

__all__ = [
    "AnswerGrew",
    "AnyEvent",
    "CheckpointSaved",
    "CustomEmitted",
    "DueTask",
    "Event",
    "LimitReached",
    "MessageAdded",
    "MessageChunk",
    "RunFinished",
    "RunInterrupted",
    "RunStarted",
    "StepCommitted",
    "TaskFinished",
    "TaskStarted",
    "ToolFinished",
    "ToolStarted",
]


class Event(Struct, frozen=True, tag_field="kind"):
    """One fact."""

    seq: int
    """Counts from 1 over the whole tree of runs, in the order of arrival."""
    path: tuple[str, ...]
    """`("node:task id", …)` of the nested runs around it; `()` at the root."""


class RunStarted(Event, frozen=True, tag="run_started"):
    run_id: str
    thread_id: str | None
    input: Any


class TaskStarted(Event, frozen=True, tag="task_started"):
    step: int
    id: str
    name: str
    input: Any
    triggers: tuple[str, ...]
    metadata: dict[str, Any]
    time: float
    """Seconds since the epoch."""


class MessageChunk(Event, frozen=True, tag="message_chunk"):
    chunk: Any
    """An `AIMessageChunk`, as the model gave it."""
    metadata: dict[str, Any]
    """`langgraph_node`, `langgraph_step`, tags, thread, … ; the same object for all chunks of one task."""


class MessageAdded(Event, frozen=True, tag="message_added"):
    message: Any
    """A whole message that was not streamed before: a tool's result, a hook's message, a plain model's answer."""
    metadata: dict[str, Any]


class AnswerGrew(Event, frozen=True, tag="answer_grew"):
    name: str
    """The schema that the answer is for."""
    value: Any
    """What has come, as plain dicts and lists; longer texts and more items than the last time."""
    message_id: str | None
    """The reply that holds it: another one begins anew."""


class CustomEmitted(Event, frozen=True, tag="custom_emitted"):
    value: Any


class ToolStarted(Event, frozen=True, tag="tool_started"):
    id: str
    """The tool call's id."""
    name: str
    args: Any


class ToolFinished(Event, frozen=True, tag="tool_finished"):
    id: str
    name: str
    status: str
    """`success` or `error`."""
    content: Any


class TaskFinished(Event, frozen=True, tag="task_finished"):
    step: int
    id: str
    name: str
    update: Any
    """What the node returned, as a dict from key to update; None for nothing."""
    error: str | None
    interrupts: tuple[Any, ...]
    time: float


class StepCommitted(Event, frozen=True, tag="step_committed"):
    step: int
    values: dict[str, Any]
    """The state's public part; never changed afterwards."""
    changed: bool
    """Whether the step wrote anything at all."""


class DueTask(Struct, frozen=True):
    """A task that runs when the thread goes on."""

    id: str
    name: str
    interrupts: tuple[Any, ...] = ()


class CheckpointSaved(Event, frozen=True, tag="checkpoint_saved"):
    step: int
    config: dict[str, Any]
    parent_config: dict[str, Any] | None
    values: dict[str, Any]
    """The whole state, what is private to the graph included."""
    metadata: dict[str, Any]
    next: tuple[str, ...]
    tasks: tuple[DueTask, ...]
    time: float


class LimitReached(Event, frozen=True, tag="limit_reached"):
    limit: str
    sentence: str


class RunInterrupted(Event, frozen=True, tag="run_interrupted"):
    step: int
    values: dict[str, Any]
    """The public part of the state that the open step began with."""
    interrupts: tuple[Any, ...]
    """All questions of the step; empty where the caller has asked for the stop."""


class RunFinished(Event, frozen=True, tag="run_finished"):
    stop_reason: str | None
    usage: dict[str, Any] | None


AnyEvent: TypeAlias = (
    RunStarted
    | TaskStarted
    | MessageChunk
    | MessageAdded
    | AnswerGrew
    | CustomEmitted
    | ToolStarted
    | ToolFinished
    | TaskFinished
    | StepCommitted
    | CheckpointSaved
    | LimitReached
    | RunInterrupted
    | RunFinished
)
