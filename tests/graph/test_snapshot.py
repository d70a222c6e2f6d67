"""Threads from outside: looking at them, going back in them, changing them by hand."""

from __future__ import annotations

import operator
from typing import Annotated, Any

import pytest

from loopwright.checkpoint.memory import InMemorySaver
from loopwright.errors import InvalidUpdateError, UsageError
from loopwright.graph import END, START, StateGraph
from loopwright.graph.types import Command, PregelTask, Send, StateSnapshot
from tests.graph.worlds import Log, World, both_worlds, chain, thread


def saved(*nodes: Any, state: Any = Log) -> Any:
    return chain(*nodes, state=state).compile(checkpointer=InMemorySaver())


def steps(snapshots: list[StateSnapshot]) -> list[Any]:
    """Newest first: source, step, state, what is next."""
    return [(s.metadata["source"], s.metadata["step"], s.values.get("log"), s.next) for s in snapshots]


# --- looking --------------------------------------------------------------------


@both_worlds
def test_a_thread_that_does_not_exist(world: World):
    graph = saved("a")
    config = thread("none")
    assert world.state(graph, config) == StateSnapshot({}, (), config, None, None, None, (), ())
    assert world.history(graph, config) == []


@both_worlds
def test_the_state_and_the_history_of_a_thread(world: World):
    graph = saved("a", "b")
    world.invoke(graph, {"log": ["in"]}, {**thread(tenant="acme"), "metadata": {"k": 1}})
    history = world.history(graph, thread())
    assert steps(history) == [
        ("loop", 2, ["in", "a", "b"], ()),
        ("loop", 1, ["in", "a"], ("b",)),
        ("loop", 0, ["in"], ("a",)),
        ("input", -1, [], (START,)),
    ]
    now = world.state(graph, thread())
    assert now == history[0]
    assert now.metadata == {"source": "loop", "step": 2, "parents": {}, "tenant": "acme", "k": 1}
    assert now.created_at is not None
    assert [s.parent_config for s in history] == [*(s.config for s in history[1:]), None]
    assert world.state(graph, history[1].config) == history[1]
    (task,) = history[1].tasks
    assert task == PregelTask(task.id, "b", ("__pregel_pull", "b"), result={"log": ["b"]})


@both_worlds
def test_the_history_can_be_narrowed(world: World):
    graph = saved("a")
    for n in range(3):
        world.invoke(graph, {"log": [n]}, thread())
    assert len(world.history(graph, thread())) == 9
    newest = world.history(graph, thread(), limit=2)
    assert [s.metadata["step"] for s in newest] == [7, 6]
    assert [s.metadata["step"] for s in world.history(graph, thread(), before=newest[1].config, limit=1)] == [5]
    assert [s.metadata["step"] for s in world.history(graph, thread(), filter={"source": "input"})] == [5, 2, -1]


@both_worlds
def test_the_present_state_has_what_the_unfinished_step_has_written(world: World):
    """Of an old checkpoint it is not a part; the tasks show it in both."""

    def bad(state: Any) -> Any:
        raise ConnectionError("down")

    builder = StateGraph(Log).add_node("good", lambda s: [{"log": [1]}, Command(update={"log": [2]}, goto=END)])
    builder.add_node("bad", bad).add_edge(START, "good").add_edge(START, "bad")
    graph = builder.compile(checkpointer=InMemorySaver())
    with pytest.raises(ConnectionError):
        world.invoke(graph, {"log": []}, thread())
    now, then = world.state(graph, thread()), world.history(graph, thread())[0]
    assert (now.values, now.next) == ({"log": [1, 2]}, ("bad",))
    assert (then.values, then.next) == ({"log": []}, ("bad", "good"))
    for state in (now, then):
        assert [(t.name, t.error, t.result) for t in state.tasks] == [
            ("bad", "ConnectionError('down')", None),
            ("good", None, {"log": [2]}),
        ]


@both_worlds
@pytest.mark.parametrize("ask", ["state", "history", "update"])
def test_a_graph_without_a_checkpointer_keeps_nothing(world: World, ask):
    with pytest.raises(UsageError, match=r"no checkpointer, so it keeps no state. Make it with one"):
        getattr(world, ask)(chain("a").compile(), thread(), *([{}] if ask == "update" else []))


@both_worlds
def test_looking_needs_a_thread_and_the_graphs_own_config_may_name_it(world: World):
    graph = saved("a")
    with pytest.raises(UsageError, match="thread_id"):
        world.state(graph, {})
    bound = graph.with_config(thread("bound"))
    world.invoke(bound, {"log": []})
    assert world.state(bound, {}).values == {"log": ["a"]}


