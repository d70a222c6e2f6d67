"""Schemas of plain types, written out by hand: a fifth of what building a pydantic model costs.

For every type here the JSON schema, and what is accepted and how it is converted, are the same as pydantic's own; a
test compares them. A type that is not here makes its whole function go pydantic's way (`schema.py`). Only
`pydantic_core` is needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum, Flag
from types import NoneType, UnionType
from typing import Any, Final, Literal, NamedTuple, Union, cast, get_args, get_origin

from loopwright.tools.parameters import Parameter

__all__ = ["Field", "described", "fields_of", "nullable", "properties", "validator"]

_Json = dict[str, Any]
_Core = dict[str, Any]


class Field(NamedTuple):
    """One parameter."""

    name: str
    json: _Json
    """With description and default."""
    core: _Core
    """pydantic_core's schema."""
    required: bool


_PLAIN: Final[dict[Any, tuple[_Json, _Core]]] = {
    str: ({"type": "string"}, {"type": "str"}),
    int: ({"type": "integer"}, {"type": "int"}),
    float: ({"type": "number"}, {"type": "float"}),
    bool: ({"type": "boolean"}, {"type": "bool"}),
    Any: ({}, {"type": "any"}),
    list: ({"type": "array", "items": {}}, {"type": "list"}),
    dict: ({"type": "object", "additionalProperties": True}, {"type": "dict"}),
}
_NULL: Final[tuple[_Json, _Core]] = ({"type": "null"}, {"type": "none"})


def fields_of(parameters: Sequence[Parameter], descriptions: dict[str, str]) -> list[Field] | None:
    """A field for each parameter, or None if one of them is not of a plain type."""
    made: list[Field] = []
    for name, annotation, default, _ in parameters:
        kind, words = described(annotation)
        found = _PLAIN.get(kind) if kind.__class__ is type or kind is Any else _composed(kind)
        if found is None:
            return None
        json, core = found
        if default is None and kind is not Any and core["type"] not in ("nullable", "none"):
            json, core = nullable(json, core)
        words = words or descriptions.get(name)
        if words or default is not ...:
            json = dict(json)
        if words:
            json["description"] = words
        if default is not ...:
            plain = _plain(default)
            if plain is ...:
                return None
            json["default"] = plain
            if default.__class__ in (list, dict):
                core = {"type": "default", "schema": core, "default": default, "copy_default": True}
        made.append(Field(name, json, core, default is ...))
    return made


def properties(fields: Sequence[Field]) -> _Json:
    """The JSON schema of all the arguments."""
    schema: _Json = {"type": "object", "properties": {field.name: field.json for field in fields}}
    required = [field.name for field in fields if field.required]
    if required:
        schema["required"] = required
    return schema


def validator(title: str, fields: Sequence[Field]) -> Callable[[Any], dict[str, Any]]:
    """A function from the model's arguments to the call's: those that were given, and defaults that may be changed."""
    from pydantic_core import SchemaValidator

    schema: Any = {
        "type": "typed-dict",
        "fields": {
            field.name: {"type": "typed-dict-field", "schema": field.core, "required": field.required}
            for field in fields
        },
    }
    return SchemaValidator(schema, cast(Any, {"title": title})).validate_python


def described(annotation: Any) -> tuple[Any, str | None]:
    """`Annotated[T, "words"]` or `Annotated[T, Field(description="words")]` -> (T, words); else the type as it is."""
    marks: tuple[Any, ...] | None = getattr(annotation, "__metadata__", None)
    if marks is None:
        return annotation, None
    words: str | None = None
    for mark in marks:
        if isinstance(mark, str):
            words = mark
        elif type(mark).__name__ == "FieldInfo" and _only_describes(mark):
            words = mark.description
        else:
            return annotation, None
    return annotation.__origin__, words


def _only_describes(info: Any) -> bool:
    return not info.metadata and getattr(info, "_attributes_set", {"": 0}).keys() <= {"description", "annotation"}


