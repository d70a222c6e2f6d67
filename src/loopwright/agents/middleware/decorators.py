"""Middlewares out of single functions.

Each decorator works bare (`@before_model`) and with options (`@before_model(can_jump_to=["end"])`), on `def` and on
`async def`. What it makes is an `AgentMiddleware` whose name is the function's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast, overload

from loopwright.agents.middleware.checks import check_arguments, check_jump_targets, is_async_callable, shortly
from loopwright.agents.middleware.types import AgentMiddleware, HookResult, JumpTo, ModelRequest
from loopwright.errors import UsageError
from loopwright.messages import SystemMessage

if TYPE_CHECKING:
    from loopwright.agents.middleware.types import ModelCallResult, ToolCallRequest
    from loopwright.graph.runtime import Runtime
    from loopwright.graph.types import Command
    from loopwright.messages import ToolMessage

__all__ = [
    "FunctionMiddleware",
    "after_agent",
    "after_model",
    "before_agent",
    "before_model",
    "dynamic_prompt",
    "hook_config",
    "with_prompt",
    "wrap_model_call",
    "wrap_tool_call",
]

F = TypeVar("F", bound=Callable[..., Any])
S = TypeVar("S")
C = TypeVar("C")

_Middleware: TypeAlias = AgentMiddleware[Any, Any, Any]
_StateFunction: TypeAlias = "Callable[[S, Runtime[C]], HookResult | Awaitable[HookResult]]"
_ModelFunction: TypeAlias = "Callable[[ModelRequest[C], Any], ModelCallResult | Awaitable[ModelCallResult]]"
_ToolFunction: TypeAlias = (
    "Callable[[ToolCallRequest, Any], ToolMessage | Command[Any] | Awaitable[ToolMessage | Command[Any]]]"
)
_PromptFunction: TypeAlias = "Callable[[ModelRequest[C]], str | SystemMessage | Awaitable[str | SystemMessage]]"


class FunctionMiddleware(AgentMiddleware[Any, Any, Any]):
    """A middleware with one hook, which is a function."""

    can_jump_to: tuple[JumpTo, ...]
    prompt: Callable[..., Any] | None
    """Of a `dynamic_prompt`: the user's function."""

    def __init__(
        self,
        kind: str,
        function: Callable[..., Any],
        *,
        state_schema: type[Any] | None = None,
        tools: Sequence[Any] | None = None,
        can_jump_to: Sequence[JumpTo] | None = None,
        name: str | None = None,
        prompt: Callable[..., Any] | None = None,
    ) -> None:
        self.function = function if prompt is None else prompt
        self.prompt = prompt
        if not callable(self.function):
            raise UsageError(f"@{kind} stands above a function, not {shortly(self.function)}")
        given = name or getattr(self.function, "__name__", None)
        if not given:
            raise UsageError(f"@{kind} on {self.function!r}, which has no name: give it one with name=...")
        self.name = given
        where = f"{given}.{kind}"
        if prompt is None:
            check_arguments(function, where, ("request", "handler") if kind[:4] == "wrap" else ("state", "runtime"))
        declared = getattr(function, "__can_jump_to__", None) if can_jump_to is None else can_jump_to
        self.can_jump_to = check_jump_targets(declared, where)
        if state_schema is not None:
            self.state_schema = state_schema
        self.tools = tuple(tools or ())
        setattr(self, kind, function)

    def __repr__(self) -> str:
        return f"<middleware {self.name} of {getattr(self.function, '__qualname__', self.function)}>"


def hook_config(*, can_jump_to: Sequence[JumpTo] | None = None) -> Callable[[F], F]:
    """Declare on a method of an `AgentMiddleware` where it may send the run."""

    def declare(function: F) -> F:
        targets = check_jump_targets(can_jump_to, getattr(function, "__qualname__", repr(function)))
        cast("Any", function).__can_jump_to__ = targets
        return function

    return declare


def _made(kind: str, function: Callable[..., Any] | None, options: dict[str, Any]) -> Any:
    def make(given: Callable[..., Any]) -> FunctionMiddleware:
        return FunctionMiddleware(kind, given, **options)

    return make if function is None else make(function)


@overload
def before_agent(func: _StateFunction[S, C], /) -> _Middleware: ...
@overload
def before_agent(
    func: None = None,
    *,
    state_schema: type[Any] | None = None,
    tools: Sequence[Any] | None = None,
    can_jump_to: Sequence[JumpTo] | None = None,
    name: str | None = None,
) -> Callable[[_StateFunction[S, C]], _Middleware]: ...
def before_agent(func: Any = None, **options: Any) -> Any:
    """Run the function once per call of the agent, before the loop: `(state, runtime) -> update or None`."""
    return _made("before_agent", func, options)


