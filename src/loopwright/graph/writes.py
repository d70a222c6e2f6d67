"""What a node returned, as writes of the state and places to go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from loopwright.errors import InvalidUpdateError, ParentCommand
from loopwright.graph.state import as_update
from loopwright.graph.types import Command, Send

__all__ = ["told_of", "writes_of"]


def writes_of(answer: Any, name: str) -> tuple[Any, list[tuple[str, Any]], Sequence[str | Send]]:
    """What a node returned, as (update for readers, writes, where to go). Raises `InvalidUpdateError`."""
    if answer is None:
        return None, [], ()
    if isinstance(answer, dict):
        told = cast("dict[str, Any]", answer)
        return told or None, list(told.items()), ()
    if isinstance(answer, Command):
        if answer.graph == Command.PARENT:
            raise ParentCommand(cast("Command[Any]", answer))
        given = answer.update
        if isinstance(given, (list, tuple)):
            writes = _pairs(cast("Sequence[Any]", given), name)
            update = told_of(writes)
        else:
            update, writes, _ = writes_of(given, name)
        goto = answer.goto
        return update, writes, (goto,) if isinstance(goto, (str, Send)) else tuple(goto)
    if isinstance(answer, (list, tuple)):
        return _joined_writes(cast("list[Any]", answer), name)
    update = as_update(answer)
    if update is None:
        raise InvalidUpdateError(
            f"Node {name!r} returned {type(answer).__name__} {answer!r:.80}. Return a dict from state key to its "
            'update (return {"key": value}), a Command, or None for no change.'
        )
    return update, list(update.items()), ()


def told_of(writes: Sequence[tuple[str, Any]]) -> Any:
    """Writes as readers see them: one dict; a list of them, one a write, if a key was written more than once."""
    if len(writes) > 1 and len({key for key, _ in writes}) < len(writes):
        return [{key: value} for key, value in writes]
    return dict(writes) or None


def _pairs(update: Sequence[Any], name: str) -> list[tuple[str, Any]]:
    """A command's update as a list of (key, value); a key may be there more than once."""
    try:
        return [(key, value) for key, value in update]
    except (TypeError, ValueError):
        raise InvalidUpdateError(
            f"Node {name!r} returned a Command with update={update!r:.80}. Write a dict from state key to its update, "
            "or a list of (key, update) pairs."
        ) from None


def _joined_writes(answers: Sequence[Any], name: str) -> tuple[Any, list[tuple[str, Any]], Sequence[str | Send]]:
    """A node that returned several commands and updates."""
    writes: list[tuple[str, Any]] = []
    goto: list[str | Send] = []
    for answer in answers:
        _, more, targets = writes_of(answer, name)
        writes += more
        goto += targets
    return told_of(writes), writes, tuple(goto)
