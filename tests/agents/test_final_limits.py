"""A limit that is reached is final: no hook that adds calls, jumps or asks again takes the run past it."""

from __future__ import annotations

from typing import Any

import pytest

from loopwright.agents import Limits, create_agent
from loopwright.agents.middleware import after_agent, after_model, hook_config
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.messages import AIMessage, HumanMessage
from loopwright.testing import ScriptedModel, call, say
from tests.agents.worlds import both_worlds, invoke, is_valid, thread

pytestmark = pytest.mark.timeout(60)


class Looks:
    """A tool that counts its runs, and a hook that asks for it after every reply."""

    def __init__(self) -> None:
        self.count = 0

    def look(self, n: int) -> str:
        """Look."""
        self.count += 1
        return f"seen {n}"

    def adding(self, calls: int = 1, **jump: Any) -> Any:
        """The hook; with `jump` it also says where to go on."""

        @after_model
        @hook_config(can_jump_to=["model", "tools", "end"])
        def add(state: Any, runtime: Any) -> dict[str, Any]:
            n = len(state["messages"])
            return {"messages": [AIMessage("", tool_calls=[call("look", n=n + i) for i in range(calls)])], **jump}

        return add


@both_worlds
@pytest.mark.parametrize("jump", [{}, {"jump_to": "tools"}], ids=["", "jumping"])
@pytest.mark.parametrize(
    ("limits", "reason", "looks"),
    [
        (Limits(tool_calls=5), "tool_calls", 5),
        (Limits(model_calls=4), "model_calls", 4),
        (Limits(tool_calls=0), "tool_calls", 0),
    ],
    ids=str,
)
def test_calls_that_a_hook_adds_are_limited(world, limits, reason, looks, jump):
    tool, model = Looks(), ScriptedModel(say("done"), loop=True)
    agent = create_agent(model, [tool.look], middleware=[tool.adding(**jump)], limits=limits)
    result = invoke(agent, world)
    assert (result.stop_reason, tool.count) == (reason, looks)
    assert is_valid(result["messages"])


@both_worlds
def test_calls_of_one_turn_that_a_hook_adds_run_together_or_not_at_all(world):
    tool = Looks()
    agent = create_agent(
        ScriptedModel(say("done"), loop=True), [tool.look], middleware=[tool.adding(3)], limits=Limits(tool_calls=5)
    )
    result = invoke(agent, world)
    assert (result.stop_reason, tool.count) == ("tool_calls", 3)
    results = [m for m in result["messages"] if m.type == "tool"]
    assert [m.status for m in results[:6]] == ["success"] * 3 + ["error"] * 3
    assert is_valid(result["messages"])


@both_worlds
def test_calls_of_the_model_are_counted_once(world):
    """A hook that looks at them and jumps to the tools does not ask for them again."""

    @after_model
    @hook_config(can_jump_to=["tools"])
    def go(state: Any, runtime: Any) -> dict[str, Any] | None:
        return {"jump_to": "tools"} if state["messages"][-1].tool_calls else None

    tool = Looks()
    model = ScriptedModel([call("look", n=1), call("look", n=2)], say("done"))
    result = invoke(create_agent(model, [tool.look], middleware=[go], limits=Limits(tool_calls=2)), world)
    assert (result.stop_reason, result.text, tool.count) == ("answer", "done", 2)


@both_worlds
def test_a_hook_that_always_jumps_to_the_model_is_limited(world):
    tool, model = Looks(), ScriptedModel(say("done"), loop=True)
    agent = create_agent(model, [tool.look], middleware=[tool.adding(0, jump_to="model")], limits=Limits(model_calls=3))
    result = invoke(agent, world)
    assert (result.stop_reason, len(model.requests)) == ("model_calls", 3)


@both_worlds
def test_a_last_hook_that_says_end_ends(world):
    @after_agent
    @hook_config(can_jump_to=["end"])
    def leave(state: Any, runtime: Any) -> dict[str, Any]:
        return {"jump_to": "end"}

    result = invoke(create_agent(ScriptedModel(say("done")), middleware=[leave]), world)
    assert result.text == "done"


@pytest.mark.parametrize("jump", [{}, {"jump_to": "tools"}], ids=["", "jumping"])
def test_an_update_by_hand_has_no_limits(jump):
    """Where to go on is asked there too, outside any run."""
    tool = Looks()
    model = ScriptedModel(say("done"), loop=True)

    @after_model(can_jump_to=["tools"])
    def go(state: Any, runtime: Any) -> None: ...

    agent = create_agent(model, [tool.look], middleware=[go], checkpointer=InMemorySaver())
    config = thread()
    asks = AIMessage("", tool_calls=[{"name": "look", "args": {"n": 1}, "id": "c1"}])
    after = agent.update_state(config, {"messages": [HumanMessage("hi"), asks], **jump}, as_node="go.after_model")
    assert agent.get_state(after).next == ("tools",)
    assert agent.invoke(None, config).text == "done"
    assert tool.count == 1
