"""Questions in the middle of a run: asked together, answered by id, and nothing that ended runs again."""

from __future__ import annotations

from typing import Any

import pytest

from loopwright.checkpoint.memory import InMemorySaver
from loopwright.errors import GraphInterrupt, InvalidAnswerError, UsageError
from loopwright.graph import START, StateGraph
from loopwright.graph.types import Command, Interrupt, RetryPolicy, Send
from loopwright.types import interrupt
from tests.graph.worlds import Counted, Log, Once, World, both_worlds, chain, side_by_side, thread


def asks(*questions: Any) -> Any:
    """A node that asks one question after the other and writes the answers."""

    def node(state: Any) -> Any:
        node.runs += 1  # type: ignore[attr-defined]
        return {"log": [interrupt(question) for question in questions]}

    node.runs = 0  # type: ignore[attr-defined]
    return node


def values(interrupts: Any) -> list[Any]:
    return [one.value for one in interrupts]


@both_worlds
def test_a_node_asks_and_goes_on_with_the_answer(world: World):
    ask, after = asks("name?"), Counted({"log": ["after"]})
    graph = chain("before", ("ask", ask), ("after", after)).compile(checkpointer=InMemorySaver())
    result = world.invoke(graph, {"log": []}, thread())
    (question,) = result["__interrupt__"]
    assert result == {"log": ["before"], "__interrupt__": [Interrupt("name?", question.id)]}
    state = world.state(graph, thread())
    assert (state.next, state.interrupts, state.tasks[0].interrupts) == (("ask",), (question,), (question,))
    assert world.invoke(graph, Command(resume="Ada"), thread()) == {"log": ["before", "Ada", "after"]}
    assert (ask.runs, after.runs) == (2, 1)
    assert world.state(graph, thread()).interrupts == ()


@both_worlds
def test_answers_may_be_falsy(world: World):
    graph = chain(("ask", asks("?"))).compile(checkpointer=InMemorySaver())
    world.invoke(graph, {"log": []}, thread())
    assert world.invoke(graph, Command(resume=False), thread()) == {"log": [False]}


@both_worlds
def test_B37_each_question_of_a_task_has_an_answer_of_its_own(world: World):
    ask = asks("one", "two", "three")
    graph = chain(("ask", ask)).compile(checkpointer=InMemorySaver())
    ids: list[str] = []
    result = world.invoke(graph, {"log": []}, thread())
    for answer in "abc":
        (question,) = result["__interrupt__"]
        ids.append(question.id)
        result = world.invoke(graph, Command(resume=answer), thread())
    assert result == {"log": ["a", "b", "c"]}
    assert len(set(ids)) == 3


@both_worlds
def test_B29_questions_of_one_step_come_together_with_ids_of_their_own(world: World):
    graph = side_by_side(a=asks("a?"), b=asks("b?")).compile(checkpointer=InMemorySaver())
    result = world.invoke(graph, {"log": []}, thread())
    assert values(result["__interrupt__"]) == ["a?", "b?"]
    first, second = result["__interrupt__"]
    assert first.id != second.id
    answers = {second.id: "B", first.id: "A"}
    assert world.invoke(graph, Command(resume=answers), thread()) == {"log": ["A", "B"]}


@both_worlds
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_B32_a_finished_sibling_does_not_run_again(world: World, durability: str):
    done, ask, other = Counted({"log": ["done"]}), asks("?"), asks("!")
    graph = side_by_side(ask=ask, done=done, other=other).compile(checkpointer=InMemorySaver())
    first, second = world.invoke(graph, {"log": []}, thread(), durability=durability)["__interrupt__"]
    left = world.invoke(graph, Command(resume={first.id: 1}), thread(), durability=durability)["__interrupt__"]
    assert left == [second]
    assert world.state(graph, thread()).next == ("other",)
    assert world.invoke(graph, Command(resume=2), thread(), durability=durability) == {"log": [1, "done", 2]}
    assert (done.runs, ask.runs, other.runs) == (1, 2, 2)


@both_worlds
def test_going_on_without_an_answer_asks_again_and_runs_nothing(world: World):
    ask = asks("?")
    graph = chain(("ask", ask)).compile(checkpointer=InMemorySaver())
    asked = world.invoke(graph, {"log": []}, thread())
    assert world.invoke(graph, None, thread()) == asked
    assert ask.runs == 1


