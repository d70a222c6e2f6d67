"""Streams: what each mode shows, when it is shown, and that all of them tell one story."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from loopwright.chat_models import BaseChatModel
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.config import get_stream_writer
from loopwright.errors import UsageError
from loopwright.graph import START, MessagesState, StateGraph
from loopwright.graph.types import Command, GraphOutput, Send
from loopwright.messages import AIMessage, AIMessageChunk, HumanMessage
from loopwright.outputs import ChatGenerationChunk
from loopwright.testing import ManualClock, ScriptedModel, say
from tests.graph.worlds import Log, World, both_worlds, chain, thread

SEVEN = ["values", "updates", "messages", "custom", "checkpoints", "tasks", "debug"]


def story(**options: Any) -> Any:
    """A graph of two nodes, the first of which says something of its own."""

    def a(state: Any, writer: Any) -> dict[str, Any]:
        writer({"at": "a"})
        return {"log": ["a"]}

    return chain(("a", a), "b").compile(checkpointer=InMemorySaver(), **options)


# --- what each shows ------------------------------------------------------------


@both_worlds
def test_values_shows_the_state_after_each_step(world: World):
    assert world.stream(story(), {"log": []}, thread(), stream_mode="values") == [
        {"log": []},
        {"log": ["a"]},
        {"log": ["a", "b"]},
    ]


@both_worlds
def test_values_says_nothing_of_a_step_that_wrote_nothing(world: World):
    graph = chain("a", ("b", lambda state: None), "c").compile()
    assert world.stream(graph, {"log": []}, stream_mode="values") == [{"log": []}, {"log": ["a"]}, {"log": ["a", "c"]}]


@both_worlds
def test_updates_is_the_default_and_shows_what_each_node_returned(world: World):
    graph = chain("a", ("b", lambda state: None), ("c", lambda state: Command(update={"log": ["c"]}))).compile()
    expected = [{"a": {"log": ["a"]}}, {"b": None}, {"c": {"log": ["c"]}}]
    assert world.stream(graph, {"log": []}) == expected
    assert world.stream(graph, {"log": []}, stream_mode="updates") == expected


@both_worlds
def test_updates_shows_what_changes_the_state(world: World):
    """Keys that the state does not know change nothing."""
    graph = chain(
        ("a", lambda state: {}),
        ("b", lambda state: {"unknown": 1}),
        ("c", lambda state: {"unknown": 1, "log": ["c"]}),
        ("d", lambda state: [{"log": [1], "unknown": 1}, {"log": [2]}]),
    ).compile()
    assert world.stream(graph, {"log": []}) == [
        {"a": None},
        {"b": None},
        {"c": {"log": ["c"]}},
        {"d": [{"log": [1]}, {"log": [2]}]},
    ]


@both_worlds
def test_output_keys_narrow_values_and_updates(world: World):
    class State(Log):
        n: int

    def graph(name: str, *nodes: Any) -> Any:
        return chain(*nodes, state=State).compile(name=name)

    inner = graph("inner", ("i", lambda state: {"log": ["i"], "n": 1}))

    def outer(state: Any) -> dict[str, Any]:
        inner.invoke({"log": [], "n": 0})
        return {"n": 2}

    nodes = (("a", lambda state: [{"log": ["a"]}, {"log": ["b"], "n": 1}]), ("outer", outer))
    given = {"log": [], "n": 0}
    assert world.stream(graph("g", *nodes), given, stream_mode="values", output_keys="n") == [0, 1, 2]
    assert world.stream(graph("g", *nodes), given, stream_mode="updates", output_keys=["log"]) == [
        {"a": [{"log": ["a"]}, {"log": ["b"]}]},
        {"outer": None},
    ]
    shown = world.stream(graph("g", *nodes), given, stream_mode="updates", output_keys="n", subgraphs=True)
    assert [update for _, update in shown] == [{"a": [1]}, {"i": {"log": ["i"], "n": 1}}, {"outer": 2}]
    assert world.invoke(graph("g", *nodes), given, stream_mode="updates", output_keys="n")[-1] == {"outer": 2}


@both_worlds
@pytest.mark.parametrize("modes", [["updates", "tasks"], ["tasks", "updates"]])
def test_updates_come_before_the_end_of_the_task(world: World, modes):
    shown = world.stream(chain("a").compile(), {"log": []}, stream_mode=modes)
    assert [mode for mode, _ in shown] == ["tasks", "updates", "tasks"]


@both_worlds
def test_messages_of_several_updates_are_shown_with_the_ids_they_are_kept_with(world: World):
    graph = chain(
        ("a", lambda state: [{"messages": [AIMessage("1")]}, {"messages": [AIMessage("2")]}]), state=MessagesState
    ).compile()
    shown, state = world.stream(graph, {"messages": []}, stream_mode=["updates", "values"])[-2:]
    assert [update["messages"][0].id for update in shown[1]["a"]] == [m.id for m in state[1]["messages"]]


@both_worlds
def test_tasks_have_the_metadata_and_tags_of_the_caller_and_no_other_keys_of_the_config(world: World):
    builder = StateGraph(Log).add_node("a", lambda state: None, metadata={"k": 1}).add_edge(START, "a")
    config = {"metadata": {"m": 2}, "tags": ["t"], "configurable": {"api_key": "secret"}}
    begun = world.stream(builder.compile(), {"log": []}, config, stream_mode="tasks")[0]
    assert begun["metadata"] == {"k": 1, "m": 2, "tags": ["t"]}


@both_worlds
def test_tokens_have_the_metadata_of_the_caller_and_no_other_keys_of_the_config(world: World):
    graph = chain(("a", lambda state: {"messages": [AIMessage("hi")]}), state=MessagesState).compile()
    config = {"metadata": {"m": 2}, "configurable": {"thread_id": "1", "api_key": "secret"}}
    ((_, metadata),) = world.stream(graph, {"messages": []}, config, stream_mode="messages")
    assert (metadata["m"], metadata["thread_id"], "api_key" in metadata) == (2, "1", False)


@both_worlds
def test_custom_shows_what_was_written(world: World):
    assert world.stream(story(), {"log": []}, thread(), stream_mode="custom") == [{"at": "a"}]


@both_worlds
def test_tasks_shows_the_beginning_and_the_end_of_each(world: World):
    shown = world.stream(story(), {"log": []}, thread(), stream_mode="tasks")
    ids = [chunk["id"] for chunk in shown]
    assert ids[0] == ids[1] != ids[2] == ids[3]
    assert [{key: value for key, value in chunk.items() if key != "id"} for chunk in shown] == [
        {"name": "a", "input": {"log": []}, "triggers": ("branch:to:a",), "metadata": {}},
        {"name": "a", "error": None, "result": {"log": ["a"]}, "interrupts": []},
        {"name": "b", "input": {"log": ["a"]}, "triggers": ("branch:to:b",), "metadata": {}},
        {"name": "b", "error": None, "result": {"log": ["b"]}, "interrupts": []},
    ]


@both_worlds
def test_tasks_shows_what_was_sent_and_what_failed(world: World):
    def work(arg: Any) -> None:
        raise ValueError(arg)

    builder = StateGraph(Log).add_node("work", work, metadata={"k": 1})
    graph = builder.add_conditional_edges(START, lambda state: [Send("work", 7)], ["work"]).compile()
    shown: list[Any] = []
    with pytest.raises(ValueError, match="7"):
        shown += world.stream(graph, {"log": []}, stream_mode=["tasks", "updates"])
    assert shown == []
    first = world.first(graph, {"log": []}, stream_mode=["tasks", "updates"], count=2)
    (_, begun), (_, ended) = first
    assert (begun["input"], begun["triggers"], begun["metadata"]) == (7, ("__pregel_push",), {"k": 1})
    assert (ended["error"], ended["result"]) == ("ValueError(7)", {})


@both_worlds
def test_checkpoints_shows_what_was_saved(world: World):
    graph = story()
    shown = world.stream(graph, {"log": []}, {**thread(tenant="acme")}, stream_mode="checkpoints")
    history = world.history(graph, thread())[::-1]
    assert [chunk["config"] for chunk in shown] == [state.config for state in history]
    assert [chunk["parent_config"] for chunk in shown] == [state.parent_config for state in history]
    assert [chunk["values"] for chunk in shown] == [{"log": []}, {"log": []}, {"log": ["a"]}, {"log": ["a", "b"]}]
    assert [chunk["next"] for chunk in shown] == [["__start__"], ["a"], ["b"], []]
    assert [chunk["metadata"] for chunk in shown] == [state.metadata for state in history]
    assert [[task["name"] for task in chunk["tasks"]] for chunk in shown] == [["__start__"], ["a"], ["b"], []]


@both_worlds
def test_debug_shows_tasks_and_checkpoints_with_their_steps(world: World):
    with ManualClock():
        shown = world.stream(story(), {"log": []}, thread(), stream_mode=["tasks", "checkpoints", "debug"])
    debug = [chunk for mode, chunk in shown if mode == "debug"]
    assert [(chunk["type"], chunk["step"]) for chunk in debug] == [
        ("checkpoint", -1),
        ("checkpoint", 0),
        ("task", 1),
        ("task_result", 1),
        ("checkpoint", 1),
        ("task", 2),
        ("task_result", 2),
        ("checkpoint", 2),
    ]
    assert {chunk["timestamp"] for chunk in debug} == {"2001-09-09T01:46:40+00:00"}
    assert [chunk["payload"] for chunk in debug] == [chunk for mode, chunk in shown if mode != "debug"]


@both_worlds
def test_events_shows_the_facts_themselves(world: World):
    facts = world.stream(story(), {"log": []}, {**thread(), "run_id": "r"}, stream_mode="events")
    assert [type(fact).__name__ for fact in facts] == [
        "RunStarted",
        "CheckpointSaved",
        "StepCommitted",
        "CheckpointSaved",
        "TaskStarted",
        "CustomEmitted",
        "TaskFinished",
        "StepCommitted",
        "CheckpointSaved",
        "TaskStarted",
        "TaskFinished",
        "StepCommitted",
        "CheckpointSaved",
        "RunFinished",
    ]
    assert [fact.seq for fact in facts] == list(range(1, len(facts) + 1))
    assert {fact.path for fact in facts} == {()}
    assert (facts[0].run_id, facts[0].thread_id, facts[0].input) == ("r", "1", {"log": []})
    assert (facts[-1].stop_reason, facts[-1].usage) == (None, None)


@both_worlds
def test_messages_shows_tokens_and_whole_messages_that_had_none(world: World):
    def ask(state: Any) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"]), ("ai", "typed"), HumanMessage("mine", id="h")]}

    model = ScriptedModel(say("one two", chunks=["one ", "two"]), loop=True)
    graph = chain(("ask", ask), state=MessagesState).compile()
    shown = world.stream(graph, {"messages": "hi"}, stream_mode="messages")
    assert [(type(message).__name__, message.text) for message, _ in shown if message.text] == [
        ("AIMessageChunk", "one "),
        ("AIMessageChunk", "two"),
        ("AIMessage", "typed"),
        ("HumanMessage", "mine"),
    ]


# --- how they are asked for -----------------------------------------------------


@both_worlds
def test_a_list_of_modes_gives_pairs(world: World):
    assert world.stream(story(), {"log": []}, thread(), stream_mode=["values", "custom"]) == [
        ("values", {"log": []}),
        ("custom", {"at": "a"}),
        ("values", {"log": ["a"]}),
        ("values", {"log": ["a", "b"]}),
    ]
    assert world.stream(story(), {"log": []}, thread(), stream_mode=["custom"]) == [("custom", {"at": "a"})]
    assert world.stream(story(), {"log": []}, thread(), stream_mode=[]) == []


@both_worlds
def test_version_2_gives_parts(world: World):
    parts = world.stream(story(), {"log": []}, thread(), stream_mode=["values", "custom"], version="v2")
    assert parts == [
        {"type": "values", "ns": (), "data": {"log": []}, "interrupts": ()},
        {"type": "custom", "ns": (), "data": {"at": "a"}},
        {"type": "values", "ns": (), "data": {"log": ["a"]}, "interrupts": ()},
        {"type": "values", "ns": (), "data": {"log": ["a", "b"]}, "interrupts": ()},
    ]
    assert world.stream(story(), {"log": []}, thread(), stream_mode="custom", version="v2") == [parts[1]]
    assert world.invoke(story(), {"log": []}, thread(), version="v2") == GraphOutput({"log": ["a", "b"]})


@both_worlds
def test_subgraphs_puts_the_namespace_in_front(world: World):
    assert world.stream(story(), {"log": []}, thread(), stream_mode="custom", subgraphs=True) == [((), {"at": "a"})]
    two = world.stream(story(), {"log": []}, thread(), stream_mode=["custom", "updates"], subgraphs=True)
    assert two[0] == ((), "custom", {"at": "a"})


@both_worlds
def test_invoke_with_a_mode_gives_what_stream_yields(world: World):
    assert world.invoke(story(), {"log": []}, thread(), stream_mode="custom") == [{"at": "a"}]
    assert world.invoke(story(), {"log": []}, thread(), stream_mode=["custom"]) == [("custom", {"at": "a"})]


@both_worlds
@pytest.mark.parametrize("mode", ["token", "tokens", "value", ""])
def test_a_mode_that_does_not_exist(world: World, mode):
    words = "The modes are 'values', 'updates', 'messages', 'structured', 'custom', 'checkpoints', 'tasks', "
    words += "'debug', 'events'"
    with pytest.raises(UsageError, match=f"stream_mode='{mode}' does not exist. {words}") as caught:
        world.stream(story(), {"log": []}, thread(), stream_mode=mode)
    assert ('stream_mode="messages"' in str(caught.value)) == mode.startswith("token")
    with pytest.raises(UsageError, match="does not exist"):
        world.stream(story(), {"log": []}, thread(), stream_mode=["values", mode])


@both_worlds
def test_checkpoints_of_a_graph_that_saves_none(world: World):
    graph = chain("a").compile()
    for modes in ("checkpoints", ["checkpoints", "tasks"]):
        with pytest.raises(UsageError, match='stream_mode="checkpoints" needs a checkpointer'):
            world.stream(graph, {"log": []}, stream_mode=modes)
    assert [chunk["type"] for chunk in world.stream(graph, {"log": []}, stream_mode="debug")] == ["task", "task_result"]


@both_worlds
def test_print_mode_prints_beside_what_is_returned(world: World, capsys: pytest.CaptureFixture[str]):
    assert world.invoke(story(), {"log": []}, thread(), print_mode="updates") == {"log": ["a", "b"]}
    assert capsys.readouterr().out == "[updates] {'a': {'log': ['a']}}\n[updates] {'b': {'log': ['b']}}\n"
    shown = world.stream(story(), {"log": []}, thread(), stream_mode="custom", print_mode=["values", "custom"])
    assert shown == [{"at": "a"}]
    assert capsys.readouterr().out.splitlines()[:3] == [
        "[values] {'log': []}",
        "[custom] {'at': 'a'}",
        "[values] {'log': ['a']}",
    ]


@both_worlds
def test_a_graph_compiled_for_debugging_prints(world: World, capsys: pytest.CaptureFixture[str]):
    for ask in (world.invoke, world.stream):
        ask(story(debug=True), {"log": []}, thread())
        assert capsys.readouterr().out.count("[debug] {'step'") == 8


@both_worlds
@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("mode", [*SEVEN, "events"])
def test_B64_the_final_state_is_the_same_whatever_the_mode(world: World, mode, version):
    """Two messages without ids in one step: each gets one of its own, and the caller's are not changed."""
    returned = [AIMessage("one"), AIMessage("two")]
    graph = chain(("a", lambda state: {"messages": returned}), state=MessagesState).compile(
        checkpointer=InMemorySaver()
    )
    world.stream(graph, {"messages": [HumanMessage("hi")]}, thread(), stream_mode=mode, version=version)
    messages = world.state(graph, thread()).values["messages"]
    assert [(m.type, m.text) for m in messages] == [("human", "hi"), ("ai", "one"), ("ai", "two")]
    assert len({m.id for m in messages}) == 3
    assert [m.id for m in returned] == [None, None]


