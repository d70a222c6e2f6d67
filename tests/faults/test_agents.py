"""Faults reported of other libraries: structured answers, limits, middleware and threads, end to end in an agent."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel, Field

from loopwright.agents import AgentState, Limits, create_agent
from loopwright.agents.middleware import before_agent, before_model, wrap_model_call, wrap_tool_call
from loopwright.agents.structured_output import MissingStructuredOutputError, ToolStrategy
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.errors import GraphBubbleUp, GraphRecursionError, UnstorableError, UsageError
from loopwright.messages import AIMessage
from loopwright.testing import ScriptedModel, call
from loopwright.tools import ToolRuntime, tool
from loopwright.types import Command
from tests.agents.worlds import both_worlds, invoke, is_valid, thread


def look(city: str) -> str:
    """Look at a city."""
    return f"sunny in {city}"


# -- structured answers, limits -------------------------------------------------------------------------------------


class Rating(BaseModel):
    stars: int = Field(ge=1, le=5)


@both_worlds
def test_B104_words_in_place_of_a_structured_answer(world):
    """Asked once more, then an error with a name: never a result without the key."""
    model = ScriptedModel("plain text", "still plain", "never")
    with pytest.raises(MissingStructuredOutputError):
        invoke(create_agent(model, response_format=ToolStrategy(Rating)), world)
    assert model.left == 1


@both_worlds
def test_B106_a_value_that_fails_the_schema(world):
    model = ScriptedModel(call("Rating", stars=10), call("Rating", stars=5))
    result = invoke(create_agent(model, response_format=ToolStrategy(Rating)), world)
    assert result["structured_response"] == Rating(stars=5)


@both_worlds
@pytest.mark.parametrize("limit", [9, 10, 11])
def test_B107_the_recursion_limit(world, limit):
    """The same error at odd and even steps; what was reached is saved, and the thread goes on."""
    model = ScriptedModel(lambda messages: call("look", city=str(len(messages))), loop=True)
    agent = create_agent(model, [look], checkpointer=InMemorySaver())
    with pytest.raises(GraphRecursionError):
        invoke(agent, world, config=thread(recursion_limit=limit))
    assert len(agent.get_state(thread()).values["messages"]) == limit + 1
    model._script[:] = ["done"]
    result = invoke(agent, world, None, thread())
    assert (result.text, is_valid(result["messages"])) == ("done", True)


@both_worlds
def test_B109_a_forced_last_answer_does_not_lift_the_limit(world):
    """The model calls tools even when it has none: it is not asked a third time."""
    model = ScriptedModel(call("look", city="Oslo"), loop=True, check_tools=False)
    agent = create_agent(model, [look], limits=Limits(model_calls=3, repeats=None), on_limit="answer")
    result = invoke(agent, world)
    assert (result.stop_reason, len(model.requests), is_valid(result["messages"])) == ("model_calls", 4, True)


# -- middleware -----------------------------------------------------------------------------------------------------


class Pause(GraphBubbleUp):
    """Stands for every signal that passes through hooks."""


@both_worlds
@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize("where", ["tool", "model", "hook inside"])
def test_B36_hooks_that_catch_every_exception_let_signals_pass(world, kind, where):
    tries: list[str] = []

    def raise_pause() -> Any:
        tries.append(where)
        raise Pause

    @tool
    def ask() -> str:
        """Ask."""
        return raise_pause()

    def retry(request: Any, handler: Any) -> Any:
        for _ in range(3):
            try:
                return handler(request)
            except Exception:  # noqa: BLE001 - what is tested
                continue
        return AIMessage("failed")

    async def aretry(request: Any, handler: Any) -> Any:
        for _ in range(3):
            try:
                return await handler(request)
            except Exception:  # noqa: BLE001 - what is tested
                continue
        return AIMessage("failed")

    function = retry if kind == "def" else aretry
    hooks: list[Any] = [(wrap_tool_call if where == "tool" else wrap_model_call)(function)]
    if where == "hook inside":
        hooks.append(wrap_model_call(name="inner")(lambda request, handler: raise_pause()))
    model = ScriptedModel(call("ask") if where == "tool" else lambda messages: raise_pause())
    with pytest.raises(Pause):
        invoke(create_agent(model, [ask], middleware=hooks), world)
    assert len(tries) == 1


class Noted(AgentState):
    value: Any


@both_worlds
def test_B111_what_the_first_hook_wrote_is_saved(world):
    @before_agent(state_schema=Noted)
    def first(state: Any, runtime: Any) -> Any:
        return {"value": 1}

    agent = create_agent(ScriptedModel("ok"), middleware=[first], checkpointer=InMemorySaver())
    invoke(agent, world, config=thread())
    assert agent.get_state(thread()).values["value"] == 1


# -- what a thread holds --------------------------------------------------------------------------------------------


class Order:
    """Where the enum is found."""

    class Size(enum.Enum):
        """One of its sizes."""

        SMALL = "s"


@dataclass
class Cart:
    items: list[str]
    total: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.total = len(self.items)


def kept(value: Any, world: Any) -> Any:
    """A value that a tool puts into the state, as the next turn of the thread finds it."""

    @tool
    def put(runtime: ToolRuntime) -> Any:
        """Put."""
        from loopwright.messages import ToolMessage

        done = ToolMessage("done", tool_call_id=str(runtime.tool_call_id))
        return Command(update={"value": value, "messages": [done]})

    agent = create_agent(
        ScriptedModel(call("put"), "ok", "next"),
        [put],
        state_schema=Noted,
        checkpointer=InMemorySaver(types=[Order.Size, Cart]),
    )
    invoke(agent, world, config=thread())
    return invoke(agent, world, "next", thread())["value"]


@both_worlds
def test_B114_a_nested_enum_in_a_thread(world):
    assert kept(Order.Size.SMALL, world) is Order.Size.SMALL


@both_worlds
def test_B116_a_field_that_init_does_not_take_in_a_thread(world):
    assert kept(Cart(["tea"]), world) == Cart(["tea"])


@both_worlds
def test_B119_what_cannot_be_stored_stays_out_of_the_store(world):
    """Values of the run, a connection say, reach the tools and are never written."""
    db = object()
    seen: list[Any] = []

    @tool
    def use_it(runtime: ToolRuntime) -> str:
        """Use it."""
        config: Any = runtime.config
        seen.extend([config["configurable"]["db"], runtime.context["db"]])
        return "used"

    agent = create_agent(ScriptedModel(call("use_it"), "ok"), [use_it], checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1", "db": db}}
    invoke(agent, world, config=config, context={"db": db})
    assert seen == [db, db]
    assert "db" not in (agent.get_state(thread()).metadata or {})


@both_worlds
def test_B119_what_cannot_be_stored_in_the_state_is_told_with_its_place(world):
    with pytest.raises(UnstorableError, match=r'state\["value"\]\["db"\]'):
        kept({"db": object()}, world)


@both_worlds
def test_B121_data_that_looks_like_an_object_stays_data(world):
    data = {"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {"command": "true"}}
    assert kept(data, world) == data
    agent = create_agent(ScriptedModel("ok", "ok"), checkpointer=InMemorySaver())
    invoke(agent, world, {"messages": [{"role": "user", "content": "hi", "additional_kwargs": data}]}, thread())
    assert invoke(agent, world, "again", thread())["messages"][0].additional_kwargs == data


@both_worlds
def test_B126_a_missing_thread_id_is_told_before_the_model_is_asked(world):
    model = ScriptedModel("never")
    with pytest.raises(UsageError, match="thread_id"):
        invoke(create_agent(model, checkpointer=InMemorySaver()), world)
    assert model.requests == []


def test_B127_a_thread_grows_with_what_was_said():
    """Twice the turns take about twice the space, tool rounds included."""
    saver = InMemorySaver()
    answers: Any = lambda messages: call("look", city="Oslo") if messages[-1].type == "human" else "x" * 1000
    agent = create_agent(ScriptedModel(answers, loop=True), [look], checkpointer=saver)
    sizes: list[int] = []
    for turn in range(80):
        agent.invoke({"messages": "and then?"}, thread())
        if turn in (39, 79):
            sizes.append(saver.size_report()["bytes"])
    assert sizes[1] / sizes[0] < 2.5


@both_worlds
def test_B42_an_error_after_a_node_wrote_leaves_its_routing_to_do(world):
    """The hook that decides where to go fails once: going on asks it again."""
    fails = [True]

    @before_model(can_jump_to=["end"])
    def decide(state: Any, runtime: Any) -> Any:
        if fails:
            fails.clear()
            raise LookupError("once")
        return {"jump_to": "end", "messages": [AIMessage("closed")]}

    model = ScriptedModel("never")
    agent = create_agent(model, middleware=[decide], checkpointer=InMemorySaver())
    with pytest.raises(LookupError):
        invoke(agent, world, config=thread())
    result = invoke(agent, world, None, thread())
    assert (result.text, result.stop_reason, model.left) == ("closed", "jump", 1)
