"""Going on after a failure: what has ended is not run again, what was said is not lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from loopwright.checkpoint.memory import InMemorySaver
from loopwright.errors import (
    EmptyInputError,
    InvalidUpdateError,
    UsageError,
)
from loopwright.graph import START, StateGraph
from loopwright.graph.types import Command, Send
from tests.graph.worlds import Counted, Log, Once, World, both_worlds, chain, side_by_side, thread


@both_worlds
def test_turns_of_a_thread_go_on_and_threads_never_mix(world: World):
    graph = chain("a").compile(checkpointer=InMemorySaver())
    assert world.invoke(graph, {"log": [1]}, thread("x")) == {"log": [1, "a"]}
    assert world.invoke(graph, {"log": [2]}, thread("y")) == {"log": [2, "a"]}
    assert world.invoke(graph, {"log": [3]}, thread("x")) == {"log": [1, "a", 3, "a"]}


@both_worlds
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("silent", [False, True], ids=["writes", "writes nothing"])
def test_B11_only_what_had_not_ended_runs_again(world: World, durability, silent):
    """A finished sibling is not run twice, whether it wrote something or not, and where it said to go counts."""
    good = Counted(Command(goto="c") if silent else Command(update={"log": ["good"]}, goto="c"))
    bad, after = Once({"log": ["bad"]}), Counted({"log": ["after"]})
    graph = side_by_side(good=good, bad=bad).add_node("c", after).compile(checkpointer=InMemorySaver())
    with pytest.raises(ConnectionError):
        world.invoke(graph, {"log": []}, thread(), durability=durability)
    assert world.state(graph, thread()).next == ("bad",)
    expected = ["bad", "after"] if silent else ["bad", "good", "after"]
    assert world.invoke(graph, None, thread(), durability=durability) == {"log": expected}
    assert (good.runs, bad.runs, after.runs) == (1, 2, 1)


@both_worlds
def test_a_node_that_wrote_nothing_is_not_run_again(world: World):
    quiet, bad = Counted(), Once({"log": ["bad"]})
    graph = side_by_side(quiet=quiet, bad=bad).compile(checkpointer=InMemorySaver())
    with pytest.raises(ConnectionError):
        world.invoke(graph, {"log": []}, thread())
    assert world.invoke(graph, None, thread()) == {"log": ["bad"]}
    assert quiet.runs == 1


@both_worlds
@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_B42_a_routing_that_failed_is_done_again(world: World, durability):
    """The node before it is not: what it wrote is on record."""
    work, route, sink = Counted({"log": ["work"]}), Once("sink"), Counted({"log": ["sink"]})
    builder = StateGraph(Log).add_node("work", work).add_node("sink", sink).add_edge(START, "work")
    graph = builder.add_conditional_edges("work", route).compile(checkpointer=InMemorySaver())
    with pytest.raises(ConnectionError) as caught:
        world.invoke(graph, {"log": ["in"]}, thread(), durability=durability)
    assert caught.value.state == {"log": ["in", "work"]}  # type: ignore
    assert world.state(graph, thread()).values == {"log": ["in", "work"]}
    assert world.state(graph, thread()).next == ("work",), "its thread is not at its end"
    assert world.invoke(graph, None, thread()) == {"log": ["in", "work", "sink"]}
    assert (work.runs, route.runs, sink.runs) == (1, 2, 1)


@both_worlds
@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_B42_the_first_routing_keeps_the_input(world: World, durability):
    builder = StateGraph(Log).add_node("a", Counted({"log": ["a"]}))
    builder.set_conditional_entry_point(Once("a"))
    graph = builder.compile(checkpointer=InMemorySaver())
    with pytest.raises(ConnectionError):
        world.invoke(graph, {"log": ["in"]}, thread(), durability=durability)
    if durability == "exit":  # nothing had begun: nothing is kept
        with pytest.raises(EmptyInputError):
            world.invoke(graph, None, thread())
    else:
        assert world.invoke(graph, None, thread()) == {"log": ["in", "a"]}


@both_worlds
def test_a_resumed_send_has_its_argument_and_its_place(world: World):
    runs: list[Any] = []

    def work(arg: Any) -> dict[str, Any]:
        runs.append(arg)
        if arg == 2 and runs.count(2) == 1:
            raise ConnectionError("down")
        return {"log": [arg]}

    builder = StateGraph(Log).add_node("work", work)
    builder.add_conditional_edges(START, lambda state: [Send("work", n) for n in (1, 2, 3)], ["work"])
    graph = builder.compile(checkpointer=InMemorySaver())
    with pytest.raises(ConnectionError):
        world.invoke(graph, {"log": []}, thread())
    assert world.invoke(graph, None, thread()) == {"log": [1, 2, 3]}
    assert sorted(runs) == [1, 2, 2, 3]


@both_worlds
def test_a_join_survives_a_failure(world: World):
    """`d` has seen `a` end two steps before the failure."""
    builder = StateGraph(Log).add_node("a", Counted({"log": ["a"]})).add_node("b", Counted({"log": ["b"]}))
    builder.add_node("b2", Once({"log": ["b2"]})).add_node("d", Counted({"log": ["d"]}))
    builder.add_edge(START, "a").add_edge(START, "b").add_edge("b", "b2").add_edge(["a", "b2"], "d")
    graph = builder.compile(checkpointer=InMemorySaver())
    with pytest.raises(ConnectionError):
        world.invoke(graph, {"log": []}, thread())
    assert world.invoke(graph, None, thread()) == {"log": ["a", "b", "b2", "d"]}


@both_worlds
def test_new_input_after_a_failure_keeps_what_had_finished(world: World):
    """The failed step is given up; what its finished tasks wrote was said and stays said."""
    graph = side_by_side(good=Counted({"log": ["good"]}), bad=Once({"log": ["bad"]})).compile(
        checkpointer=InMemorySaver()
    )
    with pytest.raises(ConnectionError):
        world.invoke(graph, {"log": [1]}, thread())
    assert world.state(graph, thread()).values == {"log": [1, "good"]}
    assert world.invoke(graph, {"log": [2]}, thread()) == {"log": [1, "good", 2, "bad", "good"]}


@both_worlds
def test_a_thread_whose_step_cannot_be_joined_can_go_on(world: World):
    """Two nodes write one plain key: an error each time it is tried, and no reading of the thread fails for it."""

    class State(Log):
        x: int

    builder = StateGraph(State).add_node("a", lambda state: {"x": 1}).add_node("b", lambda state: {"x": 2})
    builder.add_conditional_edges(START, lambda state: ["a", "b"] if len(state["log"]) == 1 else "a")
    graph = builder.compile(checkpointer=InMemorySaver())
    for given in ({"log": [1]}, None):
        with pytest.raises(InvalidUpdateError, match="'x' was written twice") as caught:
            world.invoke(graph, given, thread())
        assert caught.value.state == {"log": [1]}
        assert world.state(graph, thread()).values == {"log": [1]}
    assert world.invoke(graph, {"log": [2]}, thread()) == {"log": [1, 2], "x": 1}


@both_worlds
def test_a_finished_thread_has_nothing_left_to_do(world: World):
    node = Counted({"log": ["a"]})
    graph = chain(("a", node)).compile(checkpointer=InMemorySaver())
    world.invoke(graph, {"log": []}, thread())
    assert world.invoke(graph, None, thread()) == {"log": ["a"]}
    assert node.runs == 1


@both_worlds
@pytest.mark.parametrize("given", [None, Command(goto="a")])
def test_nothing_to_go_on_with(world: World, given):
    with pytest.raises(EmptyInputError, match=r"this graph has no checkpointer. Give it an input"):
        world.invoke(chain("a").compile(), given)
    with pytest.raises(EmptyInputError, match="this thread has no checkpoint yet"):
        world.invoke(chain("a").compile(checkpointer=InMemorySaver()), given, thread())


@both_worlds
def test_an_answer_that_nobody_asked_for(world: World):
    graph = chain("a").compile(checkpointer=InMemorySaver())
    world.invoke(graph, {"log": []}, thread())
    with pytest.raises(UsageError, match=r"answers a question, and thread '1' is not paused\. Give a new input\."):
        world.invoke(graph, Command(resume="yes"), thread())


@both_worlds
def test_an_answer_where_nothing_was_ever_run(world: World):
    with pytest.raises(EmptyInputError, match=r"Command\(resume=…\) answers .*, and this graph has no checkpointer"):
        world.invoke(chain("a").compile(), Command(resume="yes"))
    with pytest.raises(EmptyInputError, match=r"Command\(resume=…\) answers .*, and this thread has no checkpoint yet"):
        world.invoke(chain("a").compile(checkpointer=InMemorySaver()), Command(resume="yes"), thread())


@both_worlds
def test_a_command_from_outside_changes_the_state_and_the_way(world: World):
    graph = chain("a", "b", "c").compile(checkpointer=InMemorySaver())
    world.invoke(graph, {"log": []}, thread())
    assert world.invoke(graph, Command(update={"log": ["x"]}, goto="b"), thread()) == {
        "log": ["a", "b", "c", "x", "b", "c"]
    }


@both_worlds
def test_a_command_that_only_changes_the_state_goes_on_as_planned(world: World):
    """The tasks that are due see the change; those that have ended are not run again, also after a second failure."""
    seen: list[Any] = []

    def look(state: Any) -> Any:
        seen.append(list(state["log"]))
        if len(seen) < 3:
            raise ConnectionError("down")
        return {"log": ["bad"]}

    good = Counted({"log": ["good"]})
    graph = side_by_side(good=good, bad=look).compile(checkpointer=InMemorySaver())
    with pytest.raises(ConnectionError):
        world.invoke(graph, {"log": [1]}, thread())
    with pytest.raises(ConnectionError):
        world.invoke(graph, Command(update={"log": [2]}), thread())
    assert world.invoke(graph, None, thread()) == {"log": [1, 2, "bad", "good"]}
    assert (seen, good.runs) == ([[1], [1, 2], [1, 2]], 1)


class Dies(InMemorySaver):
    """A saver whose process dies in one of its methods, once: before it has written, or right after."""

    def __init__(self, method: str, *, after: bool, number: int) -> None:
        super().__init__()
        self.method, self.after, self.left = method, after, number

    def _call(self, method: str, write: Callable[[], None]) -> None:
        self.left -= method == self.method
        dies = method == self.method and self.left == 0
        if not dies or self.after:
            write()
        if dies:
            raise KeyboardInterrupt

    def save(self, record: Any, changed: Any = None, claim: int | None = None) -> None:
        self._call("save", lambda: super(Dies, self).save(record, changed, claim))

    def save_writes(
        self, thread_id: str, ns: str, checkpoint_id: str, task_id: str, writes: Any, claim: Any = None
    ) -> None:
        place = (thread_id, ns, checkpoint_id, task_id)
        self._call("save_writes", lambda: super(Dies, self).save_writes(*place, writes, claim))


@both_worlds
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("method", ["save", "save_writes"])
@pytest.mark.parametrize("number", range(1, 6))
def test_B44_dying_in_any_write_runs_nothing_twice_that_was_on_record(world: World, method, number, after):
    """A node whose result was written is never run again; where its result was lost, exactly that one is."""
    nodes = [Counted({"log": [n]}) for n in range(3)]
    builder = chain(*((f"n{n}", node) for n, node in enumerate(nodes)))
    saver = Dies(method, after=after, number=number)
    try:
        world.invoke(builder.compile(checkpointer=saver), {"log": ["in"]}, thread())
    except KeyboardInterrupt:
        graph = builder.compile(checkpointer=saver)
        fresh = world.state(graph, thread()).created_at is None
        assert world.invoke(graph, {"log": ["in"]} if fresh else None, thread()) == {"log": ["in", 0, 1, 2]}
    lost = number - 1 if method == "save_writes" and not after and number <= 3 else None
    assert [node.runs for node in nodes] == [2 if n == lost else 1 for n in range(3)]


@both_worlds
@pytest.mark.parametrize("stop", [{"interrupt_before": ["b"]}, {"interrupt_after": ["a"]}], ids=["before", "after"])
@pytest.mark.parametrize("below", [False, True], ids=["at the top", "below"])
def test_a_process_that_dies_on_its_way_to_a_stop_has_not_stopped(world: World, stop, below):
    """Somebody wanted to look before `b` runs; nobody has."""
    saver = Dies("save", after=True, number=5 if below else 3)
    last = Counted({"log": ["b"]})
    builder = chain("a", ("b", last))
    graph = builder.compile(checkpointer=saver, **stop)
    if below:
        graph = chain(("inner", builder.compile(**stop))).compile(checkpointer=saver)
    with pytest.raises(KeyboardInterrupt):
        world.invoke(graph, {"log": []}, thread())
    world.invoke(graph, None, thread())
    assert (last.runs, world.state(graph, thread()).next) == (0, ("inner" if below else "b",))
    assert world.invoke(graph, None, thread()) == {"log": ["a", "b"]}


@both_worlds
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_step_that_fails_after_its_stop_is_tried_again_without_one(world: World, durability):
    saver = InMemorySaver()
    graph = chain("a", ("b", Once({"log": ["b"]}))).compile(checkpointer=saver, interrupt_before=["b"])
    assert world.invoke(graph, {"log": []}, thread(), durability=durability) == {"log": ["a"]}
    with pytest.raises(ConnectionError):
        world.invoke(graph, None, thread(), durability=durability)
    assert world.invoke(graph, None, thread(), durability=durability) == {"log": ["a", "b"]}


@both_worlds
def test_an_iterator_that_is_at_its_end_is_an_error_like_others(world: World):
    graph = chain(("a", lambda state: next(iter(())))).compile()
    for ask in (world.invoke, world.stream):
        with pytest.raises(RuntimeError, match="StopIteration"):
            ask(graph, {"log": []})
