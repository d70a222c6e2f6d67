"""`SqliteSaver`: the deeds of `rows.py` and `keeping.py`, run on a file."""

from __future__ import annotations

import os
import re
import sqlite3
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Literal, Self

from loopwright.checkpoint.database import DatabaseSaver, Done
from loopwright.checkpoint.sql import SQLITE, nothing
from loopwright.checkpoint.sqlite.file import MEMORY, File
from loopwright.errors import SaverError, UsageError

__all__ = ["AsyncSqliteSaver", "SqliteSaver"]

_OLDEST_SQLITE = (3, 35, 0)
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/|file:")
"""How a url begins, also one that went through `Path`. A drive has one letter."""


class SqliteSaver(DatabaseSaver):
    """Keeps threads in one SQLite file, for plain calls and for asyncio.

    `path` is a file, which is made if it is not there, or `":memory:"`; an open `sqlite3.Connection` stands for its
    file. `types` are classes that states may hold beside those that the agent declares. `synchronous="full"` waits
    for the disk at every commit, so that not even a power cut loses one; `"normal"` survives the death of the
    process. `timeout` is how many seconds another program may keep the file locked before a call gives up.

    Of a deleted thread no row is left, and in a file of up to 64 MB none of its bytes either. In a larger one SQLite's
    pages may hold copies of some of them until `vacuum` is called.

    Several savers and processes may use one file at once. Use it as a context manager, plain or async, or `close`
    it; one that is never closed has lost nothing. Raises `SaverError`, naming the file and the remedy.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | sqlite3.Connection,
        *,
        types: Iterable[type] = (),
        synchronous: Literal["normal", "full"] = "normal",
        timeout: float = 60.0,
    ) -> None:
        if synchronous not in ("normal", "full"):
            raise UsageError(f'SqliteSaver(synchronous={synchronous!r}): write "normal" or "full".')
        if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
            raise SaverError(f"SqliteSaver needs SQLite 3.35 or newer; this Python has {sqlite3.sqlite_version}.")
        self._file = File(_path(path), synchronous, timeout)
        super().__init__(self._file, SQLITE, types)
        weakref.finalize(self, self._file.close)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._file.path!r})"

    @classmethod
    def from_conn_string(cls, conn_string: str, **options: Any) -> Self:
        """The saver of a file, to be used as a context manager: `with SqliteSaver.from_conn_string(path) as saver:`."""
        return cls(conn_string, **options)

    def setup(self) -> Done:
        """Make the file and its tables, as making the saver has done already. It may be awaited.

        Here for users of LangGraph's savers, which want it to be called.
        """
        self._file.write(nothing)
        return Done()

    async def asetup(self) -> None:
        """The same, without standing in the way of the event loop."""
        await self._file.awrite(nothing)

    def close(self) -> None:
        """Let go of the file. A saver of a file may be used again after that; one in memory has lost all."""
        self._file.close()
        self._rows.known.forget()  # another process may have put another file there by the time it is used again

    def vacuum(self) -> None:
        """Write the file anew: it shrinks, and no bytes of what was deleted are left. Needs its size again on disk."""
        self._file.vacuum()

    async def avacuum(self) -> None:
        """The same, for asyncio."""
        await self._file.avacuum()


AsyncSqliteSaver = SqliteSaver


def _path(given: str | os.PathLike[str] | sqlite3.Connection) -> str:
    """Where the file is, wherever the process goes. Raises `UsageError`; a url is not shown, it may hold a password."""
    if isinstance(given, sqlite3.Connection):
        path: Any = given.execute("PRAGMA database_list").fetchone()[2] or MEMORY
    else:
        path = os.fspath(given) if isinstance(given, os.PathLike) else given
    if not isinstance(path, str) or not path:
        got = type(path).__name__ if path != "" else "an empty string"
        raise UsageError(f'SqliteSaver takes the path of a file, "threads.db", or ":memory:"; got {got}.')
    if path == MEMORY:
        return path
    if url := _URL.match(path):
        if path.startswith("postgres"):
            hint = "For a PostgreSQL server: from loopwright.checkpoint.postgres import PostgresSaver."
        else:
            hint = 'Write SqliteSaver("threads.db"), or SqliteSaver(":memory:").'
        raise UsageError(f"SqliteSaver takes the path of a file, not a url ({url[0]}…). {hint}")
    if os.path.isdir(path):  # noqa: PTH112 - False too where it may not be looked at, which `Path.is_dir` raises for
        raise UsageError(f'SqliteSaver({path!r}): that is a folder. Name a file in it: "{Path(path, "threads.db")}".')
    return str(Path(path).absolute())
