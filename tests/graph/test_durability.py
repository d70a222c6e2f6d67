"""When a step is on record: before the next one begins, beside it, or at the end."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, ClassVar

import pytest

from loopwright.checkpoint.memory import InMemorySaver
from loopwright.errors import UnstorableError
from loopwright.graph import START
from loopwright.graph.saved import RUN_ID
from loopwright.scope import current_scope
from loopwright.types import Command, interrupt
from tests.graph.worlds import Counted, World, both_worlds, chain, side_by_side, thread


class Slow(InMemorySaver):
    """A saver that waits, as one on a disk does: it holds back one checkpoint until that is let through."""

    instant: ClassVar[bool] = False

    def __init__(self, holds: Any = None) -> None:
        super().__init__()
        self.holds, self.gate = holds, threading.Event()
        self.fails: Exception | None = None
        self.saved: list[Any] = []
        self.looked_below = threading.Event()

    def load(self, thread_id: str, ns: str = "", checkpoint_id: str | None = None) -> Any:
        if ns:
            self.looked_below.set()
        return super().load(thread_id, ns, checkpoint_id)

    async def aload(self, thread_id: str, ns: str = "", checkpoint_id: str | None = None) -> Any:
        return self.load(thread_id, ns, checkpoint_id)

    def save(self, record: Any, changed: Any = None, claim: int | None = None) -> None:
        if record.values.get("log") == self.holds:
            assert self.gate.wait(20)
        if self.fails is not None:
            raise self.fails
        super().save(record, changed, claim)
        self.saved.append(record.values.get("log"))

    async def asave(self, record: Any, changed: Any = None, claim: int | None = None) -> None:
        await asyncio.to_thread(self.save, record, changed, claim)


@both_worlds
def test_async_lets_the_next_step_run_while_the_last_is_written(world: World):
    saver = Slow(holds=["first"])

    def second(state: Any) -> Any:
        saver.gate.set()
        return {"log": ["second"]}

    graph = chain("first", ("second", second)).compile(checkpointer=saver)
    assert world.invoke(graph, {"log": []}, thread(), durability="async") == {"log": ["first", "second"]}
    assert saver.saved[-1] == ["first", "second"], "all is written when the run returns"
    assert [state.next for state in world.history(graph, thread())] == [(), ("second",), ("first",), (START,)]


@both_worlds
def test_async_writes_what_was_and_not_what_a_later_step_has_made_of_it(world: World):
    shared: list[Any] = ["x"]
    saver = Slow(holds=[["x"]])

    def first(state: Any) -> Any:
        return {"log": [shared]}

    def second(state: Any) -> Any:
        shared.append("changed in place")
        saver.gate.set()

    graph = chain(("first", first), ("second", second)).compile(checkpointer=saver)
    world.invoke(graph, {"log": []}, thread(), durability="async")
    kept = next(state for state in world.history(graph, thread()) if state.next == ("second",))
    assert kept.values == {"log": [["x"]]}


@both_worlds
def test_an_error_of_a_write_beside_the_run_ends_it(world: World):
    saver = Slow()

    def second(state: Any) -> Any:
        saver.fails = OSError("disk full")

    graph = chain("first", ("second", second), "third").compile(checkpointer=saver)
    with pytest.raises(OSError, match="disk full"):
        world.invoke(graph, {"log": []}, thread(), durability="async")


def asks_below(below: Any, *, asynchronous: bool) -> Any:
    """A node that runs a graph, in the world it is in or in the other one."""
    if asynchronous:

        async def asks_in_a_coroutine(state: Any) -> Any:
            await below.ainvoke({"log": []})

        return asks_in_a_coroutine

    def asks(state: Any) -> Any:
        below.invoke({"log": []})

    return asks


def first_then(**nodes: Any) -> Any:
    builder = chain("first")
    for name, node in nodes.items():
        builder.add_node(name, node).add_edge("first", name)
    return builder


@both_worlds
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_run_below_begins_when_the_step_around_it_is_on_record(world: World, asynchronous: bool):
    saver = Slow(holds=["first"])

    def inside(state: Any) -> Any:
        assert ["first"] in saver.saved

    def beside(state: Any) -> Any:
        early = saver.looked_below.wait(0.1)
        saver.gate.set()
        assert not early

    below = chain(("inside", inside)).compile()
    graph = first_then(asks=asks_below(below, asynchronous=asynchronous), beside=beside).compile(checkpointer=saver)
    world.invoke(graph, {"log": []}, thread(), durability="async")
    assert saver.looked_below.is_set()


@both_worlds
@pytest.mark.parametrize("asynchronous", [False, True])
def test_where_the_step_around_it_could_not_be_saved_a_run_below_does_not_begin(world: World, asynchronous: bool):
    saver = Slow(holds=["first"])
    inside = Counted()

    def beside(state: Any) -> Any:
        saver.fails = OSError("disk full")
        saver.gate.set()

    below = chain(("inside", inside)).compile()
    graph = first_then(asks=asks_below(below, asynchronous=asynchronous), beside=beside).compile(checkpointer=saver)
    with pytest.raises(OSError, match="disk full"):
        world.invoke(graph, {"log": []}, thread(), durability="async")
    assert (inside.runs, saver.looked_below.is_set()) == (0, False)


@both_worlds
def test_nothing_is_written_behind_a_write_that_failed(world: World):
    """And the error is that of the write which failed, whoever meets it."""

    class Once(Slow):
        def save(self, record: Any, changed: Any = None, claim: int | None = None) -> None:
            if record.values.get("log") == ["first"]:
                raise OSError("disk full")
            super().save(record, changed, claim)

    saver = Once()
    graph = chain("first", "second", "third").compile(checkpointer=saver)
    with pytest.raises(OSError, match="disk full") as raised:
        world.invoke(graph, {"log": []}, thread(), durability="async")
    assert not hasattr(raised.value, "__notes__")
    assert saver.saved[-1] == []
    assert world.state(graph, thread()).values == {"log": ["first"]}, "what the node wrote had been written before"


@both_worlds
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_run_below_goes_no_further_than_a_write_around_it_that_failed(world: World, asynchronous: bool):
    class Fails(Slow):
        failed = threading.Event()

        def save_writes(self, thread_id: str, ns: str, *args: Any, **kwargs: Any) -> None:
            if not ns and args[2] == [("log", ["beside"])]:
                self.failed.set()
                raise OSError("disk full")
            super().save_writes(thread_id, ns, *args, **kwargs)

    saver = Fails()
    paid = Counted()
    running = threading.Event()

    def waits(state: Any) -> Any:
        running.set()
        assert saver.failed.wait(20)
        around: Any = current_scope.get()
        while around.run.below.run.beside._failed() is None:  # the moment between the error and who hears of it
            running.wait()

    def beside(state: Any) -> Any:
        assert running.wait(20)
        return {"log": ["beside"]}

    below = chain(("waits", waits), ("pays", paid)).compile()
    graph = first_then(asks=asks_below(below, asynchronous=asynchronous), beside=beside).compile(checkpointer=saver)
    with pytest.raises(OSError, match="disk full"):
        world.invoke(graph, {"log": []}, thread(), durability="async")
    assert paid.runs == 0


@both_worlds
def test_what_cannot_be_stored_is_refused_at_once(world: World):
    graph = chain(("bad", lambda state: {"log": [print]}), "after").compile(checkpointer=Slow())
    with pytest.raises(UnstorableError, match="a function"):
        world.invoke(graph, {"log": []}, thread(), durability="async")


@both_worlds
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_pause_is_on_record_when_the_run_returns(world: World, durability: str):
    done = Counted({"log": ["done"]})
    graph = side_by_side(ask=lambda state: {"log": [interrupt("?")]}, done=done).compile(checkpointer=Slow())
    world.invoke(graph, {"log": []}, thread(), durability=durability)
    assert world.invoke(graph, Command(resume="!"), thread(), durability=durability) == {"log": ["!", "done"]}
    assert done.runs == 1


class Forgetful(InMemorySaver):
    """A saver that keeps no questions."""

    def save_writes(self, *args: Any, **kwargs: Any) -> None:
        if args[3] == RUN_ID:
            raise OSError("full")
        super().save_writes(*args, **kwargs)


@both_worlds
def test_an_error_while_a_pause_is_saved_leaves_the_run_in_order(world: World):
    """Its `state` says how far the run has come, as of other errors."""
    graph = chain("first", ("asks", lambda state: {"log": [interrupt("?")]})).compile(checkpointer=Forgetful())
    with pytest.raises(OSError, match="full") as raised:
        world.invoke(graph, {"log": []}, thread())
    assert raised.value.state == {"log": ["first"]}  # type: ignore[attr-defined]


@both_worlds
def test_an_error_keeps_what_had_ended(world: World):
    def bad(state: Any) -> Any:
        raise ConnectionError

    saver = Slow()
    done = Counted({"log": ["done"]})
    graph = side_by_side(done=done, bad=bad).compile(checkpointer=saver)
    with pytest.raises(ConnectionError):
        world.invoke(graph, {"log": []}, thread(), durability="async")
    assert world.state(graph, thread()).next == ("bad",)


def test_a_cancelled_task_waits_for_what_is_being_written():
    saver = Slow(holds=["first"])

    async def main() -> None:
        entered = asyncio.Event()

        async def second(state: Any) -> Any:
            entered.set()
            await asyncio.Event().wait()

        graph = chain("first", ("second", second)).compile(checkpointer=saver)
        task = asyncio.create_task(graph.ainvoke({"log": []}, thread(), durability="async"))
        await entered.wait()
        task.cancel()
        asyncio.get_running_loop().call_later(0.01, saver.gate.set)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert saver.saved[-1] == ["first"]
