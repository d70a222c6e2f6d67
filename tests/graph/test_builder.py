"""What a builder refuses, and how nodes and edges become a run."""

from __future__ import annotations

import operator
import threading
from typing import Annotated, Any, Literal, TypedDict

import pytest

from loopwright.errors import InvalidUpdateError, UsageError
from loopwright.graph import END, START, StateGraph
from loopwright.graph.types import Command, RetryPolicy, Send
from tests.graph.worlds import Log, World, both_worlds, chain


def word(name: str):
    return lambda state: {"log": [name]}


# --- what is refused ------------------------------------------------------------


def test_a_schema_is_a_class():
    with pytest.raises(UsageError, match=r"must be a class with annotated keys.*dict"):
        StateGraph({"log": list})  # type: ignore


@pytest.mark.parametrize("schema", [dict, list, object])
def test_a_schema_names_keys(schema):
    with pytest.raises(UsageError, match=rf"StateGraph\({schema.__name__}\) names no keys.*class State\(TypedDict"):
        StateGraph(schema)


def test_two_nodes_of_one_name():
    with pytest.raises(UsageError, match="'a' is there already"):
        StateGraph(Log).add_node("a", word("a")).add_node("a", word("b"))


@pytest.mark.parametrize("name", ["", START, END, "a:b", "a|b"])
def test_reserved_names(name):
    with pytest.raises(UsageError, match="cannot be a node's name"):
        StateGraph(Log).add_node(name, word("a"))


def test_a_node_without_a_name():
    class Nameless:
        def __call__(self, state: Any) -> None: ...

    with pytest.raises(UsageError, match=r"A node needs a name: add_node\('name', <"):
        StateGraph(Log).add_node(Nameless())


@pytest.mark.parametrize("policy", [3, RetryPolicy, {"max_attempts": 3}, [RetryPolicy(), 3]], ids=str)
def test_what_is_no_retry_policy(policy):
    for build in (StateGraph(Log).set_node_defaults, lambda **given: StateGraph(Log).add_node("a", word("a"), **given)):
        with pytest.raises(UsageError, match=r"retry_policy= takes RetryPolicy\(max_attempts=3\), or a list of such"):
            build(retry_policy=policy)


def test_a_node_that_cannot_be_run():
    with pytest.raises(UsageError, match=r"must be a function or something with .invoke; got int: 3"):
        StateGraph(Log).add_node("a", 3)


def test_edges_from_end_and_to_start():
    with pytest.raises(UsageError, match="Nothing leads on from END"):
        StateGraph(Log).add_edge(END, "a")
    with pytest.raises(UsageError, match="Nothing leads to START"):
        StateGraph(Log).add_edge("a", START)


def test_the_same_question_twice():
    def which(state: Log) -> str:
        return END

    builder = StateGraph(Log).add_node("a", word("a")).add_conditional_edges("a", which)
    with pytest.raises(UsageError, match="'a' has a conditional edge 'which' already"):
        builder.add_conditional_edges("a", which)


def test_an_empty_sequence():
    with pytest.raises(UsageError, match="at least one node"):
        StateGraph(Log).add_sequence([])


def test_no_way_in():
    with pytest.raises(UsageError, match="no entry point: add_edge\\(START"):
        StateGraph(Log).add_node("a", word("a")).compile()


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda b: b.add_edge("a", "gone"), "leads to 'gone', which is no node \\(nodes: 'a'\\)"),
        (lambda b: b.add_edge("gone", "a"), "starts at 'gone'"),
        (lambda b: b.add_edge(["a", "gone"], "a"), "starts at 'gone'"),
        (lambda b: b.add_edge(["a"], "gone"), "leads to 'gone'"),
        (lambda b: b.add_conditional_edges("a", lambda s: "x", {"x": "gone"}), "leads to 'gone'"),
        (lambda b: b.add_conditional_edges("gone", lambda s: "x"), "starts at 'gone'"),
    ],
)
def test_edges_join_nodes_that_exist(build, words):
    builder = StateGraph(Log).add_node("a", word("a")).add_edge(START, "a")
    with pytest.raises(UsageError, match=words):
        build(builder).compile()


