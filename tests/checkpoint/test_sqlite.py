"""SqliteSaver by the contract of all savers, and what a file adds: several of them, closing, asyncio, bytes."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import shutil
import sqlite3
import tempfile
import threading

import pytest
from hypothesis import settings
from hypothesis.stateful import rule

from loopwright.checkpoint.conformance import SaverConformance
from loopwright.checkpoint.conformance.records import ids, loaded, record, said
from loopwright.checkpoint.sqlite import AsyncSqliteSaver, SqliteSaver, aio
from loopwright.errors import SaverError, ThreadConflictError, UsageError
from loopwright.messages import AIMessage, HumanMessage, RemoveMessage
from loopwright.messages.history import add_messages
from tests.checkpoint.test_threads_as_machine import Threads


@pytest.fixture
def path(tmp_path):
    return tmp_path / "threads.sqlite"


@pytest.fixture
def saver(path):
    with SqliteSaver(path) as saver:
        yield saver


class TestSqliteSaver(SaverConformance):
    many = 3000

    def make_saver(self, folder):
        return SqliteSaver(folder / "threads.sqlite")

    def reopen(self, saver):
        return SqliteSaver(saver._file.path)


class TestSqliteSaverInMemory(SaverConformance):
    many = 1000

    def make_saver(self, folder):
        return SqliteSaver(":memory:")


class ThreadsOnDisk(Threads):
    """Random lives of threads; two savers take turns, as two processes would, and one forgets all now and then."""

    def make_saver(self):
        self.folder = tempfile.TemporaryDirectory()
        self.pair = [SqliteSaver(f"{self.folder.name}/threads.sqlite") for _ in range(2)]
        return self.pair[0]

    @rule()
    def the_other_one_goes_on(self):
        self.saver = self.pair[self.saver is self.pair[0]]

    @rule()
    def begin_without_memory(self):
        at = self.pair.index(self.saver)
        self.saver.close()
        self.saver = self.pair[at] = SqliteSaver(f"{self.folder.name}/threads.sqlite")

    def teardown(self):
        for saver in self.pair:
            saver.close()
        self.folder.cleanup()


TestThreadsOnDisk = ThreadsOnDisk.TestCase
TestThreadsOnDisk.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


def rows_of(path, sql: str) -> list[tuple]:
    """What another program sees in the file."""
    connection = sqlite3.connect(path)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


TABLES = ("threads", "spaces", "checkpoints", "items", "cells", "writes")


# --- opening and closing --------------------------------------------------------


def test_it_is_found_where_langgraphs_users_look():
    assert AsyncSqliteSaver is SqliteSaver is aio.AsyncSqliteSaver


async def test_from_conn_string_is_a_context_manager_for_both_worlds(path):
    with SqliteSaver.from_conn_string(str(path)) as saver:
        saver.save(record("c1", values={"n": 1}))
    async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        assert (await saver.aload("t")).values == {"n": 1}  # pyright: ignore[reportOptionalMemberAccess]


async def test_setup_may_be_called_awaited_and_called_again(path):
    async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        saver.setup()
        await saver.setup()
        await saver.asetup()
        await saver.asave(record("c1"))

        assert ids(saver.walk("t")) == ["c1"]


def test_an_open_connection_stands_for_its_file(path):
    connection = sqlite3.connect(path, check_same_thread=False)
    with SqliteSaver(connection) as saver:
        saver.save(record("c1"))
    connection.close()

    assert rows_of(path, "SELECT COUNT(*) FROM loopwright_checkpoints") == [(1,)]
    with SqliteSaver(sqlite3.connect(":memory:")) as saver:
        assert repr(saver) == "SqliteSaver(':memory:')"


def test_a_closed_saver_opens_its_file_again_when_it_is_used(path):
    """So that an agent may be used after the `with` block its saver was made in."""
    with SqliteSaver(path) as saver:
        saver.save(record("c1"))

    saver.save(record("c2", "c1"))
    assert loaded(saver).id == "c2"
    saver.close()
    saver.close()


def test_a_closed_saver_in_memory_says_that_all_is_gone():
    saver = SqliteSaver(":memory:")
    saver.save(record("c1"))
    saver.close()

    with pytest.raises(SaverError, match="is closed, and what it held is gone"):
        saver.load("t")


def test_closing_leaves_one_file_and_no_thread(path):
    before = set(threading.enumerate())
    saver = SqliteSaver(path)
    saver.save(record("c1"))
    asyncio.run(saver.aload("t"))
    saver.close()

    assert set(threading.enumerate()) == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_saver_that_is_dropped_lets_go_of_its_file(path):
    before = set(threading.enumerate())
    saver = SqliteSaver(path)
    saver.save(record("c1"))
    del saver
    gc.collect()

    assert set(threading.enumerate()) == before


def test_a_relative_path_stays_where_it_was(path, monkeypatch, tmp_path_factory):
    monkeypatch.chdir(path.parent)
    saver = SqliteSaver(path.name)
    saver.save(record("c1"))
    saver.close()
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))

    assert loaded(saver).id == "c1"
    saver.close()


def test_durability_is_a_choice(path):
    for synchronous, level in (("normal", 1), ("full", 2)):
        with SqliteSaver(path, synchronous=synchronous) as saver:  # pyright: ignore[reportArgumentType]
            saver.save(record(f"c{level}"))
            assert saver._file._writing.execute("PRAGMA synchronous").fetchone() == (level,)  # pyright: ignore[reportOptionalMemberAccess]
            assert saver._file._writing.execute("PRAGMA journal_mode").fetchone() == ("wal",)  # pyright: ignore[reportOptionalMemberAccess]
    with pytest.raises(UsageError, match='"normal" or "full"'):
        SqliteSaver(path, synchronous="off")  # pyright: ignore[reportArgumentType]


# --- stored once ----------------------------------------------------------------


def test_a_message_is_one_row_however_many_checkpoints_show_it(path, saver):
    """Also if a task had written it before, and if the saver that goes on is another one."""
    history = add_messages([], [HumanMessage("hi", id="1")])
    saver.save(record("c1", values={"messages": history}))
    for number in range(2, 8):
        parent = f"c{number - 1}"
        answer = AIMessage(f"answer {number}", id=str(number))
        saver.save_writes("t", "", parent, "task", [("messages", [answer])])
        history = add_messages(history, [answer])
        if number == 5:
            saver.close()
            with SqliteSaver(path) as other:
                seen = loaded(other)
                history = add_messages(seen.values["messages"], [seen.writes[0][2][0]])
                other.save(record("c5", parent, values={"messages": history}), {"messages"})
        else:
            saver.save(record(f"c{number}", parent, values={"messages": history}), {"messages"})

    assert rows_of(path, "SELECT COUNT(*) FROM loopwright_items") == [(7,)]
    assert said(loaded(saver).values["messages"]) == said(history)


def test_a_rebuilt_history_stores_only_what_is_new(path, saver):
    """Replacing and removing make a new list of the same messages, also for a saver that has never seen them."""
    history = add_messages([], [HumanMessage(str(number), id=str(number)) for number in range(10)])
    saver.save(record("c1", values={"messages": history}))
    shorter = add_messages(history, [RemoveMessage(id="3"), HumanMessage("new", id="5")])
    saver.save(record("c2", "c1", values={"messages": shorter}), {"messages"})
    with SqliteSaver(path) as other:
        copied = [message.model_copy() for message in shorter]
        other.save(record("c3", "c2", values={"messages": copied}), {"messages"})

    assert rows_of(path, "SELECT COUNT(*) FROM loopwright_items") == [(11,)]
    assert said(loaded(saver).values["messages"]) == ["0", "1", "2", "4", "new", "6", "7", "8", "9"]
    assert said(loaded(saver, id="c1").values["messages"]) == [str(number) for number in range(10)]


def test_a_value_that_grows_is_stored_by_what_was_added(path, saver):
    log = [f"line {number} of the log" for number in range(100)]
    saver.save(record("c1", values={"log": log}))
    for number in range(2, 102):
        log = [*log, f"line {number}"]
        saver.save(record(f"c{number}", f"c{number - 1}", values={"log": log}), {"log"})

    sizes = rows_of(path, "SELECT SUM(LENGTH(blob)), MAX(LENGTH(blob)) FROM loopwright_cells")
    assert sizes[0][0] < 3 * sizes[0][1]
    assert loaded(saver, id="c50").values["log"] == log[:149]
    with SqliteSaver(path) as other:
        assert loaded(other).values["log"] == log


@pytest.mark.parametrize(
    "grown", [lambda n: "word " * n, lambda n: {str(i): "word" for i in range(n)}], ids=["str", "dict"]
)
def test_B127_a_value_that_a_task_returns_whole_is_written_as_what_was_added(path, saver, grown):
    """And the next checkpoint shows the cell that the task has written."""
    for turn in range(1, 201):
        saver.save(record(f"c{turn}", f"c{turn - 1}", values={"x": grown(turn * 5)}), {"x"})
        saver.save_writes("t", "", f"c{turn}", "task", [("x", grown(turn * 5 + 5))])

    assert sum(row[0] for row in rows_of(path, "SELECT LENGTH(blob) FROM loopwright_cells")) < 10 * len(
        str(grown(1000))
    )
    assert sum(row[0] for row in rows_of(path, "SELECT LENGTH(blob) FROM loopwright_writes")) < 5000
    assert rows_of(path, "SELECT COUNT(*) FROM loopwright_cells") == [(201,)]
    with SqliteSaver(path) as other:
        assert loaded(other, id="c90").writes == [("task", "x", grown(455))]
        assert loaded(other, id="c91").values == {"x": grown(455)}


def test_what_was_known_of_a_file_is_forgotten_when_it_is_closed(path, saver):
    """Meanwhile a backup was put in its place, and somebody else went on from there."""
    history = add_messages([], [HumanMessage("first", id="1")])
    saver.save(record("c1", values={"messages": history}))
    saver.close()
    shutil.copy(path, path.with_name("backup"))
    saver.save(record("c2", "c1", values={"messages": add_messages(history, [AIMessage("gone", id="2")])}))
    saver.close()
    path.with_name("backup").rename(path)
    with SqliteSaver(path) as other:
        other.save(record("c2", "c1", values={"messages": add_messages(history, [AIMessage("kept", id="2")])}))

    assert said(loaded(saver).values["messages"]) == ["first", "kept"]
    more = add_messages(loaded(saver).values["messages"], [AIMessage("more", id="3")])
    saver.save(record("c3", "c2", values={"messages": more}), {"messages"})
    with SqliteSaver(path) as other:
        assert said(loaded(other).values["messages"]) == ["first", "kept", "more"]


def test_a_loaded_history_goes_on_in_the_same_buffer(saver):
    """A turn on a long thread looks at its own messages only."""
    history = add_messages([], ["one"])
    saver.save(record("c1", values={"messages": history}))

    found = loaded(saver).values["messages"]
    assert found.buffer is history.buffer
    saver.save(record("c2", "c1", values={"messages": add_messages(found, ["two"])}), {"messages"})
    assert loaded(saver).values["messages"].buffer is history.buffer


# --- several at once ------------------------------------------------------------


def test_what_one_saver_writes_another_sees(path, saver):
    with SqliteSaver(path) as other:
        for number in range(1, 9):
            writer, reader = (saver, other) if number % 2 else (other, saver)
            history = add_messages(
                loaded(writer).values["messages"] if number > 1 else [], [HumanMessage(str(number), id=str(number))]
            )
            parent = f"c{number - 1}" if number > 1 else None
            writer.save(record(f"c{number}", parent, values={"messages": history}), {"messages"})
            assert said(loaded(reader).values["messages"]) == [str(each) for each in range(1, number + 1)]


def test_what_is_remembered_of_a_thread_is_not_used_for_one_made_anew(path, saver):
    """Another saver deletes the thread, or prunes it, behind this one's back."""
    history = add_messages([], [HumanMessage("old", id="1")])
    saver.save(record("c1", values={"messages": history, "log": ["x" * 100]}))
    with SqliteSaver(path) as other:
        other.delete_thread("t")
        other.save(record("c1", values={"messages": add_messages([], [HumanMessage("new", id="9")]), "log": []}))
    grown = add_messages(history, [AIMessage("more", id="2")])
    saver.save(record("c2", "c1", values={"messages": grown, "log": ["x" * 100, "y"]}))

    assert said(loaded(saver).values["messages"]) == ["old", "more"]
    with SqliteSaver(path) as other:
        assert said(loaded(other).values["messages"]) == ["old", "more"]
        assert loaded(other).values["log"] == ["x" * 100, "y"]
        assert other.prune(["t"]) == 1
    deeper = add_messages(grown, [AIMessage("most", id="3")])
    saver.save(record("c3", "c1", values={"messages": deeper, "log": ["x" * 100]}), {"messages", "log"})
    with SqliteSaver(path) as other:
        assert said(loaded(other).values["messages"]) == ["old", "more", "most"]


