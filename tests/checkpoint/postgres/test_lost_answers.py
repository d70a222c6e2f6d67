"""The connection breaks, at every point of every work: nothing is lost, and nothing is done twice."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from loopwright.agents import create_agent
from loopwright.checkpoint.base import Pending
from loopwright.checkpoint.conformance.records import ids, loaded, record, said
from loopwright.checkpoint.postgres import PostgresSaver
from loopwright.errors import SaverError, ThreadConflictError, UsageError
from loopwright.messages import HumanMessage
from loopwright.messages.history import add_messages
from loopwright.scope import RunnableConfig
from loopwright.testing import ScriptedModel, call, say
from loopwright.tools import tool
from tests.checkpoint.postgres.cutting import Cutting


@pytest.fixture
def line(postgres_url):
    line = Cutting(postgres_url)
    try:
        yield line
    finally:
        line.close()


@pytest.fixture
def saver(line):
    with PostgresSaver(line.url, patience=20) as saver:
        saver.setup()
        yield saver


@pytest.fixture
def other(postgres_url):
    """On another machine, with a line that holds."""
    with PostgresSaver(postgres_url) as saver:
        yield saver


def at(number: int) -> Callable[[bytes], bool]:
    """Cut at the message of that number, and at no other."""
    left = number

    def cut(_message: bytes) -> bool:
        nonlocal left
        left -= 1
        return left == 0

    return cut


def at_commit(times: int = 1) -> Callable[[bytes], bool]:
    left = times

    def cut(message: bytes) -> bool:
        nonlocal left
        if b"COMMIT\0" not in message or not left:
            return False
        left -= 1
        return True

    return cut


def count_into(counted: list[int]) -> Callable[[bytes], bool]:
    def cut(message: bytes) -> bool:
        counted.append(len(message))
        return False

    return cut


# --- every work -----------------------------------------------------------------------

HISTORY = add_messages([], [HumanMessage("hi", id="1")])
LONGER = add_messages(HISTORY, [HumanMessage("there", id="2")])
WAITING = (Pending("7", "tools"), Pending("8", "tools"))


def prepared(saver: PostgresSaver) -> int:
    """A thread that is claimed, and another."""
    saver.save(record("c1", values={"messages": HISTORY, "n": 1}))
    saver.save(record("c2", "c1", values={"messages": HISTORY, "n": 2}, pending=WAITING))
    saver.save(record("c1", None, "other", values={"n": 7}))
    return saver.claim("t", saver.load("t"), "run")


WORKS: dict[str, Callable[[Any, int], Any]] = {
    "claim a new thread": lambda saver, _: saver.save(record("c1", None, "u"), None, saver.claim("u", None, "r")),
    "claim": lambda saver, _: saver.save(record("c3", "c2"), None, saver.claim("t", saver.load("t"), "r")),
    "save": lambda saver, claim: saver.save(
        record("c3", "c2", values={"messages": LONGER, "n": 3}, writes=[("9", "n", 1)]), {"messages"}, claim
    ),
    "save again": lambda saver, claim: saver.save(record("c2", "c1", values={"n": 3}), None, claim),
    "save below": lambda saver, claim: saver.save(record("d1", ns="tools:7", values={"n": 3}), None, claim),
    "save writes": lambda saver, claim: saver.save_writes("t", "", "c2", "7", [("messages", [LONGER[1]])], claim),
    "put": lambda saver, _: saver.save(record("c3", "c2", values={"messages": LONGER})),
    "put into a new thread": lambda saver, _: saver.save(record("c1", None, "u", values={"messages": LONGER})),
    "put writes": lambda saver, _: saver.save_writes("t", "", "c2", "7", [("n", 1)]),
    "delete": lambda saver, _: saver.delete_thread("t"),
    "copy": lambda saver, _: saver.copy_thread("t", "u"),
    "prune": lambda saver, _: saver.prune(["t", "other"]),
    "prune all": lambda saver, _: saver.prune(["t", "other"], strategy="delete"),
    "read": lambda saver, _: ids(saver.walk("t")),
}


def shown(saver: PostgresSaver) -> list[Any]:
    """All that is stored, but for what grows with each try."""
    return [
        (found.thread_id, found.ns, found.id, found.parent_id, found.values, found.pending, found.writes)
        for found in saver.walk(None, None)
    ]


def held(saver: PostgresSaver, claim: int) -> bool:
    """Whether the claim that was made before still counts."""
    try:
        saver.save(record("x", "c2"), None, claim)
    except ThreadConflictError:
        return False
    return True


@pytest.mark.parametrize("name", list(WORKS))
def test_wherever_a_line_breaks_a_work_is_done_once(saver, other, line, name):
    """As if it had not: what is stored, what is answered, and who may write."""
    work = WORKS[name]

    def outcome(cut: Callable[[bytes], bool]) -> Any:
        for thread in ("t", "u", "other"):
            other.delete_thread(thread)
        claim = prepared(other)
        line.cut = cut
        try:
            answer = work(saver, claim)
        finally:
            line.cut = at(0)
        return answer, shown(other), other.size_report()["checkpoints"], held(other, claim)

    messages: list[int] = []
    expected = outcome(count_into(messages))
    for late in (False, True):
        line.late = late
        for number in range(1, len(messages) + 1):
            before = line.cuts
            assert expected == outcome(at(number)), (late, number)
            assert line.cuts == before + 1


@pytest.mark.parametrize("late", [False, True])
def test_it_may_break_again_and_again(saver, other, line, late):
    claim = prepared(other)
    line.late = late
    line.cut = at_commit(3)
    saver.save(record("c3", "c2", values={"messages": LONGER}), {"messages"}, claim)

    assert line.cuts == (1 if late else 3)
    assert said(loaded(other).values["messages"]) == ["hi", "there"]
    assert ids(other.walk("t")) == ["c3", "c2", "c1"]


def meanwhile(line: Cutting, deed: Callable[[], Any]) -> Callable[[bytes], bool]:
    """Cut at the first COMMIT; `deed` is done before the connection that follows is served."""
    cut = at_commit()
    done = False

    def cut_and_act(message: bytes) -> bool:
        nonlocal done
        if line.cuts and not done:
            done = True
            deed()
        return cut(message)

    return cut_and_act


@pytest.mark.parametrize("late", [False, True])
def test_a_run_that_was_overtaken_meanwhile_is_told(saver, other, line, late):
    claim = prepared(other)
    line.late = late
    line.cut = meanwhile(line, lambda: other.claim("t", other.load("t"), "another"))
    with pytest.raises(ThreadConflictError, match="another"):
        saver.save(record("c3", "c2"), None, claim)
    assert ids(other.walk("t")) == (["c3", "c2", "c1"] if late else ["c2", "c1"])


@pytest.mark.parametrize("late", [False, True])
def test_of_two_claims_one_counts_whatever_is_lost(saver, other, line, late):
    """Whoever else has read the same state is first if our COMMIT was not heard, and told if it was."""
    other.save(record("c1"))
    seen = other.load("t")
    told: list[Exception] = []

    def claim() -> None:
        try:
            other.claim("t", seen, "another")
        except ThreadConflictError as error:
            told.append(error)

    line.late = late
    line.cut = meanwhile(line, claim)
    if late:
        saver.save(record("c2", "c1"), None, saver.claim("t", seen, "ours"))
    else:
        with pytest.raises(ThreadConflictError, match="another"):
            saver.claim("t", seen, "ours")
    assert len(told) == int(late)


def test_a_put_that_was_heard_takes_nothing_from_who_has_claimed_since(saver, other, line):
    other.save(record("c1"))
    claims: list[int] = []
    line.late = True
    for put in (
        lambda: saver.save(record("c2", "c1")),
        lambda: saver.save_writes("t", "", "c2", "task", [("n", 1)]),
    ):
        line.cuts = 0
        line.cut = meanwhile(line, lambda: claims.append(other.claim("t", other.load("t"), "next")))
        put()
        other.save(record("d1", ns="tools:1"), None, claims[-1])
    assert len(claims) == 2


def test_a_copy_onto_what_somebody_else_has_made_is_refused(saver, other, line):
    prepared(other)
    line.cut = meanwhile(line, lambda: other.save(record("mine", None, "u")))
    with pytest.raises(UsageError, match="'u' exists"):
        saver.copy_thread("t", "u")
    assert ids(other.walk("u")) == ["mine"]


def test_who_cannot_come_back_in_time_is_told_that_it_is_not_known(line, other):
    with PostgresSaver(line.url, patience=0, pool_size=1) as saver:
        claim = prepared(saver)
        line.cut = at_commit(3)
        line.late = False
        with pytest.raises(SaverError, match=r"was lost while it stored, so whether it has is not known"):
            saver.save(record("c3", "c2"), None, claim)
        line.cut = at(0)
        saver.save(record("c3", "c2"), None, claim)
    assert ids(other.walk("t")) == ["c3", "c2", "c1"]


# --- runs -----------------------------------------------------------------------------


def test_no_run_ends_because_its_server_restarts(own_cluster):
    """Restarted in good order, as for an upgrade, while runs are under way."""
    ready = threading.Barrier(5)
    results: dict[int, Any] = {}

    @tool
    def look(place: int) -> str:
        """Look."""
        return f"nothing in {place}"

    words = [*(call("look", place=number) for number in range(60)), say("Done.")]
    with PostgresSaver(own_cluster.url, patience=30) as saver:
        saver.setup()

        def run(number: int) -> None:
            config: RunnableConfig = {"configurable": {"thread_id": f"restart-{number}"}, "recursion_limit": 500}
            agent = create_agent(ScriptedModel(*words), [look], checkpointer=saver)
            ready.wait(20)
            try:
                results[number] = agent.invoke({"messages": "Go."}, config).text
            except Exception as error:  # noqa: BLE001 - shown by the assertion
                results[number] = error

        threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        ready.wait(20)
        for _ in range(3):
            own_cluster.stop("fast")
            own_cluster.start()
        for thread in threads:
            thread.join(120)
        counts = [len(list(saver.walk(f"restart-{number}"))) for number in range(4)]
        for number in range(4):
            saver.delete_thread(f"restart-{number}")

    assert results == dict.fromkeys(range(4), "Done.")
    assert len(set(counts)) == 1
