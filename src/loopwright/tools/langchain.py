"""`LangChainTool`: a tool of LangChain's as one of ours. `check_tools` makes it of what it is given.

Rules:

- nothing of LangChain is imported here but what fills a parameter of its own type: the object brings what it needs;
- what the model sends is checked against the tool's own schema and handed on as it came: the tool reads it itself;
- its marks mean what they mean there: `InjectedToolCallId`, `InjectedState`, `InjectedStore`, `InjectedToolArg`,
  `ToolRuntime`, `RunnableConfig`. It sees messages of the state in LangChain's classes;
- handlers set on it hear of it through it, handlers of ours through us, and nobody hears twice;
- results are read as its `ToolMessage`: content, artifact, status. A `Command` passes, its messages in our classes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from copy import copy
from functools import cached_property
from typing import Any, Final, cast, get_args, get_type_hints

from loopwright.errors import ToolException
from loopwright.messages.convert import convert_to_messages
from loopwright.messages.langchain import is_langchain, messages_in
from loopwright.messages.plain import is_dict
from loopwright.tools.base import BaseTool
from loopwright.tools.results import is_effect
from loopwright.tools.runtime import Injection, ToolRuntime
from loopwright.tools.schema import Arguments

__all__ = ["LangChainTool", "adapted"]

_RUNTIME: Final = "loopwright_runtime"
"""The parameter through which the run comes in; no tool has one of this name."""


_ONE_TEXT: Final = {"type": "object", "properties": {"__arg1": {"type": "string"}}, "required": ["__arg1"]}
"""What LangChain offers a model of a `Tool`, whose function takes one text under whatever name."""


def _is_bare(tool: Any) -> bool:
    return is_langchain(tool, "Tool") and tool.args_schema is None


def adapted(tool: Any) -> BaseTool | None:
    """The tool as one of ours; None if it is not LangChain's."""
    return LangChainTool(tool) if is_langchain(tool, "BaseTool") else None


class LangChainTool(BaseTool):
    """A tool of LangChain's."""

    langchain_tool: Any
    """The tool itself."""

    def __init__(self, tool: Any) -> None:
        self._wanted = _wanted_by(tool)
        super().__init__(
            langchain_tool=tool,
            name=tool.name,
            description=tool.description,
            args_schema=_ONE_TEXT if _is_bare(tool) else tool.tool_call_schema,
            return_direct=tool.return_direct,
            tags=tool.tags,
            metadata=tool.metadata,
            extras=getattr(tool, "extras", None),
        )

    @cached_property
    def arguments(self) -> Arguments:
        inner = cast(Any, BaseTool.arguments).func(self)
        given = {name: default for name, (kind, _, default) in self._wanted.items() if kind == "given"}
        return _Theirs(inner, hidden=self._wanted, given=given)

    def _functions(self) -> tuple[Callable[..., Any] | None, Callable[..., Any] | None]:
        """The plain call where the tool has one, the asynchronous one where it has one of its own."""
        tool = self.langchain_tool
        if hasattr(tool, "coroutine"):
            return self._call if tool.func is not None else None, self._acall if tool.coroutine is not None else None
        own = any("_arun" in vars(kind) and kind.__name__ != "BaseTool" for kind in type(tool).__mro__)
        return self._call, self._acall if own else None

    def _call(self, loopwright_runtime: ToolRuntime, **given: Any) -> Any:
        asked, config = self._asked(loopwright_runtime, given)
        with _failures():
            return _ours(self.langchain_tool.invoke(asked, config))

    async def _acall(self, loopwright_runtime: ToolRuntime, **given: Any) -> Any:
        asked, config = self._asked(loopwright_runtime, given)
        with _failures():
            return _ours(await self.langchain_tool.ainvoke(asked, config))

    def _asked(self, runtime: ToolRuntime, given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The call and the config as the tool takes them."""
        config = {key: value for key, value in runtime.config.items() if key not in ("callbacks", "run_id", "run_name")}
        filled = {name: _value(kind, of, runtime, config) for name, (kind, of, _) in self._wanted.items() if of != ""}
        args = {**given, **filled}
        if runtime.tool_call_id is None:
            return args, config
        return {"type": "tool_call", "name": self.name, "args": args, "id": runtime.tool_call_id}, config


class _Theirs(Arguments):
    """The arguments of the tool's own schema, checked and not converted."""

    def __init__(self, inner: Arguments, hidden: Mapping[str, Any], given: Mapping[str, Any]) -> None:
        self._inner, self._hidden = inner, frozenset(hidden)
        self.names, self.open_ended = inner.names, inner.open_ended
        self.injected = {_RUNTIME: (Injection("runtime"), ...)}
        self.injected |= {name: (Injection("given"), default) for name, default in given.items()}

    def json(self) -> dict[str, Any]:
        return self._inner.json()

    def check(self) -> Callable[[Any], dict[str, Any]]:
        check, known = self._inner.check(), frozenset(self.names)

        def checked(args: Any) -> dict[str, Any]:
            check(args)
            hidden = self._hidden
            return {
                name: value for name, value in args.items() if name in known or (self.open_ended and name not in hidden)
            }

        return checked

    def model(self) -> Any:
        return self._inner.model()


# -- what the program fills -----------------------------------------------------------------------------------------

_Wanted = tuple[str, Any, Any]
"""(what, of which: a key of the state or a class, default)."""


def _wanted_by(tool: Any) -> dict[str, _Wanted]:
    """The parameters that are not the model's, without those that LangChain fills itself."""
    from pydantic_core import PydanticUndefined

    schema: Any = tool.get_input_schema()
    fields: dict[str, Any] = getattr(schema, "model_fields", {})
    found: dict[str, _Wanted] = {}
    for name, field in fields.items():
        kind = _kind((field.annotation, *field.metadata))
        if kind is not None:
            default = field.get_default(call_default_factory=True)
            found[name] = (*kind, ... if default is PydanticUndefined else default)
    function = getattr(tool, "func", None) or getattr(tool, "coroutine", None) or tool._run
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError):
        hints = {}
    for name, annotation in hints.items():
        kind = _kind((annotation, *getattr(annotation, "__metadata__", ())))
        if kind is not None and name != "return":
            found.setdefault(name, (*kind, ...))
    return found


