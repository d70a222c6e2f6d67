"""The one path of a call: check arguments, fill in what the program gives, run, shape the result, isolate a failure.

`call_tool` is what an agent's loop uses: it gives back a message whatever the tool does. `invoke_tool` is what stands
behind `tool.invoke`: it raises. Rules:

- what the model sends under an injected parameter's name is dropped, whatever it says;
- only `Exception`s are failures of a tool. Pauses, cancellation and Ctrl-C are `BaseException`s and pass;
- what the program failed to provide (a store, a key of the state) is no failure of the tool and always raises;
- a plain function and a coroutine function of one tool are twins: each world takes its own, either world the only one.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, cast

from loopwright.callbacks import CallbackRun, callbacks_of
from loopwright.drive.steps import InContext
from loopwright.errors import InvalidAnswerError, ToolInvocationError, UsageError
from loopwright.ids import new_id
from loopwright.messages import ToolMessage
from loopwright.scope import RunnableConfig, check_config, merge_configs
from loopwright.tools.content import cut
from loopwright.tools.failures import (
    HandleErrors,
    misfit,
    object_from,
    words_by_caller,
    words_by_tool,
    words_for_strangers,
)
from loopwright.tools.results import is_effect, pair_of, shape, tool_message
from loopwright.tools.runtime import Injection, ToolRuntime, ambient_runtime

if TYPE_CHECKING:
    from loopwright.port import Port
    from loopwright.tools.base import BaseTool

__all__ = ["Plan", "call_tool", "failed", "invalid_call_message", "invoke_tool", "unknown_tool_message", "why_unfit"]

_MakeRuntime = Callable[[], ToolRuntime[Any, Any]]


class Plan:
    """All that is known of a tool before it is called."""

    __slots__ = ("check", "coroutine", "injected", "merges", "plain", "plain_chars", "special")

    def __init__(
        self,
        plain: Callable[..., Any] | None,
        coroutine: Callable[..., Any] | None,
        check: Callable[[Any], dict[str, Any]],
        injected: Mapping[str, tuple[Injection, Any]],
        *,
        merges: bool,
        plain_chars: int,
        special: bool,
    ) -> None:
        self.plain = plain
        self.coroutine = coroutine
        self.check = check
        """From the model's arguments to keyword arguments."""
        self.injected = [
            (name, injection, default)
            for name, (injection, default) in injected.items()
            if injection.kind != "none" or default is ...
        ]
        self.merges = merges
        """Whether injected values are checked with the others."""
        self.plain_chars = plain_chars
        """Text up to this length is a result as it is."""
        self.special = special or bool(self.injected)
        """Whether the short way through `call_tool` will not do."""

    def pick(self, asynchronous: bool) -> tuple[Callable[..., Any], bool]:
        """The function that suits a world, and whether it is a coroutine function."""
        plain, coroutine = self.plain, self.coroutine
        if plain is not None and (coroutine is None or not asynchronous):
            return plain, False
        assert coroutine is not None, "a tool has one of the two"
        return coroutine, True


async def call_tool(
    tool: BaseTool,
    call: Mapping[str, Any],
    port: Port,
    *,
    runtime: _MakeRuntime | None = None,
    handle_errors: HandleErrors = True,
    asked: Mapping[str, Any] | None = None,
    config: RunnableConfig | None = None,
) -> Any:
    """Run one call of a model's: a `ToolMessage`, a `Command`, or a list of these.

    `call` is a `ToolCall`. `runtime` is called only for a tool that takes something from it. `asked` is the call as the
    model made it, if a hook has changed it since: what the hook put under the name of an `InjectedToolArg` counts, what
    the model put there never does. `config["callbacks"]` hear of the call. Raises what neither the tool nor
    `handle_errors` handles, and `UsageError` for an injected value that the program does not have.
    """
    plan = tool.plan
    heard = callbacks_of(config, tool.callbacks)
    if heard is not None or plan.special:
        make = runtime or (lambda: ambient_runtime(config, call["id"]))
        trusted = _from_hooks(plan, call, asked)
        return await _special(tool, call, port, make, trusted, handle_errors, config)
    try:
        function, is_async = plan.pick(port.asynchronous)
        given = _checked(tool, plan, call["args"])
        value: Any = await port.call(function, is_async=is_async, timeout_s=tool.timeout_s, **given)
        if value.__class__ is str and len(value) <= plan.plain_chars and value.isascii():
            return tool_message(value, call["id"], tool.name, port)
        if isawaitable(value):
            value = await port.call(_awaited, value, is_async=True, timeout_s=tool.timeout_s)
        return shape(value, tool, call["id"], port)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the tool's
        return failed(error, tool, call["id"], port, handle_errors)


