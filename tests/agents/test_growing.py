"""`stream_mode="structured"`: the newest sound part of an agent's answer, while it comes."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel

from loopwright.agents import create_agent
from loopwright.agents.middleware import wrap_model_call
from loopwright.agents.structured_output import ProviderStrategy, ToolStrategy
from loopwright.chat_models import ChatOpenAI
from loopwright.constants import TAG_NOSTREAM
from loopwright.graph.events import AnswerGrew, AnyEvent, TaskFinished
from loopwright.graph.modes import replay
from loopwright.messages import AIMessageChunk
from loopwright.testing import ScriptedModel, call, say
from tests.agents.worlds import World, both_worlds, invoke, stream
from tests.models.loopback import Answer, Loopback, chat_event
from tests.models.test_partial import called


class Place(BaseModel):
    city: str
    height: int


PIECES = ['{"city": "Os', "lo", '", "height": 2', "3}"]
GROWTH: list[Any] = [{"city": "Os"}, {"city": "Oslo"}, {"city": "Oslo", "height": 23}]
OSLO = Place(city="Oslo", height=23)

by_both_strategies = pytest.mark.parametrize("strategy", [ToolStrategy, ProviderStrategy])


def answering(strategy: Any, pieces: list[str] = PIECES) -> list[AIMessageChunk]:
    """A reply that holds the answer, in pieces."""
    return called("Place", pieces) if strategy is ToolStrategy else [AIMessageChunk(piece) for piece in pieces]


def agent_of(strategy: Any, *script: Any, **options: Any) -> Any:
    model = ScriptedModel(*(script or (answering(strategy),)), loop=True)
    return create_agent(model, response_format=strategy(Place), **options)


@both_worlds
@by_both_strategies
def test_the_answer_grows_and_the_last_one_is_the_schemas_own(world: World, strategy: Any) -> None:
    agent = agent_of(strategy)
    assert stream(agent, world, stream_mode="structured") == [*GROWTH, OSLO]
    assert invoke(agent, world)["structured_response"] == OSLO


@both_worlds
@by_both_strategies
def test_beside_other_modes(world: World, strategy: Any) -> None:
    """All in the order in which it happened; tokens are the same as without it."""
    agent = agent_of(strategy)
    chunks = stream(agent, world, stream_mode=["structured", "messages", "updates"])
    assert [chunk for mode, chunk in chunks if mode == "structured"] == [*GROWTH, OSLO]
    tokens = [chunk[0] for mode, chunk in chunks if mode == "messages" and isinstance(chunk[0], AIMessageChunk)]
    alone = [token for token, _ in stream(agent, world, stream_mode="messages") if isinstance(token, AIMessageChunk)]
    assert [(t.text, t.tool_call_chunks) for t in tokens] == [(t.text, t.tool_call_chunks) for t in alone]
    kinds = [mode for mode, _ in chunks]
    assert kinds.index("messages") < kinds.index("structured") < kinds.index("updates")
    parts = stream(agent, world, stream_mode="structured", version="v2")
    assert parts[0] == {"type": "structured", "ns": (), "data": GROWTH[0]}


@both_worlds
@by_both_strategies
def test_the_facts_tell_it_again(world: World, strategy: Any) -> None:
    """`replay` shows what was shown, also after the facts have been bytes."""
    agent = agent_of(strategy)
    live = stream(agent, world, stream_mode=["structured", "events"], subgraphs=True)
    facts = [fact for _, mode, fact in live if mode == "events"]
    assert list(replay(facts, "structured")) == [chunk for _, mode, chunk in live if mode == "structured"]
    grown = [fact for fact in facts if isinstance(fact, AnswerGrew)]
    assert [(fact.name, fact.value) for fact in grown] == [("Place", value) for value in GROWTH]
    reply = next(fact for fact in facts if isinstance(fact, TaskFinished)).update["messages"][0]
    assert {fact.message_id for fact in grown} == {reply.id}
    stored = msgspec.msgpack.decode(msgspec.msgpack.encode(grown), type=list[AnyEvent])
    assert list(replay(stored, "structured")) == GROWTH


@both_worlds
def test_agents_inside_are_shown_with_subgraphs(world: World) -> None:
    inner = agent_of(ToolStrategy, name="inner")

    def ask(question: str) -> str:
        """Ask the inner agent."""
        return str(inner.invoke({"messages": question})["structured_response"])

    def outer() -> Any:
        return create_agent(
            ScriptedModel(call("ask", question="where?"), answering(ToolStrategy)), [ask], response_format=Place
        )

    assert stream(outer(), world, stream_mode="structured") == [*GROWTH, OSLO]
    below = [(len(path), chunk) for path, chunk in stream(outer(), world, stream_mode="structured", subgraphs=True)]
    assert below == [(1, value) for value in [*GROWTH, OSLO]] + [(0, value) for value in [*GROWTH, OSLO]]


@both_worlds
def test_a_refused_answer_begins_anew(world: World) -> None:
    bad = answering(ToolStrategy, ['{"city": "Rome", "height"', ': "low"}'])
    agent = agent_of(ToolStrategy, bad, answering(ToolStrategy))
    assert stream(agent, world, stream_mode="structured") == [{"city": "Rome"}, *GROWTH, OSLO]


@both_worlds
def test_hooks_may_ask_again_or_give_the_answer(world: World) -> None:
    @wrap_model_call
    def twice(request: Any, handler: Any) -> Any:
        handler(request)
        return handler(request)

    agent = agent_of(ProviderStrategy, middleware=[twice])
    assert stream(agent, world, stream_mode="structured") == [*GROWTH, *GROWTH, OSLO]


@both_worlds
def test_what_comes_as_a_whole_is_shown_as_a_whole(world: World) -> None:
    whole = ScriptedModel(call("Place", city="Oslo", height=23), disable_streaming=True)
    assert stream(create_agent(whole, response_format=ToolStrategy(Place)), world, stream_mode="structured") == [OSLO]
    silent = ScriptedModel(answering(ToolStrategy)).with_config(tags=[TAG_NOSTREAM])
    assert stream(create_agent(silent, response_format=ToolStrategy(Place)), world, stream_mode="structured") == [OSLO]
    assert stream(create_agent(ScriptedModel(say("Oslo.")), []), world, stream_mode="structured") == []


def test_nothing_is_read_for_those_who_do_not_ask() -> None:
    """Other modes have no growth in them, and the code behind it is not run: a reader's error would show it."""
    agent = agent_of(ProviderStrategy)
    for mode in ("values", "updates", "messages", "tasks", "custom"):
        assert not any(chunk == GROWTH[0] for chunk in stream(agent, "sync", stream_mode=mode))


