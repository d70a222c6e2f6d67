"""A process forked inside a run: its agent calls are runs of their own. Nobody there can reach the run around them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import loopwright

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork"),
]

PROGRAM = """
import asyncio, multiprocessing, os, signal, sys, threading, warnings
from loopwright.agents import create_agent
from loopwright.config import get_stream_writer
from loopwright.testing import ScriptedModel, call, say
from loopwright.tools import tool

warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of any fork beside threads

@tool
async def look() -> str:
    "Look."
    await asyncio.sleep(0)
    return "seen"

@tool
def plain() -> str:
    "Look, plainly."
    return "seen"

@tool(max_concurrency=1)
def narrow(hold: bool = False) -> str:
    "Pass a gate, or stay inside while the other one forks."
    if hold:
        inside.set()
        over.wait(40)
    return "seen"

inside, over = threading.Event(), threading.Event()

def inner():
    calls = [call("look"), call("plain"), call("narrow")]
    return create_agent(ScriptedModel(calls, say(chunks=["a", "b"]), loop=True), [look, plain, narrow])

def in_child(out):
    signal.alarm(20)  # should it hang, it ends, and the parent reads nothing
    texts = [inner().invoke({"messages": "?"}).text]
    tokens = inner().stream({"messages": "?"}, stream_mode="messages")
    texts.append("".join(c.text for c, _ in tokens if c.type == "AIMessageChunk"))
    texts.append(asyncio.run(inner().ainvoke({"messages": "?"})).text)
    os.write(out, "".join(texts).encode())

def forked(way):
    take, give = os.pipe()
    if way == "fork":
        child = os.fork()
        if child == 0:
            try:
                in_child(give)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
    else:
        child = multiprocessing.get_context("fork").Process(target=in_child, args=(give,))
        child.start()
        child.join()
    os.close(give)
    return os.read(take, 100).decode()

@tool("work")
def in_thread() -> str:
    "Work elsewhere."
    get_stream_writer()("at work")
    return forked(sys.argv[1])

@tool("work")
def beside_a_gate() -> str:
    "Work elsewhere, while another thread is in the gate."
    get_stream_writer()("at work")
    inside.wait(40)
    try:
        return forked(sys.argv[1])
    finally:
        over.set()

@tool("work")
def returning() -> str:
    "Fork, and return on both sides."
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        return "never seen"
    get_stream_writer()("at work")
    return "ab" * 3 if os.waitpid(child, 0)[1] == 0 else "the child hung"

@tool("work")
async def in_coroutine() -> str:
    "Work elsewhere."
    get_stream_writer()("at work")
    return forked(sys.argv[1])

@tool("work")
async def below_a_call() -> str:
    "Work elsewhere, in an agent that holds up the loop."
    return around(in_thread).invoke({"messages": "?"})["messages"][2].text

def around(work, *more):
    return create_agent(ScriptedModel([call("work"), *more], say("done"), loop=True), [work, narrow])

places = {
    "thread": in_thread, "coroutine": in_coroutine, "below": below_a_call, "gate": beside_a_gate, "return": returning
}
agent = around(places[sys.argv[2]], *([call("narrow", hold=True)] if sys.argv[2] == "gate" else []))
inner().invoke({"messages": "?"})  # the kept loop and some helpers are there already
if sys.argv[3] == "sync":
    items = list(agent.stream({"messages": "?"}, stream_mode=["custom", "values"]))
else:
    async def read():
        return [item async for item in agent.astream({"messages": "?"}, stream_mode=["custom", "values"])]
    items = asyncio.run(read())
print([item for mode, item in items if mode == "custom"], items[-1][1]["messages"][2].text)
"""


@pytest.mark.parametrize(
    ("way", "place", "world"),
    [
        ("fork", "thread", "sync"),
        ("fork", "thread", "async"),
        ("fork", "coroutine", "sync"),
        ("fork", "coroutine", "async"),
        ("fork", "below", "sync"),
        ("fork", "gate", "sync"),
        ("fork", "return", "sync"),
        ("multiprocessing", "thread", "async"),
    ],
)
def test_agents_in_a_child_that_was_forked_in_a_tool(way, place, world):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, way, place, world],
        env={**os.environ, "PYTHONPATH": str(Path(loopwright.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("['at work'] ababab\n", "")
