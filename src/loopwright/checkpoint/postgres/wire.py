"""One connection, and a transaction over it in as few round trips as can be.

It speaks libpq's pipeline mode through `psycopg.pq`. Statements that nobody asks rows of are sent without waiting, so a
transaction makes as many round trips as it has questions, and one more for its COMMIT; one that has only read does not
wait for its end.

- Text travels as UTF-8, bytes and rows in PostgreSQL's binary form; the server finds the types of parameters itself.
- Statements are prepared where they are first used, in the same pipeline.
- What ends a transaction early rolls it back. A line on which something is left unread is not `usable` any more.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from typing import Any, Final, NamedTuple, TypeVar

from psycopg import Connection, Error, OperationalError, errors
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus, PipelineStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult

from loopwright.checkpoint.sql import COMMIT, Sql, Work
from loopwright.errors import InternalError, UsageError

__all__ = ["Line", "is_lost"]

T = TypeVar("T")

_PREPARED: Final = 200
"""Statements kept ready on a connection; more of them are parsed each time."""


class Line:
    """A connection, and what it has been told."""

    def __init__(self, connection: Connection[Any], *, prepares: bool = True) -> None:
        self.connection = connection
        """psycopg's, kept so that it lives; only its `pgconn` is used."""
        self.pg: PGconn = connection.pgconn
        encoding = self.pg.parameter_status(b"client_encoding")
        if encoding not in (b"UTF8", b"SQL_ASCII", None):
            raise UsageError(
                f"The connection's client_encoding is {encoding.decode()}; connect with client_encoding='utf8'."
            )
        self.pg.nonblocking = 1
        self.trips = 0
        """Round trips made, for those who count them."""
        self._waiter = DefaultSelector()
        self._waiter.register(self.pg.socket, EVENT_READ)
        self.used = False
        """Whether it has served before: then it may have died since, and that is nobody's fault."""
        self.idle_since = 0.0
        self.committing = False
        """Whether COMMIT was sent and not answered: then nobody knows what the server has kept."""
        self._prepares: Final = prepares
        """Whether the session that statements are prepared in is the one they are executed in."""
        self._prepared: dict[bytes, bytes] = {}
        """Names of statements, by their text."""
        self._names = 0
        self._fresh: list[bytes] = []
        """Those that this transaction has prepared."""
        self._sent = 0
        self._unread = False
        """Whether the end of a transaction that has only read is still to be read."""
        self._error: Error | None = None

    def rest(self) -> bool:
        """Read what is unread of the end of a transaction; returns whether another one may begin."""
        try:
            if self._unread:
                self._unread = False
                self._read_to_sync()
        except Error:
            return False
        return (
            self.pg.status == ConnStatus.OK
            and self.pg.pipeline_status == PipelineStatus.OFF
            and self.pg.transaction_status == TransactionStatus.IDLE
        )

    @property
    def usable(self) -> bool:
        """Whether the last transaction has come to its end."""
        return self.pg.status == ConnStatus.OK if self._unread else self.rest()

    def is_quiet(self) -> bool:
        """Whether the server has said nothing since: the last thing it says is that it hangs up."""
        return self.rest() and not self._waiter.select(0)

    def close(self) -> None:
        self._waiter.close()
        self.pg.finish()

    def transact(self, work: Work[T], opening: bytes) -> T:
        """Run `work` in one transaction, which `opening` begins. Raises psycopg's errors, and what `work` raises."""
        self.rest()
        self._error = None
        self._fresh.clear()
        self.committing = False
        self.pg.enter_pipeline_mode()
        self._command(opening)
        try:
            ask = next(work)
            while ask is not COMMIT:
                ask = work.send(self._answer(ask))
        except StopIteration as done:  # it has only read
            self._command(b"ROLLBACK")
            self.pg.pipeline_sync()
            self._flush()
            self._unread = True
            return done.value
        except Exception:
            work.close()
            self._roll_back()
            raise
        try:
            self._commit()
            work.send([])
        except StopIteration as done:
            return done.value
        finally:
            work.close()
        raise InternalError("a work went on after its COMMIT")

    # --- sending ----------------------------------------------------------------

    def _command(self, text: bytes) -> None:
        self.pg.send_query_params(text, None)
        self._sent += 1

    def _send(self, statement: _Statement, params: Sequence[Any]) -> None:
        values = [None if value is None else _param(value) for value in params]
        formats = [_format_of(value) for value in params]
        name = self._prepared.get(statement.text)
        if name is None and self._prepares and len(self._prepared) < _PREPARED:
            self._names += 1
            name = self._prepared[statement.text] = b"loopwright_%d" % self._names
            self._fresh.append(statement.text)
            self.pg.send_prepare(name, statement.text)
            self._sent += 1
        if name is None:
            self.pg.send_query_params(statement.text, values, None, formats, 1)
        else:
            self.pg.send_query_prepared(name, values, formats, 1)
        self._sent += 1

    def _flush(self) -> None:
        while self.pg.flush():
            if self._wait(EVENT_READ | EVENT_WRITE) & EVENT_READ:
                self.pg.consume_input()

    def _wait(self, events: int) -> int:
        """Stand still until the socket is ready; returns for what."""
        if events != EVENT_READ:
            self._waiter.modify(self.pg.socket, events)
        try:
            [(_, ready)] = self._waiter.select() or [(None, 0)]
        finally:
            if events != EVENT_READ:
                self._waiter.modify(self.pg.socket, EVENT_READ)
        return ready

    # --- reading ----------------------------------------------------------------

    def _answer(self, ask: Sql) -> list[tuple[Any, ...]]:
        """Send a statement; if it has rows, wait for them."""
        statement = _statement(ask.text)
        for params in ask.params if ask.many else (ask.params,):
            self._send(statement, params)
        if not statement.returns:
            return []
        self.trips += 1
        self.pg.send_flush_request()
        self._flush()
        result = self._read()
        self._check()
        return [] if result is None else _rows(result)

    def _read(self) -> PGresult | None:
        """The results of all that was sent; returns the last."""
        last: PGresult | None = None
        while self._sent:
            while (result := self._next()) is not None:
                self._look_at(result)
                last = result
            self._sent -= 1
        return last

    def _next(self) -> PGresult | None:
        while self.pg.is_busy():
            self._wait(EVENT_READ)
            self.pg.consume_input()
        return self.pg.get_result()

    def _look_at(self, result: PGresult) -> None:
        if result.status == ExecStatus.FATAL_ERROR and self._error is None:
            self._error = _error_of(result)

    def _check(self) -> None:
        """Raise the first error that the server has reported."""
        if self._error is not None:
            raise self._error
        if self.pg.status != ConnStatus.OK:
            raise OperationalError(self.pg.get_error_message())

    # --- ending -----------------------------------------------------------------

    def _settle(self) -> None:
        """Wait for everything, and leave pipeline mode."""
        self.trips += 1
        self.pg.pipeline_sync()
        self._flush()
        self._read_to_sync()

    def _read_to_sync(self) -> None:
        self._read()
        while (result := self._next()) is None or result.status != ExecStatus.PIPELINE_SYNC:
            if self.pg.status != ConnStatus.OK:
                return
        self.pg.exit_pipeline_mode()

    def _commit(self) -> None:
        self.committing = True
        self._command(b"COMMIT")
        self._settle()
        if self._error is not None:  # of a statement before it: the server has not come to the COMMIT
            self.committing = is_lost(self._error)
            self._roll_back()
        self._check()
        self.committing = False

    def _roll_back(self) -> None:
        """Of a connection that is lost there is nothing to roll back: the server has done it."""
        try:
            if self.pg.pipeline_status != PipelineStatus.OFF and self._error is not None:
                self._settle()  # what was sent after the statement that failed is skipped, a ROLLBACK, too
            if self.pg.pipeline_status == PipelineStatus.OFF:
                self.pg.enter_pipeline_mode()
            self._command(b"ROLLBACK")
            self._settle()
        except Error:
            self.close()
        for text in self._fresh:  # whether they came to be prepared is not known
            self._prepared.pop(text, None)


