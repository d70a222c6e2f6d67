"""`ChatOpenAI`: a model behind OpenAI's Chat Completions or Responses, at OpenAI or wherever else these are spoken.

Rules:

- which of the two a call goes to is decided for each call, by `which`; the peer carries it to what reads the answer;

- `provider` picks a row of `models/providers.py`: address, key variable, dialect. Without it, `base_url` is looked up
  there; an address nobody knows gets the dialect that most servers accept;
- the key is no field that can be printed or dumped; it is read when the model is made, and missing then;
- settings that are None are not sent; the provider's defaults hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from pydantic import Field

from loopwright.messages import AIMessage, BaseMessage
from loopwright.models.addresses import host_of, other_host
from loopwright.models.http import WireRequest
from loopwright.models.like import ModelLike
from loopwright.models.openai_chat.dialect import Dialect
from loopwright.models.openai_chat.request import (
    offered_tools,
    response_format,
    wire_messages,
    wire_tool_choice,
    wire_tools,
)
from loopwright.models.openai_chat.response import parse_response
from loopwright.models.openai_chat.settings import ANYONE, key_hint, settle
from loopwright.models.openai_chat.stream import ChatStream
from loopwright.models.openai_chat.which import by_responses, is_own_tool
from loopwright.models.providers import PROVIDERS, Provider, provider_at
from loopwright.models.settings import accepted, with_query
from loopwright.models.wire_errors import Peer
from loopwright.models.wire_json import dumps
from loopwright.models.wired import Reader, WiredChatModel

__all__ = ["ChatOpenAI"]

_SENT = (
    "temperature", "top_p", "n", "presence_penalty", "frequency_penalty", "logit_bias", "logprobs", "top_logprobs",
    "reasoning_effort", "reasoning", "verbosity", "service_tier", "user", "store",
)  # fmt: skip


class ChatOpenAI(WiredChatModel):
    """A chat model at OpenAI, or at any server that speaks its Chat Completions or its Responses.

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
    reasoning: dict[str, Any] | None = None
    """`{"effort": "low", "summary": "auto"}`: how much to think, and what to tell of it. OpenAI: Responses only."""
    verbosity: str | None = None
    service_tier: str | None = None
    user: str | None = None
    parallel_tool_calls: bool | None = None
    stream_usage: bool = True
    """Ask for token counts in streams."""
    use_responses_api: bool | None = None
    """Ask the Responses API. If it is not set, calls go there that use what only it has."""
    use_previous_response_id: bool = False
    """Send only what came after the last answer, and that answer's id; the provider remembers the rest. Responses."""
    store: bool | None = None
    """Whether the provider keeps the answer."""
    include: list[str] | None = None
    """What else to answer with, `["reasoning.encrypted_content"]` for instance. Responses."""
    truncation: str | None = None
    """"auto" drops old items that do not fit the model. Responses."""
    context_management: list[dict[str, Any]] | None = None
    """How the provider shortens a long conversation. Responses."""
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
    def wire_model(self) -> str:
        """The name that is sent for the model."""
        return self.model

    @property
    def wire_dialect(self) -> Dialect:
        """How the server differs from what most accept."""
        if self.dialect is not None:
            return self.dialect
        if self.provider == "openai" and provider_at(self.base_url) is None:
            return ANYONE
        return self._row.dialect

    # -- the format -------------------------------------------------------------------------------------------------

    def _parse(self, body: bytes, peer: Peer) -> Sequence[AIMessage]:
        if peer.api == "responses":
            from loopwright.models.openai_responses.response import parse_response as parse

            return parse(body, peer)
        return parse_response(body, peer)

    def _reader(self, peer: Peer) -> Reader:
        if peer.api == "responses":
            from loopwright.models.openai_responses.stream import ResponsesStream

            return ResponsesStream(peer)
        return ChatStream(peer)

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: str | dict[str, Any] | bool | None = None, **kwargs: Any
    ) -> ModelLike:
        """Tell the model of tools.

        `tool_choice`: a tool's name, "any" (one of them), "auto", "none", or the provider's own form. `strict=True`
        holds the model to the tools' schemas; `parallel_tool_calls=False` allows one call an answer.
        """
        bound = super().bind_tools(tools, tool_choice=tool_choice, **kwargs)
        known = cast("Any", bound).kwargs["tools"]
        if isinstance(tool_choice, str) and not any(map(is_own_tool, known)):
            wire_tool_choice(tool_choice, known, self.wire_dialect)  # a name that is no tool's is told here
        return bound

    # -- a request --------------------------------------------------------------------------------------------------

    def _request(
        self, messages: Sequence[BaseMessage], stop: list[str] | None, kwargs: Mapping[str, Any], *, streamed: bool
    ) -> WireRequest:
        responses = by_responses(self, kwargs)
        key = self._key()
        own = dict([self._authorization(key)] if key else [])
        if self.organization:
            own["openai-organization"] = self.organization
        headers = self._headers(own, accept=accepted(streamed=streamed))
        if responses:
            from loopwright.models.openai_responses.body import responses_body

            body = responses_body(self, messages, stop, kwargs, streamed)
        else:
            body = self._body(messages, stop, kwargs, streamed)
        path = "responses" if responses else "chat/completions"
        return WireRequest(self._endpoint(path), headers, dumps(body), self._peer(key, path.partition("/")[0]))

    def _authorization(self, key: str) -> tuple[str, str]:
        """The header of the key."""
        name = self._row.key_header
        return name, f"Bearer {key}" if name == "authorization" else key

    def _endpoint(self, path: str) -> str:
        """The address of a request."""
        return with_query(f"{self.base_url}/{path}", self.default_query)

    def _peer(self, key: str | None, api: str) -> Peer:
        known = self.provider != "openai" or provider_at(self.base_url) is not None
        return Peer(
            self._row.name,
            self.base_url,
            label=None if known else host_of(self.base_url),
            host=other_host(self.base_url, self._row.base_url),
            key_hint=key_hint(self._row),
            secrets=self._secrets(key),
            api=api,
        )

    def _body(
        self, messages: Sequence[BaseMessage], stop: list[str] | None, kwargs: Mapping[str, Any], streamed: bool
    ) -> dict[str, Any]:
        """The JSON of one request: the model's fields, over them the call's arguments, over them `extra_body`.

        The messages come last, so that the next turn's request begins with the bytes of this one.
        """
        dialect = self.wire_dialect
        body: dict[str, Any] = {"model": self.wire_model, "messages": wire_messages(messages, dialect, self.provider)}
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
        body["tools"] = wire_tools(offered_tools(tools), dialect, strict=strict)
        word = wire_tool_choice(choice, body["tools"], dialect)
        if word is not None:
            body["tool_choice"] = word
        if parallel is not None and dialect.parallel_tool_calls:
            body["parallel_tool_calls"] = parallel
