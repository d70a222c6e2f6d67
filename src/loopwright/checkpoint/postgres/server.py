"""A server that runs works, each in one transaction, for plain callers and for those with an event loop.

- A work may begin anew: on another connection if this one has died unused, after a deadlock, and for some seconds of
  `patience` if the server is away. Also if a connection breaks between a COMMIT and its answer: the new work waits
  until the server has made up its mind about the old one, and sees whether its deed is done. Only if the server does
  not come back in time nobody knows, and the error says so.
- Under asyncio a transaction runs on a thread. It needs nobody's loop to get on, so a plain call on a loop's own
  thread never waits for a row that a coroutine of the same loop has locked; and a task that is cancelled leaves a
  transaction that is done, or one that never began.
- Errors name server and remedy, and never a password.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

from psycopg import Error

from loopwright.checkpoint.postgres.lines import Lines
from loopwright.checkpoint.postgres.wire import Line, is_lost
from loopwright.checkpoint.sql import POSTGRES, SCHEMA_VERSION, Deed, Sql, Work, prepare
from loopwright.errors import SaverError

__all__ = ["READING", "WRITING", "Server"]

T = TypeVar("T")

WRITING: Final = b"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
"""After it has waited for a row, a statement sees what the one before it has written."""
READING: Final = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
"""One snapshot for all statements."""

_TRIES: Final = 5
"""How often a transaction is begun that the server has broken off."""
_SETUP_LOCK: Final = 0x6C6F6F7077726967
"""Who holds it makes the tables."""
_BROKEN_OFF: Final = ("40001", "40P01")
_UNPREPARED: Final = ("26000", "42P05")
"""A prepared statement is not there, or there already: somebody between us and the server hands sessions about."""
_REMEDIES: Final = {
    "25006": "It takes no writes: connect to the primary, or as a user whose transactions may write.",
    "42501": "GRANT this user the rights: USAGE and CREATE on the schema for setup(), then SELECT, INSERT, UPDATE, "
    "DELETE on the tables loopwright_*.",
    "42P01": "Call setup().",
    "42703": "Call setup().",
    "53100": "Its disk is full: make room and call again.",
    "53300": "Lower pool_size=, or raise max_connections there.",
    "57014": "It took longer than statement_timeout allows, or was cancelled there: call again, or raise it.",
    "55P03": "Another session holds the row longer than lock_timeout allows: call again.",
}
"""By the beginning of the server's code."""


