"""Many runs in one process, and several on one thread, whatever threads, tasks and processes they are made in."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from loopwright.agents import create_agent
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.checkpoint.sqlite import SqliteSaver
from loopwright.config import get_stream_writer
from loopwright.drive import threads
from loopwright.errors import ThreadConflictError
from loopwright.testing import ScriptedModel, call
from loopwright.tools import ToolRuntime, tool
from tests.agents.worlds import both_worlds, invoke, is_valid, thread, until

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(params=["memory", "file"])
def saver(request, tmp_path):
    if request.param == "memory":
        yield InMemorySaver()
        return
    with SqliteSaver(tmp_path / "threads.sqlite") as saver:
        yield saver


@pytest.mark.slow
@both_worlds
def test_fifty_threads_of_twenty_turns_each(world):
    """One agent, one saver. Each sees its own words only, and all are there in order."""

    @tool
    def echo(text: str, runtime: ToolRuntime) -> str:
        """Say it again, and on which thread."""
        config: Any = runtime.config
        return f"{text} on {config['configurable']['thread_id']}"

    def answer(messages: Any) -> Any:
        last = messages[-1]
        return call("echo", text=last.text) if last.type == "human" else f"heard {last.text}"

    agent = create_agent(ScriptedModel(answer, loop=True), [echo], checkpointer=InMemorySaver())

    def expected(name: str) -> list[str]:
        words = (
            (f"{name}.{turn}", "", f"{name}.{turn} on {name}", f"heard {name}.{turn} on {name}") for turn in range(20)
        )
        return [text for turn in words for text in turn]

    def talk(name: str) -> list[str]:
        results = [agent.invoke({"messages": f"{name}.{turn}"}, thread(name)) for turn in range(20)]
        return [message.text for message in results[-1]["messages"]]

    async def atalk(name: str) -> list[str]:
        results = [await agent.ainvoke({"messages": f"{name}.{turn}"}, thread(name)) for turn in range(20)]
        return [message.text for message in results[-1]["messages"]]

    async def main() -> list[list[str]]:
        return await asyncio.gather(*map(atalk, names))

    names = [f"t{number}" for number in range(50)]
    if world == "sync":
        with ThreadPoolExecutor(50) as pool:
            told = list(pool.map(talk, names))
    else:
        told = asyncio.run(main())
    assert told == [expected(name) for name in names]
    for name in names:
        kept = agent.get_state(thread(name)).values["messages"]
        assert ([message.text for message in kept], is_valid(kept)) == (expected(name), True)


class Meeting(InMemorySaver):
    """Two runs have read their thread before either claims it."""

    instant = False

    def __init__(self) -> None:
        super().__init__()
        self.read = threading.Barrier(2, timeout=20)
        self.waits = False

    def claim(self, thread_id: str, seen: Any, run_id: str) -> int:
        if self.waits:
            self.read.wait()
        return super().claim(thread_id, seen, run_id)


class MeetingInAFile(SqliteSaver):
    def __init__(self, path: Any) -> None:
        super().__init__(path)
        self.read = threading.Barrier(2, timeout=20)
        self.waits = False

    def claim(self, thread_id: str, seen: Any, run_id: str) -> int:
        if self.waits:
            self.read.wait()
        return super().claim(thread_id, seen, run_id)

    async def aclaim(self, thread_id: str, seen: Any, run_id: str) -> int:
        if self.waits:
            await asyncio.to_thread(self.read.wait)
        return await super().aclaim(thread_id, seen, run_id)


@both_worlds
@pytest.mark.parametrize("turns", [0, 1], ids=["a new thread", "a thread with a turn"])
@pytest.mark.parametrize("kind", ["memory", "file"])
def test_B47_of_two_at_once_one_has_run_nothing(world, kind, turns, tmp_path):
    """And is told what to do."""
    saver: Any = Meeting() if kind == "memory" else MeetingInAFile(tmp_path / "threads.sqlite")
    ledger: list[str] = []

    @tool
    def pay(who: str) -> str:
        """Pay."""
        ledger.append(who)
        return f"paid by {who}"

    def answer(messages: Any) -> Any:
        return call("pay", who=messages[-1].text) if messages[-1].type == "human" else "ok"

    model = ScriptedModel(answer, loop=True)
    agent = create_agent(model, [pay], checkpointer=saver)
    for _ in range(turns):
        agent.invoke({"messages": "before"}, thread())
    saver.waits = True

    def run(who: str) -> Any:
        try:
            return agent.invoke({"messages": who}, thread()).text
        except ThreadConflictError as error:
            return error

    async def arun(who: str) -> Any:
        try:
            return (await agent.ainvoke({"messages": who}, thread())).text
        except ThreadConflictError as error:
            return error

    async def main() -> list[Any]:
        return [*await asyncio.gather(arun("ann"), arun("bob"))]

    if world == "sync":
        with ThreadPoolExecutor(2) as pool:
            outcomes = list(pool.map(run, ["ann", "bob"]))
    else:
        outcomes = asyncio.run(main())
    saver.waits = False

    winner = ["ann", "bob"][outcomes.index("ok")]
    told = next(str(one) for one in outcomes if one != "ok")
    assert "Thread '1'" in told
    assert "call it again" in told.lower()
    assert ledger == ["before"] * turns + [winner]
    assert len(model.requests) == 2 * turns + 2
    kept = agent.get_state(thread()).values["messages"]
    assert is_valid(kept)
    assert [m.text for m in kept if m.type == "human"] == ["before"] * turns + [winner]
    assert invoke(agent, world, "after", thread()).text == "ok"
    saver.close()


PROCESS = """
import sys
from loopwright.agents import create_agent
from loopwright.checkpoint.sqlite import SqliteSaver
from loopwright.config import get_stream_writer
from loopwright.drive import threads
from loopwright.errors import ThreadConflictError
from loopwright.testing import ScriptedModel, call
from loopwright.tools import tool