@both_worlds
def test_B71_old_messages_are_not_told_of_again(world: World):
    """A history of four, and a node that returns all of it with one answer in three tokens."""

    def ask(state: Any) -> dict[str, Any]:
        return {"messages": [*state["messages"], model.invoke(state["messages"])]}

    model = ScriptedModel(say("a b c", chunks=["a ", "b ", "c"]), loop=True)
    graph = chain(("ask", ask), state=MessagesState).compile(checkpointer=InMemorySaver())
    history = [HumanMessage("1"), AIMessage("2"), HumanMessage("3"), AIMessage("4")]
    given = {"messages": [*history, HumanMessage("5")]}
    for turn in range(2):
        tokens = [
            m
            for m, _ in world.stream(graph, given if turn == 0 else {"messages": "6"}, thread(), stream_mode="messages")
        ]
        assert "".join(token.text for token in tokens) == "a b c"
        assert {type(token) for token in tokens} == {AIMessageChunk}
        last = world.state(graph, thread()).values["messages"][-1]
        assert {token.id for token in tokens} == {last.id}
    model.loop = False


@both_worlds
def test_B71_a_model_that_cannot_stream_is_told_of_once(world: World):
    class Whole(BaseChatModel):
        def _generate(self, messages: Any, stop: Any = None, **kwargs: Any) -> str:
            return "whole"

    def ask(state: Any) -> dict[str, Any]:
        return {"messages": [Whole().invoke(state["messages"])]}

    graph = chain(("ask", ask), state=MessagesState).compile(checkpointer=InMemorySaver())
    shown = world.stream(graph, {"messages": "hi"}, thread(), stream_mode="messages")
    assert [message.text for message, _ in shown if message.text] == ["whole"]
    assert shown[0][0].id == world.state(graph, thread()).values["messages"][-1].id


