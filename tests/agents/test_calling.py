"""Calling tools: what they are given, and what becomes of what they return and raise."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest

from loopwright.agents import AgentState, Limits, create_agent
from loopwright.agents.middleware import wrap_tool_call
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.errors import ToolException, UsageError
from loopwright.messages import AIMessage, HumanMessage, ToolMessage
from loopwright.testing import ManualClock, ScriptedModel, call, use
from loopwright.tools import BaseTool, InjectedState, InjectedToolCallId, ToolRuntime, tool
from loopwright.types import Command
from tests.agents.worlds import both_worlds, invoke, is_valid, shown, stream, thread


def look(city: str) -> str:
    """Look at a city."""
    return f"sunny in {city}"


def boom(x: int = 0) -> str:
    """Fail."""
    raise ValueError("no luck")


def result_of(agent: Any, world: Any, **options: Any) -> Any:
    """The first result message of a run."""
    return next(m for m in invoke(agent, world, **options)["messages"] if m.type == "tool")


# -- failures -------------------------------------------------------------------------------------------------------


@both_worlds
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_an_exception_is_a_result(world, kind):
    @tool("boom")
    async def aboom() -> str:
        """Fail."""
        raise ValueError("no luck")

    model = ScriptedModel(call("boom"), "sorry")
    result = invoke(create_agent(model, [boom if kind == "def" else aboom]), world)
    assert shown(result["messages"])[2:] == [("tool", "Tool 'boom' failed: ValueError: no luck"), ("ai", "sorry")]
    assert (result["messages"][2].status, result.stop_reason) == ("error", "answer")


@both_worlds
@pytest.mark.parametrize(
    ("handle", "words"),
    [
        (True, "Tool 'boom' failed: ValueError: no luck"),
        ("Something went wrong.", "Something went wrong."),
        (ValueError, "Tool 'boom' failed: ValueError: no luck"),
        ((KeyError, ValueError), "Tool 'boom' failed: ValueError: no luck"),
        (lambda error: f"it said {error}", "it said no luck"),
        (False, None),
        (KeyError, None),
    ],
    ids=str,
)
def test_handle_tool_errors(world, handle, words):
    agent = create_agent(ScriptedModel(call("boom"), "sorry"), [boom], handle_tool_errors=handle)
    if words is None:
        with pytest.raises(ValueError, match="no luck"):
            invoke(agent, world)
    else:
        assert result_of(agent, world).text == words


@both_worlds
def test_arguments_that_do_not_fit_are_a_result(world):
    model = ScriptedModel(call("look", town="Oslo"), "sorry")
    result = result_of(create_agent(model, [look]), world)
    assert result.status == "error"
    assert "city" in result.text
    assert "town" in result.text


@both_worlds
def test_a_raising_tool_keeps_the_results_of_its_siblings(world):
    """With errors raised: what has finished is stored, and going on runs only the rest."""
    looks: list[str] = []
    fails = [True]

    @tool("look")
    def count(city: str) -> str:
        """Look."""
        looks.append(city)
        return "sunny"

    @tool("boom")
    def once() -> str:
        """Fail once."""
        if fails:
            fails.clear()
            raise ValueError("no luck")
        return "luck"

    model = ScriptedModel([call("look", city="Oslo"), call("boom"), call("look", city="Rome")], "ok")
    agent = create_agent(model, [count, once], checkpointer=InMemorySaver(), handle_tool_errors=False)
    with pytest.raises(ValueError, match="no luck") as raised:
        invoke(agent, world, config=thread())
    assert is_valid(raised.value.state["messages"])  # type: ignore[attr-defined]
    result = invoke(agent, world, None, thread())
    assert [m.text for m in result["messages"]] == ["hi", "", "sunny", "luck", "sunny", "ok"]
    assert sorted(looks) == ["Oslo", "Rome"]


@both_worlds
def test_control_flow_of_the_interpreter_passes(world):
    class Stop(BaseException):
        pass

    @tool
    def stop() -> str:
        """Stop."""
        raise Stop

    with pytest.raises(Stop):
        invoke(create_agent(ScriptedModel(call("stop")), [stop]), world)


@both_worlds
def test_an_artifact_of_a_failure_is_kept(world):
    @tool
    def fail() -> str:
        """Fail."""
        raise ToolException("not today", artifact={"retry_after": 5})

    result = result_of(create_agent(ScriptedModel(call("fail"), "ok"), [fail]), world)
    assert (result.text, result.artifact, result.status) == ("not today", {"retry_after": 5}, "error")


@both_worlds
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_timeout_of_a_tool_is_a_result(world, kind):
    clock = ManualClock()

    @tool(timeout_s=5)
    def slow() -> str:
        """Take its time."""
        clock.sleep(6)
        return "done"

    @tool("slow", timeout_s=5)
    async def aslow() -> str:
        """Take its time."""
        await clock.asleep(6)
        return "done"

    with clock:
        result = result_of(create_agent(ScriptedModel(call("slow"), "ok"), [slow if kind == "def" else aslow]), world)
    assert (result.status, result.text) == (
        "error",
        "Tool 'slow' failed: TimeoutError: it was not done within 5 s",
    )


# -- what a tool is given -------------------------------------------------------------------------------------------


class Shop(AgentState):
    cart: list[str]


@both_worlds
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_the_runtime_of_a_tool(world, kind):
    seen: list[Any] = []

    @tool
    def see(runtime: ToolRuntime) -> str:
        """See."""
        seen.append(runtime)
        return "seen"

    @tool("see")
    async def asee(runtime: ToolRuntime) -> str:
        """See."""
        seen.append(runtime)
        return "seen"

    model = ScriptedModel(call("see", id="c1"), "ok")
    agent = create_agent(model, [see if kind == "def" else asee], state_schema=Shop, limits=Limits(tool_calls=9))
    config = {"tags": ["t"], "configurable": {"user": "ann"}, "metadata": {"k": 1}}
    invoke(agent, world, {"messages": "hi", "cart": ["tea"]}, config, context={"db": 1})
    (runtime,) = seen
    assert runtime.tool_call_id == "c1"
    assert (runtime.state["cart"], [m.type for m in runtime.state["messages"]]) == (["tea"], ["human", "ai"])
    assert runtime.context == {"db": 1}
    assert (runtime.config["tags"], runtime.config["configurable"]["user"], runtime.config["metadata"]["k"]) == (
        ["t"],
        "ann",
        1,
    )
    assert runtime.budget.remaining().tool_calls == 8
    assert [one.name for one in runtime.tools] == ["see"]
    assert runtime.execution_info["node"] == "tools"
    assert "runtime" not in str(model.requests[0].tools)


@both_worlds
def test_marks_on_parameters(world):
    seen: list[Any] = []

    @tool
    def see(
        cart: Annotated[list[str], InjectedState("cart")],
        state: Annotated[Any, InjectedState],
        call_id: Annotated[str, InjectedToolCallId],
    ) -> str:
        """See."""
        seen.extend([cart, state["cart"], call_id])
        return "seen"

    # What the model sends under an injected name is dropped.
    model = ScriptedModel(call("see", {"cart": ["poison"], "call_id": "x"}, id="c1"), "ok")
    invoke(create_agent(model, [see], state_schema=Shop), world, {"messages": "hi", "cart": ["tea"]})
    assert seen == [["tea"], ["tea"], "c1"]


@both_worlds
def test_a_state_key_that_is_missing_is_the_programs_fault(world):
    @tool
    def see(cart: Annotated[list[str], InjectedState("cart")]) -> str:
        """See."""
        return "seen"

    with pytest.raises(UsageError, match="'cart'"):
        invoke(create_agent(ScriptedModel(call("see")), [see], state_schema=Shop), world)


@both_worlds
def test_a_call_has_a_key_that_stays_when_it_is_made_again(world):
    """A tool that pays passes the key on: whoever gets the same key twice pays once."""
    keys: list[str] = []

    @tool
    def pay(runtime: ToolRuntime) -> str:
        """Pay."""
        keys.append(runtime.idempotency_key)
        if len(keys) < 3:
            raise ConnectionError("no answer")
        return "paid"

    agent = create_agent(
        ScriptedModel(call("pay", id="c1"), call("pay", id="c1"), "ok"),
        [pay],
        checkpointer=InMemorySaver(),
        handle_tool_errors=False,
    )
    with pytest.raises(ConnectionError):
        invoke(agent, world, config=thread())
    with pytest.raises(ConnectionError):
        invoke(agent, world, None, thread())
    invoke(agent, world, None, thread())
    assert keys[0] == keys[1] == keys[2] != ""
    assert len(keys) == 4
    assert keys[3] != keys[0]


@both_worlds
@pytest.mark.parametrize("reading", [False, True], ids=["invoke", "stream"])
def test_a_tool_sees_the_callers_context_variables(world, reading):
    from contextvars import ContextVar

    user: ContextVar[str] = ContextVar("user")
    seen: list[str] = []

    @tool
    def see() -> str:
        """See."""
        seen.append(user.get())
        user.set("mallory")
        return "seen"

    user.set("ann")
    agent = create_agent(ScriptedModel([call("see"), call("see")], call("see"), "ok"), [see])
    if reading:
        stream(agent, world)
    else:
        invoke(agent, world)
    assert (seen, user.get()) == (["ann", "ann", "ann"], "ann")


# -- what a tool returns --------------------------------------------------------------------------------------------


@both_worlds
@pytest.mark.parametrize("form", ["one", "list"])
def test_a_command_changes_the_state(world, form):
    @tool
    def put(item: str, runtime: ToolRuntime) -> Any:
        """Put into the cart."""
        done = ToolMessage("done", tool_call_id=str(runtime.tool_call_id))
        cart = [*runtime.state.get("cart", []), item]
        if form == "one":
            return Command(update={"cart": cart, "messages": [done]})
        return [Command(update={"cart": cart}), done]

    model = ScriptedModel(call("put", item="tea"), call("put", item="milk"), "ok")
    result = invoke(create_agent(model, [put], state_schema=Shop), world)
    assert (result["cart"], [m.text for m in result["messages"]]) == (
        ["tea", "milk"],
        ["hi", "", "done", "", "done", "ok"],
    )


@both_worlds
def test_a_command_without_a_result_is_an_error_result(world):
    @tool
    def put() -> Any:
        """Put."""
        return Command(update={"cart": []})

    result = result_of(create_agent(ScriptedModel(call("put"), "ok"), [put], state_schema=Shop), world)
    assert result.status == "error"
    assert "tool_call_id=runtime.tool_call_id" in result.text


@both_worlds
def test_a_command_may_send_the_run_elsewhere(world):
    @tool
    def finish(runtime: ToolRuntime) -> Any:
        """Finish."""
        return Command(
            goto="__end__", update={"messages": [ToolMessage("bye", tool_call_id=str(runtime.tool_call_id))]}
        )

    result = invoke(create_agent(ScriptedModel(call("finish"), "and on"), [finish]), world)
    assert is_valid(result["messages"])
    assert shown(result["messages"])[2] == ("tool", "bye")


@both_worlds
def test_content_and_artifact(world):
    @tool(response_format="content_and_artifact")
    def search() -> Any:
        """Search."""
        return "two found", [1, 2]

    result = result_of(create_agent(ScriptedModel(call("search"), "ok"), [search]), world)
    assert (result.text, result.artifact) == ("two found", [1, 2])


# -- classes and providers' tools -----------------------------------------------------------------------------------


@both_worlds
def test_a_tool_that_is_a_class(world):
    class Add(BaseTool):
        """Add."""

        name: str = "add"
        step: int = 1

        def _run(self, n: int) -> int:
            return n + self.step

    result = result_of(create_agent(ScriptedModel(call("add", n=1), "ok"), [Add(step=2)]), world)
    assert result.text == "3"


@both_worlds
def test_a_providers_tool_is_not_run_here(world):
    """Its results come with the model's message. If the model calls it all the same, it is told so."""
    model = ScriptedModel(call("web_search"), "ok")
    result = result_of(create_agent(model, [{"type": "web_search", "name": "web_search"}]), world)
    assert result.status == "error"


