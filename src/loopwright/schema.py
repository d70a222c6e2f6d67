"""What a class that describes an answer means to a model, and how the model's data becomes that class.

A schema is a pydantic model, a dataclass, a `TypedDict` or a JSON schema dictionary (plain, or in the wrapping that
a provider's tool has). Rules:

- pydantic is imported when the first schema is read or checked, never with this module;
- a JSON schema is compact: no titles, no description of the whole (`schema_description` has it), references written
  out where they do not recurse, because several providers read no `$ref`;
- data that does not fit raises a `ValueError` that names the place; pydantic's own `ValidationError` is one.
"""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Union, cast

from loopwright.errors import UsageError

__all__ = ["json_schema", "schema_description", "schema_name", "union_members", "validate"]

_KINDS = "a pydantic model, a dataclass, a TypedDict or a JSON schema dictionary"


def schema_name(schema: Any) -> str:
    """The name under which a model is asked for it: the class's, or a JSON schema's `title` or `name`."""
    if isinstance(schema, Mapping):
        outer = _function_of(cast(Mapping[str, Any], schema))
        name = outer.get("name") or outer.get("title") or _inner(outer).get("title")
        if not name:
            raise UsageError('a JSON schema needs a "title", which is the name the model sees')
        return str(name)
    name = getattr(schema, "__name__", None)
    if not isinstance(schema, type) or name is None:
        raise UsageError(f"{schema!r} is no schema: give {_KINDS}")
    return str(name)


def schema_description(schema: Any) -> str:
    """The class's own docstring, or a JSON schema's `description`; empty without one."""
    if isinstance(schema, Mapping):
        outer = _function_of(cast(Mapping[str, Any], schema))
        return str(outer.get("description") or _inner(outer).get("description") or "")
    text: str = (vars(schema).get("__doc__") if isinstance(schema, type) else None) or ""
    if hasattr(schema, "__dataclass_fields__") and text.startswith(f"{schema_name(schema)}("):
        return ""
    lines = text.expandtabs().splitlines()
    return "\n".join([lines[0].strip(), *_dedented(lines[1:])]).strip() if lines else ""


def json_schema(schema: Any) -> dict[str, Any]:
    """The JSON schema of an object, as a provider wants it. A new dictionary each time."""
    if isinstance(schema, Mapping):
        inner = _inner(_function_of(cast(Mapping[str, Any], schema)))
        if "properties" not in inner and inner.get("type") != "object" and not _combines(inner):
            raise UsageError(
                'a JSON schema must describe an object: {"title": ..., "type": "object", "properties": ...}'
            )
        return _compact(inner)
    return _compact(_adapter(schema).json_schema())


def validate(schema: Any, data: Any) -> Any:
    """`data` as the schema's own type: an instance, or a dictionary for a `TypedDict` and a JSON schema.

    Raises `ValueError` (pydantic's `ValidationError` is one) whose text names the field that does not fit.
    """
    if isinstance(schema, Mapping):
        inner = _inner(_function_of(cast(Mapping[str, Any], schema)))
        problem = _mismatch(inner, data, "", inner)
        if problem:
            raise ValueError(f"{schema_name(cast(Any, schema))}: {problem}")
        return data
    return _adapter(schema).validate_python(data)


def union_members(schema: Any) -> list[Any]:
    """The alternatives of `A | B` or of a JSON schema with `oneOf`; else the schema alone."""
    if typing.get_origin(schema) in (Union, types.UnionType):
        return [member for part in typing.get_args(schema) for member in union_members(part)]
    if isinstance(schema, Mapping):
        found = cast(Mapping[str, Any], schema)
        if "oneOf" in found and "properties" not in found:
            shared = {"$defs": found["$defs"]} if "$defs" in found else {}
            return [{**shared, **_resolved(part, found)} for part in found["oneOf"]]
    return [schema]


# -- classes --------------------------------------------------------------------------------------------------------


@functools.cache
def _adapter(schema: Any) -> Any:
    """pydantic's view of a class; cached, because building it costs a thousand times what using it does."""
    from pydantic import TypeAdapter

    if not (isinstance(schema, type) and _describes_object(schema)):
        raise UsageError(f"{schema!r} is no schema: give {_KINDS}")
    return TypeAdapter(_readable(schema, {}))


def _describes_object(schema: type) -> bool:
    return (
        hasattr(schema, "model_json_schema")
        or hasattr(schema, "__dataclass_fields__")
        or (issubclass(schema, dict) and hasattr(schema, "__required_keys__"))
    )