@overload
def before_model(func: _StateFunction[S, C], /) -> _Middleware: ...
@overload
def before_model(
    func: None = None,
    *,
    state_schema: type[Any] | None = None,
    tools: Sequence[Any] | None = None,
    can_jump_to: Sequence[JumpTo] | None = None,
    name: str | None = None,
) -> Callable[[_StateFunction[S, C]], _Middleware]: ...
def before_model(func: Any = None, **options: Any) -> Any:
    """Run the function before each model call: `(state, runtime) -> update or None`."""
    return _made("before_model", func, options)


@overload
def after_model(func: _StateFunction[S, C], /) -> _Middleware: ...
@overload
def after_model(
    func: None = None,
    *,
    state_schema: type[Any] | None = None,
    tools: Sequence[Any] | None = None,
    can_jump_to: Sequence[JumpTo] | None = None,
    name: str | None = None,
) -> Callable[[_StateFunction[S, C]], _Middleware]: ...
def after_model(func: Any = None, **options: Any) -> Any:
    """Run the function after each model call, before the tools it asks for: `(state, runtime) -> update or None`."""
    return _made("after_model", func, options)


@overload
def after_agent(func: _StateFunction[S, C], /) -> _Middleware: ...
@overload
def after_agent(
    func: None = None,
    *,
    state_schema: type[Any] | None = None,
    tools: Sequence[Any] | None = None,
    can_jump_to: Sequence[JumpTo] | None = None,
    name: str | None = None,
) -> Callable[[_StateFunction[S, C]], _Middleware]: ...
def after_agent(func: Any = None, **options: Any) -> Any:
    """Run the function once at the end of a call that did not raise: `(state, runtime) -> update or None`."""
    return _made("after_agent", func, options)


@overload
def wrap_model_call(func: _ModelFunction[C], /) -> _Middleware: ...
@overload
def wrap_model_call(
    func: None = None,
    *,
    state_schema: type[Any] | None = None,
    tools: Sequence[Any] | None = None,
    name: str | None = None,
) -> Callable[[_ModelFunction[C]], _Middleware]: ...
def wrap_model_call(func: Any = None, **options: Any) -> Any:
    """Run the function around each model call: `(request, handler) -> handler(request)`."""
    return _made("wrap_model_call", func, options)


@overload
def wrap_tool_call(func: _ToolFunction, /) -> _Middleware: ...
@overload
def wrap_tool_call(
    func: None = None,
    *,
    state_schema: type[Any] | None = None,
    tools: Sequence[Any] | None = None,
    name: str | None = None,
) -> Callable[[_ToolFunction], _Middleware]: ...
def wrap_tool_call(func: Any = None, **options: Any) -> Any:
    """Run the function around each tool call: `(request, handler) -> handler(request)`."""
    return _made("wrap_tool_call", func, options)


@overload
def dynamic_prompt(func: _PromptFunction[C], /) -> _Middleware: ...
@overload
def dynamic_prompt(func: None = None, *, name: str | None = None) -> Callable[[_PromptFunction[C]], _Middleware]: ...
def dynamic_prompt(func: Any = None, *, name: str | None = None) -> Any:
    """Make the system prompt anew for each model call: `(request) -> str or SystemMessage`."""

    def make(given: Callable[..., Any]) -> FunctionMiddleware:
        return _prompting(given, name)

    return make if func is None else make(func)


def _prompting(function: Callable[..., Any], name: str | None) -> FunctionMiddleware:
    shown = name or getattr(function, "__name__", "dynamic_prompt")
    check_arguments(function, f"{shown}.dynamic_prompt", ("request",))

    async def prompt_async(request: ModelRequest[Any], handler: Callable[..., Any]) -> Any:
        return await handler(with_prompt(request, await function(request), shown))

    def prompt_plain(request: ModelRequest[Any], handler: Callable[..., Any]) -> Any:
        return handler(with_prompt(request, function(request), shown))

    wrapper = prompt_async if is_async_callable(function) else prompt_plain
    return FunctionMiddleware("wrap_model_call", wrapper, name=name, prompt=function)


def with_prompt(request: ModelRequest[Any], prompt: Any, hook: str) -> ModelRequest[Any]:
    """The request with what a `dynamic_prompt` function returned as its system message.

    Raises `UsageError` that names the hook for what is no prompt.
    """
    if isinstance(prompt, str):
        return request.override(system_message=SystemMessage(prompt))
    if isinstance(prompt, SystemMessage):
        return request.override(system_message=prompt)
    raise UsageError(f"{hook} returned {shortly(prompt)}: a dynamic_prompt returns a string or a SystemMessage")