# -- in a run --------------------------------------------------------------------------------------------------------


@both_worlds
def test_time_that_is_over_ends_a_tool_with_a_result(world):
    """`Limits.seconds`: the call is left, gets a result, and the run ends with the notice."""
    clock = ManualClock()

    @tool
    def slow() -> str:
        """Take its time."""
        clock.sleep(100)
        return "done"

    with clock:
        agent = create_agent(ScriptedModel(call("slow"), "never"), [slow], limits=Limits(seconds=10))
        result = invoke(agent, world)
    assert (result.stop_reason, result["messages"][2].status) == ("seconds", "error")
    assert result["messages"][2].text == "Not finished: the run's time of 10 s is over."
    assert is_valid(result["messages"])


@both_worlds
def test_a_tool_s_own_timeout_is_not_the_end_of_the_run_s_time(world):
    def fetch() -> str:
        """Fetch."""
        raise TimeoutError("no answer from the socket")

    limits = Limits(seconds=1000)
    agent = create_agent(ScriptedModel(call("fetch"), "sorry"), [fetch], limits=limits)
    assert result_of(agent, world).text == "Tool 'fetch' failed: TimeoutError: no answer from the socket"
    strict = create_agent(ScriptedModel(call("fetch")), [fetch], limits=limits, handle_tool_errors=False)
    with pytest.raises(TimeoutError, match="no answer from the socket"):
        invoke(strict, world)