@both_worlds
def test_an_error_beside_a_question(world: World):
    """The error is raised; afterwards the failed task runs again and the question is still open."""
    ask, bad = asks("?"), Once({"log": ["good"]})
    graph = side_by_side(ask=ask, bad=bad).compile(checkpointer=InMemorySaver())
    with pytest.raises(ConnectionError):
        world.invoke(graph, {"log": []}, thread())
    assert values(world.state(graph, thread()).interrupts) == ["?"]
    assert values(world.invoke(graph, None, thread())["__interrupt__"]) == ["?"]
    assert world.invoke(graph, Command(resume="!"), thread()) == {"log": ["!", "good"]}
    assert (ask.runs, bad.runs) == (2, 2)


@both_worlds
def test_an_answered_task_that_fails_keeps_its_answer(world: World):
    failing = Once("x")

    def node(state: Any) -> Any:
        answer = interrupt("?")
        return {"log": [answer, failing(state)]}

    graph = chain(("node", node)).compile(checkpointer=InMemorySaver())
    world.invoke(graph, {"log": []}, thread())
    with pytest.raises(ConnectionError):
        world.invoke(graph, Command(resume="A"), thread())
    assert world.invoke(graph, None, thread()) == {"log": ["A", "x"]}


@both_worlds
def test_an_answer_that_is_refused_leaves_the_question_open(world: World):
    def node(state: Any) -> Any:
        answer = interrupt("a number?")
        if not isinstance(answer, int):
            raise InvalidAnswerError(f"{answer!r} is no number")
        return {"log": [answer]}

    graph = side_by_side(node=node, other=asks("?")).compile(checkpointer=InMemorySaver())
    first, second = world.invoke(graph, {"log": []}, thread())["__interrupt__"]
    with pytest.raises(InvalidAnswerError, match="'x' is no number"):
        world.invoke(graph, Command(resume={first.id: "x"}), thread())
    assert world.state(graph, thread()).interrupts == (first, second)
    assert world.invoke(graph, Command(resume={first.id: 5, second.id: 6}), thread()) == {"log": [5, 6]}


@both_worlds
def test_a_question_may_stand_for_its_id(world: World):
    graph = side_by_side(a=asks({"a": "dict"}), b=asks("b?")).compile(checkpointer=InMemorySaver())
    first, second = world.invoke(graph, {"log": []}, thread())["__interrupt__"]
    world.invoke(graph, Command(resume={second: 2}), thread())
    with pytest.raises(UsageError, match=f"answers '{second.id}', which thread '1' does not wait for"):
        world.invoke(graph, Command(resume={second: 2}), thread())
    assert world.invoke(graph, Command(resume={first: 1}), thread()) == {"log": [1, 2]}


@both_worlds
def test_an_answer_to_nobody_is_refused_and_the_thread_is_as_it_was(world: World):
    graph = side_by_side(a=asks("a?"), b=asks("b?")).compile(checkpointer=InMemorySaver())
    first, second = world.invoke(graph, {"log": []}, thread())["__interrupt__"]
    with pytest.raises(UsageError, match=f"waits for 2 answers.*{first.id}.*{second.id}"):
        world.invoke(graph, Command(resume="which?"), thread())
    with pytest.raises(UsageError, match=f"answers '{'0' * 32}', which thread '1' does not wait for"):
        world.invoke(graph, Command(resume={"0" * 32: 1}), thread())
    world.invoke(graph, Command(resume={first.id: 1}), thread())
    with pytest.raises(UsageError, match=f"answered before, or asked elsewhere. It waits for '{second.id}'"):
        world.invoke(graph, Command(resume={first.id: 1}), thread())
    assert world.invoke(graph, Command(resume={"a": "dict"}), thread()) == {"log": [1, {"a": "dict"}]}
    with pytest.raises(UsageError, match="thread '1' is not paused"):
        world.invoke(graph, Command(resume=1), thread())


@both_worlds
def test_B66_every_mode_shows_the_questions_together(world: World):
    graph = side_by_side(a=asks("a?"), b=asks("b?"), c=Counted({"log": ["c"]})).compile(checkpointer=InMemorySaver())
    chunks = world.stream(
        graph, {"log": ["in"]}, thread(), stream_mode=["updates", "values", "tasks", "debug", "events"]
    )
    state = world.state(graph, thread())
    both = state.interrupts
    assert values(both) == ["a?", "b?"]
    by_mode: dict[str, list[Any]] = {}
    for mode, chunk in chunks:
        by_mode.setdefault(mode, []).append(chunk)
    assert by_mode["updates"] == [{"c": {"log": ["c"]}}, {"__interrupt__": both}]
    assert by_mode["values"][-1] == {"log": ["in"], "__interrupt__": both}
    asked = [chunk["interrupts"] for chunk in by_mode["tasks"] if chunk.get("interrupts")]
    shown = [{"value": one.value, "id": one.id, "response_schema": None} for one in both]
    assert sorted(asked, key=str) == sorted([[one] for one in shown], key=str)
    told = [chunk["payload"]["interrupts"] for chunk in by_mode["debug"] if chunk["payload"].get("interrupts")]
    assert sorted(told, key=str) == sorted(asked, key=str)
    assert by_mode["events"][-1].interrupts == both


