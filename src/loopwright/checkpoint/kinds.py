"""Which values can be stored, and what each is made of. `plain` copies by this table, `codec` writes by it.

Storable is what a saver on disk can bring back without running foreign code: None, bool, int, float, complex, str,
bytes, dates and times, Decimal, UUID, paths, IP addresses, patterns; list, tuple, dict, set, frozenset, deque,
bytearray of such; messages; instances of dataclasses, named tuples, enums, pydantic models and msgspec Structs whose
content is storable. Everything else is refused with the path to it: functions, locks, files, clients, generators,
exceptions, subclasses of the builtins, objects of other classes. In memory as on disk, so that a test shows it.

A `Leaf` is a class of the standard library whose instances never change and are written as something plainer. A
`Form` is a sort of class that a user declares: `apart` gives the parts of an instance as sections (attributes by
name), `together` makes an instance of sections without running `__init__`, `__post_init__` or a validator.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Sequence
from enum import Enum, Flag
from functools import cache
from importlib import import_module
from types import MappingProxyType, MemberDescriptorType
from typing import Any, Final, NamedTuple, cast
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Struct, structs

from loopwright.errors import UnknownTypeError

__all__ = [
    "LEAVES",
    "Form",
    "Leaf",
    "Quiet",
    "Refused",
    "Unreadable",
    "enum_member",
    "enum_word",
    "form_of",
    "leaf_from",
    "leaf_of",
    "name_of",
    "reason",
    "short",
    "undeclared",
    "unknown_type",
]

_Section = dict[str, Any] | None


class Refused(Exception):
    """Travels up from what cannot be stored and collects the path, innermost part first."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.trail: list[str] = []


class Unreadable:
    """Stands for stored data that could not be turned into an object; storing it again writes the same bytes.

    `get_state` shows it in its place; a run that would begin with it raises `UnknownTypeError`.
    """

    __slots__ = ("code", "name", "path", "raw", "reason")

    def __init__(self, name: str, code: int, raw: bytes, reason: str) -> None:
        self.name = name
        """The class, as `module:qualname`."""
        self.path = ""
        """Where it is: `state["cart"][1]`."""
        self.code = code
        self.raw = raw
        """What is stored, as it is."""
        self.reason = reason

    def __repr__(self) -> str:
        return f"<Unreadable {self.name} at {self.path}: {self.reason}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unreadable) and (self.code, self.raw) == (other.code, other.raw)

    def __hash__(self) -> int:
        return hash((self.code, self.raw))


# --- the standard library -------------------------------------------------------


class Leaf(NamedTuple):
    """How an immutable class is written."""

    code: int
    name: str
    apart: Callable[[Any], Any]
    together: Callable[[Any, Any], Any]
    """From the class and what `apart` gave."""


def _of(kind: Any, parts: Any) -> Any:
    return kind(parts)


def _of_iso(kind: Any, text: Any) -> Any:
    return kind.fromisoformat(text)


def _timed(value: Any) -> Any:
    zone = value.tzinfo
    kind: type[Any] = zone.__class__
    if zone is not None and leaf_of(kind) is None:
        refused = Refused(reason(kind))
        refused.trail.append(".tzinfo")
        raise refused
    return [value.replace(tzinfo=None, fold=0).isoformat(), zone, value.fold]


def _of_timed(kind: Any, parts: Any) -> Any:
    text, zone, fold = parts
    return kind.fromisoformat(text).replace(tzinfo=zone, fold=fold)


def _zone(value: Any) -> Any:
    if value.key is None:
        raise Refused("a ZoneInfo without a key. Make it by name: ZoneInfo(...).")
    return value.key


def _offset(value: Any) -> Any:
    return list(value.__getinitargs__())


def _pattern(value: Any) -> Any:
    return [value.pattern, value.flags]


def _of_pattern(kind: Any, parts: Any) -> Any:
    import re

    text, flags = parts
    return re.compile(text, flags & ~re.DEBUG)