class Server:
    """Runs works. May be used from any thread and any loop, and again after `close`."""

    def __init__(self, lines: Lines, patience: float) -> None:
        self.lines: Final = lines
        self.where: Final = lines.where
        self._patience: Final = patience
        self._ready = False
        self._reached = False
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None

    # --- for plain callers --------------------------------------------------------

    def read(self, deed: Deed[T]) -> T:
        return self._run(deed, READING)

    def write(self, deed: Deed[T], *, erases: bool = False) -> T:
        """The server's own vacuum does away with removed rows."""
        return self._run(deed, WRITING)

    def setup(self, given_up: threading.Event | None = None) -> None:
        """Make the tables, or bring them to this version. Many may do so at once."""
        if not self._transact(_is_set_up, READING, given_up):
            self._transact(_set_up, WRITING, given_up)
        self._ready = True

    def _run(self, deed: Deed[T], opening: bytes, given_up: threading.Event | None = None) -> T:
        if not self._ready:
            self.setup(given_up)
        return self._transact(deed, opening, given_up)

    def _transact(self, deed: Deed[T], opening: bytes, given_up: threading.Event | None) -> T:
        trouble: float | None = None
        unsure = False
        for tries in range(1, 1000):
            line: Line | None = None
            try:
                line = self.lines.take()
                self._reached = True
                return line.transact(deed(), opening)
            except SaverError as error:  # from below, where nobody knows the server's name
                raise SaverError(f"PostgreSQL at {self.where}: {error}") from None
            except Error as error:
                now = time.monotonic()
                trouble = trouble or now
                unsure = unsure or (line is not None and line.committing)
                pause = self._bear(error, line, tries, now - trouble, unsure)
            finally:
                if line is not None:
                    self.lines.give(line)
            if given_up is None:
                time.sleep(pause)
            elif given_up.wait(pause):
                break
        raise SaverError(f"PostgreSQL at {self.where} does not answer.")

    def _bear(self, error: Error, line: Line | None, tries: int, seconds: float, unsure: bool) -> float:
        """How long to wait before the next try. Raises `SaverError` if there is no sense in one.

        `unsure`: the answer to a COMMIT was lost.
        """
        code = error.sqlstate or ""
        if line is None or is_lost(error):
            if line is not None and line.used and tries <= self.lines.size:
                return 0.0
            if self._reached and seconds < self._patience:
                return min(0.05 * 2 ** min(tries, 5), 1.0)
        elif code in _BROKEN_OFF and tries < _TRIES:
            return 0.01 * tries
        elif code in _UNPREPARED and tries <= self.lines.size:
            self.lines.prepares = False
            line.close()
            return 0.0
        told = f"PostgreSQL at {self.where}: {_words(error)}. {_remedy(code)}"
        if unsure:
            told += (
                " The connection was lost while it stored, so whether it has is not known; the thread is whole in "
                "either case. Load it, and go on from there."
            )
        raise SaverError(told) from error

    # --- for coroutines -----------------------------------------------------------

    async def aread(self, deed: Deed[T]) -> T:
        return await self._elsewhere(partial(self._run, deed, READING))

    async def awrite(self, deed: Deed[T], *, erases: bool = False) -> T:
        return await self._elsewhere(partial(self._run, deed, WRITING))

    async def asetup(self) -> None:
        await self._elsewhere(self.setup)

    async def _elsewhere(self, call: Callable[..., T]) -> T:
        """Run it on a thread. Who is cancelled meanwhile waits until it has ended, or knows that it never begins."""
        given_up = threading.Event()
        job = self._executor().submit(call, given_up=given_up)
        waiter = asyncio.wrap_future(job)
        try:
            return await asyncio.shield(waiter)
        except asyncio.CancelledError:
            given_up.set()
            if not job.cancel():
                waiter.add_done_callback(_looked_at)
                await asyncio.wait([waiter])
            raise

    def _executor(self) -> ThreadPoolExecutor:
        if self._process != os.getpid():
            self._begin()  # in a forked process there are no threads
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self.lines.size, "loopwright-postgres")
            return self._threads

    def close(self) -> None:
        """Does nothing in a process that was forked and has not used it."""
        if self._process == os.getpid():
            with self._lock:
                threads, self._threads = self._threads, None
            if threads is not None:
                threads.shutdown(wait=False)
        self.lines.close()


def _looked_at(future: asyncio.Future[Any]) -> None:
    """asyncio complains of errors that nobody has looked at."""
    if not future.cancelled():
        future.exception()


# --- tables -------------------------------------------------------------------------


def _is_set_up() -> Work[bool]:
    """Asked first, so that a user who may only read can."""
    found = yield Sql("SELECT to_regclass('loopwright_meta')")
    if found[0][0] is None:
        return False
    found = yield Sql("SELECT value FROM loopwright_meta WHERE name = 'schema'")
    return found == [(SCHEMA_VERSION,)]


def _set_up() -> Work[None]:
    yield Sql("SELECT pg_advisory_xact_lock(?)", (_SETUP_LOCK,))
    yield from prepare(POSTGRES)


# --- words --------------------------------------------------------------------------


def _words(error: Error) -> str:
    """The server's, or libpq's; what follows their first line are details."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def _remedy(code: str) -> str:
    for beginning, remedy in _REMEDIES.items():
        if code.startswith(beginning):
            return remedy
    if not code or code.startswith(("08", "57P")):
        return "Look at address, user and password, and whether it runs; this saver goes on as soon as it answers."
    return f"Its code for this is {code}."
