"""`max_concurrency`: how many calls of one tool run at once."""

import asyncio
import copy
import pickle
import threading
from contextvars import copy_context
from typing import Any

import pytest

from loopwright.drive import aio, blocking
from loopwright.drive.aio import AioPort
from loopwright.drive.blocking import BlockingPort
from loopwright.tools import call_tool, tool
from loopwright.tools.gate import Gate
from tests.tools.worlds import answer, both_worlds, call, finish


class Count:
    """How many are inside, and how many were at most."""

    def __init__(self):
        self.lock = threading.Lock()
        self.now = self.most = self.all = 0

    def __enter__(self):
        with self.lock:
            self.now += 1
            self.all += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *_: object):
        with self.lock:
            self.now -= 1


def gate_of(one: Any) -> Any:
    return one.gate


@both_worlds
@pytest.mark.parametrize("width", [1, 3])
def test_no_more_than_the_limit(world, width):
    """Twenty calls at once, plain or coroutine: all are made, and never more at a time."""
    count = Count()
    meeting = threading.Barrier(width)
    arrived = [0]

    @tool(max_concurrency=width)
    def plain() -> str:
        """Plain."""
        with count:
            if count.all <= width:  # the first ones wait for each other: they really are inside together
                meeting.wait(5)
        return "ok"

    @tool(max_concurrency=width)
    async def coroutine() -> str:
        """Coroutine."""
        with count:
            await asyncio.sleep(0)
            arrived[0] += 1
        return "ok"

    for one, most in ((plain, width), (coroutine, width)):
        count.__init__()
        calls = lambda port, one=one: port.gather([call_tool(one, call(one.name), port) for _ in range(21)])
        messages = finish(calls, world)
        assert [message.content for message in messages] == ["ok"] * 21
        assert (count.all, count.most <= most) == (21, True)


def test_one_limit_for_all_threads_and_loops():
    """Calls from a blocking thread and from two event loops share one gate."""
    count, inside, release = Count(), threading.Event(), threading.Event()

    @tool(max_concurrency=1)
    def work(wait: bool = False) -> str:
        """Work."""
        with count:
            inside.set()
            if wait:
                assert release.wait(5)
        return "ok"

    done: list[Any] = []
    threads = [threading.Thread(target=lambda: done.append(answer(work, {"wait": True})))]
    threads[0].start()
    assert inside.wait(5)
    for world in ("blocking", "aio", "aio"):
        threads.append(threading.Thread(target=lambda world=world: done.append(answer(work, {}, world))))
        threads[-1].start()
    while len(gate_of(work)._queue) < 3:  # they are all waiting
        threading.Event().wait(0.001)
    assert done == []
    release.set()
    for thread in threads:
        thread.join(5)
    assert ([message.content for message in done], count.most) == (["ok"] * 4, 1)
    assert gate_of(work)._free == 1


@both_worlds
def test_a_call_from_inside_runs_in_its_callers_place(world):
    """A nested agent that has the same tool must not wait for its own caller."""

    @tool(max_concurrency=1)
    def plain(depth: int) -> str:
        """Plain."""
        return "end" if depth == 0 else plain.invoke({"depth": depth - 1})

    @tool(max_concurrency=1)
    async def coroutine(depth: int) -> str:
        """Coroutine."""
        return "end" if depth == 0 else await coroutine.ainvoke({"depth": depth - 1})

    for one in (plain, coroutine):
        assert answer(one, {"depth": 2}, world).content == "end"
        assert gate_of(one)._free == 1


@both_worlds
def test_a_failure_gives_the_place_back(world):
    over = threading.Event()

    @tool(max_concurrency=1, timeout_s=0.01)
    def fail(hang: bool = False) -> str:
        """Fail."""
        if hang:
            over.wait(5)
        raise ValueError("x")

    contents = [answer(fail, {"hang": hang}, world).content for hang in (False, True)]
    over.set()
    fail.timeout_s = 5
    contents.append(answer(fail, {}, world).content)
    assert [content.split(": ")[1] for content in contents] == ["ValueError", "TimeoutError", "ValueError"]


async def test_who_gives_up_while_waiting_takes_nothing():
    """A cancelled waiter leaves the queue; one that was let in at that very moment hands its place on."""
    gate, port = Gate(1), AioPort()
    await gate.enter(port)
    first = asyncio.create_task(gate.enter(port))
    second = asyncio.create_task(gate.enter(port))
    third = asyncio.create_task(gate.enter(port))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    gate.leave()  # admits the second ...
    second.cancel()  # ... which is cancelled before it has noticed
    await asyncio.wait([second])
    await asyncio.wait_for(third, 5)
    gate.leave()
    assert (gate._free, len(gate._queue)) == (1, 0)


async def test_admitted_before_it_began_to_wait():
    gate = Gate(1)
    await gate.enter(AioPort())

    class Slow(AioPort):
        async def call(self, function, /, *args, **options):
            gate.leave()
            return await super().call(function, *args, **options)

    await gate.enter(Slow())
    gate.leave()
    assert gate._free == 1


def test_a_loop_that_closed_with_somebody_waiting():
    """The place goes to the next."""
    gate = Gate(1)
    blocking.run(gate.enter(BlockingPort()))
    loop = asyncio.new_event_loop()
    waiting = loop.create_task(gate.enter(AioPort()))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    gate.leave()
    assert gate._free == 1
    left_behind: Any = waiting
    left_behind.get_coro().close()
    left_behind._log_destroy_pending = False


def test_cancelled_before_its_turn():
    """The call that waited is not made, and nothing is left open."""
    ran: list[int] = []

    @tool(max_concurrency=1)
    async def work() -> str:
        """Work."""
        ran.append(1)
        return "ok"

    async def main():
        await gate_of(work).enter(AioPort())
        task = asyncio.create_task(call_tool(work, call("work"), AioPort()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        gate_of(work).leave()

    asyncio.run(aio.run(main()))
    assert (ran, gate_of(work)._free) == ([], 1)


def test_copies_have_gates_of_their_own():
    gate = Gate(2)
    for other in (copy.copy(gate), copy.deepcopy(gate), pickle.loads(pickle.dumps(gate))):
        assert (other.width, other is gate) == (2, False)


def test_marks_stay_in_their_context():
    gate, context = Gate(1), copy_context()
    gate.mark(context)
    assert (gate.is_inside(), context.run(gate.is_inside)) == (False, True)
