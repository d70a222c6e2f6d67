"""Plain calls of agents in coroutines: they stop the loop they are made on, and wait for nothing that needs it.

Each of these would hang if anything below such a call waited for that loop, or for a reader on it.
"""

from __future__ import annotations

import asyncio
from threading import Event, Thread
from typing import Any

import pytest

from loopwright.agents import Limits, create_agent
from loopwright.agents.middleware import AgentMiddleware
from loopwright.config import get_stream_writer
from loopwright.testing import ScriptedModel, call, say
from loopwright.tools import tool
from tests.agents.worlds import both_worlds, invoke, stream

pytestmark = pytest.mark.timeout(30)


def innermost(**options: Any) -> Any:
    """Two async tools at the same time, then an answer in pieces."""

    @tool
    async def work() -> str:
        """Work."""
        await asyncio.sleep(0)
        get_stream_writer()("at work")
        return "worked"

    model = ScriptedModel([call("work"), call("work")], say(chunks=["a", "b"]), loop=True)
    return create_agent(model, [work], **options)


def around(inner: Any, way: str, answer: str) -> Any:
    """An agent whose tool asks the inner one, twice at the same time."""

    @tool
    async def ask() -> str:
        """Ask with a plain call on the loop."""
        return inner.invoke({"messages": "?"}).text

    @tool("ask")
    async def read() -> str:
        """Read with a plain call on the loop."""
        tokens = inner.stream({"messages": "?"}, stream_mode="messages")
        return "".join(chunk.text for chunk, _ in tokens if chunk.type == "AIMessageChunk")

    @tool("ask")
    def plain() -> str:
        """Ask from a thread."""
        return inner.invoke({"messages": "?"}).text

    @tool("ask")
    async def proper() -> str:
        """Ask as one should."""
        return (await inner.ainvoke({"messages": "?"})).text

    chosen = {"ask": ask, "read": read, "plain": plain, "proper": proper}[way]
    return create_agent(ScriptedModel([call("ask"), call("ask")], say(chunks=[answer]), loop=True), [chosen])


WAYS = ["ask", "read", "plain", "proper"]


@both_worlds
@pytest.mark.parametrize("limits", [None, Limits(seconds=60)], ids=["", "with a deadline"])
@pytest.mark.parametrize("outer", WAYS)
@pytest.mark.parametrize("middle", WAYS)
def test_three_deep_every_way(world, outer, middle, limits):
    options = {} if limits is None else {"limits": limits}

    def agent() -> Any:
        return around(around(innermost(**options), middle, "m"), outer, "o")

    result = invoke(agent(), world)
    assert [m.text for m in result["messages"]] == ["hi", "", "m", "m", "o"]
    tokens = stream(agent(), world, stream_mode="messages", subgraphs=True)
    texts = [chunk.text for _, (chunk, _) in tokens if chunk.type == "AIMessageChunk" and chunk.text]
    assert sorted(texts) == sorted(["a", "b"] * 4 + ["m"] * 2 + ["o"])
    assert stream(agent(), world, stream_mode="custom") == ["at work"] * 8


@pytest.mark.parametrize("outer", WAYS)
def test_a_plain_call_where_a_loop_runs(outer):
    """As in a notebook: it works, and holds up the loop meanwhile."""

    async def main() -> tuple[str, list[str]]:
        agent = around(innermost(limits=Limits(seconds=60)), outer, "o")
        tokens = agent.stream({"messages": "hi"}, stream_mode="messages", subgraphs=True)
        return agent.invoke({"messages": "hi"}).text, [c.text for _, (c, _) in tokens if c.type == "AIMessageChunk"]

    text, tokens = asyncio.run(main())
    assert text == "o"
    assert sorted(t for t in tokens if t) == sorted(["a", "b"] * 2 + ["o"])


@both_worlds
@pytest.mark.parametrize("way", ["invoke", "stream"])
def test_a_plain_thread_below_a_plain_call(world, way):
    """It has inherited no context variables, and still does not wait for the loop that stands still for it."""

    @tool
    def rest() -> str:
        """Ask an agent on a thread of one's own."""
        texts: list[str] = []
        thread = Thread(target=lambda: texts.append(innermost().invoke({"messages": "?"}).text))
        thread.start()
        thread.join()
        return texts[0]

    middle = create_agent(ScriptedModel(call("rest"), say("m"), loop=True), [rest])

    @tool
    async def ask() -> str:
        """Ask with a plain call on the loop."""
        if way == "invoke":
            return middle.invoke({"messages": "?"})["messages"][2].text
        states = []
        for state in middle.stream({"messages": "?"}, stream_mode="values"):
            states.append(state)
            await asyncio.sleep(0)
        return states[-1]["messages"][2].text

    outer = create_agent(ScriptedModel(call("ask"), say("o"), loop=True), [ask])
    assert [m.text for m in invoke(outer, world)["messages"]] == ["hi", "", "ab", "o"]


def test_tokens_for_a_reader_whose_loop_is_stopped_meanwhile():
    """Whoever waits for the reader gives up as soon as the reader's loop stands still, maybe for this very code."""
    emitted = Event()

    @tool
    def emit() -> str:
        """Emit more than the reader can take meanwhile."""
        write = get_stream_writer()
        for i in range(3):
            write(i)
        inner = create_agent(ScriptedModel(say(chunks=["a", "b"]), loop=True))
        text = inner.invoke({"messages": "?"}).text
        emitted.set()
        return text

    @tool("hold")
    async def hold() -> str:
        """Stop the loop until the other one is done."""

        @tool
        def wait() -> str:
            """Wait."""
            assert emitted.wait(20)
            return "waited"

        return create_agent(ScriptedModel(call("wait"), say("held")), [wait]).invoke({"messages": "?"}).text

    agent = create_agent(ScriptedModel([call("emit"), call("hold")], say("o")), [emit, hold])
    items = stream(agent, "async", stream_mode=["messages", "custom"], subgraphs=True)
    assert [item for _, mode, item in items if mode == "custom"] == [0, 1, 2]
    assert "".join(i[0].text for path, mode, i in items if mode == "messages" and path and i[0].text in "ab") == "ab"


@pytest.mark.parametrize("way", ["lone", "parallel", "nested", "hook", "wrap"])
def test_a_plain_function_never_runs_on_a_thread_with_a_loop(way):
    """In a notebook or a web handler a plain tool, or hook, may itself call `asyncio.run`."""

    async def asked() -> str:
        await asyncio.sleep(0)
        return "ran"

    @tool
    def work() -> str:
        """Work."""
        return asyncio.run(asked())

    @tool("work")
    async def nested() -> str:
        """Work, in a plain call on the loop."""
        inner = create_agent(ScriptedModel(call("work"), say("in")), [work])
        return inner.invoke({"messages": "?"})["messages"][2].text

    class Hooks(AgentMiddleware):
        def before_model(self, state: Any, runtime: Any) -> None:
            if way == "hook":
                assert asyncio.run(asked()) == "ran"

        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            if way == "wrap":
                assert asyncio.run(asked()) == "ran"
            return handler(request)

    calls = [call("work")] * (2 if way == "parallel" else 1)
    tools = [nested if way == "nested" else work]
    agent = create_agent(ScriptedModel(calls, say("done")), tools, middleware=[Hooks()])

    async def main() -> list[str]:
        return [m.text for m in agent.invoke({"messages": "hi"})["messages"]]

    assert asyncio.run(main()) == ["hi", "", *["ran"] * len(calls), "done"]
