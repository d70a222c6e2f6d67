from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections import deque
from contextlib import contextmanager
from urllib.parse import quote

import psycopg
import pytest

from loopwright.checkpoint.postgres.lines import OwnLines
from loopwright.checkpoint.postgres.server import Server
from loopwright.checkpoint.sql import COMMIT, Sql
from loopwright.errors import SaverError, UsageError
from tests.checkpoint.postgres.works import add, answer, make, numbers


@contextmanager
def serving(url: str, size: int = 4, patience: float = 10.0):
    server = Server(OwnLines(url, size), patience)
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
def server(postgres_url):
    with serving(postgres_url) as server:
        server.write(make)
        yield server


def idle(server: Server) -> deque:
    assert isinstance(server.lines, OwnLines)
    return server.lines.idle


async def becomes_true(event: threading.Event) -> None:
    await asyncio.to_thread(event.wait, 10)


def end_sessions(url: str, server: Server) -> int:
    """Hang up on all of a server's idle lines, as an administrator would."""
    pids = [line.pg.backend_pid for line in idle(server)]
    with psycopg.connect(url, autocommit=True) as other:
        for pid in pids:
            other.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))
    return len(pids)


# --- connections that die -------------------------------------------------------------


def test_connections_that_died_unused_are_nobodys_error(server, postgres_url):
    barrier = threading.Barrier(4)

    def together():
        yield Sql("SELECT 1")
        barrier.wait(10)

    threads = [threading.Thread(target=server.write, args=(together,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert end_sessions(postgres_url, server) == 4

    server.write(add(1))
    assert server.write(numbers) == [1]


@pytest.mark.parametrize("asks_once_more", [True, False])
def test_a_transaction_whose_connection_dies_is_begun_anew(server, postgres_url, asks_once_more):
    """Before its COMMIT, or with the COMMIT on its way: nothing was committed."""
    ended = []

    def work():
        pid = yield from answer("SELECT pg_backend_pid()")()
        yield Sql("INSERT INTO numbers (n) VALUES (1)")
        if not ended:
            with psycopg.connect(postgres_url, autocommit=True) as other:
                ended.append(other.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,)).fetchone())
        if asks_once_more:
            yield from numbers()
        yield COMMIT

    server.write(work)
    assert ended == [(True,)]
    assert server.write(numbers) == [1]


def test_a_server_that_comes_back_in_time_was_never_away(own_cluster):
    with serving(own_cluster.url) as server:
        server.write(answer("SELECT 1"))
        own_cluster.stop()
        starting = threading.Thread(target=own_cluster.start)
        starting.start()
        try:
            assert server.write(answer("SELECT 2")) == 2
        finally:
            starting.join(30)


def test_a_server_that_stays_away_is_named_with_the_remedy(own_cluster):
    with serving(own_cluster.url, patience=0) as server:
        server.write(answer("SELECT 1"))
        own_cluster.stop()
        try:
            with pytest.raises(
                SaverError, match=rf"127.0.0.1:{own_cluster.port}/postgres: .*refused.* whether it runs"
            ):
                server.write(answer("SELECT 2"))
        finally:
            own_cluster.start()
        assert server.write(answer("SELECT 3")) == 3


def test_what_a_crash_leaves_is_all_or_nothing(own_cluster):
    """The server is killed over and over while a thread writes pairs."""
    with serving(own_cluster.url, patience=20) as server:
        server.write(make)
        stored, unknown = [], []
        over = threading.Event()

        def write() -> None:
            pair = 0
            while not over.is_set():
                pair += 2
                try:
                    server.write(add(pair, pair + 1))
                    stored.append(pair)
                except SaverError:
                    unknown.append(pair)

        writer = threading.Thread(target=write)
        writer.start()
        for _ in range(3):
            own_cluster.stop()
            own_cluster.start()
            before = len(stored)
            while len(stored) == before and writer.is_alive():
                server.write(answer("SELECT 1"))
        over.set()
        writer.join(30)
        found = server.write(numbers)

        assert {pair for pair in found if pair % 2 == 0} == {pair - 1 for pair in found if pair % 2}
        assert set(stored) <= set(found)
        assert set(found[::2]) <= {*stored, *unknown}


def test_prepared_statements_that_a_pooler_has_lost(server):
    """Whoever hands sessions about will do it again, so nothing is prepared from then on."""
    server.write(numbers)

    def forget():
        yield Sql("DEALLOCATE ALL")
        yield COMMIT

    server.write(forget)
    assert server.write(numbers) == []
    assert server.write(answer("SELECT count(*) FROM pg_prepared_statements")) == 0


# --- what the server refuses ------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "statement", "words"),
    [
        ("statement_timeout=50", "SELECT pg_sleep(20)", "statement timeout.*statement_timeout allows"),
        ("default_transaction_read_only=on", "SELECT 1/0", "division by zero.*22012"),
    ],
)
def test_refusals_say_what_to_do(postgres_url, setting, statement, words):
    with serving(f"{postgres_url}{quote(f' -c{setting}')}") as server:
        with pytest.raises(SaverError, match=words):
            server.write(answer(statement))
        assert server.write(answer("SELECT 1")) == 1


