"""Hooks around tool calls: what they see, change and give back, and what comes of them."""

from __future__ import annotations

import threading
from typing import Annotated, Any

import pytest

from loopwright.agents import create_agent
from loopwright.agents.middleware import AgentMiddleware, wrap_tool_call
from loopwright.config import get_stream_writer
from loopwright.errors import UsageError
from loopwright.messages import ToolMessage
from loopwright.testing import ScriptedModel, call
from loopwright.tools import InjectedToolArg, tool
from tests.agents.worlds import both_worlds, invoke, stream


def look(city: str) -> str:
    """Look at a city."""
    return f"sunny in {city}"


def boom(x: int = 0) -> str:
    """Fail."""
    raise ValueError("no luck")


def result_of(agent: Any, world: Any, **options: Any) -> Any:
    """The first result message of a run."""
    return next(m for m in invoke(agent, world, **options)["messages"] if m.type == "tool")


# -- hooks around a call --------------------------------------------------------------------------------------------


@both_worlds
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_hook_sees_the_call_and_its_result(world, kind):
    seen: list[Any] = []

    def note(request: Any, result: Any) -> Any:
        seen.append((request.tool_call["args"], request.tool.name, request.runtime.tool_call_id, result.text))
        return result

    @wrap_tool_call
    def watch(request: Any, handler: Any) -> Any:
        return note(request, handler(request))

    @wrap_tool_call
    async def awatch(request: Any, handler: Any) -> Any:
        return note(request, await handler(request))

    model = ScriptedModel(call("look", city="Oslo", id="c1"), "ok")
    result = invoke(create_agent(model, [look], middleware=[watch if kind == "def" else awatch]), world)
    assert (seen, result.text) == ([({"city": "Oslo"}, "look", "c1", "sunny in Oslo")], "ok")


@both_worlds
def test_a_hook_tries_again(world):
    tries: list[int] = []

    @tool
    def flaky() -> str:
        """Fail once."""
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("no answer")
        return "done"

    @wrap_tool_call
    def retry(request: Any, handler: Any) -> Any:
        try:
            return handler(request)
        except ConnectionError:
            return handler(request)

    result = result_of(create_agent(ScriptedModel(call("flaky"), "ok"), [flaky], middleware=[retry]), world)
    assert (result.text, len(tries)) == ("done", 2)


@both_worlds
def test_what_a_hook_lets_through_becomes_a_result(world):
    @wrap_tool_call
    def watch(request: Any, handler: Any) -> Any:
        return handler(request)

    agent = create_agent(ScriptedModel(call("boom"), "ok"), [boom], middleware=[watch])
    assert result_of(agent, world).text == "Tool 'boom' failed: ValueError: no luck"


@both_worlds
def test_what_a_hook_raises_itself_is_raised(world):
    @wrap_tool_call
    def wrong(request: Any, handler: Any) -> Any:
        raise RuntimeError("the hook's own")

    with pytest.raises(RuntimeError, match="the hook's own"):
        invoke(create_agent(ScriptedModel(call("look", city="Oslo")), [look], middleware=[wrong]), world)


@both_worlds
def test_a_hook_answers_in_the_tools_place(world):
    @wrap_tool_call
    def cached(request: Any, handler: Any) -> Any:
        return ToolMessage("cached", tool_call_id=request.tool_call["id"])

    result = result_of(create_agent(ScriptedModel(call("look", city="Oslo"), "ok"), [look], middleware=[cached]), world)
    assert result.text == "cached"


@both_worlds
@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (None, r"is a `return` missing\?"),
        ("text", 'ToolMessage\\("..."'),
        (ToolMessage("x", tool_call_id="other"), "the result of call 'other'"),
    ],
    ids=["nothing", "text", "another call"],
)
def test_a_hook_that_returns_something_else(world, returned, words):
    @wrap_tool_call
    def wrong(request: Any, handler: Any) -> Any:
        return returned

    with pytest.raises(UsageError, match=words):
        invoke(create_agent(ScriptedModel(call("look", city="Oslo")), [look], middleware=[wrong]), world)


