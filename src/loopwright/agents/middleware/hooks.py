"""From a list of middlewares to the hooks an agent runs, checked once when the agent is made.

Rules:

- a hook counts if it is overridden, under its own name or with the `a` prefix;
- an `async def` under the plain name serves both worlds; of a pair, each world takes its own, and one that stands
  alone serves both;
- hooks come in the order in which they run: `before_*` as listed, `after_*` reversed, `wrap_*` outermost first;
- names are unique, signatures fit, jump targets exist: else `UsageError` with the mend.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from loopwright.agents.middleware.checks import check_arguments, check_jump_targets, is_async_callable, shortly
from loopwright.agents.middleware.decorators import FunctionMiddleware
from loopwright.agents.middleware.types import (
    JUMP_TARGETS,
    AgentMiddleware,
    ExtendedModelResponse,
    JumpTo,
    ModelResponse,
)
from loopwright.errors import UsageError, making
from loopwright.messages import AIMessage, BaseMessage, ToolMessage

if TYPE_CHECKING:
    from loopwright.graph.types import Command

__all__ = ["HOOK_KINDS", "Hook", "Hooks", "check_tool_result", "collect_hooks", "jump_target", "normalize_model_result"]

_Middleware: TypeAlias = AgentMiddleware[Any, Any, Any]
HOOK_KINDS: Final = ("before_agent", "before_model", "after_model", "after_agent", "wrap_model_call", "wrap_tool_call")


class Hook:
    """One hook of one middleware, ready to be called."""

    __slots__ = ("can_jump_to", "coro", "kind", "middleware", "name", "plain", "prompt")

    name: str
    """The name of its step: `<middleware>.<hook>`."""
    plain: Callable[..., Any] | None
    coro: Callable[..., Any] | None
    can_jump_to: tuple[JumpTo, ...]
    prompt: Callable[..., Any] | None
    """Of a `dynamic_prompt`: the user's function. To call it and then `with_prompt` is the same as the wrap hook,
    without the bridge that a plain wrap hook needs."""

    def __init__(
        self,
        kind: str,
        middleware: _Middleware,
        plain: Callable[..., Any] | None,
        coro: Callable[..., Any] | None,
        can_jump_to: tuple[JumpTo, ...],
    ) -> None:
        self.kind = kind
        self.middleware = middleware
        self.name = f"{middleware.name}.{kind}"
        self.plain = plain
        self.coro = coro
        self.can_jump_to = can_jump_to
        self.prompt = middleware.prompt if isinstance(middleware, FunctionMiddleware) else None

    def pick(self, asynchronous: bool) -> tuple[Callable[..., Any], bool]:
        """`(function, is_async)` for the asynchronous or the blocking world."""
        first, second = (self.coro, self.plain) if asynchronous else (self.plain, self.coro)
        chosen = first if first is not None else cast("Callable[..., Any]", second)
        return chosen, chosen is self.coro

    def __repr__(self) -> str:
        return f"<Hook {self.name}>"


class Hooks:
    """The hooks of an agent by kind, each tuple in the order in which they run."""

    __slots__ = (*HOOK_KINDS, "middleware")

    middleware: tuple[_Middleware, ...]
    before_agent: tuple[Hook, ...]
    before_model: tuple[Hook, ...]
    after_model: tuple[Hook, ...]
    """The last middleware's first."""
    after_agent: tuple[Hook, ...]
    """The last middleware's first."""
    wrap_model_call: tuple[Hook, ...]
    """The outermost first."""
    wrap_tool_call: tuple[Hook, ...]
    """The outermost first."""

    def __init__(self, middleware: tuple[_Middleware, ...]) -> None:
        self.middleware = middleware
        for kind in HOOK_KINDS:
            found = [hook for each in middleware if (hook := _hook(each, kind)) is not None]
            setattr(self, kind, tuple(reversed(found) if kind.startswith("after_") else found))

    def check_tools(self, names: Sequence[str], answers: Sequence[str]) -> None:
        """Show the names of the agent's tools, and of its answer tools, to the middlewares that want to see them."""
        for each in self.middleware:
            check = _overridden(each, "check_answers")
            if check is not None:
                check(answers)
            check = _overridden(each, "check_tools")
            if check is not None:
                check([*names, *answers], complete=all(hook.middleware is each for hook in self.wrap_tool_call))


def collect_hooks(middleware: Sequence[_Middleware]) -> Hooks:
    """Read and check the middlewares of an agent. Raises `UsageError`."""
    given: Any = middleware
    if isinstance(given, (AgentMiddleware, type)) or callable(given):
        raise UsageError("middleware= takes a list: create_agent(..., middleware=[MyMiddleware()])")
    listed: list[Any] = list(given)
    if not listed:
        return _NO_HOOKS
    for each in listed:
        if not isinstance(each, AgentMiddleware):
            _refuse(each)
    _check_names(listed)
    return Hooks(tuple(listed))


_NO_HOOKS: Final = Hooks(())


def _refuse(given: Any) -> None:
    if isinstance(given, type) and issubclass(given, AgentMiddleware):
        kind = cast("type[Any]", given)
        raise UsageError(f"middleware=[{kind.__name__}] gives the class; give an instance: middleware=[{making(kind)}]")
    function = cast("Any", given)
    if callable(function):
        name: str = getattr(function, "__name__", "...")
        raise UsageError(
            f"middleware=[{name}] gives a plain function. Say with a decorator when it runs, "
            f"for example @before_model or @wrap_model_call above `def {name}`"
        )
    raise UsageError(f"{given!r} is no middleware: give instances of AgentMiddleware or decorated functions")


