from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from typing import Any, cast

import psycopg
import psycopg_pool
import pytest
from psycopg import sql
from psycopg.rows import dict_row

from loopwright.agents import create_agent
from loopwright.checkpoint.conformance import SaverConformance
from loopwright.checkpoint.conformance.records import ids, loaded, record
from loopwright.checkpoint.postgres import AsyncPostgresSaver, PostgresSaver, aio
from loopwright.checkpoint.postgres.lines import BorrowedLines, OwnLines
from loopwright.errors import LoopwrightError, MissingExtraError, SaverError, ThreadConflictError, UsageError
from loopwright.scope import RunnableConfig
from loopwright.testing import ScriptedModel, call, say
from loopwright.tools import tool

THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}


class TestPostgresSaver(SaverConformance):
    many = 300

    @pytest.fixture(autouse=True)
    def place(self, postgres_url):
        self.url = postgres_url

    def make_saver(self, folder):
        return PostgresSaver(self.url)

    def reopen(self, saver):
        return PostgresSaver(self.url)


@pytest.fixture
def saver(postgres_url):
    with PostgresSaver(postgres_url) as saver:
        yield saver


# --- agents -----------------------------------------------------------------------------


@tool
def look(place: str) -> str:
    """Look somewhere."""
    return f"nothing in {place}"


def agent_on(saver, *words, **options):
    return create_agent(ScriptedModel(*words, loop=True), [look], checkpointer=saver, **options)


def test_an_agent_goes_on_in_another_process(postgres_url):
    with PostgresSaver(postgres_url) as saver:
        agent_on(saver, call("look", place="here"), say("Nothing.")).invoke({"messages": "Look."}, THREAD)
    with PostgresSaver(postgres_url) as saver:
        texts = [
            message.text for message in agent_on(saver, say("Bye.")).invoke({"messages": "Thanks."}, THREAD)["messages"]
        ]

    assert texts == ["Look.", "", "nothing in here", "Nothing.", "Thanks.", "Bye."]


async def test_an_agent_under_asyncio(postgres_url):
    async with AsyncPostgresSaver.from_conn_string(postgres_url) as saver:
        await saver.setup()
        configs: list[RunnableConfig] = [{"configurable": {"thread_id": str(number)}} for number in range(20)]
        results = await asyncio.gather(
            *(
                agent_on(saver, call("look", place="here"), say("Nothing.")).ainvoke({"messages": "Look."}, config)
                for config in configs
            )
        )
        steps = [found.metadata.get("step") async for found in saver.alist(configs[7])]

    assert [result.text for result in results] == ["Nothing."] * 20
    assert steps == [3, 2, 1, 0, -1]


def test_both_worlds_share_a_thread(saver):
    agent = agent_on(saver, say("One."), say("Two."), say("Three."))
    agent.invoke({"messages": "1"}, THREAD)
    asyncio.run(agent.ainvoke({"messages": "2"}, THREAD))
    asyncio.run(agent.ainvoke({"messages": "3"}, THREAD))

    found = agent.get_state(THREAD).values["messages"]
    assert [message.text for message in found] == ["1", "One.", "2", "Two.", "3", "Three."]


def test_a_run_goes_on_when_its_server_is_back_in_time(own_cluster):
    """Killed and started again in the middle of a run: the tool's result and the rest are there."""

    @tool
    def crash() -> str:
        """Crash."""
        own_cluster.stop()
        own_cluster.start()
        return "crashed"

    with PostgresSaver(own_cluster.url) as saver:
        model = ScriptedModel(call("crash"), say("Well."))
        agent = create_agent(model, [crash], checkpointer=saver)
        assert agent.invoke({"messages": "Crash."}, THREAD).text == "Well."
        texts = [message.text for message in agent.get_state(THREAD).values["messages"]]
        saver.delete_thread("1")

    assert texts == ["Crash.", "", "crashed", "Well."]


def test_a_run_whose_server_is_away_fails_and_its_thread_goes_on(own_cluster):
    ran = []

    @tool
    def crash() -> str:
        """Crash."""
        ran.append("crash")
        if len(ran) == 1:
            own_cluster.stop()
        return "crashed"

    with PostgresSaver(own_cluster.url, patience=0) as saver:
        agent = create_agent(ScriptedModel(call("crash"), say("Well.")), [crash], checkpointer=saver)
        try:
            with pytest.raises(SaverError, match="whether it runs"):
                agent.invoke({"messages": "Crash."}, THREAD)
        finally:
            own_cluster.start()
        assert agent.get_state(THREAD).next == ("tools",)
        assert agent.invoke(None, THREAD).text == "Well."
        texts = [message.text for message in agent.get_state(THREAD).values["messages"]]
        saver.delete_thread("1")

    assert texts == ["Crash.", "", "crashed", "Well."]


