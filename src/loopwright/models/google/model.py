"""`ChatGoogleGenerativeAI`: Gemini's generateContent, with a key at the Gemini API or with a token at Vertex AI.

Rules:

- the key goes in a header and is no field that can be printed or dumped;
- settings that are None are not sent; the provider's defaults hold;
- arguments of a call stand over the model's fields, `extra_body` over both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from loopwright.errors import UsageError
from loopwright.messages import AIMessage, BaseMessage
from loopwright.models.addresses import host_of
from loopwright.models.google.profiles import signs_calls
from loopwright.models.google.request import wire_contents
from loopwright.models.google.response import parse_response
from loopwright.models.google.schemas import gemini_schema, response_config
from loopwright.models.google.settings import KEY_VARIABLES, key_header, model_path, safety_list, settle
from loopwright.models.google.stream import GoogleStream
from loopwright.models.google.tools import declared, is_mode, is_own_tool, wire_tool_config, wire_tools
from loopwright.models.http import WireRequest
from loopwright.models.like import ModelLike
from loopwright.models.settings import accepted, with_query
from loopwright.models.wire_errors import Peer
from loopwright.models.wire_json import dumps
from loopwright.models.wired import WiredChatModel

__all__ = ["ChatGoogleGenerativeAI", "ChatVertexAI"]

_CONFIG = {
    "temperature": "temperature", "top_p": "topP", "top_k": "topK", "max_output_tokens": "maxOutputTokens",
    "n": "candidateCount", "seed": "seed", "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty", "response_logprobs": "responseLogprobs", "logprobs": "logprobs",
    "response_modalities": "responseModalities", "media_resolution": "mediaResolution", "image_config": "imageConfig",
    "speech_config": "speechConfig", "response_mime_type": "responseMimeType", "response_schema": "responseSchema",
}  # fmt: skip
"""Our settings and their names in `generationConfig`."""
_THINKING = {
    "thinking_budget": "thinkingBudget", "thinking_level": "thinkingLevel", "include_thoughts": "includeThoughts",
}  # fmt: skip
_SPOKEN = {"max_tokens": "max_output_tokens", "stop_sequences": "stop", "reasoning_effort": "thinking_level"}
"""Other spellings of a call's arguments."""


