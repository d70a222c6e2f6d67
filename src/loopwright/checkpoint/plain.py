"""Copies of what may be stored, so that it is kept apart from the caller's own objects. `kinds` says what that is.

Messages are immutable and shared, never copied. Everything else that can change is copied on its way in and out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container
from enum import Enum
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

from msgspec import UNSET, Struct

from loopwright.checkpoint.kinds import Refused, Unreadable, form_of, leaf_of, reason, short, undeclared
from loopwright.errors import UnstorableError
from loopwright.messages.base import BaseMessage
from loopwright.messages.history import History

__all__ = ["Registered", "argument_path", "channel_path", "check_storable", "plain_copy"]

Registered = Container[type] | None
"""The classes that stored bytes may name; None: any that is of a storable kind."""
_Take = Callable[[Any, Registered], Any]
"""Returns the value itself if nothing in it can change, else a copy. Raises `Refused`."""


def check_storable(value: Any, path: str = "state", registered: Registered = None) -> None:
    """Raise `UnstorableError` if `value` cannot be stored; `path` is what its message begins with.

    A class of the kinds named above must be in `registered`.
    """
    plain_copy(value, path, registered)


def plain_copy(value: Any, path: str = "state", registered: Registered = None) -> Any:
    """`value` if nothing in it can change, else a deep copy of it. Raises `UnstorableError` like `check_storable`."""
    try:
        return _take(value, registered)
    except Refused as refused:
        place = path + "".join(reversed(refused.trail))
        raise UnstorableError(f"{place} cannot be stored: it is {refused.reason}") from None
    except RecursionError:
        raise UnstorableError(f"{path} cannot be stored: it contains itself, or is nested too deep.") from None


def channel_path(channel: str) -> str:
    """How errors name the value of a channel, or a write to it."""
    return channel.strip("_") if channel.startswith("__") else f'state["{channel}"]'


def argument_path(node: str) -> str:
    """How errors name what a task of this node is given in place of the state."""
    return f'the argument of Send("{node}", ...)'


_type = cast(Callable[[Any], type[Any]], type)  # the builtin, without `type[Unknown]`


def _take(value: Any, registered: Registered) -> Any:
    kind = _type(value)
    take = _BUILTINS.get(kind, _take)
    if take is None:
        return value
    if take is _take:
        take = _take_of(kind)
    return take(value, registered)


# --- containers -----------------------------------------------------------------


def _list(value: list[Any], registered: Registered) -> list[Any]:
    taken: list[Any] = []
    try:
        for item in value:
            taken.append(_take(item, registered))  # noqa: PERF401 - its length is the index that failed
    except Refused as refused:
        refused.trail.append(f"[{len(taken)}]")
        raise
    return taken


def _tuple(value: tuple[Any, ...], registered: Registered) -> tuple[Any, ...]:
    taken = _list(cast("list[Any]", value), registered)
    return value if _same(taken, value) else tuple(taken)


def _dict(value: dict[Any, Any], registered: Registered) -> dict[Any, Any]:
    taken: dict[Any, Any] = {}
    key: Any = None
    try:
        for key, item in value.items():
            taken[key if type(key) is str else _key(key, registered)] = _take(item, registered)
    except Refused as refused:
        refused.trail.append(f"[{short(key)}]")
        raise
    return taken


def _key(key: Any, registered: Registered) -> Any:
    try:
        return _take(key, registered)
    except Refused as refused:
        refused.trail.append(" (the key)")
        raise


def _set(value: set[Any], registered: Registered) -> set[Any]:
    return set(_list(list(value), registered))


def _frozenset(value: frozenset[Any], registered: Registered) -> frozenset[Any]:
    taken = _list(list(value), registered)
    return value if _same(taken, value) else frozenset(taken)


def _deque(value: deque[Any], registered: Registered) -> deque[Any]:
    return deque(_list(cast("list[Any]", value), registered), value.maxlen)


def _buffer(value: bytearray, registered: Registered) -> bytearray:
    return value[:]


def _same(taken: list[Any], value: Any) -> bool:
    return all(map(_is, taken, value))


def _is(one: object, two: object) -> bool:
    return one is two


def _field(name: str, value: Any, registered: Registered) -> Any:
    """Take what an attribute holds."""
    try:
        return _take(value, registered)
    except Refused as refused:
        refused.trail.append(f".{name}")
        raise


# --- classes --------------------------------------------------------------------


def _message(value: Struct, registered: Registered) -> Any:
    """Messages are immutable: looked through, and shared."""
    for name in value.__struct_fields__:
        item = getattr(value, name)
        if item is None or type(item) is str or (type(item) in (list, dict) and not item):
            continue  # most fields of most messages
        _field(name, item, registered)
    return value


def _whole(value: Any, registered: Registered) -> Any:
    """Immutable, with nothing inside."""
    return value


# --- which class is what --------------------------------------------------------

_BUILTINS: Final[dict[type, _Take | None]] = {
    type(None): None,
    bool: None,
    int: None,
    float: None,
    complex: None,
    str: None,
    bytes: None,
    type(UNSET): None,
    Unreadable: None,
    list: _list,
    History: _list,
    tuple: _tuple,
    dict: _dict,
    set: _set,
    frozenset: _frozenset,
    deque: _deque,
    bytearray: _buffer,
}

_known: WeakKeyDictionary[type, _Take] = WeakKeyDictionary()


def _take_of(kind: type[Any]) -> _Take:
    """How to take instances of a class that is no builtin; worked out once for each class."""
    take = _known.get(kind)
    if take is None:
        take = _known[kind] = _classify(kind)
    return take


def _classify(kind: type[Any]) -> _Take:
    if issubclass(kind, BaseMessage):
        return _message  # ours, and those a user derives from ours: what they add is looked through too
    leaf = leaf_of(kind)
    if leaf is not None:

        def whole(value: Any, registered: Registered) -> Any:
            leaf.apart(value)  # refuses a zone that cannot be named
            return value

        return whole
    if issubclass(kind, Enum):
        return _declared(_whole)
    form = form_of(kind)
    if form is None:
        return _refuse(kind)
    apart, together, frozen = form

    def take(value: Any, registered: Registered) -> Any:
        sections = apart(value)
        changed = False
        for section in sections:
            for name, item in (section or {}).items():
                taken = _field(name, item, registered)
                if taken is not item:
                    cast(Any, section)[name] = taken
                    changed = True
        return together(_type(value), sections) if changed or not frozen else value

    return _declared(take)


def _refuse(kind: type[Any]) -> _Take:
    words = reason(kind)

    def refuse(value: Any, registered: Registered) -> Any:
        raise Refused(words)

    return refuse


def _declared(take: _Take) -> _Take:
    def known(value: Any, registered: Registered) -> Any:
        if registered is not None and _type(value) not in registered:
            raise Refused(undeclared(_type(value)))
        return take(value, registered)

    return known
