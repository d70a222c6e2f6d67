"""The agent: a compiled graph that speaks of messages.

What it adds to a graph: the result with its reasons, a budget for each tree of runs, words for the well-known mistakes,
and a history that is mended when a thread is taken up again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast, overload

from loopwright.agents.limits import Budget, Limits
from loopwright.agents.result import AgentResult
from loopwright.agents.stop import NOTICE_KEY
from loopwright.errors import EmptyInputError, InputTypeError
from loopwright.graph.compiled import CompiledStateGraph, Parts
from loopwright.graph.stops import StopAt
from loopwright.messages import BaseMessage
from loopwright.messages.pairing import CANCELLED, CUT_OFF, NOT_RUN, repair_history
from loopwright.messages.plain import is_dict, is_list
from loopwright.scope import ConfigLike

if TYPE_CHECKING:
    from loopwright.graph.engine import Run
    from loopwright.graph.task import Task
    from loopwright.graph.types import Durability
    from loopwright.tools import BaseTool

__all__ = ["Agent"]

R = TypeVar("R")

_RIGHT_CALL = 'agent.invoke({"messages": [{"role": "user", "content": "…"}]})'


class Agent(CompiledStateGraph, Generic[R]):
    """What `create_agent` returns."""

    def __init__(
        self,
        parts: Parts,
        *,
        limits: Limits,
        tools: Mapping[str, BaseTool] | None = None,
        checkpointer: Any = None,
        store: Any = None,
        interrupt_before: StopAt = None,
        interrupt_after: StopAt = None,
        asks_by_design: str | None = None,
        debug: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(
            parts,
            checkpointer=checkpointer,
            store=store,
            interrupt_before=interrupt_before,
            interrupt_after=interrupt_after,
            debug=debug,
            name=name or "LangGraph",
        )
        self.asks_by_design = asks_by_design
        self.limits = limits
        self.tools: Mapping[str, BaseTool] = tools or {}
        """The tools it runs, by name."""
        self.repair, self.close, self.renew = _mended, _closed, _renewed

    if TYPE_CHECKING:

        @overload
        def invoke(
            self,
            input: Any,
            config: ConfigLike | None = None,
            *,
            context: Any = None,
            durability: Durability | None = None,
        ) -> AgentResult[R]: ...
        @overload
        def invoke(
            self,
            input: Any,
            config: ConfigLike | None = None,
            *,
            context: Any = None,
            stream_mode: str | Sequence[str] | None = "values",
            print_mode: str | Sequence[str] = (),
            output_keys: str | Sequence[str] | None = None,
            interrupt_before: StopAt = None,
            interrupt_after: StopAt = None,
            durability: Durability | None = None,
            version: Literal["v1", "v2"] = "v1",
        ) -> Any: ...
        def invoke(self, input: Any, config: ConfigLike | None = None, **options: Any) -> Any: ...

        @overload
        async def ainvoke(
            self,
            input: Any,
            config: ConfigLike | None = None,
            *,
            context: Any = None,
            durability: Durability | None = None,
        ) -> AgentResult[R]: ...
        @overload
        async def ainvoke(
            self,
            input: Any,
            config: ConfigLike | None = None,
            *,
            context: Any = None,
            stream_mode: str | Sequence[str] | None = "values",
            print_mode: str | Sequence[str] = (),
            output_keys: str | Sequence[str] | None = None,
            interrupt_before: StopAt = None,
            interrupt_after: StopAt = None,
            durability: Durability | None = None,
            version: Literal["v1", "v2"] = "v1",
        ) -> Any: ...
        async def ainvoke(self, input: Any, config: ConfigLike | None = None, **options: Any) -> Any: ...

    def result(self, run: Run, values: dict[str, Any]) -> AgentResult[R]:
        budget: Budget = run.budget
        return AgentResult(
            values,
            stop_reason=cast(Any, run.stop_reason or _reason_of(values)),
            usage=budget.usage,
            cost=budget.cost,
            interrupts=run.interrupts,
            said=run.said,
        )

    def budget_for(self, run: Run, parent: Task | None) -> Budget:
        above = None if parent is None else parent.spending()
        return Budget(self.limits, parent=above, clock=run.port.monotonic)

    def check_input(self, given: Any, state: Mapping[str, Any]) -> Mapping[str, Any]:
        if not isinstance(given, Mapping):
            raise InputTypeError(_not_a_dict(given))
        known = cast("Mapping[str, Any]", given)
        if "messages" not in known and not state.get("messages"):
            keys = ", ".join(map(repr, known)) or "nothing"
            raise EmptyInputError(f"The input holds {keys}, and the model needs messages. Write {_RIGHT_CALL}.")
        if "messages" in known and not known["messages"] and not state.get("messages"):
            raise EmptyInputError(f'"messages" is empty, and the model needs at least one. Write {_RIGHT_CALL}.')
        return known

    def nothing_to_resume(self, *, has_saver: bool, answers: bool) -> str:
        begin = f"Begin with {_RIGHT_CALL[:-1]}, config)."
        if answers and has_saver:
            return f"Command(resume=…) answers a question, and nothing was ever asked on this thread. {begin}"
        if answers:
            return (
                "Command(resume=…) answers the question of a paused run, which only a checkpointer can keep, and this "
                "agent has none. Make it with one: create_agent(..., checkpointer=InMemorySaver())."
            )
        if has_saver:
            return f"invoke(None, config) goes on with a saved thread, and this thread has nothing saved yet. {begin}"
        return f"invoke(None) goes on with a saved thread, and this agent has no checkpointer. Write {_RIGHT_CALL}."


def _reason_of(values: Mapping[str, Any]) -> str:
    """Why a thread had ended before this run, which has found nothing to do."""
    messages: Sequence[Any] = values.get("messages") or ()
    metadata: Any = getattr(messages[-1], "response_metadata", {}) if messages else {}
    return metadata.get(NOTICE_KEY) or "answer"


def _not_a_dict(given: Any) -> str:
    """The words for an input that is no dict of state keys."""
    kind = type(given).__name__
    if isinstance(given, str):
        right, got = f'{{"messages": {given!r:.60}}}', f"the bare string {given!r:.60}"
        return f"An agent takes a dict: agent.invoke({right}), or {_RIGHT_CALL}; it got {got}."
    if isinstance(given, BaseMessage):
        right = 'agent.invoke({"messages": [message]})'
        return f"An agent takes a dict with a list of messages: {right}; it got a bare {kind}."
    if isinstance(given, (list, tuple)):
        return f'An agent takes a dict: agent.invoke({{"messages": [...]}}); it got a bare {kind}.'
    return f"An agent takes a dict of state keys: {_RIGHT_CALL}; it got {kind}: {given!r:.80}."


def _mended(state: dict[str, Any]) -> dict[str, Any]:
    """What of a state has to be replaced for every call to have its result."""
    messages: list[BaseMessage] = state.get("messages") or []
    repaired = repair_history(messages)
    return {} if repaired is messages else {"messages": repaired}


def _closed(state: dict[str, Any], begun: Sequence[Any], *, cancelled: bool) -> dict[str, Any]:
    """The same where calls may have had effects: `begun` is what was sent to tasks that have not ended."""
    words = CANCELLED if cancelled else CUT_OFF
    ids = {call["id"] for calls in begun if is_list(calls) for call in calls if is_dict(call) and "id" in call}
    messages: list[BaseMessage] = state.get("messages") or []
    repaired = repair_history(messages, lambda call: words if call["id"] in ids else NOT_RUN)
    return {} if repaired is messages else {"messages": repaired}


def _renewed(state: dict[str, Any]) -> dict[str, Any]:
    """The answer of the turn before is none of this one."""
    return {} if state.get("structured_response") is None else {"structured_response": None}