# --- when they come -------------------------------------------------------------


class Slowly(BaseChatModel):
    """A model that makes a token only when it is asked for the next."""

    asked: list[str] = []
    asynchronous: bool = False

    def _generate(self, messages: Any, stop: Any = None, **kwargs: Any) -> str:
        raise AssertionError("it was to stream")

    def _stream(self, messages: Any, stop: Any = None, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        for word in ("a", "b", "c"):
            self.asked.append(f"asked {word}")
            yield ChatGenerationChunk(message=AIMessageChunk(word))


class SlowlyAsync(Slowly):
    async def _astream(self, messages: Any, stop: Any = None, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        for word in ("a", "b", "c"):
            self.asked.append(f"asked {word}")
            yield ChatGenerationChunk(message=AIMessageChunk(word))


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


@both_worlds
@pytest.mark.parametrize("model_class", [Slowly, SlowlyAsync])
@pytest.mark.parametrize("node", ["plain", "coroutine", "model", "nested"])
def test_each_token_is_delivered_before_the_next_is_asked_for(world: World, model_class, node):
    log: list[str] = []
    model = model_class()
    model.asked = log

    def plain(state: Any) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    async def coroutine(state: Any) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    action = {"plain": plain, "coroutine": coroutine, "model": model}.get(node)
    if action is None:
        action = chain(("inner", coroutine), state=MessagesState).compile()
    graph = chain(("node", action), state=MessagesState).compile()
    read(
        world,
        graph,
        lambda chunk: log.append(f"got {chunk[1][0].text}"),
        {"messages": "hi"},
        stream_mode="messages",
        subgraphs=True,
    )
    assert [entry for entry in log if entry != "got "] == ["asked a", "got a", "asked b", "got b", "asked c", "got c"]


@both_worlds
@pytest.mark.parametrize("kind", ["plain", "coroutine", "thread", "child task", "nested"])
def test_B69_what_is_written_arrives_while_its_node_still_runs(world: World, kind):
    """From wherever it is written: the reader has it before the node ends."""
    arrived = threading.Event()

    def wait_for_reader() -> None:
        assert arrived.wait(5)
        arrived.clear()

    def plain(state: Any, writer: Any) -> None:
        for n in range(3):
            writer(n)
            wait_for_reader()

    async def coroutine(state: Any) -> None:
        writer = get_stream_writer()
        for n in range(3):
            writer(n)
            await asyncio.to_thread(wait_for_reader)

    def from_thread(state: Any, writer: Any) -> None:
        helper = threading.Thread(target=plain, args=(state, writer))
        helper.start()
        helper.join()

    async def in_child(state: Any) -> None:
        await asyncio.create_task(coroutine(state))

    inner = chain(("inner", coroutine)).compile()
    nodes = {"plain": plain, "coroutine": coroutine, "thread": from_thread, "child task": in_child, "nested": inner}
    got: list[Any] = []

    def take(chunk: Any) -> None:
        got.append(chunk)
        arrived.set()

    read(world, chain(("node", nodes[kind])).compile(), take, {"log": []}, stream_mode="custom")
    assert got == [0, 1, 2]


@both_worlds
def test_updates_of_parallel_nodes_come_as_they_end(world: World):
    """`a` waits until the reader has seen that `b` has ended."""
    seen = threading.Event()
    builder = StateGraph(Log)
    builder.add_node("a", lambda state: (seen.wait(5) and None) or {"log": [seen.is_set()]})
    builder.add_node("b", lambda state: {"log": ["b"]}).add_edge(START, "a").add_edge(START, "b")
    got: list[Any] = []

    def take(chunk: Any) -> None:
        got.append(chunk)
        seen.set()

    read(world, builder.compile(), take, {"log": []})
    assert got == [{"b": {"log": ["b"]}}, {"a": {"log": [True]}}]


@both_worlds
def test_a_writer_kept_after_its_run_writes_nowhere(world: World):
    kept: list[Any] = []
    graph = chain(("a", lambda state, writer: kept.append(writer))).compile()
    assert world.stream(graph, {"log": []}, stream_mode="custom") == []
    kept[0]("late")
    world.invoke(graph, {"log": []})
    kept[1]("to nobody")


@both_worlds
@pytest.mark.parametrize("count", [1, 2, 3])
def test_leaving_early_stops_the_run(world: World, count):
    """What runs is stopped in good order: its cleanup has run when the loop is left, and no later node begins."""
    log: list[str] = []

    async def talk(state: Any, writer: Any) -> None:
        try:
            for n in range(3):
                writer(n)
                await asyncio.sleep(0)
        finally:
            log.append("cleaned")

    graph = chain(("talk", talk), ("never", lambda state: log.append("never"))).compile()
    assert world.first(graph, {"log": []}, stream_mode=["custom"], count=count) == [("custom", n) for n in range(count)]
    assert "never" not in log or count == 3


def test_a_stream_that_is_never_read_runs_nothing():
    node = []
    graph = chain(("a", node.append)).compile()
    graph.stream({"log": []})
    stream = graph.stream({"log": []})
    del stream

    async def main() -> None:
        graph.astream({"log": []})

    asyncio.run(main())
    assert node == []


@both_worlds
def test_an_error_comes_after_what_was_shown_before_it(world: World):
    def bad(state: Any, writer: Any) -> None:
        writer("before")
        raise ValueError("then")

    got: list[Any] = []
    with pytest.raises(ValueError, match="then"):
        read(world, chain("a", ("bad", bad)).compile(), got.append, {"log": []}, stream_mode=["updates", "custom"])
    assert got == [("updates", {"a": {"log": ["a"]}}), ("custom", "before")]
