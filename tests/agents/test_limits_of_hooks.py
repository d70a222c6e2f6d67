"""A wrap hook that calls its handler again and again is bound by the limits, whatever it catches."""

from __future__ import annotations

from typing import Any

import pytest

from loopwright.agents import Limits, create_agent
from loopwright.agents.middleware import wrap_model_call, wrap_tool_call
from loopwright.errors import LimitReachedError
from loopwright.testing import ScriptedModel, call
from tests.agents.worlds import both_worlds, invoke, is_valid, stream

kinds = pytest.mark.parametrize("kind", ["def", "async def"])
reading = pytest.mark.parametrize("reading", [False, True])


def stubborn(wrap: Any, kind: str, times: int) -> Any:
    """A hook that calls its handler so often, and catches what an application can catch."""

    def again(request: Any, handler: Any) -> Any:
        answer = None
        for _ in range(times):
            try:
                answer = handler(request)
            except Exception:  # noqa: BLE001 - that is what it is for
                continue
        return answer

    async def aagain(request: Any, handler: Any) -> Any:
        answer = None
        for _ in range(times):
            try:
                answer = await handler(request)
            except Exception:  # noqa: BLE001 - that is what it is for
                continue
        return answer

    return wrap(again if kind == "def" else aagain)


def final_state(agent: Any, world: Any, *, reading: bool) -> Any:
    return stream(agent, world, stream_mode="values")[-1] if reading else invoke(agent, world)


@both_worlds
@kinds
@reading
@pytest.mark.parametrize("failing", [False, True])
def test_model_calls_bind_a_hook(world, kind, reading, failing):
    asked: list[int] = []

    def answer(messages: Any) -> str:
        asked.append(len(messages))
        if failing:
            raise ConnectionError("down")
        return "hello"

    hook = stubborn(wrap_model_call, kind, 5)
    agent = create_agent(
        ScriptedModel(answer, loop=True), middleware=[hook], limits=Limits(model_calls=2), on_limit="stop"
    )
    state = final_state(agent, world, reading=reading)
    assert (len(asked), state["messages"][-1].text) == (
        2,
        "The run was stopped: 2 model calls were made (limit model_calls=2).",
    )


@both_worlds
def test_a_hook_may_try_as_often_as_the_limit_allows(world):
    agent = create_agent(
        ScriptedModel("a", "b", "c"), middleware=[stubborn(wrap_model_call, "def", 3)], limits=Limits(model_calls=3)
    )
    result = invoke(agent, world)
    assert (result.stop_reason, result.text) == ("answer", "c")


@both_worlds
def test_a_limit_that_a_hook_reaches_is_raised_where_that_is_wanted(world):
    hook = stubborn(wrap_model_call, "async def", 3)
    agent = create_agent(ScriptedModel("a", "b"), middleware=[hook], limits=Limits(model_calls=2), on_limit="raise")
    with pytest.raises(LimitReachedError, match="model_calls=2"):
        invoke(agent, world)


@both_worlds
@kinds
@reading
@pytest.mark.parametrize("count", [1, 2])
def test_tool_calls_bind_a_hook(world, kind, reading, count):
    ran: list[int] = []

    def look() -> str:
        """Look."""
        ran.append(1)
        return "seen"

    agent = create_agent(
        ScriptedModel([call("look")] * count, "never"),
        [look],
        middleware=[stubborn(wrap_tool_call, kind, 9)],
        limits=Limits(tool_calls=4),
    )
    state = final_state(agent, world, reading=reading)
    assert is_valid(state["messages"])
    assert len(ran) == 4 or (count == 2 and len(ran) == 3), "the other call may not have begun when the run is over"
    assert state["messages"][-1].text == "The run was stopped: it needs 5 tool calls (limit tool_calls=4)."
    words = "This call ran and may have had effects; it was not tried again: it needs 5 tool calls."
    assert words in [message.text for message in state["messages"][2:-1]]