@both_worlds
def test_a_saver_that_waits_is_asked_the_same(world: World):
    class Waiting(InMemorySaver):
        instant = False

    graph = chain("a").compile(checkpointer=Waiting())
    world.invoke(graph, {"log": []}, thread())
    world.update(graph, thread(), {"log": ["x"]})
    assert steps(world.history(graph, thread()))[0] == ("update", 2, ["a", "x"], ())


# --- going back -----------------------------------------------------------------


@both_worlds
def test_going_back_runs_the_rest_again(world: World):
    runs: list[str] = []
    graph = saved("a", ("b", lambda state: runs.append("b") or {"log": [f"b{len(runs)}"]}))
    world.invoke(graph, {"log": []}, thread())
    before_b = world.history(graph, thread())[1]
    assert before_b.next == ("b",)
    assert world.invoke(graph, None, before_b.config) == {"log": ["a", "b2"]}
    history = world.history(graph, thread())
    assert steps(history)[:3] == [
        ("loop", 3, ["a", "b2"], ()),
        ("fork", 2, ["a"], ("b",)),
        ("loop", 2, ["a", "b1"], ()),
    ]
    assert history[1].parent_config == before_b.config
    assert world.state(graph, thread()).values == {"log": ["a", "b2"]}


@both_worlds
def test_naming_the_head_is_no_way_back(world: World):
    """Its finished tasks count as finished."""
    calls: list[str] = []

    def bad(state: Any) -> Any:
        calls.append("bad")
        if calls.count("bad") == 1:
            raise ConnectionError("down")
        return {"log": ["bad"]}

    builder = (
        StateGraph(Log).add_node("good", lambda state: calls.append("good") or {"log": ["good"]}).add_node("bad", bad)
    )
    graph = builder.add_edge(START, "good").add_edge(START, "bad").compile(checkpointer=InMemorySaver())
    with pytest.raises(ConnectionError):
        world.invoke(graph, {"log": []}, thread())
    assert world.invoke(graph, None, world.state(graph, thread()).config) == {"log": ["bad", "good"]}
    assert sorted(calls) == ["bad", "bad", "good"]


@both_worlds
def test_new_input_on_an_old_checkpoint_branches_from_there(world: World):
    graph = saved("a")
    world.invoke(graph, {"log": [1]}, thread())
    old = world.state(graph, thread())
    world.invoke(graph, {"log": [2]}, thread())
    assert world.invoke(graph, {"log": [3]}, old.config) == {"log": [1, "a", 3, "a"]}
    assert world.state(graph, thread()).values == {"log": [1, "a", 3, "a"]}


@both_worlds
def test_B41_the_head_moves_on_after_a_rewind(world: World):
    """Each call moves it, and the fork's parent is the checkpoint that was named."""
    graph = saved("a", "b")
    world.invoke(graph, {"log": [1]}, thread())
    old = world.history(graph, thread())[1]
    heads = [world.state(graph, thread()).config]
    world.invoke(graph, {"log": [2]}, old.config)
    heads.append(world.state(graph, thread()).config)
    assert world.history(graph, thread(), filter={"source": "input"})[0].parent_config == old.config
    world.invoke(graph, {"log": [3]}, thread())
    heads.append(world.state(graph, thread()).config)
    assert len({head["configurable"]["checkpoint_id"] for head in heads}) == 3
    assert world.state(graph, thread()).values == {"log": [1, "a", 2, "a", "b", 3, "a", "b"]}


@both_worlds
@pytest.mark.parametrize("fresh", [True, False])
def test_a_checkpoint_that_does_not_exist(world: World, fresh):
    graph = saved("a")
    if not fresh:
        world.invoke(graph, {"log": []}, thread())
    config = thread(checkpoint_id="gone")
    for given in ({"log": []}, None):
        with pytest.raises(UsageError, match=r"Thread '1' has no checkpoint 'gone'; see agent.get_state_history"):
            world.invoke(graph, given, config)
    with pytest.raises(UsageError, match="Thread '1' has no checkpoint 'gone'"):
        world.update(graph, config, {"log": ["x"]})
    assert world.state(graph, config).values == {}


# --- changing -------------------------------------------------------------------


@both_worlds
def test_an_update_speaks_for_the_node_that_ran_last(world: World):
    graph = saved("a", "b", "c")
    world.invoke(graph, {"log": []}, thread())
    before_b = world.history(graph, thread())[2]
    assert before_b.next == ("b",)
    config = world.update(graph, before_b.config, {"log": ["x"]})
    state = world.state(graph, thread())
    assert (state.values, state.next, state.config) == ({"log": ["a", "x"]}, ("b",), config)
    assert (state.metadata["source"], state.metadata["step"], state.parent_config) == ("update", 2, before_b.config)
    assert world.invoke(graph, None, thread()) == {"log": ["a", "x", "b", "c"]}


