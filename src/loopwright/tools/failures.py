"""A failing tool as words for the model.

- `ToolException`: its own words, they were written for the model; every other exception: its class and its words;
- arguments that do not fit: each place with what is wrong there, and only what the model itself sent;
- no traceback, no injected value, no name of an injected parameter. The traceback goes to the logger
  `loopwright.tools`, at level DEBUG.

Who decides, in this order: the tool (`handle_validation_error`, `handle_tool_error`), then whoever calls it
(`handle_errors`). What nobody handles is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from inspect import isroutine
from typing import TYPE_CHECKING, Any, TypeAlias, Union, cast, get_args, get_origin, get_type_hints

from loopwright.errors import LoopwrightError, ToolException, ToolInvocationError, UsageError
from loopwright.messages.calls import parse_arguments
from loopwright.tools.content import content_of

if TYPE_CHECKING:
    from loopwright.messages.base import MessageContent
    from loopwright.tools.base import BaseTool

__all__ = [
    "HandleErrors",
    "describe",
    "misfit",
    "object_from",
    "words_by_caller",
    "words_by_tool",
    "words_for_strangers",
]

HandleErrors: TypeAlias = bool | str | type[Exception] | tuple[type[Exception], ...] | Callable[..., Any]
"""True: every exception; a string: every exception, in these words; classes: those; a function: those that its
annotation names, in the words it returns; False: none."""

_SHOWN_CHARS = 80


def words_by_tool(error: Exception, tool: BaseTool) -> MessageContent | None:
    """The tool's own answer to a failure, None if it has none."""
    if isinstance(error, ToolInvocationError):
        handler: Any = tool.handle_validation_error
        if not handler:
            return None
        if handler is True:
            return str(error)
        return handler if isinstance(handler, str) else content_of(handler(error.source or error))
    if isinstance(error, ToolException):
        handler = tool.handle_tool_error
        if not handler:
            return None
        if handler is True:
            return _own_words(error)
        return handler if isinstance(handler, str) else content_of(handler(error))
    return None


def words_by_caller(error: Exception, tool: BaseTool, handle: HandleErrors) -> MessageContent | None:
    """The caller's answer to a failure, None if it is to be raised."""
    if handle is False or handle is None:
        return None
    if handle is True:
        return describe(error, tool)
    if isinstance(handle, str):
        return handle
    if isinstance(handle, (type, tuple)):
        classes = cast("tuple[type[Exception], ...]", handle if isinstance(handle, tuple) else (handle,))
        return describe(error, tool) if _meant(error, classes) else None
    if not callable(handle):
        raise UsageError(
            f"handle_tool_errors={handle!r}: give True, False, the words of the result, exception classes "
            "or a function."
        )
    return content_of(handle(error)) if _meant(error, _handled_by(handle)) else None


def _meant(error: Exception, classes: tuple[type[Exception], ...]) -> bool:
    """Whether an exception is one of these. A wrong use of this library is no `ValueError` of the tool's."""
    if isinstance(error, UsageError):
        classes = tuple(one for one in classes if one is Exception or issubclass(one, LoopwrightError))
    return isinstance(error, classes)


def describe(error: Exception, tool: BaseTool) -> str:
    """A failure in words that the model can act on."""
    if isinstance(error, ToolInvocationError):
        return str(error)
    if isinstance(error, ToolException):
        return _own_words(error)
    kind, words = type(error).__name__, _said_by(error).strip()
    if isinstance(error, TimeoutError) and not words and tool.timeout_s is not None:
        words = f"it was not done within {tool.timeout_s:g} s"
    return f"Tool {tool.name!r} failed: {kind}: {words}" if words else f"Tool {tool.name!r} failed: {kind}"


def _own_words(error: ToolException) -> str:
    return _said_by(error) or "The tool failed."


def _said_by(error: Exception) -> str:
    """The words of an exception; none where its own `__str__` fails."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - a broken exception is a failure like others
        return ""


def _handled_by(handler: Callable[..., Any]) -> tuple[type[Exception], ...]:
    """Which exceptions a function handles: those that its first parameter's annotation names, all without one."""
    try:
        hints = get_type_hints(handler if isroutine(handler) else handler.__call__)
    except (NameError, TypeError):
        return (Exception,)
    hints.pop("return", None)
    first = next(iter(hints.values()), Exception)
    members = get_args(first) if get_origin(first) is Union or type(first).__name__ == "UnionType" else (first,)
    classes = tuple(member for member in members if isinstance(member, type) and issubclass(member, Exception))
    return classes or (Exception,)


# -- arguments ------------------------------------------------------------------------------------------------------


def object_from(args: Any, tool: BaseTool) -> dict[str, Any]:
    """The arguments as an object, from whatever a model sent. Raises `ToolInvocationError`."""
    found = parse_arguments(args)
    if isinstance(found, str):
        names = ", ".join(tool.arguments.names)
        raise ToolInvocationError(
            f"The arguments of tool {tool.name!r} cannot be used: {found}. "
            + (f"Send an object with {names}." if names else "It takes none: send an empty object.")
        )
    return found


def misfit(error: Exception, args: Mapping[str, Any], tool: BaseTool) -> ToolInvocationError:
    """The error for arguments that do not fit; pydantic's own is its `source`."""
    arguments = tool.arguments
    errors: Any = getattr(error, "errors", None)
    if callable(errors):
        details = cast("Sequence[dict[str, Any]]", errors(include_url=False, include_context=False))
        lines = [_line(detail) for detail in details if not _is_hidden(detail, arguments.injected)]
    else:
        lines = str(error).splitlines() or [type(error).__name__]
    strange = _strangers(args, tool)
    return ToolInvocationError(_misfit_words(tool, [*lines, *strange]), source=error)


def words_for_strangers(args: Mapping[str, Any], tool: BaseTool) -> str | None:
    """The same words for arguments that would fit, but for names that the tool does not take; None without such."""
    aliases = tool.json_schema["properties"]
    strange = _strangers([name for name in args if name not in aliases], tool)
    return _misfit_words(tool, strange) if strange else None


def _misfit_words(tool: BaseTool, lines: Sequence[str]) -> str:
    return "\n".join([f"The arguments of tool {tool.name!r} do not fit:", *lines])


def _strangers(args: Iterable[str], tool: BaseTool) -> list[str]:
    """A line for the names that the tool does not take, if there are any."""
    arguments = tool.arguments
    unknown = [name for name in args if name not in arguments.names and name not in arguments.injected]
    if not unknown or arguments.open_ended:
        return []
    known = ", ".join(arguments.names) or "none"
    return [f"- not known here: {', '.join(map(str, unknown))} (it takes: {known})"]


def _is_hidden(detail: Mapping[str, Any], injected: Collection[str]) -> bool:
    return bool(detail["loc"]) and detail["loc"][0] in injected


def _line(detail: Mapping[str, Any]) -> str:
    """`- place: what is wrong (got ...)`. The whole input may hold injected values, so only parts of it are shown."""
    place = ".".join(str(step) for step in detail["loc"])
    words = str(detail["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    if not place:
        return f"- {words}"
    given: Any = detail.get("input")
    shown = repr(given)
    if detail["type"] == "missing" or (len(shown) > _SHOWN_CHARS and not isinstance(given, str)):
        return f"- {place}: {words}"
    return f"- {place}: {words} (got {shown if len(shown) <= _SHOWN_CHARS else shown[:_SHOWN_CHARS] + '...'})"