class ChatGoogleGenerativeAI(WiredChatModel):
    """A Gemini model. `ChatGoogleGenerativeAI(model="gemini-2.5-flash")` takes its key from `GOOGLE_API_KEY`.

    With `project` it is asked at Vertex AI, and `api_key` is a function that gives a bearer token.
    """

    project: str | None = None
    """The Google Cloud project; asks Vertex AI."""
    location: str | None = None
    """The region at Vertex AI, `global` by default."""
    vertexai: bool | None = None
    temperature: float | None = None
    max_output_tokens: int | None = None
    """Most tokens of an answer, thoughts included. Also `max_tokens`."""
    top_p: float | None = None
    top_k: int | None = None
    n: int | None = None
    """How many answers to ask for. The first is the message."""
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    response_logprobs: bool | None = None
    logprobs: int | None = None
    """How many alternatives `response_logprobs` shows for each token."""
    thinking_budget: int | None = None
    """Tokens for thinking, up to Gemini 2.5; 0 for none, -1 leaves it to the model."""
    thinking_level: str | None = None
    """"low", "medium" or "high", from Gemini 3 on."""
    include_thoughts: bool | None = None
    """Have the thoughts summarised in the answer."""
    safety_settings: Any = None
    """`{"HARM_CATEGORY_...": "BLOCK_..."}`, or a list in Gemini's form."""
    response_modalities: list[str] | None = None
    media_resolution: str | None = None
    image_config: dict[str, Any] | None = None
    speech_config: dict[str, Any] | None = None
    response_mime_type: str | None = None
    response_schema: dict[str, Any] | None = None
    """A schema in Gemini's own form (upper-case types). `response_format` takes classes and JSON schemas."""
    response_json_schema: dict[str, Any] | None = None
    cached_content: str | None = None
    """The name of a cached beginning, `cachedContents/...`."""
    labels: dict[str, str] | None = None

    _at_vertex: ClassVar[bool] = False

    if not TYPE_CHECKING:

        def __init__(self, **fields: Any) -> None:
            super().__init__(**settle(type(self), fields, vertexai=self._at_vertex))

    @property
    def _llm_type(self) -> str:
        return "google-generate-content"

    # -- the format -------------------------------------------------------------------------------------------------

    def _parse(self, body: bytes, peer: Peer) -> Sequence[AIMessage]:
        return parse_response(body, peer)

    def _reader(self, peer: Peer) -> GoogleStream:
        return GoogleStream(peer)

    def bind_tools(self, tools: Sequence[Any], *, tool_choice: Any = None, **kwargs: Any) -> ModelLike:
        """Tell the model of tools, Gemini's own (`{"google_search": {}}`) among them.

        `tool_choice`: a tool's name or a list of names, "any" (one of them), "auto", "none", or Gemini's own form.
        `tool_config` goes out as it is. Gemini has no setting for parallel calls: `parallel_tool_calls` does
        nothing.
        """
        made = _converted(tools)
        if isinstance(tool_choice, str) and not is_mode(tool_choice):
            # A name that is no tool's is told here and not at the call.
            wire_tool_config(tool_choice, wire_tools(made))
        if tool_choice is not None:
            kwargs["tool_choice"] = tool_choice
        return self.bind(tools=made, **kwargs)

    # -- a request --------------------------------------------------------------------------------------------------

    def _request(
        self, messages: Sequence[BaseMessage], stop: list[str] | None, kwargs: Mapping[str, Any], *, streamed: bool
    ) -> WireRequest:
        key = self._key()
        own = dict([key_header(key, is_token=bool(self.vertexai) and callable(self.api_key))] if key else [])
        headers = self._headers(own, accept=accepted(streamed=streamed))
        peer = Peer(
            "google-vertex" if self.vertexai else "google",
            self.base_url,
            host=None if host_of(self.base_url).endswith(".googleapis.com") else host_of(self.base_url),
            key_hint=f"the key comes from api_key= or {' or '.join(KEY_VARIABLES)}",
            secrets=self._secrets(key),
        )
        path = model_path(self.model, self.project, self.location, vertexai=bool(self.vertexai))
        query = {**(self.default_query or {}), **({"alt": "sse"} if streamed else {})}
        method = "streamGenerateContent" if streamed else "generateContent"
        url = with_query(f"{self.base_url}{path}:{method}", query)
        return WireRequest(url, headers, dumps(self._body(messages, stop, kwargs, peer.provider)), peer)

    def _body(
        self, messages: Sequence[BaseMessage], stop: list[str] | None, kwargs: Mapping[str, Any], provider: str
    ) -> dict[str, Any]:
        """The JSON of one request; what stays the same from turn to turn comes first."""
        given = {_SPOKEN.get(name, name): value for name, value in {**self.model_kwargs, **kwargs}.items()}
        instruction, contents = wire_contents(messages, provider, signed_calls=signs_calls(self.model))
        body: dict[str, Any] = {}
        if instruction:
            body["systemInstruction"] = {"parts": instruction}
        self._add_tools(body, given)
        config = self._generation_config(stop, given)
        if config:
            body["generationConfig"] = config
        safety = given.pop("safety_settings", self.safety_settings)
        if safety:
            body["safetySettings"] = safety_list(safety)
        for name, wire in (("cached_content", "cachedContent"), ("labels", "labels")):
            value = given.pop(name, getattr(self, name))
            if value:
                body[wire] = value
        extra = given.pop("extra_body", None)
        body.update((name, value) for name, value in given.items() if value is not None and not name.startswith("ls_"))
        body["contents"] = contents
        body.update(self.extra_body or {})
        body.update(extra or {})
        return body

    def _generation_config(self, stop: list[str] | None, given: dict[str, Any]) -> dict[str, Any]:
        config: dict[str, Any] = {}
        for name, wire in _CONFIG.items():
            value = given.pop(name, getattr(self, name))
            if value is not None:
                config[wire] = value
        ends = given.pop("stop", self.stop) if stop is None else stop
        if ends:
            config["stopSequences"] = [ends] if isinstance(ends, str) else list(ends)
        thinking = {wire: given.pop(name, getattr(self, name)) for name, wire in _THINKING.items()}
        if any(value is not None for value in thinking.values()):
            config["thinkingConfig"] = {name: value for name, value in thinking.items() if value is not None}
        schema = given.pop("response_json_schema", self.response_json_schema)
        if schema is not None:
            config["responseJsonSchema"] = gemini_schema(schema)
        wanted = given.pop("response_format", None)
        if wanted is not None:
            config.update(response_config(wanted))
        if "responseSchema" in config or "responseJsonSchema" in config:
            config.setdefault("responseMimeType", "application/json")
        given.pop("strict", None)
        config.update(given.pop("generation_config", None) or {})
        return config

    def _add_tools(self, body: dict[str, Any], given: dict[str, Any]) -> None:
        tools = wire_tools(_converted(given.pop("tools", None) or ()))
        choice = given.pop("tool_choice", None)
        own: dict[str, Any] = given.pop("tool_config", None) or {}
        given.pop("parallel_tool_calls", None)
        if tools:
            body["tools"] = tools
        config = {**(wire_tool_config(choice, tools) if tools else {}), **own}
        mixed = len(tools) > 1 and declared(tools)
        if mixed and not self.vertexai and signs_calls(self.model):
            config.setdefault("includeServerSideToolInvocations", True)
        if config:
            body["toolConfig"] = config


class ChatVertexAI(ChatGoogleGenerativeAI):
    """A Gemini model at Vertex AI: `ChatVertexAI(model="gemini-2.5-flash", project="p", api_key=token)`."""

    _at_vertex: ClassVar[bool] = True


def _converted(tools: Sequence[Any]) -> list[dict[str, Any]]:
    """Tools as dictionaries: functions in OpenAI's form, Gemini's own as they are."""
    from loopwright.tools import convert_to_openai_tool

    if isinstance(tools, (str, Mapping)):
        raise UsageError("tools is a list: write tools=[...]")
    return [tool if is_own_tool(tool) else convert_to_openai_tool(tool) for tool in tools]