def _of_path(kind: Any, text: Any) -> Any:
    """A path; one of another system as its pure form."""
    try:
        return kind(text)
    except (NotImplementedError, TypeError):
        return kind.__mro__[2](text)


def _uuid(value: Any) -> bytes:
    return value.bytes


def _of_uuid(kind: Any, data: Any) -> Any:
    return kind(bytes=data)


def _delta(value: Any) -> list[int]:
    return [value.days, value.seconds, value.microseconds]


def _of_parts(kind: Any, parts: Any) -> Any:
    return kind(*parts)


def _iso(value: Any) -> str:
    return value.isoformat()


LEAVES: Final[dict[int, Leaf]] = {
    leaf.code: leaf
    for leaf in (
        Leaf(0x20, "datetime.datetime", _timed, _of_timed),
        Leaf(0x21, "datetime.time", _timed, _of_timed),
        Leaf(0x22, "datetime.date", _iso, _of_iso),
        Leaf(0x23, "datetime.timedelta", _delta, _of_parts),
        Leaf(0x24, "datetime.timezone", _offset, _of_parts),
        Leaf(0x25, "zoneinfo.ZoneInfo", _zone, _of),
        Leaf(0x26, "decimal.Decimal", str, _of),
        Leaf(0x27, "uuid.UUID", _uuid, _of_uuid),
        Leaf(0x28, "re.Pattern", _pattern, _of_pattern),
        Leaf(0x29, "ipaddress.IPv4Address", str, _of),
        Leaf(0x2A, "ipaddress.IPv4Interface", str, _of),
        Leaf(0x2B, "ipaddress.IPv4Network", str, _of),
        Leaf(0x2C, "ipaddress.IPv6Address", str, _of),
        Leaf(0x2D, "ipaddress.IPv6Interface", str, _of),
        Leaf(0x2E, "ipaddress.IPv6Network", str, _of),
        Leaf(0x2F, "pathlib.PurePosixPath", str, _of),
        Leaf(0x30, "pathlib.PureWindowsPath", str, _of),
        Leaf(0x31, "pathlib.PosixPath", str, _of_path),
        Leaf(0x32, "pathlib.WindowsPath", str, _of_path),
    )
}
"""By the code they are stored under. Named, so that none has to be imported before it is met."""

_leaves: Final = {leaf.name: leaf for leaf in LEAVES.values()}


def leaf_of(kind: type) -> Leaf | None:
    """How a class of the standard library is written; None for any other, and for what is derived from one."""
    module, _, rest = kind.__module__.partition(".")
    leaf = _leaves.get(f"{module}.{kind.__qualname__}")  # pathlib._local in some versions
    if leaf is None or (rest and module != "pathlib"):
        return None
    return leaf if _class(leaf) is kind else None


@cache
def _class(leaf: Leaf) -> Any:
    module, _, name = leaf.name.rpartition(".")
    return getattr(import_module(module), name)


def leaf_from(code: int, parts: Any) -> Any:
    """An instance again, of what `Leaf.apart` gave."""
    leaf = LEAVES[code]
    return leaf.together(_class(leaf), parts)


# --- classes that are declared --------------------------------------------------


class Form(NamedTuple):
    """How instances of a class are taken apart and put together again."""

    apart: Callable[[Any], list[_Section]]
    together: Callable[[Any, list[_Section]], Any]
    """Raises `TypeError` when the sections do not fit the class as it is now."""
    frozen: bool
    """Whether nothing but the content of its parts can change."""


_forms: WeakKeyDictionary[type, Form | None] = WeakKeyDictionary()


def form_of(kind: type[Any]) -> Form | None:
    """The form of a dataclass, pydantic model, Struct or named tuple; None if it is of another sort."""
    try:
        return _forms[kind]
    except KeyError:
        form = _forms[kind] = _form(kind)
        return form


