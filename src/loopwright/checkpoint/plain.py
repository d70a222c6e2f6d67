"""What may be stored, and how it is kept apart from the caller's own objects.

Storable is what a saver on disk can bring back without running foreign code: None, bool, int, float, complex, str,
bytes, dates and times, Decimal, UUID, paths, IP addresses, patterns; list, tuple, dict, set, frozenset, deque,
bytearray of such; messages; instances of dataclasses, named tuples, enums, pydantic models and msgspec Structs whose
content is storable. Everything else is refused with the path to it: functions, locks, files, clients, generators,
exceptions, subclasses of the builtins, objects of other classes. In memory as on disk, so that a test shows it.

Messages are immutable and shared, never copied. Everything else that can change is copied on its way in and out.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Container
from enum import Enum
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

from msgspec import UNSET, Struct
from msgspec.structs import force_setattr

from loopwright.errors import UnstorableError
from loopwright.messages.base import BaseMessage
from loopwright.messages.history import History

__all__ = ["Registered", "check_storable", "plain_copy"]

Registered = Container[type] | None
"""The classes that stored bytes may name; None: any that is of a storable kind."""
_Take = Callable[[Any, Registered], Any]
"""Returns the value itself if nothing in it can change, else a copy. Raises `_Refused`."""


def check_storable(value: Any, path: str = "state", registered: Registered = None) -> None:
    """Raise `UnstorableError` if `value` cannot be stored; `path` is what its message begins with.

    A class of the kinds named above must be in `registered`.
    """
    plain_copy(value, path, registered)


def plain_copy(value: Any, path: str = "state", registered: Registered = None) -> Any:
    """`value` if nothing in it can change, else a deep copy of it. Raises `UnstorableError` like `check_storable`."""
    try:
        return _take(value, registered)
    except _Refused as refused:
        place = path + "".join(reversed(refused.trail))
        raise UnstorableError(f"{place} cannot be stored: it is {refused.reason}") from None
    except RecursionError:
        raise UnstorableError(f"{path} cannot be stored: it contains itself, or is nested too deep.") from None


_type = cast(Callable[[Any], type[Any]], type)  # the builtin, without `type[Unknown]`


class _Refused(Exception):
    """Travels up from what cannot be stored and collects the path, innermost part first."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.trail: list[str] = []


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
    except _Refused as refused:
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
    except _Refused as refused:
        refused.trail.append(f"[{_short(key)}]")
        raise
    return taken


def _key(key: Any, registered: Registered) -> Any:
    try:
        return _take(key, registered)
    except _Refused as refused:
        refused.trail.append(" (the key)")
        raise


def _set(value: set[Any], registered: Registered) -> set[Any]:
    return set(_list(list(value), registered))


def _frozenset(value: frozenset[Any], registered: Registered) -> frozenset[Any]:
    taken = _list(list(value), registered)
    return value if _same(taken, value) else frozenset(taken)


def _deque(value: Any, registered: Registered) -> Any:
    return type(value)(_list(value, registered), value.maxlen)


def _buffer(value: bytearray, registered: Registered) -> bytearray:
    return value[:]


def _timed(value: Any, registered: Registered) -> Any:
    """A datetime or time: its zone must be one that can be named."""
    if value.tzinfo is not None:
        _field("tzinfo", value.tzinfo, registered)
    return value


def _same(taken: list[Any], value: Any) -> bool:
    return all(map(_is, taken, value))


def _is(one: object, two: object) -> bool:
    return one is two


def _field(name: str, value: Any, registered: Registered) -> Any:
    """Take what an attribute holds."""
    try:
        return _take(value, registered)
    except _Refused as refused:
        refused.trail.append(f".{name}")
        raise


# --- classes --------------------------------------------------------------------


def _attributes(value: Any, registered: Registered, names: tuple[str, ...], frozen: bool) -> Any:
    """An object whose state is attributes: `names` (slots and fields) and whatever its `__dict__` holds."""
    state: dict[str, Any] = dict(getattr(value, "__dict__", ()))
    for name in names:
        item = getattr(value, name, UNSET)
        if item is not UNSET:
            state[name] = item
    changed: dict[str, Any] = {}
    for name, item in state.items():
        taken = _field(name, item, registered)
        if taken is not item:
            changed[name] = taken
    if frozen and not changed:
        return value
    twin = copy.copy(value)
    for name, item in changed.items():
        object.__setattr__(twin, name, item)
    return twin


def _struct(value: Struct, registered: Registered) -> Any:
    changed: dict[str, Any] = {}
    for name in value.__struct_fields__:
        item = getattr(value, name)
        taken = _field(name, item, registered)
        if taken is not item:
            changed[name] = taken
    if value.__struct_config__.frozen and not changed:
        return value
    twin = copy.copy(value)
    for name, item in changed.items():
        force_setattr(twin, name, item)
    return twin


def _message(value: Struct, registered: Registered) -> Any:
    """Messages are immutable: looked through, and shared."""
    for name in value.__struct_fields__:
        item = getattr(value, name)
        if item is None or type(item) is str or (type(item) in (list, dict) and not item):
            continue  # most fields of most messages
        _field(name, item, registered)
    return value