@both_worlds
@by_both_strategies
def test_each_value_is_there_as_soon_as_its_bytes_are(world: World, strategy: Any) -> None:
    """The server sends the next piece when the reader has the value of the one before."""
    gates = [threading.Event() for _ in PIECES[:-2]]
    events: list[Any] = []
    for number, piece in enumerate(PIECES):
        function = {"name": "Place" if number == 0 else None, "arguments": piece}
        delta: dict[str, Any] = {"content": piece}
        if strategy is ToolStrategy:
            delta = {"tool_calls": [{"index": 0, "id": "c1" if number == 0 else None, "function": function}]}
        events.append(chat_event(**delta))
        events += gates[number : number + 1]
    events += [chat_event(finish="tool_calls" if strategy is ToolStrategy else "stop"), b"data: [DONE]\n\n"]
    with Loopback(Answer(headers={"content-type": "text/event-stream"}, pieces=events)) as server:
        model = ChatOpenAI(model="m-1", base_url=server.url, api_key="k", max_retries=0)
        agent = create_agent(model, response_format=strategy(Place))
        opened = iter(gates)

        def take(value: Any) -> Any:
            gate = next(opened, None)
            if gate is not None:
                gate.set()
            return value

        assert read(agent, world, take) == [*GROWTH, OSLO]


def read(agent: Any, world: World, take: Any) -> list[Any]:
    """All values, each given to `take` before the next is asked for."""
    given: Any = {"messages": "where?"}
    if world == "sync":
        return [take(value) for value in agent.stream(given, stream_mode="structured")]

    async def main() -> list[Any]:
        return [take(value) async for value in agent.astream(given, stream_mode="structured")]

    return asyncio.run(main())