@both_worlds
def test_a_hook_sees_a_tool_s_own_timeout(world):
    seen: list[str] = []

    def fetch() -> str:
        """Fetch."""
        if not seen:
            raise TimeoutError("no answer")
        return "fetched"

    @wrap_tool_call
    async def again(request: Any, handler: Any) -> Any:
        try:
            return await handler(request)
        except TimeoutError as error:
            seen.append(str(error))
            return await handler(request)

    model = ScriptedModel(call("fetch"), "done")
    agent = create_agent(model, [fetch], limits=Limits(seconds=1000), middleware=[again])
    assert (result_of(agent, world).text, seen) == ("fetched", ["no answer"])


@both_worlds
def test_an_answer_of_many_parts_in_the_events(world):
    """What is told of a call that returned a command: that it ended."""

    @tool
    def put(runtime: ToolRuntime) -> Any:
        """Put."""
        return Command(update={"messages": [ToolMessage("done", tool_call_id=str(runtime.tool_call_id))]})

    agent = create_agent(ScriptedModel(use(call("put", id="c1")), "ok"), [put])
    events = [e for e in stream(agent, world, stream_mode="events") if type(e).__name__.startswith("Tool")]
    assert [(type(e).__name__, e.id, e.name) for e in events] == [
        ("ToolStarted", "c1", "put"),
        ("ToolFinished", "c1", "put"),
    ]


@both_worlds
def test_async_tools_of_many_calls_share_one_loop(world):
    """What an async tool keeps open between calls (a session, a pool) stays usable."""
    loops: set[int] = set()

    @tool
    async def where() -> str:
        """Where."""
        loops.add(id(asyncio.get_running_loop()))
        return "here"

    agent = create_agent(ScriptedModel(call("where"), [call("where"), call("where")], "ok"), [where])
    invoke(agent, world)
    assert len(loops) == 1


def test_messages_of_the_state_are_the_tools_to_read_not_to_change():
    """A tool that changes the list it is given changes nothing of the state."""

    @tool
    def spoil(runtime: ToolRuntime) -> str:
        """Spoil."""
        runtime.state["messages"].append(HumanMessage("poison"))
        runtime.state["cart"] = ["poison"]
        return "done"

    result = create_agent(ScriptedModel(call("spoil"), "ok"), [spoil], state_schema=Shop).invoke({"messages": "hi"})
    assert "poison" not in repr(result)
    assert isinstance(result["messages"][-1], AIMessage)
