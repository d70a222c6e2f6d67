"""A reader leaves, at every chunk of a run with parallel tools and agents below, and goes on at once."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from contextlib import aclosing, suppress
from types import CodeType, FrameType
from typing import Any

import anyio
import pytest

from loopwright.agents import create_agent
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.checkpoint.sqlite import SqliteSaver
from loopwright.config import get_stream_writer
from loopwright.graph.writers import Writers
from loopwright.testing import ScriptedModel, call, say
from loopwright.tools import tool
from tests.agents.worlds import is_valid, thread, until

pytestmark = pytest.mark.timeout(60)


class World:
    """An agent whose tools run at the same time: a coroutine, a plain one, an agent below of either kind."""

    def __init__(self, saver: Any, durability: Any = "sync") -> None:
        self.begun, self.ended, self.durability = 0, 0, durability

        @tool
        async def work() -> str:
            """Work for some turns of the loop."""
            self.begun += 1
            try:
                for _ in range(3):
                    await asyncio.sleep(0)
            finally:
                self.ended += 1
            return "worked"

        @tool
        def plain() -> str:
            """Work."""
            return "worked"

        calls = [call("work"), call("plain")]
        inner = create_agent(
            ScriptedModel(lambda m: calls if m[-1].type == "human" else "in", loop=True), [work, plain]
        )

        @tool
        async def ask() -> str:
            """Ask."""
            return (await inner.ainvoke({"messages": "?"})).text

        @tool
        def ask_plainly() -> str:
            """Ask."""
            return inner.invoke({"messages": "?"}).text

        def answer(messages: Any) -> Any:
            if messages[-1].text == "go":
                return [call("work"), call("ask"), call("ask_plainly")]
            return say(chunks=["d", "one"])

        model = ScriptedModel(answer, loop=True)
        self.agent = create_agent(model, [work, ask, ask_plainly], checkpointer=saver)

    def stream(self, name: str) -> Any:
        modes = ["updates", "messages"]
        options: Any = {"stream_mode": modes, "subgraphs": True, "durability": self.durability}
        return self.agent.astream({"messages": "go"}, thread(name), **options)

    def kept(self, name: str) -> Any:
        return self.agent.get_state(thread(name)).values.get("messages", [])


# Each reads so many chunks and leaves in its own way; whether there were so many.


async def by_break(stream: Any, count: int) -> bool:
    async for _ in stream:
        count -= 1
        if not count:
            break
    return not count


async def by_error(stream: Any, count: int) -> bool:
    with suppress(LookupError):
        async for _ in stream:
            count -= 1
            if not count:
                raise LookupError
    return not count


async def by_dropping(stream: Any, count: int) -> bool:
    with suppress(StopAsyncIteration):
        while count:
            await anext(stream)
            count -= 1
    return not count


async def by_aclose(stream: Any, count: int) -> bool:
    async with aclosing(stream):
        return await by_dropping(stream, count)


async def by_cancelling_the_task(stream: Any, count: int) -> bool:
    """While it waits for the next chunk."""
    read = 0
    enough = asyncio.Event()

    async def reading() -> None:
        nonlocal read
        async for _ in stream:
            read += 1
            if read == count:
                enough.set()

    task = asyncio.create_task(reading())
    task.add_done_callback(lambda _: enough.set())
    await enough.wait()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return read >= count


async def by_timeout(stream: Any, count: int) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(None) as deadline:
            async for _ in stream:
                count -= 1
                if not count:
                    deadline.reschedule(0)
    return count <= 0


async def by_anyio_scope(stream: Any, count: int) -> bool:
    """What `move_on_after` does when its time is over: it cancels anew in every turn of the loop."""
    with anyio.move_on_after(60) as scope:
        async for _ in stream:
            count -= 1
            if not count:
                scope.cancel()
    return count <= 0


async def by_anyio_task_group(stream: Any, count: int) -> bool:
    read = 0

    async def reading() -> None:
        nonlocal read
        async for _ in stream:
            read += 1
            if read == count:
                group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(reading)
    return read >= count


WAYS: list[Any] = [
    by_break,
    by_error,
    by_dropping,
    by_aclose,
    by_cancelling_the_task,
    by_timeout,
    by_anyio_scope,
    by_anyio_task_group,
]
NOT_WAITED_FOR = {by_break, by_error, by_dropping}
"""The clean-up may still be under way when these return; who comes next waits for it."""


@pytest.fixture(params=["memory", "file"])
def saver(request, tmp_path):
    if request.param == "memory":
        yield InMemorySaver()
        return
    with SqliteSaver(tmp_path / "threads.sqlite") as saver:
        yield saver


@pytest.mark.parametrize("durability", ["sync", "async"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_leaving_at_every_chunk(saver, way, durability):
    noise: list[Any] = []
    world = World(saver, durability)

    async def leaving(count: int) -> bool:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: noise.append(context))
        name = f"after {count}"
        left = await way(world.stream(name), count)
        if way not in NOT_WAITED_FOR:
            assert is_valid(world.kept(name))
        result = await world.agent.ainvoke({"messages": "and now?"}, thread(name))
        assert (result.text, is_valid(result["messages"])) == ("done", True)
        if left:
            assert [m.text for m in result["messages"] if m.type == "human"] == ["go", "and now?"]
        return left

    count = 1
    while asyncio.run(leaving(count), debug=count % 8 == 0):
        count += 1
    gc.collect()
    assert count > 15
    assert noise == []
    asyncio.run(until(lambda: world.ended == world.begun))


def test_a_blocking_reader_that_leaves_at_every_chunk(saver):
    world = World(saver)
    count, left = 1, True
    while left:
        config = thread(f"after {count}")
        chunks = world.agent.stream({"messages": "go"}, config, stream_mode=["updates", "messages"], subgraphs=True)
        for read, _ in enumerate(chunks, 1):
            if read == count:
                break
        else:
            left = False
        del chunks
        assert is_valid(world.kept(f"after {count}"))
        result = world.agent.invoke({"messages": "and now?"}, config)
        assert (result.text, is_valid(result["messages"])) == ("done", True)
        count += 1
    assert count > 15


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_stream_of_words_that_is_dropped_in_a_cycle(elsewhere):
    """The collector frees a cycle in any order, on whatever thread: the thread is in order, and nothing complains."""
    noise: list[Any] = []
    agent = create_agent(ScriptedModel(say(chunks=["d", "o", "n", "e"]), loop=True), checkpointer=InMemorySaver())

    class Page:
        """What holds its stream, and is held by itself."""

        def __init__(self, stream: Any) -> None:
            self.stream, self.me = stream, self

    async def leaving(count: int) -> bool:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: noise.append(context))
        config = thread(f"after {count}")
        page = Page(agent.astream({"messages": "go"}, config, stream_mode=["messages", "updates"]))
        left = await by_dropping(page.stream, count)
        del page
        await asyncio.to_thread(gc.collect) if elsewhere else gc.collect()
        result = await agent.ainvoke({"messages": "and now?"}, config)
        assert (result.text, is_valid(result["messages"])) == ("done", True)
        return left

    gc.disable()
    try:
        count = 1
        while asyncio.run(leaving(count)):
            count += 1
    finally:
        gc.enable()
    assert count > 4
    assert noise == []


def codes_of(frame: FrameType | None) -> list[CodeType]:
    """What a thread is at."""
    return [] if frame is None else [frame.f_code, *codes_of(frame.f_back)]


class HeldSaver(InMemorySaver):
    """Holds up what a run below writes."""

    def __init__(self) -> None:
        super().__init__()
        self.held, self.release = threading.Event(), threading.Event()

    def save(self, record: Any, changed: Any = None, claim: int | None = None) -> None:
        if record.ns:
            self.held.set()
            assert self.release.wait(30)
        super().save(record, changed, claim)


def test_a_reader_that_is_cancelled_while_a_tool_below_saves_and_another_tells():
    """The root waits for the write; what is told meanwhile has no reader, and is in nobody's way."""
    saver = HeldSaver()
    inner = create_agent(ScriptedModel("in", loop=True))

    @tool
    def ask() -> str:
        """Ask an agent."""
        return inner.invoke({"messages": "?"}).text

    @tool
    def tell() -> str:
        """Tell something when the root waits."""
        writer = get_stream_writer()
        assert saver.held.wait(30)
        writer("held")
        while not any(Writers._wait.__code__ in codes_of(frame) for frame in sys._current_frames().values()):
            saver.release.wait(0.001)  # others have to run meanwhile
        for _ in range(5):
            writer("late")
            saver.release.wait(0.01)
        saver.release.set()
        return "told"

    agent = create_agent(ScriptedModel([call("ask"), call("tell")], "fine"), [ask, tell], checkpointer=saver)

    async def main() -> Any:
        async def reading() -> None:
            async for chunk in agent.astream({"messages": "go"}, thread(), stream_mode="custom"):
                assert chunk == "held"
                told.set()

        told = asyncio.Event()
        task = asyncio.create_task(reading())
        await told.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await agent.ainvoke({"messages": "and now?"}, thread())

    result = asyncio.run(main())
    assert (result.text, is_valid(result["messages"])) == ("fine", True)


def test_a_reader_that_is_cancelled_gets_its_cancellation_and_no_item():
    """Also where one has come in the moment before. Nothing of it is left for later."""
    begun, go, written = threading.Event(), threading.Event(), threading.Event()

    @tool
    def work() -> str:
        """Tell, and go on."""
        writer = get_stream_writer()
        begun.set()
        assert go.wait(30)
        writer("told")
        written.set()
        assert over.wait(30)
        return "worked"

    over = threading.Event()
    agent = create_agent(ScriptedModel(call("work"), "fine"), [work])

    async def main() -> None:
        async def reading() -> None:
            await anext(stream)

        stream = agent.astream({"messages": "go"}, stream_mode="custom")
        task = asyncio.create_task(reading())
        await asyncio.to_thread(begun.wait, 30)
        go.set()
        assert written.wait(30)  # the loop stands still meanwhile, so the reader has not heard of it
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(StopAsyncIteration):
            await anext(stream)

    try:
        asyncio.run(main())
    finally:
        over.set()