def _kind(marks: tuple[Any, ...]) -> tuple[str, Any] | None:
    """How a parameter with this type and these marks is filled; None if the model or LangChain does it."""
    for mark in marks:
        for part in (mark, *get_args(mark)):
            cls: Any = getattr(part, "__origin__", part)
            cls = cls if isinstance(cls, type) else cast(Any, type(part))
            names = {kind.__name__ for kind in cls.__mro__}
            if "InjectedToolCallId" in names:
                return None
            if "InjectedState" in names:
                return "state", getattr(part, "field", None)
            if "InjectedStore" in names:
                return "store", None
            if "ToolRuntime" in names and "_DirectlyInjectedToolArg" in names:
                return "runtime", cls
            if "InjectedToolArg" in names:
                return "given", ""
    return None


def _value(kind: str, of: Any, runtime: ToolRuntime, config: dict[str, Any]) -> Any:
    state = messages_in(runtime.state)
    if kind == "store":
        return runtime.store
    if kind == "state":
        if of is None:
            return state
        return state.get(of) if is_dict(state) else getattr(state, of)
    return of(
        state=state,
        config=config,
        context=runtime.context,
        store=runtime.store,
        stream_writer=runtime.stream_writer,
        tool_call_id=runtime.tool_call_id,
    )


# -- what comes back ------------------------------------------------------------------------------------------------


def _ours(result: Any) -> Any:
    """A result with its messages in our classes."""
    if isinstance(result, list):
        return [_ours(part) for part in cast("list[Any]", result)]
    if is_langchain(result, "BaseMessage"):
        return convert_to_messages([result])[0]
    update: Any = getattr(result, "update", None)
    if is_effect(result) and is_dict(update) and "messages" in update:
        changed = copy(result)
        object.__setattr__(changed, "update", {**update, "messages": convert_to_messages(update["messages"])})
        return changed
    return result


@contextmanager
def _failures() -> Generator[None]:
    """A tool's own word that it failed is ours too; every other error is what it was."""
    try:
        yield
    except Exception as error:
        if is_langchain(error, "ToolException"):
            raise ToolException(*error.args) from error
        raise
