"""Every way out of a run leaves a valid history and a thread that can be used."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
from typing import Any

import pytest

from loopwright.agents import Limits, create_agent
from loopwright.agents.middleware import after_model, before_model
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.checkpoint.sqlite import SqliteSaver
from loopwright.drive import aio
from loopwright.errors import EmptyInputError, RunCancelled, ServerError, ThreadConflictError
from loopwright.messages import AIMessage, HumanMessage
from loopwright.testing import ScriptedModel, call, say
from loopwright.tools import tool
from tests.agents.worlds import both_worlds, invoke, is_valid, shown, stream, thread, until


def look(city: str) -> str:
    """Look at a city."""
    return f"sunny in {city}"


def goes_on(agent: Any, world: Any) -> None:
    """The thread is usable: the next turn is sent a valid history (the scripted model checks it) and answers."""
    kept = agent.get_state(thread()).values["messages"]
    assert is_valid(kept)
    result = invoke(agent, world, "and now?", thread())
    assert (result.stop_reason, is_valid(result["messages"])) == ("answer", True)
    assert [m.text for m in result["messages"][: len(kept)]] == [m.text for m in kept]


@pytest.fixture(params=["memory", "file"])
def saver(request, tmp_path):
    """One that never waits, and one that does."""
    if request.param == "memory":
        yield InMemorySaver()
    else:
        with SqliteSaver(tmp_path / "threads.db") as on_disk:
            yield on_disk


# -- cancelling -----------------------------------------------------------------------------------------------------


class Waiting:
    """An async tool that waits for ever, a plain one that has finished, and what became of them."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.stopped: list[str] = []

    def tools(self) -> list[Any]:
        @tool
        async def wait() -> str:
            """Wait."""
            self.started.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.stopped.append("wait")
            return "never"

        return [wait, look]


@pytest.mark.parametrize("reading", [False, True], ids=["ainvoke", "astream"])
def test_a_cancelled_task(reading, saver):
    """While a tool runs: what has finished is kept, the other call gets a result that says it was not run."""
    waiting = Waiting()
    model = ScriptedModel([call("look", city="Oslo", id="c1"), call("wait", id="c2")], "fine")
    agent = create_agent(model, waiting.tools(), checkpointer=saver)

    async def read() -> None:
        async for _ in agent.astream({"messages": "hi"}, thread()):
            pass

    async def main() -> None:
        running = read() if reading else agent.ainvoke({"messages": "hi"}, thread())
        task = asyncio.create_task(running)
        await until(lambda: waiting.started.is_set() and any(t.result for t in agent.get_state(thread()).tasks))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert waiting.stopped == ["wait"]
    results = {m.tool_call_id: (m.status, m.text) for m in agent.get_state(thread()).values["messages"][2:]}
    assert results["c1"] == ("success", "sunny in Oslo")
    assert results["c2"][0] == "error"
    goes_on(agent, "async")


def test_a_task_that_is_cancelled_while_the_model_answers(saver):
    started = threading.Event()

    class Silent(ScriptedModel):
        async def answer(self, *args: Any, **more: Any) -> Any:
            if not started.is_set():
                started.set()
                await asyncio.Event().wait()
            return await super().answer(*args, **more)

    agent = create_agent(Silent("fine"), checkpointer=saver)  # pyright: ignore[reportCallIssue]

    async def main() -> None:
        task = asyncio.create_task(agent.ainvoke({"messages": "hi"}, thread()))
        await until(started.is_set)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    goes_on(agent, "async")


def test_a_timeout_around_a_run(saver):
    """`asyncio.timeout` gives its own error, and nothing of ours."""
    waiting = Waiting()
    agent = create_agent(ScriptedModel(call("wait"), "fine"), waiting.tools(), checkpointer=saver)

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await agent.ainvoke({"messages": "hi"}, thread())

    asyncio.run(main())
    goes_on(agent, "async")


