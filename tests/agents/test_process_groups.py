"""Signals to a real process group in the middle of parallel tools: the process ends, and the next one goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest

from loopwright.agents import create_agent
from loopwright.checkpoint.sqlite import SqliteSaver
from loopwright.testing import ScriptedModel, call
from loopwright.tools import tool
from tests.agents.worlds import is_valid, thread

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="signals and process groups of POSIX"),
]

PROGRAM = """
import asyncio, os, sys, threading
from loopwright.agents import create_agent
from loopwright.checkpoint.sqlite import SqliteSaver
from loopwright.testing import ScriptedModel, call
from loopwright.tools import tool

path, way = sys.argv[1:]

def tell(line):
    os.write(1, line.encode() + b"\\n")  # whole lines, whatever thread it is on

def quick() -> str:
    "Work."
    return "worked"

@tool
def plain() -> str:
    "Work for ever."
    tell("at work")
    threading.Event().wait()

@tool
async def work() -> str:
    "Work for ever."
    tell("at work")
    await asyncio.Event().wait()

inner = create_agent(ScriptedModel(call("work")), [work])

@tool
async def ask() -> str:
    "Ask an agent."
    return (await inner.ainvoke({"messages": "?"})).text

calls = [call("quick", id="c0"), call("plain", id="c1"), call("work", id="c2"), call("ask", id="c3")]
agent = create_agent(ScriptedModel(calls), [quick, plain, work, ask], checkpointer=SqliteSaver(path))
given, config = {"messages": "go"}, {"configurable": {"thread_id": "1"}}

async def main():
    if way == "ainvoke":
        await agent.ainvoke(given, config)
    async for chunk in agent.astream(given, config):
        tell("quick" if "quick" in str(chunk.get("tools")) else "")

if way == "invoke":
    agent.invoke(given, config)
elif way == "stream":
    for chunk in agent.stream(given, config):
        tell("quick" if "quick" in str(chunk.get("tools")) else "")
else:
    asyncio.run(main())
"""


@contextmanager
def started(path: Any, way: str) -> Generator[subprocess.Popen[str], None, None]:
    """A process in a group of its own, in the middle of its tools."""
    command = [sys.executable, "-W", "error", "-c", PROGRAM, str(path), way]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            awaited = ["at work\n"] * 3 + ["quick\n"] * way.endswith("stream")
            while awaited:
                line = process.stdout.readline()
                assert line, process.communicate()
                if line in awaited:
                    awaited.remove(line)
            yield process
        finally:
            process.kill()


def goes_on(path: Any, given: Any, *script: Any) -> list[Any]:
    """What the next process finds and does."""

    def quick() -> str:
        """Work."""
        raise AssertionError("it had ended, or was cancelled")

    @tool
    def plain() -> str:
        """Work."""
        return "worked now"

    @tool
    def work() -> str:
        """Work."""
        return "worked now"

    inner = create_agent(ScriptedModel(call("work"), "worked below"), [work])

    @tool
    def ask() -> str:
        """Ask an agent."""
        return inner.invoke({"messages": "?"}).text

    with SqliteSaver(path) as saver:
        agent = create_agent(ScriptedModel(*script), [quick, plain, work, ask], checkpointer=saver)
        return agent.invoke(given, thread())["messages"]


@pytest.mark.parametrize("way", ["invoke", "stream", "ainvoke", "astream"])
def test_ctrl_c_ends_the_group_and_closes_the_turn(tmp_path, way):
    path = tmp_path / "threads.sqlite"
    with started(path, way) as process:
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == -signal.SIGINT
    assert errors.splitlines()[-1] == "KeyboardInterrupt"
    noise = ("never awaited", "never retrieved", "Warning", "Exception ignored")
    assert [words for words in noise if words in errors] == []
    with SqliteSaver(path) as saver:
        kept = create_agent(ScriptedModel("never"), checkpointer=saver).get_state(thread())
    assert (kept.next, is_valid(kept.values["messages"])) == (("model",), True)
    assert [m.type for m in kept.values["messages"]] == ["human", "ai", "tool", "tool", "tool", "tool"]
    messages = goes_on(path, {"messages": "and now?"}, "fine")
    assert [m.text for m in messages][-2:] == ["and now?", "fine"]


@pytest.mark.parametrize(
    ("way", "then"),
    [("stream", "resumed"), ("astream", "resumed"), ("invoke", "new input"), ("ainvoke", "new input")],
)
def test_a_group_that_is_terminated_leaves_its_step_open(tmp_path, way, then):
    """Nobody had time to close anything: the next process does the rest, and what had ended is not done again."""
    path = tmp_path / "threads.sqlite"
    with started(path, way) as process:
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=20)
    assert process.returncode == -signal.SIGTERM
    if then == "resumed":
        messages = goes_on(path, None, "fine")
        assert [m.text for m in messages][2:] == ["worked", "worked now", "worked now", "worked below", "fine"]
    else:
        messages = goes_on(path, {"messages": "and now?"}, "fine")
        assert [m.text for m in messages][-2:] == ["and now?", "fine"]
        assert [m.status for m in messages[3:6]] == ["error"] * 3
    assert is_valid(messages)
