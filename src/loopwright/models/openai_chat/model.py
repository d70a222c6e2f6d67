"""`ChatOpenAI`: a model behind OpenAI's Chat Completions, at OpenAI or wherever else that format is spoken.

Rules:

- `provider` picks a row of `models/providers.py`: address, key variable, dialect. Without it, `base_url` is looked up
  there; an address nobody knows gets the dialect that most servers accept;
- the key is no field that can be printed or dumped; it is read when the model is made, and missing then;
- settings that are None are not sent; the provider's defaults hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from pydantic import Field

from loopwright import __version__
from loopwright.messages import AIMessage, BaseMessage
from loopwright.models.http import WireHeaders, WireRequest
from loopwright.models.like import ModelLike
from loopwright.models.openai_chat.dialect import Dialect
from loopwright.models.openai_chat.request import response_format, wire_messages, wire_tool_choice, wire_tools
from loopwright.models.openai_chat.response import parse_response
from loopwright.models.openai_chat.settings import ANYONE, endpoint, key_hint, settle
from loopwright.models.openai_chat.stream import ChatStream
from loopwright.models.providers import PROVIDERS, Provider, host_of, provider_at
from loopwright.models.wire_errors import Peer
from loopwright.models.wire_json import dumps
from loopwright.models.wired import WiredChatModel

__all__ = ["ChatOpenAI"]

_SENT = (
    "temperature", "top_p", "n", "presence_penalty", "frequency_penalty", "logit_bias", "logprobs", "top_logprobs",
    "reasoning_effort", "verbosity", "service_tier", "user",
)  # fmt: skip


class ChatOpenAI(WiredChatModel):
    """A chat model at OpenAI, or at any server that speaks its Chat Completions.

    `base_url` is the address up to and with `/v1`.
    """

    provider: str = ""
    """A row of the table of providers; it is `response_metadata["provider"]`. Found from `base_url` if left out."""
    organization: str | None = Field(default=None, exclude=True, repr=False)
    temperature: float | None = None
    max_tokens: int | None = None
    """Most tokens of an answer, reasoning included; sent under the name that the provider knows."""
    top_p: float | None = None
    n: int | None = None
    """How many answers to ask for. The first is the message."""
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
    dialect: Dialect | None = Field(default=None, exclude=True, repr=False)
    """How the server differs, where the provider's row does not fit it."""

    if not TYPE_CHECKING:

        def __init__(self, **fields: Any) -> None:
            super().__init__(**settle(type(self), fields))

    # -- what this is -----------------------------------------------------------------------------------------------

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

    # -- the format -------------------------------------------------------------------------------------------------

    def _parse(self, body: bytes, peer: Peer) -> Sequence[AIMessage]:
        return parse_response(body, peer)

    def _reader(self, peer: Peer) -> ChatStream:
        return ChatStream(peer)

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
            host=host_of(self.base_url) if row.base_url and host_of(self.base_url) != host_of(row.base_url) else None,
            key_hint=key_hint(row),
            secrets=(key, *(self.default_headers or {}).values()),
        )
        body = dumps(self._body(messages, stop, kwargs, streamed))
        return WireRequest(endpoint(self.base_url, self.default_query), headers, body, peer)

    def _body(
        self, messages: Sequence[BaseMessage], stop: list[str] | None, kwargs: Mapping[str, Any], streamed: bool
    ) -> dict[str, Any]:
        """The JSON of one request: the model's fields, over them the call's arguments, over them `extra_body`.

        The messages come last, so that the next turn's request begins with the bytes of this one.
        """
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
        body["messages"] = body.pop("messages")
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