def _form(kind: Any) -> Form | None:
    if issubclass(kind, Struct):
        return Form(_struct_apart, _struct_together, bool(kind.__struct_config__.frozen))
    if hasattr(kind, "__dataclass_fields__"):
        return _attributes(kind)
    if hasattr(kind, "__pydantic_validator__"):
        return Form(_model_apart, _model_together, frozen=False)
    if hasattr(kind, "_fields") and hasattr(kind, "_make") and issubclass(kind, tuple):
        return Form(_named_apart, _named_together, frozen=True)
    return None


def _attributes(kind: Any) -> Form:
    """A dataclass: its fields, and whatever else its `__dict__` and its slots hold.

    Read and written there and nowhere else: a property, or a descriptor of the class's own, is code.
    """
    slots = _slots(kind)
    fields = {
        name: field
        for name, field in kind.__dataclass_fields__.items()
        if field._field_type.name == "_FIELD" and (name in slots or not _is_computed(kind, name))
    }

    def apart(value: Any) -> list[_Section]:
        state: dict[str, Any] = dict(_attributes_of(value))
        for name, slot in slots.items():
            try:
                state[name] = slot.__get__(value)
            except AttributeError:
                continue
        if state.keys() <= fields.keys():
            return [state]
        more = {name: state.pop(name) for name in list(state) if name not in fields}
        return [state, more]

    def together(kind: Any, sections: list[_Section]) -> Any:
        state = _dict_of(sections, 0)
        if state.keys() != fields.keys():
            state = {**state, **_later_fields(fields, slots, state)}
        value = object.__new__(kind)
        attributes = _attributes_of(value)
        for name, item in {**state, **_dict_of(sections, 1)}.items() if len(sections) > 1 else state.items():
            if name in slots:
                slots[name].__set__(value, item)
            else:
                attributes[name] = item
        return value

    return Form(apart, together, bool(kind.__dataclass_params__.frozen))


def _later_fields(fields: dict[str, Any], slots: Container[str], state: dict[str, Any]) -> dict[str, Any]:
    """The defaults of fields that the class did not have when a value was stored.

    Raises `TypeError` for one without a default, and for what is stored of a field that the class has no more.
    """
    gone = [name for name in state if name not in fields]
    if gone:
        raise TypeError(f"the class has no {gone[0]!r} any more")
    defaults: dict[str, Any] = {}
    for name, field in fields.items():
        if name in state:
            continue
        if not _is_missing(field.default):
            if name in slots:  # else the class has it
                defaults[name] = field.default
        elif not _is_missing(field.default_factory):
            defaults[name] = field.default_factory()
        elif field.init:
            raise TypeError(f"it has no {name!r}, which the class wants now")
    return defaults


def _attributes_of(value: Any) -> dict[str, Any]:
    """The `__dict__` of an object; a class of slots alone has none, and whoever asks for an attribute is told."""
    return getattr(value, "__dict__", _NO_ATTRIBUTES)


_NO_ATTRIBUTES: Final = cast("dict[str, Any]", MappingProxyType({}))


def _is_computed(kind: type, name: str) -> bool:
    """Whether an attribute is what a property, or another descriptor of the class, makes of it."""
    found: Any = next((base.__dict__[name] for base in kind.__mro__ if name in base.__dict__), None)
    return hasattr(found.__class__, "__set__")


def _is_missing(value: object) -> bool:
    """Whether it is dataclasses' own mark for "no default"; importing that module for it would cost too much."""
    return type(value).__name__ == "_MISSING_TYPE"


def _slots(kind: type[Any]) -> dict[str, Any]:
    """The slots of a class by name, each as what reads and writes it."""
    return {
        name: slot
        for base in reversed(kind.__mro__)
        for name, slot in base.__dict__.items()
        if type(slot) is MemberDescriptorType
    }


def _struct_apart(value: Any) -> list[_Section]:
    fields = structs.asdict(value)
    more: dict[str, Any] | None = getattr(value, "__dict__", None)
    return [fields, dict(more)] if more else [fields]


