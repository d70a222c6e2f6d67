"""SqliteSaver among processes: several on one file, forks, ends without a goodbye."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from loopwright.checkpoint.conformance.records import ids, loaded, record, said
from loopwright.checkpoint.sqlite import SqliteSaver
from loopwright.errors import SaverError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "threads.sqlite"


def start(program: str, *args: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, *map(str, args)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def printed(process: subprocess.Popen[str]) -> list[str]:
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    return out.splitlines()


COMMON = """
import sys
from loopwright.checkpoint.base import Record
from loopwright.checkpoint.sqlite import SqliteSaver
from loopwright.errors import ThreadConflictError
from loopwright.messages import HumanMessage
from loopwright.messages.history import add_messages

def grow(saver, thread, name):
    "One run on a thread: what it read, one message more. None if another one was first."
    seen = saver.load(thread)
    try:
        claim = saver.claim(thread, seen, name)
        history = add_messages(seen.values["messages"] if seen else [], [HumanMessage(name, id=name)])
        saver.save(Record(id=name, thread_id=thread, parent_id=seen and seen.id, values={"messages": history}),
                   {"messages"}, claim)
    except ThreadConflictError:
        return None
    return name
"""

WORKER = (
    COMMON
    + """
saver, me = SqliteSaver(sys.argv[1]), sys.argv[2]
for step in range(40):
    assert grow(saver, me, f"{me}-{step}")
    if grow(saver, "contended", f"{me}-{step}"):
        print(f"{me}-{step}")
saver.close()
"""
)


def test_B47_four_processes_on_one_file(path):
    """Each has a thread of its own, and all want one more: nobody sees a lock, and of each contest one wins."""
    processes = [start(WORKER, path, f"p{number}") for number in range(4)]
    won = [name for process in processes for name in printed(process)]

    with SqliteSaver(path) as saver:
        for number in range(4):
            expected = [f"p{number}-{step}" for step in range(40)]
            assert said(loaded(saver, f"p{number}").values["messages"]) == expected
        contended = said(loaded(saver, "contended").values["messages"])
        assert sorted(contended) == sorted(won)
        assert len(ids(saver.walk("contended"))) == len(won)
    assert len(won) >= 40


AGENT = """
import sys
from loopwright.agents import create_agent
from loopwright.checkpoint.sqlite import SqliteSaver
from loopwright.errors import ThreadConflictError
from loopwright.testing import ScriptedModel, call
from loopwright.tools import tool

@tool
def work() -> str:
    "Work."
    print("at work", flush=True)
    sys.stdin.readline()
    return "worked"

path, name = sys.argv[1:]
agent = create_agent(ScriptedModel(call("work"), f"done by {name}"), [work], checkpointer=SqliteSaver(path))
try:
    print(agent.invoke({"messages": name}, {"configurable": {"thread_id": "t"}}).text)
except ThreadConflictError as error:
    print(error)
agent.checkpointer.close()
"""


def test_B47_of_two_processes_at_work_on_one_thread_one_is_told(path):
    """The second takes over while the first one's tool is at work; the first is told when it comes to save."""
    first = start(AGENT, path, "first")
    assert first.stdout is not None
    assert first.stdout.readline() == "at work\n"
    second = start(AGENT, path, "second")
    assert second.stdout is not None
    assert second.stdout.readline() == "at work\n"

    told, _ = first.communicate("\n", timeout=60)
    done, _ = second.communicate("\n", timeout=60)

    assert told.startswith("Thread 't' was taken over by another run")
    assert done == "done by second\n"
    with SqliteSaver(path) as saver:
        assert said(loaded(saver).values["messages"])[-4:] == ["second", "", "worked", "done by second"]


def test_processes_that_open_a_new_file_at_once(path):
    program = COMMON + "saver = SqliteSaver(sys.argv[1])\nprint(grow(saver, sys.argv[2], 'x'))\nsaver.close()"
    processes = [start(program, path, f"p{number}") for number in range(6)]

    assert [printed(process) for process in processes] == [["x"]] * 6
    with SqliteSaver(path) as saver:
        assert saver.size_report()["threads"] == 6


KILLED = (
    COMMON
    + """
saver = SqliteSaver(sys.argv[1])
for step in range(100_000):
    grow(saver, "t", str(step))
    print(step, flush=True)
"""
)


def test_a_process_that_is_killed_has_lost_nothing_that_was_saved(path):
    process = start(KILLED, path)
    assert process.stdout is not None
    reported = [int(process.stdout.readline()) for _ in range(30)]
    process.send_signal(signal.SIGKILL)
    rest, _ = process.communicate(timeout=60)
    reported += [int(line) for line in rest.splitlines()]

    with SqliteSaver(path) as saver:
        history = said(loaded(saver).values["messages"])
        assert history[: len(reported)] == [str(step) for step in reported]
        assert len(history) <= len(reported) + 1
        saver.save(record("next", loaded(saver).id))


@pytest.mark.parametrize(
    "ending", ["", "raise SystemExit", "import os; os._exit(0)", "import asyncio; asyncio.run(later(saver))"]
)
def test_a_saver_that_is_never_closed_has_lost_nothing(path, ending):
    program = """
async def later(saver):
    await saver.asave(Record(id="c2", thread_id="t"))
    asyncio.ensure_future(saver.asave(Record(id="c3", thread_id="t")))
    print("c2")
saver = SqliteSaver(sys.argv[1])
saver.save(Record(id="c1", thread_id="t"))
print("c1", flush=True)
"""
    reported = printed(start(COMMON + program + ending, path))

    with SqliteSaver(path) as saver:
        assert set(reported) <= set(ids(saver.walk("t")))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_uses_the_same_saver(path):
    program = """
import os, asyncio
saver = SqliteSaver(sys.argv[1])
for step in range(3):
    grow(saver, "t", f"parent {step}")
asyncio.run(saver.aload("t"))
child = os.fork()
if child == 0:
    for step in range(3):
        grow(saver, "t", f"child {step}")
    asyncio.run(saver.aload("t"))
    saver.close()
    sys.exit()
_, status = os.waitpid(child, 0)
grow(saver, "t", "parent 3")
print(status, *[message.text for message in saver.load("t").values["messages"]], sep="\\n")
saver.close()
"""
    process = start(COMMON + program, path)
    out, err = process.communicate(timeout=60)

    assert process.returncode == 0, err
    names = [*(f"parent {step}" for step in range(3)), *(f"child {step}" for step in range(3)), "parent 3"]
    assert out.splitlines() == ["0", *names]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_saver_in_memory_stays_in_its_process():
    saver = SqliteSaver(":memory:")
    saver.save(record("c1"))
    saver._file._process = -1  # as it is in a forked child

    with pytest.raises(SaverError, match="belongs to the process that made it"):
        saver.load("t")
    saver._file._process = os.getpid()
    saver.close()
