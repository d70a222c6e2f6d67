"""The fake models that tutorials written for LangChain use. For tests of your own, `ScriptedModel` says more."""

from __future__ import annotations

import re
from collections.abc import Iterator
from threading import Lock
from typing import Any

from pydantic import PrivateAttr

from loopwright.messages import AIMessage, AIMessageChunk, BaseMessage
from loopwright.models.base import BaseChatModel

__all__ = ["FakeListChatModel", "FakeMessagesListChatModel", "GenericFakeChatModel"]


class _Cycling(BaseChatModel):
    """Answers in turn, beginning anew when all were given."""

    responses: list[Any]
    i: int = 0
    """Index of the next answer."""

    _lock: Any = PrivateAttr(default_factory=Lock)

    def _next(self) -> Any:
        with self._lock:
            response = self.responses[self.i]
            self.i = (self.i + 1) % len(self.responses)
        return response


class FakeListChatModel(_Cycling):
    """Says each text in turn; streams it letter by letter."""

    responses: list[str]

    def _generate(self, messages: list[BaseMessage], **kwargs: Any) -> AIMessage:
        return AIMessage(self._next())

    def _stream(self, messages: list[BaseMessage], **kwargs: Any) -> Iterator[AIMessageChunk]:
        text: str = self._next()
        for position, letter in enumerate(text, start=1):
            yield AIMessageChunk(letter, chunk_position="last" if position == len(text) else None)


class FakeMessagesListChatModel(_Cycling):
    """Gives each message in turn."""

    responses: list[BaseMessage]

    def _generate(self, messages: list[BaseMessage], **kwargs: Any) -> Any:
        return self._next()


class GenericFakeChatModel(BaseChatModel):
    """Gives what an iterator yields, messages or texts; streams text by words and the blanks between them."""

    messages: Any
    """An iterator of `AIMessage`s and texts."""

    def _next(self) -> AIMessage:
        given = next(self.messages)
        return AIMessage(given) if isinstance(given, str) else given

    def _generate(self, messages: list[BaseMessage], **kwargs: Any) -> AIMessage:
        return self._next()

    def _stream(self, messages: list[BaseMessage], **kwargs: Any) -> Iterator[AIMessage | AIMessageChunk]:
        message = self._next()
        if not isinstance(message.content, str) or message.tool_calls or not message.content:
            yield message
            return
        pieces = re.findall(r"\s+|\S+", message.content)
        for position, piece in enumerate(pieces, start=1):
            yield AIMessageChunk(piece, id=message.id, chunk_position="last" if position == len(pieces) else None)
