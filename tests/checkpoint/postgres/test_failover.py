"""A server that takes over has lost what the other one had committed last: this process must not go by its memory.

Only asynchronous replicas lose commits. Here the copy of a data directory, made some commits before, plays one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from loopwright.agents import create_agent
from loopwright.checkpoint.postgres import PostgresSaver
from loopwright.errors import SaverError, ThreadConflictError
from loopwright.testing import ScriptedModel, call, say
from loopwright.tools import tool
from tests.agents.worlds import is_valid
from tests.services import Cluster

pytestmark = pytest.mark.timeout(120)

THREAD: Any = {"configurable": {"thread_id": "1"}}
LONG = "a rather long text, which is stored beside the checkpoint and not in it; " * 8
"""Long enough to have a row of its own."""


@pytest.fixture
def saver(own_cluster: Cluster):
    with PostgresSaver(own_cluster.url) as saver:
        yield saver
        saver.delete_thread("1")


def agent_on(saver: PostgresSaver, *answers: Any, tools: Any = ()) -> Any:
    return create_agent(ScriptedModel(*answers), tools, checkpointer=saver)


def turn(saver: PostgresSaver, text: str) -> None:
    agent_on(saver, say(f"{LONG} {text}!")).invoke({"messages": text}, THREAD)


def stored(url: str) -> list[str]:
    """What somebody reads who has no memory: the last word of each message."""
    with PostgresSaver(url) as fresh:
        messages = agent_on(fresh).get_state(THREAD).values["messages"]
        assert list(agent_on(fresh).get_state_history(THREAD))
    assert is_valid(messages)
    assert dangling(url) == 0
    return [message.text.split()[-1] for message in messages if message.text]


def dangling(url: str) -> int:
    """Cells that are differences from cells that are not there."""
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT count(*) FROM loopwright_cells c WHERE base IS NOT NULL AND NOT EXISTS "
            "(SELECT 1 FROM loopwright_cells b WHERE b.place >> 32 = c.place >> 32 AND b.place & 4294967295 = c.base)"
        ).fetchone()
    assert found is not None
    return found[0]


def test_turns_that_were_lost_are_not_built_upon(saver, own_cluster):
    turn(saver, "one")
    copy = own_cluster.copy()
    turn(saver, "two")
    turn(saver, "three")
    own_cluster.fail_over(copy)
    turn(saver, "four")
    assert stored(own_cluster.url) == ["one", "one!", "four", "four!"]


def test_numbers_that_were_given_out_again_mean_something_else(saver, own_cluster):
    turn(saver, "one")
    copy = own_cluster.copy()
    turn(saver, "two")
    turn(saver, "three")
    own_cluster.fail_over(copy)
    with PostgresSaver(own_cluster.url) as other:
        turn(other, "2")
        turn(other, "3")
    turn(saver, "three")
    expected = ["one", "one!", "2", "2!", "3", "3!", "three", "three!"]
    assert stored(own_cluster.url) == expected
    assert [message.text.split()[-1] for message in agent_on(saver).get_state(THREAD).values["messages"]] == expected


class Crossing:
    """A run in whose tool the server fails over."""

    def __init__(self, cluster: Cluster, copy: Path | None = None, then: Any = None) -> None:
        def fail(what: str) -> str:
            """Copy, or fail over."""
            if what == "copy":
                self.copy = cluster.copy()
            else:
                assert self.copy is not None
                cluster.fail_over(self.copy)
                if then is not None:
                    then()
            return f"{LONG} {what}"

        self.copy = copy
        self.tool = tool(fail)

    def run(self, saver: PostgresSaver, *steps: str) -> str:
        calls = [call("fail", what=step) for step in steps]
        return agent_on(saver, *calls, say("done"), tools=[self.tool]).invoke({"messages": "go"}, THREAD).text


def test_a_run_whose_claim_was_lost_is_told(saver, own_cluster):
    turn(saver, "one")
    with pytest.raises(ThreadConflictError):
        Crossing(own_cluster, own_cluster.copy()).run(saver, "over")
    turn(saver, "two")
    assert stored(own_cluster.url) == ["one", "one!", "two", "two!"]


def test_a_claim_of_another_run_with_the_same_number_is_not_ours(saver, own_cluster):
    """The other run begins as ours did, and so its claim is the same number."""
    turn(saver, "one")

    def others() -> None:
        with PostgresSaver(own_cluster.url) as other:
            seen = other.load("1")
            other.claim("1", seen, "another run")

    with pytest.raises(ThreadConflictError):
        Crossing(own_cluster, own_cluster.copy(), others).run(saver, "over")
    assert stored(own_cluster.url) == ["one", "one!"]


def test_a_claim_upon_what_was_lost_is_refused(saver, own_cluster):
    turn(saver, "one")
    copy = own_cluster.copy()
    turn(saver, "two")
    seen = saver.load("1")
    own_cluster.fail_over(copy)
    with PostgresSaver(own_cluster.url) as other:
        turn(other, "2")
        there = other.load("1")
    assert seen is not None
    assert there is not None
    assert seen.fence == there.fence
    with pytest.raises(ThreadConflictError):
        saver.claim("1", seen, "late")
    assert saver.claim("1", there, "in time") > there.fence


def test_a_run_whose_checkpoints_were_lost_is_told_and_the_thread_goes_on(saver, own_cluster):
    turn(saver, "one")
    with pytest.raises(SaverError, match="has lost the checkpoint"):
        Crossing(own_cluster).run(saver, "copy", "between", "over")
    assert agent_on(saver, say("done")).invoke(None, THREAD)["messages"][-1].text == "done"
    assert "one!" in stored(own_cluster.url)