@both_worlds
def test_as_node_decides_what_runs_next(world: World):
    graph = saved("a", "b", "c")
    world.update(graph, thread(), {"log": ["x"]}, as_node="b")
    assert world.state(graph, thread()).next == ("c",)
    assert world.invoke(graph, None, thread()) == {"log": ["x", "c"]}
    world.update(graph, thread(), Command(update={"log": ["y"]}, goto="b"), "a")
    assert world.state(graph, thread()).next == ("b",)
    with pytest.raises(InvalidUpdateError, match="as_node='gone' is no node; the nodes are 'a', 'b', 'c', and START"):
        world.update(graph, thread(), {}, as_node="gone")


@both_worlds
@pytest.mark.parametrize("nodes", [("a",), ("a", "b")])
@pytest.mark.parametrize("as_node", [None, START, "__input__"])
def test_an_update_of_a_fresh_thread_is_its_input(world: World, nodes, as_node):
    graph = saved(*nodes)
    world.update(graph, thread(), {"log": ["x"]}, as_node=as_node)
    assert world.state(graph, thread()).next == ("a",)
    assert world.invoke(graph, None, thread()) == {"log": ["x", *nodes]}


@both_worlds
def test_an_update_after_an_update_speaks_for_the_same_node(world: World):
    graph = saved("a", "b")
    world.update(graph, thread(), {"log": [1]}, as_node="a")
    world.update(graph, thread(), {"log": [2]})
    assert world.state(graph, thread()).next == ("b",)
    assert world.invoke(graph, None, thread()) == {"log": [1, 2, "b"]}


@both_worlds
def test_an_update_after_several_nodes_has_to_say_whose_it_is(world: World):
    builder = chain("a", "c").add_node("b", lambda state: {"log": ["b"]}).add_edge(START, "b")
    graph = builder.compile(checkpointer=InMemorySaver())
    world.invoke(graph, {"log": []}, thread())
    before_c = world.history(graph, thread())[1]
    with pytest.raises(InvalidUpdateError, match=r"Several nodes ran last \(a, b\): say whose .* as_node='a'"):
        world.update(graph, before_c.config, {"log": ["x"]})


@both_worlds
def test_an_update_as_a_node_of_parallel_sends(world: World):
    """Several tasks of one node are one node."""
    builder = StateGraph(Log).add_node("w", lambda arg: {"log": [arg]}).add_node("z", lambda state: {"log": ["z"]})
    builder.add_conditional_edges(START, lambda state: [Send("w", 1), Send("w", 2)]).add_edge("w", "z")
    graph = builder.compile(checkpointer=InMemorySaver())
    world.invoke(graph, {"log": []}, thread())
    world.update(graph, world.history(graph, thread())[1].config, {"log": ["x"]})
    assert world.invoke(graph, None, thread()) == {"log": [1, 2, "x", "z"]}


@both_worlds
def test_ending_a_thread_by_hand_asks_no_question(world: World):
    """`as_node=END` clears what was due; the graph's questions are not asked."""
    asked: list[Any] = []

    def entry(state: Any) -> str:
        asked.append(state)
        return "a"

    builder = StateGraph(Log).add_node("a", lambda state: {"log": ["a"]}).set_conditional_entry_point(entry)
    graph = builder.compile(checkpointer=InMemorySaver())
    world.update(graph, thread(), {"log": ["x"]}, as_node=START)
    assert (world.state(graph, thread()).next, len(asked)) == (("a",), 1)
    world.update(graph, thread(), {"log": ["y"]}, as_node=END)
    state = world.state(graph, thread())
    assert (state.values, state.next, len(asked)) == ({"log": ["x", "y"]}, (), 1)
    world.update(graph, thread(), None, as_node=END)
    assert world.state(graph, thread()).values == {"log": ["x", "y"]}


@both_worlds
def test_none_makes_a_copy_of_a_checkpoint(world: World):
    graph = saved("a", "b")
    world.invoke(graph, {"log": []}, thread())
    before_b = world.history(graph, thread())[1]
    world.update(graph, before_b.config, None)
    state = world.state(graph, thread())
    assert (state.metadata["source"], state.values, state.next) == ("fork", {"log": ["a"]}, ("b",))
    assert world.invoke(graph, None, thread()) == {"log": ["a", "b"]}
    world.update(graph, thread("fresh"), None)
    assert world.state(graph, thread("fresh")).next == ()


