"""Tools, the choice among them, and the schema of an answer, in Anthropic's form.

Rules:

- tools keep their order, so that what the provider has cached stays valid; one in Anthropic's form is sent as it is;
- settings of Anthropic's beside a tool (`cache_control`, `defer_loading`, `input_examples`, ...) come from its `extras`
  or stand beside it in its dictionary;
- while Claude thinks on a budget it may not be forced to call: then "any" and a tool's name become "auto".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from loopwright.errors import UsageError
from loopwright.models.anthropic.schemas import held_schema

__all__ = ["offered", "output_format", "wire_tool_choice", "wire_tools"]

_NO_SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}


def offered(tool: Any) -> dict[str, Any]:
    """A tool in OpenAI's form, its `extras` beside it, or as it is if it is in Anthropic's form."""
    if isinstance(tool, Mapping) and ("input_schema" in tool or "function" in tool):
        return dict(cast("Mapping[str, Any]", tool))
    from loopwright.tools import convert_to_openai_tool

    extras = None if isinstance(tool, Mapping) else getattr(tool, "extras", None)
    return {**convert_to_openai_tool(tool), **({"extras": extras} if extras else {})}


def wire_tools(tools: Iterable[Any], *, strict: bool | None = None) -> list[dict[str, Any]]:
    """Tools in Anthropic's form, from OpenAI's, Anthropic's, or whatever can be a tool. The given ones stay."""
    return [_tool(tool, strict) for tool in tools]


def _tool(tool: Any, strict: bool | None) -> dict[str, Any]:
    given = offered(tool)
    found = given.get("function")
    if not isinstance(found, Mapping):
        return given
    function = cast("Mapping[str, Any]", found)
    made: dict[str, Any] = {"name": function.get("name")}
    if function.get("description"):
        made["description"] = function["description"]
    made["input_schema"] = function.get("parameters") or dict(_NO_SCHEMA)
    wanted = function.get("strict") if strict is None else strict
    if wanted:
        made["input_schema"] = held_schema(made["input_schema"])
    if wanted is not None:
        made["strict"] = wanted
    beside = {key: value for key, value in given.items() if key not in ("type", "function", "extras")}
    return {**made, **beside, **(given.get("extras") or {})}


def wire_tool_choice(
    choice: Any, tools: Sequence[Mapping[str, Any]], *, parallel: bool | None = None, thinks: bool = False
) -> dict[str, Any] | None:
    """`auto`, `none`, `any`/`required`/True, a tool's name, or a provider's dictionary. None leaves it out.

    Raises `UsageError` for a name that is no tool's.
    """
    made = _choice(choice, tools)
    if thinks and made is not None and made.get("type") in ("any", "tool") and not isinstance(choice, Mapping):
        made = {"type": "auto"}
    if parallel is False and (made is None or made.get("type") != "none"):
        made = {**(made or {"type": "auto"}), "disable_parallel_tool_use": True}
    return made


def _choice(choice: Any, tools: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    if choice is None or choice is False:
        return None
    if isinstance(choice, Mapping):
        given = cast("Mapping[str, Any]", choice)
        function = given.get("function")
        if isinstance(function, Mapping):
            return {"type": "tool", "name": cast("Mapping[str, Any]", function).get("name")}
        return dict(given)
    if choice is True or choice in ("any", "required"):
        return {"type": "any"}
    if choice in ("auto", "none"):
        return {"type": choice}
    name = choice if isinstance(choice, str) else getattr(choice, "name", None) or getattr(choice, "__name__", None)
    names = [tool["name"] for tool in tools if "name" in tool]
    if name not in names:
        raise UsageError(
            f"tool_choice={choice!r} names no tool of this call: take one of "
            f'{", ".join(map(repr, names)) or "(no tools given)"}, "auto", "any" or "none"'
        )
    return {"type": "tool", "name": name}


def output_format(wanted: Any) -> dict[str, Any]:
    """`output_config["format"]` from a schema, from OpenAI's `response_format`, or in Anthropic's own form."""
    given: dict[str, Any] = dict(cast("Mapping[str, Any]", wanted)) if isinstance(wanted, Mapping) else {}
    kind = given.get("type")
    if kind == "json_object":
        raise UsageError(
            "Claude has no JSON mode without a schema: take with_structured_output(schema), or its method "
            '"json_schema" or "function_calling"'
        )
    if kind == "json_schema" and "json_schema" in given:
        inner: Mapping[str, Any] = given["json_schema"]
        return {"type": "json_schema", "schema": held_schema(inner.get("schema") or {})}
    if isinstance(kind, str) and kind != "object":
        return given
    from loopwright.schema import json_schema

    return {"type": "json_schema", "schema": held_schema(json_schema(wanted))}
