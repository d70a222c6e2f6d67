"""Faults reported of other libraries: streamed pieces and stream modes, end to end in an agent."""

from __future__ import annotations

from typing import Any

import pytest

from loopwright.agents import create_agent
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.messages import AIMessage, AIMessageChunk
from loopwright.testing import ScriptedModel, call, say
from loopwright.tools import tool
from tests.agents.worlds import both_worlds, invoke, is_valid, shown, stream, thread

both_ways = pytest.mark.parametrize("reading", [False, True], ids=["invoke", "stream"])


def tcc(name: Any, args: Any, id: Any, index: Any) -> AIMessageChunk:
    piece: Any = {"name": name, "args": args, "id": id, "index": index, "type": "tool_call_chunk"}
    return AIMessageChunk(tool_call_chunks=[piece])


class Counted:
    """A tool that counts its calls, under several names."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def named(self, *names: str) -> list[Any]:
        def make(name: str) -> Any:
            @tool(name)
            def counted(x: int | None = None, city: str | None = None) -> str:
                """Work."""
                self.calls.append((name, x, city))
                return f"{name} done"

            return counted

        return [make(name) for name in names]


def messages_of(pieces: list[Any], tools: list[Any], world: Any, *, reading: bool) -> list[Any]:
    """The final messages of an agent whose model says these pieces and then `ok`."""
    agent = create_agent(ScriptedModel(pieces, "ok", check_tools=False), tools)
    if reading:
        return stream(agent, world, stream_mode=["messages", "values"])[-1][1]["messages"]
    return invoke(agent, world)["messages"]


@both_worlds
@both_ways
def test_B52_one_index_and_two_ids_are_two_calls(world, reading):
    counted = Counted()
    pieces = [tcc("a", "{}", "id1", 0), tcc("b", "{}", "id2", 0)]
    messages = messages_of(pieces, counted.named("a", "b"), world, reading=reading)
    assert sorted(name for name, *_ in counted.calls) == ["a", "b"]
    assert is_valid(messages)


@both_worlds
@both_ways
def test_B54_empty_arguments_are_decided_at_the_end(world, reading):
    counted = Counted()
    pieces = [tcc("f", "", "c1", 0), tcc(None, '{"x":1}', None, 0), tcc("g", "", "c2", 1), tcc(None, "", None, 1)]
    messages_of(pieces, counted.named("f", "g"), world, reading=reading)
    assert sorted(counted.calls) == [("f", 1, None), ("g", None, None)]


@both_worlds
@both_ways
def test_B56_finished_calls_in_a_piece_are_run(world, reading):
    counted = Counted()
    done: Any = [call("w", city="SF", id="1"), call("w", city="Boston", id="2")]
    pieces = [AIMessageChunk("Looking."), AIMessageChunk("", tool_calls=done)]
    messages_of(pieces, counted.named("w"), world, reading=reading)
    assert sorted(city for _, _, city in counted.calls) == ["Boston", "SF"]


@both_worlds
def test_B57_every_piece_can_be_told_to_its_call(world):
    """By its index; and no piece is called invalid before the end."""
    pieces = [tcc("f", "", "c1", 0), *[tcc(None, part, None, 0) for part in ('{"x"', ":", "1}")]]
    agent = create_agent(ScriptedModel(pieces, "ok"), Counted().named("f"))
    seen = [c for c, _ in stream(agent, world, stream_mode="messages") if isinstance(c, AIMessageChunk)]
    told = [piece["index"] for chunk in seen for piece in chunk.tool_call_chunks]
    assert (told, [chunk.invalid_tool_calls for chunk in seen if chunk.invalid_tool_calls]) == ([0, 0, 0, 0], [])


@both_worlds
@both_ways
def test_B62_a_call_that_is_said_twice_runs_once(world, reading):
    counted = Counted()
    again: Any = [call("f", x=1, id="c1")]
    pieces = [tcc("f", '{"x":1}', "c1", 0), AIMessageChunk("", tool_calls=again)]
    messages = messages_of(pieces, counted.named("f"), world, reading=reading)
    assert (counted.calls, is_valid(messages)) == ([("f", 1, None)], True)


@both_worlds
@both_ways
def test_B72_text_before_a_call_does_not_end_the_run(world, reading):
    counted = Counted()
    pieces = [AIMessageChunk("Creating…"), tcc("f", '{"x":1}', "c1", 0)]
    messages = messages_of(pieces, counted.named("f"), world, reading=reading)
    assert shown(messages)[1:] == [("ai", "Creating…"), ("tool", "f done"), ("ai", "ok")]
    assert len(counted.calls) == 1


@both_worlds
def test_B21_calls_before_text_make_the_same_history_streamed_and_whole(world):
    """One message of the model; the next turn is sent the same either way."""
    pieces = [tcc("f", "{}", "call_abc", 0), AIMessageChunk("Let me check the weather.")]
    whole = AIMessage("Let me check the weather.", tool_calls=[call("f", id="call_abc")])
    sent: list[Any] = []
    for first in (pieces, whole):
        model = ScriptedModel(first, "72F", "next")
        agent = create_agent(model, Counted().named("f"), checkpointer=InMemorySaver())
        stream(agent, world, config=thread(), stream_mode="messages")
        invoke(agent, world, "and tomorrow?", thread())
        sent.append([(m.type, m.text, getattr(m, "tool_calls", None)) for m in model.requests[-1].messages])
    assert sent[0] == sent[1]


@both_worlds
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_B67_tokens_of_an_agent_inside_another(world, kind):
    """The rule: hidden without `subgraphs`, there with their namespace with it."""
    inner = create_agent(ScriptedModel(say(chunks=["in", "ner"]), loop=True))

    @tool
    def ask() -> str:
        """Ask."""
        return inner.invoke({"messages": "?"}).text

    @tool("ask")
    async def aask() -> str:
        """Ask."""
        return (await inner.ainvoke({"messages": "?"})).text

    def agent() -> Any:
        return create_agent(ScriptedModel(call("ask"), "ok"), [ask if kind == "def" else aask])

    flat = stream(agent(), world, stream_mode="messages")
    assert [c.text for c, _ in flat if isinstance(c, AIMessageChunk) and c.text] == ["ok"]
    deep = stream(agent(), world, stream_mode="messages", subgraphs=True)
    assert [(bool(ns), c.text) for ns, (c, _) in deep if isinstance(c, AIMessageChunk) and c.text] == [
        (True, "in"),
        (True, "ner"),
        (False, "ok"),
    ]


@both_worlds
def test_B71_tokens_are_exactly_the_new_answer(world):
    agent = create_agent(ScriptedModel("one", "two", say(chunks=["th", "re", "e"])), checkpointer=InMemorySaver())
    for question in ("a", "b"):
        invoke(agent, world, question, thread())
    tokens = [c for c, _ in stream(agent, world, "c", thread(), stream_mode="messages") if c.text]
    final = agent.get_state(thread()).values["messages"][-1]
    assert [c.text for c in tokens] == ["th", "re", "e"]
    assert {c.id for c in tokens} == {final.id}