@both_worlds
def test_version_2_has_the_questions_beside_the_values(world: World):
    graph = chain(("ask", asks("?"))).compile(checkpointer=InMemorySaver())
    output = world.invoke(graph, {"log": ["in"]}, thread(), version="v2")
    assert (output.value, values(output.interrupts)) == ({"log": ["in"]}, ["?"])
    parts = world.stream(graph, None, thread(), stream_mode="values", version="v2")
    assert values(parts[-1]["interrupts"]) == ["?"]


@both_worlds
def test_a_schema_goes_along_with_its_question(world: World):
    schema = {"type": "integer"}
    graph = chain(("ask", lambda state: {"log": [interrupt("?", response_schema=schema)]}))
    result = world.invoke(graph.compile(checkpointer=InMemorySaver()), {"log": []}, thread())
    assert result["__interrupt__"][0].response_schema == schema


@both_worlds
def test_B36_a_retry_policy_does_not_try_a_question_again(world: World):
    ask = asks("?")
    builder = StateGraph(Log).add_node("ask", ask, retry_policy=RetryPolicy(max_attempts=5, retry_on=Exception))
    graph = builder.add_edge(START, "ask").compile(checkpointer=InMemorySaver())
    assert values(world.invoke(graph, {"log": []}, thread())["__interrupt__"]) == ["?"]
    assert ask.runs == 1
    assert world.invoke(graph, Command(resume="!"), thread()) == {"log": ["!"]}


@both_worlds
def test_a_node_that_is_tried_again_asks_the_same_questions(world: World):
    failing = Once("x")

    def node(state: Any) -> Any:
        return {"log": [interrupt("?"), failing(state)]}

    builder = StateGraph(Log).add_node(
        "node", node, retry_policy=RetryPolicy(initial_interval=0.0, jitter=False, retry_on=ConnectionError)
    )
    graph = builder.add_edge(START, "node").compile(checkpointer=InMemorySaver())
    world.invoke(graph, {"log": []}, thread())
    assert world.invoke(graph, Command(resume="A"), thread()) == {"log": ["A", "x"]}
    assert failing.runs == 2


@both_worlds
def test_sends_of_one_node_are_tasks_of_their_own(world: World):
    def node(word: str) -> Any:
        return {"log": [f"{word}={interrupt(word)}"]}

    builder = StateGraph(Log).add_node("node", node)
    builder.add_conditional_edges(START, lambda state: [Send("node", "x"), Send("node", "y")], ["node"])
    graph = builder.compile(checkpointer=InMemorySaver())
    x, y = world.invoke(graph, {"log": []}, thread())["__interrupt__"]
    world.invoke(graph, Command(resume={y.id: 2}), thread())
    assert world.invoke(graph, Command(resume={x.id: 1}), thread()) == {"log": ["x=1", "y=2"]}


@both_worlds
def test_new_input_in_place_of_an_answer_is_the_next_turn(world: World):
    ask = asks("?")
    graph = side_by_side(ask=ask, done=Counted({"log": ["done"]})).compile(checkpointer=InMemorySaver())
    world.invoke(graph, {"log": ["one"]}, thread())
    result = world.invoke(graph, {"log": ["two"]}, thread())
    assert result["log"] == ["one", "done", "two"]
    assert values(result["__interrupt__"]) == ["?"]


@both_worlds
def test_an_answer_with_a_change_of_the_state(world: World):
    graph = chain("a", ("ask", asks("?"))).compile(checkpointer=InMemorySaver())
    world.invoke(graph, {"log": []}, thread())
    assert world.invoke(graph, Command(resume="!", update={"log": ["by hand"]}), thread()) == {
        "log": ["a", "by hand", "!"]
    }


@both_worlds
def test_B39_going_back_before_a_question_asks_it_again(world: World):
    graph = chain("a", ("ask", asks("?"))).compile(checkpointer=InMemorySaver())
    old = world.invoke(graph, {"log": []}, thread())["__interrupt__"][0]
    world.invoke(graph, Command(resume="first"), thread())
    paused = next(state for state in world.history(graph, thread()) if state.next == ("ask",))
    before = next(state for state in world.history(graph, thread()) if state.next == ("a",))
    for config in (paused.config, before.config):
        again = world.invoke(graph, None, config)["__interrupt__"]
        assert values(again) == ["?"]
        assert again[0].id != old.id
        assert world.invoke(graph, Command(resume="second"), thread())["log"][-1] == "second"


