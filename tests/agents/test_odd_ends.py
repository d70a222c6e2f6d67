"""Small things at the edges of a run: broken characters, ids that were used, calls that were cut off."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, TypedDict

import pytest

from loopwright.agents import AgentState, create_agent
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.errors import InvalidUpdateError, RunCancelled, UsageError
from loopwright.graph import StateGraph
from loopwright.messages import (
    AIMessage,
    HumanMessage,
    ToolMessage,
    convert_to_openai_messages,
    count_tokens_approximately,
)
from loopwright.testing import ScriptedModel, call
from loopwright.tools import ToolRuntime, tool
from loopwright.types import Command
from tests.agents.worlds import World, both_worlds, invoke, is_valid, shown, stream, thread


async def join(old: Any, new: Any) -> Any:
    """A reducer that would have to be awaited."""
    return new


class Joined(TypedDict):
    """A state with such a key."""

    items: Annotated[list[str], join]


CALL = {"name": "act", "args": {}, "id": "c1", "type": "tool_call"}


@both_worlds
def test_half_of_a_surrogate_pair_ends_no_run(world: World):
    """In what the user says, in arguments, in what a tool returns; read whole or in pieces, kept or not."""

    @tool
    def act(x: str) -> str:
        """Act."""
        return f"acted on {x}"

    reply = AIMessage("\ud83d", tool_calls=[{**CALL, "args": {"x": "\ud800"}}])
    agent = create_agent(ScriptedModel(reply, "done", reply, "done"), [act], checkpointer=InMemorySaver())
    assert invoke(agent, world, "hi \udc00", thread()).text == "done"
    assert stream(agent, world, "hi \udc00", thread(), stream_mode=["messages", "events"])
    assert count_tokens_approximately([reply]) > 0
    assert convert_to_openai_messages([reply])[0]["tool_calls"][0]["function"]["name"] == "act"


@both_worlds
def test_a_reply_under_an_id_that_is_taken_gets_another(world: World):
    agent = create_agent(ScriptedModel(AIMessage("yes", id="m1")), [])
    result = invoke(agent, world, {"messages": [HumanMessage("hi", id="m1")]})
    assert shown(result["messages"]) == [("human", "hi"), ("ai", "yes")]


def test_a_call_that_was_cancelled_while_it_ran_may_have_had_effects():
    """Calls beside it that had their turn later were not run, and are told so."""

    @tool
    def act() -> str:
        """Act."""
        raise RunCancelled

    calls = [CALL, {**CALL, "id": "c2"}]
    agent = create_agent(ScriptedModel(AIMessage("", tool_calls=calls)), [act], checkpointer=InMemorySaver())
    with pytest.raises(RunCancelled):
        agent.invoke({"messages": "hi"}, {**thread(), "max_concurrency": 1})
    messages = agent.get_state(thread()).values["messages"]
    assert is_valid(messages)
    assert ["may have had effects" in message.text for message in messages[2:]] == [True, False]


def test_an_async_reducer_is_refused_when_the_graph_is_made():
    with pytest.raises(UsageError, match="The reducer of state key 'items' is async"):
        StateGraph(Joined)


@both_worlds
@pytest.mark.parametrize("handled", [ValueError, (ValueError, KeyError)], ids=str)
def test_a_wrong_use_of_the_library_is_no_value_error_of_the_tool(world: World, handled: Any):
    @tool
    def act() -> Any:
        """Act."""
        return Command(update={})

    model = ScriptedModel(AIMessage("", tool_calls=[CALL]), "done")
    with pytest.raises(InvalidUpdateError, match="needs exactly one"):
        invoke(create_agent(model, [act], handle_tool_errors=handled), world)


@both_worlds
def test_an_update_is_an_input_for_a_new_thread(world: World):
    agent = create_agent(ScriptedModel("done"), [], checkpointer=InMemorySaver())
    result = invoke(agent, world, Command(update={"messages": [("user", "hi")]}), thread())
    assert shown(result["messages"]) == [("human", "hi"), ("ai", "done")]


def test_a_cancelled_task_says_so_under_asyncio():
    begun = asyncio.Event()

    @tool
    async def act() -> str:
        """Act."""
        begun.set()
        await asyncio.Event().wait()
        return "never"

    agent = create_agent(ScriptedModel(AIMessage("", tool_calls=[CALL])), [act], checkpointer=InMemorySaver())

    async def main() -> None:
        running = asyncio.ensure_future(agent.ainvoke({"messages": "hi"}, thread()))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())
    assert "may have had effects" in agent.get_state(thread()).values["messages"][2].text


def pay() -> str:
    """Pay."""
    return "paid"


@both_worlds
@pytest.mark.parametrize("durability", ["sync", "async", "exit", None])
def test_a_call_that_raised_is_not_called_not_run(world: World, durability: Any):
    @tool
    def ship() -> str:
        """Ship."""
        raise ConnectionError("down")

    script = ScriptedModel([call("pay"), call("ship")], "fine")
    saver = None if durability is None else InMemorySaver()
    agent = create_agent(script, [pay, ship], handle_tool_errors=False, checkpointer=saver)
    options = {} if durability is None else {"durability": durability}
    with pytest.raises(ConnectionError) as raised:
        invoke(agent, world, config=thread(), **options)
    words = ["paid", "It is not known whether this call ran to its end: it may have had effects"]
    said = raised.value.state["messages"][2:]  # type: ignore[attr-defined]
    assert [text.partition(",")[0] for _, text in shown(said)] == words
    if saver is not None:
        said = invoke(agent, world, "again", thread(), **options)["messages"][2:4]
        assert [text.partition(",")[0] for _, text in shown(said)] == words


def refuse(old: Any, new: Any) -> Any:
    """A reducer that takes one value only."""
    if new != "fine":
        raise RuntimeError("not that")
    return new


class Plain(AgentState):
    """A key that two cannot write, and one whose reducer raises."""

    k: str
    picky: Annotated[str, refuse]


@both_worlds
@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize(("key", "values"), [("k", ["a", "b"]), ("picky", ["fine", "wrong"])])
def test_results_of_calls_outlive_a_step_that_cannot_be_joined(world: World, key: str, values: list[str], kept: bool):
    @tool
    def put(value: str, runtime: ToolRuntime) -> Command[Any]:
        """Put."""
        result = ToolMessage(f"put {value}", tool_call_id=runtime.tool_call_id or "")
        return Command(update={key: value, "messages": [result]})

    script = ScriptedModel([call("pay"), *(call("put", value=value) for value in values)], "fine")
    saver = InMemorySaver() if kept else None
    agent = create_agent(script, [pay, put], state_schema=Plain, checkpointer=saver)
    with pytest.raises((InvalidUpdateError, RuntimeError)) as raised:
        invoke(agent, world, config=thread())
    state: Any = raised.value.state  # type: ignore[attr-defined]
    results = ["paid", *(f"put {value}" for value in values)]
    assert ([m.text for m in state["messages"][2:]], state.get(key)) == (results, "fine" if key == "picky" else None)
    if kept:
        assert results == [m.text for m in invoke(agent, world, "again", thread())["messages"][2:-2]]
