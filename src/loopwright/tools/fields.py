"""The fields of tool classes: found in their annotations, checked when a tool is made."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast, dataclass_transform, get_origin

from loopwright.errors import ToolDefinitionError

if TYPE_CHECKING:
    from loopwright.tools.base import BaseTool

__all__ = ["Factory", "WithFields", "check_fields", "check_name", "fields_of_class", "name_mend"]

_NAME_CHARS: Final = 64


@dataclass_transform(kw_only_default=True)
class WithFields:
    """Tells type checkers that annotated attributes of the classes below are keywords of their constructors."""


class Factory:
    """A field's default that is made for each tool."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def fields_of_class(cls: type[Any]) -> dict[str, Any]:
    """Name -> default of the fields of a class and of those above it: the value, a `Factory`, or `...` if required."""
    fields: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        for name, annotation in _annotations(base).items():
            if not name.startswith("_") and not _is_class_variable(annotation):
                fields[name] = ...
    for name in fields:
        value: Any = getattr(cls, name, ...)
        if isinstance(value, (list, dict, set)):
            fields[name] = Factory(cast("list[Any]", value).copy)
        elif _is_pydantic_field(value):
            fields[name] = _default_of(value)
        elif isinstance(value, FunctionType):
            fields[name] = Factory(lambda value=value: value)  # on the tool itself it would become a method
        elif value is not ...:
            fields[name] = value
    return fields


def _annotations(cls: type[Any]) -> dict[str, Any]:
    if sys.version_info >= (3, 14):
        from annotationlib import Format, get_annotations

        return get_annotations(cls, format=Format.FORWARDREF)
    return vars(cls).get("__annotations__", {})


def _is_class_variable(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return annotation.partition("[")[0].rpartition(".")[2] == "ClassVar"
    return annotation is ClassVar or get_origin(annotation) is ClassVar


def _is_pydantic_field(value: Any) -> bool:
    """`pydantic.Field(...)`, as tools written for LangChain have it. pydantic is loaded if somebody has one."""
    return type(value).__name__ == "FieldInfo" and type(value).__module__.startswith("pydantic")


def _default_of(field: Any) -> Any:
    if field.is_required():
        return ...
    return Factory(lambda: field.get_default(call_default_factory=True))


def check_fields(tool: BaseTool) -> None:
    """Raise `ToolDefinitionError` for a field that cannot work."""
    check_name(tool.name)
    where = f"Tool {tool.name!r}"
    description: Any = tool.description
    if not isinstance(description, str) or not description.strip():
        raise ToolDefinitionError(
            f"{where} has no description, and the model would not know what it is for. "
            "Write a docstring or description=..."
        )
    if tool.response_format not in ("content", "content_and_artifact"):
        raise ToolDefinitionError(
            f'{where}: response_format is "content" or "content_and_artifact", not {tool.response_format!r}.'
        )
    if tool.timeout_s is not None and not tool.timeout_s > 0:
        raise ToolDefinitionError(
            f"{where}: timeout_s is a number of seconds above 0, or None; got {tool.timeout_s!r}."
        )
    for field in ("max_concurrency", "max_result_chars"):
        number: Any = getattr(tool, field)
        if number is not None and (not isinstance(number, int) or number < 1):
            raise ToolDefinitionError(f"{where}: {field} is a whole number from 1 up, or None; got {number!r}.")


def check_name(name: Any) -> None:
    """Raise `ToolDefinitionError` for a name that some provider refuses."""
    if not isinstance(name, str) or not name:
        raise ToolDefinitionError(
            f"A tool needs a name; got {name!r}. Write name=..., or @tool on a function that has one."
        )
    if len(name) <= _NAME_CHARS and name.isascii() and name.replace("_", "a").replace("-", "a").isalnum():
        return
    mended = _mended(name)
    better = f", {mended!r} for example" if mended else ""
    raise ToolDefinitionError(
        f"The tool name {name!r} is not taken by all providers: use letters, digits, '_' and '-', at most "
        f"{_NAME_CHARS} of them{better}."
    )


def _mended(name: str) -> str:
    kept = "".join(char if char.isascii() and (char.isalnum() or char == "-") else "_" for char in name)
    return "_".join(part for part in kept.split("_") if part)[:_NAME_CHARS]


def name_mend(class_name: str) -> str:
    """A name for the tools of a class that has none: `WebSearchTool` -> `web_search`."""
    words = "".join(f"_{char.lower()}" if char.isupper() else char for char in class_name).lstrip("_")
    return words.removesuffix("_tool")