def test_a_run_does_not_take_a_thread_made_anew_for_its_own(saver):
    """Deleted and begun again while the run was under way, with as many writes as before."""
    saver.save(record("c1"))
    seen = saver.load("t")
    claim = saver.claim("t", seen, "old")
    saver.delete_thread("t")
    saver.save(record("c1"))
    saver.claim("t", saver.load("t"), "new")

    with pytest.raises(ThreadConflictError, match=r"\(new\)"):
        saver.save(record("c2", "c1"), None, claim)
    with pytest.raises(ThreadConflictError):
        saver.claim("t", seen, "old")


# --- asyncio --------------------------------------------------------------------


@pytest.mark.parametrize("where", ["file", ":memory:"])
async def test_B131_a_plain_call_inside_the_loop_never_deadlocks(path, where):
    with SqliteSaver(path if where == "file" else where) as saver:
        writing = [asyncio.create_task(saver.asave(record(f"c{number}"))) for number in range(20)]
        await asyncio.sleep(0)
        saver.save(record("c20"))
        assert saver.load("t") is not None
        await asyncio.gather(*writing)

        assert len(ids(saver.walk("t"))) == 21


async def test_many_tasks_write_at_once(saver):
    """They share transactions; the one that is refused does not spoil the others'."""

    async def write(number):
        with pytest.raises(UsageError) if number % 7 == 0 else contextlib.nullcontext():
            place = ("t", "", "nowhere" if number % 7 == 0 else "c1")
            await saver.asave_writes(*place, f"task{number}", [("n", number)])

    saver.save(record("c1"))
    await asyncio.gather(*map(write, range(100)))

    written = [number for _, _, number in loaded(saver).writes]
    assert sorted(written) == [number for number in range(100) if number % 7]