def test_a_step_takes_two_round_trips(postgres_url):
    """One asks whether the claim still counts, the other stores."""
    with psycopg.connect(postgres_url) as connection:
        saver = PostgresSaver(connection)
        agent = agent_on(saver, call("look", place="here"), say("Nothing."))
        agent.invoke({"messages": "Look."}, THREAD)
        seen = loaded(saver, "1")
        line = saver._server.lines.take()
        saver._server.lines.give(line)
        counts = []

        def count(method, *arguments):
            before = line.trips
            result = method(*arguments)
            counts.append(line.trips - before)
            return result

        claim = count(saver.claim, "1", seen, "run")
        count(saver.save, record("c1", seen.id, "1", values=seen.values), {"messages"}, claim)
        count(saver.save_writes, "1", "", "c1", "task", [("messages", [])], claim)
        count(saver.save, record("c2", "c1", "1", values=seen.values), {"messages"}, claim)

    assert counts == [2, 2, 2, 2]


# --- many writers -----------------------------------------------------------------------

_WRITER = """
import sys
from loopwright.checkpoint.conformance import SaverConformance
from loopwright.checkpoint.postgres import PostgresSaver
from loopwright.checkpoint.record import Record
from loopwright.errors import ThreadConflictError
with PostgresSaver(sys.argv[1]) as saver:
    seen = saver.load("t")
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        claim = saver.claim("t", seen, sys.argv[2])
        saver.save(Record(id=sys.argv[2], parent_id="c1", thread_id="t", values={"winner": sys.argv[2]}), None, claim)
        print("won", flush=True)
    except ThreadConflictError:
        print("lost", flush=True)
"""


def test_of_eight_processes_that_read_the_same_state_one_writes(saver, postgres_url):
    saver.save(record("c1"))
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, postgres_url, f"w{number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(8)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    said = [writer.communicate(timeout=60)[0] for writer in writers]

    assert sorted(said) == ["lost\n"] * 7 + ["won\n"]
    assert loaded(saver).values == {"winner": f"w{said.index('won' + chr(10))}"}
    assert len(ids(saver.walk("t"))) == 2


def test_two_savers_that_make_a_thread_at_once(postgres_url):
    """Neither has a row to lock; the later claim counts."""
    with PostgresSaver(postgres_url) as one, PostgresSaver(postgres_url) as two:
        one.setup()
        for number in range(20):
            thread = f"t{number}"
            barrier = threading.Barrier(2)
            claims = []

            def claim(saver, thread=thread, barrier=barrier, claims=claims) -> None:
                barrier.wait(10)
                claims.append((saver.claim(thread, None, "r"), saver))

            racers = [threading.Thread(target=claim, args=(saver,)) for saver in (one, two)]
            for racer in racers:
                racer.start()
            for racer in racers:
                racer.join(20)
            (early, loser), (late, winner) = sorted(claims, key=lambda pair: pair[0])
            winner.save(record("c1", None, thread), None, late)
            with pytest.raises(ThreadConflictError):
                loser.save(record("c2", None, thread), None, early)


