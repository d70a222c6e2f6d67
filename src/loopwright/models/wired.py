"""A chat model at the other end of a wire: what is the same whatever format a provider speaks.

A subclass is a format. It says what goes out (`_request`), and what comes in as a whole (`_parse`) or in pieces
(`_reader`); sending, retries, timeouts and connections are here.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from typing import Any, Protocol, cast

from pydantic import ConfigDict, Field

from loopwright.drive.owned import Owned
from loopwright.messages import AIMessage, AIMessageChunk, BaseMessage, merge_chunks, message_chunk_to_message
from loopwright.models.base import BaseChatModel
from loopwright.models.http import WireHeaders, WireRequest
from loopwright.models.outputs import ChatGeneration, ChatResult
from loopwright.models.settings import WireSettings
from loopwright.models.wire_errors import Peer

__all__ = ["Reader", "WiredChatModel"]


class Reader(Protocol):
    """Reads one streamed answer: bytes go in, chunks come out, and a cut anywhere changes nothing."""

    def feed(self, piece: bytes) -> list[AIMessageChunk]:
        """The chunks that `piece` completes."""
        ...

    def close(self) -> list[AIMessageChunk]:
        """The body has ended: what is left. Raises a `ModelError` if that was not the answer's end."""
        ...


class WiredChatModel(WireSettings, BaseChatModel):
    """The base of the classes that speak to a provider."""

    model_config = ConfigDict(extra="forbid")

    stop: str | list[str] | None = None
    streaming: bool = False
    """Read every answer as a stream, also for `invoke`."""
    idle_timeout: float | None = None
    """Longest silence inside a stream, where it should differ from `timeout`."""
    model_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Further fields of the request."""
    extra_body: dict[str, Any] | None = None
    """The same; has the last word."""
    auth: Any = Field(default=None, exclude=True, repr=False)
    """A function of method, address, headers and body that gives further headers for each request: a token that is
    renewed, a signature."""
    default_query: dict[str, str] | None = Field(default=None, exclude=True, repr=False)

    @property
    def model_name(self) -> str:
        return self.model

    # -- the format -------------------------------------------------------------------------------------------------

    @abstractmethod
    def _request(
        self, messages: Sequence[BaseMessage], stop: list[str] | None, kwargs: Mapping[str, Any], *, streamed: bool
    ) -> WireRequest:
        """What is posted. `kwargs` are the arguments of this call, tools and their like among them."""

    @abstractmethod
    def _parse(self, body: bytes, peer: Peer) -> Sequence[AIMessage]:
        """The answers in a whole body; the first is the message. Raises a `ModelError`."""

    @abstractmethod
    def _reader(self, peer: Peer) -> Reader:
        """What reads one streamed answer."""

    # -- the four methods -------------------------------------------------------------------------------------------

    def _generate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        if self.streaming:
            return _result([_whole(list(self._stream(messages, stop, run_manager, **kwargs)))])
        request = self._authorised(self._request(messages, stop, kwargs, streamed=False))
        return _result(self._parse(self._connected().read(request), request.peer))

    async def _agenerate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        if self.streaming:
            return _result([_whole([chunk async for chunk in self._astream(messages, stop, run_manager, **kwargs)])])
        request = self._authorised(self._request(messages, stop, kwargs, streamed=False))
        return _result(self._parse(await self._connected().aread(request), request.peer))

    def _stream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> Generator[AIMessageChunk, None, None]:
        request = self._authorised(self._request(messages, stop, kwargs, streamed=True))
        answer = self._reader(request.peer)
        pieces = self._connected().pieces(request)
        try:
            for piece in pieces:
                yield from answer.feed(piece)
            yield from answer.close()
        finally:
            pieces.close()

    async def _astream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncGenerator[AIMessageChunk, None]:
        request = self._authorised(self._request(messages, stop, kwargs, streamed=True))
        answer = self._reader(request.peer)
        pieces = Owned(self._connected().apieces(request))
        try:
            async for piece in pieces:
                for chunk in answer.feed(piece):
                    yield chunk
            for chunk in answer.close():
                yield chunk
        finally:
            await pieces.aclose()

    # -- the wire ---------------------------------------------------------------------------------------------------

    def _authorised(self, request: WireRequest) -> WireRequest:
        """The request with what `auth` says of it."""
        if self.auth is None:
            return request
        given: Mapping[str, str] = self.auth("POST", request.url, dict(request.headers), request.body)
        request.peer.hide(given.values())
        return request._replace(headers=WireHeaders({**request.headers, **given}))

    def _silence_inside(self) -> float | None:
        return self.idle_timeout


def _result(messages: Sequence[AIMessage]) -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=message) for message in messages])


def _whole(chunks: list[AIMessageChunk]) -> AIMessage:
    return cast("AIMessage", message_chunk_to_message(merge_chunks(chunks)))
