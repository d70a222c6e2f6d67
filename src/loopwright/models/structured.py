"""`with_structured_output`: a model call whose answer is an instance of a schema.

Three ways to ask: a tool whose arguments are the schema, the provider's JSON schema output, the provider's JSON mode.
An answer that does not fit raises `OutputParserException`, which names the schema and the field; with `include_raw`
it is returned beside the message instead. An answer in words where data was asked for is an error, never None.

A reader of `stream` gets what has come so far, as dictionaries (`partial.py` says what counts), then the answer itself.
"""

from __future__ import annotations

import json
from typing import Any, Generic, TypedDict, TypeVar, cast

from loopwright import schema as schemas
from loopwright.errors import OutputParserException, UsageError
from loopwright.messages import AIMessage, AIMessageChunk, BaseMessage
from loopwright.models.like import ChatCall, ModelLike, OnChunk
from loopwright.models.partial import GrowingAnswer
from loopwright.port import Port
from loopwright.scope import RunnableConfig

__all__ = ["RawAnswer", "StructuredModel", "structured"]

Out = TypeVar("Out")

_METHODS = ("function_calling", "json_schema", "json_mode")


class RawAnswer(TypedDict):
    """What a call with `include_raw=True` answers."""

    raw: AIMessage | None
    """None while the answer grows."""
    parsed: Any
    """The instance; while it grows, the part that has come; None if the answer did not fit."""
    parsing_error: Exception | None


class StructuredModel(ChatCall[Out], Generic[Out]):
    """A chat model that answers with data."""

    def __init__(self, bound: ModelLike, schema: Any, *, method: str, include_raw: bool) -> None:
        self.bound = bound
        self.schema = schema
        self.method = method
        self.include_raw = include_raw

    def __repr__(self) -> str:
        return f"StructuredModel({self.bound!r}, {schemas.schema_name(self.schema)})"

    def call_config(self, config: RunnableConfig) -> RunnableConfig:
        return self.bound.call_config(config)

    async def respond(
        self,
        port: Port,
        messages: list[BaseMessage],
        *,
        stop: list[str] | None = None,
        kwargs: dict[str, Any],
        config: RunnableConfig,
        on_chunk: OnChunk | None = None,
    ) -> Out:
        if on_chunk is None:
            return self._result(await self.bound.perform(port, messages, stop, kwargs, config, None))
        put: Any = on_chunk
        named = {schemas.schema_name(self.schema): self.schema}
        growing = GrowingAnswer(named, in_text=self.method != "function_calling")

        def take(chunk: AIMessageChunk) -> None:
            value = growing.take(chunk)
            if value is not None:
                put(RawAnswer(raw=None, parsed=value, parsing_error=None) if self.include_raw else value)

        result = self._result(await self.bound.perform(port, messages, stop, kwargs, config, take))
        put(result)
        return result

    def _result(self, answer: AIMessage) -> Out:
        if not self.include_raw:
            return self._parse(answer)
        raw = RawAnswer(raw=answer, parsed=None, parsing_error=None)
        try:
            raw["parsed"] = self._parse(answer)
        except OutputParserException as error:
            cause = error.__cause__
            raw["parsing_error"] = cause if isinstance(cause, ValueError) else error
        return cast(Out, raw)

    def _parse(self, answer: AIMessage) -> Any:
        """Raises `OutputParserException`."""
        name = schemas.schema_name(self.schema)
        data = _called_with(answer, name) if self.method == "function_calling" else None
        if data is None:
            data = _json_in(answer, name)
        try:
            return schemas.validate(self.schema, data)
        except Exception as error:  # a validator of the user's may raise anything
            raise OutputParserException(
                f"The answer does not fit {name}: {_reasons(error)}. It was {data!r}."
            ) from error


def structured(
    model: ModelLike, schema: Any, *, include_raw: bool, method: str | None, kwargs: dict[str, Any]
) -> StructuredModel[Any]:
    """Ask `model` for `schema`. `kwargs` are for the model; `strict` belongs to the schema."""
    method = method or "function_calling"
    name, description = schemas.schema_name(schema), schemas.schema_description(schema)
    strict = kwargs.pop("strict", None)
    function: dict[str, Any] = {"name": name}
    if description:
        function["description"] = description
    if method == "function_calling":
        function["parameters"] = schemas.answer_schema(schema)
        choice = kwargs.pop("tool_choice", "any")
    elif method == "json_schema":
        function["schema"] = schemas.answer_schema(schema)
        choice = None
    elif method == "json_mode":
        return StructuredModel(
            model.bind(response_format={"type": "json_object"}, **kwargs),
            schema,
            method=method,
            include_raw=include_raw,
        )
    else:
        raise UsageError(f"method={method!r} is none of {', '.join(map(repr, _METHODS))}")
    if strict is not None:
        function["strict"] = strict
    if choice is not None:
        bound = model.bind_tools([{"type": "function", "function": function}], tool_choice=choice, **kwargs)
    else:
        bound = model.bind(response_format={"type": "json_schema", "json_schema": function}, **kwargs)
    return StructuredModel(bound, schema, method=method, include_raw=include_raw)


def _called_with(answer: AIMessage, name: str) -> dict[str, Any] | None:
    """The arguments of the call that was asked for; None if the model answered in words."""
    for call in answer.tool_calls:
        if call["name"] == name:
            return call["args"]
    for broken in answer.invalid_tool_calls:
        if broken.get("name") == name:
            raise OutputParserException(f"The arguments for {name} are no JSON object: {broken.get('args')!r}.")
    return None


def _json_in(answer: AIMessage, name: str) -> Any:
    """The JSON that a text is, a code fence around it taken off."""
    text = answer.text.strip()
    if text.startswith("```"):
        text = text.partition("\n")[2].rpartition("```")[0].strip()
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        said = repr(text) if len(text) <= 200 else f"{text[:200]!r}..."
        reason = answer.response_metadata.get("finish_reason")
        ended = f" (it ended with {reason!r})" if reason not in (None, "stop", "tool_calls") else ""
        words = f"The model was asked for {name} and answered {said if text else 'nothing'}{ended}."
        raise OutputParserException(words) from None


def _reasons(error: Exception) -> str:
    """Each field and what is wrong with it, from pydantic's error."""
    listed: Any = getattr(error, "errors", None)
    if not callable(listed):
        return str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
    parts: list[str] = []
    for one in cast("list[Any]", listed(include_url=False, include_context=False, include_input=False)):
        where = ".".join(str(step) for step in one["loc"])
        parts.append(f"{where}: {one['msg']}" if where else str(one["msg"]))
    return "; ".join(parts)
