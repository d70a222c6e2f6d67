"""A stream that is left, or broken off: what runs is told at once, waited for a second at most, and makes no noise."""

from __future__ import annotations

import asyncio
import gc
import time
import warnings
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from loopwright.agents import create_agent
from loopwright.config import get_stream_writer
from loopwright.drive.aio import AioPort
from loopwright.drive.kept import start_on_loop
from loopwright.errors import UsageError
from loopwright.testing import ScriptedModel, call, say
from loopwright.tools import tool
from tests.agents.worlds import until

pytestmark = pytest.mark.timeout(30)


def quiet(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run it as a program would, and see that the loop has nothing to complain of, neither then nor later."""
    noise: list[Any] = []

    async def watched() -> Any:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: noise.append(context))
        return await main()

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        result = asyncio.run(watched())
        gc.collect()
    assert (noise, [str(one.message) for one in warned]) == ([], [])
    return result


def working(count: int, left: list[str], *, stubborn: bool = False, sour: bool = False) -> Any:
    """An agent with `count` coroutine tools at work at once, each waiting for something that never comes."""
    released: list[asyncio.Event] = []

    @tool
    async def work() -> str:
        """Work for ever."""
        get_stream_writer()("at work")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            left.append("told")
            if stubborn:
                released.append(asyncio.Event())
                await released[-1].wait()
            if sour:
                raise ValueError("while cleaning up") from None
            raise
        return "never"

    agent = create_agent(ScriptedModel([call("work")] * count, say("done"), loop=True), [work])
    return agent, released


@pytest.mark.parametrize("sour", [False, True], ids=["", "with errors"])
@pytest.mark.parametrize("last", [False, True], ids=["", "as the last thing"])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_break_tells_the_tools_at_once_and_quietly(count, last, sour):
    left: list[str] = []

    async def main() -> None:
        agent, _ = working(count, left, sour=sour)
        async for _ in agent.astream({"messages": "go"}, stream_mode="custom"):
            break
        if not last:
            await asyncio.sleep(0)
            await asyncio.sleep(0)  # a parallel call is a task, and its tool another one
            assert ["told"] * count == left
            await asyncio.sleep(0)

    quiet(main)
    assert ["told"] * count == left


def test_what_is_cancelled_before_it_begins_is_closed():
    """No coroutine 'was never awaited': not of a parallel task's, and not of a tool's."""

    async def never() -> None:
        raise AssertionError

    async def main() -> list[bool]:
        port = AioPort()
        task = port._begin(never())
        task.cancel()
        await asyncio.wait([task])
        job = start_on_loop(never())
        job.cancel()
        await until(job.done)
        return [task.cancelled(), job.cancelled]

    assert quiet(main) == [True, True]


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("way", ["aclose", "cancel"])
def test_a_tool_that_swallows_its_cancellation_is_left_behind(way, count):
    left: list[str] = []

    async def main() -> float:
        agent, released = working(count, left, stubborn=True)
        stream = agent.astream({"messages": "go"}, stream_mode="custom")
        assert ["at work"] * count == [await anext(stream) for _ in range(count)]
        began = time.monotonic()
        if way == "aclose":
            await stream.aclose()
        else:
            reader = asyncio.create_task(anext(stream))
            await asyncio.sleep(0)
            reader.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reader
        took_s = time.monotonic() - began
        for event in released:
            event.set()
        await until(lambda: len(asyncio.all_tasks()) == 1)
        return took_s

    assert 0 < quiet(main) < 5
    assert ["told"] * count == left


def test_a_blocking_reader_waits_for_no_tool():
    left: list[str] = []
    agent, released = working(2, left, stubborn=True)
    stream = agent.stream({"messages": "go"}, stream_mode="custom")
    assert [next(stream), next(stream)] == ["at work"] * 2
    began = time.monotonic()
    stream.close()
    assert time.monotonic() - began < 0.9
    asyncio.run(until(lambda: len(released) == 2))
    for event in released:
        event._loop.call_soon_threadsafe(event.set)  # type: ignore[attr-defined]


@pytest.mark.parametrize("way", ["anext", "aclose"])
def test_a_coroutine_tool_that_turns_to_the_stream_it_runs_in(way):
    streams: list[Any] = []

    @tool
    async def work() -> str:
        """Turn to the own stream."""
        await (anext(streams[0]) if way == "anext" else streams[0].aclose())
        return "never"

    async def main() -> list[str]:
        agent = create_agent(ScriptedModel(call("work"), say("done")), [work])
        streams.append(agent.astream({"messages": "go"}, stream_mode="values"))
        return [m.text for m in [state async for state in streams[0]][-1]["messages"]]

    texts = quiet(main)
    assert [texts[0], texts[-1]] == ["go", "done"]
    assert "This stream is already being read" in texts[2]


def test_a_coroutine_tool_that_reads_the_blocking_stream_it_runs_in():
    streams: list[Any] = []

    @tool
    async def work() -> str:
        """Read the own stream."""
        return str(next(streams[0]))

    agent = create_agent(ScriptedModel(call("work"), say("done")), [work])
    streams.append(agent.stream({"messages": "go"}, stream_mode="values"))
    assert "generator already executing" in list(streams[0])[-1]["messages"][2].text


def test_two_tasks_at_one_stream():
    left: list[str] = []

    async def main() -> None:
        agent, _ = working(1, left)
        stream = agent.astream({"messages": "go"}, stream_mode="custom")
        assert await anext(stream) == "at work"
        reader = asyncio.create_task(anext(stream))
        await asyncio.sleep(0)
        with pytest.raises(UsageError, match="cancel the reader's task"):
            await anext(stream)
        with pytest.raises(UsageError, match="cancel the reader's task"):
            await stream.aclose()
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader

    quiet(main)
    assert left == ["told"]
