"""Graphs inside of graphs: as a node, called by a node's function, with readers and threads of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from loopwright.checkpoint.memory import InMemorySaver
from loopwright.config import get_config
from loopwright.errors import InvalidUpdateError, UsageError
from loopwright.graph import END, START, CompiledStateGraph, MessagesState, StateGraph
from loopwright.graph.runtime import Runtime
from loopwright.graph.types import Command, Send
from loopwright.testing import ScriptedModel, say
from tests.graph.worlds import Asyncio, Log, World, both_worlds, chain, thread


def tells(state: Any, writer: Any) -> dict[str, Any]:
    writer("inner")
    return {"log": ["inner"]}


def as_node(inner: CompiledStateGraph) -> Any:
    return inner


def in_function(inner: CompiledStateGraph) -> Any:
    return lambda state: inner.invoke({"log": []})


def in_coroutine(inner: CompiledStateGraph) -> Any:
    async def call(state: Any) -> Any:
        return await inner.ainvoke({"log": []})

    return call


ways = pytest.mark.parametrize("way", [as_node, in_function, in_coroutine])
"""Three ways to run a graph inside of another."""


@both_worlds
@ways
@pytest.mark.parametrize("deep", [1, 2, 4])
def test_a_graph_inside(world: World, way: Callable[..., Any], deep):
    graph = chain("core").compile()
    for _ in range(deep):
        graph = chain(("in", way(graph))).compile()
    copies = deep + 1 if way is as_node else 0  # a graph as a node gives back its whole state, to be added
    assert world.invoke(graph, {"log": []}) == {"log": ["core"]}
    assert world.invoke(graph, {"log": [1]})["log"].count(1) == (copies or 1)
    assert world.stream(graph, {"log": []}, stream_mode="values")[-1] == {"log": ["core"]}


@both_worlds
@ways
def test_one_reader_for_the_whole_tree(world: World, way):
    """Namespaces only with `subgraphs=True`; what was written shows always."""
    graph = chain("a", ("in", way(chain(("core", tells)).compile()))).compile()
    plain = world.stream(graph, {"log": []}, stream_mode=["updates", "custom"])
    assert [mode for mode, _ in plain] == ["updates", "custom", "updates"]
    deep = world.stream(graph, {"log": []}, stream_mode=["updates", "custom"], subgraphs=True)
    paths = [path for path, _, _ in deep]
    assert paths[0] == paths[3] == ()
    (name,) = {path[0].partition(":")[0] for path in paths[1:3]}
    assert (name, paths[1], [chunk for _, _, chunk in deep[1:3]]) == (
        "in",
        paths[2],
        ["inner", {"core": {"log": ["inner"]}}],
    )


@both_worlds
def test_paths_name_each_task_on_the_way(world: World):
    places: list[str] = []

    def look(state: Any) -> dict[str, Any]:
        config: Any = get_config()
        places.append(config["configurable"]["checkpoint_ns"])
        return {"log": [1]}

    graph = chain(("out", chain(("mid", chain(("core", look)).compile())).compile())).compile()
    facts = world.stream(graph, {"log": []}, stream_mode="events")
    names = ["/".join(part.partition(":")[0] for part in fact.path) for fact in facts]
    assert [name for at, name in enumerate(names) if at == 0 or names[at - 1] != name] == [
        "",
        "out",
        "out/mid",
        "out",
        "",
    ]
    assert [fact.seq for fact in facts] == list(range(1, len(facts) + 1))
    (place,) = places
    assert [part.partition(":")[0] for part in place.split("|")] == ["out", "mid", "core"]
    assert tuple(place.split("|")[:2]) in {fact.path for fact in facts}


@both_worlds
@ways
def test_parallel_graphs_are_told_apart(world: World, way):
    meet = threading.Barrier(2, timeout=5)

    def core(state: Any, writer: Any) -> dict[str, Any]:
        meet.wait()
        writer("x")
        return {"log": [1]}

    builder = StateGraph(Log).add_node("work", way(chain(("core", core)).compile()))
    builder.add_conditional_edges(START, lambda state: [Send("work", {"log": []})] * 2, ["work"])
    shown = world.stream(builder.compile(), {"log": []}, stream_mode="custom", subgraphs=True)
    assert [chunk for _, chunk in shown] == ["x", "x"]
    assert len({path for path, _ in shown}) == 2


@both_worlds
@ways
def test_a_command_for_the_graph_around(world: World, way):
    """It ends the graph inside; its update and its goto are the node's."""
    inner = chain(
        "x", ("core", lambda state: Command(graph=Command.PARENT, update={"log": ["up"]}, goto="b")), "never"
    ).compile()
    builder = (
        StateGraph(Log).add_node("in", way(inner)).add_node("b", lambda state: {"log": ["b"]}).add_edge(START, "in")
    )
    graph = builder.compile()
    assert world.invoke(graph, {"log": []}) == {"log": ["up", "b"]}
    assert world.stream(graph, {"log": []}) == [{"in": {"log": ["up"]}}, {"b": {"log": ["b"]}}]


