"""Runs: how they end, what survives a failure, and who may write to a thread."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from loopwright.callbacks import BaseCallbackHandler
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.errors import (
    GraphRecursionError,
    RunCancelled,
    ThreadConflictError,
    UnstorableError,
    UsageError,
)
from loopwright.graph import END, START, MessagesState, StateGraph
from loopwright.graph.types import Command, Overwrite, RetryPolicy, Send
from loopwright.messages import AIMessage, RemoveMessage
from loopwright.testing import ManualClock
from tests.graph.worlds import Counted, Log, Once, World, both_worlds, chain, side_by_side, thread

# --- limits and errors ----------------------------------------------------------


def endless() -> StateGraph:
    return chain("a", "b").add_edge("b", "a")


@both_worlds
@pytest.mark.parametrize("limit", [1, 2, 9, 10, 11])
def test_B107_the_recursion_limit_is_exact(world: World, limit):
    """Always the same error, after exactly so many steps, with the state so far, and the thread can go on."""
    graph = endless().compile(checkpointer=InMemorySaver())
    with pytest.raises(GraphRecursionError, match=f"recursion_limit={limit}\\)") as caught:
        world.invoke(graph, {"log": []}, {**thread(), "recursion_limit": limit})
    expected = ["a", "b", "a", "b", "a", "b", "a", "b", "a", "b", "a"][:limit]
    assert caught.value.state == {"log": expected}
    assert world.state(graph, thread()).values == {"log": expected}
    with pytest.raises(GraphRecursionError) as caught:
        world.invoke(graph, None, {**thread(), "recursion_limit": 1})
    assert caught.value.state == {"log": [*expected, "a" if limit % 2 == 0 else "b"]}


@both_worlds
def test_finding_that_nothing_is_left_takes_a_step_too(world: World):
    """As LangGraph counts: a graph of three nodes needs a limit of four."""
    graph = chain("a", "b", "c").compile()
    assert world.invoke(graph, {"log": []}, {"recursion_limit": 4}) == {"log": ["a", "b", "c"]}
    with pytest.raises(GraphRecursionError):
        world.invoke(graph, {"log": []}, {"recursion_limit": 3})


@both_worlds
@pytest.mark.parametrize("key", ["recursion_limit", "max_concurrency"])
@pytest.mark.parametrize("count", [0, -1, "x", 1.5])
def test_counts_in_a_config_that_cannot_be_meant(world: World, key, count):
    with pytest.raises(UsageError, match=rf"config\['{key}'\] must be a whole number from 1 on.*got {count!r}"):
        world.invoke(endless().compile(), {"log": []}, {key: count})


@both_worlds
def test_a_recursion_limit_of_the_graphs_own(world: World):
    graph = endless().compile().with_config(recursion_limit=3)
    with pytest.raises(GraphRecursionError, match="3 steps"):
        world.invoke(graph, {"log": []})
    with pytest.raises(GraphRecursionError, match="5 steps"):
        world.invoke(graph, {"log": []}, {"recursion_limit": 5})


@both_worlds
def test_an_error_carries_the_state_so_far(world: World):
    """What finished siblings wrote is a part of it."""
    graph = side_by_side(a=Counted({"log": ["a"]}), b=Once(None), c=Counted({"log": ["c"]})).compile()
    with pytest.raises(ConnectionError, match="down") as caught:
        world.invoke(graph, {"log": ["in"]})
    assert caught.value.state == {"log": ["in", "a", "c"]}  # type: ignore


@both_worlds
def test_an_error_that_has_a_state_of_its_own_keeps_it(world: World):
    class Stateful(Exception):
        state = "mine"

    class Sealed(Exception):
        __slots__ = ()

        def __setattr__(self, name: str, value: Any) -> None:
            raise AttributeError(name)

    with pytest.raises(Stateful) as caught:
        world.invoke(chain(("a", Once(None, Stateful()))).compile(), {"log": []})
    assert caught.value.state == "mine"
    with pytest.raises(Sealed):
        world.invoke(chain(("a", Once(None, Sealed()))).compile(), {"log": []})


@both_worlds
def test_of_several_errors_the_first_in_the_plan_is_raised(world: World):
    """Whichever came first: `b` waits until `c` has failed."""
    failed = threading.Event()

    def late(state: Any) -> None:
        assert failed.wait(5)
        raise KeyError("b")

    def early(state: Any) -> None:
        failed.set()
        raise ValueError("c")

    with pytest.raises(KeyError, match="b"):
        world.invoke(side_by_side(a=Counted(), b=late, c=early).compile(), {"log": []})


@both_worlds
def test_control_flow_goes_before_errors(world: World):
    inner = side_by_side(a=Once(None), b=lambda state: Command(graph=Command.PARENT, goto="x")).compile()
    outer = chain(("inner", inner)).add_node("x", lambda state: {"log": ["x"]}).compile()
    assert world.invoke(outer, {"log": []}) == {"log": ["x"]}


@both_worlds
def test_B49_the_callers_config_and_input_are_left_as_they_are(world: World):
    base = {"metadata": {"k": "v"}, "tags": ["t"], "configurable": {"user": "ann"}}
    given = {"log": ["in"]}
    saver = InMemorySaver()
    graph = chain("a").compile(checkpointer=saver)
    for name in ("1", "2"):
        world.invoke(graph, given, {**base, "configurable": {**base["configurable"], "thread_id": name}})
    assert base == {"metadata": {"k": "v"}, "tags": ["t"], "configurable": {"user": "ann"}}
    assert given == {"log": ["in"]}
    for name in ("1", "2"):
        state = world.state(graph, thread(name))
        assert (state.metadata["k"], state.metadata["user"]) == ("v", "ann")
        assert "thread_id" not in state.metadata


# --- who may write --------------------------------------------------------------


@both_worlds
def test_B126_a_missing_thread_id_is_said_before_anything_runs(world: World):
    node = Counted()
    graph = chain(("a", node)).compile(checkpointer=InMemorySaver())
    for config in (None, {}, {"configurable": {}}, thread(""), {"configurable": {"thread_id": 1}}):
        with pytest.raises(UsageError, match="thread_id"):
            world.invoke(graph, {"log": []}, config)
        with pytest.raises(UsageError, match="thread_id"):
            world.stream(graph, {"log": []}, config)
    assert node.runs == 0


class Gate:
    """A node that says when it runs and waits until it may end."""

    def __init__(self) -> None:
        self.inside, self.may_end, self.runs = threading.Event(), threading.Event(), 0

    def __call__(self, state: Any) -> dict[str, Any]:
        self.runs += 1
        self.inside.set()
        assert self.may_end.wait(5)
        return {"log": ["gate"]}


def test_of_two_runs_that_begin_on_one_state_one_wins():
    """The other one gets the error and has run nothing."""

    class Meeting(InMemorySaver):
        """Both runs have read the thread before either claims it."""

        def __init__(self) -> None:
            super().__init__()
            self.meet = threading.Barrier(2, timeout=5)

        def claim(self, thread_id: str, seen: Any, run_id: str) -> int:
            if self.meet.parties == 2 and threading.current_thread() is not threading.main_thread():
                self.meet.wait()
            return super().claim(thread_id, seen, run_id)

    node = Counted({"log": ["a"]})
    graph = chain(("a", node)).compile(checkpointer=Meeting())
    graph.invoke({"log": []}, thread())
    outcomes: list[Any] = []

    def run() -> None:
        try:
            outcomes.append(graph.invoke({"log": []}, thread()))
        except ThreadConflictError as error:
            outcomes.append(error)

    runners = [threading.Thread(target=run) for _ in range(2)]
    for runner in runners:
        runner.start()
    for runner in runners:
        runner.join()
    errors = [outcome for outcome in outcomes if isinstance(outcome, ThreadConflictError)]
    assert len(errors) == 1
    assert "was changed by another run" in str(errors[0])
    assert node.runs == 2
    assert graph.get_state(thread()).values == {"log": ["a", "a"]}


def test_a_run_that_was_overtaken_saves_nothing_more():
    """The second run takes the thread while the first is under way; the first one fails when it comes to save."""
    gate = Gate()
    graph = chain(("a", gate)).compile(checkpointer=InMemorySaver())
    outcome: list[Any] = []

    def first() -> None:
        with pytest.raises(ThreadConflictError) as caught:
            graph.invoke({"log": ["first"]}, thread())
        outcome.append(str(caught.value))

    runner = threading.Thread(target=first)
    runner.start()
    assert gate.inside.wait(5)
    graph.update_state(thread(), {"log": ["second"]}, as_node="a")
    gate.may_end.set()
    runner.join()
    assert "was taken over by another run" in outcome[0]
    assert graph.get_state(thread()).values == {"log": ["first", "second"]}


@pytest.mark.parametrize("wrong", ["hi", Command(resume=1)])
def test_a_wrong_call_takes_no_thread_from_its_run(wrong):
    gate = Gate()
    graph = chain(("a", gate)).compile(checkpointer=InMemorySaver())
    results: list[Any] = []
    runner = threading.Thread(target=lambda: results.append(graph.invoke({"log": []}, thread())))
    runner.start()
    assert gate.inside.wait(5)
    with pytest.raises(UsageError):
        graph.invoke(wrong, thread())
    gate.may_end.set()
    runner.join()
    assert results == [{"log": ["gate"]}]


@both_worlds
@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_what_cannot_be_stored_is_said(world: World, durability):
    graph = chain(("a", lambda state: {"log": [threading.Lock()]}), "b").compile(checkpointer=InMemorySaver())
    with pytest.raises(UnstorableError, match=r'state\["log"\]\[0\]') as caught:
        world.invoke(graph, {"log": []}, thread(), durability=durability)
    notes = getattr(caught.value, "__notes__", [])
    assert bool(notes) == (durability == "exit")


@both_worlds
def test_keys_of_the_engines_own_are_seen_by_nobody(world: World):
    seen: list[Any] = []

    def look(state: Any, config: Any) -> dict[str, Any]:
        seen.append(sorted(state))
        return {"log": ["x"]}

    builder = StateGraph(Log)
    for name in ("a", "b", "c", "d"):
        builder.add_node(name, look)
    builder.add_edge(START, "a").add_edge(START, "b").add_edge("b", "c").add_edge(["a", "c"], "d")
    builder.add_conditional_edges("d", lambda state: seen.append(sorted(state)) or END)
    graph = builder.compile(checkpointer=InMemorySaver())
    shown = world.stream(
        graph, {"log": []}, thread(), stream_mode=["values", "checkpoints", "tasks", "debug", "events"]
    )
    world.invoke(graph, {"log": []}, thread())
    assert seen == [["log"]] * 10
    text = repr([chunk for _, chunk in shown]) + repr(world.history(graph, thread()))
    assert "__ran__" not in text
    assert "__joins__" not in text
    saver: Any = graph.checkpointer
    kept = saver.get_tuple(thread()).checkpoint["channel_values"]  # as docs/memory.md tells
    assert sorted(kept) == ["__joins__", "__ran__", "log"]


# --- leaving --------------------------------------------------------------------


def test_cancelling_a_task_stops_the_run_and_keeps_what_was_done():
    """The caller's own cancellation comes out, the coroutine node was cancelled, and the thread goes on."""
    inside, cleaned = asyncio.Event(), []

    async def slow(state: Any) -> Any:
        if len(state["log"]) > 1:
            return {"log": ["slow"]}
        inside.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)

    builder = chain("a", ("slow", slow))
    graph = builder.compile(checkpointer=InMemorySaver())

    async def main() -> None:
        task = asyncio.create_task(graph.ainvoke({"log": []}, thread()))
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert cleaned == [True]
    state = graph.get_state(thread())
    assert (state.values, state.next) == ({"log": ["a"]}, ("slow",))
    graph.update_state(thread(), {"log": ["more"]}, as_node="a")
    assert asyncio.run(graph.ainvoke(None, thread())) == {"log": ["a", "more", "slow"]}