def _readable(kind: Any, seen: dict[Any, Any]) -> Any:
    """The type with every `typing.TypedDict` in it remade as one that pydantic reads on each Python version.

    Before Python 3.12 pydantic refuses `typing.TypedDict`. A bare string in `Annotated` becomes the description.
    """
    if isinstance(kind, type) and hasattr(kind, "__required_keys__") and issubclass(kind, dict):
        return _typed_dict(kind, seen)
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is None or not args or origin is Literal:
        return kind
    if origin is Annotated:
        return Annotated[(_readable(args[0], seen), *_annotations(args[1:]))]  # type: ignore[return-value]
    new = tuple(_readable(arg, seen) for arg in args)
    if new == args:
        return kind
    if origin is types.UnionType:
        return functools.reduce(lambda left, right: left | right, new)
    return kind.copy_with(new) if hasattr(kind, "copy_with") else origin[new]


def _typed_dict(kind: Any, seen: dict[Any, Any]) -> Any:
    from typing import NotRequired, Required

    from typing_extensions import ReadOnly, TypedDict

    if kind in seen:
        return seen[kind]
    seen[kind] = kind
    fields: dict[str, Any] = {}
    for name, hint in typing.get_type_hints(kind, include_extras=True).items():
        while typing.get_origin(hint) in (Required, NotRequired, ReadOnly):
            hint = typing.get_args(hint)[0]
        wrap = Required if name in kind.__required_keys__ else NotRequired
        fields[name] = wrap[_readable(hint, seen)]
    made: Any = TypedDict(kind.__name__, fields)  # type: ignore[misc]
    made.__doc__, made.__module__ = kind.__doc__, kind.__module__
    seen[kind] = made
    return made


def _annotations(extras: tuple[Any, ...]) -> tuple[Any, ...]:
    """`Annotated[str, "words"]` and `Annotated[str, default, "words"]` in a `TypedDict` mean a description."""
    from pydantic import Field

    words = [extra for extra in extras if isinstance(extra, str)]
    rest = tuple(extra for extra in extras if not isinstance(extra, str) and extra is not ...)
    return (*rest, Field(description=words[-1])) if words else rest or extras


# -- JSON schemas ---------------------------------------------------------------------------------------------------


