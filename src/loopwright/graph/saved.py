"""What a saver holds of a step that is not committed yet, beside the state itself.

A checkpoint names the tasks that are due. Each of them, when it stops, adds what came of it: what it wrote and where it
said to go, or the words of its error, or the questions it waits for with the answers it has had. A task that has added
none of the latter has ended, and never runs again. With it stands what was spent: the account of the run where it was
the only task, else its own part. Whatever breaks a run off, what is on record as done is on record as paid.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from msgspec import Struct

from loopwright.checkpoint.record import Record
from loopwright.graph.state import Channel, fold
from loopwright.graph.types import Interrupt, Send

__all__ = [
    "ACCOUNT_KEY",
    "ERROR_KEY",
    "FINISHED_KEY",
    "GOTO_KEY",
    "INTERRUPT_KEY",
    "JOINS_KEY",
    "RAN_KEY",
    "RESUME_KEY",
    "RUN_ID",
    "SPENT_KEY",
    "STOPPED_KEY",
    "Progress",
    "account_in",
    "failed_form",
    "has_stopped",
    "joined",
    "open_in",
    "opened_in",
    "paused_form",
    "progress_in",
    "reopened_form",
    "saved_form",
]

GOTO_KEY = "__goto__"
"""In a task's saved writes: where its `Command` said to go."""
ERROR_KEY = "__error__"
"""In a task's saved writes: the words of the error that ended it."""
INTERRUPT_KEY = "__interrupt__"
"""In a task's saved writes: the questions it waits for."""
RESUME_KEY = "__resume__"
"""In a task's saved writes: the answers it has had, by the id of the question."""
FINISHED_KEY = "__finished__"
"""In a task's saved writes: results of calls that have ended, by id, where the task has more of them."""
RUN_ID = "__run__"
"""In the place of a task's id: what the run as a whole has to keep of an unfinished step."""
ACCOUNT_KEY = "__account__"
"""What a run had spent when it paused, failed, or its step's only task ended."""
SPENT_KEY = "__spent__"
"""In a task's saved writes: what it has spent, as one of several."""
STOPPED_KEY = "__stopped__"
"""Beside such an account: that the run has stopped before this step, where its caller had asked for that."""
JOINS_KEY = "__joins__"
"""Beside the saved state: which tasks a node that waits for several has seen end."""
RAN_KEY = "__ran__"
"""Beside the saved state: the nodes that ran in the step before, so that `update_state` knows whose word it speaks."""


class Progress(Struct):
    """How far a task of an unfinished step has come."""

    name: str
    ended: bool = False
    writes: list[tuple[str, Any]] = []
    goto: Sequence[str | Send] = ()
    account: Any = None
    """The run's, when this was the step's only task."""
    spent: list[Any] | None = None
    error: str | None = None
    interrupts: tuple[Interrupt, ...] = ()
    answers: dict[str, Any] = {}
    finished: dict[str, Any] = {}


def failed_form(
    words: str, answers: Mapping[str, Any], finished: Mapping[str, Any] | None = None
) -> list[tuple[str, Any]]:
    """What is kept of a task that an error has ended: tried again, it has its answers still."""
    return [(ERROR_KEY, words), *_had(answers, finished)]


def _had(answers: Mapping[str, Any], finished: Mapping[str, Any] | None) -> list[tuple[str, Any]]:
    had = ((RESUME_KEY, answers), (FINISHED_KEY, finished))
    return [(key, dict(value)) for key, value in had if value]


def saved_form(
    writes: Sequence[tuple[str, Any]], goto: Sequence[str | Send], spent: list[Any] | None = None
) -> list[tuple[str, Any]]:
    """What is kept of a task that has ended, never empty."""
    kept = [*writes, (GOTO_KEY, list(goto))] if goto or not writes else list(writes)
    return [*kept, (SPENT_KEY, spent)] if spent else kept


def paused_form(
    interrupts: Sequence[Interrupt], answers: Mapping[str, Any], finished: Mapping[str, Any] | None = None
) -> list[tuple[str, Any]]:
    """What is kept of a task that waits for answers, or has had some."""
    return [(INTERRUPT_KEY, list(interrupts)), *_had(answers, finished)]


