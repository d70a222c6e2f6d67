"""A chat model that says what a script tells it to, and minds what it is asked.

    model = ScriptedModel(call("weather", {"city": "Oslo"}), say("Sunny.", usage=(12, 3)))

One item of the script is one answer: text, a `say(...)`, one or several `call(...)`s or a `use(...)`, an `AIMessage`, a
list of chunks, an exception to raise, or a function of the messages that returns any of these. Rules, each of which
fails a test in words:

- every history the model is given must be valid: each tool call answered, right after it, once;
- it may only call tools that it was told of;
- its script must not run out.

It is safe to use from many threads and tasks at once; each takes the next item. Delays go through the port, so a
`ManualClock` makes them free.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, NamedTuple, TypeAlias, cast

from pydantic import PrivateAttr

from loopwright.errors import UsageError
from loopwright.messages import AIMessage, AIMessageChunk, BaseMessage, ToolCall
from loopwright.messages.pairing import check_pairs
from loopwright.messages.plain import json_text
from loopwright.models.base import BaseChatModel
from loopwright.port import Port

__all__ = ["Reply", "Request", "ScriptItem", "ScriptedModel", "call", "say", "use"]


class Reply(NamedTuple):
    """One answer of a script, spelled out. `say` and `use` make it."""

    message: AIMessage | None = None
    chunks: Sequence[Any] | None = None
    """The pieces a reader gets: text, chunks, or an exception that breaks the stream there."""
    error: BaseException | None = None
    delay_s: float = 0.0
    """Seconds before the answer, or before its first piece."""
    chunk_delay_s: float = 0.0
    """Seconds before each further piece."""


ScriptItem: TypeAlias = (
    "str | AIMessage | ToolCall | Reply | BaseException | Sequence[Any] | Callable[[list[BaseMessage]], Any]"
)


class Request(NamedTuple):
    """What the model was asked once."""

    messages: list[BaseMessage]
    kwargs: dict[str, Any]
    """Everything beside the messages, as the model got it."""
    stop: list[str] | None

    @property
    def tools(self) -> list[Any]:
        """The tools the model was told of, in the form it was told."""
        return self.kwargs.get("tools") or []

    @property
    def tool_names(self) -> list[str]:
        return [_tool_name(tool) for tool in self.tools]

    @property
    def tool_choice(self) -> Any:
        return self.kwargs.get("tool_choice")


def say(
    text: str | list[Any] = "",
    *,
    chunks: Sequence[Any] | None = None,
    usage: tuple[int, int] | dict[str, Any] | None = None,
    id: str | None = None,
    response_metadata: dict[str, Any] | None = None,
    delay_s: float = 0.0,
    chunk_delay_s: float = 0.0,
) -> Reply:
    """A plain answer. `chunks`: its pieces, else its words. `usage`: tokens as `(input, output)` or the dictionary."""
    if chunks is not None and not text:
        text = "".join(piece for piece in chunks if isinstance(piece, str))
    message = AIMessage(text, usage_metadata=_usage(usage), id=id, response_metadata=response_metadata)
    return Reply(message, chunks, delay_s=delay_s, chunk_delay_s=chunk_delay_s)


def call(name: str, args: dict[str, Any] | None = None, /, id: str | None = None, **more: Any) -> ToolCall:
    """A tool call: `call("add", {"a": 1})` or `call("add", a=1)`. Without an id the model gives it one of its own.

    By keyword, `name` and `args` are arguments of the tool like any other; `id` is the call's. An argument of that
    name goes into the dict: `call("greet", {"id": "5"})`.
    """
    return ToolCall(name=name, args={**(args or {}), **more}, id=id, type="tool_call")


def use(
    *calls: ToolCall,
    text: str | list[Any] = "",
    chunks: Sequence[Any] | None = None,
    usage: tuple[int, int] | dict[str, Any] | None = None,
    invalid: Sequence[Any] | None = None,
    id: str | None = None,
    delay_s: float = 0.0,
    chunk_delay_s: float = 0.0,
) -> Reply:
    """An answer that calls tools, with words before the calls if you like. `invalid`: calls that do not parse."""
    message = AIMessage(text, tool_calls=list(calls), invalid_tool_calls=invalid, usage_metadata=_usage(usage), id=id)
    return Reply(message, chunks, delay_s=delay_s, chunk_delay_s=chunk_delay_s)


class ScriptedModel(BaseChatModel):
    """A model that answers from a script, one argument after the other: `ScriptedModel("one", "two")`."""

    loop: bool = False
    """Begin anew when the script is over, instead of failing."""
    check_tools: bool = True
    """Fail when the script calls a tool that was not bound. Turn it off to play a model that makes one up."""
    check_history: bool = True
    """Fail when a history is not valid."""

    _script: list[Any] = PrivateAttr(default_factory=list[Any])
    _requests: list[Request] = PrivateAttr(default_factory=list[Request])
    _in_order: tuple[list[BaseMessage], int] = PrivateAttr(default=([], 0))
    """The messages that were looked at last, and how many of them need not be looked at again."""
    _lock: Any = PrivateAttr(default_factory=Lock)

    def __init__(self, *script: ScriptItem, **fields: Any) -> None:
        super().__init__(**fields)
        self._script = list(script)

    @property
    def requests(self) -> list[Request]:
        """Every request so far, oldest first."""
        return self._requests

    @property
    def left(self) -> int:
        """How many items of the script have not been asked for; `assert model.left == 0` ends many a test."""
        return max(0, len(self._script) - len(self._requests))

    @property
    def _llm_type(self) -> str:
        return "scripted"

    async def answer(
        self,
        port: Port,
        messages: list[BaseMessage],
        *,
        stop: list[str] | None,
        kwargs: dict[str, Any],
        take: Callable[[Any], AIMessageChunk] | None,
    ) -> AIMessage | None:
        number, item = self._next(Request(list(messages), dict(kwargs), stop))
        if self.check_history:
            self._check_history(number, messages)
        reply = self._reply(item, messages, number)
        if reply.delay_s:
            await port.sleep(reply.delay_s)
        if reply.error is not None:
            raise reply.error
        assert reply.message is not None
        if self.check_tools:
            self._check_tools(number, reply.message)
        if take is None or not self._streams(kwargs):
            for piece in reply.chunks or ():
                if isinstance(piece, BaseException):
                    raise piece
            return reply.message
        first = True
        for piece in _pieces(reply):
            if reply.chunk_delay_s and not first:
                await port.sleep(reply.chunk_delay_s)
            first = False
            if isinstance(piece, BaseException):
                raise piece
            take(piece)
            await port.pause()
        return None

    def _next(self, request: Request) -> tuple[int, Any]:
        """Number of this request, from 1, and the script's item for it."""
        with self._lock:
            self._requests.append(request)
            number = len(self._requests)
        if number <= len(self._script):
            return number, self._script[number - 1]
        if self.loop and self._script:
            return number, self._script[(number - 1) % len(self._script)]
        raise AssertionError(
            f"The script has {len(self._script)} answers and was asked for number {number}. "
            f"The last messages were:\n{_tail(request.messages)}"
        )

    def _reply(self, item: Any, messages: list[BaseMessage], number: int) -> Reply:
        if callable(item) and not isinstance(item, type):
            return self._reply(item(messages), messages, number)
        if isinstance(item, Reply):
            reply = item
        elif isinstance(item, str):
            reply = say(item)
        elif isinstance(item, BaseException):
            reply = Reply(error=item)
        elif isinstance(item, type) and issubclass(cast("type[Any]", item), BaseException):
            reply = Reply(error=cast("type[BaseException]", item)())
        elif isinstance(item, AIMessage):
            reply = Reply(item)
        elif isinstance(item, dict):
            reply = use(cast(ToolCall, item))
        elif isinstance(item, (list, tuple)):
            parts: list[Any] = list(cast(Any, item))
            calls = bool(parts) and all(isinstance(part, dict) for part in parts)
            reply = use(*parts) if calls else _merged(parts)
        else:
            raise UsageError(
                f"item {number} of the script is {type(item).__name__}: give text, say(...), call(...), ..."
            )
        return reply._replace(message=_with_call_ids(reply.message, number)) if reply.message is not None else reply

    def _check_history(self, number: int, messages: list[BaseMessage]) -> None:
        known, start = self._in_order  # nearly every request goes on from the one before: a long thread is read once
        broken, sound = check_pairs(messages, start if messages[: len(known)] == known else 0, open_end=False)
        if broken is not None:
            raise AssertionError(f"Request {number} is no valid history: {broken}. It was:\n{_tail(messages, 12)}")
        self._in_order = self._requests[number - 1].messages, sound

    def _check_tools(self, number: int, message: AIMessage) -> None:
        bound = self._requests[number - 1].tool_names
        for one in message.tool_calls:
            if one["name"] not in bound:
                told = ", ".join(bound) or "none"
                raise AssertionError(
                    f"Answer {number} of the script calls the tool {one['name']!r}, and the model was told of {told}. "
                    "Give it the tool, or check_tools=False to play a model that makes one up."
                )