def _struct_together(kind: Any, sections: list[_Section]) -> Any:
    quiet = _quiet(kind) if hasattr(kind, "__post_init__") else kind
    value = msgspec.StructMeta.__call__(quiet, **_dict_of(sections, 0))
    if quiet is not kind:
        _set_class(value, kind)
    if len(sections) > 1:
        value.__dict__.update(_dict_of(sections, 1))
    return value


_set_class: Final = object.__dict__["__class__"].__set__  # past the guard of Structs
_quiets: WeakKeyDictionary[type, Any] = WeakKeyDictionary()


class Quiet:
    """Comes before a Struct whose `__post_init__`, and `__init_subclass__`, are not to be run."""

    __slots__ = ()

    def __init_subclass__(cls, **options: Any) -> None:
        pass

    def __post_init__(self) -> None:
        pass


def _quiet(kind: Any) -> Any:
    """The same Struct without its `__post_init__`."""
    quiet = _quiets.get(kind)
    if quiet is None:
        quiet = _quiets[kind] = msgspec.StructMeta(kind.__name__, (Quiet, kind), {"__module__": __name__})
    return quiet


def _model_apart(value: Any) -> list[_Section]:
    """Fields, extra, private attributes; and which were set, if not all."""
    fields, extra, private = value.__dict__, value.__pydantic_extra__, value.__pydantic_private__
    given = value.__pydantic_fields_set__
    held = [*fields, *(extra or ())]
    unset = None
    if len(given) != len(held) or not given.issuperset(held):
        unset = {"set": [name for name in held if name in given] + sorted(given.difference(held))}
    known: dict[str, Any] = value.__class__.__pydantic_fields__
    if fields.keys() - known.keys():  # what a cached property has computed is not stored
        fields = {name: item for name, item in fields.items() if name in known}
    return [dict(fields), None if extra is None else dict(extra), None if private is None else dict(private), unset]


def _model_together(kind: Any, sections: list[_Section]) -> Any:
    fields, extra, private, given = sections
    fields = _dict_of(sections, 0)
    gone = fields.keys() - kind.__pydantic_fields__.keys()
    if gone:
        raise TypeError(f"the class has no {min(gone)!r} any more")
    names = set(given["set"]) if given else {*fields, *(extra or ())}
    for name, field in kind.__pydantic_fields__.items():
        if name not in fields:
            if field.is_required():
                raise TypeError(f"it has no {name!r}, which the class wants now")
            fields[name] = field.get_default(call_default_factory=True, validated_data=fields)
    if extra is None and kind.model_config.get("extra") == "allow":
        extra = {}
    if kind.__private_attributes__:
        missing = {n: a for n, a in kind.__private_attributes__.items() if private is None or n not in private}
        unset = private is not None
        private = private or {}
        if not unset:
            private.update({name: attribute.get_default() for name, attribute in missing.items()})
    value = object.__new__(kind)
    object.__setattr__(value, "__dict__", fields)
    object.__setattr__(value, "__pydantic_fields_set__", names)
    object.__setattr__(value, "__pydantic_extra__", extra)
    object.__setattr__(value, "__pydantic_private__", private)
    return value


def _named_apart(value: Any) -> list[_Section]:
    fields = dict(zip(value._fields, value, strict=True))
    more: dict[str, Any] | None = getattr(value, "__dict__", None)
    return [fields, dict(more)] if more else [fields]


def _named_together(kind: Any, sections: list[_Section]) -> Any:
    fields = {**kind._field_defaults, **_dict_of(sections, 0)}
    if fields.keys() != set(kind._fields):
        raise TypeError(f"its fields are {', '.join(fields)}, those of the class {', '.join(kind._fields)}")
    value: Any = _new_tuple(kind, [fields[name] for name in kind._fields])
    if len(sections) > 1:
        value.__dict__.update(_dict_of(sections, 1))
    return value


_new_tuple: Final = cast(Any, tuple).__new__


