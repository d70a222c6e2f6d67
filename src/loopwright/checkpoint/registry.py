"""Which classes stored bytes may name. Loading looks a name up here and nowhere else; it never imports one.

A class comes in by `add` (the saver's `types=` and `register`), or because something that was declared names it: a
graph that is compiled with a saver says with `expect` what its state, context, tools and answer are declared as.
Annotations are read when the first class is met that is not known, so that a graph of messages and plain data never
pays for it; those of a graph that is gone by then are not read. What is derived from a class that is known is known
too: an annotation promises no more than the base.
"""

from __future__ import annotations

import sys
import threading
import types
import typing
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, Final, cast
from weakref import WeakSet

from loopwright.checkpoint.kinds import Quiet, form_of
from loopwright.checkpoint.record import STORED_TYPES
from loopwright.errors import UsageError
from loopwright.messages.base import BaseMessage

__all__ = ["Declarations", "Registry", "declared_types", "stored_name"]


class Declarations:
    """Annotations to be read when they are needed: classes, functions, hints, and objects with such `declares`."""

    __slots__ = ("__weakref__", "declares")

    def __init__(self, *declares: Any) -> None:
        self.declares = declares


class Registry:
    """Classes by the name they are stored under. May be used from any thread."""

    def __init__(self, types: Iterable[type] = ()) -> None:
        self._names: dict[type, str] = {}
        self._types: dict[str, type] = {}
        self._expected: Final[WeakSet[Declarations]] = WeakSet()
        self._lock: Final = threading.RLock()
        self.version = 0
        """Grows with each class that is added."""
        self.placeholders = 0
        """How often something was written that could not be read: who remembers what was written reads it again."""
        for kind in STORED_TYPES:
            self._put(kind, kind.__name__)
        self.add(*types)

    def __repr__(self) -> str:
        return f"Registry({len(self._names)} classes)"

    def add(self, *types: type, name: str | None = None) -> None:
        """Let these classes, and those that their fields are declared as, be stored and loaded.

        `name`: of one class, also the name it had when it was stored: `"old.module:Cart"`. Raises `UsageError` for
        what is no class, or of a sort that cannot be stored.
        """
        if name is not None and (len(types) != 1 or ":" not in name):
            raise UsageError(
                f'register(name={name!r}) is for one class that has moved: register(Cart, name="old.module:Cart").'
            )
        for kind in types:
            if not isinstance(cast(Any, kind), type):
                raise UsageError(f"register takes classes, not {kind!r:.80}.")
            if not (_is_storable(kind) or issubclass(kind, BaseMessage)):
                raise UsageError(
                    f"{kind.__module__}.{kind.__qualname__} cannot be stored: "
                    "make it a dataclass, a pydantic model, a msgspec.Struct, a named tuple or an enum."
                )
        with self._lock:
            own: list[type[Any]] = [kind for kind in types if not issubclass(kind, BaseMessage)]
            for kind in [*declared_types(*types), *own]:
                self._put(kind, stored_name(kind))
            if name is not None:
                self._types[name] = types[0]
                self.version += 1

    def expect(self, declarations: Declarations) -> None:
        """Add the classes in these annotations when one is first needed, if somebody still holds them then."""
        with self._lock:
            self._expected.add(declarations)

    def __contains__(self, kind: object) -> bool:
        return isinstance(kind, type) and (kind in self._names or self._learn(kind))

    def name_of(self, kind: type) -> str:
        """What instances are stored under: `module:qualname`. Raises `KeyError` for a class that is not registered."""
        if kind not in self:
            raise KeyError(kind)
        return self._names[kind]

    def type_of(self, name: str) -> type | None:
        """The class that is stored under a name, if it is registered."""
        kind = self._types.get(name)
        if kind is None:
            with self._lock:
                self._read_expected()
                if name not in self._types:
                    for derived in [each for known in list(self._names) for each in _derived(known)]:
                        self._put(derived, stored_name(derived))
                kind = self._types.get(name)
        return kind

    def _learn(self, kind: type) -> bool:
        """Whether an unknown class is one that was declared, or derived from one."""
        with self._lock:
            self._read_expected()
            if kind not in self._names:
                if all(base not in self._names for base in kind.__mro__[1:]):
                    return False
                self._put(kind, stored_name(kind))
            return True

    def _read_expected(self) -> None:
        if self._expected:
            declarations = list(self._expected)
            self._expected.clear()
            for kind in declared_types(*declarations):
                self._put(kind, stored_name(kind))

    def _put(self, kind: type, name: str) -> None:
        if self._types.get(name) is not kind:
            self._types[name] = kind  # of two classes of one name, a cell that was run again, the later one is meant
            self.version += 1
        self._names[kind] = name


