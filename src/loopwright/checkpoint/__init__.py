"""Checkpoints: what a saver promises (`base`), what may be stored (`plain`, `codec`), and the savers.

A saver is imported when it is asked for: a program uses one of them, and an agent without one none.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loopwright.checkpoint.base import BaseCheckpointSaver
    from loopwright.checkpoint.memory import InMemorySaver, MemorySaver
    from loopwright.checkpoint.postgres import AsyncPostgresSaver, PostgresSaver
    from loopwright.checkpoint.sqlite import AsyncSqliteSaver, SqliteSaver

__all__ = [
    "AsyncPostgresSaver",
    "AsyncSqliteSaver",
    "BaseCheckpointSaver",
    "InMemorySaver",
    "MemorySaver",
    "PostgresSaver",
    "SqliteSaver",
]

_LAZY = {
    "AsyncPostgresSaver": "postgres",
    "AsyncSqliteSaver": "sqlite",
    "BaseCheckpointSaver": "base",
    "InMemorySaver": "memory",
    "MemorySaver": "memory",
    "PostgresSaver": "postgres",
    "SqliteSaver": "sqlite",
}
"""Name -> the module of this room that has it."""


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    from loopwright.errors import no_such_name

    raise no_such_name(__name__, name)
