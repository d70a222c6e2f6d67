"""JSON schemas as Gemini reads them, for tools and for structured output.

Gemini takes the whole of a JSON schema and heeds a part of it. What it would misread is written in words that it knows;
the rest is sent as it is, and heeded when Gemini learns it. Rules:

- `const` becomes `enum`, one `allOf` is written out, several are put together;
- a reference stands alone: Gemini refuses one with other keys beside it. `definitions` are `$defs`;
- keys about the schema and not about the data (`$schema`, `discriminator`, `examples`) are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from loopwright.errors import UsageError

__all__ = ["gemini_schema", "response_config"]

_ABOUT: Final = frozenset(("$schema", "discriminator", "examples", "example", "$comment"))
_BY_NAME: Final = frozenset(("properties", "$defs", "definitions", "patternProperties"))
_DATA: Final = frozenset(("enum", "default", "required", "propertyOrdering", "property_ordering"))


def gemini_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema as Gemini reads it. A new dictionary."""
    return cast("dict[str, Any]", _walk(schema))


def _walk(part: Any) -> Any:
    if isinstance(part, list):
        return [_walk(item) for item in cast("list[Any]", part)]
    if not isinstance(part, Mapping):
        return part
    node = cast("Mapping[str, Any]", part)
    made: dict[str, Any] = {}
    for key, value in node.items():
        if key in _ABOUT:
            continue
        if key == "const":
            made.update(_constant(value))
        elif key == "allOf" and isinstance(value, list):
            for inner in cast("list[Any]", value):
                _add(made, _walk(inner))
        else:
            _add(made, {"$defs" if key == "definitions" else key: _walk_key(key, value)})
    return {key: made[key] for key in ("$defs", "$ref") if key in made} if "$ref" in made else made


def _walk_key(key: str, value: Any) -> Any:
    if key == "$ref" and isinstance(value, str):
        return value.replace("#/definitions/", "#/$defs/")
    if key in _BY_NAME and isinstance(value, Mapping):
        return {name: _walk(inner) for name, inner in cast("Mapping[str, Any]", value).items()}
    return value if key in _DATA else _walk(value)


def _constant(value: Any) -> dict[str, Any]:
    """Enumerations are of strings and numbers only."""
    if isinstance(value, bool) or value is None:
        return {"type": "boolean" if value is not None else "null"}
    if isinstance(value, str):
        return {"type": "string", "enum": [value]}
    return {"enum": [value]}


def _add(made: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Put two descriptions of one value together: fields add up, of other keys the last wins."""
    for key, value in more.items():
        known = made.get(key)
        if key in _BY_NAME and isinstance(known, dict) and isinstance(value, dict):
            made[key] = {**known, **value}
        elif key == "required" and isinstance(known, list):
            made[key] = [*known, *(name for name in value if name not in known)]
        else:
            made[key] = value


def response_config(wanted: Any) -> dict[str, Any]:
    """The keys of `generationConfig` for `response_format`: a schema, or a dictionary in OpenAI's form.

    Raises `UsageError` for a `type` that is none of `text`, `json_object` and `json_schema`.
    """
    given: dict[str, Any] = dict(cast("Mapping[str, Any]", wanted)) if isinstance(wanted, Mapping) else {}
    kind = given.get("type")
    if kind == "text":
        return {"responseMimeType": "text/plain"}
    if kind == "json_object":
        return {"responseMimeType": "application/json"}
    if kind == "json_schema":
        schema = dict(given.get("json_schema") or {}).get("schema") or {"type": "object"}
    elif kind in (None, "object"):
        from loopwright.schema import json_schema

        schema = json_schema(wanted)
    else:
        raise UsageError(
            f'response_format has the type {kind!r}: take "text", "json_object" or "json_schema", or give the schema'
        )
    return {"responseMimeType": "application/json", "responseJsonSchema": gemini_schema(schema)}
