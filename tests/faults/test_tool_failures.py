"""Faults reported of other libraries: failing tools and malformed calls, end to end in an agent."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, model_validator

from loopwright.agents import Limits, create_agent
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.errors import ToolException
from loopwright.messages import AIMessage
from loopwright.testing import ScriptedModel, call, use
from loopwright.tools import ToolRuntime, tool
from tests.agents.worlds import both_worlds, invoke, is_valid, thread


def boom() -> str:
    """Fail."""
    raise ValueError("no luck")


def look(city: str) -> str:
    """Look at a city."""
    return f"sunny in {city}"


@both_worlds
def test_B01_an_ordinary_exception_is_a_result(world):
    result = invoke(create_agent(ScriptedModel(call("boom", id="c1"), "done"), [boom]), world)
    failed = result["messages"][2]
    assert (failed.tool_call_id, failed.status, result.text) == ("c1", "error", "done")


@both_worlds
def test_B01_with_errors_raised_the_thread_stays_usable(world):
    model = ScriptedModel(call("boom"), "fine")
    agent = create_agent(model, [boom], handle_tool_errors=False, checkpointer=InMemorySaver())
    with pytest.raises(ValueError, match="no luck"):
        invoke(agent, world, config=thread())
    result = invoke(agent, world, "never mind", thread())
    assert (result.text, is_valid(result["messages"])) == ("fine", True)


@both_worlds
def test_B02_the_librarys_own_exception_is_a_result(world):
    @tool
    def fail() -> str:
        """Fail."""
        raise ToolException("not today")

    result = invoke(create_agent(ScriptedModel(call("fail"), "done"), [fail]), world)
    assert (result["messages"][2].text, result["messages"][2].status) == ("not today", "error")


@both_worlds
@pytest.mark.parametrize("name", ["nope", "invalid tool", "", None], ids=repr)
def test_B04_a_tool_that_does_not_exist(world, name):
    """The second turn on the thread is sent a valid history, which the scripted model checks."""
    asks = AIMessage("", tool_calls=[{"name": name, "args": {}, "id": "c1", "type": "tool_call"}])  # type: ignore[typeddict-item]
    model = ScriptedModel(asks, "sorry", "fine", check_tools=False)
    agent = create_agent(model, [look], checkpointer=InMemorySaver())
    first = invoke(agent, world, config=thread())
    assert (first["messages"][2].status, "look" in first["messages"][2].text, first.text) == ("error", True, "sorry")
    assert invoke(agent, world, "again", thread()).text == "fine"


@both_worlds
def test_B06_an_empty_malformed_turn_is_no_answer(world):
    """Asked for once more; a second one ends the run with a reason of its own."""

    def malformed() -> AIMessage:
        return AIMessage(
            "",
            response_metadata={"finish_reason": "MALFORMED_FUNCTION_CALL"},
            usage_metadata={"input_tokens": 5, "output_tokens": 0, "total_tokens": 5},
        )

    good = invoke(create_agent(ScriptedModel(malformed(), "good")), world)
    assert (good.text, good.stop_reason, good.usage["total_tokens"]) == ("good", "answer", 5)
    bad = invoke(create_agent(ScriptedModel(malformed(), malformed())), world)
    assert (bad.stop_reason, bad.final) == ("malformed_turn", None)


@both_worlds
def test_B07_five_calls_with_arguments_that_are_no_object(world):
    ran: list[str] = []

    @tool
    def note(text: str) -> str:
        """Note."""
        ran.append(text)
        return "noted"

    odd: list[Any] = [None, [], "x", 3, True]
    calls: list[Any] = [
        {"name": "note", "args": args, "id": f"c{n}", "type": "tool_call"} for n, args in enumerate(odd)
    ]
    good = call("note", text="good", id="good")
    result = invoke(create_agent(ScriptedModel(AIMessage("", tool_calls=[*calls, good]), "ok"), [note]), world)
    statuses = {m.tool_call_id: m.status for m in result["messages"] if m.type == "tool"}
    assert statuses == {**{f"c{n}": "error" for n in range(5)}, "good": "success"}
    assert (ran, is_valid(result["messages"])) == (["good"], True)


class Span(BaseModel):
    low: int
    high: int

    @model_validator(mode="after")
    def ordered(self) -> Span:
        if self.low > self.high:
            raise ValueError("low must not be above high")
        return self


@both_worlds
def test_B09_the_sentence_of_a_cross_field_validator_reaches_the_model(world):
    @tool(args_schema=Span)
    def between(low: int, high: int, runtime: ToolRuntime | None = None) -> str:
        """Between."""
        return "ok"

    result = invoke(create_agent(ScriptedModel(call("between", low=5, high=1), "done"), [between]), world)
    assert "low must not be above high" in result["messages"][2].text
    assert "runtime" not in result["messages"][2].text


@both_worlds
def test_B11_siblings_of_a_failing_call_are_kept(world):
    ran: list[str] = []

    @tool
    def ok(n: int) -> str:
        """Work."""
        ran.append(f"ok {n}")
        return str(n)

    fails = [True]

    @tool("boom")
    def once() -> str:
        """Fail once."""
        if fails:
            fails.clear()
            raise ValueError("no luck")
        return "luck"

    model = ScriptedModel([call("ok", n=1), call("boom"), call("ok", n=2)], "done")
    agent = create_agent(model, [ok, once], handle_tool_errors=False, checkpointer=InMemorySaver())
    with pytest.raises(ValueError, match="no luck"):
        invoke(agent, world, config=thread())
    assert sorted(one.result is not None for one in agent.get_state(thread()).tasks) == [False, True, True]
    result = invoke(agent, world, None, thread())
    assert ([m.text for m in result["messages"][2:]], sorted(ran)) == (["1", "luck", "2", "done"], ["ok 1", "ok 2"])


@both_worlds
def test_B12_an_error_result_keeps_its_artifact(world):
    @tool
    def fail() -> str:
        """Fail."""
        raise ToolException("slow down", artifact={"code": 429, "retry_after": 3})

    result = invoke(create_agent(ScriptedModel(call("fail"), "done"), [fail]), world)
    assert (result["messages"][2].status, result["messages"][2].artifact) == ("error", {"code": 429, "retry_after": 3})


@both_worlds
def test_B14_arguments_as_the_text_of_an_object(world):
    @tool
    def weather(location: str, celsius: bool = False) -> str:
        """The weather."""
        return f"{location} {celsius}"

    asks: Any = {"name": "weather", "args": '{"location":"Paris","celsius":true}', "id": "c1", "type": "tool_call"}
    result = invoke(create_agent(ScriptedModel(AIMessage("", tool_calls=[asks]), "ok"), [weather]), world)
    assert result["messages"][2].text == "Paris True"


@both_worlds
def test_B22_calls_over_the_limit_all_get_results_and_are_not_counted(world):
    """And the next turn on the thread has its whole allowance."""
    ran: list[str] = []

    @tool("look")
    def count(city: str) -> str:
        """Look."""
        ran.append(city)
        return "sunny"

    three = [call("look", city=city) for city in ("Oslo", "Rome", "Bern")]
    model = ScriptedModel(three, call("look", city="Kiel"), "fine")
    agent = create_agent(model, [count], limits=Limits(tool_calls=1), checkpointer=InMemorySaver())
    first = invoke(agent, world, config=thread())
    assert (first.stop_reason, ran, is_valid(first["messages"])) == ("tool_calls", [], True)
    second = invoke(agent, world, "one then", thread())
    assert (second.text, ran) == ("fine", ["Kiel"])


@both_worlds
def test_B24_a_tool_that_drives_its_own_agent(world):
    """It runs the same agent, on the same thread's name: each run keeps its own pairs."""
    agents: list[Any] = []

    @tool
    def again(runtime: ToolRuntime) -> str:
        """Again."""
        return agents[0].invoke({"messages": "inner"}).text

    def answer(messages: Any) -> Any:
        if messages[-1].text == "hi":
            return [call("again", id="c1"), call("look", city="Oslo", id="c2")]
        return "inner answer" if messages[-1].text == "inner" else "done"

    agents.append(create_agent(ScriptedModel(answer, loop=True), [again, look], checkpointer=InMemorySaver()))
    result = invoke(agents[0], world, config=thread())
    assert [m.text for m in result["messages"]] == ["hi", "", "inner answer", "sunny in Oslo", "done"]
    assert is_valid(invoke(agents[0], world, "more", thread())["messages"])


@both_worlds
def test_B27_a_tool_that_hands_over_is_one_call(world):
    """What a reader sees of it adds up to the history: one item for each call's id."""
    from tests.agents.worlds import stream

    helper = create_agent(ScriptedModel("from the helper", loop=True))

    @tool
    def hand_over(task: str) -> str:
        """Hand over."""
        return helper.invoke({"messages": task}).text

    agent = create_agent(ScriptedModel(use(call("hand_over", task="x", id="c1")), "done"), [hand_over])
    updates = stream(agent, world)
    seen = [m for update in updates for change in update.values() for m in change["messages"]]
    calls = [c["id"] for m in seen if m.type == "ai" for c in m.tool_calls]
    results = [m.tool_call_id for m in seen if m.type == "tool"]
    assert (calls, results) == (["c1"], ["c1"])
    events = stream(
        create_agent(ScriptedModel(use(call("hand_over", task="x", id="c1")), "done"), [hand_over]),
        world,
        stream_mode="events",
    )
    assert [e.id for e in events if type(e).__name__ == "ToolStarted"] == ["c1"]
