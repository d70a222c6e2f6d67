"""Hooks in an agent: every kind in both worlds, written in every way; order, updates, jumps, state, tools."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from loopwright.agents import AgentState, create_agent
from loopwright.agents.middleware import (
    AgentMiddleware,
    PrivateStateAttr,
    after_agent,
    after_model,
    before_agent,
    before_model,
    hook_config,
    wrap_model_call,
    wrap_tool_call,
)
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.errors import UsageError
from loopwright.messages import AIMessage, HumanMessage, RemoveMessage
from loopwright.testing import ScriptedModel, call
from loopwright.tools import tool
from loopwright.types import Command
from tests.agents.worlds import World, both_worlds, invoke, is_valid, shown, stream, thread

NODE_HOOKS = ("before_agent", "before_model", "after_model", "after_agent")
WRAP_HOOKS = ("wrap_model_call", "wrap_tool_call")
DECORATORS: dict[str, Any] = {
    "before_agent": before_agent,
    "before_model": before_model,
    "after_model": after_model,
    "after_agent": after_agent,
    "wrap_model_call": wrap_model_call,
    "wrap_tool_call": wrap_tool_call,
}


def look(city: str) -> str:
    """Look at a city."""
    return f"sunny in {city}"


def one_round() -> ScriptedModel:
    return ScriptedModel(call("look", city="Oslo"), "ok")


# -- every kind, written in every way -------------------------------------------------------------------------------


def hook_of(kind: str, way: str, log: list[str]) -> Any:
    """A middleware with one hook that notes that it ran, and in which of its forms."""
    wraps = kind in WRAP_HOOKS

    def plain(self: Any, first: Any, second: Any) -> Any:
        log.append("plain")
        return second(first) if wraps else None

    async def coro(self: Any, first: Any, second: Any) -> Any:
        log.append("coro")
        return await second(first) if wraps else None

    members = {
        "def": {kind: plain},
        "async def": {kind: coro},
        "a-prefixed": {f"a{kind}": coro},
        "pair": {kind: plain, f"a{kind}": coro},
    }
    if way in members:
        return type("Hook", (AgentMiddleware,), members[way])()
    decorator = DECORATORS[kind]
    if way == "decorated def":

        @decorator
        def hook(first: Any, second: Any) -> Any:
            return plain(None, first, second)

        return hook

    @decorator
    async def ahook(first: Any, second: Any) -> Any:
        return await coro(None, first, second)

    return ahook


EXPECTED: dict[tuple[str, World], str] = {
    ("def", "sync"): "plain",
    ("def", "async"): "plain",
    ("async def", "sync"): "coro",
    ("async def", "async"): "coro",
    ("a-prefixed", "sync"): "coro",
    ("a-prefixed", "async"): "coro",
    ("pair", "sync"): "plain",
    ("pair", "async"): "coro",
    ("decorated def", "sync"): "plain",
    ("decorated def", "async"): "plain",
    ("decorated async def", "sync"): "coro",
    ("decorated async def", "async"): "coro",
}
TIMES = {
    "before_agent": 1,
    "before_model": 2,
    "after_model": 2,
    "after_agent": 1,
    "wrap_model_call": 2,
    "wrap_tool_call": 1,
}


@pytest.mark.parametrize("kind", [*NODE_HOOKS, *WRAP_HOOKS])
@pytest.mark.parametrize(("way", "world"), EXPECTED)
@pytest.mark.parametrize("reading", [False, True], ids=["invoke", "stream"])
def test_every_hook_in_every_way(kind, way, world, reading):
    log: list[str] = []
    agent = create_agent(one_round(), [look], middleware=[hook_of(kind, way, log)])
    if reading:
        texts = [m.text for m in stream(agent, world, stream_mode="values")[-1]["messages"]]
    else:
        texts = [m.text for m in invoke(agent, world)["messages"]]
    assert texts == ["hi", "", "sunny in Oslo", "ok"]
    assert log == [EXPECTED[way, world]] * TIMES[kind]


@both_worlds
def test_the_order_of_all_hooks(world):
    order: list[str] = []

    class Traced(AgentMiddleware):
        def __init__(self, name: str) -> None:
            self.name = name

        def before_agent(self, state: Any, runtime: Any) -> None:
            order.append(f"{self.name} before_agent")

        async def before_model(self, state: Any, runtime: Any) -> None:
            order.append(f"{self.name} before_model")

        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            order.append(f"{self.name} model in")
            response = handler(request)
            order.append(f"{self.name} model out")
            return response

        async def after_model(self, state: Any, runtime: Any) -> None:
            order.append(f"{self.name} after_model")

        async def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            order.append(f"{self.name} tool in")
            response = await handler(request)
            order.append(f"{self.name} tool out")
            return response

        def after_agent(self, state: Any, runtime: Any) -> None:
            order.append(f"{self.name} after_agent")

    invoke(create_agent(one_round(), [look], middleware=[Traced("a"), Traced("b")]), world)
    ask = [
        "a before_model",
        "b before_model",
        "a model in",
        "b model in",
        "b model out",
        "a model out",
        "b after_model",
        "a after_model",
    ]
    assert order == [
        "a before_agent",
        "b before_agent",
        *ask,
        "a tool in",
        "b tool in",
        "b tool out",
        "a tool out",
        *ask,
        "b after_agent",
        "a after_agent",
    ]


@both_worlds
def test_one_middleware_serves_many_agents_and_runs(world):
    class Count(AgentMiddleware):
        def __init__(self) -> None:
            self.calls = 0

        def before_model(self, state: Any, runtime: Any) -> None:
            self.calls += 1

    count = Count()
    for _ in range(2):
        agent = create_agent(ScriptedModel("a", "b"), middleware=[count])
        invoke(agent, world)
        invoke(agent, world)
    assert count.calls == 4


# -- updates --------------------------------------------------------------------------------------------------------


class Counted(AgentState):
    rounds: int


@both_worlds
@pytest.mark.parametrize("kind", NODE_HOOKS)
@pytest.mark.parametrize("form", ["dict", "command"])
def test_a_hook_changes_the_state(world, kind, form):
    @DECORATORS[kind](state_schema=Counted)
    def count(state: Any, runtime: Any) -> Any:
        update = {"rounds": state.get("rounds", 0) + 1}
        return update if form == "dict" else Command(update=update)

    assert invoke(create_agent(one_round(), [look], middleware=[count]), world)["rounds"] == TIMES[kind]


@both_worlds
def test_a_hook_that_returns_what_is_no_update(world):
    @before_model
    def wrong(state: Any, runtime: Any) -> Any:
        return "text"

    with pytest.raises(UsageError, match=r"wrong\.before_model.*returned str"):
        invoke(create_agent(ScriptedModel(), middleware=[wrong]), world)


@both_worlds
def test_a_hook_removes_messages(world):
    """What is removed is gone from the thread, not only from what is sent."""

    @before_model
    def trim(state: Any, runtime: Any) -> Any:
        old = state["messages"][:-1]
        return {"messages": [RemoveMessage(id=m.id) for m in old]}

    model = ScriptedModel("one", "two")
    agent = create_agent(model, middleware=[trim], checkpointer=InMemorySaver())
    invoke(agent, world, "first", thread())
    assert shown(invoke(agent, world, "second", thread())["messages"]) == [("human", "second"), ("ai", "two")]
    assert shown(model.requests[1].messages) == [("human", "second")]


@both_worlds
def test_a_hook_replaces_the_models_message(world):
    @after_model
    def polite(state: Any, runtime: Any) -> Any:
        last = state["messages"][-1]
        return {"messages": [last.model_copy(update={"content": last.text + ", please"})]}

    result = invoke(create_agent(ScriptedModel("wait"), middleware=[polite]), world)
    assert (result.text, len(result["messages"])) == ("wait, please", 2)


@both_worlds
def test_a_hook_that_returns_the_whole_state_changes_nothing(world):
    """As nodes in many examples do: `state["messages"].append(...)` and `return state`."""

    @before_model
    def append(state: Any, runtime: Any) -> Any:
        if len(state["messages"]) == 1:
            state["messages"].append(HumanMessage("and be brief"))
        return state

    result = invoke(create_agent(one_round(), [look], middleware=[append]), world)
    assert [m.text for m in result["messages"]] == ["hi", "and be brief", "", "sunny in Oslo", "ok"]


@both_worlds
def test_an_error_in_a_hook_is_raised(world):
    @after_model
    def wrong(state: Any, runtime: Any) -> Any:
        raise LookupError("the hook's own")

    agent = create_agent(one_round(), [look], middleware=[wrong], checkpointer=InMemorySaver())
    with pytest.raises(LookupError, match="the hook's own") as raised:
        invoke(agent, world, config=thread())
    assert is_valid(raised.value.state["messages"])  # type: ignore[attr-defined]


@both_worlds
def test_half_of_a_pair_that_a_hook_removes(world):
    """A trim that cuts between a call and its result: what is sent and what is kept is valid."""

    @before_model
    def trim(state: Any, runtime: Any) -> Any:
        return {"messages": [RemoveMessage(id=m.id) for m in state["messages"][1:-1]]}

    result = invoke(create_agent(one_round(), [look], middleware=[trim]), world)
    assert shown(result["messages"]) == [("human", "hi"), ("ai", "ok")]


@both_worlds
def test_a_message_that_a_hook_puts_between_a_call_and_its_result(world):
    """The call is run, and its result goes right after it."""

    @after_model
    def note(state: Any, runtime: Any) -> Any:
        return {"messages": [HumanMessage("note")]} if state["messages"][-1].tool_calls else None

    model = one_round()
    result = invoke(create_agent(model, [look], middleware=[note]), world)
    assert [m.text for m in result["messages"]] == ["hi", "", "sunny in Oslo", "note", "ok"]
    assert [m.text for m in model.requests[1].messages] == ["hi", "", "sunny in Oslo", "note"]


@both_worlds
def test_half_of_a_pair_that_a_request_leaves_out(world):
    @wrap_model_call
    async def last(request: Any, handler: Any) -> Any:
        return await handler(request.override(messages=request.messages[-1:]))

    model = one_round()
    result = invoke(create_agent(model, [look], middleware=[last]), world)
    assert ([len(request.messages) for request in model.requests], result.text) == ([1, 0], "ok")


# -- jumps ----------------------------------------------------------------------------------------------------------


@both_worlds
@pytest.mark.parametrize("kind", ["before_agent", "before_model", "after_model"])
@pytest.mark.parametrize("form", ["dict", "command", "class"])
def test_a_jump_to_the_end(world, kind, form):
    def leave(state: Any, runtime: Any) -> Any:
        update = {"jump_to": "end", "messages": [AIMessage("We are closed.")]}
        return Command(update=update) if form == "command" else update

    if form == "class":
        method = hook_config(can_jump_to=["end"])(lambda self, state, runtime: leave(state, runtime))
        hook: Any = type("Closed", (AgentMiddleware,), {kind: method})()
    else:
        hook = DECORATORS[kind](can_jump_to=["end"])(leave)
    model = ScriptedModel("never")
    ended: list[str] = []

    @after_agent
    def last(state: Any, runtime: Any) -> None:
        ended.append("after_agent")

    result = invoke(create_agent(model, middleware=[last, hook]), world)
    assert (result.stop_reason, result.text) == ("jump", "We are closed.")
    assert (model.left, ended) == (0 if kind == "after_model" else 1, ["after_agent"])
    assert "jump_to" not in result


@both_worlds
def test_a_jump_to_the_end_leaves_a_valid_history(world):
    """The model has asked for a tool, the hook ends the run: the call gets a result."""

    @after_model(can_jump_to=["end"])
    def stop(state: Any, runtime: Any) -> Any:
        return {"jump_to": "end"}

    agent = create_agent(
        ScriptedModel(call("look", city="Oslo"), "ok"), [look], middleware=[stop], checkpointer=InMemorySaver()
    )
    result = invoke(agent, world, config=thread())
    assert (result.stop_reason, is_valid(result["messages"])) == ("jump", True)
    assert is_valid(agent.get_state(thread()).values["messages"])


@both_worlds
def test_a_jump_to_the_model(world):
    """For another try; the hooks before the model run again."""
    before: list[int] = []

    @before_model
    def see(state: Any, runtime: Any) -> None:
        before.append(len(state["messages"]))

    @after_model(can_jump_to=["model"])
    def better(state: Any, runtime: Any) -> Any:
        if state["messages"][-1].text == "poor":
            return {"jump_to": "model", "messages": [HumanMessage("better")]}
        return None

    result = invoke(create_agent(ScriptedModel("poor", "good"), middleware=[see, better]), world)
    assert ([m.text for m in result["messages"]], before) == (["hi", "poor", "better", "good"], [1, 3])
    assert result.stop_reason == "answer"


@both_worlds
def test_a_jump_to_the_model_from_the_end(world):
    tries: list[int] = []

    @after_agent(can_jump_to=["model"])
    def again(state: Any, runtime: Any) -> Any:
        tries.append(1)
        return {"jump_to": "model", "messages": [HumanMessage("more")]} if len(tries) < 3 else None

    result = invoke(create_agent(ScriptedModel("one", "two", "three"), middleware=[again]), world)
    assert (result.text, len(tries), result.stop_reason) == ("three", 3, "answer")


@both_worlds
def test_a_jump_to_the_tools(world):
    """A hook writes the model's turn itself."""

    @before_model(can_jump_to=["tools"])
    def first_look(state: Any, runtime: Any) -> Any:
        if len(state["messages"]) > 1:
            return None
        asks = AIMessage("", tool_calls=[call("look", city="Oslo", id="c1")])
        return {"jump_to": "tools", "messages": [asks]}

    result = invoke(create_agent(ScriptedModel("ok"), [look], middleware=[first_look]), world)
    assert [m.text for m in result["messages"]] == ["hi", "", "sunny in Oslo", "ok"]


