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
from loopwright.checkpoint.room import DEEPEST, TOO_DEEP, unstorable, with_room
from loopwright.messages.base import BaseMessage
from loopwright.messages.history import History

__all__ = ["Registered", "alike", "argument_path", "channel_path", "check_storable", "plain_copy"]

Registered = Container[type] | None
"""The classes that stored bytes may name; None: any that is of a storable kind."""
_Take = Callable[[Any, Registered, int], Any]
"""Returns the value itself if nothing in it can change, else a copy. Raises `Refused`."""


def check_storable(value: Any, path: str = "state", registered: Registered = None, depth: int = 0) -> None:
    """Raise `UnstorableError` if `value` cannot be stored; `path` is what its message begins with.

    A class of the kinds named above must be in `registered`. `depth`: how deep inside of something it is.
    """
    plain_copy(value, path, registered, depth)


def plain_copy(value: Any, path: str = "state", registered: Registered = None, depth: int = 0) -> Any:
    """`value` if nothing in it can change, else a deep copy of it. Raises `UnstorableError` like `check_storable`."""
    try:
        return with_room(_take, value, registered, depth)
    except Refused as refused:
        raise unstorable(path, refused) from None


def channel_path(channel: str) -> str:
    """How errors name the value of a channel, or a write to it."""
    return channel.strip("_") if channel.startswith("__") else f'state["{channel}"]'


def argument_path(node: str) -> str:
    """How errors name what a task of this node is given in place of the state."""
    return f'the argument of Send("{node}", ...)'


_type = cast(Callable[[Any], type[Any]], type)  # the builtin, without `type[Unknown]`


def _take(value: Any, registered: Registered, depth: int) -> Any:
    kind = _type(value)
    take = _BUILTINS.get(kind, _take)
    if take is None:
        return value
    if depth >= DEEPEST:
        raise Refused(TOO_DEEP)
    if take is _take:
        take = _take_of(kind)
    return take(value, registered, depth + 1)


# --- containers -----------------------------------------------------------------


def _list(value: list[Any], registered: Registered, depth: int) -> list[Any]:
    taken: list[Any] = []
    try:
        for item in value:
            taken.append(_take(item, registered, depth))  # noqa: PERF401 - its length is the index that failed
    except Refused as refused:
        refused.trail.append(f"[{len(taken)}]")
        raise
    return taken


def _tuple(value: tuple[Any, ...], registered: Registered, depth: int) -> tuple[Any, ...]:
    taken = _list(cast("list[Any]", value), registered, depth)
    return value if _same(taken, value) else tuple(taken)


def _dict(value: dict[Any, Any], registered: Registered, depth: int) -> dict[Any, Any]:
    taken: dict[Any, Any] = {}
    key: Any = None
    try:
        for key, item in value.items():
            taken[key if type(key) is str else _key(key, registered, depth)] = _take(item, registered, depth)
    except Refused as refused:
        refused.trail.append(f"[{short(key)}]")
        raise
    return taken


def _key(key: Any, registered: Registered, depth: int) -> Any:
    try:
        return _take(key, registered, depth)
    except Refused as refused:
        refused.trail.append(" (the key)")
        raise


def _set(value: set[Any], registered: Registered, depth: int) -> set[Any]:
    return set(_list(list(value), registered, depth))


def _frozenset(value: frozenset[Any], registered: Registered, depth: int) -> frozenset[Any]:
    taken = _list(list(value), registered, depth)
    return value if _same(taken, value) else frozenset(taken)


def _deque(value: deque[Any], registered: Registered, depth: int) -> deque[Any]:
    return deque(_list(cast("list[Any]", value), registered, depth), value.maxlen)


def _buffer(value: bytearray, registered: Registered, depth: int) -> bytearray:
    return value[:]


def _same(taken: list[Any], value: Any) -> bool:
    return all(map(_is, taken, value))


def _is(one: object, two: object) -> bool:
    return one is two


def _field(name: str, value: Any, registered: Registered, depth: int) -> Any:
    """Take what an attribute holds."""
    try:
        return _take(value, registered, depth)
    except Refused as refused:
        refused.trail.append(f".{name}")
        raise


# --- classes --------------------------------------------------------------------


def _message(value: Struct, registered: Registered, depth: int) -> Any:
    """Messages are immutable: looked through, and shared."""
    for name in value.__struct_fields__:
        item = getattr(value, name)
        if item is None or type(item) is str or (type(item) in (list, dict) and not item):
            continue  # most fields of most messages
        _field(name, item, registered, depth)
    return value


def _whole(value: Any, registered: Registered, depth: int) -> Any:
    """Immutable, with nothing inside."""
    return value


# --- comparing ------------------------------------------------------------------


def alike(one: Any, two: Any) -> bool:
    """Whether a copy that was taken is still the same as what it was taken of, to the last type.

    What cannot change was not copied, and is the same object. What only might be the same is called different.
    """
    if one is two:
        return True
    kind = _type(one)
    if _type(two) is not kind:
        return False
    if kind in (str, bytes, bytearray, int):
        return one == two
    if kind in (list, tuple):
        return len(one) == len(two) and all(map(alike, one, two))
    if kind is dict:
        return len(one) == len(two) and all(map(alike, one, two)) and all(map(alike, one.values(), two.values()))
    if kind in _BUILTINS or issubclass(kind, Enum):
        return False
    form = form_of(kind)
    return form is not None and alike(form.apart(one), form.apart(two))


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

        def whole(value: Any, registered: Registered, depth: int) -> Any:
            leaf.apart(value)  # refuses a zone that cannot be named
            return value

        return whole
    if issubclass(kind, Enum):
        return _declared(_whole)
    form = form_of(kind)
    if form is None:
        return _refuse(kind)
    apart, together, frozen = form

    def take(value: Any, registered: Registered, depth: int) -> Any:
        sections = apart(value)
        changed = False
        for section in sections:
            for name, item in (section or {}).items():
                taken = _field(name, item, registered, depth)
                if taken is not item:
                    cast(Any, section)[name] = taken
                    changed = True
        return together(_type(value), sections) if changed or not frozen else value

    return _declared(take)


def _refuse(kind: type[Any]) -> _Take:
    words = reason(kind)

    def refuse(value: Any, registered: Registered, depth: int) -> Any:
        raise Refused(words)

    return refuse


def _declared(take: _Take) -> _Take:
    def known(value: Any, registered: Registered, depth: int) -> Any:
        if registered is not None and _type(value) not in registered:
            raise Refused(undeclared(_type(value)))
        return take(value, registered, depth)

    return known
