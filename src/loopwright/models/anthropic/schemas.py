"""JSON schemas under the rules by which Claude is held to them.

Rules:

- every object is closed; one that takes any key cannot be expressed and is an error, which says what to take instead;
- a keyword that the grammar does not know (a range, a length, a pattern) would be refused: it goes into the
  description, where the model reads it; the answer is validated here anyway;
- the given schema is not changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from loopwright.errors import UsageError
from loopwright.models.wire_json import dumps_text

__all__ = ["held_schema"]

_KNOWN: Final = frozenset({
    "type", "title", "description", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf",
    "allOf", "$ref", "$defs", "definitions", "format", "minItems",
})  # fmt: skip
_FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)
_SILENT: Final = frozenset({"default", "examples", "$schema", "discriminator"})
"""Says nothing about which answers fit."""


def held_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema that is sent. Raises `UsageError` for an object with free keys."""
    made = _held(schema, "")
    if made.get("type") == "object":
        made.setdefault("properties", {})
    return made


def _held(part: Any, place: str) -> Any:
    if isinstance(part, list):
        return [_held(item, f"{place}[{index}]") for index, item in enumerate(cast("list[Any]", part))]
    if not isinstance(part, Mapping):
        return part
    made: dict[str, Any] = {}
    said: dict[str, Any] = {}
    for key, value in cast("Mapping[str, Any]", part).items():
        if key in ("properties", "$defs", "definitions") and isinstance(value, Mapping):
            fields = cast("Mapping[str, Any]", value)
            made[key] = {name: _held(inner, f"{place}.{name}" if place else name) for name, inner in fields.items()}
        elif key == "oneOf":
            made["anyOf"] = _held(value, place)
        elif key in ("enum", "const", "required", "additionalProperties"):
            made[key] = value
        elif key in _KNOWN and _fits(key, value):
            made[key] = _held(value, place)
        elif key not in _SILENT:
            said[key] = value
    if "properties" in made or made.get("type") == "object":
        _close(made, place)
    if said:
        words = "{" + ", ".join(f"{key}: {v if isinstance(v, str) else dumps_text(v)}" for key, v in said.items()) + "}"
        made["description"] = f"{made['description']}\n\n{words}" if made.get("description") else words
    return made


def _fits(key: str, value: Any) -> bool:
    if key == "format":
        return value in _FORMATS
    return key != "minItems" or value in (0, 1)


def _close(made: dict[str, Any], place: str) -> None:
    if made.get("additionalProperties") not in (None, False) or (place and not made.get("properties")):
        raise UsageError(
            f"{place or 'the schema'} takes any key, which Claude cannot be held to: name the fields, or take "
            'with_structured_output(schema, method="function_calling") or ToolStrategy(schema)'
        )
    made["additionalProperties"] = False