def _check_names(listed: list[_Middleware]) -> None:
    seen: dict[str, _Middleware] = {}
    for each in listed:
        name: Any = each.name
        if not isinstance(name, str) or not name:
            raise UsageError(f"the name of a {type(each).__name__} is {name!r}: it must be a non-empty string")
        if name not in seen:
            seen[name] = each
        elif seen[name] is each:
            raise UsageError(f"the same middleware, {name!r}, is in the list twice: leave one out")
        else:
            raise UsageError(
                f"two middlewares are named {name!r}: {_source(seen[name])} and {_source(each)}. "
                f'Give one another name: `name="..."` to the decorator, or `.name = "..."` on the instance'
            )


def _source(middleware: _Middleware) -> str:
    origin: Any = middleware.function if isinstance(middleware, FunctionMiddleware) else type(middleware)
    return f"{getattr(origin, '__module__', '?')}.{getattr(origin, '__qualname__', repr(origin))}"


def _hook(middleware: _Middleware, kind: str) -> Hook | None:
    plain, coro = _overridden(middleware, kind), _overridden(middleware, f"a{kind}")
    if plain is None and coro is None:
        return None
    jumps: list[JumpTo] = list(middleware.can_jump_to if isinstance(middleware, FunctionMiddleware) else ())
    wanted = ("request", "handler") if kind.startswith("wrap_") else ("state", "runtime")
    for function, name in ((plain, kind), (coro, f"a{kind}")):
        if function is not None:
            where = f"{middleware.name}.{name}"
            check_arguments(function, where, wanted)
            jumps += check_jump_targets(getattr(function, "__can_jump_to__", None), where)
    if coro is not None and not is_async_callable(coro):
        raise UsageError(f"{middleware.name}.a{kind} must be `async def`; a plain function is named {kind}")
    if plain is not None and is_async_callable(plain):
        plain, coro = None, coro or plain
    return Hook(kind, middleware, plain, coro, tuple(dict.fromkeys(jumps)))


def _overridden(middleware: _Middleware, name: str) -> Callable[..., Any] | None:
    """The bound hook, None if it is the base class's own."""
    bound: Any = getattr(middleware, name)
    if getattr(bound, "__func__", bound) is getattr(AgentMiddleware, name):
        return None
    if not callable(bound):
        raise UsageError(f"{middleware.name}.{name} is {shortly(bound)}: it must be a function")
    return bound


# -- what hooks return ----------------------------------------------------------------------------------------------


def jump_target(hook: Hook, update: Any) -> JumpTo | None:
    """Where the update of a `before_*` or `after_*` hook sends the run, if it has declared that target.

    A jump that was not declared is ignored, as users know it. Raises `UsageError` for a target that nobody has.
    """
    target: Any = cast("Mapping[str, Any]", update).get("jump_to") if isinstance(update, Mapping) else None
    if target is None:
        return None
    if target not in JUMP_TARGETS:
        raise UsageError(f"{hook.name} returned jump_to={target!r}; targets are {', '.join(map(repr, JUMP_TARGETS))}")
    return target if target in hook.can_jump_to else None


def normalize_model_result(value: Any, hook: str) -> tuple[ModelResponse[Any], Command[Any] | None]:
    """What a `wrap_model_call` hook returned, as a response and the change of state that goes with it.

    `hook` is its name, for the error. Raises `UsageError` for what is no `ModelCallResult`.
    """
    command: Command[Any] | None = None
    if isinstance(value, ExtendedModelResponse):
        extended = cast("ExtendedModelResponse[Any]", value)
        command = extended.command
        value = cast("Any", extended.model_response)
        if command is not None and (command.goto or command.resume is not None or command.graph is not None):
            raise UsageError(
                f"{hook} returned a Command with goto, resume or graph; beside a model response only "
                f"Command(update={{...}}) is possible. To jump, use an after_model hook with can_jump_to"
            )
    if isinstance(value, AIMessage):
        return ModelResponse([value]), command
    if not isinstance(value, ModelResponse):
        raise UsageError(
            f"{hook} returned {shortly(value)}{_forgotten(value)}. A wrap_model_call hook returns what "
            f"`handler(request)` gave it, a ModelResponse or an AIMessage"
        )
    response = cast("ModelResponse[Any]", value)
    wrong = [message for message in cast("list[Any]", response.result) if not isinstance(message, BaseMessage)]
    if wrong or not response.result:
        what = shortly(wrong[0]) if wrong else "nothing"
        raise UsageError(f"{hook} returned a ModelResponse of {what}: write ModelResponse(result=[AIMessage(...)])")
    return response, command


def check_tool_result(value: Any, hook: str, call: Any) -> Any:
    """What a `wrap_tool_call` hook returned: a `ToolMessage` for this call, a `Command`, or a list of these.

    Raises `UsageError` that names the hook for anything else.
    """
    if isinstance(value, ToolMessage):
        if value.tool_call_id == call["id"]:
            return value
        raise UsageError(
            f"{hook} returned the result of call {value.tool_call_id!r}, but was asked for {call['id']!r}: "
            f'write ToolMessage(..., tool_call_id=request.tool_call["id"])'
        )
    if hasattr(value, "goto") or (isinstance(value, list) and value):
        return cast("Any", value)
    raise UsageError(
        f"{hook} returned {shortly(value)}{_forgotten(value)}. A wrap_tool_call hook returns what `handler(request)` "
        f'gave it, or ToolMessage("...", tool_call_id=request.tool_call["id"])'
    )


def _forgotten(value: Any) -> str:
    """The word that a hook's author may have left out. A coroutine is closed: nobody will await it any more."""
    if isinstance(value, Coroutine):
        value.close()
        return "; an `await` is missing: write `return await handler(request)`"
    return " (is a `return` missing?)" if value is None else ""