def test_a_thread_that_is_made_and_deleted_by_many_at_once(postgres_url):
    with PostgresSaver(postgres_url) as saver:
        saver.setup()
        errors = []

        def come_and_go(number: int) -> None:
            try:
                for step in range(25):
                    saver.save(record(f"c{number}-{step}"))
                    saver.delete_thread("t")
            except (LoopwrightError, AssertionError) as error:
                errors.append(error)

        threads = [threading.Thread(target=come_and_go, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

        assert errors == []
        assert saver.size_report() == {"bytes": 0, "threads": 0, "checkpoints": 0}


class Together(PostgresSaver):
    """A saver whose runs read a thread together."""

    reading: asyncio.Barrier

    async def aload(self, *args: Any, **kwargs: Any) -> Any:
        found = await super().aload(*args, **kwargs)
        await self.reading.wait()
        return found


async def test_of_two_runs_that_have_read_the_same_one_goes_on(postgres_url):
    async with PostgresSaver(postgres_url) as saver, Together(postgres_url) as one, Together(postgres_url) as two:
        one.reading = two.reading = asyncio.Barrier(2)
        await agent_on(saver, say("Yes.")).ainvoke({"messages": "Hi."}, THREAD)
        agents = [agent_on(each, say("Yes.")) for each in (one, two)]
        results = await asyncio.gather(
            *(agent.ainvoke({"messages": "Again."}, THREAD) for agent in agents), return_exceptions=True
        )
        state = await agent_on(saver).aget_state(THREAD)

    (lost,) = [result for result in results if isinstance(result, BaseException)]
    assert isinstance(lost, ThreadConflictError)
    assert "has run nothing" in str(lost)
    assert [message.text for message in state.values["messages"]] == ["Hi.", "Yes.", "Again.", "Yes."]


async def test_two_runs_at_once_never_mix(postgres_url):
    """Each goes on from what it has read, has run nothing, or is told that it was taken over; what was said stays."""
    async with PostgresSaver(postgres_url) as saver, PostgresSaver(postgres_url) as other:
        agents = [agent_on(saver, say("Yes.")), agent_on(other, say("Yes."))]
        await agents[0].ainvoke({"messages": "Hi."}, THREAD)
        results = await asyncio.gather(
            *(agent.ainvoke({"messages": "Again."}, THREAD) for agent in agents), return_exceptions=True
        )
        messages = agents[0].get_state(THREAD).values["messages"]

    texts = [message.text for message in messages]
    lost = [str(result) for result in results if isinstance(result, ThreadConflictError)]
    won = [result["messages"] for result in results if not isinstance(result, BaseException)]
    assert len(won) + len(lost) == 2
    assert texts[:2] == ["Hi.", "Yes."]
    assert texts.count("Again.") == 2 - sum("has run nothing" in words for words in lost)
    assert messages in won, "the last one to write has seen all of it"


def test_two_machines_take_turns(postgres_url):
    """What one remembers of a thread is worth nothing once the other has written to it."""
    with PostgresSaver(postgres_url) as one, PostgresSaver(postgres_url) as two:
        agents = [agent_on(saver, call("look", place="here"), say("Nothing.")) for saver in (one, two)]
        for turn in range(6):
            agents[turn % 2].invoke({"messages": str(turn)}, THREAD)
            if turn == 3:
                two.prune(["1"])
        shown = [[message.text for message in agent.get_state(THREAD).values["messages"]] for agent in agents]

    expected = [text for turn in range(6) for text in (str(turn), "", "nothing in here", "Nothing.")]
    assert shown == [expected, expected]


async def test_B131_plain_calls_on_the_loop_of_an_async_run(saver):
    @tool
    async def remember() -> str:
        """Look at the thread, and write to another, with plain calls on the loop."""
        saver.save(record("c1", None, "other"))
        return str(len(list(saver.list(THREAD))))

    model = ScriptedModel([call("remember"), call("remember"), call("remember")], say("Yes."))
    agent = create_agent(model, [remember], checkpointer=saver)
    result = await asyncio.wait_for(agent.ainvoke({"messages": "Go."}, THREAD), 60)

    assert result.text == "Yes."
    assert ids(saver.walk("other")) == ["c1"]


# --- rights and names -------------------------------------------------------------------


@pytest.fixture
def reader_url(postgres_server, postgres_url):
    """Of a user who may only read."""
    name = sql.Identifier("loopwright_test_reader")
    schema = postgres_url.rpartition("%3D")[2]
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'hush'").format(name))
        connection.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(sql.Identifier(schema), name))
        connection.execute(
            sql.SQL("ALTER DEFAULT PRIVILEGES IN SCHEMA {} GRANT SELECT ON TABLES TO {}").format(
                sql.Identifier(schema), name
            )
        )
        yield postgres_url.replace("postgres@", "loopwright_test_reader:hush@", 1)
        connection.execute(sql.SQL("DROP OWNED BY {}").format(name))
        connection.execute(sql.SQL("DROP ROLE {}").format(name))


def test_who_may_only_read_reads(saver, reader_url):
    with PostgresSaver(reader_url) as reader:
        with pytest.raises(SaverError, match=r"permission denied for schema .*GRANT this user"):
            reader.load("t")
        saver.save(record("c1", values={"n": 1}))

        assert loaded(reader).values == {"n": 1}
        assert ids(reader.walk("t")) == ["c1"]
        with pytest.raises(SaverError, match=r"permission denied for table .*GRANT this user") as caught:
            reader.save(record("c2"))
        assert "hush" not in str(caught.value)
    assert ids(saver.walk("t")) == ["c1"]


def test_tables_of_a_later_version_are_left_alone(saver, postgres_url):
    saver.setup()
    with psycopg.connect(postgres_url) as connection:
        connection.execute("UPDATE loopwright_meta SET value = 99")
    with PostgresSaver(postgres_url) as late, pytest.raises(SaverError, match=r"version 99, .* up to 1"):
        late.load("t")


def test_thread_ids_that_postgresql_cannot_hold_are_refused(saver):
    for id, words in [("a\0b", "NUL character"), ("\ud800", "surrogate")]:
        with pytest.raises(UsageError, match=words):
            saver.save(record("c1", None, id))
        with pytest.raises(UsageError, match=words):
            saver.load(id)
    saver.save(record("c1", None, "Zoë 你好 %s ? $1 '"))
    assert loaded(saver, "Zoë 你好 %s ? $1 '").id == "c1"


def test_what_is_said_may_hold_anything(saver):
    text = "NUL \0, half a surrogate \ud800, Zoë 你好"
    saver.save(record("c1", values={"text": text}))
    assert loaded(saver).values["text"] == text


# --- how it is made -----------------------------------------------------------------------


def test_all_names_are_one_class():
    assert AsyncPostgresSaver is PostgresSaver
    assert aio.AsyncPostgresSaver is PostgresSaver


def test_repr_says_where_and_never_the_password():
    saver = PostgresSaver("postgresql://ann:hush@db.example:5433/app")
    assert repr(saver) == "PostgresSaver(db.example:5433/app)"
    assert repr(PostgresSaver("host=db.example dbname=app password=hush")) == "PostgresSaver(db.example:5432/app)"


async def test_setup_may_be_called_awaited_and_called_again(saver):
    saver.setup()
    await saver.setup()
    await saver.asetup()


def test_a_single_connection(postgres_url):
    with psycopg.connect(postgres_url) as connection:
        saver = PostgresSaver(connection)
        threads = [threading.Thread(target=saver.save, args=(record("c1", None, f"t{n}"),)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        saver.close()
        assert connection.execute("SELECT count(*) FROM loopwright_threads").fetchone() == (8,)


def test_a_pool_with_the_settings_that_langgraph_asks_for(postgres_url):
    kwargs = {"autocommit": True, "row_factory": dict_row, "prepare_threshold": 0, "application_name": "pooled"}
    with psycopg_pool.ConnectionPool(postgres_url, min_size=1, max_size=4, kwargs=kwargs) as pool:
        saver = PostgresSaver(pool)
        agent = agent_on(saver, call("look", place="here"), say("Nothing."))
        assert agent.invoke({"messages": "Look."}, THREAD).text == "Nothing."
        assert asyncio.run(agent.ainvoke({"messages": "Again."}, THREAD)).text == "Nothing."
        with pool.connection() as connection:  # what is given back is as it was
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'pooled' AND pid <> pg_backend_pid()"
            )
            assert connection.execute("SELECT 1 AS one").fetchone() == {"one": 1}
        assert len(list(saver.list(THREAD))) == 10
        lines = saver._server.lines
        assert isinstance(lines, BorrowedLines)
        assert len(lines._lines) <= 4
        saver.close()


def test_a_connection_that_speaks_another_encoding(postgres_url):
    with (
        psycopg.connect(postgres_url, client_encoding="latin1") as connection,
        pytest.raises(UsageError, match="client_encoding is LATIN1"),
    ):
        PostgresSaver(connection)


async def test_of_an_async_pool_the_address_is_taken(postgres_url):
    async with (
        psycopg_pool.AsyncConnectionPool(
            postgres_url, min_size=1, max_size=3, kwargs={"autocommit": True, "row_factory": dict_row}
        ) as pool,
        AsyncPostgresSaver(pool) as saver,
    ):
        await saver.asave(record("c1"))
        assert [found.id async for found in saver.awalk("t")] == ["c1"]
        assert loaded(saver).id == "c1"


async def test_what_it_cannot_be_made_of(postgres_url):
    connection = await psycopg.AsyncConnection.connect(postgres_url)
    try:
        with pytest.raises(UsageError, match="belongs to one event loop"):
            PostgresSaver(cast(Any, connection))
    finally:
        await connection.close()
    with pytest.raises(UsageError, match=r"takes a url, .*not a int"):
        PostgresSaver(cast(Any, 7))
    with pytest.raises(UsageError, match="at least 1"):
        PostgresSaver(postgres_url, pool_size=0)


def test_a_saver_that_nobody_closed_leaves_no_connection(postgres_url):
    saver = PostgresSaver(postgres_url)
    saver.save(record("c1"))
    lines = saver._server.lines
    del saver

    assert isinstance(lines, OwnLines)
    assert not lines.idle


def test_without_psycopg_the_error_has_the_pip_line():
    program = (
        "import sys; sys.modules['psycopg'] = None\n"
        "try: import loopwright.checkpoint.postgres\n"
        "except ImportError as error: print(type(error).__name__, error)"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert said.startswith(MissingExtraError.__name__)
    assert "pip install 'loopwright[postgres]'" in said
