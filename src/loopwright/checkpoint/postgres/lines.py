"""Where lines to a server come from: made here when needed, or borrowed from a pool or a connection of the user's.

- At most so many are open at once. The one used last is used first, so that those too many grow old and are closed.
- A line that was interrupted in the middle, or whose server has hung up, is closed and never used again.
- A process that was forked makes lines of its own; it does not touch those of its parent.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Final, Protocol

from psycopg import Connection, ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from loopwright.checkpoint.postgres.wire import Line
from loopwright.errors import SaverError, UsageError

__all__ = ["BorrowedLines", "Lines", "OneLine", "OwnLines", "address"]

_WAIT: Final = 30.0
"""Seconds a plain call waits for another one to be done with its line."""
_IDLE: Final = 240.0
"""Seconds a line is kept unused: networks forget silent connections after some five minutes."""
_DIALLED: Final[Mapping[str, Any]] = {
    "application_name": "loopwright",
    "client_encoding": "UTF8",
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}
"""Unless the address says otherwise. A server that is cut off is noticed within a minute."""


class Lines(Protocol):
    """What a server is spoken to over."""

    where: str
    """Host, port and database, for the words of errors."""
    size: int
    """How many there may be."""
    prepares: bool
    """Whether new ones prepare statements."""

    def take(self) -> Line:
        """Raises psycopg's errors if the server cannot be reached, `SaverError` if all are taken for too long."""
        ...

    def give(self, line: Line) -> None: ...
    def close(self) -> None: ...


class OwnLines:
    """Lines that are made and closed here."""

    def __init__(self, conninfo: str, size: int, options: Mapping[str, Any] | None = None) -> None:
        given = address(conninfo) | dict(options or {})
        self._options: Final[dict[str, Any]] = {**_DIALLED, **given, "autocommit": True}
        for name in ("row_factory", "cursor_factory", "prepare_threshold", "context"):
            self._options.pop(name, None)  # of psycopg's own cursors, which are not used
        self.where = _where(given)
        self.size = size
        self.prepares = True
        self._parents: deque[Line] | None = None
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._closed = False
        self._places = threading.BoundedSemaphore(self.size)
        self.idle: deque[Line] = deque()
        """Those that nobody uses, the one used last at the right."""

    def take(self) -> Line:
        if self._process != os.getpid():
            self._parents = self.idle  # kept: closing them would hang up on the parent, too
            self._begin()
        self._closed = False
        if not self._places.acquire(timeout=_WAIT):
            raise SaverError(
                f"all {self.size} connections have been in use for {_WAIT:.0f} s. Raise pool_size=, or look for what "
                "holds them up on the server."
            )
        try:
            while True:
                with self._lock:
                    line = self.idle.pop() if self.idle else None
                if line is None:
                    return Line(_dial(self._options), prepares=self.prepares)
                if line.is_quiet():
                    return line
                line.close()
        except BaseException:
            self._places.release()
            raise

    def give(self, line: Line) -> None:
        now = time.monotonic()
        line.used, line.idle_since = True, now
        with self._lock:
            keep = line.usable and not self._closed
            if keep:
                self.idle.append(line)
            old = self.idle.popleft() if self.idle and now - self.idle[0].idle_since > _IDLE else None
        self._places.release()
        if not keep:
            line.close()
        if old is not None:
            old.close()

    def close(self) -> None:
        """Those in use are closed when they are given back. Whoever takes one after this opens the house again."""
        if self._process != os.getpid():
            return
        with self._lock:
            self._closed = True
            idle, self.idle = self.idle, deque()
        for line in idle:
            line.close()


class BorrowedLines:
    """Lines from a `psycopg_pool.ConnectionPool`, which stays the user's to close."""

    def __init__(self, pool: Any) -> None:
        self._pool: Final = pool
        self._lines: dict[Connection[Any], Line] = {}
        self._lock: Final = threading.Lock()
        self.where = _where(address(pool.conninfo))
        self.size = pool.max_size
        self.prepares = True

    def take(self) -> Line:
        connection = self._pool.getconn()
        try:
            with self._lock:
                line = self._lines.get(connection)
                if line is None:
                    self._lines = {known: its for known, its in self._lines.items() if not known.closed}
                    line = self._lines[connection] = Line(connection, prepares=self.prepares)
                return line
        except BaseException:
            self._pool.putconn(connection)
            raise

    def give(self, line: Line) -> None:
        line.used = True
        if not line.rest():
            line.close()
        self._pool.putconn(line.connection)

    def close(self) -> None:
        pass


class OneLine:
    """A single `psycopg.Connection` of the user's: one transaction after the other."""

    def __init__(self, connection: Connection[Any]) -> None:
        self._line: Final = Line(connection)
        self._lock: Final = threading.Lock()
        info = connection.info
        self.where = f"{info.host}:{info.port}/{info.dbname}"
        self.size = 1
        self.prepares = True

    def take(self) -> Line:
        self._lock.acquire()
        return self._line

    def give(self, line: Line) -> None:
        if not line.rest():
            line.close()
        self._lock.release()

    def close(self) -> None:
        pass


def address(conninfo: str) -> dict[str, Any]:
    """What a url or `key=value` text says. Raises `UsageError`; neither it nor its cause repeats the text."""
    try:
        return dict(conninfo_to_dict(conninfo))
    except ProgrammingError:
        raise UsageError(
            "The connection string cannot be read. Write postgresql://user:password@host:5432/database, with "
            "characters such as @ : / # in the password percent-encoded."
        ) from None


def _dial(options: dict[str, Any]) -> Connection[Any]:
    return Connection.connect(**options)


def _where(given: Mapping[str, Any]) -> str:
    host = given.get("host") or os.environ.get("PGHOST") or "localhost"
    port = given.get("port") or os.environ.get("PGPORT") or 5432
    user = given.get("user") or os.environ.get("PGUSER") or ""
    return f"{host}:{port}/{given.get('dbname') or os.environ.get('PGDATABASE') or user}"
