"""The same call in both worlds, so that a test is written once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from loopwright.models import BaseChatModel
from loopwright.models.like import ChatCall


class Blocking:
    """Without an event loop."""

    def invoke(self, call: ChatCall[Any], *args: Any, **kwargs: Any) -> Any:
        return call.invoke(*args, **kwargs)

    def stream(self, call: ChatCall[Any], *args: Any, **kwargs: Any) -> list[Any]:
        return list(call.stream(*args, **kwargs))

    def batch(self, call: ChatCall[Any], *args: Any, **kwargs: Any) -> list[Any]:
        return call.batch(*args, **kwargs)

    def as_completed(self, call: ChatCall[Any], *args: Any, **kwargs: Any) -> list[Any]:
        return list(call.batch_as_completed(*args, **kwargs))


class Asyncio(Blocking):
    """In a task of a loop."""

    def invoke(self, call: ChatCall[Any], *args: Any, **kwargs: Any) -> Any:
        return asyncio.run(call.ainvoke(*args, **kwargs))

    def stream(self, call: ChatCall[Any], *args: Any, **kwargs: Any) -> list[Any]:
        async def collect() -> list[Any]:
            return [piece async for piece in call.astream(*args, **kwargs)]

        return asyncio.run(collect())

    def batch(self, call: ChatCall[Any], *args: Any, **kwargs: Any) -> list[Any]:
        return asyncio.run(call.abatch(*args, **kwargs))

    def as_completed(self, call: ChatCall[Any], *args: Any, **kwargs: Any) -> list[Any]:
        async def collect() -> list[Any]:
            return [item async for item in call.abatch_as_completed(*args, **kwargs)]

        return asyncio.run(collect())


both_worlds = pytest.mark.parametrize("world", [Blocking(), Asyncio()], ids=["blocking", "asyncio"])


class Echo(BaseChatModel):
    """Answers with the last message and keeps what it was asked."""

    asked: list[Any] = []

    def _generate(self, messages: list[Any], stop: Any = None, **kwargs: Any) -> str:
        self.asked.append({"messages": messages, "stop": stop, **kwargs})
        return messages[-1].text if messages else ""
