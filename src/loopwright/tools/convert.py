"""Tools as providers want them, and the tools of an agent: checked, converted, by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import FunctionType, NoneType
from typing import Any, Protocol, cast

from loopwright.errors import ToolDefinitionError, UsageError
from loopwright.schema import json_schema, schema_description, schema_name
from loopwright.tools.base import BaseTool
from loopwright.tools.decorator import tool as make_tool

__all__ = ["ForeignTool", "check_tools", "convert_to_openai_function", "convert_to_openai_tool", "provided_name"]


class ForeignTool(Protocol):
    """A tool of LangChain's, as type checkers know it."""

    name: str
    description: str
    return_direct: bool

    @property
    def tool_call_schema(self) -> Any: ...


def convert_to_openai_tool(tool: Any, *, strict: bool | None = None) -> dict[str, Any]:
    """`{"type": "function", "function": {...}}` of a tool, a function, a pydantic model, a `TypedDict` or a dictionary.

    Of a `BaseTool` it is one dictionary for all who ask: do not change it. A provider's own tool
    (`{"type": "web_search"}`) is handed on as it is. `strict` is OpenAI's promise that the model keeps to the schema.
    """
    if strict is None and isinstance(tool, BaseTool):
        return tool.openai_tool
    if isinstance(tool, Mapping):
        given = cast("Mapping[str, Any]", tool)
        if "type" in given and given["type"] not in ("object", "function"):
            return dict(given)
        if isinstance(given.get("function"), Mapping) and strict is None:
            return dict(given)
    return {"type": "function", "function": convert_to_openai_function(tool, strict=strict)}


def convert_to_openai_function(function: Any, *, strict: bool | None = None) -> dict[str, Any]:
    """`{"name", "description", "parameters"}` of the same."""
    if isinstance(function, BaseTool):
        about: dict[str, Any] = function.openai_tool["function"]
    elif isinstance(function, (Mapping, type)):
        about = {
            "name": schema_name(function),
            "description": schema_description(function),
            "parameters": json_schema(cast(Any, function)),
            **_settings_of(function),
        }
    elif (theirs := _of_langchain(function)) is not None:
        about = theirs.openai_tool["function"]
    elif callable(function):
        about = make_tool(function).openai_tool["function"]
    else:
        raise UsageError(
            f"{function!r} is no tool: give a tool, a function, a pydantic model class, a TypedDict or a dictionary."
        )
    if strict is None:
        return about
    parameters = _closed(about["parameters"]) if strict else about["parameters"]
    return {**about, "parameters": parameters, "strict": strict}


def _settings_of(function: Any) -> dict[str, Any]:
    """What a dictionary of a function says of how it is to be offered. A schema of data has no such keys."""
    if not isinstance(function, Mapping) or "name" not in function:
        return {}
    given = cast("Mapping[str, Any]", function)
    return {key: given[key] for key in ("strict", "defer_loading") if isinstance(given.get(key), bool)}


def _closed(schema: Any) -> Any:
    """With `additionalProperties: false` on every object that names its properties, as strict mode asks for."""
    if isinstance(schema, list):
        return [_closed(part) for part in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    closed = {
        key: value if key in ("default", "enum", "const") else _closed(value)
        for key, value in cast("dict[str, Any]", schema).items()
    }
    if isinstance(closed.get("properties"), dict):
        closed.setdefault("additionalProperties", False)
    return closed


def check_tools(
    tools: Iterable[Any] | None, *, reserved: Mapping[str, str] | None = None
) -> tuple[dict[str, BaseTool], list[dict[str, Any]]]:
    """The tools of an agent by name, and the providers' own tools that are only handed on.

    Functions become tools. Schemas are built here, so what a model cannot fill is an error now, not in the first call.
    `reserved`: names that are taken, and by what. Raises `ToolDefinitionError`; of two that share a name it names both.
    """
    found: dict[str, BaseTool] = {}
    handed_on: list[dict[str, Any]] = []
    owners: dict[str, Any] = dict(reserved or {})
    if isinstance(tools, (BaseTool, str, Mapping)) or not isinstance(cast(Any, tools), (Iterable, NoneType)):
        raise ToolDefinitionError(f"tools is a list: write tools=[{_shown(tools)}].")
    for item in tools or ():
        if not isinstance(item, BaseTool) and isinstance(item, Mapping):
            provider_tool = dict(cast("Mapping[str, Any]", item))
            name = provided_name(provider_tool)
            handed_on.append(provider_tool)
        else:
            one = item if isinstance(item, BaseTool) else _made(item)
            name = one.name
            if owners.get(name) is item or (name in found and found[name] is one):
                raise ToolDefinitionError(f"The tool {name!r} is given twice: leave one out.")
            found[name] = found.get(name, one)
            _ = one.openai_tool
        if name is not None:
            if name in owners:
                raise ToolDefinitionError(
                    f"Two tools are named {name!r}: {_described(owners[name])} and {_described(item)}. "
                    f'Rename one, @tool("another_name").'
                )
            owners[name] = item
    return found, handed_on


def _of_langchain(item: Any) -> BaseTool | None:
    """The tool, if it is one of LangChain's. A function is not looked at: most are given as functions."""
    if isinstance(item, FunctionType):
        return None
    from loopwright.tools.langchain import adapted

    return adapted(item)


def _made(item: Any) -> BaseTool:
    theirs = _of_langchain(item)
    if theirs is not None:
        return theirs
    if isinstance(item, type) or not callable(item):
        raise ToolDefinitionError(
            f"{_shown(item)} is no tool. Give a function with a docstring, what @tool made, an instance of a BaseTool "
            "subclass, or a provider's dictionary. Another library's tool object that has invoke becomes one with "
            'tool("name", object, args_schema=..., description="...").'
        )
    return make_tool(item)


def provided_name(provider_tool: Mapping[str, Any]) -> str | None:
    """The name of a provider's own tool; None for one that has none, a search on the server say."""
    function = provider_tool.get("function")
    name = (
        cast("Mapping[str, Any]", function).get("name") if isinstance(function, Mapping) else provider_tool.get("name")
    )
    return name if isinstance(name, str) else None


def _shown(item: Any) -> str:
    return str(getattr(item, "__name__", None) or repr(item))


def _described(item: Any) -> str:
    """Where a tool comes from, for an error about two of one name."""
    if isinstance(item, str):
        return item
    if isinstance(item, Mapping):
        return f"the dictionary {dict(cast('Mapping[str, Any]', item))!r}"
    function = item
    if isinstance(item, BaseTool):
        function = getattr(item, "func", None) or getattr(item, "coroutine", None) or type(item)
    module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", repr(function))
    return f"{module}.{name}"
