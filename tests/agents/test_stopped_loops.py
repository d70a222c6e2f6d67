"""Plain calls of agents in coroutines: they stop the loop they are made on, and wait for nothing that needs it.

Each of these would hang if anything below such a call waited for that loop, or for a reader on it.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from loopwright.agents import Limits, create_agent
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