def reopened_form(
    interrupts: Sequence[Interrupt],
    answers: Mapping[str, Any],
    answered: Sequence[Interrupt],
    finished: Mapping[str, Any] | None = None,
) -> list[tuple[str, Any]]:
    """What is kept of a task that could not take the answers it was given: it asks them once more."""
    wrong = {asked.id for asked in answered}
    right = {id: answer for id, answer in answers.items() if id not in wrong}
    return paused_form([*answered, *interrupts], right, finished)


def progress_in(record: Record) -> dict[str, Progress]:
    """How far the tasks of a checkpoint's step have come, by id, in the order they were planned."""
    written: dict[str, list[tuple[str, Any]]] = {}
    for task_id, key, value in record.writes:
        written.setdefault(task_id, []).append((key, value))
    return {task.id: _progress(task.name, written.get(task.id, ())) for task in record.pending}


def _progress(name: str, writes: Sequence[tuple[str, Any]]) -> Progress:
    special = {key: value for key, value in writes if key in _SPECIAL}
    if not special.keys() & _UNFINISHED:
        goto = cast("Sequence[str | Send]", special.get(GOTO_KEY, ()))
        own = [write for write in writes if write[0] not in _SPECIAL]
        return Progress(name, bool(writes), own, goto, special.get(ACCOUNT_KEY), special.get(SPENT_KEY))
    return Progress(
        name,
        error=special.get(ERROR_KEY),
        interrupts=tuple(special.get(INTERRUPT_KEY, ())),
        answers=dict(special.get(RESUME_KEY, {})),
        finished=dict(special.get(FINISHED_KEY, {})),
    )


_UNFINISHED = frozenset({ERROR_KEY, INTERRUPT_KEY, RESUME_KEY})
_SPECIAL = _UNFINISHED | {FINISHED_KEY, GOTO_KEY, ACCOUNT_KEY, SPENT_KEY}


def open_in(record: Record) -> list[Interrupt]:
    """The questions that a thread waits for, in the order of its tasks."""
    return [interrupt for task in progress_in(record).values() for interrupt in task.interrupts]


def account_in(record: Record) -> Any:
    """What the run had spent when it was left last, or else at the checkpoint; None where nothing was kept."""
    for task_id, key, value in record.writes:
        if task_id == RUN_ID and key == ACCOUNT_KEY:
            return value
    return record.account


def opened_in(record: Record) -> str:
    """What a run below was begun with, in short."""
    account = account_in(record)
    return account[4] if account is not None and len(account) > 4 else ""


def has_stopped(record: Record) -> bool:
    """Whether a run that goes on from here was stopped here, or changed from outside, before: its caller has looked.

    A process that died on its way to a stop has not stopped.
    """
    return record.source in ("update", "fork") or any(key == STOPPED_KEY for _, key, _ in record.writes)


def joined(
    channels: Mapping[str, Channel], state: dict[str, Any], ended: Iterable[tuple[str, Sequence[tuple[str, Any]]]]
) -> tuple[dict[str, Any], set[str]]:
    """A state with what ended tasks of its unfinished step wrote, and the keys that changed.

    Where their writes to a key cannot be joined, which may be what broke the step off, the rest is: of such a key, each
    write that its reducer takes; without a reducer it stays what it was before.
    """
    wrote = [(name, list(writes)) for name, writes in ended]
    try:
        return fold(channels, state, wrote)
    except Exception:  # noqa: BLE001 - a reducer of the user's may raise anything; the run that met it has told
        pass
    changed: set[str] = set()
    for key, channel in channels.items():
        own = [(name, [write for write in writes if write[0] == key]) for name, writes in wrote]
        single = [(name, [write]) for name, writes in own for write in writes]
        for part in [own] if channel.reducer is None else [[one] for one in single]:
            with suppress(Exception):
                state, new = fold(channels, state, part)
                changed |= new
    return state, changed
