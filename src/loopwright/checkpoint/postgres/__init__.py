"""Threads on a PostgreSQL server: `PostgresSaver`. `AsyncPostgresSaver` is the same class."""

from loopwright.errors import MissingExtraError

try:
    from loopwright.checkpoint.postgres.saver import AsyncPostgresSaver, PostgresSaver
except ModuleNotFoundError as error:
    if error.name != "psycopg":
        raise
    raise MissingExtraError(
        "PostgresSaver needs psycopg, which is not installed: pip install 'loopwright[postgres]'"
    ) from error

__all__ = ["AsyncPostgresSaver", "PostgresSaver"]