def _checked(tool: BaseTool, plan: Plan, args: Any, values: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Keyword arguments from what the model sent. Raises `ToolInvocationError`."""
    if args.__class__ is not dict:
        args = object_from(args, tool)
    try:
        return plan.check(args if not values else {**args, **values})
    except Exception as error:
        raise misfit(error, args, tool) from error


def why_unfit(tool: BaseTool, args: Any) -> str | None:
    """Why arguments do not fit a tool, in the words a model would get; None if they do.

    Stricter than a call: a model may send more than a tool takes, but a name that a person has mistyped must not end in
    a run with the default.
    """
    try:
        _checked(tool, tool.plan, args)
    except ToolInvocationError as error:
        return str(error)
    return words_for_strangers(args, tool)


async def _awaited(value: Awaitable[Any]) -> Any:
    """For a plain function that returned a coroutine."""
    return await value


def failed(
    error: Exception, tool: BaseTool, call_id: str | None, port: Port, handle_errors: HandleErrors
) -> ToolMessage:
    """The error result, or the error raised."""
    if isinstance(error, InvalidAnswerError):  # meant for the person who answered
        raise error
    words = words_by_tool(error, tool)
    if words is None:
        words = words_by_caller(error, tool, handle_errors)
    if words is None:
        raise error
    import logging

    logging.getLogger("loopwright.tools").debug("tool %r failed", tool.name, exc_info=error)
    artifact: Any = getattr(error, "artifact", None)
    return tool_message(cut(words, tool.max_result_chars), call_id, tool.name, port, artifact=artifact, status="error")


# -- the long way: injected values, limits, listeners ---------------------------------------------------------------


async def _special(
    tool: BaseTool,
    call: Mapping[str, Any],
    port: Port,
    make_runtime: _MakeRuntime,
    trusted: Mapping[str, Any],
    handle_errors: HandleErrors,
    config: RunnableConfig | None,
) -> Any:
    args, call_id = call["args"], call["id"]
    values = _provided(tool, make_runtime, trusted)
    listening = await _start(tool, args, call_id, port, config)
    try:
        value = await _run(tool, args, values, port, listening)
        result = shape(value, tool, call_id, port)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the tool's
        if listening is not None and words_by_tool(error, tool) is None:
            await listening.emit(port, "on_tool_error", error)
            return failed(error, tool, call_id, port, handle_errors)
        result = failed(error, tool, call_id, port, handle_errors)
    if listening is not None:
        await listening.emit(port, "on_tool_end", result)
    return result


def _from_hooks(plan: Plan, call: Mapping[str, Any], asked: Mapping[str, Any] | None) -> dict[str, Any]:
    """Values for `InjectedToolArg` that a hook put into the call: those that are not the model's own."""
    if asked is None or asked is call:
        return {}
    args, model = call["args"], asked["args"]
    return {
        name: args[name]
        for name, injection, _ in plan.injected
        if injection.kind == "given" and name in args and (name not in model or args[name] is not model[name])
    }


def _provided(tool: BaseTool, make_runtime: _MakeRuntime, trusted: Mapping[str, Any]) -> dict[str, Any]:
    """The injected values. Raises `UsageError` for one that the program does not have."""
    injected = tool.plan.injected
    if not injected:
        return {}
    runtime: ToolRuntime[Any, Any] | None = None
    values: dict[str, Any] = {}
    for name, injection, default in injected:
        if name in trusted:
            values[name] = trusted[name]
            continue
        runtime = runtime or make_runtime()
        values[name] = injection.value(runtime, tool.name, name, default)
    return values


async def _run(tool: BaseTool, args: Any, values: Mapping[str, Any], port: Port, listening: CallbackRun | None) -> Any:
    """Check the arguments and call the function: what it returned."""
    plan = tool.plan
    if plan.merges:
        given = _checked(tool, plan, args, values)
    else:
        given = _checked(tool, plan, args)
        given.update(values)
    function, is_async = plan.pick(port.asynchronous)
    running = _call(partial(function, **given), is_async, tool.timeout_s, port)
    gate = tool.gate
    if gate is not None and gate.is_inside():
        gate = None
    if gate is None and listening is None:
        return await running
    context = copy_context()
    if listening is not None:
        context.run(listening.become_parent)
    if gate is None:
        return await InContext(running, context)
    try:
        await gate.enter(port)
    except BaseException:
        running.close()
        raise
    try:
        gate.mark(context)
        return await InContext(running, context)
    finally:
        gate.leave()


async def _call(function: Callable[[], Any], is_async: bool, timeout_s: float | None, port: Port) -> Any:
    value: Any = await port.call(function, is_async=is_async, timeout_s=timeout_s)
    if isawaitable(value):
        value = await port.call(_awaited, value, is_async=True, timeout_s=timeout_s)
    return value


async def _start(
    tool: BaseTool, args: Any, call_id: str | None, port: Port, config: RunnableConfig | None, run_id: Any = None
) -> CallbackRun | None:
    """Tell those who listen that the tool begins; None if nobody does."""
    if callbacks_of(config, tool.callbacks) is None:
        return None
    told = merge_configs(config, {"tags": tool.tags, "metadata": tool.metadata})
    heard = callbacks_of(told, tool.callbacks)
    assert heard is not None
    listening = heard.run(run_id)
    text = args if isinstance(args, str) else json.dumps(args, ensure_ascii=False, default=str)
    about = {"name": tool.name, "description": tool.description}
    await listening.emit(port, "on_tool_start", about, text, inputs=args, name=tool.name, tool_call_id=call_id)
    return listening


# -- by hand --------------------------------------------------------------------------------------------------------


async def invoke_tool(tool: BaseTool, input: Any, config: RunnableConfig | None, port: Port) -> Any:
    """What `tool.invoke` does: arguments in, what the tool returned out; a whole call in, its message out.

    Here the program calls, not a model: injected values may stand among the arguments. Raises what the tool does not
    handle, pydantic's `ValidationError` for arguments that do not fit.
    """
    check_config(config)
    args, call_id, is_call = _taken_apart(input, tool)
    given = cast("dict[str, Any]", args) if isinstance(args, dict) else {}
    trusted = {name: given[name] for name, *_ in tool.plan.injected if name in given}
    values = _provided(tool, lambda: ambient_runtime(config, call_id), trusted)
    listening = await _start(tool, args, call_id, port, config, config.get("run_id") if config else None)
    try:
        value = await _run(tool, args, values, port, listening)
        result = shape(value, tool, call_id, port) if is_call else _bare(value, tool)
    except Exception as error:
        words = words_by_tool(error, tool)
        if words is None:
            if listening is not None:
                await listening.emit(port, "on_tool_error", error)
            source = error.source if isinstance(error, ToolInvocationError) else None
            if source is not None and hasattr(source, "errors"):
                raise source from None
            raise
        result = failed(error, tool, call_id, port, handle_errors=False) if is_call else words
    if listening is not None:
        await listening.emit(port, "on_tool_end", result)
    return result


def _taken_apart(input: Any, tool: BaseTool) -> tuple[Any, str | None, bool]:
    """(arguments, call id, whether it is a whole call)."""
    if isinstance(input, Mapping):
        call = cast("Mapping[str, Any]", input)
        if call.get("type") == "tool_call" and "args" in call:
            return call["args"], call.get("id"), True
        return dict(call), None, False
    names = tool.arguments.names
    if isinstance(input, str) and names:
        return {names[0]: input}, None, False
    if input is None or input == "":
        return {}, None, False
    example = ", ".join(f'"{name}": ...' for name in names)
    raise UsageError(
        f"{tool.name}.invoke({input!r}): give the arguments as a dictionary, {tool.name}.invoke({{{example}}}), "
        "or a whole tool call."
    )


def _bare(value: Any, tool: BaseTool) -> Any:
    if tool.response_format == "content" or isinstance(value, ToolMessage) or is_effect(value):
        return value
    return pair_of(value, tool)[0]


# -- calls that cannot be made --------------------------------------------------------------------------------------


def unknown_tool_message(call: Mapping[str, Any], tool_names: Sequence[str]) -> ToolMessage:
    """The error result for a call of a tool that does not exist. It names those that do."""
    name: Any = call.get("name")
    known = f"Tools that exist: {', '.join(sorted(tool_names))}." if tool_names else "There are no tools."
    return ToolMessage(
        f"There is no tool named {name or ''!r}. {known}",
        tool_call_id=call.get("id") or "",
        name=name if isinstance(name, str) and name else None,
        status="error",
        id=new_id(),
    )


def invalid_call_message(call: Mapping[str, Any]) -> ToolMessage:
    """The error result for a call whose arguments cannot be read (an `InvalidToolCall`)."""
    name: Any = call.get("name")
    reason = call.get("error") or "the arguments are not a JSON object"
    return ToolMessage(
        f"The call of tool {name or ''!r} cannot be read: {reason}. Call it again with a JSON object as arguments.",
        tool_call_id=call.get("id") or "",
        name=name if isinstance(name, str) and name else None,
        status="error",
        id=new_id(),
    )