def _derived(kind: type) -> Iterator[type]:
    subclasses: list[type[Any]] = [] if kind is type else type.__subclasses__(kind)
    for each in subclasses:
        if not issubclass(each, Quiet):
            yield each
            yield from _derived(each)


def stored_name(kind: type) -> str:
    """`module:qualname`; a generic pydantic model's with the names of what it was made for."""
    generic: Any = getattr(kind, "__pydantic_generic_metadata__", None)
    if generic and generic["origin"] is not None:
        inner = ", ".join(stored_name(arg) if isinstance(arg, type) else repr(arg) for arg in generic["args"])
        return f"{stored_name(generic['origin'])}[{inner}]"
    return f"{kind.__module__}:{kind.__qualname__}"


# --- reading annotations --------------------------------------------------------


def declared_types(*annotations: Any) -> set[type]:
    """All classes of a storable sort that annotations name: in fields, unions, generics, parameters, at any depth.

    Takes classes, functions, whatever may stand in an annotation, and objects that have such things in `declares`.
    Classes of ours are left out, and what cannot be resolved names nothing.
    """
    found: set[type] = set()
    seen: set[int] = set()
    waiting = list(annotations)
    held: list[Any] = []  # so that no id is used twice
    while waiting:
        hint = waiting.pop()
        if id(hint) in seen:
            continue
        seen.add(id(hint))
        held.append(hint)
        waiting += _inside(hint, found)
    return found


def _inside(hint: Any, found: set[type]) -> list[Any]:
    """What an annotation is made of; a class of a storable sort goes to `found`."""
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        return [type(value) for value in typing.get_args(hint)]
    if origin is typing.Annotated:
        return [typing.get_args(hint)[0]]
    if origin is not None:
        return [origin, *typing.get_args(hint)]
    if isinstance(hint, list):  # the parameters of a Callable
        return cast("list[Any]", hint)
    if isinstance(hint, type):
        return _inside_class(hint, found)
    if isinstance(hint, (types.FunctionType, types.MethodType)):
        return _hints(hint)
    parts = (getattr(hint, name, None) for name in ("__bound__", "__supertype__", "__value__"))
    several = (getattr(hint, name, ()) for name in ("__constraints__", "declares"))
    return [*(part for part in parts if part is not None), *(part for group in several for part in group)]


def _inside_class(kind: type[Any], found: set[type]) -> list[Any]:
    if issubclass(kind, BaseMessage):
        return _hints(kind) if "/" in str(kind.__struct_config__.tag) else []
    if _is_storable(kind):
        if kind.__module__.startswith("loopwright."):
            return []
        found.add(kind)
        return [] if issubclass(kind, Enum) else [*_hints(kind), *_generic_parts(kind)]
    return _hints(kind) if _has_fields(kind) else []


_ROOTS: Final = frozenset(("pydantic.main", "pydantic.root_model", "msgspec", "enum", "builtins", "typing"))
"""Where the classes come from that all others are derived from: naming one of them declares nothing."""


def _is_storable(kind: type[Any]) -> bool:
    if kind.__module__ in _ROOTS or issubclass(kind, BaseMessage):
        return False
    return issubclass(kind, Enum) or form_of(kind) is not None


def _has_fields(kind: type) -> bool:
    """Whether it is the shape of a state: a TypedDict, or a class of the user's with annotations and no more."""
    return hasattr(kind, "__required_keys__") or (kind.__base__ is object and "__annotations__" in vars(kind))


def _generic_parts(kind: Any) -> list[Any]:
    """What the fields of a generic pydantic model became, and what it was made of."""
    fields = cast("dict[str, Any]", getattr(kind, "__pydantic_fields__", None) or {})
    generic: Any = getattr(kind, "__pydantic_generic_metadata__", None) or {}
    return [*(field.annotation for field in fields.values()), *generic.get("args", ())]


def _hints(owner: Any) -> list[Any]:
    """The annotations of a class or function, resolved; where that fails, those of them that can be."""
    try:
        return list(typing.get_type_hints(owner, include_extras=True).values())
    except Exception:  # noqa: BLE001 - a name that is there for type checkers only; others may be found
        return [hint for part in getattr(owner, "__mro__", (owner,)) for hint in _hints_one_by_one(part)]


def _hints_one_by_one(owner: Any) -> Iterator[Any]:
    annotations: dict[str, Any] = getattr(owner, "__annotations__", None) or {}
    module = sys.modules.get(getattr(owner, "__module__", "") or "")
    for hint in annotations.values():
        if not isinstance(hint, str):
            yield hint
            continue
        holder = types.SimpleNamespace(__annotations__={"hint": hint})
        try:
            yield from typing.get_type_hints(holder, vars(module) if module else {}, dict(vars(typing))).values()
        except Exception:  # noqa: BLE001, S112 - this one names nothing that exists
            continue
