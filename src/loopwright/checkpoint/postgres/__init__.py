"""Threads on a PostgreSQL server: `PostgresSaver`. `AsyncPostgresSaver` is the same class."""

from importlib.util import find_spec

if find_spec("psycopg") is None:
    from loopwright.errors import MissingExtraError

    raise MissingExtraError("PostgresSaver needs psycopg, which is not installed: pip install 'loopwright[postgres]'")

from loopwright.checkpoint.postgres.saver import AsyncPostgresSaver, PostgresSaver

__all__ = ["AsyncPostgresSaver", "PostgresSaver"]
