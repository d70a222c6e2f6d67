"""An agent whose SQLite file cannot be written in the middle of a run: a `SaverError`, and it goes on afterwards."""

from __future__ import annotations

import asyncio
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loopwright.agents import create_agent
from loopwright.checkpoint.sqlite import SqliteSaver
from loopwright.errors import SaverError
from loopwright.messages import find_broken_pair
from loopwright.testing import ScriptedModel, call, say
from loopwright.tools import ToolRuntime, tool

ROOT = Path(__file__).resolve().parents[2]
CONFIG: Any = {"configurable": {"thread_id": "t"}}
WORLDS = [False, True]


@pytest.fixture(params=WORLDS, ids=["sync", "async"])
def ask(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Call an agent in one of the two worlds."""
    if request.param:
        return lambda agent, given: asyncio.run(agent.ainvoke(given, CONFIG))
    return lambda agent, given: agent.invoke(given, CONFIG)


class Trouble:
    """An agent with a small tool and one at which the trouble begins."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ran: list[tuple[str, str]] = []
        self.begin: Callable[[], object] = lambda: None

        @tool
        def small(runtime: ToolRuntime) -> str:
            """Small."""
            self.ran.append(("small", runtime.idempotency_key))
            return "small"

        @tool
        def big(runtime: ToolRuntime) -> str:
            """Big."""
            self.ran.append(("big", runtime.idempotency_key))
            self.begin()
            return "big " * 50_000

        self.tools = [small, big]

    def agent(self, *script: Any) -> Any:
        return create_agent(ScriptedModel(*script), self.tools, checkpointer=SqliteSaver(self.path))

    def fails(self, ask: Callable[..., Any], words: str) -> Any:
        """A run that meets the trouble when the result of `big` is saved; returns its agent."""
        agent = self.agent(call("small"), call("big"), say("Done."))
        with pytest.raises(SaverError, match=words):
            ask(agent, {"messages": "go"})
        return agent

    def goes_on(self, ask: Callable[..., Any], agent: Any) -> None:
        """The trouble is over: the same agent, and after it another process's, are where they should be."""
        self.begin = lambda: None
        for state in agent.get_state_history(CONFIG):
            assert find_broken_pair(state.values.get("messages", []), open_end=True) is None
        texts = [message.text[:5] for message in agent.get_state(CONFIG).values["messages"]]
        assert texts == ["go", "", "small", ""]
        result = ask(agent, None)
        assert [message.text[:5] for message in result["messages"]] == ["go", "", "small", "", "big b", "Done."]
        assert [name for name, _ in self.ran] == ["small", "big", "big"]
        assert len(set(self.ran)) == 2, "the second try of `big` has the key of the first"
        agent.checkpointer.close()
        with SqliteSaver(self.path) as other:
            again = create_agent(ScriptedModel(say("Again.")), self.tools, checkpointer=other)
            assert len(ask(again, {"messages": "and?"})["messages"]) == 8


def test_no_room_in_the_middle_of_a_run(tmp_path: Path, ask: Callable[..., Any]):
    """The system refuses to write on, as it does where a disk or a quota is full."""
    trouble = Trouble(tmp_path / "threads.sqlite")
    log = tmp_path / "threads.sqlite-wal"
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    trouble.begin = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size + 20_000, before[1]))
    try:
        agent = trouble.fails(ask, "threads.sqlite'.*Nothing of this call was saved")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    trouble.goes_on(ask, agent)


def test_a_file_that_is_taken_away_in_the_middle_of_a_run(tmp_path: Path, ask: Callable[..., Any]):
    trouble = Trouble(tmp_path / "threads.sqlite")
    aside = tmp_path / "aside.sqlite"
    trouble.begin = lambda: trouble.path.rename(aside)
    agent = trouble.fails(ask, "was deleted, moved or replaced")
    aside.rename(trouble.path)
    trouble.goes_on(ask, agent)


FULL = """
import subprocess, sys
from pathlib import Path
from tests.crash.test_disks import CONFIG, Trouble
folder = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=800k", "none", folder], check=True)
trouble, filler = Trouble(folder / "threads.sqlite"), folder / "filler"
trouble.begin = lambda: filler.write_bytes(b"x" * 500_000)
ask = lambda agent, given: agent.invoke(given, CONFIG)
agent = trouble.fails(ask, "there is no room for it. Free some on the disk")
filler.unlink()
trouble.goes_on(ask, agent)
"""


def test_a_disk_that_is_full_in_the_middle_of_a_run(tmp_path: Path):
    """A real one: a file system of 800 kB, mounted where this user may."""
    space = ["unshare", "--map-root-user", "--mount"]
    if not shutil.which("unshare") or run([*space, "mount", "-t", "tmpfs", "none", str(tmp_path)]).returncode:
        pytest.skip("needs a mount namespace")
    done = run([*space, sys.executable, "-c", FULL, str(tmp_path)])
    assert done.returncode == 0, done.stderr


READ_ONLY = """
import os, sys
from pathlib import Path
from loopwright.errors import SaverError
from loopwright.testing import call, say
from tests.crash.test_disks import CONFIG, Trouble
folder = Path(sys.argv[1])
trouble = Trouble(folder / "threads.sqlite")
ask = lambda agent, given: agent.invoke(given, CONFIG)
warm = trouble.agent(call("small"), say("One."))  # what is imported when it is used is imported
ask(warm, {"messages": "warm"}), warm.checkpointer.close(), os.unlink(trouble.path)
if os.getuid() == 0:  # rights do not bind root: be somebody else
    os.chown(folder, 65534, 65534), os.setgid(65534), os.setuid(65534)

agent = trouble.agent(call("small"), say("One."))
ask(agent, {"messages": "one"})
agent.checkpointer.close()
os.chmod(trouble.path, 0o400)
try:
    ask(trouble.agent(say("Two.")), {"messages": "two"})
except SaverError as error:
    print(error)
os.chmod(trouble.path, 0o600)
for name in os.listdir(folder):
    os.chmod(folder / name, 0o600)
agent = trouble.agent(say("Two."))
print(ask(agent, {"messages": "two"}).text)
print(len(trouble.ran), len(agent.get_state(CONFIG).values["messages"]))
agent.checkpointer.close()
"""


def test_a_file_that_is_made_read_only_between_two_turns():
    """The second turn has asked no model; it can be made once the file may be written."""
    with tempfile.TemporaryDirectory() as folder:  # not pytest's, which others may not enter
        done = run([sys.executable, "-c", READ_ONLY, folder])
    assert done.returncode == 0, done.stderr
    error, *rest = done.stdout.splitlines()
    assert "it is read-only. Let this process write to the file" in error
    assert rest == ["Two.", "2 6"]


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