def test_a_task_that_is_cancelled_before_it_begins(saver):
    agent = create_agent(ScriptedModel("fine"), checkpointer=saver)

    async def main() -> None:
        task = asyncio.create_task(agent.ainvoke({"messages": "hi"}, thread()))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert agent.get_state(thread()).values == {}


@pytest.mark.parametrize("after", [0, 1, 2, 5, 17, 40])
def test_cancelling_at_any_moment(after, saver):
    """B139 as users met it: either a result or the caller's own cancellation, and the thread is usable."""
    model = ScriptedModel([call("look", city="Oslo"), call("look", city="Rome")], "ok", loop=True)
    agent = create_agent(model, [look], checkpointer=saver)

    async def main() -> str:
        task = asyncio.create_task(agent.ainvoke({"messages": "hi"}, thread()))
        for _ in range(after):
            await asyncio.sleep(0)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return "cancelled"
        return "done"

    assert asyncio.run(main()) in ("cancelled", "done")
    values = agent.get_state(thread()).values
    assert is_valid(values.get("messages", []))


# -- readers that leave ---------------------------------------------------------------------------------------------


def chunks_of(agent: Any, world: Any, count: int, mode: str) -> list[Any]:
    """Read so many chunks, then leave."""
    seen: list[Any] = []
    if world == "sync":
        for chunk in agent.stream({"messages": "hi"}, thread(), stream_mode=mode):
            seen.append(chunk)
            if len(seen) == count:
                break
        return seen

    async def main() -> None:
        async for chunk in agent.astream({"messages": "hi"}, thread(), stream_mode=mode):
            seen.append(chunk)
            if len(seen) == count:
                break

    asyncio.run(main())
    return seen


@both_worlds
@pytest.mark.parametrize("mode", ["updates", "values", "messages"])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_an_early_break(world, mode, count, saver):
    """Wherever the reader leaves, no call stays open and nothing more is asked for."""

    def answer(messages: Any) -> Any:
        if len(messages) == 1:
            return [call("look", city="Oslo"), call("look", city="Rome")]
        return say(chunks=["a", "b", "c"])

    model = ScriptedModel(answer, loop=True)
    agent = create_agent(model, [look], checkpointer=saver)
    assert len(chunks_of(agent, world, count, mode)) <= count
    asked = len(model.requests)
    goes_on(agent, world)
    assert len(model.requests) == asked + 1


@both_worlds
def test_a_break_while_a_tool_works(world, saver):
    """The tool is stopped where it can be, and its call gets a result."""
    waiting = Waiting()
    model = ScriptedModel([call("look", city="Oslo", id="c1"), call("wait", id="c2")], "fine")
    agent = create_agent(model, waiting.tools(), checkpointer=saver)
    chunks_of(agent, world, 2, "updates")
    results = {m.tool_call_id: m.status for m in agent.get_state(thread()).values["messages"][2:]}
    assert results == {"c1": "success", "c2": "error"}
    goes_on(agent, world)


@both_worlds
def test_closing_a_stream(world, saver):
    model = ScriptedModel(say(chunks=["a", "b", "c"]), "fine")
    agent = create_agent(model, checkpointer=saver)
    if world == "sync":
        tokens = agent.stream({"messages": "hi"}, thread(), stream_mode="messages")
        next(tokens)
        tokens.close()  # type: ignore[attr-defined]
        assert list(tokens) == []
    else:

        async def main() -> None:
            tokens = agent.astream({"messages": "hi"}, thread(), stream_mode="messages")
            await anext(tokens)
            await tokens.aclose()  # type: ignore[attr-defined]

        asyncio.run(main())
    goes_on(agent, world)


@both_worlds
def test_an_error_in_the_reader(world, saver):
    """The body of the loop raises: its error comes through, the run is ended in good order."""
    model = ScriptedModel([call("look", city="Oslo")], "fine")
    agent = create_agent(model, [look], checkpointer=saver)

    async def read() -> None:
        async for _ in agent.astream({"messages": "hi"}, thread()):
            raise LookupError("the reader's own")

    with pytest.raises(LookupError, match="the reader's own"):
        if world == "sync":
            for _ in agent.stream({"messages": "hi"}, thread()):
                raise LookupError("the reader's own")
        else:
            asyncio.run(read())
    goes_on(agent, world)


