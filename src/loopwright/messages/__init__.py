"""Messages: what people, models and tools say, in plain immutable data."""

from __future__ import annotations

from loopwright.messages.base import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    BaseMessageChunk,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    HumanMessageChunk,
    RemoveMessage,
    SystemMessage,
    SystemMessageChunk,
    ToolMessage,
    ToolMessageChunk,
    with_id,
)
from loopwright.messages.chunks import merge_chunks, message_chunk_to_message
from loopwright.messages.convert import convert_to_messages, message_to_dict, messages_from_dict, messages_to_dict
from loopwright.messages.history import REMOVE_ALL_MESSAGES, Buffer, History, add_messages
from loopwright.messages.usage import add_usage

__all__ = [
    "REMOVE_ALL_MESSAGES",
    "AIMessage",
    "AIMessageChunk",
    "BaseMessage",
    "BaseMessageChunk",
    "Buffer",
    "ChatMessage",
    "FunctionMessage",
    "History",
    "HumanMessage",
    "HumanMessageChunk",
    "RemoveMessage",
    "SystemMessage",
    "SystemMessageChunk",
    "ToolMessage",
    "ToolMessageChunk",
    "add_messages",
    "add_usage",
    "convert_to_messages",
    "merge_chunks",
    "message_chunk_to_message",
    "message_to_dict",
    "messages_from_dict",
    "messages_to_dict",
    "with_id",
]
