"""`ToolNode`: the tools of an agent as a node for graphs of one's own, and the question that leads to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypedDict, cast

from loopwright.agents.calling import Caller
from loopwright.agents.middleware.decorators import wrap_tool_call as as_middleware
from loopwright.agents.middleware.hooks import Hook, collect_hooks
from loopwright.errors import UsageError
from loopwright.graph.builder import StateGraph
from loopwright.graph.types import END, START
from loopwright.messages import AIMessage, AnyMessage, add_messages
from loopwright.scope import RunnableConfig
from loopwright.tools import BaseTool, check_tools
from loopwright.tools.convert import ForeignTool

if TYPE_CHECKING:
    from loopwright.graph.task import Task

__all__ = ["ToolNode", "tools_condition"]

_Messages: TypeAlias = Annotated[list[AnyMessage], add_messages]


class ToolNode:
    """Runs the tool calls of the last message, all at the same time, and adds their results.

    `handle_tool_errors`: True (the default) makes any exception of a tool a result for the model; False raises it; a
    string, exception classes or a function say what the model is told. `wrap_tool_call` is a wrap hook around each
    call.
    """

    def __init__(
        self,
        tools: Sequence[BaseTool | ForeignTool | Callable[..., Any]],
        *,
        name: str = "tools",
        tags: Sequence[str] | None = None,
        handle_tool_errors: Any = True,
        messages_key: str = "messages",
        wrap_tool_call: Callable[..., Any] | None = None,
        awrap_tool_call: Callable[..., Any] | None = None,
    ) -> None:
        listed, provided = check_tools(tools)
        if provided:
            raise UsageError(
                "A ToolNode runs tools here; a provider's own dictionary is run by the provider. Bind it to the model."
            )
        self.name, self.tags, self.messages_key = name, list(tags or ()), messages_key
        self.tools_by_name = listed
        hooks = _hooks_of(wrap_tool_call, awrap_tool_call)
        self._caller = Caller(listed, hooks=hooks, handle_errors=handle_tool_errors)

    async def run_node(self, task: Task) -> Any:
        """Run the calls that are open in the task's state, or that were sent to it."""
        return await self._caller.run_all(task, self.messages_key)

    def _messages(self, state: Any) -> list[Any]:
        key = self.messages_key
        found: Any = (
            cast("Mapping[str, Any]", state).get(key) if isinstance(state, Mapping) else getattr(state, key, None)
        )
        return list(found or ())

    def invoke(self, input: Any, config: RunnableConfig | None = None) -> Any:
        """Run the calls of `{"messages": […]}` or of a list of messages; returns what they add, in the same form."""
        state = self._state(input)
        return self._outcome(self._alone(state).invoke(state, config), state, input)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None) -> Any:
        """`invoke` under asyncio."""
        state = self._state(input)
        return self._outcome(await self._alone(state).ainvoke(state, config), state, input)

    def _state(self, given: Any) -> dict[str, Any]:
        if isinstance(given, (list, tuple)):
            return {self.messages_key: list(cast("Sequence[Any]", given))}
        others: Mapping[str, Any] = cast("Mapping[str, Any]", given) if isinstance(given, Mapping) else {}
        return {**others, self.messages_key: self._messages(given)}

    def _alone(self, state: Mapping[str, Any]) -> Any:
        """A graph of this node only."""
        schema: Any = TypedDict("ToolNodeState", {**dict.fromkeys(state, Any), self.messages_key: _Messages})  # type: ignore[misc]
        graph = StateGraph(schema)
        graph.add_node(self.name, self)
        return graph.add_edge(START, self.name).compile()

    def _outcome(self, after: dict[str, Any], before: Mapping[str, Any], given: Any) -> Any:
        added = after[self.messages_key][len(before[self.messages_key]) :]
        if isinstance(given, (list, tuple)):
            return added
        changed = {key: value for key, value in after.items() if value is not before.get(key)}
        return {**changed, self.messages_key: added}


def _hooks_of(plain: Callable[..., Any] | None, coro: Callable[..., Any] | None) -> tuple[Hook, ...]:
    """The hook around each call: either function, or the pair."""
    one = plain if plain is not None else coro
    if one is None:
        return ()
    middleware: Any = as_middleware(one)
    if plain is not None and coro is not None:
        middleware.awrap_tool_call = coro
    return collect_hooks([middleware]).wrap_tool_call


def tools_condition(state: Any, messages_key: str = "messages") -> Literal["tools", "__end__"]:
    """Whether the last message asks for tools: "tools", else "__end__"."""
    if isinstance(state, (list, tuple)):
        messages: Any = cast("list[Any]", state)
    elif isinstance(state, Mapping):
        messages = cast("Mapping[str, Any]", state).get(messages_key, [])
    else:
        messages = getattr(state, messages_key, [])
    if not messages:
        raise UsageError(f"tools_condition needs messages; state[{messages_key!r}] has none.")
    last = messages[-1]
    return "tools" if isinstance(last, AIMessage) and last.tool_calls else END