@both_worlds
def test_an_old_question_can_be_answered_in_another_way(world: World):
    """Running from an old, paused checkpoint with an answer forks the thread there."""
    graph = chain("a", ("ask", asks("?"))).compile(checkpointer=InMemorySaver())
    asked = world.invoke(graph, {"log": []}, thread())["__interrupt__"][0]
    world.invoke(graph, Command(resume="first"), thread())
    paused = next(state for state in world.history(graph, thread()) if state.next == ("ask",))
    assert paused.interrupts == (), "the question was answered there"
    with pytest.raises(UsageError, match="waits for no answer"):
        world.invoke(graph, Command(resume={asked.id: "second"}), paused.config)


@both_worlds
def test_B46_threads_pause_one_by_one(world: World):
    graph = chain(("ask", asks("?"))).compile(checkpointer=InMemorySaver())
    world.invoke(graph, {"log": []}, thread("1"))
    world.invoke(graph, {"log": []}, thread("2"))
    assert world.invoke(graph, Command(resume="one"), thread("1")) == {"log": ["one"]}
    assert values(world.state(graph, thread("2")).interrupts) == ["?"]


@both_worlds
def test_a_copy_of_a_paused_thread_is_answered_on_its_own(world: World):
    saver = InMemorySaver()
    graph = chain(("ask", asks("?"))).compile(checkpointer=saver)
    world.invoke(graph, {"log": []}, thread("1"))
    saver.copy_thread("1", "2")
    saver.prune(["1", "2"])
    assert world.invoke(graph, Command(resume="one"), thread("1")) == {"log": ["one"]}
    assert world.invoke(graph, Command(resume="two"), thread("2")) == {"log": ["two"]}


@both_worlds
def test_without_a_checkpointer_a_question_is_an_error(world: World):
    with pytest.raises(UsageError, match=r"interrupt\(\) needs a checkpointer.*InMemorySaver"):
        world.invoke(chain(("ask", asks("?"))).compile(), {"log": []})


def test_outside_of_a_run_a_question_is_an_error():
    with pytest.raises(RuntimeError, match="outside of a run"):
        interrupt("?")


def test_control_flow_is_no_exception():
    assert not issubclass(GraphInterrupt, Exception)
    assert GraphInterrupt().interrupts == ()


@both_worlds
def test_B119_a_question_that_cannot_be_stored_is_refused_with_its_place(world: World):
    graph = chain(("ask", lambda state: {"log": [interrupt({"f": print})]})).compile(checkpointer=InMemorySaver())
    with pytest.raises(UsageError, match=r'"f".*cannot be stored'):
        world.invoke(graph, {"log": []}, thread())


# ---- stops that the caller asks for


@both_worlds
def test_a_stop_before_a_node(world: World):
    graph = chain("a", "b", "c").compile(checkpointer=InMemorySaver(), interrupt_before=["b", "c"])
    assert world.invoke(graph, {"log": []}, thread()) == {"log": ["a"]}
    assert world.state(graph, thread()).next == ("b",)
    assert world.invoke(graph, None, thread()) == {"log": ["a", "b"]}
    assert world.invoke(graph, None, thread()) == {"log": ["a", "b", "c"]}


@both_worlds
def test_a_stop_after_a_node_and_everywhere(world: World):
    graph = chain("a", "b", "c").compile(checkpointer=InMemorySaver(), interrupt_after=["a"])
    assert world.invoke(graph, {"log": []}, thread("1")) == {"log": ["a"]}
    assert world.invoke(graph, None, thread("1")) == {"log": ["a", "b", "c"]}
    assert world.invoke(graph, {"log": []}, thread("2"), interrupt_after="*") == {"log": ["a"]}
    assert world.invoke(graph, None, thread("2"), interrupt_after="*") == {"log": ["a", "b"]}
    assert world.invoke(graph, None, thread("2"), interrupt_after=[]) == {"log": ["a", "b", "c"]}
    assert world.invoke(graph, {"log": []}, thread("3"), interrupt_before="*", interrupt_after=[]) == {"log": []}


