"""What a turn costs does not grow with the history, and what a reply costs grows with its calls, not with their square.

Counted in bytecodes, so copying pointers in C is free; see `tests/work.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from loopwright.agents import create_agent
from loopwright.agents.limits import Limits
from loopwright.agents.middleware import before_model, wrap_model_call
from loopwright.chat_models import BaseChatModel
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.messages import AIMessage
from loopwright.outputs import ChatGeneration, ChatResult
from loopwright.tools import ToolRuntime, tool
from tests.agents.worlds import thread
from tests.work import work_by_place, work_of


class Asking(BaseChatModel):
    """Asks for so many calls of one tool, then answers."""

    calls: int = 0
    tool_name: str = "act"

    @property
    def _llm_type(self) -> str:
        return "asking"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> ChatResult:
        wanted = range(self.calls if messages[-1].type == "human" else 0)
        ask = [{"name": self.tool_name, "args": {"x": n}, "id": f"c{len(messages)}.{n}"} for n in wanted]
        return ChatResult(generations=[ChatGeneration(message=AIMessage("" if ask else "done", tool_calls=ask))])


@tool
def act(x: int) -> str:
    """Act."""
    return "acted"


@tool
def look(x: int, runtime: ToolRuntime) -> str:
    """Look at the state."""
    return "looked"


@tool(return_direct=True)
def say(x: int) -> str:
    """Say."""
    return "said"


@before_model
def before(state: Any, runtime: Any) -> None:
    """Does nothing."""


@wrap_model_call
def around(request: Any, handler: Any) -> Any:
    """Does nothing."""
    return handler(request)


def invoked(agent: Any) -> Any:
    return agent.invoke({"messages": "hi"}, thread())


def awaited(agent: Any) -> Any:
    return asyncio.run(agent.ainvoke({"messages": "hi"}, thread()))


def looked_at(agent: Any) -> Any:
    return invoked(agent), agent.get_state(thread())


def streamed(mode: str) -> Callable[[Any], Any]:
    return lambda agent: list(agent.stream({"messages": "hi"}, thread(), stream_mode=mode))


TURNS = {
    "invoke": ([], [], invoked),
    "ainvoke": ([], [], awaited),
    "get_state": ([], [], looked_at),
    "a tool": ([act], [], invoked),
    "a tool that takes the state": ([look], [], invoked),
    "a before hook": ([], [before], invoked),
    "a wrap hook": ([], [around], invoked),
    **{mode: ([], [], streamed(mode)) for mode in ("values", "updates", "messages", "debug", "events")},
}


@pytest.mark.parametrize("case", TURNS)
def test_a_turn_costs_the_same_however_long_its_thread_is(case: str):
    tools, hooks, turn = TURNS[case]
    model = Asking(calls=len(tools), tool_name=tools[0].name if tools else "")
    agent = create_agent(model, tools, middleware=hooks, checkpointer=InMemorySaver())

    def one() -> Any:
        return turn(agent)

    for _ in range(12):
        one()
    early = work_of(one)
    for _ in range(60):
        one()
    assert work_of(one) <= early * 1.01 + 50


MODES = [None, "messages", "debug"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tools", [[act], [act, say]], ids=["tools", "one_may_end_the_run"])
def test_many_calls_cost_so_many_times_what_few_cost(mode: str | None, tools: Any):
    """Outside of `drive`, whose waiting for threads depends on how they come to run."""

    def work(calls: int) -> int:
        limits = Limits(tool_calls=None)
        agent = create_agent(Asking(calls=calls), tools, limits=limits, checkpointer=InMemorySaver())
        turn = invoked if mode is None else streamed(mode)
        return sum(n for place, n in work_by_place(lambda: turn(agent)).items() if "/drive/" not in place)

    work(2)
    few, many = work(20), work(160)
    assert many <= few * 8 * 1.2


def test_the_repr_of_a_result_shows_the_end_of_a_long_history():
    agent = create_agent(Asking(), [])
    result = agent.invoke({"messages": ["hi"] * 30})
    assert repr(result).startswith("{'messages': [... 11 earlier, HumanMessage('hi'")
    short = agent.invoke({"messages": ["hi"]})
    assert repr(short) == repr(dict(short))