async def test_cancelling_who_waits_does_not_break_the_writer(saver):
    saver.save(record("c0"))
    tasks = [asyncio.create_task(saver.asave(record(f"c{number}"))) for number in range(1, 50)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)

    assert {type(result) for result in results} == {type(None), asyncio.CancelledError}
    await saver.asave(record("c99"))
    assert (await saver.aload("t")).id == "c99"
    assert len(ids(saver.walk("t"))) == 51  # what had begun went on


def test_a_loop_that_ends_while_a_write_is_under_way_harms_nobody(saver):
    async def leave():
        asyncio.ensure_future(saver.asave(record("c1")))  # noqa: RUF006 - nobody waits for it
        await asyncio.sleep(0)

    asyncio.run(leave())
    saver.save(record("c2"))
    assert ids(saver.walk("t")) == ["c2", "c1"]


async def test_B132_a_paused_walk_under_asyncio_blocks_nobody(path, saver):
    for number in range(1, 4):
        saver.save(record(f"c{number}"))
    walk = saver.awalk("t")
    assert (await anext(walk)).id == "c3"

    await saver.asave(record("c4", "c3"))
    with SqliteSaver(path, timeout=0) as other:
        other.save(record("c5", "c4"))
    assert (await anext(walk)).id == "c2"
    await saver.adelete_thread("t")
    assert [found.id async for found in walk] == []