@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_interrupting_the_program_leaves_a_thread_that_goes_on(durability):
    first = Once({"log": ["b"]}, KeyboardInterrupt())
    graph = chain("a", ("b", first)).compile(checkpointer=InMemorySaver())
    with pytest.raises(KeyboardInterrupt):
        graph.invoke({"log": []}, thread(), durability=durability)
    assert graph.get_state(thread()).next == ("b",)
    assert graph.invoke(None, thread()) == {"log": ["a", "b"]}


def test_B139_cancelling_at_any_moment_gives_the_callers_own_cancellation():
    """Cancelled after any number of the loop's turns, a run ends cleanly or with `CancelledError`, and nothing else."""

    async def step(state: Any) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"log": [1]}

    builder = StateGraph(Log).add_node("a", step).add_node("b", step).add_node("c", step)
    builder.add_edge(START, "a").add_edge(START, "b").add_edge("a", "c").add_edge("b", "c")
    graph = builder.compile(checkpointer=InMemorySaver())

    async def main(turns: int, name: str, *, streamed: bool) -> str:
        async def read() -> None:
            if streamed:
                async for _ in graph.astream({"log": []}, thread(name)):
                    await asyncio.sleep(0)
            else:
                await graph.ainvoke({"log": []}, thread(name))

        task = asyncio.create_task(read())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return "cancelled"
        return "done"

    for streamed in (False, True):
        outcomes = [asyncio.run(main(turns, f"{turns}{streamed}", streamed=streamed)) for turns in range(40)]
        assert set(outcomes) == {"cancelled", "done"}
        assert outcomes == sorted(outcomes)
        for turns in range(40):
            config = thread(f"{turns}{streamed}")
            begun = graph.get_state(config).created_at is not None
            assert graph.invoke(None if begun else {"log": []}, config) == {"log": [1, 1, 1]}


