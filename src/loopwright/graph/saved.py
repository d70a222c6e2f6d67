"""What a saver holds of a step that is not committed yet, beside the state itself.

A checkpoint names the tasks that are due. Each of them, when it ends, adds what it wrote and where it said to go; that
it has ended shows by its having written anything at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from loopwright.checkpoint.record import Record
from loopwright.graph.state import Channel, fold
from loopwright.graph.types import Send

__all__ = ["ERROR_KEY", "GOTO_KEY", "JOINS_KEY", "RAN_KEY", "Ended", "ended_in", "errors_in", "joined", "saved_form"]

GOTO_KEY = "__goto__"
"""In a task's saved writes: where its `Command` said to go."""
ERROR_KEY = "__error__"
"""In a task's saved writes: the words of the error that ended it."""
JOINS_KEY = "__joins__"
"""Beside the saved state: which tasks a node that waits for several has seen end."""
RAN_KEY = "__ran__"
"""Beside the saved state: the nodes that ran in the step before, so that `update_state` knows whose word it speaks."""


class Ended(NamedTuple):
    """A task that has ended, in a step that has not."""

    name: str
    writes: list[tuple[str, Any]]
    goto: Sequence[str | Send]


def saved_form(writes: Sequence[tuple[str, Any]], goto: Sequence[str | Send]) -> list[tuple[str, Any]]:
    """A task's writes as they are saved, never empty."""
    return [*writes, (GOTO_KEY, list(goto))] if goto or not writes else list(writes)


def ended_in(record: Record) -> dict[str, Ended]:
    """The tasks of a checkpoint's step that have ended, by id, in the order they were planned."""
    written: dict[str, list[tuple[str, Any]]] = {}
    for task_id, key, value in record.writes:
        written.setdefault(task_id, []).append((key, value))
    ended: dict[str, Ended] = {}
    for task in record.pending:
        writes = written.get(task.id)
        if writes is not None and all(key != ERROR_KEY for key, _ in writes):
            goto = cast("Sequence[str | Send]", next((value for key, value in writes if key == GOTO_KEY), ()))
            ended[task.id] = Ended(task.name, [write for write in writes if write[0] != GOTO_KEY], goto)
    return ended


def errors_in(record: Record) -> dict[str, str]:
    """The words of the errors that ended tasks of a checkpoint's step, by task id."""
    return {task_id: value for task_id, key, value in record.writes if key == ERROR_KEY}


def joined(
    channels: Mapping[str, Channel], state: dict[str, Any], ended: Iterable[tuple[str, Sequence[tuple[str, Any]]]]
) -> tuple[dict[str, Any], set[str]]:
    """A state with what ended tasks of its unfinished step wrote, and the keys that changed.

    Where their writes cannot be joined, which is what broke the step off, it is the state before it.
    """
    try:
        return fold(channels, state, ended)
    except Exception:  # noqa: BLE001 - a reducer of the user's may raise anything; the run that met it has told
        return state, set()