@both_worlds
def test_a_hook_changes_the_arguments(world):
    """The message in the history stays what the model said; the result says what was done."""

    @wrap_tool_call
    def to_rome(request: Any, handler: Any) -> Any:
        return handler(request.override(tool_call={**request.tool_call, "args": {"city": "Rome"}}))

    result = invoke(create_agent(ScriptedModel(call("look", city="Oslo"), "ok"), [look], middleware=[to_rome]), world)
    assert (result["messages"][1].tool_calls[0]["args"], result["messages"][2].text) == (
        {"city": "Oslo"},
        "sunny in Rome",
    )


@both_worlds
def test_a_hook_puts_in_a_tool_that_the_agent_does_not_have(world):
    """With a tool for the model to call, as a middleware that finds its tools at run time would."""
    hidden = tool(look)

    @wrap_tool_call
    def find(request: Any, handler: Any) -> Any:
        return handler(request if request.tool else request.override(tool=hidden))

    model = ScriptedModel(call("look", city="Oslo"), "ok", check_tools=False)
    assert result_of(create_agent(model, [boom], middleware=[find]), world).text == "sunny in Oslo"


@both_worlds
def test_a_hook_sees_calls_of_unknown_tools(world):
    seen: list[Any] = []

    @wrap_tool_call
    def watch(request: Any, handler: Any) -> Any:
        seen.append(request.tool)
        return handler(request)

    model = ScriptedModel(call("nope"), "ok", check_tools=False)
    result = result_of(create_agent(model, [look], middleware=[watch]), world)
    assert (seen, result.status) == ([None], "error")


@both_worlds
def test_a_hook_gives_values_that_the_program_owns(world):
    @tool
    def pay(amount: int, account: Annotated[str, InjectedToolArg]) -> str:
        """Pay."""
        return f"{amount} from {account}"

    @wrap_tool_call
    def account(request: Any, handler: Any) -> Any:
        args = {**request.tool_call["args"], "account": "ann's"}
        return handler(request.override(tool_call={**request.tool_call, "args": args}))

    model = ScriptedModel(call("pay", {"amount": 5, "account": "bob's"}), "ok")
    assert result_of(create_agent(model, [pay], middleware=[account]), world).text == "5 from ann's"


@both_worlds
def test_hooks_stand_around_each_other(world):
    order: list[str] = []

    class Named(AgentMiddleware):
        def __init__(self, name: str) -> None:
            self.name = name

        async def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            order.append(f"{self.name} in")
            result = await handler(request)
            order.append(f"{self.name} out")
            return result

    model = ScriptedModel(call("look", city="Oslo"), "ok")
    invoke(create_agent(model, [look], middleware=[Named("a"), Named("b")]), world)
    assert order == ["a in", "b in", "b out", "a out"]


@both_worlds
def test_hooks_of_parallel_calls_run_at_the_same_time(world):
    meet = threading.Barrier(2)

    @wrap_tool_call
    def together(request: Any, handler: Any) -> Any:
        meet.wait(timeout=20)
        return handler(request)

    model = ScriptedModel([call("look", city="Oslo"), call("look", city="Rome")], "ok")
    result = invoke(create_agent(model, [look], middleware=[together]), world)
    assert [m.text for m in result["messages"][2:4]] == ["sunny in Oslo", "sunny in Rome"]


@both_worlds
def test_a_hook_may_write_to_the_stream(world):
    @wrap_tool_call
    def say(request: Any, handler: Any) -> Any:
        get_stream_writer()("before")
        result = handler(request)
        request.runtime.stream_writer("after")
        return result

    @tool
    def work() -> str:
        """Work."""
        get_stream_writer()("working")
        return "done"

    agent = create_agent(ScriptedModel(call("work"), "ok"), [work], middleware=[say])
    assert stream(agent, world, stream_mode="custom") == ["before", "working", "after"]