@both_worlds
def test_a_stream_read_to_its_end_is_stored(world, saver):
    """B74 as users met it."""
    agent = create_agent(ScriptedModel(call("look", city="Oslo"), "ok", "fine"), [look], checkpointer=saver)
    stream(agent, world, config=thread())
    assert len(agent.get_state(thread()).values["messages"]) == 4
    goes_on(agent, world)


# -- errors ---------------------------------------------------------------------------------------------------------


@both_worlds
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_going_on_after_a_model_error(world, durability, saver):
    """The round before it is not made again."""
    looks: list[str] = []

    @tool("look")
    def count(city: str) -> str:
        """Look."""
        looks.append(city)
        return "sunny"

    model = ScriptedModel(call("look", city="Oslo"), ServerError("down"), "ok", "fine")
    agent = create_agent(model, [count], checkpointer=saver)
    with pytest.raises(ServerError):
        invoke(agent, world, config=thread(), durability=durability)
    state = agent.get_state(thread())
    assert (state.next, [m.type for m in state.values["messages"]]) == (("model",), ["human", "ai", "tool"])
    result = invoke(agent, world, None, thread(), durability=durability)
    assert ([m.text for m in result["messages"]], looks) == (["hi", "", "sunny", "ok"], ["Oslo"])
    goes_on(agent, world)


@both_worlds
def test_new_input_after_a_model_error(world, saver):
    model = ScriptedModel(ServerError("down"), "fine")
    agent = create_agent(model, checkpointer=saver)
    with pytest.raises(ServerError):
        invoke(agent, world, config=thread())
    result = invoke(agent, world, "still there?", thread())
    assert [m.text for m in result["messages"]] == ["hi", "still there?", "fine"]


@both_worlds
def test_new_input_after_an_error_of_a_tool(world, saver):
    """The open call is closed, and not run after all."""
    tries: list[int] = []

    @tool
    def boom() -> str:
        """Fail."""
        tries.append(1)
        raise ValueError("no luck")

    agent = create_agent(ScriptedModel(call("boom"), "fine"), [boom], checkpointer=saver, handle_tool_errors=False)
    with pytest.raises(ValueError, match="no luck"):
        invoke(agent, world, config=thread())
    result = invoke(agent, world, "leave it", thread())
    assert [m.type for m in result["messages"]] == ["human", "ai", "tool", "human", "ai"]
    assert (result["messages"][2].status, len(tries)) == ("error", 1)


@both_worlds
@pytest.mark.parametrize("hook", [before_model, after_model], ids=["before", "after"])
def test_an_error_in_a_hook(world, hook: Any, saver):
    fails = [True]

    @hook
    def once(state: Any, runtime: Any) -> None:
        if fails and any(m.type == "ai" for m in state["messages"]):
            fails.clear()
            raise LookupError("once")

    model = ScriptedModel(call("look", city="Oslo"), "ok", "fine")
    agent = create_agent(model, [look], middleware=[once], checkpointer=saver)
    with pytest.raises(LookupError) as raised:
        invoke(agent, world, config=thread())
    assert is_valid(raised.value.state["messages"])  # type: ignore[attr-defined]
    result = invoke(agent, world, None, thread())
    assert [m.text for m in result["messages"]] == ["hi", "", "sunny in Oslo", "ok"]
    goes_on(agent, world)


@both_worlds
def test_without_a_thread_there_is_nothing_to_go_on_with(world):
    agent = create_agent(ScriptedModel(ServerError("down")))
    with pytest.raises(ServerError) as raised:
        invoke(agent, world)
    assert raised.value.state is not None
    assert shown(raised.value.state["messages"]) == [("human", "hi")]
    with pytest.raises(EmptyInputError, match="no checkpointer"):
        invoke(agent, world, None)


