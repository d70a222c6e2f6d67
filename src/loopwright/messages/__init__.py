"""Messages: what people, models and tools say, in plain immutable data.

What every agent needs is imported here and now. Names in `_LAZY` are imported when somebody asks for them, which
keeps the start of a program short.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loopwright.messages.base import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    BaseMessageChunk,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    HumanMessageChunk,
    MessageContent,
    RemoveMessage,
    SystemMessage,
    SystemMessageChunk,
    ToolMessage,
    ToolMessageChunk,
    UnknownMessage,
    with_id,
)
from loopwright.messages.chunks import merge_chunks, message_chunk_to_message
from loopwright.messages.convert import (
    MessageLikeRepresentation,
    convert_to_messages,
    get_buffer_string,
    message_to_dict,
    messages_from_dict,
    messages_to_dict,
)
from loopwright.messages.history import REMOVE_ALL_MESSAGES, Buffer, History, add_messages
from loopwright.messages.pairing import calls_of, find_broken_pair, repair_history
from loopwright.messages.usage import add_usage

if TYPE_CHECKING:
    from loopwright.messages.blocks import (
        Annotation,
        AudioContentBlock,
        Citation,
        ContentBlock,
        DataContentBlock,
        FileContentBlock,
        ImageContentBlock,
        InputTokenDetails,
        InvalidToolCall,
        NonStandardAnnotation,
        NonStandardContentBlock,
        OutputTokenDetails,
        PlainTextContentBlock,
        ReasoningContentBlock,
        RefusalContentBlock,
        ServerToolCall,
        ServerToolCallChunk,
        ServerToolResult,
        TextContentBlock,
        ToolCall,
        ToolCallChunk,
        UsageMetadata,
        VideoContentBlock,
    )
    from loopwright.messages.calls import parse_arguments
    from loopwright.messages.codec import decode_messages, encode_messages, register_message_class
    from loopwright.messages.count import count_tokens_approximately
    from loopwright.messages.fields import AnyMessage
    from loopwright.messages.openai_form import convert_from_openai_messages, convert_to_openai_messages
    from loopwright.messages.select import filter_messages, merge_message_runs
    from loopwright.messages.trim import trim_messages

__all__ = [
    "REMOVE_ALL_MESSAGES",
    "AIMessage",
    "AIMessageChunk",
    "Annotation",
    "AnyMessage",
    "AudioContentBlock",
    "BaseMessage",
    "BaseMessageChunk",
    "Buffer",
    "ChatMessage",
    "Citation",
    "ContentBlock",
    "DataContentBlock",
    "FileContentBlock",
    "FunctionMessage",
    "History",
    "HumanMessage",
    "HumanMessageChunk",
    "ImageContentBlock",
    "InputTokenDetails",
    "InvalidToolCall",
    "MessageContent",
    "MessageLikeRepresentation",
    "NonStandardAnnotation",
    "NonStandardContentBlock",
    "OutputTokenDetails",
    "PlainTextContentBlock",
    "ReasoningContentBlock",
    "RefusalContentBlock",
    "RemoveMessage",
    "ServerToolCall",
    "ServerToolCallChunk",
    "ServerToolResult",
    "SystemMessage",
    "SystemMessageChunk",
    "TextContentBlock",
    "ToolCall",
    "ToolCallChunk",
    "ToolMessage",
    "ToolMessageChunk",
    "UnknownMessage",
    "UsageMetadata",
    "VideoContentBlock",
    "add_messages",
    "add_usage",
    "calls_of",
    "convert_from_openai_messages",
    "convert_to_messages",
    "convert_to_openai_messages",
    "count_tokens_approximately",
    "decode_messages",
    "encode_messages",
    "filter_messages",
    "find_broken_pair",
    "get_buffer_string",
    "merge_chunks",
    "merge_message_runs",
    "message_chunk_to_message",
    "message_to_dict",
    "messages_from_dict",
    "messages_to_dict",
    "parse_arguments",
    "register_message_class",
    "repair_history",
    "trim_messages",
    "with_id",
]

_LAZY = {
    "Annotation": "blocks",
    "AudioContentBlock": "blocks",
    "Citation": "blocks",
    "ContentBlock": "blocks",
    "DataContentBlock": "blocks",
    "FileContentBlock": "blocks",
    "ImageContentBlock": "blocks",
    "InputTokenDetails": "blocks",
    "InvalidToolCall": "blocks",
    "NonStandardAnnotation": "blocks",
    "NonStandardContentBlock": "blocks",
    "OutputTokenDetails": "blocks",
    "PlainTextContentBlock": "blocks",
    "ReasoningContentBlock": "blocks",
    "RefusalContentBlock": "blocks",
    "ServerToolCall": "blocks",
    "ServerToolCallChunk": "blocks",
    "ServerToolResult": "blocks",
    "TextContentBlock": "blocks",
    "ToolCall": "blocks",
    "ToolCallChunk": "blocks",
    "UsageMetadata": "blocks",
    "VideoContentBlock": "blocks",
    "parse_arguments": "calls",
    "decode_messages": "codec",
    "encode_messages": "codec",
    "register_message_class": "codec",
    "count_tokens_approximately": "count",
    "AnyMessage": "fields",
    "convert_from_openai_messages": "openai_form",
    "convert_to_openai_messages": "openai_form",
    "filter_messages": "select",
    "merge_message_runs": "select",
    "trim_messages": "trim",
}
"""Name -> the module of this room that has it."""


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'loopwright.messages' has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f"loopwright.messages.{module}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