def _model(value: Any, registered: Registered) -> Any:
    """A pydantic model: its fields, extra and private attributes."""
    twin = copy.copy(value)
    holders: list[dict[str, Any] | None] = [twin.__dict__, twin.__pydantic_extra__, twin.__pydantic_private__]
    for holder in filter(None, holders):
        for name, item in list(holder.items()):
            holder[name] = _field(name, item, registered)
    return twin


def _named(value: Any, registered: Registered) -> Any:
    taken = [_field(name, item, registered) for name, item in zip(value._fields, value, strict=True)]
    return value if _same(taken, value) else value._make(taken)


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
    list: _list,
    History: _list,
    tuple: _tuple,
    dict: _dict,
    set: _set,
    frozenset: _frozenset,
    bytearray: _buffer,
}

_LIBRARY: Final[dict[str, _Take]] = {
    "datetime.datetime": _timed,
    "datetime.time": _timed,
    "collections.deque": _deque,
    **dict.fromkeys(
        (
            "datetime.date",
            "datetime.timedelta",
            "datetime.timezone",
            "zoneinfo.ZoneInfo",
            "decimal.Decimal",
            "uuid.UUID",
            "re.Pattern",
            "ipaddress.IPv4Address",
            "ipaddress.IPv4Interface",
            "ipaddress.IPv4Network",
            "ipaddress.IPv6Address",
            "ipaddress.IPv6Interface",
            "ipaddress.IPv6Network",
        ),
        _whole,
    ),
}
"""Classes of the standard library, by name, so that none has to be imported."""

_known: WeakKeyDictionary[type, _Take] = WeakKeyDictionary()


def _take_of(kind: type[Any]) -> _Take:
    """How to take instances of a class that is no builtin; worked out once for each class."""
    take = _known.get(kind)
    if take is None:
        take = _known[kind] = _LIBRARY.get(_name(kind)) or _classify(kind)
    return take


def _classify(kind: type[Any]) -> _Take:
    if issubclass(kind, BaseMessage):
        return _message  # ours, and those a user derives from ours: what they add is looked through too
    paths = sys.modules.get("pathlib")
    if paths is not None and issubclass(kind, paths.PurePath):
        return _whole
    take = _declared(kind)
    if take is None:
        reason = _reason(kind)

        def refuse(value: Any, registered: Registered) -> Any:
            raise _Refused(reason)

        return refuse

    def known(value: Any, registered: Registered) -> Any:
        if registered is not None and kind not in registered:
            raise _Refused(
                f"of class {_name(kind)}, which is not declared. Name the class in the agent's state, context, tools "
                "or response_format, or register it with the saver."
            )
        return take(value, registered)

    return known


def _declared(kind: Any) -> _Take | None:
    """How to take instances of a class that a saver can be told of; None if it is of another sort."""
    if issubclass(kind, Enum):
        return _whole
    if issubclass(kind, Struct):
        return _struct
    if hasattr(kind, "__dataclass_fields__"):
        names = (*kind.__dataclass_fields__, *_slots(kind))
        frozen = bool(kind.__dataclass_params__.frozen)
        return lambda value, registered: _attributes(value, registered, names, frozen)
    if hasattr(kind, "__pydantic_validator__"):
        return _model
    if hasattr(kind, "_fields") and hasattr(kind, "_make") and issubclass(kind, tuple):
        return _named
    return None


def _slots(kind: type[Any]) -> tuple[str, ...]:
    names: list[str] = []
    for base in kind.__mro__:
        slots: Any = base.__dict__.get("__slots__", ())
        names += [slots] if isinstance(slots, str) else slots
    return tuple(name for name in names if name not in ("__dict__", "__weakref__"))


def _reason(kind: type) -> str:
    """What a refused object is, and what to do instead."""
    name = _name(kind)
    for base in (dict, list, tuple, set, frozenset, str, bytes, bool, int, float):
        if issubclass(kind, base):
            return f"a {name}, which would come back as a plain {base.__name__}. Store {base.__name__}(value)."
    if issubclass(kind, BaseException):
        return f"an exception ({name}). Store its text: str(error)."
    if name in ("builtins.function", "builtins.method", "builtins.builtin_function_or_method", "functools.partial"):
        return "a function. Store its name, and look it up where it is called."
    if issubclass(kind, type):
        return "a class. Store its name."
    remedy = {"numpy": "Store value.tolist().", "pandas": 'Store value.to_dict("list").'}.get(name.partition(".")[0])
    return f"of class {name}. " + (
        remedy
        or "Make the class a dataclass, a pydantic model or a msgspec.Struct of plain data, "
        "or keep the object out of the state: in the run's context=, or where the tool is made."
    )


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _short(key: Any) -> str:
    """A key as it is written in a path."""
    if type(key) is str:
        return '"' + key.replace("\\", "\\\\").replace('"', '\\"')[:80] + '"'
    return repr(key)[:80]