@both_worlds
@ways
def test_a_command_for_two_graphs_up_is_an_error_at_the_top(world: World, way):
    inner = chain(("core", lambda state: Command(graph=Command.PARENT, update=3))).compile()
    with pytest.raises(InvalidUpdateError):
        world.invoke(chain(("in", way(inner))).compile(), {"log": []})


@both_worlds
@ways
def test_an_error_inside_ends_the_graph_around(world: World, way):
    def bad(state: Any) -> Any:
        raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        world.invoke(chain("a", ("in", way(chain(("core", bad)).compile()))).compile(), {"log": []})


@dataclass
class User:
    username: str


@both_worlds
@ways
def test_B141_the_context_is_that_of_the_tree(world: World, way):
    """A dict becomes the declared class; a nested graph that declares nothing gets the same object."""
    seen: list[Any] = []

    def look(state: Any, runtime: Runtime[User]) -> None:
        seen.append(runtime.context)

    for schema in (None, User):
        builder = StateGraph(Log, schema).add_node("core", look).add_edge(START, "core")
        outer = StateGraph(Log, User).add_node("a", look).add_node("in", way(builder.compile()))
        graph = outer.add_edge(START, "a").add_edge("a", "in").compile()
        world.invoke(graph, {"log": []}, context={"username": "ann"})
        assert seen == [User("ann"), User("ann")]
        assert seen[0] is seen[1]
        seen.clear()
    with pytest.raises(UsageError, match=r"needs a context of type User, and no context= does not make one"):
        world.invoke(graph, {"log": []})


@both_worlds
def test_a_nested_graph_may_be_given_a_context_and_a_store_of_its_own(world: World):
    seen: list[Any] = []

    def look(state: Any, runtime: Any, store: Any) -> None:
        seen.append((runtime.context, store))

    kept = chain(("core", look)).compile(store="inner shelf")
    shared = chain(("core", look)).compile()
    graph = chain(
        ("a", lambda state: kept.invoke({"log": []}, context="inner")), ("b", lambda state: shared.invoke({"log": []}))
    ).compile(store="shelf")
    world.invoke(graph, {"log": []}, context="outer")
    assert seen == [("inner", "inner shelf"), ("outer", "shelf")]


@both_worlds
@ways
def test_tags_metadata_and_own_keys_are_handed_down(world: World, way):
    """Limits and addresses of checkpoints are each run's own."""
    seen: list[Any] = []

    def look(state: Any, config: Any) -> None:
        seen.append(config)

    inner = chain("x", "y", ("core", look)).compile()
    config: Any = {
        "tags": ["t"],
        "metadata": {"k": 1},
        "configurable": {"user": "ann", "thread_id": "1"},
        "recursion_limit": 2,
        "max_concurrency": 5,
    }
    world.invoke(chain(("in", way(inner))).compile(), {"log": []}, config)
    (config,) = seen
    assert (config["tags"], config["metadata"]["k"], config["configurable"]["user"]) == (["t"], 1, "ann")
    assert config["max_concurrency"] == 5
    assert "recursion_limit" not in config


# --- readers --------------------------------------------------------------------


