"""`create_agent`: the parts of an agent, checked and wired into a graph.

    START → before_agent… → before_model… → model → after_model… → tools → (again) …
                                                          └→ after_agent… → END

Each hook is a node named `<middleware>.<hook>`, so it shows in the streams and counts as a step; wrap hooks are no
nodes, they stand around the model and around each tool call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack, cast, overload

from msgspec import structs

from loopwright.agents.agent import Agent
from loopwright.agents.asking import Asker, model_of
from loopwright.agents.calling import Caller
from loopwright.agents.ending import Ending, OnLimit
from loopwright.agents.limits import Limits
from loopwright.agents.loop import Loop
from loopwright.agents.middleware.hooks import Hook, Hooks, collect_hooks, jump_target
from loopwright.agents.middleware.types import AgentState
from loopwright.errors import UsageError
from loopwright.graph.builder import StateGraph
from loopwright.graph.nodes import Branch, Node
from loopwright.graph.stops import StopAt
from loopwright.graph.types import END, START, Command
from loopwright.messages import AIMessage, SystemMessage, convert_to_messages
from loopwright.messages.pairing import with_call_ids
from loopwright.tools import BaseTool, check_tools
from loopwright.tools.convert import ForeignTool, provided_name

if TYPE_CHECKING:
    from loopwright.agents.middleware.types import AgentMiddleware
    from loopwright.agents.structured_output import AutoStrategy, ProviderStrategy, ToolStrategy
    from loopwright.graph.task import Task

__all__ = ["create_agent"]

R = TypeVar("R")
_Tools = Sequence[BaseTool | ForeignTool | Callable[..., Any] | Mapping[str, Any]] | None


if TYPE_CHECKING:

    class Options(TypedDict, total=False):
        """What `create_agent` takes beside the model, the tools and `response_format`."""

        system_prompt: str | SystemMessage | None
        prompt: str | SystemMessage | None
        middleware: Sequence[AgentMiddleware[Any, Any, Any]]
        state_schema: type[Any] | None
        context_schema: type[Any] | None
        checkpointer: Any
        store: Any
        interrupt_before: StopAt
        interrupt_after: StopAt
        debug: bool
        name: str | None
        limits: Limits | None
        on_limit: OnLimit
        handle_tool_errors: Any


@overload
def create_agent(
    model: Any,
    tools: _Tools = None,
    *,
    response_format: type[R] | ToolStrategy[R] | ProviderStrategy[R] | AutoStrategy[R],
    **options: Unpack[Options],
) -> Agent[R]: ...
@overload
def create_agent(
    model: Any, tools: _Tools = None, *, response_format: dict[str, Any], **options: Unpack[Options]
) -> Agent[dict[str, Any]]: ...
@overload
def create_agent(
    model: Any, tools: _Tools = None, *, response_format: None = None, **options: Unpack[Options]
) -> Agent[None]: ...
@overload
def create_agent(
    model: Any, tools: _Tools = None, *, response_format: Any, **options: Unpack[Options]
) -> Agent[Any]: ...
def create_agent(
    model: Any,
    tools: _Tools = None,
    *,
    system_prompt: str | SystemMessage | None = None,
    prompt: str | SystemMessage | None = None,
    middleware: Sequence[AgentMiddleware[Any, Any, Any]] = (),
    response_format: Any = None,
    state_schema: type[Any] | None = None,
    context_schema: type[Any] | None = None,
    checkpointer: Any = None,
    store: Any = None,
    interrupt_before: StopAt = None,
    interrupt_after: StopAt = None,
    debug: bool = False,
    name: str | None = None,
    limits: Limits | None = None,
    on_limit: OnLimit = "stop",
    handle_tool_errors: Any = True,
) -> Agent[Any]:
    """Make an agent: a model, its tools, and the loop that asks "go on?".

    `model` is `"provider:name"` or a chat model; `tools` are functions, tools, or a provider's own dictionaries. Chat
    models and tools of LangChain's are taken as they are.
    `system_prompt` (or `prompt`) is put before the messages of each model call and is not stored. `limits` are on by
    default; `on_limit` says how a run ends that reaches one. `handle_tool_errors` decides what a tool's exception
    becomes: True a result for the model, False an error for the caller.

    Raises `UsageError` for parts that cannot work together, with the mend.
    """
    hooks = collect_hooks(middleware)
    chosen = model_of(model)
    listed, provided = check_tools([*(t for each in hooks.middleware for t in each.tools), *_listed(tools)])
    strategy = None if response_format is None else _strategy_of(response_format)
    asker = Asker(
        chosen,
        [*listed.values(), *provided],
        system=_system_of(system_prompt, prompt),
        strategy=strategy,
        hooks=hooks.wrap_model_call,
        name=name,
        serves_others=bool(hooks.wrap_tool_call),
    )
    if asker.plan is not None:
        asker.plan.check_names(list(listed))
    answers = [] if asker.plan is None else list(asker.plan.schemas)
    hooks.check_tools([*listed, *filter(None, map(provided_name, provided))], answers)
    caller = Caller(listed, hooks=hooks.wrap_tool_call, handle_errors=handle_tool_errors)
    schemas = [each.state_schema for each in hooks.middleware if each.state_schema is not AgentState]
    graph = StateGraph(state_schema or AgentState, context_schema)
    graph.add_schemas([AgentState, *schemas])
    graph.declares = (*listed.values(), *((strategy.schema,) if strategy is not None else ()))
    _wire(graph, hooks, asker, caller, Ending(on_limit), has_tools=bool(listed or provided or hooks.wrap_tool_call))
    return Agent(
        graph.parts(),
        limits=_limits_of(limits),
        tools=listed,
        checkpointer=checkpointer,
        store=store,
        interrupt_before=interrupt_before,
        interrupt_after=interrupt_after,
        asks_by_design=next((each.name for each in hooks.middleware if each.needs_checkpointer), None),
        debug=debug,
        name=name,
    )


def _listed(tools: Any) -> Sequence[Any]:
    if tools is None:
        return ()
    if callable(tools) or isinstance(tools, (BaseTool, Mapping, str)):
        one = cast(Any, tools)
        name: str = getattr(one, "__name__", None) or getattr(one, "name", None) or "my_tool"
        raise UsageError(f"tools= takes a list: create_agent(model, tools=[{name}]).")
    return list(tools)


def _limits_of(limits: Any) -> Limits:
    if limits is None:
        return Limits()
    if isinstance(limits, Limits):
        return limits
    hint = (
        f"Write limits=Limits({', '.join(f'{k}={v!r}' for k, v in cast('dict[str, Any]', limits).items())})."
        if isinstance(limits, dict)
        else "Write limits=Limits(model_calls=…)."
    )
    raise UsageError(f"limits={limits!r:.80} is a {type(cast(Any, limits)).__name__}, not Limits. {hint}")


def _strategy_of(response_format: Any) -> Any:
    from loopwright.agents.answers import answer_strategy

    return answer_strategy(response_format)


def _system_of(system_prompt: str | SystemMessage | None, prompt: str | SystemMessage | None) -> SystemMessage | None:
    if system_prompt is not None and prompt is not None:
        raise UsageError("prompt= is another spelling of system_prompt=; give one of them.")
    chosen = system_prompt if system_prompt is not None else prompt
    if chosen is None or isinstance(chosen, SystemMessage):
        return chosen
    if getattr(chosen, "type", None) == "system":  # another library's, as in the input
        return cast(SystemMessage, convert_to_messages([chosen])[0])
    if not isinstance(cast(Any, chosen), str):
        hint = " For a prompt that depends on the state, use @dynamic_prompt." if callable(chosen) else ""
        raise UsageError(f"system_prompt= takes a string or a SystemMessage, not {type(chosen).__name__}.{hint}")
    return SystemMessage(chosen)


# ---- wiring


def _wire(graph: StateGraph, hooks: Hooks, asker: Asker, caller: Caller, ending: Ending, *, has_tools: bool) -> None:
    """Nodes and edges of an agent."""
    entry = [hook.name for hook in hooks.before_agent]
    before = [hook.name for hook in hooks.before_model]
    after = [hook.name for hook in hooks.after_model]
    leaving = [hook.name for hook in hooks.after_agent]
    again = before[0] if before else "model"
    end = leaving[0] if leaving else END
    loop = Loop(asker, caller, ending, again=again, exit=end)
    nodes = graph.nodes
    for hook in (*hooks.before_agent, *hooks.before_model):
        nodes[hook.name] = Node(hook.name, _hook_node(hook))
    nodes["model"] = Node("model", loop.model)
    nodes["tools"] = Node("tools", caller.run, hidden=not has_tools)
    for hook in (*hooks.after_model, *hooks.after_agent):
        nodes[hook.name] = Node(hook.name, _hook_node(hook))
    _chain(graph, loop, [START, *entry], hooks.before_agent, again)
    _chain(graph, loop, before, hooks.before_model, "model")
    _chain(graph, loop, leaving, hooks.after_agent, END, leave=END)
    any_hooks = any((hooks.before_agent, hooks.before_model, hooks.after_model, hooks.after_agent))
    if after:
        graph.add_edge("model", after[0])
        _chain(graph, loop, after, hooks.after_model, None)
    ways = ["tools", end, *([again] if asker.plan is not None or _jumps(hooks.after_model, "model") else [])]
    graph.branches[after[-1] if after else "model"] = [Branch(loop.after_model, ways, plain=True)]
    if caller.any_direct or asker.plan is not None or any_hooks or any(hook.prompt is None for hook in asker.hooks):
        graph.branches["tools"] = [Branch(loop.after_tools, [again, end], plain=True)]
    else:
        graph.add_edge("tools", again)


def _jumps(hooks: Sequence[Hook], target: str) -> bool:
    return any(target in hook.can_jump_to for hook in hooks)


def _chain(
    graph: StateGraph,
    loop: Loop,
    names: Sequence[str],
    hooks: Sequence[Hook],
    then: str | None,
    *,
    leave: str | None = None,
) -> None:
    """Edges along a row of hooks to `then`; a hook that may jump gets a question in place of its edge.

    Without `then` the last hook's way on is left to the caller. `leave` is where "end" leads, if not to the first
    `after_agent` hook.
    """
    if not names:
        return
    jumping = {hook.name: hook for hook in hooks if hook.can_jump_to}
    for name, following in zip(names, (*names[1:], then), strict=False):
        if following is None:
            return
        hook = jumping.get(name)
        if hook is None:
            graph.add_edge(name, following)
        else:
            ways = {"model": loop.again, "tools": "tools", "end": leave or loop.exit}
            targets = dict.fromkeys([following, *(ways[target] for target in hook.can_jump_to)])
            graph.branches[name] = [Branch(_jump_or(loop, following, leave), list(targets), plain=True)]


def _jump_or(loop: Loop, following: str, leave: str | None) -> Callable[..., Any]:
    def jump_or_next(task: Task, state: Mapping[str, Any]) -> Any:
        target = state.get("jump_to")
        return following if target is None else loop.jump(task, state, target, leave)

    return jump_or_next


def _hook_node(hook: Hook) -> Callable[[Task], Any]:
    """A `before_*` or `after_*` hook as a node."""

    async def run(task: Task) -> Any:
        function, is_async = hook.pick(task.port.asynchronous)
        answer: Any = await task.port.call(function, task.run.handed(task.input), task.runtime, is_async=is_async)
        command: Command[Any] | None = cast(Any, answer) if isinstance(answer, Command) else None
        update: Any = _read(hook, answer if command is None else command.update)
        return update if command is None else structs.replace(command, update=update)

    return run


def _read(hook: Hook, given: Any) -> Any:
    """What a hook has returned: a jump that says nothing is left out, and calls that it adds get ids."""
    if not isinstance(given, Mapping):
        return given
    update = dict(cast("Mapping[str, Any]", given))
    if "jump_to" in update and jump_target(hook, update) is None:
        del update["jump_to"]
    if update.get("messages") is not None:
        update["messages"] = _with_call_ids(update["messages"])
    return update


def _with_call_ids(messages: Any) -> Any:
    if isinstance(messages, list):
        return [_with_call_ids(message) for message in cast("list[Any]", messages)]
    message = convert_to_messages([messages])[0] if isinstance(messages, dict) else messages
    return with_call_ids(message) if isinstance(message, AIMessage) else cast(Any, messages)
