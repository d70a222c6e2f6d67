"""Answers remembered: the same messages, tools and settings are asked once.

A remembered answer gets an id of its own, has no usage (nothing was spent) and says `cache_hit` in its
`response_metadata`. Any object with `lookup(prompt, model)` and `update(prompt, model, answer)` will do, where both
keys are strings and the answer is a list of one `ChatGeneration`; `alookup` and `aupdate` serve asyncio if they exist.
"""

from __future__ import annotations

from _thread import allocate_lock
from collections import OrderedDict
from typing import Any, NamedTuple

from msgspec import json

from loopwright.messages import AIMessage, BaseMessage
from loopwright.models.outputs import ChatGeneration
from loopwright.port import Port

__all__ = ["InMemoryCache", "Memory"]


class InMemoryCache:
    """Keeps answers for the life of the process, the `maxsize` last used ones if that is given."""

    def __init__(self, *, maxsize: int | None = None) -> None:
        self._lock = allocate_lock()
        self._answers: OrderedDict[tuple[str, str], list[ChatGeneration]] = OrderedDict()
        self._maxsize = maxsize

    def lookup(self, prompt: str, llm_string: str) -> list[ChatGeneration] | None:
        with self._lock:
            found = self._answers.get((prompt, llm_string))
            if found is not None:
                self._answers.move_to_end((prompt, llm_string))
            return found

    def update(self, prompt: str, llm_string: str, return_val: list[ChatGeneration]) -> None:
        with self._lock:
            self._answers[prompt, llm_string] = return_val
            if self._maxsize is not None and len(self._answers) > self._maxsize:
                self._answers.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._answers.clear()


_shared = InMemoryCache()


class Memory(NamedTuple):
    """One question to a cache."""

    cache: Any
    prompt: str
    model: str

    @classmethod
    def of(cls, model: Any, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]) -> Memory:
        """`cache=True` means one cache that all models of the process share."""
        cache = _shared if model.cache is True else model.cache
        asked = [message.model_dump(exclude={"id"}, exclude_defaults=True) for message in messages]
        kind = f"{type(model).__module__}.{type(model).__qualname__}"
        settings = [kind, model._identifying_params, stop, kwargs]
        return cls(cache, _as_text(asked), _as_text(settings))

    async def look_up(self, port: Port) -> AIMessage | None:
        found: Any = await self._call(port, "lookup", self.prompt, self.model)
        if not found:
            return None
        message: AIMessage = found[0].message
        known = {**message.response_metadata, "cache_hit": True}
        return message.model_copy(update={"id": port.new_id(), "usage_metadata": None, "response_metadata": known})

    async def update(self, port: Port, answer: AIMessage) -> None:
        await self._call(port, "update", self.prompt, self.model, [ChatGeneration(message=answer)])

    async def _call(self, port: Port, name: str, *args: Any) -> Any:
        if isinstance(self.cache, InMemoryCache):
            return getattr(self.cache, name)(*args)
        if port.asynchronous and hasattr(self.cache, f"a{name}"):
            return await port.call(getattr(self.cache, f"a{name}"), *args, is_async=True)
        return await port.call(getattr(self.cache, name), *args, is_async=False)


def _as_text(value: Any) -> str:
    return json.encode(value, enc_hook=repr, order="deterministic").decode()
