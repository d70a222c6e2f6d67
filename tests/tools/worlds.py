"""Runs one call in each of the two worlds."""

import asyncio
from typing import Any

import pytest

from loopwright.drive import aio, blocking
from loopwright.tools import BaseTool, call_tool, tool

both_worlds = pytest.mark.parametrize("world", ["blocking", "aio"])


def call(name: str, args: Any = None, id: str | None = "c1") -> Any:
    """A call as a model makes it."""
    return {"name": name, "args": {} if args is None else args, "id": id, "type": "tool_call"}


def answer(one: Any, args: Any = None, world: str = "blocking", id: str | None = "c1", **options: Any) -> Any:
    """What a call of this tool (or function) gives."""
    made = one if isinstance(one, BaseTool) else tool(one)
    return finish(lambda port: call_tool(made, call(made.name, args, id), port, **options), world)


def finish(coroutine: Any, world: str = "blocking") -> Any:
    """The result of a core coroutine, made for a port."""
    if world == "blocking":
        return blocking.run(coroutine(blocking.BlockingPort()))
    return asyncio.run(aio.run(coroutine(aio.AioPort())))