path, who = sys.argv[1:]

class Meeting(SqliteSaver):
    def claim(self, *args):
        print("read", flush=True)
        sys.stdin.readline()
        return super().claim(*args)

@tool
def pay() -> str:
    "Pay."
    print("paid by", who)
    return "paid"

agent = create_agent(ScriptedModel(call("pay"), "ok"), [pay], checkpointer=Meeting(path))
try:
    print(agent.invoke({"messages": who}, {"configurable": {"thread_id": "1"}}).text)
except ThreadConflictError as error:
    print(error)
"""


@pytest.mark.slow
def test_B47_of_two_processes_at_once_one_has_run_nothing(tmp_path):
    path = tmp_path / "threads.sqlite"
    with SqliteSaver(path) as saver:
        create_agent(ScriptedModel("hello"), checkpointer=saver).invoke({"messages": "hi"}, thread())
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", PROCESS, str(path), who],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for who in ("ann", "bob")
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "read\n"
    told = [process.communicate("\n", timeout=40) for process in processes]
    assert [errors for _, errors in told] == ["", ""]
    assert told[0][0] == "paid by ann\nok\n"
    assert told[1][0].startswith("Thread '1' was changed by another run")
    assert "call it again" in told[1][0]
    assert "paid" not in told[1][0]
    with SqliteSaver(path) as saver:
        agent = create_agent(ScriptedModel("fine"), checkpointer=saver)
        kept = agent.invoke({"messages": "and now?"}, thread())["messages"]
    assert [m.text for m in kept] == ["hi", "hello", "ann", "", "paid", "ok", "and now?", "fine"]


# -- what is left behind --------------------------------------------------------------------------------------------


@both_worlds
def test_a_late_result_changes_nothing(world, saver):
    """Of a plain tool whose time was over: its thread is left to finish, whatever that brings."""
    release, over = threading.Event(), threading.Event()

    @tool(timeout_s=0.02)
    def stuck() -> str:
        """Be stuck."""
        try:
            assert release.wait(30)
            return "late"
        finally:
            over.set()

    agent = create_agent(ScriptedModel(call("stuck"), "ok", "fine"), [stuck], checkpointer=saver)
    first = invoke(agent, world, "hi", thread())
    assert [m.type for m in first["messages"]] == ["human", "ai", "tool", "ai"]
    assert (first["messages"][2].status, "0.02 s" in first["messages"][2].text) == ("error", True)
    before = [state.config for state in agent.get_state_history(thread())]
    assert not over.is_set()
    release.set()
    assert over.wait(30)
    assert [state.config for state in agent.get_state_history(thread())] == before
    texts = [m.text for m in invoke(agent, world, "and now?", thread())["messages"]]
    assert ("late" in texts, texts[-1]) == (False, "fine")


@both_worlds
def test_an_agent_in_a_tool_that_is_left_behind_takes_no_thread(world, saver):
    """It is about to save when the run around it has ended: it may not, and the next turn is not disturbed."""
    stuck, release = threading.Event(), threading.Event()
    ended: list[BaseException] = []

    @tool
    def wait() -> str:
        """Wait."""
        get_stream_writer()("stuck")
        stuck.set()
        assert release.wait(30)
        return "waited"

    inner = create_agent(ScriptedModel(call("wait"), "in", loop=True), [wait])
    over = threading.Event()

    @tool
    def ask() -> str:
        """Ask an agent."""
        try:
            return inner.invoke({"messages": "?"}).text
        except BaseException as error:
            ended.append(error)
            raise
        finally:
            over.set()

    agent = create_agent(ScriptedModel(call("ask"), "fine"), [ask], checkpointer=saver)

    def next_turn() -> Any:
        """After it has read the thread, the one that was left behind goes on."""
        read = saver.claim

        def claim(*args: Any) -> int:
            release.set()
            assert over.wait(30)
            return read(*args)

        saver.claim = claim
        return agent.invoke({"messages": "and now?"}, thread())

    if world == "sync":
        for _ in agent.stream({"messages": "hi"}, thread(), stream_mode="custom"):
            break
    else:

        async def main() -> None:
            task = asyncio.create_task(agent.ainvoke({"messages": "hi"}, thread()))
            await asyncio.to_thread(stuck.wait, 30)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(main())
    result = next_turn()
    assert (result.text, is_valid(result["messages"])) == ("fine", True)
    assert [type(error).__name__ for error in ended] == ["RunCancelled"]


def test_a_parallel_tool_that_is_left_behind_takes_no_thread(saver):
    """Its result comes when the reader has gone and the next turn has read the thread: it is not kept any more."""
    release = threading.Event()

    @tool
    def late() -> str:
        """Be late."""
        assert release.wait(30)
        return "late"

    @tool
    def tell() -> str:
        """Tell."""
        get_stream_writer()("told")
        return "told"

    agent = create_agent(ScriptedModel([call("late"), call("tell")], "fine"), [late, tell], checkpointer=saver)
    busy_before = _busy_helpers()
    for _ in agent.stream({"messages": "hi"}, thread(), stream_mode="custom"):
        break
    read = saver.claim

    def claim(*args: Any) -> int:
        release.set()
        asyncio.run(until(lambda: _busy_helpers() <= busy_before))
        return read(*args)

    saver.claim = claim
    result = agent.invoke({"messages": "and now?"}, thread())
    assert (result.text, is_valid(result["messages"])) == ("fine", True)
    assert "late" not in [m.text for m in result["messages"]]


def _busy_helpers() -> int:
    """How many helper threads of this process are at work."""
    return sum(one.name == "loopwright-helper" for one in threading.enumerate()) - len(threads._idle)