def _usage(usage: tuple[int, int] | dict[str, Any] | None) -> dict[str, Any] | None:
    if isinstance(usage, tuple):
        return {"input_tokens": usage[0], "output_tokens": usage[1], "total_tokens": usage[0] + usage[1]}
    return usage


def _merged(parts: list[Any]) -> Reply:
    """A list of chunks: what it adds up to, and the chunks themselves for a reader."""
    from loopwright.models.assemble import assembling

    take, finish = assembling(lambda: "", None)
    if any(isinstance(part, (Reply, dict)) or callable(part) for part in parts):
        raise UsageError("a list is one answer in chunks: give the script's items one by one, ScriptedModel(*items)")
    for part in parts:
        if not isinstance(part, BaseException):
            take(part)
    whole = finish() if any(not isinstance(part, BaseException) for part in parts) else AIMessage("")
    return Reply(whole.model_copy(update={"id": None}) if not whole.id else whole, parts)


def _with_call_ids(message: AIMessage, number: int) -> AIMessage:
    """Ids for calls that have none: `call_2_1` is the first of the second answer."""
    if all(one.get("id") for one in message.tool_calls):
        return message
    calls = [
        {**one, "id": one.get("id") or f"call_{number}_{position}"}
        for position, one in enumerate(message.tool_calls, start=1)
    ]
    return message.model_copy(update={"tool_calls": calls})


