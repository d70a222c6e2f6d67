"""One answer of a local model as requests to make and events to read: no engine in it, no waiting.

    while (request := exchange.request) is not None:
        for event in <the engine's events for request>: chunks = exchange.feed(event)
        chunks = exchange.close()

An answer takes one request, or several where the model first decides whether to call a tool, and a small one which; the
later ones find the prompt already read. Both worlds drive the same object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from loopwright.errors import BadRequestError, ContextLengthError, InvalidResponseError, ModelError, ServerError
from loopwright.messages import AIMessageChunk
from loopwright.models.local.calls import CallReader, FirstToken, call_schema
from loopwright.models.local.ranking import NameScore, Ranking
from loopwright.models.openai_chat.response import finish_word, metadata_of, usage_of

__all__ = ["Exchange", "Plan"]

_Event = dict[str, Any]


class Plan(NamedTuple):
    """What an answer may be."""

    base: dict[str, Any]
    """The request without what constrains the answer."""
    model_name: str
    functions: Sequence[Mapping[str, Any]] = ()
    """What may be called under a schema."""
    must_call: bool = False
    call_at: float = 0.0
    """Probability from which on a call is made."""
    ranking: Ranking | None = None
    """Weighs the tools' names one by one; None leaves the choice to the call itself."""
    answer: dict[str, Any] | None = None
    """`response_format` of an answer that is no call."""
    words: Mapping[str, Any] = {}
    """Further fields of a request for words."""


