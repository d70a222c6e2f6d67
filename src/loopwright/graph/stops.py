"""Stops that the caller has asked for: `interrupt_before` and `interrupt_after`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TypeAlias

from loopwright.errors import UsageError

__all__ = ["StopAt", "Stops", "stops_at"]

StopAt: TypeAlias = str | Sequence[str] | None
"""Names of nodes, or "*" for each."""


class Stops:
    """The nodes that a run stops before or after."""

    __slots__ = ("_after", "_before")

    def __init__(self, before: Collection[str] | None, after: Collection[str] | None) -> None:
        self._before, self._after = before, after

    def before(self, names: Iterable[str]) -> bool:
        """Whether a step of these nodes is not begun."""
        return self._before is not None and any(name in self._before for name in names)

    def after(self, names: Iterable[str]) -> bool:
        """Whether the run stops once a step of these nodes has ended."""
        return self._after is not None and any(name in self._after for name in names)


def stops_at(before: StopAt, after: StopAt, nodes: Collection[str]) -> Stops | None:
    """The stops, None if there are none. Raises `UsageError` for a node that does not exist."""
    if not before and not after:
        return None
    return Stops(_nodes(before, "interrupt_before", nodes), _nodes(after, "interrupt_after", nodes))


def _nodes(names: StopAt, option: str, nodes: Collection[str]) -> Collection[str] | None:
    if not names:
        return None
    if names == "*" or list(names) == ["*"]:
        return nodes
    if isinstance(names, str):
        raise UsageError(f'{option}={names!r}: write a list of node names, {option}=[{names!r}], or "*" for each.')
    strange = [name for name in names if name not in nodes]
    if strange:
        known = ", ".join(map(repr, nodes))
        raise UsageError(f"{option} names {strange[0]!r}, which is no node of this graph; it has {known}.")
    return frozenset(names)
