"""The methods a user's model class has, and messages out of whatever they return.

A class written for LangChain's protocol has `_generate(messages, stop, run_manager, **kwargs) -> ChatResult` and
`_stream(...)` yielding `ChatGenerationChunk`; a class written for us may leave out what it does not need and return
messages, chunks or strings. Each method may be plain or asynchronous. Signatures are read once for each class.
What a user's method returns is never changed: a message that needs an id is copied.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from loopwright.errors import InvalidResponseError, UsageError
from loopwright.messages import AIMessage, AIMessageChunk, message_chunk_to_message, with_id
from loopwright.messages.plain import json_text
from loopwright.messages.usage import total_of
from loopwright.models.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

__all__ = ["Method", "Methods", "chunk_of", "message_of", "methods_of", "settled"]


class Method(NamedTuple):
    """One method of a user's, and how to call it."""

    name: str
    takes_stop: bool
    takes_run_manager: bool
    takes_rest: bool
    """Whether it has `**kwargs`."""
    parameters: frozenset[str]
    bare: dict[str, Any]
    """The keyword arguments of a call that has none of its own."""

    def arguments(self, model: Any, stop: list[str] | None, kwargs: dict[str, Any]) -> dict[str, Any]:
        """The keyword arguments of one call, to be read only. Raises `UsageError` for one the method cannot take."""
        if not kwargs and stop is None:
            return self.bare
        given = dict(kwargs)
        if self.takes_stop or stop is not None:
            given["stop"] = stop
        if self.takes_run_manager:
            given["run_manager"] = None
        if not self.takes_rest and not given.keys() <= self.parameters:
            unknown = ", ".join(sorted(given.keys() - self.parameters))
            raise UsageError(f"{type(model).__name__}.{self.name} does not take {unknown}: give it **kwargs")
        return given


class Methods(NamedTuple):
    """What a class can do."""

    generate: Method | None
    agenerate: Method | None
    stream: Method | None
    astream: Method | None
    has_streaming_field: bool
    """Whether the class has a field `streaming`, by which its user chooses that `invoke` streams too."""

    can_generate: bool
    can_stream: bool


_known: dict[type, Methods] = {}


def methods_of(cls: type) -> Methods:
    """Read when the class is first used."""
    found = _known.get(cls)
    if found is None:
        found = _known[cls] = _read_methods(cls)
    return found


def _read_methods(cls: type) -> Methods:
    plain: dict[str, Method] = {}
    coro: dict[str, Method] = {}
    for name in ("_generate", "_agenerate", "_stream", "_astream"):
        function = getattr(cls, name, None)
        if function is not None:
            kind = "stream" if name.endswith("stream") else "generate"
            world = coro if _is_async(function) else plain
            if kind not in world or not name.startswith("_a"):
                world[kind] = _method(name, function)
    chosen = "streaming" in getattr(cls, "model_fields", ())
    generate, agenerate = plain.get("generate"), coro.get("generate")
    stream, astream = plain.get("stream"), coro.get("stream")
    return Methods(
        generate,
        agenerate,
        stream,
        astream,
        chosen,
        can_generate=generate is not None or agenerate is not None,
        can_stream=stream is not None or astream is not None,
    )


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def _method(name: str, function: Callable[..., Any]) -> Method:
    parameters = inspect.signature(function).parameters
    rest = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    bare = dict.fromkeys(name for name in ("stop", "run_manager") if name in parameters)
    return Method(name, "stop" in parameters, "run_manager" in parameters, rest, frozenset(parameters), bare)


# -- results --------------------------------------------------------------------------------------------------------


def message_of(result: Any, model: Any) -> AIMessage:
    """The answer in what `_generate` returned."""
    if result.__class__ is AIMessage:
        return result
    if result.__class__ is ChatResult or hasattr(result, "generations"):
        answer = _first_generation(result, model)
    elif isinstance(result, AIMessage):
        answer = result
    elif isinstance(result, str):
        answer = AIMessage(result)
    else:
        words = f"{type(model).__name__}._generate returned {type(result).__name__}, not an AIMessage or a ChatResult"
        raise InvalidResponseError(words)
    return cast(AIMessage, message_chunk_to_message(answer)) if isinstance(answer, AIMessageChunk) else answer


def _first_generation(result: ChatResult, model: Any) -> AIMessage:
    if not result.generations:
        raise InvalidResponseError(f"{type(model).__name__}._generate returned a ChatResult without generations")
    generation: ChatGeneration = result.generations[0]
    message = generation.message
    if not isinstance(message, AIMessage):
        words = f"{type(model).__name__}._generate answered with a {type(message).__name__}, not an AIMessage"
        raise InvalidResponseError(words)
    if not result.llm_output and not generation.generation_info:
        return message
    more = {**(result.llm_output or {}), **(generation.generation_info or {})}
    return message.model_copy(update={"response_metadata": {**more, **message.response_metadata}})


def chunk_of(item: Any) -> AIMessageChunk:
    """The piece of an answer in what `_stream` yielded."""
    if isinstance(item, ChatGenerationChunk) or hasattr(item, "generation_info"):
        chunk = chunk_of(item.message)
        info: dict[str, Any] | None = item.generation_info
        if info:
            chunk = chunk.model_copy(update={"response_metadata": {**info, **chunk.response_metadata}})
        return chunk
    if isinstance(item, AIMessageChunk):
        return item
    if isinstance(item, str):
        return AIMessageChunk(item)
    if isinstance(item, AIMessage):
        return _as_chunk(item)
    raise InvalidResponseError(
        f"_stream yielded {type(item).__name__}, not an AIMessageChunk, a ChatGenerationChunk or text"
    )


def _as_chunk(message: AIMessage) -> AIMessageChunk:
    """A whole message as the only piece of its stream."""
    pieces: list[Any] = [
        {
            "type": "tool_call_chunk",
            "name": call["name"],
            "args": json_text(call["args"]),
            "id": call.get("id"),
            "index": index,
        }
        for index, call in enumerate(message.tool_calls)
    ]
    return AIMessageChunk(
        message.content,
        message.additional_kwargs,
        message.response_metadata,
        message.name,
        message.id,
        invalid_tool_calls=message.invalid_tool_calls,
        usage_metadata=message.usage_metadata,
        tool_call_chunks=pieces,
    )


def settled(message: AIMessage, new_id: Callable[[], str]) -> AIMessage:
    """The answer as everybody may rely on it: with an id, and a usage whose total is there."""
    usage: Any = message.usage_metadata
    if usage is not None and usage.get("total_tokens") is None:
        total = total_of(usage)
        message = message.model_copy(update={"usage_metadata": {**usage, "total_tokens": total}})
    return message if message.id is not None else with_id(message, new_id())