@both_worlds
def test_a_reader_inside_beside_the_reader_of_the_tree(world: World):
    """A node reads a stream of its own; the outer reader sees what its modes ask for, live."""
    inner = chain(("ask", ScriptedModel(say("a b", chunks=["a ", "b"]), loop=True)), state=MessagesState).compile()
    got: list[Any] = []

    def plain(state: Any) -> dict[str, Any]:
        got.extend(token.text for token, _ in inner.stream({"messages": "hi"}, stream_mode="messages"))
        return {"log": ["done"]}

    async def coroutine(state: Any) -> dict[str, Any]:
        got.extend([token.text async for token, _ in inner.astream({"messages": "hi"}, stream_mode="messages")])
        return {"log": ["done"]}

    for node in (plain, coroutine):
        graph = chain(("in", node)).compile()
        assert world.invoke(graph, {"log": []}) == {"log": ["done"]}
        assert [text for text in got if text] == ["a ", "b"]
        shown = world.stream(graph, {"log": []}, stream_mode=["messages", "updates"], subgraphs=True)
        assert [text for text in got if text] == ["a ", "b"] * 2
        tokens = [chunk[0].text for path, mode, chunk in shown if mode == "messages" and path]
        assert [text for text in tokens if text] == ["a ", "b"]
        assert [mode for path, mode, _ in shown if not path] == ["updates"]
        assert world.stream(graph, {"log": []}, stream_mode="updates") == [{"in": {"log": ["done"]}}]
        got.clear()


@both_worlds
def test_a_reader_inside_sees_only_its_own_run(world: World):
    inner = chain(("core", tells)).compile()
    got: list[Any] = []

    def node(state: Any, writer: Any) -> None:
        writer("before")
        for chunk in inner.stream({"log": []}, stream_mode=["custom", "values"]):
            writer("between")
            got.append(chunk)

    outer = world.stream(chain(("in", node)).compile(), {"log": []}, stream_mode="custom")
    assert got == [("values", {"log": []}), ("custom", "inner"), ("values", {"log": ["inner"]})]
    assert outer.count("between") == 3
    assert outer.index("before") < outer.index("inner")


@both_worlds
def test_a_nested_reader_that_leaves_early(world: World):
    log: list[str] = []

    async def slow(state: Any, writer: Any) -> None:
        try:
            writer(1)
            await asyncio.Event().wait()
        finally:
            log.append("cleaned")

    inner = chain(("core", slow)).compile()

    def plain(state: Any) -> dict[str, Any]:
        for chunk in inner.stream({"log": []}, stream_mode="custom"):
            return {"log": [chunk]}
        raise AssertionError

    async def coroutine(state: Any) -> dict[str, Any]:
        async for chunk in inner.astream({"log": []}, stream_mode="custom"):
            return {"log": [chunk]}
        raise AssertionError

    for node in (plain, coroutine):
        assert world.invoke(chain(("in", node), "after").compile(), {"log": []}) == {"log": [1, "after"]}


@both_worlds
def test_a_loop_around_a_graph_does_not_nest_it(world: World):
    """A graph that is called in the body of a loop over a stream is no part of the streamed run."""
    other = chain(("core", tells)).compile()
    graph = chain("a", "b").compile()
    if type(world) is World:
        chunks = [
            (chunk, other.invoke({"log": []})) for chunk in graph.stream({"log": []}, stream_mode=["custom", "updates"])
        ]
    else:

        async def main() -> list[Any]:
            stream = graph.astream({"log": []}, stream_mode=["custom", "updates"])
            return [(chunk, await other.ainvoke({"log": []})) async for chunk in stream]

        chunks = asyncio.run(main())
    assert [mode for (mode, _), _ in chunks] == ["updates", "updates"]


def test_cancelling_the_tree_stops_what_runs_inside():
    log: list[str] = []

    async def main() -> None:
        inside = asyncio.Event()

        async def slow(state: Any) -> None:
            inside.set()
            try:
                await asyncio.Event().wait()
            finally:
                log.append("cleaned")

        graph = chain(("in", chain(("core", slow)).compile())).compile()
        task = asyncio.create_task(graph.ainvoke({"log": []}))
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert log == ["cleaned"]


