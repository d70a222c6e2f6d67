"""`PostgresSaver`: a saver on a PostgreSQL server."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self, cast

import psycopg

from loopwright.checkpoint.database import DatabaseSaver, Done
from loopwright.checkpoint.postgres.lines import BorrowedLines, Lines, OneLine, OwnLines
from loopwright.checkpoint.postgres.server import Server
from loopwright.checkpoint.sql import POSTGRES
from loopwright.errors import UsageError

if TYPE_CHECKING:
    from psycopg_pool import AsyncConnectionPool, ConnectionPool

__all__ = ["AsyncPostgresSaver", "PostgresSaver"]


class PostgresSaver(DatabaseSaver):
    """Keeps threads in a PostgreSQL database, for plain calls and for asyncio, from any number of machines.

    `conn` is a url, `postgresql://user:password@host:5432/database`, or a `key=value` connection string. Connections
    are made when they are needed, at most `pool_size`. A `psycopg_pool.ConnectionPool`, or a single
    `psycopg.Connection`, is used as it is and stays yours to close; of an `AsyncConnectionPool` the address and
    `max_size` are taken.

    `types` are classes that states may hold beside those that the agent declares. `patience` is for how many seconds
    a call waits for a server that was there and has gone away, before it raises.

    The tables (`loopwright_*`, in the first schema of the search path) are made at first use, or by `setup`. Errors of
    the server are `SaverError`s that name it and the remedy.
    """

    def __init__(
        self,
        conn: str | ConnectionPool[Any] | AsyncConnectionPool[Any] | psycopg.Connection[Any],
        *,
        types: Iterable[type] = (),
        pool_size: int = 10,
        patience: float = 5.0,
    ) -> None:
        server = Server(_lines(conn, pool_size), patience)
        self._server = server
        super().__init__(server, POSTGRES, types)
        weakref.finalize(self, server.close)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._server.where})"

    @classmethod
    def from_conn_string(cls, conn_string: str, *, pipeline: bool = True, **options: Any) -> Self:
        """The saver of a url, to be used as a context manager, plain or async.

        `pipeline` is taken because LangGraph's has it; ours always sends in pipelines.
        """
        return cls(conn_string, **options)

    def setup(self) -> Done:
        """Make the tables, or bring them to this version. Does no harm when called twice, or by many at once.

        It is done before anybody waits for it, but it may be awaited, as users of LangGraph's async saver do. A user
        who may not create tables needs it to have been called by one who may.
        """
        self._server.setup()
        return Done()

    async def asetup(self) -> None:
        """The same, without standing in the way of the event loop."""
        await self._server.asetup()

    def close(self) -> None:
        """Close the connections that were made here. The saver may be used again after that."""
        self._server.close()


AsyncPostgresSaver = PostgresSaver


def _lines(conn: Any, size: int) -> Lines:
    if size < 1:
        raise UsageError(f"PostgresSaver(pool_size={size}): at least 1.")
    if isinstance(conn, str):
        return OwnLines(conn, size)
    if isinstance(conn, psycopg.Connection):
        return OneLine(cast("psycopg.Connection[Any]", conn))
    if inspect.iscoroutinefunction(getattr(conn, "getconn", None)):
        return OwnLines(conn.conninfo, conn.max_size, conn.kwargs)
    if hasattr(conn, "getconn"):
        return BorrowedLines(conn)
    if isinstance(conn, psycopg.AsyncConnection):
        raise UsageError(
            "PostgresSaver cannot share an AsyncConnection: it belongs to one event loop. Give it the url, a "
            "psycopg_pool.ConnectionPool or an AsyncConnectionPool; it serves plain and async calls alike."
        )
    raise UsageError(
        f"PostgresSaver takes a url, postgresql://user:password@host:5432/database, not a {type(conn).__name__}."
    )