def _dict_of(sections: list[_Section], at: int) -> dict[str, Any]:
    section: Any = sections[at]
    if type(section) is not dict:
        raise TypeError("its stored form is not one of such a class")
    return cast("dict[str, Any]", section)


# --- enums ----------------------------------------------------------------------


def enum_word(value: Enum) -> Any:
    """A member by name; flags that are several by their names, and a number for bits without one."""
    name = cast("str | None", value.name)
    if name is not None and name in type(value).__members__:
        return name
    if not isinstance(value, Flag):
        raise Refused(f"a member of {name_of(type(value))} that has no name")
    names = [cast(str, member.name) for member in value] if value.value >= 0 else []
    rest: int = value.value
    for name in names:
        rest &= ~type(value).__members__[name].value
    return [*names, rest] if rest else names


def enum_member(kind: Any, word: Any) -> Any:
    """The member again. Raises `KeyError` or `ValueError` if the class has no such one any more."""
    if isinstance(word, str):
        return kind.__members__[word]
    if not issubclass(kind, Flag):
        raise KeyError(word)
    number = 0
    for name in word:
        number |= name if isinstance(name, int) else kind.__members__[name].value
    known = kind._value2member_map_.get(number)
    return _missing_flag(kind, number) if known is None else known


_missing_flag: Final = cast(Any, Flag._missing_).__func__  # the enum module's: a class's own `_missing_` is code


def unknown_type(thread_id: str | None, lost: Sequence[Unreadable]) -> UnknownTypeError:
    """The error of a run that would begin with what could not be read."""
    shown = "; ".join(f"{each.path} is a {each.name} ({each.reason})" for each in lost[:3])
    more = f", and {len(lost) - 3} more" if len(lost) > 3 else ""
    return UnknownTypeError(
        f"Thread {thread_id!r} holds what cannot be read here: {shown}{more}. Nothing is lost: agent.get_state(config) "
        "shows the rest. Register the class, saver.register(TheClass); if it has moved, under its old name too: "
        f'saver.register(TheClass, name="{lost[0].name}"). This run has run nothing.'
    )


# --- words ----------------------------------------------------------------------


def reason(kind: type) -> str:
    """What a refused object is, and what to do instead."""
    name = name_of(kind)
    for base in (dict, list, tuple, set, frozenset, str, bytes, bool, int, float):
        if issubclass(kind, base):
            return f"a {name}, which would come back as a plain {base.__name__}. Store {base.__name__}(value)."
    if issubclass(kind, BaseException):
        return f"an exception ({name}). Store its text: str(error)."
    if name in ("builtins.function", "builtins.method", "builtins.builtin_function_or_method", "functools.partial"):
        return "a function. Store its name, and look it up where it is called."
    if issubclass(kind, type):
        return "a class. Store its name."
    paths = sys.modules.get("pathlib")
    if paths is not None and issubclass(kind, paths.PurePath):
        return f"a {name}, which would come back as a plain path. Store pathlib.Path(value)."
    remedy = {"numpy": "Store value.tolist().", "pandas": 'Store value.to_dict("list").'}.get(name.partition(".")[0])
    return f"of class {name}. " + (
        remedy
        or "Make the class a dataclass, a pydantic model or a msgspec.Struct of plain data, "
        "or keep the object out of the state: in the run's context=, or where the tool is made."
    )


def undeclared(kind: type) -> str:
    """Why an instance of a class that nobody has declared is refused."""
    return (
        f"of class {name_of(kind)}, which is not declared. Name the class in the agent's state, context, tools "
        "or response_format, or register it with the saver."
    )


def name_of(kind: type) -> str:
    """A class as messages to people name it."""
    return f"{kind.__module__}.{kind.__qualname__}"


def short(key: Any) -> str:
    """A key as it is written in a path."""
    if type(key) is str:
        return '"' + key.replace("\\", "\\\\").replace('"', '\\"')[:80] + '"'
    return repr(key)[:80]