def _function_of(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Out of a provider's tool wrapping: `{"type": "function", "function": {...}}`, `{"json_schema": {...}}`."""
    for key in ("function", "json_schema"):
        if isinstance(schema.get(key), Mapping) and "properties" not in schema:
            return cast(Mapping[str, Any], schema[key])
    return schema


def _inner(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    if "properties" not in schema:
        for key in ("parameters", "input_schema", "schema"):
            if isinstance(schema.get(key), Mapping):
                return cast(Mapping[str, Any], schema[key])
    return schema


def _combines(schema: Mapping[str, Any]) -> bool:
    return any(key in schema for key in ("anyOf", "oneOf", "allOf", "$ref"))


def _dedented(lines: list[str]) -> list[str]:
    margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return [line[margin:].rstrip() for line in lines]


def _resolved(part: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A `$ref` followed, with what stands beside it laid over what it points to."""
    seen: set[str] = set()
    while "$ref" in part and part["$ref"] not in seen:
        seen.add(part["$ref"])
        found: Any = root
        for step in str(part["$ref"]).lstrip("#/").split("/"):
            if not isinstance(found, Mapping) or step not in found:
                raise UsageError(f"the JSON schema points to {part['$ref']!r}, which is not in it")
            found = cast(Mapping[str, Any], found)[step]
        part = {**found, **{key: value for key, value in part.items() if key != "$ref"}}
    return part


def _compact(schema: Mapping[str, Any]) -> dict[str, Any]:
    recursive: set[str] = set()

    def walk(part: Any, above: tuple[str, ...]) -> Any:
        if isinstance(part, list):
            return [walk(item, above) for item in cast(list[Any], part)]
        if not isinstance(part, Mapping):
            return part
        node = cast(Mapping[str, Any], part)
        reference = node.get("$ref")
        if isinstance(reference, str):
            if reference in above:
                recursive.add(reference)
                return dict(node)
            return walk(_resolved(node, schema), (*above, reference))
        made: dict[str, Any] = {}
        for key, value in node.items():
            if key in ("title", "$defs", "definitions", "$schema") and not isinstance(value, (list, bool)):
                continue
            if key in ("properties", "patternProperties") and isinstance(value, Mapping):
                made[key] = {name: walk(inner, above) for name, inner in cast(Mapping[str, Any], value).items()}
            elif key in ("default", "const", "enum", "examples", "required"):
                made[key] = value
            else:
                made[key] = walk(value, above)
        return made

    whole = walk(schema, ())
    whole.pop("description", None)
    pending = set(recursive)
    kept: dict[str, Any] = {}
    while pending:
        reference = pending.pop()
        group, _, name = reference.lstrip("#/").rpartition("/")
        if name and name not in kept.get(group, {}):
            kept.setdefault(group, {})[name] = walk(_resolved({"$ref": reference}, schema), (reference,))
            pending |= recursive
    whole.update(kept)
    return whole


_JSON_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, Mapping),
    "array": lambda value: isinstance(value, (list, tuple)),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "integer": lambda value: (
        not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))
    ),
}


def _mismatch(schema: Any, value: Any, place: str, root: Mapping[str, Any]) -> str | None:
    """Why `value` does not fit, with the place; None if it does. Keywords it does not know ask for nothing."""
    if schema is True or not isinstance(schema, Mapping):
        return None if schema is not False else f"{place or 'the value'} is not allowed"
    rules = _resolved(cast(Mapping[str, Any], schema), root)
    where = place or "the value"
    kinds = rules.get("type")
    if kinds is not None:
        wanted: list[str] = [kinds] if isinstance(kinds, str) else list(kinds)
        if not any(_JSON_TYPES.get(kind, lambda _value: True)(value) for kind in wanted):
            return f"{where} should be {' or '.join(wanted)}, not {type(value).__name__}"
    if "const" in rules and value != rules["const"]:
        return f"{where} should be {rules['const']!r}, not {value!r}"
    if "enum" in rules and value not in rules["enum"]:
        return f"{where} should be one of {rules['enum']!r}, not {value!r}"
    for part in rules.get("allOf", ()):
        if problem := _mismatch(part, value, place, root):
            return problem
    for key in ("anyOf", "oneOf"):
        if key in rules:
            problems = [_mismatch(part, value, place, root) for part in rules[key]]
            if problems and all(problems):
                return " or ".join(dict.fromkeys(problem for problem in problems if problem))
    return _bounds(rules, value, where) or _parts(rules, value, place, root)


def _bounds(rules: Mapping[str, Any], value: Any, where: str) -> str | None:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if "minimum" in rules and value < rules["minimum"]:
            return f"{where} should be at least {rules['minimum']}, not {value}"
        if "maximum" in rules and value > rules["maximum"]:
            return f"{where} should be at most {rules['maximum']}, not {value}"
        if "exclusiveMinimum" in rules and value <= rules["exclusiveMinimum"]:
            return f"{where} should be more than {rules['exclusiveMinimum']}, not {value}"
        if "exclusiveMaximum" in rules and value >= rules["exclusiveMaximum"]:
            return f"{where} should be less than {rules['exclusiveMaximum']}, not {value}"
    if isinstance(value, (str, list)):
        what, count = ("Length", len(value)) if isinstance(value, str) else ("Items", len(cast(list[Any], value)))
        unit = "characters" if what == "Length" else "items"
        if count < rules.get(f"min{what}", 0):
            return f"{where} should have at least {rules[f'min{what}']} {unit}, not {count}"
        if f"max{what}" in rules and count > rules[f"max{what}"]:
            return f"{where} should have at most {rules[f'max{what}']} {unit}, not {count}"
    if isinstance(value, str) and "pattern" in rules:
        import re

        if not re.search(rules["pattern"], value):
            return f"{where} should match {rules['pattern']!r}, not {value!r}"
    return None


def _parts(rules: Mapping[str, Any], value: Any, place: str, root: Mapping[str, Any]) -> str | None:
    if isinstance(value, Mapping):
        fields = cast(Mapping[str, Any], value)
        properties: Mapping[str, Any] = rules.get("properties", {})
        missing = [name for name in rules.get("required", ()) if name not in fields]
        if missing:
            return f"{f'{place}.' if place else ''}{missing[0]} is missing"
        others = rules.get("additionalProperties", True)
        for name, inner in fields.items():
            rule = properties.get(name, others)
            if problem := _mismatch(rule, inner, f"{place}.{name}" if place else name, root):
                return problem
    elif isinstance(value, (list, tuple)) and "items" in rules:
        for index, item in enumerate(cast(list[Any], value)):
            if problem := _mismatch(rules["items"], item, f"{place}[{index}]", root):
                return problem
    return None