@both_worlds
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_leaving_a_stream_early_leaves_a_thread_that_goes_on(world: World, count):
    """After any chunk: nodes that have ended are on record, and the next call runs the rest."""
    nodes = [Counted({"log": [n]}) for n in range(3)]
    graph = chain(*((f"n{n}", node) for n, node in enumerate(nodes))).compile(checkpointer=InMemorySaver())
    world.first(graph, {"log": []}, thread(), stream_mode=["values", "updates"], count=count)
    assert world.invoke(graph, None, thread()) == {"log": [0, 1, 2]}
    assert [node.runs for node in nodes] == [1, 1, 1]


@both_worlds
def test_B74_a_stream_that_was_read_to_its_end_is_on_record(world: World):
    class Slow(InMemorySaver):
        """A saver that is called off the loop's thread."""

        instant = False

    graph = chain("a", "b").compile(checkpointer=Slow())
    world.stream(graph, {"log": []}, thread())
    state = world.state(graph, thread())
    assert (state.values, state.next) == ({"log": ["a", "b"]}, ())
    assert [s.metadata["step"] for s in world.history(graph, thread())] == [2, 1, 0, -1]


# --- what is heard --------------------------------------------------------------


@both_worlds
def test_callbacks_hear_of_the_run_and_of_each_node(world: World):
    """Nodes are chains inside the graph's; a failed try is heard of as well."""
    heard: list[Any] = []

    class Handler(BaseCallbackHandler):
        def on_chain_start(self, serialized: Any, inputs: Any, *, parent_run_id: Any = None, **kwargs: Any) -> None:
            heard.append(("start", kwargs["name"], parent_run_id is None))

        def on_chain_end(self, outputs: Any, **kwargs: Any) -> None:
            heard.append(("end", outputs))

        def on_chain_error(self, error: BaseException, **kwargs: Any) -> None:
            heard.append(("error", repr(error)))

    builder = (
        StateGraph(Log).add_node("a", Once({"log": ["a"]}), retry_policy=RetryPolicy(jitter=False)).add_edge(START, "a")
    )
    with ManualClock():
        world.invoke(builder.compile(name="graph"), {"log": []}, {"callbacks": [Handler()]})
    assert heard == [
        ("start", "graph", True),
        ("start", "a", False),
        ("error", "ConnectionError('down')"),
        ("start", "a", False),
        ("end", {"log": ["a"]}),
        ("end", {"log": ["a"]}),
    ]
    heard.clear()
    with pytest.raises(RunCancelled):
        world.invoke(
            chain(("a", Once(None, RunCancelled()))).compile(),
            {"log": []},
            {"callbacks": [Handler()], "run_name": "mine"},
        )
    assert heard == [
        ("start", "mine", True),
        ("start", "a", False),
        ("error", "RunCancelled()"),
        ("error", "RunCancelled()"),
    ]


