"""What a class that describes an answer means to a model, and how the model's data becomes that class.

A schema is a pydantic model, a dataclass, a `TypedDict`, a JSON schema dictionary (plain, or in the wrapping that a
provider's tool has), or for an answer any type that has a JSON form: `list[Item]`, `Literal["yes", "no"]`. Rules:

- pydantic is imported when the first schema is read or checked, never with this module;
- providers ask for objects: an answer of another form is asked for as `{"value": ...}`, and taken out of it again;
- what a model sends is JSON, so a strict date may be a text (`checked`);
- a JSON schema is compact: no titles, no description of the whole (`schema_description` has it), references written
  out where they do not recurse, because several providers read no `$ref`;
- data that does not fit a class raises a `ValueError` that names the place: pydantic's own `ValidationError`.
"""

from __future__ import annotations

import functools
import json
import re
import types
import typing
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, Union, cast

from loopwright.errors import UsageError

__all__ = [
    "VALUE",
    "answer_schema",
    "checked",
    "core_schema",
    "is_object",
    "json_schema",
    "json_text",
    "readable",
    "schema_description",
    "schema_name",
    "union_members",
    "validate",
]

_KINDS = "a pydantic model, a dataclass, a TypedDict, a type with a JSON form (list[Item]) or a JSON schema dictionary"
VALUE = "value"
"""The key of what is no object in the object that is asked for."""


def schema_name(schema: Any) -> str:
    """The name under which a model is asked for it: the class's, or a JSON schema's `title` or `name`."""
    if isinstance(schema, Mapping):
        outer = _function_of(cast(Mapping[str, Any], schema))
        name = outer.get("name") or outer.get("title") or _inner(outer).get("title")
        if not name:
            raise UsageError('a JSON schema needs a "title", which is the name the model sees')
        return str(name)
    if not _is_type(schema):
        raise _no_schema(schema)
    if typing.get_origin(schema) is Annotated:
        return schema_name(typing.get_args(schema)[0])
    name = repr(schema) if typing.get_origin(schema) else str(schema.__name__)
    name = re.sub(r"[\w.<>]+\.", "", name)  # list[shop.Item]: without modules
    return re.sub(r"\W+", "_", name).strip("_") if "[" in name else name


def schema_description(schema: Any) -> str:
    """The class's own docstring, or a JSON schema's `description`; empty without one."""
    if isinstance(schema, Mapping):
        outer = _function_of(cast(Mapping[str, Any], schema))
        return str(outer.get("description") or _inner(outer).get("description") or "")
    text: str = (vars(schema).get("__doc__") if isinstance(schema, type) and _has_fields(schema) else None) or ""
    if hasattr(schema, "__dataclass_fields__") and text.startswith(f"{schema_name(schema)}("):
        return ""
    lines = text.expandtabs().splitlines()
    return "\n".join([lines[0].strip(), *_dedented(lines[1:])]).strip() if lines else ""


def json_schema(schema: Any) -> dict[str, Any]:
    """The JSON schema of an object, as a provider wants it. A new dictionary each time."""
    form = _form(schema)
    if not is_object(schema) and not _combines(_resolved(form, form)):
        raise UsageError(
            'a JSON schema must describe an object: {"title": ..., "type": "object", "properties": ...}'
            if isinstance(schema, Mapping)
            else f"{schema_name(schema)} must describe an object: put it into a field of a pydantic model"
        )
    return _compact(form)


def answer_schema(schema: Any) -> dict[str, Any]:
    """The JSON schema of the object that an answer is asked for as: the schema's own, or `{"value": ...}` around it."""
    form = _form(schema)
    if is_object(schema):
        return _compact(form)
    value = {key: part for key, part in form.items() if key not in (*_SHARED, "description")}
    shared = {key: form[key] for key in _SHARED if key in form}
    return _compact({"type": "object", "properties": {VALUE: value}, "required": [VALUE], **shared})


def is_object(schema: Any) -> bool:
    """Whether a schema's JSON form is an object, and nothing else."""
    form = _form(schema)
    return _describes_object(form, form)


def validate(schema: Any, data: Any) -> Any:
    """A model's answer as the schema's own type: an instance, or a dictionary for a `TypedDict` and a JSON schema.

    What is asked for as `{"value": ...}` may also come without that. A JSON schema is a request to the model and is not
    enforced on its answer; a class is.

    Raises `ValueError` (pydantic's `ValidationError` is one) whose text names the field that does not fit.
    """
    if not is_object(schema) and isinstance(data, Mapping) and list(cast(Any, data)) == [VALUE]:
        data = cast(Any, data)[VALUE]
    elif isinstance(schema, Mapping) and is_object(schema) and not isinstance(data, Mapping):
        words = f"{schema_name(cast(Any, schema))}: an object was expected, not {type(data).__name__}"
        raise ValueError(words)
    if isinstance(schema, Mapping):
        return cast(Any, data)
    return checked(_known(schema).validator, data)


