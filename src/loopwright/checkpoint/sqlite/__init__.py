"""Threads in one SQLite file: `SqliteSaver`. `AsyncSqliteSaver` is the same class."""

from loopwright.checkpoint.sqlite.saver import AsyncSqliteSaver, SqliteSaver

__all__ = ["AsyncSqliteSaver", "SqliteSaver"]