@both_worlds
@pytest.mark.parametrize("kind", ["before_model", "after_model"])
def test_a_jump_to_the_tools_without_calls(world, kind):
    """There is nothing to run: it does not hang and it does not fail, the run ends with the jump."""

    @DECORATORS[kind](can_jump_to=["tools"])
    def jump(state: Any, runtime: Any) -> Any:
        return {"jump_to": "tools"}

    result = invoke(create_agent(ScriptedModel("ok"), [look], middleware=[jump]), world)
    assert (result.stop_reason, is_valid(result["messages"])) == ("jump", True)


@both_worlds
@pytest.mark.parametrize("form", ["dict", "command"])
def test_a_jump_that_was_not_declared_is_ignored(world, form):
    @before_model(state_schema=Counted)
    def jump(state: Any, runtime: Any) -> Any:
        update = {"jump_to": "end", "rounds": 1}
        return update if form == "dict" else Command(update=update)

    result = invoke(create_agent(ScriptedModel("ok"), middleware=[jump]), world)
    assert (result.text, result["rounds"]) == ("ok", 1)


@both_worlds
def test_a_jump_to_nowhere(world):
    @before_model(can_jump_to=["end"])
    def jump(state: Any, runtime: Any) -> Any:
        return {"jump_to": "nowhere"}

    with pytest.raises(UsageError, match=r"jump_to='nowhere'; targets are 'tools', 'model', 'end'"):
        invoke(create_agent(ScriptedModel(), middleware=[jump]), world)