# --- mending --------------------------------------------------------------------


def closing(state: dict[str, Any]) -> dict[str, Any]:
    """A stand-in for a history's rule: what was opened is closed."""
    log = state.get("log", [])
    return {"log": [*log, "close"]} if log and log[-1] == "open" else {}


def mending(*nodes: Any) -> Any:
    graph = chain(*nodes).compile(checkpointer=InMemorySaver())
    graph.repair = closing
    return graph


@both_worlds
def test_a_run_that_ends_leaves_a_mended_state(world: World):
    graph = mending(("a", lambda state: {"log": ["open"]}))
    assert world.invoke(graph, {"log": []}, thread()) == {"log": ["open", "close"]}
    assert world.state(graph, thread()).values == {"log": ["open", "close"]}
    shown = world.stream(graph, {"log": []}, thread("2"), stream_mode=["values", "checkpoints"])
    assert [chunk["log"] if mode == "values" else chunk["values"]["log"] for mode, chunk in shown][-2:] == [
        ["open", "close"]
    ] * 2


@both_worlds
def test_a_new_turn_begins_with_a_mended_state(world: World):
    """What was broken off is closed before the new input; what the input itself leaves open, before the first node."""
    seen: list[Any] = []
    graph = mending(("a", lambda state: seen.append(list(state["log"]))))
    world.update(graph, thread(), {"log": ["open"]}, as_node="a")
    world.invoke(graph, {"log": [1, "open"]}, thread())
    assert seen == [["open", "close", 1, "open", "close"]]