def checked(validator: Any, data: Any) -> Any:
    """What `validator` (pydantic's `SchemaValidator`) makes of data that a model has sent.

    Python's mode is the fast one. A type that is strict, or has a form of its own in JSON, takes from a model what it
    takes from JSON. Raises pydantic's `ValidationError`, in Python's words where both modes find the same.
    """
    from pydantic import ValidationError

    try:
        return validator.validate_python(data)
    except ValidationError as error:
        text = json_text(data)
        if text is None:
            raise
        try:
            return validator.validate_json(text)
        except ValidationError as told:
            if _problems(told) != _problems(error):
                raise
        raise


def _problems(error: Any) -> list[Any]:
    return [(one["loc"], one["type"]) for one in error.errors(include_url=False, include_context=False)]


def json_text(data: Any) -> str | None:
    """Data as JSON; None for what is none: a program has called, or the text holds half a character."""
    try:
        text = json.dumps(data, ensure_ascii=False)
        text.encode()
    except (TypeError, ValueError, RecursionError):
        return None
    return text


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


def _no_schema(schema: Any) -> UsageError:
    way = f"give {_KINDS}"
    if schema in (None, types.NoneType):
        way = "let what may be missing be a field of one, class Answer(BaseModel): found: Item | None"
    return UsageError(f"{schema!r} is no schema: {way}")


# -- classes --------------------------------------------------------------------------------------------------------


class _Known(NamedTuple):
    """A type that was read."""

    validator: Any
    core: Any
    form: Mapping[str, Any]


def _known(schema: Any) -> _Known:
    if not _is_type(schema):
        raise _no_schema(schema)
    try:
        hash(schema)
    except TypeError:  # an annotation that is not hashable
        return _read(schema)
    return _kept(schema)


def _read(schema: Any) -> _Known:
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        adapter = TypeAdapter[Any](readable(schema, {}))
        return _Known(adapter.validator, adapter.core_schema, adapter.json_schema())
    except PydanticUserError as error:
        if _has_fields(schema):
            raise
        raise _no_schema(schema) from error


_kept = functools.cache(_read)
"""Reading a type costs a thousand times what using it does."""


def core_schema(schema: Any) -> Any:
    """pydantic's own reading of a type, as `pydantic_core` takes it."""
    return _known(schema).core


def _has_fields(schema: Any) -> bool:
    return any(hasattr(schema, mark) for mark in ("model_json_schema", "__dataclass_fields__", "__required_keys__"))


def _is_type(schema: Any) -> bool:
    """Whether it is a class or something like `list[int]`, of values that an answer can be."""
    if schema in (Any, object, None, type(None)) or isinstance(schema, str):
        return False
    return isinstance(schema, type) or typing.get_origin(schema) is not None or hasattr(schema, "__value__")


def readable(kind: Any, seen: dict[Any, Any]) -> Any:
    """The type with every `typing.TypedDict` in it remade as one that pydantic reads on each Python version.

    Before Python 3.12 pydantic refuses `typing.TypedDict`. A bare string in `Annotated` becomes the description.
    """
    if hasattr(kind, "__required_keys__"):
        return _typed_dict(kind, seen)
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is None or not args or origin is Literal:
        return kind
    if origin is Annotated:
        return Annotated[(readable(args[0], seen), *_annotations(args[1:]))]  # type: ignore[return-value]
    new = tuple(readable(arg, seen) for arg in args)
    if new == args:
        return kind
    if origin is types.UnionType:
        return functools.reduce(lambda left, right: left | right, new)
    copy: Any = getattr(kind, "copy_with", None)
    return copy(new) if copy is not None else origin[new]


def _typed_dict(kind: Any, seen: dict[Any, Any]) -> Any:
    from typing import NotRequired, Required

    from typing_extensions import ReadOnly, TypedDict

    if kind in seen:
        return seen[kind]
    seen[kind] = kind
    fields: dict[str, Any] = {}
    for name, hint in typing.get_type_hints(kind, include_extras=True).items():
        bare = hint
        required = name in kind.__required_keys__  # which does not see marks in annotations that are still strings
        while (mark := typing.get_origin(bare)) in (Required, NotRequired, ReadOnly):
            required = required if mark is ReadOnly else mark is Required
            bare = typing.get_args(bare)[0]
        fields[name] = Required[readable(bare, seen)] if required else NotRequired[readable(bare, seen)]
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

_SHARED = ("$defs", "definitions")
"""Where the parts of a JSON schema are that are named more than once."""
_LEFT_OUT = ("title", "$defs", "definitions", "$schema", "discriminator")
"""What says nothing once references are written out."""


def _form(schema: Any) -> Mapping[str, Any]:
    """The JSON schema of a schema, as it was written."""
    if not isinstance(schema, Mapping):
        return _known(schema).form
    form = _inner(_function_of(cast(Mapping[str, Any], schema)))
    if not any(key in form for key in ("type", "properties", "enum", "const", "items")) and not _combines(form):
        raise UsageError('a JSON schema must describe an object: {"title": ..., "type": "object", "properties": ...}')
    return form


def _describes_object(part: Mapping[str, Any], root: Mapping[str, Any]) -> bool:
    found = _resolved(part, root)
    if "type" in found or "properties" in found:
        return found.get("type", "object") == "object"
    return any(_describes_object(each, root) for each in found.get("allOf", ()))


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
            if key in _LEFT_OUT and not isinstance(value, (list, bool)):
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
