"""One story: the facts of a run tell what each stream mode has shown."""

from __future__ import annotations

import asyncio
import operator
from typing import Annotated, Any, TypedDict

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loopwright.checkpoint.memory import InMemorySaver
from loopwright.graph import START, MessagesState, StateGraph
from loopwright.graph.events import AnyEvent, CustomEmitted, Event, MessageChunk
from loopwright.graph.modes import MODES, replay
from loopwright.graph.types import Send
from loopwright.messages import HumanMessage
from loopwright.testing import ScriptedModel, say
from tests.graph.worlds import World, both_worlds, chain, thread

SEVEN = ["values", "updates", "messages", "custom", "checkpoints", "tasks", "debug"]


def story(**options: Any) -> Any:
    """A graph of two nodes, the first of which says something of its own."""

    def a(state: Any, writer: Any) -> dict[str, Any]:
        writer({"at": "a"})
        return {"log": ["a"]}

    return chain(("a", a), "b").compile(checkpointer=InMemorySaver(), **options)


def read(world: World, graph: Any, take: Any, *args: Any, **options: Any) -> None:
    """Read a stream to its end and hand each chunk on as it comes."""
    if type(world) is World:
        for chunk in graph.stream(*args, **options):
            take(chunk)
        return

    async def main() -> None:
        async for chunk in graph.astream(*args, **options):
            take(chunk)

    asyncio.run(main())


# --- one story ------------------------------------------------------------------


class Plain(TypedDict):
    """A state of plain values."""

    log: Annotated[list[Any], operator.add]
    last: Any


plain_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)

Step = st.fixed_dictionaries(
    {
        "says": st.lists(plain_values, max_size=2),
        "writes": st.none() | st.lists(plain_values, max_size=2),
        "sends": st.integers(0, 2),
        "beside": st.booleans(),
        "nested": st.booleans(),
    }
)


def graph_of(steps: list[dict[str, Any]], *, depth: int = 0) -> StateGraph:
    """Steps one after the other: each may talk, write, run beside another node, be a graph or send itself work."""
    builder = StateGraph(Plain)
    before = START
    for number, step in enumerate(steps):
        name = f"n{number}"
        builder.add_node(name, _action(step, steps[:number], depth))
        builder.add_edge(before, name)
        if step["beside"]:
            builder.add_node(f"x{number}", lambda state, writer: writer("x") or {"log": ["x"]}).add_edge(
                before, f"x{number}"
            )
        if step["sends"]:
            builder.add_node(f"s{number}", lambda arg, writer: writer(arg) or {"log": [arg]})
            sends = [Send(f"s{number}", n) for n in range(step["sends"])]
            builder.add_conditional_edges(name, lambda state, sends=sends: sends, [f"s{number}"])
        before = name
    return builder


def _action(step: dict[str, Any], inside: list[dict[str, Any]], depth: int) -> Any:
    if step["nested"] and inside and depth < 2:
        return graph_of(inside, depth=depth + 1).compile()

    def act(state: Any, writer: Any) -> Any:
        for word in step["says"]:
            writer(word)
        return None if step["writes"] is None else {"log": step["writes"], "last": step["says"]}

    return act


@both_worlds
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(Step, min_size=1, max_size=3), subgraphs=st.booleans(), version=st.sampled_from(["v1", "v2"]))
def test_the_facts_tell_what_every_mode_has_shown(world: World, steps, subgraphs, version):
    """`replay(facts, mode) == live(mode)`, also after the facts have been bytes; and the state is that of `invoke`."""
    graph = graph_of(steps).compile(checkpointer=InMemorySaver())
    options: dict[str, Any] = {"subgraphs": subgraphs, "version": version}
    live = world.stream(graph, {"log": []}, thread(), stream_mode=[*SEVEN, "events"], **options)
    place = (lambda chunk: chunk["type"]) if version == "v2" else (lambda chunk: chunk[-2])
    facts: list[Event] = [chunk["data"] if version == "v2" else chunk[-1] for chunk in live if place(chunk) == "events"]
    encoded = msgspec.msgpack.encode(facts)
    decoded = msgspec.msgpack.decode(encoded, type=list[AnyEvent])
    assert decoded == facts
    for mode in SEVEN:
        shown = [chunk for chunk in live if place(chunk) == mode]
        assert list(replay(facts, [mode], **options)) == shown
        assert list(replay(decoded, [mode], **options)) == shown
    assert [fact.seq for fact in facts] == list(range(1, len(facts) + 1))
    states = list(replay(facts, "values"))
    assert world.invoke(graph, {"log": []}, thread("2")) == states[-1]


@both_worlds
def test_tokens_are_facts_of_the_tree_and_shown_by_the_rule_of_namespaces(world: World):
    """`events` has a nested graph's tokens; `messages` has them with subgraphs=True, else the node's message."""
    model = ScriptedModel(say("in side", chunks=["in ", "side"], id="m"), loop=True)
    inner = chain(("ask", model), state=MessagesState).compile()
    graph = chain(("inner", inner), state=MessagesState).compile()
    given = {"messages": [HumanMessage("hi", id="h")]}
    facts = world.stream(graph, given, stream_mode="events")
    assert [fact.chunk.text for fact in facts if isinstance(fact, MessageChunk) and fact.chunk.text] == ["in ", "side"]
    for subgraphs in (False, True):
        live = world.stream(graph, given, stream_mode="messages", subgraphs=subgraphs)
        replayed = list(replay(facts, "messages", subgraphs=subgraphs))
        words = [(chunk[-1] if subgraphs else chunk)[0].text for chunk in live]
        assert words == [(chunk[-1] if subgraphs else chunk)[0].text for chunk in replayed]
        assert [word for word in words if word] == (["in ", "side"] if subgraphs else ["in side"])


def test_every_fact_is_in_a_row_of_the_table():
    kinds = set(AnyEvent.__args__)  # type: ignore
    assert set(MODES["events"]) == kinds
    assert {kind for rows in MODES.values() for kind in rows} == kinds


def test_replay_leaves_out_what_the_mode_does_not_show():
    facts = [CustomEmitted(1, (), "x"), CustomEmitted(2, ("a:1",), "y")]
    assert list(replay(facts, "values")) == []
    assert list(replay(facts, "custom")) == ["x", "y"]
    assert list(replay(iter(facts), "events")) == facts
