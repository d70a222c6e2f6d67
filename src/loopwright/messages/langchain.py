"""Messages on their way to a LangChain object, and how such an object is known. The way back is `convert.py`.

Rules:

- LangChain is imported here when a message goes out, and by nothing else: whoever has an object of its has it already;
- an object is known by the classes it derives from, by name, so that looking at one imports nothing;
- nothing is lost on the way and back: ids, blocks, signatures, artifacts, metadata, usage, unknown fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from loopwright.messages.base import AIMessage, AIMessageChunk, BaseMessage
from loopwright.messages.meta import stored_fields
from loopwright.messages.plain import is_dict, is_list

__all__ = ["ended_by", "is_langchain", "messages_in", "to_langchain"]

_CLASSES: Final = {
    "human": "HumanMessage",
    "ai": "AIMessage",
    "system": "SystemMessage",
    "tool": "ToolMessage",
    "function": "FunctionMessage",
    "chat": "ChatMessage",
    "remove": "RemoveMessage",
    "AIMessageChunk": "AIMessageChunk",
    "HumanMessageChunk": "HumanMessageChunk",
    "SystemMessageChunk": "SystemMessageChunk",
    "ToolMessageChunk": "ToolMessageChunk",
}


def is_langchain(value: object, name: str) -> bool:
    """Whether `value` is an instance of that class of `langchain_core` or `langgraph`, or of one derived from it."""
    return any(
        kind.__name__ == name and kind.__module__.partition(".")[0] in ("langchain_core", "langgraph")
        for kind in type(value).__mro__
    )


def to_langchain(messages: Sequence[BaseMessage]) -> list[Any]:
    """The same conversation in LangChain's classes."""
    return [_theirs(message) for message in messages]


def ended_by(metadata: Mapping[str, Any]) -> str | None:
    """The provider's own word for how an answer ended, from where its integration keeps it."""
    details = metadata.get("incomplete_details")
    if is_dict(details) and details.get("reason"):
        return str(details["reason"])
    for key in ("finish_reason", "stop_reason", "stopReason", "done_reason", "status"):
        if isinstance(metadata.get(key), str):
            return metadata[key]
    return None


def messages_in(value: Any) -> Any:
    """A state with its lists of messages in LangChain's classes; all else as it is."""
    if not is_dict(value):
        return value
    return {key: to_langchain(item) if _is_conversation(item) else item for key, item in value.items()}


def _is_conversation(value: Any) -> bool:
    return is_list(value) and bool(value) and all(isinstance(item, BaseMessage) for item in value)


def _theirs(message: BaseMessage) -> Any:
    from langchain_core import messages as theirs

    fields = stored_fields(message)
    fields.update(fields.pop("extra", {}))
    fields.pop("type", None)
    if isinstance(message, AIMessage):
        _as_they_say(message, fields)
    cls: Any = getattr(theirs, _CLASSES.get(message.type, "ChatMessage"))
    if message.type not in _CLASSES:
        fields["role"] = message.type
    if message.type == "remove":
        return cls(id=message.id)
    return cls(**{"content": "", **fields})


def _as_they_say(message: AIMessage, fields: dict[str, Any]) -> None:
    """An answer's metadata in LangChain's words, its blocks in a form that any provider's class reads."""
    metadata = dict(message.response_metadata)
    said = metadata.pop("raw_finish_reason", None)
    if "model_provider" in metadata:  # it came from there: what we have added goes, what we have changed goes back
        metadata.pop("provider", None)
        if metadata.get("token_usage") == metadata.get("usage"):
            metadata.pop("token_usage", None)
        metadata.pop("finish_reason", None)
        if said != ended_by(metadata):
            metadata["finish_reason"] = said
    elif isinstance(message.content, list):
        fields["content"] = [dict(cast("dict[str, Any]", block)) for block in message.content_blocks]
        metadata["output_version"] = "v1"
    if metadata:
        fields["response_metadata"] = metadata
    else:
        fields.pop("response_metadata", None)
    if isinstance(message, AIMessageChunk) and message.tool_call_chunks:
        fields.pop("tool_calls", None)
