"""One call of an agent, in each of the two worlds, with the same result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal

import pytest

from loopwright.messages import find_broken_pair

World = Literal["sync", "async"]

both_worlds = pytest.mark.parametrize("world", ["sync", "async"])


def asked(given: Any) -> Any:
    """A text as an agent's input; anything else as it is."""
    return {"messages": [("user", given)]} if isinstance(given, str) else given


def invoke(agent: Any, world: World, given: Any = "hi", config: Any = None, **options: Any) -> Any:
    """`invoke` or `ainvoke`."""
    if world == "sync":
        return agent.invoke(asked(given), config, **options)
    return asyncio.run(agent.ainvoke(asked(given), config, **options))


def stream(agent: Any, world: World, given: Any = "hi", config: Any = None, **options: Any) -> list[Any]:
    """All that `stream` or `astream` yields."""
    if world == "sync":
        return list(agent.stream(asked(given), config, **options))

    async def collect() -> list[Any]:
        return [item async for item in agent.astream(asked(given), config, **options)]

    return asyncio.run(collect())


def thread(name: str = "1", **more: Any) -> Any:
    """A config that names a thread."""
    return {"configurable": {"thread_id": name}, **more}


def shown(messages: Any) -> list[tuple[str, str]]:
    """The type and the text of each message."""
    return [(message.type, message.text) for message in messages]


def is_valid(messages: Any) -> bool:
    """Whether every call has its result right after it."""
    problem = find_broken_pair(messages)
    assert problem is None, problem
    return True


async def until(condition: Callable[[], object]) -> None:
    """Let others run until something holds that no event of this loop tells of, such as what a thread has done."""
    while not condition():  # noqa: ASYNC110 - that is what it is for
        await asyncio.sleep(0)
