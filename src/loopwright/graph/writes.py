"""What a node returned, as writes of the state and places to go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from loopwright.errors import InvalidUpdateError, ParentCommand, UsageError
from loopwright.graph.state import as_update
from loopwright.graph.types import Command, Send, as_command, is_foreign_command

if TYPE_CHECKING:
    from loopwright.graph.task import Task

__all__ = ["no_such_node", "told_of", "writes_of"]


def writes_of(
    answer: Any, name: str, *, nested: bool = False
) -> tuple[Any, list[tuple[str, Any]], Sequence[str | Send]]:
    """What a node returned, as (update for readers, writes, where to go).

    Raises `InvalidUpdateError`; and `ParentCommand` for what is meant for the graph around, if there is one (`nested`).
    """
    if answer is None:
        return None, [], ()
    if isinstance(answer, dict):
        told = cast("dict[str, Any]", answer)
        return told or None, list(told.items()), ()
    if isinstance(answer, Command):
        if answer.graph == Command.PARENT:
            if not nested:
                raise InvalidUpdateError(
                    f"Node {name!r} returned Command(graph=Command.PARENT), and there is no graph around its own. "
                    "Add the graph as a node of another one, or leave graph= out."
                )
            raise ParentCommand(cast("Command[Any]", answer))
        given = answer.update
        if isinstance(given, (list, tuple)):
            writes = _pairs(cast("Sequence[Any]", given), name)
            update = told_of(writes)
        else:
            update, writes, _ = writes_of(given, name)
        return update, writes, _targets(answer.goto, name)
    if isinstance(answer, (list, tuple)):
        return _joined_writes(cast("list[Any]", answer), name, nested)
    if is_foreign_command(answer):
        return writes_of(as_command(answer), name, nested=nested)
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


def _targets(goto: Any, name: str) -> Sequence[str | Send]:
    """Where a command says to go; None is nowhere."""
    if goto is None:
        return ()
    targets: list[Any] = list(cast("Sequence[Any]", goto)) if isinstance(goto, (list, tuple)) else [goto]
    for target in targets:
        if not isinstance(target.node if isinstance(target, Send) else target, str):
            raise InvalidUpdateError(
                f"Node {name!r} returned a Command with goto={goto!r:.80}. Write the name of a node, "
                'Send("node", what it is given), or a list of these.'
            )
    return tuple(targets)


def no_such_node(target: str, nodes: Iterable[str], done: Iterable[Task]) -> UsageError:
    """The error for a way that leads nowhere; `done` are the tasks it came from."""
    tasks = list(done)
    said = [task.name for task in tasks if target in _names(task.goto)]
    who = f"Node {said[0]!r} returned a Command" if said else f"An edge from {_listed(task.name for task in tasks)}"
    return UsageError(f"{who} that leads to {target!r}. There is no such node; the nodes are {_listed(nodes)}.")


def _names(goto: Sequence[str | Send]) -> list[str]:
    return [target.node if isinstance(target, Send) else target for target in goto]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def _joined_writes(
    answers: Sequence[Any], name: str, nested: bool
) -> tuple[Any, list[tuple[str, Any]], Sequence[str | Send]]:
    """A node that returned several commands and updates."""
    writes: list[tuple[str, Any]] = []
    goto: list[str | Send] = []
    for answer in answers:
        _, more, targets = writes_of(answer, name, nested=nested)
        writes += more
        goto += targets
    return told_of(writes), writes, tuple(goto)
