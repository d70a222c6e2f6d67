"""Blocking calls where an event loop runs: they hold it up, as any such call does, and never wait for each other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from loopwright.agents import Agent, create_agent
from loopwright.testing import ScriptedModel, call, say, use
from loopwright.tools import tool


def outer() -> Agent[Any]:
    inner = create_agent(ScriptedModel(say("inner", chunks=["in", "ner"]), loop=True))

    @tool
    async def delegate(question: str) -> str:
        """Ask another agent, with a blocking call inside a coroutine."""
        return inner.invoke({"messages": question}).text

    return create_agent(ScriptedModel(use(call("delegate", {"question": "x"})), say("done")), [delegate])


def shown(items: list[Any]) -> list[str]:
    return [token.text for namespace, (token, _) in items if namespace and token.text]


@pytest.fixture
def bounded() -> Iterator[None]:
    """A hang would be the fault that is looked for: it ends the test, not the suite."""
    import faulthandler

    faulthandler.dump_traceback_later(60, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.mark.usefixtures("bounded")
def test_a_blocking_agent_inside_a_coroutine_tool_under_asyncio() -> None:
    async def main() -> list[Any]:
        stream = outer().astream({"messages": "go"}, stream_mode="messages", subgraphs=True)
        return [item async for item in stream]

    assert shown(asyncio.run(main())) == ["in", "ner"]


@pytest.mark.usefixtures("bounded")
def test_a_blocking_agent_inside_a_coroutine_tool_in_the_blocking_world() -> None:
    items = list(outer().stream({"messages": "go"}, stream_mode="messages", subgraphs=True))
    assert shown(items) == ["in", "ner"]


@pytest.mark.usefixtures("bounded")
def test_a_blocking_agent_inside_a_running_loop() -> None:
    async def main() -> str:
        return outer().invoke({"messages": "go"}).text

    assert asyncio.run(main()) == "done"


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_stops_a_loop_stops_one_call_only(error: type[BaseException]) -> None:
    """A coroutine that raises it ends the call it was made for; the loop serves the next one."""

    @tool
    async def leave() -> str:
        """Leave."""
        raise error

    @tool
    async def work() -> str:
        """Work."""
        await asyncio.sleep(0)
        return "worked"

    with pytest.raises(error):
        create_agent(ScriptedModel(use(call("leave")), loop=True), [leave]).invoke({"messages": "go"})
    assert create_agent(ScriptedModel(use(call("work")), say("done")), [work]).invoke({"messages": "go"}).text == "done"
