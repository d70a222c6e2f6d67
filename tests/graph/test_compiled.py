"""The compiled graph's own calls: options, wrong options, context, pictures."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import pytest
from pydantic import BaseModel

from loopwright.checkpoint.memory import InMemorySaver
from loopwright.checkpoint.sqlite import SqliteSaver
from loopwright.errors import UsageError
from loopwright.graph import END, START, StateGraph
from loopwright.graph.types import Command, GraphOutput
from tests.graph.worlds import Log, World, both_worlds, chain, thread


class Two(Log):
    count: int


def two() -> StateGraph:
    return chain(("a", lambda state: {"log": ["a"], "count": 1}), state=Two)


# --- options --------------------------------------------------------------------


@both_worlds
def test_output_keys_choose_from_the_state(world: World):
    graph = two().compile()
    assert world.invoke(graph, {"log": []}, output_keys="count") == 1
    assert world.invoke(graph, {"log": []}, output_keys=["count", "gone"]) == {"count": 1}
    assert world.invoke(graph, {"log": []}, output_keys="gone") is None
    assert world.invoke(graph, {"log": []}, output_keys="count", version="v2") == GraphOutput(1)


@both_worlds
def test_a_durability_that_does_not_exist(world: World):
    for ask in (world.invoke, world.stream):
        with pytest.raises(UsageError, match="durability='soon' does not exist; use one of 'sync', 'async', 'exit'"):
            ask(two().compile(), {"log": []}, durability="soon")


@both_worlds
@pytest.mark.parametrize(("durability", "saved"), [("sync", 4), ("async", 4), ("exit", 1)])
def test_durability_says_how_often_is_saved(world: World, durability, saved):
    graph = chain("a", "b").compile(checkpointer=InMemorySaver())
    for ask, name in ((world.invoke, "1"), (world.stream, "2")):
        ask(graph, {"log": []}, thread(name), durability=durability)
        assert len(world.history(graph, thread(name))) == saved
        assert world.state(graph, thread(name)).values == {"log": ["a", "b"]}


@both_worlds
def test_durability_exit_goes_on_with_the_next_turn(world: World):
    graph = chain("a").compile(checkpointer=InMemorySaver())
    for turn in (1, 2, 3):
        assert world.invoke(graph, {"log": []}, thread(), durability="exit") == {"log": ["a"] * turn}
        assert len(world.history(graph, thread())) == turn


def test_wrong_options_are_said_by_the_call_itself():
    """Not when the stream is first read."""
    graph = two().compile()
    for ask in (graph.stream, graph.astream):
        with pytest.raises(UsageError, match="stream_mode"):
            ask({"log": []}, stream_mode="value")


def test_with_config_makes_another_one():
    graph = two().compile(name="mine")
    twin = graph.with_config({"tags": ["a"]}, recursion_limit=1).with_config(tags=["b"])
    assert graph.config is None
    assert twin.config == {"tags": ["a", "b"], "recursion_limit": 1}
    assert (twin.name, type(twin), twin.nodes) == ("mine", type(graph), graph.nodes)
    assert repr(twin) == "<CompiledStateGraph 'mine': a>"


# --- checkpointers --------------------------------------------------------------


class Unentered:
    def __enter__(self) -> Any: ...

    def __exit__(self, *args: object) -> None: ...


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (InMemorySaver, "checkpointer=InMemorySaver is the class; make one: checkpointer=InMemorySaver\\(\\)"),
        (SqliteSaver, "make one: checkpointer=SqliteSaver\\(path\\)"),
        ("threads.db", "not the path of one: checkpointer=SqliteSaver\\(path\\). Write: from loopwright.checkpoint.sq"),
        (Path("threads.db"), "not the path of one: checkpointer=SqliteSaver\\(path\\)"),
        (
            "postgresql://host",
            "checkpointer=PostgresSaver\\(url\\). Write: from loopwright.checkpoint.postgres",
        ),
        (Unentered(), "context manager that was not entered. Write: with SqliteSaver"),
        (True, "checkpointer=True is no checkpoint saver \\(a bool\\). Write checkpointer=InMemorySaver\\(\\)"),
        ({}, "checkpointer=\\{\\} is no checkpoint saver \\(a dict\\). Savers are in loopwright.checkpoint"),
    ],
)
def test_what_is_no_checkpointer(wrong, words):
    with pytest.raises(UsageError, match=words):
        two().compile(checkpointer=wrong)


@pytest.mark.parametrize("none", [None, False])
def test_no_checkpointer(none):
    assert two().compile(checkpointer=none).checkpointer is None


# --- context --------------------------------------------------------------------


@dataclass
class User:
    name: str
    role: str = "guest"


class Checked(BaseModel):
    name: str = "nobody"


class Loose(TypedDict, total=False):
    name: str


def context_of(world: World, schema: Any, context: Any) -> Any:
    seen: list[Any] = []
    builder = (
        StateGraph(Log, schema).add_node("a", lambda state, runtime: seen.append(runtime.context)).add_edge(START, "a")
    )
    world.invoke(builder.compile(), {"log": []}, context=context)
    return seen[0]


@both_worlds
@pytest.mark.parametrize(
    ("schema", "given", "expected"),
    [
        (None, None, None),
        (None, {"x": 1}, {"x": 1}),
        (None, 7, 7),
        (User, {"name": "ann"}, User("ann")),
        (User, User("bob", "admin"), User("bob", "admin")),
        (Checked, None, Checked()),
        (Checked, {"name": "ann"}, Checked(name="ann")),
        (Loose, {"name": "ann"}, {"name": "ann"}),
        (Loose, None, None),
    ],
)
def test_the_context_takes_the_form_of_its_schema(world: World, schema, given, expected):
    assert context_of(world, schema, given) == expected


@both_worlds
@pytest.mark.parametrize(("given", "shown"), [(None, "no context="), ({"nam": "x"}, r"context=\{'nam': 'x'\}")])
def test_a_context_that_does_not_fit(world: World, given, shown):
    with pytest.raises(
        UsageError, match=f"needs a context of type User, and {shown} does not make one: .*context=User\\(…\\)"
    ):
        context_of(world, User, given)


# --- pictures -------------------------------------------------------------------


def edges(graph: Any, **options: Any) -> set[tuple[str, str, Any, bool]]:
    return {(e.source, e.target, e.data, e.conditional) for e in graph.get_graph(**options).edges}


def test_the_picture_of_a_graph():
    builder = StateGraph(Log)
    for name in ("a", "b", "c", "d"):
        builder.add_node(name, lambda state: None)
    builder.add_node("go", lambda state: Command(goto="a"), destinations={"a": "back"}, metadata={"k": 1})
    builder.add_edge(START, "a").add_conditional_edges("a", lambda state: "yes", {"yes": "b", "no": END})
    builder.add_edge("a", "d").add_edge(["b", "d"], "c").add_edge("c", "go")
    graph = builder.compile()
    assert edges(graph) == {
        (START, "a", None, False),
        ("a", "b", "yes", True),
        ("a", END, "no", True),
        ("a", "d", None, False),
        ("b", "c", None, False),
        ("d", "c", None, False),
        ("c", "go", None, False),
        ("go", "a", "back", True),
    }
    picture = graph.get_graph()
    assert list(picture.nodes) == [START, "a", "b", "c", "d", "go", END]
    assert picture.nodes["go"].metadata == {"k": 1}
    assert 'a -.->|"yes"| b' in picture.draw_mermaid()
    assert "| go |" in picture.draw_ascii()


def test_a_question_that_does_not_say_where_it_leads_may_lead_anywhere():
    builder = StateGraph(Log).add_node("a", lambda state: None).add_node("b", lambda state: None).add_edge(START, "a")
    graph = builder.add_conditional_edges("a", lambda state: END).compile()
    assert edges(graph) == {
        (START, "a", None, False),
        ("a", "a", None, True),
        ("a", "b", None, True),
        ("a", END, None, True),
        ("b", END, None, False),
    }


def test_hidden_nodes_are_left_out():
    builder = chain("a").add_node("rescue", lambda state: None)
    builder.nodes["rescue"].hidden = True
    builder.add_conditional_edges("a", lambda state: "rescue", ["rescue", END])
    graph = builder.compile()
    graph.nodes["rescue"].hidden = True
    assert "rescue" not in graph.get_graph().nodes
    assert edges(graph) == {(START, "a", None, False), ("a", END, None, False)}


def test_graphs_inside_are_opened_as_deep_as_asked():
    core = chain("x", "y").compile()
    middle = chain(("m", core), "n").compile()
    graph = chain("a", ("in", middle), "z").compile()
    assert list(graph.get_graph().nodes) == [START, "a", "in", "z", END]
    once = graph.get_graph(xray=1)
    assert set(once.nodes) == {START, "a", "in:m", "in:n", "z", END}
    assert {(e.source, e.target) for e in once.edges} == {
        (START, "a"),
        ("a", "in:m"),
        ("in:m", "in:n"),
        ("in:n", "z"),
        ("z", END),
    }
    assert set(graph.get_graph(xray=True).nodes) == {START, "a", "in:m:x", "in:m:y", "in:n", "z", END}


# --- both at once ---------------------------------------------------------------


def test_one_graph_serves_many_runs_at_the_same_time():
    """Threads of one graph object, each with its own state, blocking and in tasks of one loop."""
    graph = chain("a", "b").compile(checkpointer=InMemorySaver())

    async def main() -> list[Any]:
        async def one(n: int) -> Any:
            result = None
            for _ in range(3):
                result = await graph.ainvoke({"log": [n]}, thread(str(n)))
            return result

        return await asyncio.gather(*(one(n) for n in range(20)))

    assert asyncio.run(main()) == [{"log": [n, "a", "b"] * 3} for n in range(20)]