class Exchange:
    """One answer."""

    request: dict[str, Any] | None
    """What to ask the engine next; None when the answer is complete."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._decision: FirstToken | None = None
        self._score: NameScore | None = None
        self._reader: CallReader | None = None
        self._cached: int | None = None
        self._kind = ""
        self._index = -1
        self._begin()
        if not plan.functions:
            self._ask_words([])
        elif plan.must_call:
            self._ask_name()
        else:
            self._decision = FirstToken()
            self.request = {**plan.base, **FirstToken.request}

    def feed(self, event: _Event) -> list[AIMessageChunk]:
        """What an event adds to the answer. Raises `ModelError` for an event that is an error."""
        error = event.get("error")
        if error:
            raise _as_error(error, self._plan.model_name)
        if event.get("usage"):
            self._usage = event["usage"]
        for key in ("id", "model", "system_fingerprint"):
            if event.get(key):
                self._facts[key] = event[key]
        choices = event.get("choices")
        if not choices:
            return []
        choice: Mapping[str, Any] = choices[0]
        self._finish = choice.get("finish_reason") or self._finish
        if self._decision is not None:
            self._decision.feed(choice)
            return []
        if self._score is not None:
            self._score.feed(choice)
            return []
        return self._read(choice.get("delta") or {})

    def close(self) -> list[AIMessageChunk]:
        """To call when the events of a request have ended."""
        if self._decision is not None or self._score is not None:
            self._decided()
            return []
        self.request = None
        if self._finish is None:
            raise InvalidResponseError(f"the local model {self._plan.model_name} ended in the middle", retryable=True)
        chunks: list[AIMessageChunk] = []
        if self._reader is not None and not self._reader.begun and self._reader.waiting:
            chunks += self._piece("text", self._reader.waiting)
        return [*chunks, self._last(self._finish)]

    # -- requests -----------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._usage: dict[str, Any] | None = None
        self._facts: dict[str, Any] = {}
        self._finish: str | None = None
        self._called = False

    def _decided(self) -> None:
        """The end of a request that only prepares the answer."""
        if self._cached is None:
            self._cached = _cached_tokens(self._usage)
        self._begin()
        if self._decision is not None:
            decision, self._decision = self._decision, None
            if decision.brace >= self._plan.call_at:
                self._ask_name()
            else:
                self._ask_words(decision.bans())
        elif self._score is not None and self._plan.ranking is not None:
            name, neutral = self._weighed
            self._plan.ranking.take(name, self._score.value, neutral=neutral)
            self._ask_name()

    def _ask_name(self) -> None:
        """Weigh the next name, or take the best one when all are weighed."""
        self._score = None
        ranking = self._plan.ranking
        if ranking is None:
            self._ask_call(self._plan.functions)
            return
        weigh = ranking.next()
        if weigh is None:
            best = ranking.best()
            self._ask_call([function for function in self._plan.functions if function["name"] == best])
            return
        self._weighed = weigh
        name, neutral = weigh
        self._score = NameScore(name)
        self.request = {**self._plan.base, **self._score.request}
        if neutral:
            self.request["messages"] = ranking.neutral

    def _ask_call(self, functions: Sequence[Mapping[str, Any]]) -> None:
        self._reader = CallReader()
        constraint = {"type": "json_schema", "json_schema": {"name": "call", "schema": call_schema(functions)}}
        self.request = {**self._plan.base, "response_format": constraint}

    def _ask_words(self, bans: list[list[Any]]) -> None:
        self._reader = None
        request = {**self._plan.words, **self._plan.base}
        if self._plan.answer is not None:
            request["response_format"] = self._plan.answer
        elif bans:
            request["logit_bias"] = [*request.get("logit_bias", ()), *bans]
        self.request = request

    # -- events -------------------------------------------------------------------------------------------------------

    def _read(self, delta: Mapping[str, Any]) -> list[AIMessageChunk]:
        chunks: list[AIMessageChunk] = []
        thought, text, calls = delta.get("reasoning_content"), delta.get("content"), delta.get("tool_calls")
        if thought:
            chunks += self._piece("reasoning", thought)
        if text:
            if self._reader is None:
                chunks += self._piece("text", text)
            else:
                chunks += self._call_chunks(self._reader.feed(text))
        if calls:
            chunks += self._call_chunks([_native(call) for call in cast("list[dict[str, Any]]", calls)])
        return chunks

    def _piece(self, kind: str, text: str) -> list[AIMessageChunk]:
        """Text alone is a string; after reasoning, everything is blocks told apart by their index."""
        if kind == "text" and self._index < 0:
            return [AIMessageChunk(text)]
        if kind != self._kind:
            self._kind = kind
            self._index += 1
        return [AIMessageChunk(cast(Any, [{"type": kind, kind: text, "index": self._index}]))]

    def _call_chunks(self, pieces: list[dict[str, Any]]) -> list[AIMessageChunk]:
        if not pieces:
            return []
        self._called = True
        return [AIMessageChunk(tool_call_chunks=cast(Any, pieces))]

    def _last(self, finish: str) -> AIMessageChunk:
        usage = self._usage
        if usage is not None and self._cached is not None:
            usage = {**usage, "prompt_tokens_details": {"cached_tokens": self._cached}}
        metadata = metadata_of(
            {"model": self._plan.model_name, **self._facts},
            {},
            who={"provider": "local"},
            word=finish_word(finish, calls=self._called, refused=False, said=True),
            raw=finish,
            usage=usage,
        )
        return AIMessageChunk(response_metadata=metadata, usage_metadata=usage_of(usage), chunk_position="last")


def _cached_tokens(usage: Mapping[str, Any] | None) -> int | None:
    details: Mapping[str, Any] = (usage or {}).get("prompt_tokens_details") or {}
    return details.get("cached_tokens")


def _native(call: Mapping[str, Any]) -> dict[str, Any]:
    """A piece of a call that the engine itself found in the answer."""
    function: Mapping[str, Any] = call.get("function") or {}
    return {
        "name": function.get("name"),
        "args": function.get("arguments") or "",
        "id": call.get("id"),
        "index": call.get("index", 0),
        "type": "tool_call_chunk",
    }


def _as_error(error: Any, model_name: str) -> ModelError:
    told = cast("Mapping[str, Any]", error if isinstance(error, Mapping) else {"message": str(error)})
    words, code = str(told.get("message") or "no reason given"), told.get("code")
    if told.get("type") == "exceed_context_size_error":
        tokens, room = told.get("n_prompt_tokens"), told.get("n_ctx")
        return ContextLengthError(
            f"the conversation has {tokens} tokens, and {model_name} was loaded for {room}: "
            f"make it shorter (trim_messages), or give ChatLocal a larger n_ctx",
            status_code=400,
            body=dict(told),
        )
    kind = ServerError if isinstance(code, int) and code >= 500 else BadRequestError
    status = code if isinstance(code, int) else None
    return kind(f"{model_name} (llama.cpp): {words}", status_code=status, retryable=False, body=dict(told))