@both_worlds
def test_a_copy_of_the_first_checkpoint_keeps_the_input(world: World):
    graph = saved("a")
    world.invoke(graph, {"log": ["in"]}, thread())
    first = world.history(graph, thread())[-1]
    assert first.metadata["source"] == "input"
    assert world.invoke(graph, None, first.config) == {"log": ["in", "a"]}
    world.update(graph, first.config, None)
    assert world.invoke(graph, None, thread()) == {"log": ["in", "a"]}


@both_worlds
@pytest.mark.parametrize("as_node", ["good", END])
def test_an_update_keeps_what_finished_tasks_of_the_step_have_written(world: World, as_node):
    """What `get_state` showed before is there afterwards."""

    def bad(state: Any) -> Any:
        raise ConnectionError("down")

    builder = StateGraph(Log).add_node("good", lambda state: {"log": ["good"]}).add_node("bad", bad)
    graph = builder.add_edge(START, "good").add_edge(START, "bad").compile(checkpointer=InMemorySaver())
    with pytest.raises(ConnectionError):
        world.invoke(graph, {"log": []}, thread())
    world.update(graph, thread(), {"log": ["x"]}, as_node=as_node)
    state = world.state(graph, thread())
    assert (state.values, state.next) == ({"log": ["good", "x"]}, ())


@both_worlds
def test_an_update_counts_for_a_join(world: World):
    builder = StateGraph(Log)
    for name in ("a", "b", "d"):
        builder.add_node(name, lambda state, name=name: {"log": [name]})
    graph = builder.add_edge(START, "a").add_edge(["a", "b"], "d").compile(checkpointer=InMemorySaver())
    world.invoke(graph, {"log": []}, thread())
    world.update(graph, thread(), {"log": ["x"]}, as_node="b")
    assert world.invoke(graph, None, thread()) == {"log": ["a", "x", "d"]}


@both_worlds
def test_an_update_asks_the_questions_after_its_node(world: World):
    class State(Log):
        n: Annotated[int, operator.add]

    async def which(state: State) -> str:
        return "b" if state["n"] > 1 else END

    builder = StateGraph(State).add_node("a", lambda state: {"n": 1}).add_node("b", lambda state: {"log": ["b"]})
    graph = builder.add_edge(START, "a").add_conditional_edges("a", which).compile(checkpointer=InMemorySaver())
    world.invoke(graph, {"log": []}, thread())
    world.update(graph, thread(), {"n": 1})
    assert world.state(graph, thread()).next == ("b",)


@both_worlds
def test_an_update_that_is_none(world: World):
    graph = saved("a")
    with pytest.raises(InvalidUpdateError, match="values must be a dict"):
        world.update(graph, thread(), "text")


@both_worlds
def test_a_namespace_of_a_users_own(world: World):
    """`checkpoint_ns` keeps two lines of one thread apart."""
    graph = saved("a")
    world.invoke(graph, {"log": [1]}, thread(checkpoint_ns="side"))
    assert world.state(graph, thread()).values == {}
    assert world.state(graph, thread(checkpoint_ns="side")).values == {"log": [1, "a"]}


@both_worlds
def test_a_thread_that_waits_for_a_node_of_another_graph(world: World):
    saver = InMemorySaver()
    world.update(chain("a", "b").compile(checkpointer=saver), thread(), {"log": [1]}, as_node="a")
    other = chain("x", "y").compile(checkpointer=saver)
    with pytest.raises(UsageError, match="waits for node 'b', which this graph does not have \\(it has 'x', 'y'\\)"):
        world.invoke(other, None, thread())
    world.update(other, thread(), {"log": [2]}, as_node="x")
    assert world.invoke(other, None, thread()) == {"log": [1, 2, "y"]}


@both_worlds
def test_an_update_of_a_fresh_thread_is_its_first_step(world: World):
    graph = saved("a", "b")
    world.update(graph, thread(), {"log": ["seed"]}, as_node="a")
    assert steps(world.history(graph, thread())) == [("update", 0, ["seed"], ("b",))]


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda graph: graph.get_state({}), r'Write get_state\(\{"configurable"'),
        (lambda graph: list(graph.get_state_history({})), r'Write get_state_history\(\{"configurable"'),
        (lambda graph: graph.update_state({}, {}), r'Write update_state\(\{"configurable".*\}, \.\.\.\)'),
    ],
)
def test_without_a_thread_the_call_that_was_made_is_shown(ask, words):
    graph = saved("a")
    with pytest.raises(UsageError, match=words):
        ask(graph)


@pytest.mark.parametrize("values", [["x"], "x", 5])
def test_no_node_is_blamed_for_values_that_cannot_be(values):
    graph = saved("a")
    with pytest.raises(InvalidUpdateError, match=r"^update_state\(config, values\): .*got (str|int)"):
        graph.update_state({"configurable": {"thread_id": "1"}}, values)