def test_an_edge_of_an_empty_graph_is_told_that_there_are_no_nodes():
    with pytest.raises(UsageError, match="nodes: none"):
        StateGraph(Log).add_edge(START, "a").compile()


# --- how it runs ----------------------------------------------------------------


@both_worlds
def test_nodes_run_along_the_edges(world: World):
    assert world.invoke(chain("a", "b", "c").compile(), {"log": ["in"]}) == {"log": ["in", "a", "b", "c"]}


@both_worlds
def test_a_node_takes_the_name_of_its_function(world: World):
    def greet(state: Log) -> dict[str, Any]:
        return {"log": ["hello"]}

    builder = StateGraph(Log).add_node(greet).set_entry_point("greet").set_finish_point("greet")
    assert world.stream(builder.compile(), {"log": []}) == [{"greet": {"log": ["hello"]}}]


def test_a_sequence_of_functions_takes_their_names():
    def one(state: Log) -> dict[str, Any]:
        return {"log": [1]}

    def two(state: Log) -> dict[str, Any]:
        return {"log": [2]}

    graph = StateGraph(Log).add_sequence([one, ("second", two)]).add_edge(START, "one").compile()
    assert list(graph.nodes) == ["one", "second"]
    assert graph.invoke({"log": []}) == {"log": [1, 2]}


@both_worlds
@pytest.mark.parametrize(
    ("answer", "path_map", "expected"),
    [
        ("b", None, ["a", "b"]),
        (["b", "c"], None, ["a", "b", "c"]),
        (END, None, ["a"]),
        ("left", {"left": "b", "right": "c"}, ["a", "b"]),
        (True, {True: "c", False: "b"}, ["a", "c"]),
        ("stop", {"stop": END}, ["a"]),
        ("c", ["b", "c"], ["a", "c"]),
        (Send("b", {}), {"x": "c"}, ["a", "b"]),
        ([Send("b", {}), "c"], None, ["a", "c", "b"]),
    ],
)
def test_conditional_edges(world: World, answer, path_map, expected):
    """Nodes named in one answer run in the order of their names, sends after them."""
    builder = StateGraph(Log)
    for name in "abc":
        builder.add_node(name, word(name))
    builder.add_edge(START, "a").add_conditional_edges("a", lambda state: answer, path_map)
    assert world.invoke(builder.compile(), {"log": []}) == {"log": expected}


@both_worlds
def test_a_conditional_edge_may_be_a_coroutine_and_ask_for_config_and_runtime(world: World):
    seen: list[Any] = []

    async def which(state: Log, config: Any, *, runtime: Any) -> str:
        seen.append((state["log"], config["metadata"]["langgraph_node"], runtime.context))
        return "b"

    builder = StateGraph(Log).add_node("a", word("a")).add_node("b", word("b")).add_edge(START, "a")
    builder.add_conditional_edges("a", which)
    assert world.invoke(builder.compile(), {"log": []}, context="ctx") == {"log": ["a", "b"]}
    assert seen == [(["a"], "a", "ctx")]


@both_worlds
def test_a_conditional_edge_sees_the_state_after_the_step(world: World):
    class State(Log):
        count: Annotated[int, operator.add]

    builder = StateGraph(State).add_node("up", lambda state: {"count": 1})
    builder.add_edge(START, "up").add_conditional_edges("up", lambda state: "up" if state["count"] < 3 else END)
    assert world.invoke(builder.compile(), {"log": []}) == {"log": [], "count": 3}


@pytest.mark.parametrize("path_map", [{"left": "b"}, ["b"]])
def test_an_answer_that_the_path_map_does_not_have(path_map):
    builder = chain("a", "b")
    builder.edges.discard(("a", "b"))
    builder.add_conditional_edges("a", lambda state: ["unhashable"] and [{}], path_map)
    with pytest.raises(UsageError, match=r"returned \{\}; its path_map has '(left|b)'"):
        builder.compile().invoke({"log": []})


