"""Choosing among messages, and joining neighbours: `filter_messages` and `merge_message_runs`.

Without messages, each of them (and `trim_messages`) returns a `MessageStep`: the same function waiting for its
messages, to be called or invoked later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast, overload

from msgspec import structs

from loopwright.messages.base import AIMessage, BaseMessage, ToolMessage
from loopwright.messages.convert import convert_to_messages
from loopwright.messages.usage import add_usage

__all__ = ["MessageStep", "MessageTypes", "filter_messages", "is_of_type", "merge_message_runs"]

MessageTypes: TypeAlias = str | type[BaseMessage] | Sequence[str | type[BaseMessage]]
"""`"human"`, `HumanMessage`, or several of them."""


class MessageStep:
    """A function of messages, ready to be called on them."""

    def __init__(self, function: Callable[..., list[BaseMessage]], options: dict[str, Any]) -> None:
        self.function = function
        self.options = options

    def __call__(self, messages: Any) -> list[BaseMessage]:
        return self.function(messages, **self.options)

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> list[BaseMessage]:
        """Call it, as models and agents are called. `config` changes nothing."""
        return self.function(input, **{**self.options, **kwargs})

    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> list[BaseMessage]:
        """The same for async code; nothing in it waits."""
        return self.invoke(input, config, **kwargs)

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        return f"{self.function.__name__}({options})"


def is_of_type(message: BaseMessage, types: MessageTypes) -> bool:
    """Whether a message is of one of these types; a chunk is of the type of its message."""
    if isinstance(types, (str, type)):
        types = (types,)
    kind = message.type
    kinds = (kind, kind.removesuffix("MessageChunk").lower())
    return any(isinstance(message, one) if isinstance(one, type) else one in kinds for one in types)


@overload
def filter_messages(
    messages: None = None,
    *,
    include_names: Sequence[str] | None = None,
    exclude_names: Sequence[str] | None = None,
    include_types: MessageTypes | None = None,
    exclude_types: MessageTypes | None = None,
    include_ids: Sequence[str] | None = None,
    exclude_ids: Sequence[str] | None = None,
    exclude_tool_calls: Sequence[str] | bool | None = None,
) -> MessageStep: ...
@overload
def filter_messages(
    messages: Any,
    *,
    include_names: Sequence[str] | None = None,
    exclude_names: Sequence[str] | None = None,
    include_types: MessageTypes | None = None,
    exclude_types: MessageTypes | None = None,
    include_ids: Sequence[str] | None = None,
    exclude_ids: Sequence[str] | None = None,
    exclude_tool_calls: Sequence[str] | bool | None = None,
) -> list[BaseMessage]: ...
def filter_messages(
    messages: Any = None,
    *,
    include_names: Sequence[str] | None = None,
    exclude_names: Sequence[str] | None = None,
    include_types: MessageTypes | None = None,
    exclude_types: MessageTypes | None = None,
    include_ids: Sequence[str] | None = None,
    exclude_ids: Sequence[str] | None = None,
    exclude_tool_calls: Sequence[str] | bool | None = None,
) -> Any:
    """The messages that some `include_` admits (all, if there is none) and no `exclude_` shuts out.

    `exclude_tool_calls=True` leaves out AI messages with calls and all results; a list of call ids leaves out
    these calls and their results, and an AI message that loses its last call this way.
    """
    if messages is None:
        options = {name: value for name, value in locals().items() if name != "messages" and value is not None}
        return MessageStep(filter_messages, options)
    kept: list[BaseMessage] = []
    everyone = include_names is None and include_types is None and include_ids is None
    for message in convert_to_messages(messages):
        if (
            (exclude_names is not None and message.name in exclude_names)
            or (exclude_types is not None and is_of_type(message, exclude_types))
            or (exclude_ids is not None and message.id in exclude_ids)
        ):
            continue
        rest = _without_calls(message, exclude_tool_calls) if exclude_tool_calls else message
        if rest is not None and (
            everyone
            or (include_names is not None and rest.name in include_names)
            or (include_types is not None and is_of_type(rest, include_types))
            or (include_ids is not None and rest.id in include_ids)
        ):
            kept.append(rest)
    return kept


def _without_calls(message: BaseMessage, excluded: Sequence[str] | bool) -> BaseMessage | None:
    if isinstance(message, ToolMessage):
        return None if excluded is True or message.tool_call_id in cast("Sequence[str]", excluded) else message
    if not isinstance(message, AIMessage) or not message.tool_calls:
        return message
    if excluded is True:
        return None
    ids = set(cast("Sequence[str]", excluded))
    calls = [call for call in message.tool_calls if call["id"] not in ids]
    if len(calls) == len(message.tool_calls):
        return message
    if not calls:
        return None
    content = message.content
    if isinstance(content, list):
        content = [item for item in content if isinstance(item, str) or not ids & {item.get("id"), item.get("call_id")}]
    return structs.replace(message, tool_calls=calls, content=content)


@overload
def merge_message_runs(messages: None = None, *, chunk_separator: str = "\n") -> MessageStep: ...
@overload
def merge_message_runs(messages: Any, *, chunk_separator: str = "\n") -> list[BaseMessage]: ...
def merge_message_runs(messages: Any = None, *, chunk_separator: str = "\n") -> Any:
    """Messages of one class and name that follow each other, as one with the first one's id; results stay apart."""
    if messages is None:
        return MessageStep(merge_message_runs, {"chunk_separator": chunk_separator})
    merged: list[BaseMessage] = []
    for message in convert_to_messages(messages):
        last = merged[-1] if merged else None
        if (
            last is None
            or isinstance(message, ToolMessage)
            or type(last) is not type(message)
            or last.name != message.name
        ):
            merged.append(message)
        else:
            merged[-1] = _joined(last, message, chunk_separator)
    return merged


def _joined(left: BaseMessage, right: BaseMessage, separator: str) -> BaseMessage:
    changes: dict[str, Any] = {
        "content": _joined_contents(left.content, right.content, separator),
        "additional_kwargs": {**left.additional_kwargs, **right.additional_kwargs},
        "response_metadata": {**left.response_metadata, **right.response_metadata},
        "extra": {**left.extra, **right.extra},
    }
    if isinstance(left, AIMessage) and isinstance(right, AIMessage):
        changes["tool_calls"] = [*left.tool_calls, *right.tool_calls]
        changes["invalid_tool_calls"] = [*left.invalid_tool_calls, *right.invalid_tool_calls]
        changes["usage_metadata"] = add_usage(left.usage_metadata, right.usage_metadata)
    return structs.replace(left, **changes)


def _joined_contents(left: Any, right: Any, separator: str) -> Any:
    if isinstance(left, str) and isinstance(right, str):
        return f"{left}{separator}{right}" if left and right else left or right
    return [*_as_blocks(left), *_as_blocks(right)]


def _as_blocks(content: Any) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content