def is_lost(error: Error) -> bool:
    """Whether an error means that the connection is gone, or the server about to go."""
    code = error.sqlstate
    if code is None:
        return isinstance(error, OperationalError)
    return code.startswith("08") or code in ("57P01", "57P02", "57P03")


def _error_of(result: PGresult) -> Error:
    code = (result.error_field(DiagnosticField.SQLSTATE) or b"").decode()
    words = result.error_field(DiagnosticField.MESSAGE_PRIMARY) or result.error_message
    try:
        kind = errors.lookup(code)
    except KeyError:
        kind = OperationalError
    return kind(words.decode(errors="replace").strip())


# --- statements -------------------------------------------------------------------


class _Statement(NamedTuple):
    text: bytes
    returns: bool
    """Whether it has rows."""


@lru_cache(maxsize=1000)
def _statement(text: str) -> _Statement:
    """With `?` as PostgreSQL numbers them."""
    first, *rest = text.split("?")
    numbered = first + "".join(f"${number}{part}" for number, part in enumerate(rest, 1))
    verb = text.split(None, 1)[0].upper()
    return _Statement(numbered.encode(), verb in ("SELECT", "WITH") or "RETURNING" in text.upper())


def _format_of(value: Any) -> int:
    return 1 if isinstance(value, (bytes, bytearray, memoryview)) else 0


def _param(value: Any) -> Any:
    if isinstance(value, str):
        try:
            text = value.encode()
        except UnicodeEncodeError:
            raise UsageError(
                f"{value!r} holds half of a surrogate pair, which no text in PostgreSQL can. Write whole characters."
            ) from None
        if b"\0" in text:
            raise UsageError(
                f"{value!r} holds a NUL character, which no text in PostgreSQL can. Leave it out of names and ids."
            )
        return text
    if isinstance(value, bool):
        return b"true" if value else b"false"
    return value if _format_of(value) else str(value).encode()


# --- rows -------------------------------------------------------------------------


def _rows(result: PGresult) -> list[tuple[Any, ...]]:
    readers = [_READERS.get(result.ftype(column), bytes) for column in range(result.nfields)]
    value = result.get_value
    return [
        tuple(None if (raw := value(row, column)) is None else reader(raw) for column, reader in enumerate(readers))
        for row in range(result.ntuples)
    ]


def _integer(raw: bytes) -> int:
    return int.from_bytes(raw, "big", signed=True)


def _numeric(raw: bytes) -> int:
    """What `sum` makes of big integers: digits of base 10,000 behind a header of four numbers."""
    count, weight, sign, _ = struct.unpack_from("!hhHH", raw)
    digits = struct.unpack_from(f"!{count}H", raw, 8)
    total = sum(digit * 10_000 ** (weight - place) for place, digit in enumerate(digits))
    return -total if sign else total


_READERS: Final[dict[int, Callable[[bytes], Any]]] = {
    16: lambda raw: raw == b"\x01",
    20: _integer,
    21: _integer,
    23: _integer,
    25: bytes.decode,
    26: _integer,
    701: lambda raw: struct.unpack("!d", raw)[0],
    1043: bytes.decode,
    1700: _numeric,
    2205: _integer,
}
"""By the number of the type; of any other the bytes are given as they come, as of bytea."""
