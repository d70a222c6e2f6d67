"""What SQLite reports, in words that say what to do."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

from loopwright.errors import SaverError

__all__ = ["is_busy", "told"]

_PRIMARY: Final = 0xFF
"""Of an extended error code, the bits that say what kind it is."""

_REMEDIES: Final = {
    sqlite3.SQLITE_FULL: "there is no room for it. Free some on the disk, and call again",
    sqlite3.SQLITE_READONLY: "it is read-only. Let this process write to the file and to its folder, and call again",
    sqlite3.SQLITE_NOTADB: "it is no SQLite database. Name another file, or move this one away",
    sqlite3.SQLITE_CORRUPT: "it is damaged. Restore it from a backup, or save what is left: sqlite3 FILE .recover",
    sqlite3.SQLITE_IOERR: "it cannot be read or written. Look at the disk, its quota and limits, and call again",
    sqlite3.SQLITE_BUSY: "another program has kept it locked all the time. Let that one finish, and call again",
    sqlite3.SQLITE_LOCKED: "another program has kept it locked all the time. Let that one finish, and call again",
    sqlite3.SQLITE_PERM: "this process may not use it. Let it write to the file and to its folder, and call again",
    sqlite3.SQLITE_AUTH: "this process may not use it. Let it write to the file and to its folder, and call again",
}


def is_busy(error: sqlite3.Error) -> bool:
    """Whether it would go if somebody else were not at it."""
    return _kind(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def told(name: str, path: str, error: Exception) -> SaverError:
    """The same error in our words."""
    if isinstance(error, SaverError):
        return SaverError(f"{name}: {error}")
    kind = _kind(error)
    remedy = _REMEDIES.get(kind) if kind is not None else None
    if kind == sqlite3.SQLITE_CANTOPEN:
        folder = Path(path).parent
        remedy = (
            f"it cannot be opened: there is no folder {str(folder)!r}. Make it, and call again"
            if not folder.is_dir()
            else "it cannot be opened. Let this process write to the file and to its folder, and call again"
        )
    if remedy is None:
        remedy = "SQLite cannot do what was asked of it"
    return SaverError(f"{name}: {remedy}. Nothing of this call was saved. ({error})")


def _kind(error: Exception) -> int | None:
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & _PRIMARY
