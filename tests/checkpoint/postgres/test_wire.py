from __future__ import annotations

import psycopg
import pytest

from loopwright.checkpoint.postgres.server import READING, WRITING
from loopwright.checkpoint.postgres.wire import Line
from loopwright.checkpoint.sql import COMMIT, Sql
from loopwright.errors import UsageError
from tests.checkpoint.postgres.works import add, answer, make, numbers


@pytest.fixture
def line(postgres_url):
    line = Line(psycopg.connect(postgres_url, autocommit=True))
    line.transact(make(), WRITING)
    yield line
    line.close()


def trips(line, work, opening=WRITING) -> int:
    before = line.trips
    line.transact(work, opening)
    return line.trips - before


def test_values_come_back_as_they_were(line):
    def work():
        return (
            yield Sql(
                "SELECT ?::bigint, ?::text, ?::bytea, ?::bytea, ?::boolean, ?::double precision, NULL, sum(x) "
                "FROM generate_series(1::bigint, ?) x",
                (-(2**40), "Zoë 你好", b"\0\xff", b"", True, 0.1, 300_000),
            )
        )

    assert line.transact(work(), READING) == [(-(2**40), "Zoë 你好", b"\0\xff", b"", True, 0.1, None, 45_000_150_000)]


@pytest.mark.parametrize("number", [0, 7, -7, 9_999, 10_000, -(10**12), 123_456_789_012_345_678_901])
def test_sums_of_big_integers(line, number):
    assert line.transact(answer("SELECT ?::numeric", str(number))(), READING) == number


def test_a_transaction_makes_a_trip_for_each_question_and_one_to_commit(line):
    def work():
        yield from numbers()
        yield from add(*range(100))()

    assert trips(line, add(1000)()) == 1
    assert trips(line, work()) == 2
    assert trips(line, numbers(), READING) == 1  # nobody waits for the end of what has only read


def test_what_is_larger_than_any_buffer_goes_both_ways(line):
    """Both sides could wait for each other, if one only sent, or only read."""
    blobs = [bytes([number]) * 1_000_000 for number in range(20)]

    def work():
        yield Sql("SELECT 1")
        yield Sql("INSERT INTO numbers VALUES (?, ?)", list(enumerate(blobs)), many=True)
        rows = yield Sql("SELECT blob FROM numbers ORDER BY n")
        yield COMMIT
        return [row[0] for row in rows]

    assert line.transact(work(), WRITING) == blobs


def test_a_work_that_raises_leaves_nothing(line):
    def work():
        yield from numbers()
        yield Sql("INSERT INTO numbers (n) VALUES (1)")
        raise KeyError("mine")

    with pytest.raises(KeyError):
        line.transact(work(), WRITING)
    assert line.usable
    assert line.transact(numbers(), READING) == []


@pytest.mark.parametrize("bad", ["INSERT INTO numbers (n) VALUES (1)", "INSERT INTO nowhere VALUES (1)", "SELECT 1/0"])
@pytest.mark.parametrize("question", [True, False])
def test_a_statement_that_fails_leaves_nothing(line, bad, question):
    """Wherever the server finds it: at the next question, or at the COMMIT."""

    def work():
        yield Sql("INSERT INTO numbers (n) VALUES (1)")
        yield Sql(bad)
        yield Sql("INSERT INTO numbers (n) VALUES (?)", (2,))
        if question:
            yield from numbers()
        yield COMMIT

    with pytest.raises(psycopg.Error):
        line.transact(work(), WRITING)
    assert line.usable
    assert line.transact(numbers(), READING) == []
    line.transact(add(2)(), WRITING)
    assert line.transact(numbers(), READING) == [2]


def test_what_is_committed_is_there_when_the_work_goes_on(line, postgres_url):
    seen = []

    def work():
        yield Sql("INSERT INTO numbers (n) VALUES (1)")
        yield COMMIT
        with psycopg.connect(postgres_url) as other:
            seen.extend(other.execute("SELECT n FROM numbers").fetchall())
        return "done"

    assert line.transact(work(), WRITING) == "done"
    assert seen == [(1,)]


@pytest.mark.parametrize(("text", "words"), [("a\0b", "NUL"), ("\ud800", "surrogate")])
def test_names_that_no_text_can_hold_are_refused(line, text, words):
    """libpq would cut a text at its NUL without a word."""
    with pytest.raises(UsageError, match=words):
        line.transact(answer("SELECT ?::text", text)(), WRITING)
    assert line.usable


def test_many_different_statements(line):
    """More than are kept ready."""
    for number in range(300):
        assert line.transact(answer(f"SELECT {number}")(), READING) == number
    assert line.transact(answer("SELECT count(*) FROM pg_prepared_statements")(), READING) == 200