def nullable(json: _Json, core: _Core) -> tuple[_Json, _Core]:
    """The same, or null."""
    choices = json["anyOf"] if json.keys() == {"anyOf"} else [json]
    return {"anyOf": [*choices, _NULL[0]]}, {"type": "nullable", "schema": core}


def _field(kind: Any) -> tuple[_Json, _Core] | None:
    if kind.__class__ is type or kind is Any:
        return _PLAIN.get(kind)
    return _composed(kind)


def _composed(kind: Any) -> tuple[_Json, _Core] | None:
    origin, args = get_origin(kind), get_args(kind)
    if origin is Union or origin is UnionType:
        return _union(args)
    if origin is list or origin is dict:
        inner = _field(args[-1]) if args else None
        if inner is None or (origin is dict and args[0] is not str):
            return _PLAIN[origin] if not args else None
        if origin is list:
            return {"type": "array", "items": inner[0]}, {"type": "list", "items_schema": inner[1]}
        core: _Core = {"type": "dict", "keys_schema": {"type": "str"}, "values_schema": inner[1]}
        return {"type": "object", "additionalProperties": inner[0] or True}, core
    if origin is Literal:
        return _literal(args)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _enum(kind)
    return _NULL if kind is None or kind is NoneType else None


def _union(members: tuple[Any, ...]) -> tuple[_Json, _Core] | None:
    choices: list[tuple[_Json, _Core]] = []
    for member in members:
        if member is NoneType:
            continue
        choice = _field(member)
        if choice is None or not choice[0]:
            return None
        choices.append(choice)
    if len(choices) == 1:
        json, core = choices[0]
    else:
        json = {"anyOf": [choice[0] for choice in choices]}
        core = {"type": "union", "choices": [choice[1] for choice in choices]}
    return nullable(json, core) if NoneType in members else (json, core)


_JSON_NAMES: Final[dict[type, str]] = {str: "string", int: "integer"}


def _literal(values: tuple[Any, ...]) -> tuple[_Json, _Core] | None:
    json = _choices(list(values))
    return None if json is None else (json, {"type": "literal", "expected": list(values)})


def _choices(values: list[Any]) -> _Json | None:
    kind = cast("type[Any]", type(values[0]) if values else NoneType)
    name = _JSON_NAMES.get(kind) if all(type(value) is kind for value in values) else None
    if name is None:
        return None
    return {"const": values[0], "type": name} if len(values) == 1 else {"enum": values, "type": name}


def _enum(kind: type[Enum]) -> tuple[_Json, _Core] | None:
    """Enums of plain text or numbers; one with words or conversions of its own goes pydantic's way."""
    members = list(kind)
    values = [member.value for member in members]
    json = _choices(values)
    special = vars(kind).get("__doc__") or hasattr(kind, "__get_pydantic_core_schema__") or "_missing_" in vars(kind)
    if json is None or special or issubclass(kind, Flag):
        return None
    json = {"enum": values, "type": json["type"]}
    core: _Core = {"type": "enum", "cls": kind, "members": members}
    for base, name in ((int, "int"), (str, "str")):
        if issubclass(kind, base):
            core["sub_type"] = name
    return json, core


def _plain(value: Any) -> Any:
    """A default as JSON has it; `...` for one that JSON has not."""
    kind = value.__class__
    if value is None or kind is str or kind is int or kind is bool:
        return value
    if kind is float:
        return value if math.isfinite(value) else ...
    if kind is list:
        items = [_plain(item) for item in cast("list[Any]", value)]
        return ... if ... in items else items
    if kind is dict:
        pairs = {key: _plain(item) for key, item in cast("dict[Any, Any]", value).items()}
        return pairs if all(isinstance(key, str) for key in pairs) and ... not in pairs.values() else ...
    return _plain(value.value) if isinstance(value, Enum) else ...
