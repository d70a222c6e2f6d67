"""`CancelledError` in a user's function: an error like any other, unless somebody has cancelled the run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from loopwright.agents import create_agent
from loopwright.agents.middleware import AgentMiddleware
from loopwright.drive import blocking
from loopwright.drive.aio import AioPort
from loopwright.drive.blocking import BlockingPort
from loopwright.models import BaseChatModel
from loopwright.testing import ScriptedModel, Simulation, call, say
from loopwright.tools import tool
from tests.agents.worlds import both_worlds, invoke, stream

pytestmark = pytest.mark.timeout(30)

WORDS = "nobody has cancelled its run"


async def cancel_itself(way: str) -> None:
    if way == "raised":
        raise asyncio.CancelledError
    task = asyncio.create_task(asyncio.Event().wait())
    task.cancel()
    await task


@both_worlds
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("reading", [False, True])
@pytest.mark.parametrize("way", ["raised", "awaited"])
def test_a_tool_that_cancels_itself_has_failed(world, way, reading, count):
    @tool
    async def work() -> str:
        """Work."""
        await cancel_itself(way)
        return "never"

    agent = create_agent(ScriptedModel([call("work")] * count, say("done")), [work])
    state = stream(agent, world, stream_mode="values")[-1] if reading else invoke(agent, world)
    results = state["messages"][2:-1]
    assert ["error"] * count == [message.status for message in results]
    assert all(WORDS in message.text for message in results)
    assert state["messages"][-1].text == "done"


class Cancelling(BaseChatModel):
    """A model whose plain functions raise what a cancelled task raises."""

    @property
    def _llm_type(self) -> str:
        return "cancelling"

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        raise asyncio.CancelledError

    def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        raise asyncio.CancelledError
        yield


@both_worlds
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("reading", [False, True])
@pytest.mark.parametrize("way", ["raised", "awaited"])
def test_a_plain_tool_that_cancels_itself_has_failed(world, way, reading, count):
    @tool
    def work() -> str:
        """Work."""
        if way == "raised":
            raise asyncio.CancelledError
        asyncio.run(cancel_itself(way))
        return "never"

    agent = create_agent(ScriptedModel([call("work")] * count, say("done")), [work])
    state = stream(agent, world, stream_mode="values")[-1] if reading else invoke(agent, world)
    results = state["messages"][2:-1]
    assert ["error"] * count == [message.status for message in results]
    assert all(WORDS in message.text for message in results)
    assert state["messages"][-1].text == "done"


@both_worlds
@pytest.mark.parametrize("reading", [False, True])
@pytest.mark.parametrize("kind", ["before", "wrap", "model"])
def test_a_plain_hook_or_model_that_cancels_itself_has_failed(world, kind, reading):
    class Hooks(AgentMiddleware):
        def before_model(self, state: Any, runtime: Any) -> None:
            if kind == "before":
                raise asyncio.CancelledError

        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            if kind == "wrap":
                raise asyncio.CancelledError
            return handler(request)

    agent = create_agent(Cancelling() if kind == "model" else ScriptedModel("never"), [], middleware=[Hooks()])
    with pytest.raises(RuntimeError, match=WORDS):
        _ = stream(agent, world, stream_mode=["messages"]) if reading else invoke(agent, world)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_plain_tool_that_cancels_itself_has_failed_in_a_simulation_too(asynchronous):
    @tool
    def work() -> str:
        """Work."""
        raise asyncio.CancelledError

    agent = create_agent(ScriptedModel(call("work"), "done"), [work])
    done = Simulation(1).invoke(agent, {"messages": "hi"}, asynchronous=asynchronous)
    assert (WORDS in done["messages"][2].text, done.text) == (True, "done")


@both_worlds
@pytest.mark.parametrize("reading", [False, True])
@pytest.mark.parametrize("kind", ["before", "wrap"])
def test_a_hook_that_cancels_itself_has_failed(world, kind, reading):
    class Hooks(AgentMiddleware):
        async def abefore_model(self, state: Any, runtime: Any) -> None:
            if kind == "before":
                await cancel_itself("raised")

        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            if kind == "wrap":
                await cancel_itself("raised")
            return await handler(request)

    agent = create_agent(ScriptedModel(say("never")), middleware=[Hooks()])
    with pytest.raises(RuntimeError, match=WORDS):
        stream(agent, world) if reading else invoke(agent, world)


@pytest.mark.parametrize("port", [BlockingPort(), AioPort()], ids=["blocking", "aio"])
def test_a_models_stream_that_cancels_itself_has_failed(port):
    async def pieces() -> AsyncIterator[str]:
        yield "a"
        await cancel_itself("raised")

    async def read() -> None:
        with pytest.raises(RuntimeError, match=WORDS):
            await port.consume(None, pieces, taken.append)

    taken: list[str] = []
    if port.asynchronous:
        asyncio.run(read())
    else:
        blocking.run(read())
    assert taken == ["a"]


@pytest.mark.parametrize("ending", ["returns", "raises"])
@pytest.mark.parametrize("count", [1, 2])
def test_a_cancellation_counts_whatever_the_tool_makes_of_it(ending, count):
    """As with a reader, where each tool is a task of its own: the run has been cancelled, and asks nobody any more."""
    at_work = asyncio.Event()
    model = ScriptedModel([call("work")] * count, say("done"))

    @tool
    async def work() -> str:
        """Work."""
        at_work.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if ending == "raises":
                raise ValueError("while cleaning up") from None
        return "stopped"

    async def main() -> None:
        task = asyncio.create_task(create_agent(model, [work]).ainvoke({"messages": "go"}))
        await at_work.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert len(model.requests) == 1


def test_a_deadline_of_the_tools_own_is_no_cancellation_of_the_run():
    @tool
    async def work() -> str:
        """Work, but not for long."""
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            return "late"
        return "never"

    agent = create_agent(ScriptedModel(call("work"), say("done")), [work])
    assert [m.text for m in invoke(agent, "async")["messages"]] == ["hi", "", "late", "done"]
