"""`@tool`: a function becomes a tool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, cast, overload

from loopwright.errors import ToolDefinitionError, ToolException
from loopwright.tools.base import BaseTool
from loopwright.tools.structured import StructuredTool, Tool

__all__ = ["tool"]

_Function = Callable[..., Any]
_Format = Literal["content", "content_and_artifact"]
_Handler = bool | str | Callable[[Any], Any] | None


@overload
def tool(function: _Function, /) -> StructuredTool: ...
@overload
def tool(name: str, runnable: Any, /, *, description: str | None = None, **fields: Any) -> StructuredTool: ...
@overload
def tool(
    name: str | None = None,
    /,
    *,
    description: str | None = None,
    return_direct: bool = False,
    args_schema: Any = None,
    infer_schema: bool = True,
    response_format: _Format = "content",
    parse_docstring: bool = True,
    error_on_invalid_docstring: bool = False,
    extras: dict[str, Any] | None = None,
    timeout_s: float | None = None,
    max_concurrency: int | None = None,
    max_result_chars: int | None = 100_000,
    handle_tool_error: bool | str | Callable[[ToolException], Any] | None = False,
    handle_validation_error: _Handler = False,
    callbacks: Any = None,
    tags: list[str] | None = None,
    metadata: dict[str, Any] | None = None,
) -> Callable[[_Function], StructuredTool]: ...
@overload
def tool(function: _Function, /, **fields: Any) -> StructuredTool: ...
def tool(
    name_or_callable: Any = None, runnable: Any = None, /, *, infer_schema: bool = True, **fields: Any
) -> StructuredTool | Callable[[_Function], StructuredTool]:
    """Make a function a tool: `@tool`, `@tool("name")`, `@tool(return_direct=True)`, `tool("name", runnable)`.

    The model sees the function's name, the summary and the paragraphs of its docstring, and its parameters with their
    types and what the docstring says of them (Google's, NumPy's or reST's way). The function may be plain or `async`,
    and the tool serves `invoke` and `ainvoke` either way.

    Args:
        name_or_callable: The function, or the name that the tool is to have.
        runnable: Something with `invoke`, in a function's place.
        infer_schema: False makes a `Tool` of one text.
        **fields: Of these:
        description: Instead of the docstring.
        return_direct: The result is the agent's answer.
        args_schema: A pydantic model class or a JSON schema, instead of the signature.
        response_format: `"content_and_artifact"`: the function returns (what the model reads, what programs see).
        parse_docstring: False: the whole docstring is the description.
        error_on_invalid_docstring: Refuse a docstring that describes parameters the function does not have.
        extras: Settings for one provider.
        timeout_s: Seconds that one call may take; then the model is told so.
        max_concurrency: Calls of it at once.
        max_result_chars: Longer results are cut, with a note.
        handle_tool_error: What becomes of a `ToolException`; see `BaseTool`.
        handle_validation_error: What becomes of arguments that do not fit.

    Raises `ToolDefinitionError` for what cannot be a tool.
    """

    def make(function: _Function, name: str | None) -> StructuredTool:
        if isinstance(cast(Any, function), BaseTool):
            raise ToolDefinitionError(f"{function!r} is a tool already: leave the second @tool out.")
        if isinstance(function, type):
            raise ToolDefinitionError(
                f"{function.__name__} is a class. Put @tool on a function; to let a model fill a class, give it to "
                "bind_tools or response_format as it is."
            )
        if not infer_schema and fields.get("args_schema") is None:
            return _single(function, name, dict(fields))
        return StructuredTool(func=function, name=name, **fields)

    if runnable is not None:
        return _of_runnable(name_or_callable, runnable, fields)
    if name_or_callable is None or isinstance(name_or_callable, str):
        return lambda function: make(function, name_or_callable)
    if not callable(name_or_callable) and not isinstance(name_or_callable, BaseTool):
        raise ToolDefinitionError(
            f'@tool takes a function or a name, not {name_or_callable!r}: @tool or @tool("search").'
        )
    return make(cast("_Function", name_or_callable), None)


def _single(function: _Function, name: str | None, fields: dict[str, Any]) -> Tool:
    from loopwright.tools.parameters import name_of

    return Tool(name or name_of(function), function, fields.pop("description", None), **fields)


def _of_runnable(name: Any, runnable: Any, fields: dict[str, Any]) -> StructuredTool:
    """Something with `invoke`: with `args_schema` it is given a dictionary, else one text."""
    if not isinstance(name, str):
        raise ToolDefinitionError(
            'tool(name, runnable) needs the name first: tool("summarise", runnable, description="...").'
        )
    if not callable(getattr(runnable, "invoke", None)):
        raise ToolDefinitionError(
            f"tool({name!r}, ...): {type(runnable).__name__} has no invoke. Give a function with @tool({name!r})."
        )
    as_object = fields.get("args_schema") is not None
    description = fields.pop("description", None) or getattr(runnable, "description", None)
    if not description:
        raise ToolDefinitionError(
            f'tool({name!r}, runnable) needs description="...": what it does, and when to use it.'
        )

    def run(input: str) -> Any:
        return runnable.invoke(input)

    async def arun(input: str) -> Any:
        return await runnable.ainvoke(input)

    def run_object(**values: Any) -> Any:
        return runnable.invoke(values)

    async def arun_object(**values: Any) -> Any:
        return await runnable.ainvoke(values)

    has_async = callable(getattr(runnable, "ainvoke", None))
    plain, coroutine = (run_object, arun_object) if as_object else (run, arun)
    return StructuredTool(
        func=plain, coroutine=coroutine if has_async else None, name=name, description=description, **fields
    )