def test_a_lock_that_is_held_too_long(server, postgres_url):
    server.write(add(1))
    with psycopg.connect(postgres_url) as other, serving(f"{postgres_url}{quote(' -clock_timeout=50')}") as hasty:
        other.execute("SELECT * FROM numbers FOR UPDATE")
        with pytest.raises(SaverError, match="lock_timeout allows: call again"):
            hasty.write(answer("SELECT n FROM numbers FOR UPDATE"))


def test_a_deadlock_is_begun_anew(server):
    """The server breaks one of two off; it finds the other's work done."""
    server.write(add(1, 2))
    barrier = threading.Barrier(2)
    met = []

    def crossing(first: int, second: int):
        def work():
            yield from answer("SELECT n FROM numbers WHERE n = ? FOR UPDATE", first)()
            if len(met) < 2:
                met.append(first)
                barrier.wait(10)
            yield from answer("SELECT n FROM numbers WHERE n = ? FOR UPDATE", second)()
            return first

        return work

    done = []
    threads = [
        threading.Thread(target=lambda pair=pair: done.append(server.write(crossing(*pair))))
        for pair in [(1, 2), (2, 1)]
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(done) == [1, 2]


def test_passwords_are_in_no_error():
    for url in ("postgresql://u:hush@127.0.0.1:1/db", "host=127.0.0.1 port=1 password=hush user=u dbname=db"):
        with serving(url) as server, pytest.raises(SaverError) as caught:
            server.write(numbers)
        assert "127.0.0.1:1/db" in str(caught.value)
        assert "hush" not in f"{caught.value!r} {caught.value.__cause__!r} {server.where}"
    with pytest.raises(UsageError, match="postgresql://user:password@host") as caught:
        OwnLines("postgres//u:hush@127.0.0.1/db", 1)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


# --- many callers -----------------------------------------------------------------------


def test_more_callers_than_connections(postgres_url):
    with serving(postgres_url, size=2) as server:
        server.write(make)
        threads = [threading.Thread(target=server.write, args=(add(number),)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert server.write(numbers) == list(range(20))
        assert len(idle(server)) <= 2


async def test_coroutines_of_one_loop(server):
    await asyncio.gather(*(server.awrite(add(number)) for number in range(20)))
    assert await server.awrite(numbers) == list(range(20))


def test_coroutines_of_many_loops(server):
    for number in range(5):
        asyncio.run(server.awrite(add(number)))
    assert server.write(numbers) == list(range(5))


async def test_a_plain_call_on_the_loop_does_not_wait_for_a_row_its_own_coroutines_hold(server):
    """The transaction that holds the row needs no loop to get on with."""
    server.write(add(1))
    locked = threading.Event()

    def slow():
        yield from answer("SELECT n FROM numbers WHERE n = 1 FOR UPDATE")()
        locked.set()
        yield from answer("SELECT 'x'::text FROM pg_sleep(0.2)")()

    task = asyncio.ensure_future(server.awrite(slow))
    await becomes_true(locked)
    assert server.write(answer("SELECT n FROM numbers WHERE n = 1 FOR UPDATE")) == 1
    await task


async def test_what_a_cancelled_task_had_begun_is_finished(server):
    begun = threading.Event()

    def slow():
        yield from answer("SELECT 'x'::text FROM pg_sleep(0.1)")()
        begun.set()
        yield from answer("SELECT 'x'::text FROM pg_sleep(0.1)")()
        yield Sql("INSERT INTO numbers (n) VALUES (1)")
        yield COMMIT

    task = asyncio.ensure_future(server.awrite(slow))
    await becomes_true(begun)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert server.write(numbers) == [1]
    assert all(line.usable for line in idle(server))


async def test_what_a_cancelled_task_had_not_begun_never_happens(postgres_url):
    with serving(postgres_url, size=1) as server:
        server.write(make)
        go_on = threading.Event()

        def busy():
            yield from numbers()
            go_on.wait(10)

        first = asyncio.ensure_future(server.awrite(busy))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(server.awrite(add(1)))
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        go_on.set()
        await first
        assert server.write(numbers) == []


async def test_a_cancelled_task_does_not_wait_for_a_server_that_is_away(own_cluster):
    with serving(own_cluster.url, patience=1000) as server:
        await server.awrite(answer("SELECT 1"))
        own_cluster.stop()
        try:
            task = asyncio.ensure_future(server.awrite(answer("SELECT 2")))
            await asyncio.wait([task], timeout=0.2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        finally:
            own_cluster.start()
        assert await server.awrite(answer("SELECT 3")) == 3


def test_a_forked_process_does_not_share_connections(server):
    pid_here = asyncio.run(server.awrite(answer("SELECT pg_backend_pid()")))
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            server.close()
            os.write(write, str(asyncio.run(server.awrite(answer("SELECT pg_backend_pid()")))).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as answers:
        pid_there = int(answers.read())
    os.waitpid(child, 0)
    assert pid_there != pid_here
    assert server.write(answer("SELECT pg_backend_pid()")) == pid_here


def test_eight_processes_set_up_at_once(postgres_url):
    program = (
        "import sys; from loopwright.checkpoint.postgres.lines import OwnLines\n"
        "from loopwright.checkpoint.postgres.server import Server\n"
        "server = Server(OwnLines(sys.argv[1], 1), 0); sys.stdin.readline(); server.setup(); server.close()"
    )
    starters = [
        subprocess.Popen([sys.executable, "-c", program, postgres_url], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(8)
    ]
    for starter in starters:
        assert starter.stdin is not None
        starter.stdin.write(b"go\n")
        starter.stdin.flush()
    errors = [starter.communicate(timeout=60)[1] for starter in starters]

    assert errors == [b""] * 8
    with serving(postgres_url) as server:
        assert server.read(answer("SELECT count(*) FROM loopwright_threads")) == 0


def test_a_closed_server_may_be_used_again(postgres_url):
    with serving(postgres_url) as server:
        server.write(answer("SELECT 1"))
        server.close()
        server.close()
        assert idle(server) == deque()
        assert server.write(answer("SELECT 2")) == 2


async def test_what_runs_while_it_is_closed_is_finished(server):
    begun, go_on = threading.Event(), threading.Event()

    def slow():
        yield Sql("INSERT INTO numbers (n) VALUES (1)")
        begun.set()
        go_on.wait(10)
        yield COMMIT

    task = asyncio.ensure_future(server.awrite(slow))
    await becomes_true(begun)
    server.close()
    go_on.set()
    await task
    assert idle(server) == deque()
    assert await server.aread(numbers) == [1]
