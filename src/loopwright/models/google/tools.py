"""Tools and the choice among them, in Gemini's form.

Rules:

- functions are one list of declarations, where the first of them stands; the provider's own tools keep their places;
- a tool of the provider's is its own dictionary (`{"google_search": {}}`), or named by `type`;
- the order of the tools is the caller's, and the same in every request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from loopwright.errors import UsageError
from loopwright.messages.plain import is_list
from loopwright.models.google.schemas import gemini_schema

__all__ = ["declared", "is_mode", "is_own_tool", "wire_tool_config", "wire_tools"]

_MODES: Final = {"auto": "AUTO", "any": "ANY", "required": "ANY", "none": "NONE", "validated": "VALIDATED"}
_DECLARATIONS: Final = ("functionDeclarations", "function_declarations")


def is_own_tool(tool: Any) -> bool:
    """Whether a tool is a dictionary in Gemini's form, such as `{"google_search": {}}`."""
    if not isinstance(tool, Mapping) or not tool:
        return False
    found = cast("Mapping[str, Any]", tool)
    return not found.keys() & {"type", "function", "name", "title", "parameters", "properties"}


def wire_tools(tools: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Tools in Gemini's form. The given ones are not changed."""
    made: list[dict[str, Any]] = []
    functions: list[dict[str, Any]] = []
    for tool in tools:
        function = tool.get("function")
        listed = next((tool[key] for key in _DECLARATIONS if key in tool), None)
        if isinstance(function, Mapping):
            found = [_declaration(cast("Mapping[str, Any]", function))]
        elif listed is not None:
            found = [dict(declaration) for declaration in listed]
        else:
            made.append(_own(tool))
            continue
        if not functions:
            made.append({"functionDeclarations": functions})
        functions += found
    return made


def _declaration(function: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {"name": function.get("name"), "description": function.get("description") or ""}
    parameters = function.get("parameters")
    made["parametersJsonSchema"] = gemini_schema(parameters or {"type": "object", "properties": {}})
    return made


def _own(tool: Mapping[str, Any]) -> dict[str, Any]:
    if "type" not in tool:
        return dict(tool)
    head, *words = str(tool["type"]).split("_")
    name = head + "".join(word.capitalize() for word in words)
    return {name: {key: value for key, value in tool.items() if key != "type"}}


def declared(tools: Iterable[Mapping[str, Any]]) -> list[str]:
    """Names of the functions among tools in Gemini's form."""
    return [
        str(function.get("name"))
        for tool in tools
        for key in _DECLARATIONS
        for function in cast("list[dict[str, Any]]", tool.get(key) or ())
    ]


def is_mode(choice: Any) -> bool:
    """Whether a choice among tools names no tool."""
    return isinstance(choice, str) and choice.lower() in _MODES


def wire_tool_config(choice: Any, tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """`toolConfig`; empty where there is nothing to say.

    `choice`: `auto`, `none`, `any`/`required`/True, a function's name or a list of them, another provider's dictionary
    for one function, or Gemini's own. Raises `UsageError` for a name that is no function's.
    """
    if choice is None or choice is False:
        return {}
    if isinstance(choice, Mapping):
        given = cast("Mapping[str, Any]", choice)
        inner = given.get("function")
        name = cast("Mapping[str, Any]", inner).get("name") if isinstance(inner, Mapping) else given.get("name")
        if not name:
            return dict(given) if "mode" not in given else {"functionCallingConfig": dict(given)}
        choice = name
    if choice is True:
        choice = "any"
    if is_mode(choice):
        return {"functionCallingConfig": {"mode": _MODES[choice.lower()]}}
    known = declared(tools)
    wanted = choice if is_list(choice) else [choice]
    names = [name if isinstance(name, str) else getattr(name, "name", None) for name in wanted]
    for name in names:
        if name not in known:
            raise UsageError(
                f"tool_choice={choice!r} names no tool of this call: take one of "
                f'{", ".join(map(repr, known)) or "(no tools given)"}, "auto", "any" or "none"'
            )
    return {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": names}}
