"""`ChatAnthropic`: a model behind Anthropic's Messages, at Anthropic or wherever else that format is spoken.

Rules:

- the key is no field that can be printed or dumped; it is read when the model is made, and missing then;
- settings that are None are not sent; the provider's defaults hold. Only the length of an answer is always sent: the
  API wants it;
- what a request needs beyond the fields here (a beta, say) is found from what is in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from loopwright.messages import AIMessage, BaseMessage
from loopwright.models.addresses import other_host
from loopwright.models.anthropic.caching import cache_mark, set_marks
from loopwright.models.anthropic.profiles import default_max_tokens, facts_of
from loopwright.models.anthropic.request import wire_messages
from loopwright.models.anthropic.response import parse_response
from loopwright.models.anthropic.settings import BASE_URL, KEY_ENV, betas_of, endpoint, settle
from loopwright.models.anthropic.stream import MessageStream
from loopwright.models.anthropic.tools import offered, output_format, wire_tool_choice, wire_tools
from loopwright.models.http import WireRequest
from loopwright.models.like import ModelLike
from loopwright.models.settings import accepted
from loopwright.models.wire_errors import Peer
from loopwright.models.wire_json import dumps
from loopwright.models.wired import Reader, WiredChatModel

__all__ = ["ChatAnthropic"]

_VERSION = "2023-06-01"
_SENT = (
    "temperature", "top_p", "top_k", "thinking", "mcp_servers", "context_management", "container", "service_tier",
    "inference_geo",
)  # fmt: skip


class ChatAnthropic(WiredChatModel):
    """Claude, at Anthropic or at any server that speaks its Messages.

    `base_url` is the address up to and without `/v1`.
    """

    max_tokens: int | None = None
    """Most tokens of an answer, reasoning included. Without it, what the model's window allows."""
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    thinking: dict[str, Any] | None = None
    """`{"type": "adaptive"}`, or `{"type": "enabled", "budget_tokens": 2048}` with older models."""
    effort: str | None = None
    """How much the model may think and say: "low" to "max"."""
    output_config: dict[str, Any] | None = None
    """What the API takes under this name; `effort` and a schema are added to it."""
    prompt_caching: bool | Literal["5m", "1h"] = False
    """Mark the ends of tools, system prompt and last message for the provider's cache."""
    betas: list[str] | None = None
    """Names for the `anthropic-beta` header, beside those that the request is seen to need."""
    mcp_servers: list[dict[str, Any]] | None = Field(default=None, exclude=True, repr=False)
    """Hidden like keys, because they may hold some."""
    context_management: dict[str, Any] | None = None
    container: str | dict[str, Any] | None = None
    service_tier: str | None = None
    inference_geo: str | None = None
    parallel_tool_calls: bool | None = None
    """False allows one call an answer."""

    if not TYPE_CHECKING:

        def __init__(self, **fields: Any) -> None:
            super().__init__(**settle(type(self), fields))

    # -- what this is -----------------------------------------------------------------------------------------------

    @property
    def _llm_type(self) -> str:
        return "anthropic-chat"

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: str | dict[str, Any] | bool | None = None, **kwargs: Any
    ) -> ModelLike:
        """Tell the model of tools.

        `tool_choice`: a tool's name, "any" (one of them), "auto", "none", or the provider's own form. `strict=True`
        holds the model to the tools' schemas; `parallel_tool_calls=False` allows one call an answer. A tool's `extras`
        (`cache_control`, `defer_loading`, ...) are sent beside it.
        """
        bound = [offered(tool) for tool in tools]
        if isinstance(tool_choice, str):  # a name that is no tool's is told here and not at the call
            wire_tool_choice(tool_choice, wire_tools(bound))
        if tool_choice is not None:
            kwargs["tool_choice"] = tool_choice
        return self.bind(tools=bound, **kwargs)

    # -- the format -------------------------------------------------------------------------------------------------

    def _parse(self, body: bytes, peer: Peer) -> Sequence[AIMessage]:
        return parse_response(body, peer)

    def _reader(self, peer: Peer) -> Reader:
        return MessageStream(peer)

    def _request(
        self, messages: Sequence[BaseMessage], stop: list[str] | None, kwargs: Mapping[str, Any], *, streamed: bool
    ) -> WireRequest:
        given = {**self.model_kwargs, **kwargs}
        betas = given.pop("betas", self.betas)
        body = self._body(messages, stop, given)
        if streamed:
            body["stream"] = True
        key = self._key()
        own = {"anthropic-version": _VERSION}
        if wanted := betas_of(body, betas):
            own["anthropic-beta"] = ",".join(wanted)
        if key:
            own["x-api-key"] = key
        headers = self._headers(own, accept=accepted(streamed=streamed))
        return WireRequest(endpoint(self.base_url, self.default_query), headers, dumps(body), self._peer(key))

    def _peer(self, key: str | None) -> Peer:
        servers = [str(server.get("authorization_token") or "") for server in self.mcp_servers or ()]
        return Peer(
            "anthropic",
            self.base_url,
            host=other_host(self.base_url, BASE_URL),
            label=None if self.base_url == BASE_URL else self.base_url.partition("://")[2].partition("/")[0],
            key_hint=f"the key comes from api_key= or {' or '.join(KEY_ENV)}",
            secrets=self._secrets(key, *servers),
        )

    # -- a request --------------------------------------------------------------------------------------------------

    def _body(self, messages: Sequence[BaseMessage], stop: list[str] | None, given: dict[str, Any]) -> dict[str, Any]:
        """The JSON of one request: the model's fields, over them the call's arguments, over them `extra_body`."""
        facts = facts_of(self.model)
        prompt, turns = wire_messages(messages, late_system=facts is not None and facts.late_system)
        limit = given.pop("max_tokens", None) or self.max_tokens or default_max_tokens(self.model)
        body: dict[str, Any] = {"model": self.model, "max_tokens": limit}
        for name in _SENT:
            value = given.pop(name, getattr(self, name))
            if value is not None:
                body[name] = value
        own_stop = given.pop("stop_sequences", None) or given.pop("stop", None) or self.stop
        words = stop if stop is not None else own_stop
        if words:
            body["stop_sequences"] = [words] if isinstance(words, str) else words
        if output := self._output(given):
            body["output_config"] = output
        self._add_tools(body, given)
        if prompt:
            body["system"] = prompt
        mark = cache_mark(given.pop("prompt_caching", self.prompt_caching))
        given.pop("stream", None)
        extra = given.pop("extra_body", None)
        body.update((name, value) for name, value in given.items() if value is not None and not name.startswith("ls_"))
        body["messages"] = turns  # last, so that the next turn's request begins with the bytes of this one
        body.update(self.extra_body or {})
        body.update(extra or {})
        if mark is not None:
            set_marks(body, mark)
        return body

    def _output(self, given: dict[str, Any]) -> dict[str, Any]:
        """`output_config`: how the answer is to be."""
        output = dict(given.pop("output_config", None) or self.output_config or {})
        effort = given.pop("effort", self.effort)
        if effort is not None:
            output["effort"] = effort
        wanted = given.pop("response_format", None)
        if wanted is not None:
            output["format"] = output_format(wanted)
        return output

    def _add_tools(self, body: dict[str, Any], given: dict[str, Any]) -> None:
        tools: Sequence[Any] = given.pop("tools", None) or ()
        choice = given.pop("tool_choice", None)
        parallel = given.pop("parallel_tool_calls", self.parallel_tool_calls)
        strict = given.pop("strict", None)
        if not tools:
            return
        body["tools"] = wire_tools(tools, strict=strict)
        thinks = body.get("thinking", {}).get("type") == "enabled"
        word = wire_tool_choice(choice, body["tools"], parallel=parallel, thinks=thinks)
        if word is not None:
            body["tool_choice"] = word
