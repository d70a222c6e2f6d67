"""What SQLite reports, in words that say what to do."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

from loopwright.errors import LoopwrightError, SaverError, UsageError

__all__ = ["is_busy", "is_passing", "told"]

_PRIMARY: Final = 0xFF
"""Of an extended error code, the bits that say what kind it is."""

_RIGHTS: Final = "Let this process write to the file, to its -wal and -shm files and to its folder, and call again"
_REMEDIES: Final = {
    sqlite3.SQLITE_FULL: "there is no room for it. Free some on the disk, and call again",
    sqlite3.SQLITE_READONLY: f"it is read-only. {_RIGHTS}",
    sqlite3.SQLITE_NOTADB: "it is no SQLite database. Name another file, or move this one away",
    sqlite3.SQLITE_CORRUPT: "it is damaged. Restore it from a backup, or save what is left: sqlite3 FILE .recover",
    sqlite3.SQLITE_IOERR: "it cannot be read or written. Look at the disk, its quota and limits, and call again",
    sqlite3.SQLITE_BUSY: "another program has kept it locked all the time. Let that one finish, and call again",
    sqlite3.SQLITE_LOCKED: "another program has kept it locked all the time. Let that one finish, and call again",
    sqlite3.SQLITE_PERM: f"this process may not use it. {_RIGHTS}",
    sqlite3.SQLITE_AUTH: f"this process may not use it. {_RIGHTS}",
}


def is_busy(error: sqlite3.Error) -> bool:
    """Whether it would go if somebody else were not at it."""
    return _kind(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def is_passing(error: sqlite3.Error) -> bool:
    """Whether the connection it came from is as good as before."""
    return is_busy(error) or _kind(error) == sqlite3.SQLITE_FULL


def told(name: str, path: str, error: Exception) -> LoopwrightError:
    """The same error in our words."""
    if isinstance(error, SaverError):
        return SaverError(f"{name}: {error}")
    if isinstance(error, UnicodeEncodeError):
        return UsageError(f"{name}: the name {error.object!r} holds half a character, which no file can; use another.")
    kind = _kind(error)
    remedy = _REMEDIES.get(kind) if kind is not None else None
    if kind == sqlite3.SQLITE_CANTOPEN:
        folder = Path(path).parent
        remedy = (
            f"it cannot be opened: there is no folder {str(folder)!r}. Make it, and call again"
            if _is_missing(folder)
            else f"it cannot be opened. {_RIGHTS}"
        )
    if remedy is None:
        remedy = "SQLite cannot do what was asked of it"
    return SaverError(f"{name}: {remedy}. Nothing of this call was saved. ({error})")


def _is_missing(folder: Path) -> bool:
    try:
        return not folder.is_dir()
    except OSError:  # it may be there, in one that this process must not look into
        return False


def _kind(error: Exception) -> int | None:
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & _PRIMARY
