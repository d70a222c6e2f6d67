"""`ChatOpenAI`: a model behind OpenAI's Chat Completions, at OpenAI or wherever else that format is spoken.

Rules:

- `provider` picks a row of `models/providers.py`: address, key variable, dialect. Without it, `base_url` is looked up
  there; an address nobody knows gets the dialect that most servers accept;
- the key is no field that can be printed or dumped; it is read when the model is made, and missing then;
- settings that are None are not sent; the provider's defaults hold.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from pydantic import ConfigDict, Field, PrivateAttr, SecretStr

from loopwright import __version__
from loopwright.messages import AIMessage, AIMessageChunk, BaseMessage, merge_chunks, message_chunk_to_message
from loopwright.models.base import BaseChatModel
from loopwright.models.http import Wire, WireHeaders, WireRequest
from loopwright.models.like import ModelLike
from loopwright.models.openai_chat.dialect import Dialect
from loopwright.models.openai_chat.request import response_format, wire_messages, wire_tool_choice, wire_tools
from loopwright.models.openai_chat.response import parse_response
from loopwright.models.openai_chat.settings import ANYONE, endpoint, key_hint, settle, sound_key, timeouts_of
from loopwright.models.openai_chat.stream import ChatStream
from loopwright.models.outputs import ChatGeneration, ChatResult
from loopwright.models.providers import PROVIDERS, Provider, host_of, provider_at
from loopwright.models.wire_errors import Peer
from loopwright.models.wire_json import dumps

__all__ = ["ChatOpenAI"]

_SENT = (
    "temperature", "top_p", "n", "presence_penalty", "frequency_penalty", "logit_bias", "logprobs", "top_logprobs",
    "reasoning_effort", "verbosity", "service_tier", "user",
)  # fmt: skip


class ChatOpenAI(BaseChatModel):
    """A chat model at OpenAI, or at any server that speaks its Chat Completions (`base_url`, `provider`)."""

    model_config = ConfigDict(extra="forbid")

    model: str
    """The provider's name of the model."""
    provider: str = ""
    """A row of the table of providers; it is `response_metadata["provider"]`. Found from `base_url` if left out."""
    api_key: Any = Field(default=None, exclude=True, repr=False)
    """The key, or a function that gives it for each request. Without it, the provider's environment variable."""
    base_url: str = ""
    """Address up to and with `/v1`. Without it, the provider's."""
    organization: str | None = Field(default=None, exclude=True, repr=False)
    temperature: float | None = None
    max_tokens: int | None = None
    """Most tokens of an answer, reasoning included; sent under the name that the provider knows."""
    top_p: float | None = None
    n: int | None = None
    """How many answers to ask for. The first is the message."""
    stop: str | list[str] | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    reasoning_effort: str | None = None
    verbosity: str | None = None
    service_tier: str | None = None
    user: str | None = None
    parallel_tool_calls: bool | None = None
    stream_usage: bool = True
    """Ask for token counts in streams."""
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
    default_headers: dict[str, str] | None = Field(default=None, exclude=True, repr=False)
    default_query: dict[str, str] | None = Field(default=None, exclude=True, repr=False)
    dialect: Dialect | None = Field(default=None, exclude=True, repr=False)
    """How the server differs, where the provider's row does not fit it."""
    http_client: Any = Field(default=None, exclude=True, repr=False)
    """An `httpx2.Client` of your own (proxies, certificates). You close it."""
    http_async_client: Any = Field(default=None, exclude=True, repr=False)

    _wire: Any = PrivateAttr(default=None)

    if not TYPE_CHECKING:

        def __init__(self, **fields: Any) -> None:
            super().__init__(**settle(type(self), fields))

    # -- what this is -----------------------------------------------------------------------------------------------

    @property
    def model_name(self) -> str:
        return self.model

    @property
    def _llm_type(self) -> str:
        return "openai-chat"

    @property
    def _row(self) -> Provider:
        return PROVIDERS[self.provider]

    @property
    def _dialect(self) -> Dialect:
        if self.dialect is not None:
            return self.dialect
        if self.provider == "openai" and provider_at(self.base_url) is None:
            return ANYONE
        return self._row.dialect

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Only what was set: most settings are the provider's."""
        shown = self.model_fields_set
        return ((name, value) for name, value in super().__repr_args__() if name in shown and value is not None)

    # -- the four methods -------------------------------------------------------------------------------------------

    def _generate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        if self.streaming:
            return _result([_whole(list(self._stream(messages, stop, run_manager, **kwargs)))])
        request = self._request(messages, stop, kwargs, streamed=False)
        return _result(parse_response(self._connected().read(request), request.peer))

    async def _agenerate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        if self.streaming:
            return _result([_whole([chunk async for chunk in self._astream(messages, stop, run_manager, **kwargs)])])
        request = self._request(messages, stop, kwargs, streamed=False)
        return _result(parse_response(await self._connected().aread(request), request.peer))

    def _stream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> Generator[AIMessageChunk, None, None]:
        request = self._request(messages, stop, kwargs, streamed=True)
        answer = ChatStream(request.peer)
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
        request = self._request(messages, stop, kwargs, streamed=True)
        answer = ChatStream(request.peer)
        pieces = self._connected().apieces(request)
        try:
            async for piece in pieces:
                for chunk in answer.feed(piece):
                    yield chunk
            for chunk in answer.close():
                yield chunk
        finally:
            await pieces.aclose()

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: str | dict[str, Any] | bool | None = None, **kwargs: Any
    ) -> ModelLike:
        """Tell the model of tools.

        `tool_choice`: a tool's name, "any" (one of them), "auto", "none", or the provider's own form. `strict=True`
        holds the model to the tools' schemas; `parallel_tool_calls=False` allows one call an answer.
        """
        bound = super().bind_tools(tools, tool_choice=tool_choice, **kwargs)
        if isinstance(tool_choice, str):  # a name that is no tool's is told here and not at the call
            wire_tool_choice(tool_choice, cast("Any", bound).kwargs["tools"], self._dialect)
        return bound

    # -- a request --------------------------------------------------------------------------------------------------

    def _request(
        self, messages: Sequence[BaseMessage], stop: list[str] | None, kwargs: Mapping[str, Any], *, streamed: bool
    ) -> WireRequest:
        key, row = self._key(), self._row
        headers = WireHeaders({"content-type": "application/json", "user-agent": f"loopwright/{__version__}"})
        headers["accept"] = "text/event-stream" if streamed else "application/json"
        if key:
            headers[row.key_header] = f"Bearer {key}" if row.key_header == "authorization" else key
        if self.organization:
            headers["openai-organization"] = self.organization
        for name, value in (self.default_headers or {}).items():
            headers[name.lower()] = value
        known = self.provider != "openai" or provider_at(self.base_url) is not None
        peer = Peer(
            row.name,
            self.base_url,
            label=None if known else host_of(self.base_url),
            key_hint=key_hint(row),
            secrets=(key, *(self.default_headers or {}).values()),
        )
        body = dumps(self._body(messages, stop, kwargs, streamed))
        return WireRequest(endpoint(self.base_url, self.default_query), headers, body, peer)

    def _body(
        self, messages: Sequence[BaseMessage], stop: list[str] | None, kwargs: Mapping[str, Any], streamed: bool
    ) -> dict[str, Any]:
        """The JSON of one request: the model's fields, over them the call's arguments, over them `extra_body`."""
        dialect = self._dialect
        body: dict[str, Any] = {"model": self.model, "messages": wire_messages(messages, dialect, self.provider)}
        for name in _SENT:
            value = getattr(self, name)
            if value is not None:
                body[name] = value
        given = {**self.model_kwargs, **kwargs}
        limit = next(
            (given.pop(name) for name in ("max_tokens", "max_completion_tokens") if name in given), self.max_tokens
        )
        if limit is not None:
            body[dialect.max_tokens] = limit
        seed = given.pop("seed", self.seed)
        if seed is not None:
            body[dialect.seed] = seed
        stop = stop if stop is not None else given.pop("stop", self.stop)
        if stop:
            body["stop"] = stop
        strict = given.pop("strict", None)
        self._add_tools(body, given, dialect, strict)
        wanted = given.pop("response_format", None)
        if wanted is not None:
            body["response_format"] = response_format(wanted, dialect, self.provider, strict=strict)
        given.pop("stream", None)
        extra = given.pop("extra_body", None)
        body.update((name, value) for name, value in given.items() if value is not None and not name.startswith("ls_"))
        if streamed:
            body["stream"] = True
            if self.stream_usage and dialect.stream_options:
                body.setdefault("stream_options", {"include_usage": True})
        body.update(self.extra_body or {})
        body.update(extra or {})
        return body

    def _add_tools(self, body: dict[str, Any], given: dict[str, Any], dialect: Dialect, strict: bool | None) -> None:
        tools: Sequence[Any] = given.pop("tools", None) or ()
        choice = given.pop("tool_choice", None)
        parallel = given.pop("parallel_tool_calls", self.parallel_tool_calls)
        if not tools:
            return
        if not all(isinstance(tool, Mapping) for tool in tools):
            from loopwright.tools import convert_to_openai_tool

            tools = [convert_to_openai_tool(tool) for tool in tools]
        body["tools"] = wire_tools(tools, dialect, strict=strict)
        word = wire_tool_choice(choice, body["tools"], dialect)
        if word is not None:
            body["tool_choice"] = word
        if parallel is not None and dialect.parallel_tool_calls:
            body["parallel_tool_calls"] = parallel

    def _key(self) -> str | None:
        key = self.api_key
        if key is None:
            return None
        return key.get_secret_value() if isinstance(key, SecretStr) else sound_key(key())

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