@both_worlds
def test_the_state_of_an_error_can_be_gone_on_with(world):
    agent = create_agent(ScriptedModel(call("look", city="Oslo"), ServerError("down"), "ok"), [look])
    with pytest.raises(ServerError) as raised:
        invoke(agent, world)
    result = invoke(agent, world, raised.value.state)
    assert [m.text for m in result["messages"]] == ["hi", "", "sunny in Oslo", "ok"]


@both_worlds
def test_a_finished_thread_has_nothing_to_go_on_with(world, saver):
    """It gives the state it has, and asks no model."""
    model = ScriptedModel("ok", "never")
    agent = create_agent(model, checkpointer=saver)
    invoke(agent, world, config=thread())
    result = invoke(agent, world, None, thread())
    assert (shown(result["messages"]), model.left) == ([("human", "hi"), ("ai", "ok")], 1)


# -- Ctrl-C ---------------------------------------------------------------------------------------------------------

PROGRAM = """
import asyncio, os, signal, sys, threading, time
from loopwright.agents import create_agent
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.messages import find_broken_pair
from loopwright.testing import ScriptedModel, call
from loopwright.tools import tool

way, kind = sys.argv[1:]

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)

@tool
def wait():
    "Wait."
    interrupt()
    time.sleep(30)

@tool("wait")
async def await_():
    "Wait."
    interrupt()
    await asyncio.sleep(30)

@tool
def look(city: str) -> str:
    "Look."
    return "sunny"

saver = InMemorySaver()
model = ScriptedModel([call("look", city="Oslo"), call("wait")], "fine")
agent = create_agent(model, [wait if kind == "def" else await_, look], checkpointer=saver)
config = {"configurable": {"thread_id": "1"}}
given = {"messages": "hi"}

async def read():
    async for _ in agent.astream(given, config):
        pass

async def woken(work):
    # asyncio sleeps on if a signal comes in the moment before it goes to sleep; with this, the signal wakes it.
    signal.set_wakeup_fd(asyncio.get_running_loop()._csock.fileno())
    await work

begun = time.monotonic()
try:
    if way == "invoke":
        agent.invoke(given, config)
    elif way == "stream":
        for _ in agent.stream(given, config):
            pass
    elif way == "ainvoke":
        asyncio.run(woken(agent.ainvoke(given, config)))
    else:
        asyncio.run(woken(read()))
except KeyboardInterrupt:
    print("interrupted")
assert time.monotonic() - begun < 15
messages = agent.get_state(config).values["messages"]
print(find_broken_pair(messages), [m.type for m in messages])
result = agent.invoke({"messages": "and now?"}, config)
print(result.text, find_broken_pair(result["messages"]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize("way", ["invoke", "stream", "ainvoke", "astream"])
def test_ctrl_c(way, kind):
    """A real SIGINT in a real process: `KeyboardInterrupt` comes out, and the thread is usable.

    A plain tool's thread cannot be stopped; the run does not wait for it.
    """
    process = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(PROGRAM), way, kind],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert process.stdout.splitlines() == ["interrupted", "None ['human', 'ai', 'tool', 'tool']", "fine None"]
    assert process.stderr == ""


def test_ctrl_c_in_a_tool_that_runs_here(saver):
    """A lone tool of a bare `invoke` runs on the caller's own thread, where Ctrl-C reaches it."""

    @tool
    def work() -> str:
        """Work."""
        signal.raise_signal(signal.SIGINT)
        return "never"

    agent = create_agent(ScriptedModel(call("work"), "fine"), [work], checkpointer=saver)
    with pytest.raises(KeyboardInterrupt):
        agent.invoke({"messages": "hi"}, thread())
    goes_on(agent, "sync")


# -- limits and others ----------------------------------------------------------------------------------------------


