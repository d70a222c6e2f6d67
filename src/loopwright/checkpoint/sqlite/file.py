"""One SQLite file: connections to it, and works run on them, each in a transaction. Knows nothing of what they do.

- Writing: one thread of this process, one transaction for all that waits, a savepoint for each. Nothing is reported
  done before it is committed. It takes the write lock of the file at the beginning (`BEGIN IMMEDIATE`), so later it
  waits for nobody; while another process has the lock it asks again every few milliseconds.
- Reading: on connections of their own, each work in one snapshot, waiting for no writer. From a plain call on the
  caller's thread; from asyncio on a helper thread.
- A forked child never touches a connection of its parent's, not even to close it: it opens its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, Generic, TypeVar, cast

from loopwright.checkpoint.sql import COMMIT, SCHEMA_VERSION, SQLITE, Deed, Work, nothing, prepare
from loopwright.checkpoint.sqlite.errors import is_busy, is_passing, told
from loopwright.errors import SaverError

__all__ = ["MEMORY", "File"]

T = TypeVar("T")

MEMORY: Final = ":memory:"

_BATCH: Final = 64
"""Works in one transaction, at most."""
_IDLE: Final = 4
"""Reading connections that are kept."""
_PAUSE: Final = 0.004
"""Seconds between two tries for a lock, at most."""
_SHUTDOWN: Final = 5.0
"""Seconds that closing waits for works that are under way."""

_SCRUB: Final = 1
"""Of a work: it removes what shall not be found in the file any more."""
_VACUUM: Final = 2
"""The same, however large the file is."""
_SMALL: Final = 64 << 20
"""Bytes of a file that is written anew whenever a thread is deleted: that takes well under a second."""
_TRIES: Final = 250
"""How often the log is found in use before it is left for later."""

_left_behind: Final[list[Any]] = []
"""What a forked child has of its parent's: to close it would hurt the parent."""