@both_worlds
@ways
def test_leaving_the_outer_stream_stops_the_graph_inside(world: World, way):
    log: list[str] = []

    def later(state: Any) -> None:
        log.append("later")

    async def core(state: Any, writer: Any) -> None:
        writer(1)
        await asyncio.sleep(0)

    inner = chain(("core", core), ("later", later)).compile()
    assert world.first(chain(("in", way(inner))).compile(), {"log": []}, stream_mode=["custom"]) == [("custom", 1)]
    assert log == []


# --- threads --------------------------------------------------------------------


@both_worlds
@ways
def test_a_graph_inside_is_kept_by_the_run_around_it(world: World, way):
    """Its own checkpointer is not asked, unless the call names a thread."""
    saver = InMemorySaver()
    inner = chain("core").compile(checkpointer=saver)
    graph = chain(("in", way(inner))).compile(checkpointer=InMemorySaver())
    assert world.invoke(graph, {"log": []}, thread()) == {"log": ["core"]}
    assert saver.size_report()["threads"] == 0


@both_worlds
@pytest.mark.parametrize("shared", [True, False])
def test_a_config_that_is_handed_on_names_no_thread_of_its_own(world: World, shared):
    """`inner.invoke(x, config)` with the node's own config is the usual call; it must not fight for the thread."""
    saver, other = InMemorySaver(), InMemorySaver()
    inner = chain("core").compile(checkpointer=saver if shared else other)

    def plain(state: Any, config: Any) -> Any:
        return inner.invoke({"log": []}, config)

    async def coroutine(state: Any, config: Any) -> Any:
        return await inner.ainvoke({"log": []}, config)

    for node in (plain, coroutine):
        graph = chain(("in", node), "after").compile(checkpointer=saver)
        config = thread(node.__name__)
        assert world.invoke(graph, {"log": []}, config) == {"log": ["core", "after"]}
        assert world.invoke(graph, {"log": []}, config) == {"log": ["core", "after", "core", "after"]}
    assert other.size_report()["threads"] == 0


@both_worlds
def test_a_graph_inside_with_a_thread_of_its_own_remembers(world: World):
    inner = chain("core").compile(checkpointer=InMemorySaver())

    def node(state: Any) -> Any:
        return {"log": [len(inner.invoke({"log": []}, thread("inner"))["log"])]}

    graph = chain(("in", node)).compile(checkpointer=InMemorySaver())
    for turns in (1, 2, 3):
        assert world.invoke(graph, {"log": []}, thread("outer")) == {"log": list(range(1, turns + 1))}
    assert inner.get_state(thread("inner")).values == {"log": ["core"] * 3}


@both_worlds
def test_a_failed_graph_inside_runs_again_as_one_task(world: World):
    runs: list[str] = []

    def flaky(state: Any) -> dict[str, Any]:
        runs.append("flaky")
        if len(runs) == 1:
            raise ConnectionError("down")
        return {"log": ["flaky"]}

    inner = chain(("core", flaky)).compile()
    graph = chain("a", ("in", inner)).compile(checkpointer=InMemorySaver())
    with pytest.raises(ConnectionError):
        world.invoke(graph, {"log": []}, thread())
    assert world.state(graph, thread()).next == ("in",)
    assert world.invoke(graph, None, thread()) == {"log": ["a", "a", "flaky"]}


def test_a_blocking_call_inside_a_running_loop():
    """It blocks the loop, as any blocking call does, and works."""

    async def node(state: Any) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"log": ["x"]}

    graph = chain(("a", node)).compile()

    async def main() -> Any:
        return graph.invoke({"log": []}), list(graph.stream({"log": []}))

    assert asyncio.run(main()) == ({"log": ["x"]}, [{"a": {"log": ["x"]}}])
    assert END not in Asyncio().invoke(graph, {"log": []})


@both_worlds
def test_the_callers_config_from_a_closure_names_no_thread_of_its_own(world: World):
    saver = InMemorySaver()
    inner = chain("core").compile(checkpointer=saver)
    middle = chain(("mid", lambda state: inner.invoke({"log": []}, thread()))).compile()
    graph = chain(("in", middle), "after").compile(checkpointer=saver)
    assert world.invoke(graph, {"log": []}, thread()) == {"log": ["core", "after"]}
    before = world.history(graph, thread())[2]
    assert before.next == ("in",)
    assert world.invoke(graph, None, before.config) == {"log": ["core", "after"]}
