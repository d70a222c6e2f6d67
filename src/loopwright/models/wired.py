"""A chat model at the other end of a wire: what is the same whatever format a provider speaks.

A subclass is a format. It says what goes out (`_request`), and what comes in as a whole (`_parse`) or in pieces
(`_reader`); sending, retries, timeouts and connections are here.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping, Sequence
from typing import Any, Protocol, cast

from pydantic import ConfigDict, Field, PrivateAttr, SecretStr

from loopwright.drive.owned import Owned
from loopwright.messages import AIMessage, AIMessageChunk, BaseMessage, merge_chunks, message_chunk_to_message
from loopwright.models.base import BaseChatModel
from loopwright.models.http import Wire, WireHeaders, WireRequest
from loopwright.models.outputs import ChatGeneration, ChatResult
from loopwright.models.settings import sound_key, timeouts_of
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


class WiredChatModel(BaseChatModel):
    """The base of the classes that speak to a provider."""

    model_config = ConfigDict(extra="forbid")

    model: str
    """The provider's name of the model."""
    api_key: Any = Field(default=None, exclude=True, repr=False)
    """The key, or a function that gives it for each request. Without it, the provider's environment variable."""
    base_url: str = ""
    """The address that the paths of the format are added to. Without it, the provider's."""
    stop: str | list[str] | None = None
    streaming: bool = False
    """Read every answer as a stream, also for `invoke`."""
    timeout: Any = None
    """Longest silence in seconds, before the answer and inside a stream; 600 by default, `inf` for none. A pair is
    (connect, silence)."""
    idle_timeout: float | None = None
    """Longest silence inside a stream, where it should differ from `timeout`."""
    max_retries: int = 2
    """Further tries after a failure that may pass; nothing is tried again once the answer has begun."""
    model_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Further fields of the request."""
    extra_body: dict[str, Any] | None = None
    """The same; has the last word."""
    auth: Any = Field(default=None, exclude=True, repr=False)
    """A function of method, address, headers and body that gives further headers for each request: a token that is
    renewed, a signature."""
    default_headers: dict[str, str] | None = Field(default=None, exclude=True, repr=False)
    default_query: dict[str, str] | None = Field(default=None, exclude=True, repr=False)
    http_client: Any = Field(default=None, exclude=True, repr=False)
    """An `httpx2.Client` of your own (proxies, certificates). You close it."""
    http_async_client: Any = Field(default=None, exclude=True, repr=False)

    _wire: Any = PrivateAttr(default=None)

    @property
    def model_name(self) -> str:
        return self.model

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Only what was set: most settings are the provider's."""
        shown = self.model_fields_set
        return ((name, value) for name, value in super().__repr_args__() if name in shown and value is not None)

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

    def _key(self) -> str | None:
        """The key of one request."""
        key = self.api_key
        if key is None:
            return None
        return key.get_secret_value() if isinstance(key, SecretStr) else sound_key(key())

    def _authorised(self, request: WireRequest) -> WireRequest:
        """The request with what `auth` says of it."""
        if self.auth is None:
            return request
        given: Mapping[str, str] = self.auth("POST", request.url, dict(request.headers), request.body)
        request.peer.hide(given.values())
        return request._replace(headers=WireHeaders({**request.headers, **given}))

    def _connected(self) -> Wire:
        """The wire of these settings. A copy with the same settings shares it."""
        own = (self.http_client, self.http_async_client)
        settings = (self.timeout, self.idle_timeout, self.max_retries, *own)
        known = self._wire
        if known is None or known[0] != settings:
            wire = Wire(
                timeouts=timeouts_of(self.timeout, self.idle_timeout, has_own=own != (None, None)),
                max_retries=self.max_retries,
                http_client=self.http_client,
                http_async_client=self.http_async_client,
            )
            known = self._wire = (settings, wire)
        return known[1]

    def close(self) -> None:
        """Close the connections of blocking calls. It happens by itself when the model is gone."""
        self._connected().close()

    async def aclose(self) -> None:
        """Close the connections of the running event loop. It happens by itself when the loop ends."""
        await self._connected().aclose()


def _result(messages: Sequence[AIMessage]) -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=message) for message in messages])


def _whole(chunks: list[AIMessageChunk]) -> AIMessage:
    return cast("AIMessage", message_chunk_to_message(merge_chunks(chunks)))