def test_a_walk_over_more_than_a_page(saver):
    for number in range(450):
        saver.save(record(f"c{number}", metadata={"even": number % 2 == 0}))

    newest_first = [f"c{number}" for number in reversed(range(450))]
    assert ids(saver.walk("t")) == newest_first
    assert ids(saver.walk("t", limit=333)) == newest_first[:333]
    assert ids(saver.walk("t", filter={"even": True})) == newest_first[1::2]
    assert ids(saver.walk("t", filter={"even": True}, limit=150)) == newest_first[1:300:2]
    assert ids(saver.walk("t", before="c5", filter={"even": True})) == ["c4", "c2", "c0"]


# --- forgetting -----------------------------------------------------------------


def test_a_deleted_thread_leaves_no_row_and_no_byte(path, saver):
    """Among others that stay, so that rows have moved between pages; in the file and in its log."""
    histories, parents = {}, {}
    for number in range(600):
        thread = ("ann", "gone", "bob")[number % 3]
        words = ("FORGET-ME " if thread == "gone" else "keep this ") * (1, 30, 600)[number // 3 % 3]
        history = histories[thread] = add_messages(histories.get(thread, []), [HumanMessage(words)])
        values = {"messages": history, "note": [words, number]}
        saver.save(record(f"c{number}", parents.get(thread), thread, values=values, metadata={"said": words[:10]}))
        saver.save_writes(thread, "", f"c{number}", "task", [("note", words)])
        saver.save(record(f"d{number}", None, thread, ns="tools:1", values={"note": words}))
        parents[thread] = f"c{number}"
    saver.delete_thread("gone")

    assert [file.name for file in path.parent.iterdir() if b"FORGET-ME" in file.read_bytes()] == []
    assert len(ids(saver.walk("ann"))) == 200
    for thread in ("ann", "bob"):
        saver.delete_thread(thread)
    assert [rows_of(path, f"SELECT COUNT(*) FROM loopwright_{table}") for table in TABLES] == [[(0,)]] * len(TABLES)
    assert path.stat().st_size < 100_000


async def test_pruning_and_vacuum_give_room_back(path, saver):
    for number in range(1, 200):
        saver.save(record(f"c{number}", f"c{number - 1}", values={"note": str(number) * 1000}))
    saver.prune(["t"])
    await saver.avacuum()

    assert path.stat().st_size < 100_000
    assert loaded(saver).values == {"note": "199" * 1000}
    saver.prune(["t"], strategy="delete")
    saver.vacuum()
    assert saver.size_report() == {"bytes": 0, "threads": 0, "checkpoints": 0}