@both_worlds
@pytest.mark.parametrize(
    "limits", [Limits(model_calls=1), Limits(tool_calls=1), Limits(repeats=2), Limits(seconds=1e-9)], ids=str
)
def test_after_a_limit(world, limits, saver):
    model = ScriptedModel(*[[call("look", city="Oslo"), call("look", city="Rome")]] * 2, loop=True)
    agent = create_agent(model, [look], limits=limits, checkpointer=saver)
    assert invoke(agent, world, config=thread()).stop_reason in ("model_calls", "tool_calls", "repeats", "seconds")
    model._script[:] = ["fine"]
    if limits.seconds is None:
        goes_on(agent, world)
    assert is_valid(agent.get_state(thread()).values["messages"])


@both_worlds
def test_another_run_on_the_same_thread(world, saver):
    """Of two at once, one has run nothing, and the thread is as the other one left it."""
    begun, go = threading.Event(), threading.Event()

    @tool
    def wait() -> str:
        """Wait."""
        begun.set()
        assert go.wait(timeout=20)
        return "waited"

    agent = create_agent(ScriptedModel(call("wait"), "first", loop=True), [wait], checkpointer=saver)
    outcomes: list[Any] = []

    def run() -> None:
        try:
            outcomes.append(invoke(agent, world, config=thread()).text)
        except ThreadConflictError as error:
            outcomes.append(type(error))

    first = threading.Thread(target=run)
    first.start()
    assert begun.wait(timeout=20)
    go.set()
    first.join()
    assert outcomes == ["first"]
    assert is_valid(agent.get_state(thread()).values["messages"])


def test_the_cancellation_of_a_run_is_no_exception():
    """So that no `except Exception` of a tool or a hook holds it up."""
    assert not issubclass(RunCancelled, Exception)


@both_worlds
def test_a_thread_that_another_program_broke(world, saver):
    """A saver that holds an open call: loading the thread closes it."""
    agent = create_agent(ScriptedModel("fine", "ok"), [look], checkpointer=saver)
    asks = AIMessage("", tool_calls=[call("look", city="Oslo", id="c1")])
    agent.update_state(thread(), {"messages": [HumanMessage("hi"), asks]}, as_node="tools")
    goes_on_from = invoke(agent, world, "and now?", thread())
    assert [m.type for m in goes_on_from["messages"]] == ["human", "ai", "tool", "human", "ai"]
    assert is_valid(goes_on_from["messages"])


def test_a_saver_that_fails_on_the_way_out_does_not_hide_what_ended_the_run():
    """Somebody presses Ctrl-C, and the disk is full: it is Ctrl-C that the caller hears of."""

    class Full(InMemorySaver):
        full = False

        def save(self, *args: Any, **more: Any) -> None:
            if self.full:
                raise OSError("the disk is full")
            super().save(*args, **more)

    saver = Full()

    def stop() -> str:
        """Stop."""
        saver.full = True
        raise KeyboardInterrupt

    agent = create_agent(ScriptedModel(call("stop")), [stop], checkpointer=saver)
    with pytest.raises(KeyboardInterrupt) as caught:
        agent.invoke({"messages": "hi"}, thread())
    assert caught.value.__notes__ == ["The state could not be saved: OSError('the disk is full')"]


async def test_a_result_on_its_way_to_the_saver_is_kept_when_its_run_is_cancelled(monkeypatch):
    """The tool has ended, and nobody can say that it was not run, though the saver hangs."""
    monkeypatch.setattr(aio, "_GRACE_S", 0.01)
    on_its_way = asyncio.Event()

    class Slow(InMemorySaver):
        instant = False

        async def asave_writes(self, *place: Any, **more: Any) -> None:
            result = getattr(place[-1][0][1][0], "type", "") == "tool"
            if result and not on_its_way.is_set():
                on_its_way.set()
                await asyncio.Event().wait()
            await super().asave_writes(*place, **more)

    model = ScriptedModel(call("look", city="Oslo"), "fine")
    agent = create_agent(model, [look], checkpointer=Slow())
    task = asyncio.create_task(agent.ainvoke({"messages": "hi"}, thread()))
    await on_its_way.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    result = await agent.ainvoke({"messages": "and now?"}, thread())
    assert shown(result["messages"])[2:] == [("tool", "sunny in Oslo"), ("human", "and now?"), ("ai", "fine")]