def _pieces(reply: Reply) -> list[Any]:
    """What a reader gets: the chunks that were written down, or the text word by word; then the calls and the usage."""
    message = cast(AIMessage, reply.message)
    pieces: list[Any]
    if reply.chunks is not None:
        pieces = list(reply.chunks)
        if any(isinstance(piece, AIMessageChunk) for piece in pieces):
            return pieces
    elif isinstance(message.content, str):
        pieces = re.findall(r"\S*\s*", message.content)
    else:
        pieces = [AIMessageChunk([block]) for block in message.content]
    if message.id is not None or message.additional_kwargs or message.response_metadata:
        head = AIMessageChunk("", message.additional_kwargs, message.response_metadata, message.name, message.id)
        pieces.insert(0, head)
    for index, one in enumerate(message.tool_calls):
        named = {"type": "tool_call_chunk", "name": one["name"], "args": "", "id": one.get("id"), "index": index}
        rest = {**named, "name": None, "id": None, "args": json_text(one["args"])}
        pieces += [AIMessageChunk(tool_call_chunks=[named]), AIMessageChunk(tool_call_chunks=[rest])]
    if message.invalid_tool_calls:
        pieces.append(AIMessageChunk(invalid_tool_calls=message.invalid_tool_calls))
    if message.usage_metadata is not None:
        pieces.append(AIMessageChunk(usage_metadata=message.usage_metadata))
    return [piece for piece in pieces if piece != ""] or [""]


def _tool_name(tool: Any) -> str:
    if isinstance(tool, dict):
        whole = cast("dict[str, Any]", tool)
        inner: dict[str, Any] = whole.get("function") or whole
        return str(inner.get("name") or inner.get("title") or inner.get("type"))
    return str(getattr(tool, "name", None) or getattr(tool, "__name__", tool))


def _tail(messages: list[BaseMessage], count: int = 3) -> str:
    return "\n".join(f"  {message!r}" for message in messages[-count:]) or "  (none)"