@both_worlds
@pytest.mark.parametrize("answer", [7, None])
def test_an_answer_that_is_no_place(world: World, answer):
    """None too: it is what a function returns whose author forgot a branch."""
    builder = StateGraph(Log).add_node("a", word("a")).add_edge(START, "a")
    builder.add_conditional_edges("a", lambda state: answer)
    with pytest.raises(UsageError, match=f"must return a node's name, a Send or a list of them; got {answer}"):
        world.invoke(builder.compile(), {"log": []})


@both_worlds
@pytest.mark.parametrize("target", ["gone", Send("gone", {})])
def test_going_where_there_is_no_node(world: World, target):
    builder = chain(("a", lambda state: Command(goto=target)), "b")
    with pytest.raises(UsageError, match="There is no such node; the nodes are 'a', 'b'"):
        world.invoke(builder.compile(), {"log": []})


@both_worlds
def test_a_conditional_entry_point(world: World):
    builder = StateGraph(Log).add_node("a", word("a")).add_node("b", word("b"))
    builder.set_conditional_entry_point(lambda state: state["log"][0])
    graph = builder.compile()
    assert world.invoke(graph, {"log": ["b"]}) == {"log": ["b", "b"]}


@both_worlds
def test_sends_carry_their_own_input_and_keep_their_order(world: World):
    """Three tasks of one node, each with an argument of its own; what they wrote is folded in in the sends' order."""
    meet = threading.Barrier(3, timeout=5)

    def work(arg: dict[str, Any]) -> dict[str, Any]:
        meet.wait()
        return {"log": [arg["n"]]}

    builder = StateGraph(Log).add_node("plan", word("plan")).add_node("work", work).add_edge(START, "plan")
    builder.add_conditional_edges("plan", lambda state: [Send("work", {"n": n}) for n in (3, 1, 2)], ["work"])
    assert world.invoke(builder.compile(), {"log": []}) == {"log": ["plan", 3, 1, 2]}


@both_worlds
def test_parallel_nodes_meet_in_a_join(world: World):
    """`d` waits for both, although one way is longer; without the list it would run twice."""
    builder = StateGraph(Log)
    for name in ("a", "b", "b2", "d"):
        builder.add_node(name, word(name))
    builder.add_edge(START, "a").add_edge(START, "b").add_edge("b", "b2").add_edge(["a", "b2"], "d")
    assert world.invoke(builder.compile(), {"log": []}) == {"log": ["a", "b", "b2", "d"]}


@both_worlds
def test_a_join_in_a_loop_waits_anew_each_time(world: World):
    builder = StateGraph(Log)
    for name in ("plan", "a", "b", "meet"):
        builder.add_node(name, word(name))
    builder.add_edge(START, "plan").add_edge("plan", "a").add_edge("plan", "b").add_edge(["a", "b"], "meet")
    builder.add_conditional_edges("meet", lambda state: "plan" if state["log"].count("meet") < 2 else END)
    assert world.invoke(builder.compile(), {"log": []}) == {"log": ["plan", "a", "b", "meet"] * 2}


@both_worlds
def test_two_edges_to_one_node_run_it_once(world: World):
    builder = StateGraph(Log)
    for name in "abc":
        builder.add_node(name, word(name))
    builder.add_edge(START, "a").add_edge(START, "b").add_edge("a", "c").add_edge("b", "c")
    assert world.invoke(builder.compile(), {"log": []}) == {"log": ["a", "b", "c"]}


@both_worlds
@pytest.mark.parametrize("goto", ["c", ["c"], Send("c", {}), [Send("c", {})], ("c",)])
def test_a_command_changes_the_state_and_says_where_to_go(world: World, goto):
    builder = StateGraph(Log).add_node("a", lambda state: Command(update={"log": ["a"]}, goto=goto))
    builder.add_node("b", word("b")).add_node("c", word("c")).add_edge(START, "a")
    assert world.invoke(builder.compile(), {"log": []}) == {"log": ["a", "c"]}