class _Job(Generic[T]):
    """A work that waits for its turn, and whoever waits for the work."""

    def __init__(self, deed: Deed[T], scrub: int = 0) -> None:
        self.deed: Final = deed
        self.scrub: Final = scrub
        self.work: Work[T] | None = None
        """What is left of it when all is written."""
        self._value: T | None = None
        self._error: BaseException | None = None
        self._done: Callable[[], object] | None = None

    def settle(self, value: T | None, error: BaseException | None = None) -> None:
        self._value, self._error = value, error
        done, self._done = self._done, None
        if done is not None:
            done()

    def wait(self, start: Callable[[_Job[T]], object]) -> T:
        """Begin, and wait on this thread."""
        lock = threading.Lock()
        lock.acquire()
        self._done = lock.release
        start(self)
        lock.acquire()  # a second time: until it is done
        return self._result()

    async def awaited(self, start: Callable[[_Job[T]], object]) -> T:
        """Begin, and wait in this task. Cancelling it stops the waiting, not the work."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not future.done():
                future.set_result(None)

        def done() -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
                loop.call_soon_threadsafe(wake)

        self._done = done
        start(self)
        await future
        return self._result()

    def _result(self) -> T:
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # a traceback that holds its own error would keep everything alive
        return cast(T, self._value)


class _Helper:
    """A thread that takes jobs as they come, many at a time. It does not keep a process from ending."""

    def __init__(self, name: str, run: Callable[[list[_Job[Any]]], None], finish: Callable[[], None]) -> None:
        self._run: Final = run
        self._finish: Final = finish
        self._jobs: Final[SimpleQueue[_Job[Any] | None]] = SimpleQueue()
        self._gate: Final = threading.Lock()
        self._ends = False
        self.thread: Final = threading.Thread(target=self._loop, name=name, daemon=True)
        self.thread.start()

    def start(self, job: _Job[Any]) -> bool:
        """Take a job; False if this thread is about to end."""
        with self._gate:
            if not self._ends:
                self._jobs.put(job)
            return not self._ends

    def stop(self) -> None:
        """End after what waits already."""
        with self._gate:
            self._ends = True
            self._jobs.put(None)
        if threading.current_thread() is not self.thread:  # it may be the one that collects the saver
            self.thread.join(_SHUTDOWN)

    def _loop(self) -> None:
        going = True
        while going:
            jobs: list[_Job[Any]] = []
            job = self._jobs.get()
            while job is not None:
                jobs.append(job)
                if len(jobs) == _BATCH:
                    break
                try:
                    job = self._jobs.get_nowait()
                except Empty:
                    break
            else:
                going = False
            if jobs:
                self._run(jobs)
            del jobs, job
        self._finish()


class File:
    """A SQLite file that works are run on. Opened at once, and again when it is used after `close` or a fork."""

    def __init__(self, path: str, synchronous: str, timeout: float) -> None:
        self.path: Final = path
        self._synchronous: Final = synchronous
        self._timeout: Final = timeout
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._writing: sqlite3.Connection | None = None
        self._idle: deque[sqlite3.Connection] = deque()
        self._writer: _Helper | None = None
        self._reader: _Helper | None = None
        self._unscrubbed = False
        self._was_closed = False
        connection = self._open()
        if path == MEMORY:
            self._writing = connection
        else:  # many who open a file only read it: a connection costs as much as reading a hundred messages
            self._idle.append(connection)
        self._identity = _identity(path)

    # --- running works ----------------------------------------------------------

    def write(self, deed: Deed[T], *, erases: bool = False) -> T:
        """Run a work that writes; returns when what it wrote is on disk."""
        return _Job(deed, _SCRUB if erases else 0).wait(self._start_writing)

    async def awrite(self, deed: Deed[T], *, erases: bool = False) -> T:
        """The same, for asyncio."""
        return await _Job(deed, _SCRUB if erases else 0).awaited(self._start_writing)

    def vacuum(self) -> None:
        """Write the file anew."""
        _Job(nothing, _VACUUM).wait(self._start_writing)

    async def avacuum(self) -> None:
        """The same, for asyncio."""
        await _Job(nothing, _VACUUM).awaited(self._start_writing)

    def read(self, deed: Deed[T]) -> T:
        """Run a work that reads, in one snapshot."""
        if self.path == MEMORY:
            return self.write(deed)
        self._check_process()
        return self._read(deed)

    async def aread(self, deed: Deed[T]) -> T:
        """The same, for asyncio."""
        return await _Job(deed).awaited(self._start_writing if self.path == MEMORY else self._start_reading)

    def _start_writing(self, job: _Job[Any]) -> None:
        helper = self._helper(writes=True)
        if threading.current_thread() is helper.thread:
            raise SaverError(f"{self._name} was asked to write by what it was just writing.")
        while not helper.start(job):
            helper = self._helper(writes=True)

    def _start_reading(self, job: _Job[Any]) -> None:
        while not self._helper(writes=False).start(job):
            pass

    def close(self) -> None:
        """Finish what waits, and let go of connections and threads. Does nothing in a forked child."""
        if self._process != os.getpid():
            return
        with self._lock:  # whoever uses it meanwhile opens it again after that
            writer, reader = self._writer, self._reader
            self._writer = self._reader = None
            self._was_closed = True
            for helper in (reader, writer):
                if helper is not None:
                    helper.stop()
            if writer is None:
                self._close_writing()
            while self._idle:
                self._idle.popleft().close()
            self._identity = None  # what lies there when it is used again is the file

    # --- opening ----------------------------------------------------------------

    @property
    def _name(self) -> str:
        return f"SqliteSaver({self.path!r})"

    def _check_process(self) -> None:
        """Leave behind what belongs to the process that this one was forked from."""
        if self._process == os.getpid():
            return
        if self.path == MEMORY:
            raise SaverError(f"{self._name} belongs to the process that made it; in a forked one make another.")
        _left_behind.append((self._writing, self._idle, self._writer, self._reader, self._lock))
        self._lock = threading.Lock()
        self._writing = self._writer = self._reader = None
        self._idle = deque()
        self._process = os.getpid()

    def _check_file(self) -> None:
        """Raise if the file is not the one that was opened: what is written to that one reaches nobody any more."""
        if self.path == MEMORY:
            return
        if self._identity is None:
            self._open().close()
            self._identity = _identity(self.path)
        elif _identity(self.path) != self._identity:
            raise SaverError(
                f"{self._name}: the file was deleted, moved or replaced while it was in use. Put it back and call "
                "again, or make a new saver for what is there now. Nothing of this call was saved."
            )

    def _helper(self, *, writes: bool) -> _Helper:
        """The thread that writes, or the one that reads for asyncio."""
        helper = self._writer if writes else self._reader
        if helper is not None and self._process == os.getpid():
            return helper
        self._check_process()
        with self._lock:
            if self._was_closed and self.path == MEMORY:
                raise SaverError(f"{self._name} is closed, and what it held is gone. Use it inside its `with` block.")
            self._was_closed = False
            if writes:
                if self._writer is None:
                    self._writer = _Helper("loopwright-sqlite-writer", self._run, self._close_writing)
                return self._writer
            if self._reader is None:
                self._reader = _Helper("loopwright-sqlite-reader", self._run_reading, lambda: None)
            return self._reader

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(
            self.path, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=256
        )

    def _open(self) -> sqlite3.Connection:
        """A connection to write with; the tables are there. Raises `SaverError`."""
        connection = None
        try:
            connection = self._connect()
            self._patiently(connection, "PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            connection.execute("PRAGMA secure_delete = ON")
            if not _is_current(connection):
                self._begin(connection)
                _run_work(connection, partial(prepare, SQLITE))
                connection.execute("COMMIT")
        except (sqlite3.Error, SaverError) as error:
            if connection is not None:
                connection.close()
            raise told(self._name, self.path, error) from error
        return connection

    def _patiently(self, connection: sqlite3.Connection, statement: str) -> None:
        """Execute what may have to wait for another process."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                connection.execute(statement)
            except sqlite3.OperationalError as error:
                if not is_busy(error) or time.monotonic() > deadline:
                    raise
                time.sleep(random.uniform(_PAUSE / 8, _PAUSE))
            else:
                return

    def _begin(self, connection: sqlite3.Connection) -> None:
        self._patiently(connection, "BEGIN IMMEDIATE")

    def _close_writing(self) -> None:
        connection, self._writing = self._writing, None
        if connection is not None:
            if self._unscrubbed:
                self._scrub(connection, 0)
            connection.close()

    # --- writing, on its thread -------------------------------------------------

    def _run(self, jobs: list[_Job[Any]]) -> None:
        """Run works in one transaction; where that fails as a whole, each in one of its own."""
        if not self._run_together(jobs):
            for job in jobs:
                self._run_together([job])

    def _run_together(self, jobs: list[_Job[Any]]) -> bool:
        """Whether all of them are settled."""
        failed: list[tuple[_Job[Any], BaseException]] = []
        done: list[tuple[_Job[Any], Any]] = []
        connection = self._writing
        try:
            self._check_file()
            if connection is None:
                connection = self._writing = self._open()
            self._begin(connection)
            for job in jobs:
                try:
                    done.append((job, _run_inside(connection, job, is_alone=len(jobs) == 1)))
                except sqlite3.Error:
                    raise
                except BaseException as error:  # noqa: BLE001 - whatever it is, it is that job's alone
                    failed.append((job, error))
            if connection.in_transaction:
                connection.execute("COMMIT")
        except BaseException as error:  # noqa: BLE001 - the thread must live, and each job must hear
            self._roll_back(connection, error)
            if len(jobs) > 1:
                return False
            jobs[0].settle(None, self._translated(error))
            return True
        scrub = max((job.scrub for job, _ in done), default=0)
        trouble = self._scrub(connection, scrub) if scrub or self._unscrubbed else None
        for job, error in failed:
            job.settle(None, self._translated(error))
        for job, value in done:
            if job.scrub == _VACUUM and trouble is not None:
                job.settle(None, self._translated(trouble))
            else:
                _finish(job, value)
        return True

    def _roll_back(self, connection: sqlite3.Connection | None, error: BaseException) -> None:
        """After an error. A connection that may not be good any more is given up; the next work opens another."""
        if connection is None:
            return
        with contextlib.suppress(sqlite3.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if self.path == MEMORY or not isinstance(error, sqlite3.Error) or is_passing(error):
                return
        self._writing = None
        with contextlib.suppress(sqlite3.Error):
            connection.close()

    def _scrub(self, connection: sqlite3.Connection, scrub: int) -> Exception | None:
        """Leave no bytes of what was deleted; returns what went wrong.

        SQLite writes zeros over deleted rows, but its pages may hold copies from when rows moved: only to write the
        file anew is sure. In a large file that is left to `vacuum`. What was deleted also stands in the log, until that
        is emptied; while another process reads from it, that is left for the next write.
        """
        if self.path == MEMORY:
            return None
        try:
            if scrub == _VACUUM or (scrub and Path(self.path).stat().st_size <= _SMALL):
                self._patiently(connection, "VACUUM")
            self._unscrubbed = True
            for _ in range(_TRIES if scrub else 1):
                busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                if not busy:
                    self._unscrubbed = False
                    break
                time.sleep(_PAUSE)
        except (sqlite3.Error, OSError) as error:
            return error
        return None

    def _translated(self, error: BaseException) -> BaseException:
        """Our error for one of SQLite's; others as they are."""
        if not isinstance(error, (sqlite3.Error, UnicodeEncodeError)):
            return error
        translated = told(self._name, self.path, error)
        translated.__cause__ = error
        return translated

    # --- reading ----------------------------------------------------------------

    def _run_reading(self, jobs: list[_Job[Any]]) -> None:
        for job in jobs:
            try:
                value = self._read(job.deed)
            except BaseException as error:  # noqa: BLE001 - the thread must live, and the job must hear
                job.settle(None, error)
            else:
                job.settle(value)

    def _read(self, deed: Deed[T]) -> T:
        """Run a work on a reading connection, on this thread."""
        connection = None
        try:
            self._check_file()
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = self._connect()
            self._patiently(connection, "BEGIN")
            self._patiently(connection, "SELECT 1 FROM loopwright_meta")  # here the snapshot is taken
            value = _run_work(connection, deed)
            connection.execute("COMMIT")
        except BaseException as error:  # noqa: BLE001 - raised again, in our words
            if connection is not None:
                connection.close()
            raise self._translated(error) from error.__cause__
        if len(self._idle) < _IDLE:
            self._idle.append(connection)
        else:
            connection.close()
        return value


def _identity(path: str) -> tuple[int, int] | None:
    """Which file a path leads to; None if there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - before each work, so no Path is made
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _is_current(connection: sqlite3.Connection) -> bool:
    """Whether the tables are of this version; then nothing need be written, and nobody waited for."""
    try:
        rows = connection.execute("SELECT value FROM loopwright_meta WHERE name = 'schema'").fetchall()
    except sqlite3.OperationalError:
        return False
    return rows == [(SCHEMA_VERSION,)]


def _run_work(connection: sqlite3.Connection, deed: Deed[T]) -> T:
    """Run a work to its end."""
    work = deed()
    rows: list[Any] | None = None
    try:
        while True:
            statement = work.send(cast(Any, rows))
            rows = [] if statement is COMMIT else _execute(connection, statement)
    except StopIteration as end:
        return end.value


def _execute(connection: sqlite3.Connection, statement: Any) -> list[Any]:
    text, params, many = statement
    if many:
        connection.executemany(text, params)
        return []
    return connection.execute(text, params).fetchall()


def _run_inside(connection: sqlite3.Connection, job: _Job[T], *, is_alone: bool) -> T | None:
    """Run a work until it says that all is written, or to its end. An error undoes what it did."""
    work = job.deed()
    rows: list[Any] | None = None
    job.work = None
    if not is_alone:
        connection.execute("SAVEPOINT job")
    try:
        while True:
            statement = work.send(cast(Any, rows))
            if statement is COMMIT:
                job.work = work
                value = None
                break
            rows = _execute(connection, statement)
    except StopIteration as end:
        value = end.value
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK" if is_alone else "ROLLBACK TO job")
        raise
    if not is_alone:
        connection.execute("RELEASE job")
    return value


def _finish(job: _Job[Any], value: Any) -> None:
    """What a work does once all is on disk."""
    work, job.work = job.work, None
    error: BaseException | None = None
    if work is not None:
        try:
            next(work)
        except StopIteration as end:
            value = end.value
        except BaseException as raised:  # noqa: BLE001 - the thread must live, and the job must hear
            error = raised
    job.settle(value, error)
