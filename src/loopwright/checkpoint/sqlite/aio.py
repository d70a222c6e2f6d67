"""Where LangGraph's users look for `AsyncSqliteSaver`. It is `SqliteSaver`, which has both kinds of methods."""

from __future__ import annotations

from loopwright.checkpoint.sqlite.saver import AsyncSqliteSaver

__all__ = ["AsyncSqliteSaver"]