@both_worlds
def test_a_jump_is_over_after_one_step(world):
    """The first hook jumps back to the model once; the state keeps no trace of it."""
    jumps: list[int] = []

    @after_model(can_jump_to=["model", "end"])
    def once(state: Any, runtime: Any) -> Any:
        jumps.append(1)
        return {"jump_to": "model"} if len(jumps) == 1 else None

    result = invoke(create_agent(ScriptedModel("one", "two"), middleware=[once]), world)
    assert ([m.text for m in result["messages"]], len(jumps)) == (["hi", "one", "two"], 2)


# -- state schemas and tools of their own ---------------------------------------------------------------------------


@both_worlds
def test_a_middleware_brings_tools(world):
    @tool
    def note(text: str) -> str:
        """Note."""
        return f"noted {text}"

    class Notes(AgentMiddleware):
        tools = (note,)

    model = ScriptedModel(call("note", text="x"), "ok")
    result = invoke(create_agent(model, [look], middleware=[Notes()]), world)
    assert (model.requests[0].tool_names, result["messages"][2].text) == (["note", "look"], "noted x")


@both_worlds
def test_a_decorated_hook_brings_tools_and_state(world):
    class Noted(AgentState):
        notes: list[str]

    @tool
    def note(text: str) -> Any:
        """Note."""
        return "noted"

    @before_agent(state_schema=Noted, tools=[note])
    def begin(state: Any, runtime: Any) -> Any:
        return {"notes": ["begun"]}

    result = invoke(create_agent(ScriptedModel(call("note", text="x"), "ok"), middleware=[begin]), world)
    assert (result["notes"], result["messages"][2].text) == (["begun"], "noted")