@both_worlds
def test_a_new_turn_may_begin_with_a_state_in_another_form(world: World):
    graph = chain("a").compile(checkpointer=InMemorySaver())
    graph.renew = lambda state: {"log": state["log"][-1:]}
    result = None
    for _ in range(3):
        result = world.invoke(graph, {"log": [1]}, thread())
    assert result == {"log": ["a", 1, "a"]}


@both_worlds
def test_an_error_carries_the_mended_state(world: World):
    graph = mending(("a", lambda state: {"log": ["open"]}), ("b", Once(None)))
    with pytest.raises(ConnectionError) as caught:
        world.invoke(graph, {"log": []}, thread())
    assert caught.value.state == {"log": ["open", "close"]}  # type: ignore


@pytest.mark.parametrize("open_", [True, False])
def test_an_interrupted_run_is_mended_and_kept(open_):
    """Where there is something to mend, the step that was interrupted is given up; else it can go on."""
    graph = mending(
        ("a", lambda state: {"log": ["open"] if open_ else []}), ("b", Once({"log": ["b"]}, KeyboardInterrupt()))
    )
    with pytest.raises(KeyboardInterrupt):
        graph.invoke({"log": []}, thread())
    state = graph.get_state(thread())
    assert (state.values["log"], state.next) == ((["open", "close"], ()) if open_ else ([], ("b",)))
    assert graph.invoke({"log": [1]}, thread())["log"][-1] == "b"


@both_worlds
def test_a_sent_argument_is_not_replaced_when_the_state_is(world: World):
    """A command from outside changes the state; what was sent stays what it was."""
    runs: list[Any] = []

    def work(arg: Any) -> dict[str, Any]:
        runs.append(arg)
        if len(runs) == 1:
            raise ConnectionError("down")
        return {"log": [arg]}

    builder = StateGraph(Log).add_node("work", work)
    builder.add_conditional_edges(START, lambda state: [Send("work", "sent")], ["work"])
    graph = builder.compile(checkpointer=InMemorySaver())
    with pytest.raises(ConnectionError):
        world.invoke(graph, {"log": []}, thread())
    assert world.invoke(graph, Command(update={"log": [1]}), thread()) == {"log": [1, "sent"]}
    assert runs == ["sent", "sent"]


@both_worlds
def test_messages_given_to_a_node_are_its_own(world: World):
    """A node that changes the list it was given changes no state. `Overwrite` is shown as what it leaves."""

    def spoil(state: Any) -> dict[str, Any]:
        state["messages"].clear()
        return {"messages": Overwrite([AIMessage("new", id="n")])}

    def drop(state: Any) -> dict[str, Any]:
        return {"messages": [RemoveMessage(id="n"), AIMessage("last", id="l")], "log": ["x"]}

    class State(MessagesState, Log):
        pass

    graph = chain("quiet", ("spoil", spoil), ("drop", drop), state=State).compile()
    assert world.invoke(graph, {"messages": "hi", "log": []})["messages"] == [AIMessage("last", id="l")]
    shown = world.stream(graph, {"messages": "hi", "log": []}, stream_mode="messages")
    assert [message.id for message, _ in shown] == ["n", "l"]
    (first, *_) = world.stream(graph, {"messages": "hi", "log": []}, stream_mode="values")
    assert [message.text for message in first["messages"]] == ["hi"]
