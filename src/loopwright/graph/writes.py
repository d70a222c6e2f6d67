"""What a node returned, as writes of the state and places to go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from loopwright.errors import InvalidUpdateError, ParentCommand
from loopwright.graph.state import as_update
from loopwright.graph.types import Command, Send

__all__ = ["writes_of"]


def writes_of(answer: Any, name: str) -> tuple[Any, list[tuple[str, Any]], Sequence[str | Send]]:
    """What a node returned, as (update for readers, writes, where to go). Raises `InvalidUpdateError`."""
    if answer is None:
        return None, [], ()
    if isinstance(answer, dict):
        told = cast("dict[str, Any]", answer)
        return told, list(told.items()), ()
    if isinstance(answer, Command):
        if answer.graph == Command.PARENT:
            raise ParentCommand(cast("Command[Any]", answer))
        update, writes, _ = writes_of(_as_dict(answer.update), name)
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


def _as_dict(update: Any) -> Any:
    """A command's update may be a list of pairs."""
    if isinstance(update, (list, tuple)):
        return dict(cast("list[tuple[str, Any]]", update))
    return update


def _joined_writes(answers: Sequence[Any], name: str) -> tuple[Any, list[tuple[str, Any]], Sequence[str | Send]]:
    """A node that returned several commands and updates."""
    updates: list[Any] = []
    writes: list[tuple[str, Any]] = []
    goto: list[str | Send] = []
    for answer in answers:
        update, more, targets = writes_of(answer, name)
        updates.append(update)
        writes += more
        goto += targets
    shown = [update for update in updates if update is not None]
    return (shown[0] if len(shown) == 1 else shown or None), writes, tuple(goto)