@both_worlds
def test_a_command_goes_beside_the_edges(world: World):
    """An edge is taken whatever a `Command` says."""
    builder = StateGraph(Log).add_node("a", lambda state: Command(goto=["c", END]))
    builder.add_node("b", word("b")).add_node("c", word("c")).add_edge(START, "a").add_edge("a", "b")
    assert world.invoke(builder.compile(), {"log": []}) == {"log": ["b", "c"]}


@both_worlds
def test_a_node_may_return_several_commands_and_updates(world: World):
    def many(state: Log) -> list[Any]:
        return [{"log": [1]}, Command(update=[("log", [2])], goto="c"), None, {"log": [3]}]

    builder = StateGraph(Log).add_node("a", many).add_node("c", word("c")).add_edge(START, "a")
    assert world.invoke(builder.compile(), {"log": []}) == {"log": [1, 2, 3, "c"]}
    first = world.stream(builder.compile(), {"log": []})[0]
    assert first == {"a": [{"log": [1]}, {"log": [2]}, {"log": [3]}]}


@both_worlds
def test_one_command_in_a_list_is_shown_as_if_alone(world: World):
    builder = chain(("a", lambda state: [Command(update={"log": [1]}), None]), ("b", lambda state: []))
    assert world.stream(builder.compile(), {"log": []}) == [{"a": {"log": [1]}}, {"b": None}]


@both_worlds
def test_pairs_may_write_one_key_more_than_once(world: World):
    graph = chain(("a", lambda state: Command(update=[("log", [1]), ("log", [2])]))).compile()
    assert world.invoke(graph, {"log": []}) == {"log": [1, 2]}
    assert world.stream(graph, {"log": []}) == [{"a": [{"log": [1]}, {"log": [2]}]}]


@both_worlds
def test_commands_that_write_different_keys_are_shown_as_one_update(world: World):
    class State(Log):
        n: int

    graph = chain(("a", lambda state: [{"log": [1]}, Command(update={"n": 2})]), state=State).compile()
    assert world.stream(graph, {"log": []}) == [{"a": {"log": [1], "n": 2}}]


@both_worlds
def test_a_command_with_a_list_that_holds_no_pairs(world: World):
    with pytest.raises(InvalidUpdateError, match=r"update=\[3\]\. Write a dict .* or a list of \(key, update\) pairs"):
        world.invoke(chain(("a", lambda state: Command(update=[3]))).compile(), {"log": []})


@both_worlds
@pytest.mark.parametrize("answer", ["text", 3, [3], {1, 2}, Command(update=3)])
def test_an_answer_that_is_no_update(world: World, answer):
    with pytest.raises(InvalidUpdateError, match=r"Node 'a' returned .*Return a dict from state key to its update"):
        world.invoke(chain(("a", lambda state: answer)).compile(), {"log": []})


@both_worlds
def test_a_command_for_a_graph_around_that_is_not_there(world: World):
    graph = chain(("a", lambda state: Command(graph=Command.PARENT, goto="x"))).compile(name="alone")
    with pytest.raises(InvalidUpdateError, match="there is no graph around its own"):
        world.invoke(graph, {"log": []})


def test_compiling_again_leaves_earlier_graphs_as_they_were():
    builder = chain("a")
    before = builder.compile()
    builder.add_node("b", word("b")).add_edge("a", "b")
    assert before.invoke({"log": []}) == {"log": ["a"]}
    assert builder.compile().invoke({"log": []}) == {"log": ["a", "b"]}