@both_worlds
def test_a_stop_is_shown_without_a_question(world: World):
    graph = chain("a", "b").compile(checkpointer=InMemorySaver(), interrupt_before=["b"])
    assert world.stream(graph, {"log": []}, thread(), stream_mode="updates") == [
        {"a": {"log": ["a"]}},
        {"__interrupt__": ()},
    ]
    with pytest.raises(UsageError, match=r"waits for no answer\. Go on with invoke\(None, config\)"):
        world.invoke(graph, Command(resume="go"), thread())


@both_worlds
def test_the_state_can_be_changed_at_a_stop(world: World):
    graph = chain("a", "b").compile(checkpointer=InMemorySaver(), interrupt_before=["b"])
    world.invoke(graph, {"log": []}, thread())
    world.update(graph, thread(), {"log": ["by hand"]})
    assert world.invoke(graph, None, thread()) == {"log": ["a", "by hand", "b"]}


def test_wrong_stops_are_refused():
    builder = chain("a", "b")
    with pytest.raises(UsageError, match="interrupt_before names 'x', which is no node of this graph; it has 'a', 'b'"):
        builder.compile(checkpointer=InMemorySaver(), interrupt_before=["x"])
    with pytest.raises(UsageError, match=r"interrupt_after='a': write a list"):
        builder.compile(checkpointer=InMemorySaver(), interrupt_after="a")
    with pytest.raises(UsageError, match="interrupt_before/interrupt_after needs a checkpointer"):
        builder.compile(interrupt_before=["a"]).invoke({"log": []})


# ---- graphs in nodes


@both_worlds
def test_a_graph_in_a_node_goes_on_in_place(world: World):
    first, ask = Counted({"log": ["first"]}), asks("?")
    inner = chain(("first", first), ("ask", ask)).compile()
    graph = chain("a", ("inner", inner), "z").compile(checkpointer=InMemorySaver())
    result = world.invoke(graph, {"log": []}, thread())
    assert values(result["__interrupt__"]) == ["?"]
    nested = world.state(graph, thread(), subgraphs=True).tasks[0].state
    assert (nested.next, nested.values["log"], values(nested.interrupts)) == (("ask",), ["a", "first"], ["?"])
    assert world.invoke(graph, Command(resume="!"), thread())["log"][-3:] == ["first", "!", "z"]
    assert (first.runs, ask.runs) == (1, 2)


@both_worlds
def test_an_inner_stop_pauses_the_outer_graph(world: World):
    inner = chain("x", "y").compile(interrupt_before=["y"])
    graph = chain(("inner", inner), "z").compile(checkpointer=InMemorySaver())
    assert world.invoke(graph, {"log": []}, thread()) == {"log": []}
    assert world.invoke(graph, None, thread())["log"][-2:] == ["y", "z"]


@both_worlds
def test_inner_questions_are_answered_one_by_one(world: World):
    done, a, b = Counted({"log": ["done"]}), asks("a?"), asks("b?")
    inner = side_by_side(a=a, b=b, done=done).compile()
    graph = chain(("inner", inner)).compile(checkpointer=InMemorySaver())
    first, second = world.invoke(graph, {"log": []}, thread())["__interrupt__"]
    assert world.invoke(graph, Command(resume={second.id: "B"}), thread())["__interrupt__"] == [first]
    assert world.invoke(graph, Command(resume="A"), thread()) == {"log": ["A", "B", "done"]}
    assert (done.runs, a.runs, b.runs) == (1, 2, 2)


@both_worlds
def test_a_question_in_a_conditional_edge_is_refused(world: World):
    builder = StateGraph(Log).add_node("a", Counted({"log": ["a"]})).add_edge(START, "a")
    graph = builder.add_conditional_edges("a", lambda state: interrupt("where?"), ["a"]).compile(
        checkpointer=InMemorySaver()
    )
    with pytest.raises(UsageError, match=r"conditional edge after node 'a'.*Ask in the node"):
        world.invoke(graph, {"log": []}, thread())


@both_worlds
def test_the_place_of_a_run_below_can_only_be_looked_at(world: World):
    inner = chain(("ask", asks("?"))).compile()
    graph = chain(("inner", inner)).compile(checkpointer=InMemorySaver())
    world.invoke(graph, {"log": []}, thread())
    place = world.state(graph, thread(), subgraphs=True).tasks[0].state.config
    assert values(world.state(graph, place).interrupts) == ["?"]
    with pytest.raises(UsageError, match="the place of a run below"):
        world.update(graph, place, {"log": ["x"]})
    with pytest.raises(UsageError, match="the place of a run below"):
        world.invoke(graph, {"log": []}, place)
    assert world.invoke(graph, Command(resume="!"), thread()) == {"log": ["!"]}
