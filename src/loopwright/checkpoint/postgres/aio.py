"""Where LangGraph's users look for `AsyncPostgresSaver`. It is `PostgresSaver`, which has both kinds of methods."""

from __future__ import annotations

from loopwright.checkpoint.postgres.saver import AsyncPostgresSaver

__all__ = ["AsyncPostgresSaver"]