def test_annotations_say_where_a_question_and_a_command_can_lead():
    """They only show in pictures; what runs is what is returned."""

    def which(state: Log) -> Literal["b", "__end__"]:
        return "b"

    def jump(state: Log) -> Command[Literal["a"]]:
        return Command(goto=END)

    builder = StateGraph(Log).add_node("a", word("a")).add_node("b", jump).add_edge(START, "a")
    graph = builder.add_conditional_edges("a", which).compile()
    assert {(e.source, e.target) for e in graph.get_graph().edges} == {
        (START, "a"),
        ("a", "b"),
        ("a", END),
        ("b", "a"),
    }
    assert graph.invoke({"log": []}) == {"log": ["a"]}


def test_annotations_that_cannot_be_read_are_left_alone():
    def which(state: Gone) -> Gone:  # type: ignore # noqa: F821
        return END

    def node(state: Gone) -> Gone:  # type: ignore # noqa: F821
        return {"log": ["a"]}

    builder = StateGraph(Log).add_node("a", node).add_edge(START, "a").add_conditional_edges("a", which)
    assert builder.compile().invoke({"log": []}) == {"log": ["a"]}


# --- schemas --------------------------------------------------------------------


class Private(TypedDict):
    draft: str


class In(TypedDict):
    question: str


class Out(TypedDict):
    answer: str


class Whole(In, Out):
    notes: Annotated[list[str], operator.add]


@both_worlds
def test_input_and_output_schemas_narrow_what_callers_give_and_get(world: World):
    """What is not in the input's schema is not taken, what is not in the output's is not shown, in any mode."""

    def think(state: Whole) -> dict[str, Any]:
        return {"notes": [*state["notes"], "thought"], "answer": state["question"].upper()}

    builder = StateGraph(Whole, input_schema=In, output_schema=Out).add_node("think", think).add_edge(START, "think")
    graph = builder.compile()
    given = {"question": "why", "answer": "given", "notes": ["given"]}
    assert world.invoke(graph, given) == {"answer": "WHY"}
    assert world.stream(graph, given, stream_mode="values") == [{}, {"answer": "WHY"}]


@both_worlds
def test_keys_that_only_the_input_has_are_not_part_of_the_result(world: World):
    class Asked(TypedDict):
        question: str

    builder = StateGraph(Log, input_schema=Asked).add_node("a", lambda state: {"log": [state["question"]]})
    graph = builder.add_edge(START, "a").compile()
    assert world.invoke(graph, {"question": "why"}) == {"log": ["why"]}


@both_worlds
def test_a_node_with_a_schema_of_its_own_adds_private_keys(world: World):
    seen: list[Any] = []
    builder = StateGraph(Log)
    builder.add_node("a", lambda state: {"draft": "d"})
    builder.add_node("b", lambda state: seen.append(state) or {"log": [state["draft"]]}, input_schema=Private)
    graph = builder.add_edge(START, "a").add_edge("a", "b").compile()
    assert world.invoke(graph, {"log": ["in"]}) == {"log": ["in", "d"]}
    assert seen == [{"draft": "d"}]


@both_worlds
def test_the_annotation_of_a_node_is_its_schema(world: World):
    """Private keys travel between nodes that name them, and callers never see them."""

    def a(state: Log) -> Private:
        return {"draft": "d"}

    def b(state: Private) -> dict[str, Any]:
        return {"log": sorted(state)}

    graph = chain(("a", a), ("b", b)).compile()
    assert world.invoke(graph, {"log": ["in"]}) == {"log": ["in", "draft"]}


def test_two_reducers_for_one_key():
    class Other(TypedDict):
        log: Annotated[list[Any], lambda old, new: new]

    with pytest.raises(UsageError, match="'log' is declared with two different reducers"):
        StateGraph(Log, input_schema=Other)


def test_a_reducer_wins_over_a_plain_key():
    class Plain(TypedDict):
        log: list[Any]

    for schemas in ((Plain, Log), (Log, Plain)):
        builder = StateGraph(schemas[0], output_schema=schemas[1])
        builder.add_node("a", word("a")).add_edge(START, "a")
        assert builder.compile().invoke({"log": ["in"]}) == {"log": ["in", "a"]}
