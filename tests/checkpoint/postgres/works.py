"""Works on a table of numbers, to test transactions with."""

from __future__ import annotations

from loopwright.checkpoint.sql import COMMIT, Sql


def make():
    yield Sql("CREATE TABLE numbers (n bigint UNIQUE, blob bytea)")
    yield COMMIT


def add(*numbers: int):
    def work():
        yield Sql("INSERT INTO numbers (n) VALUES (?)", [(number,) for number in numbers], many=True)
        yield COMMIT

    return work


def numbers():
    rows = yield Sql("SELECT n FROM numbers ORDER BY n")
    return [row[0] for row in rows]


def answer(text: str, *params):
    """The one value that a statement gives."""

    def work():
        rows = yield Sql(text, params)
        return rows[0][0]

    return work