@both_worlds
def test_private_keys_of_a_middleware(world):
    class Secret(AgentState):
        token: Annotated[str, PrivateStateAttr]

    seen: list[Any] = []

    class Keep(AgentMiddleware):
        state_schema = Secret

        def before_agent(self, state: Any, runtime: Any) -> Any:
            return {"token": "t"}

        def after_agent(self, state: Any, runtime: Any) -> None:
            seen.append(state["token"])

    agent = create_agent(ScriptedModel("ok", "ok"), middleware=[Keep()], checkpointer=InMemorySaver())
    result = invoke(agent, world, {"messages": "hi", "token": "mine"}, thread())
    assert (seen, "token" in result, agent.get_state(thread()).values["token"]) == (["t"], False, "t")
    assert all("token" not in chunk for chunk in stream(agent, world, config=thread(), stream_mode="values"))


@both_worlds
def test_state_of_a_hook_is_saved(world):
    """Also when only a first hook writes it (B111 as users met it)."""

    @before_agent(state_schema=Counted)
    def begin(state: Any, runtime: Any) -> Any:
        return {"rounds": state.get("rounds", 0) + 1}

    agent = create_agent(ScriptedModel("a", "b"), middleware=[begin], checkpointer=InMemorySaver())
    invoke(agent, world, config=thread())
    assert agent.get_state(thread()).values["rounds"] == 1
    assert invoke(agent, world, config=thread())["rounds"] == 2
