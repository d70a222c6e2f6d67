"""How a provider's Chat Completions differ from OpenAI's: one row of plain values."""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = ["Dialect", "SendBack"]

SendBack = Literal["reasoning_content", "reasoning_details", "thinking"]
"""How a model's own reasoning goes back to it: as that field of its message, or as `thinking` parts of the content."""


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """Every default is what most of the compatible world accepts."""

    max_tokens: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    seed: str = "seed"
    stream_options: bool = True
    """Takes `stream_options`; without it usage comes anyway or never."""
    required: str | None = "required"
    """Its word for "call some tool"; None if it has none, and then `auto` is sent."""
    parallel_tool_calls: bool = True
    names: bool = True
    """Takes `name` in messages."""
    text_parts: bool = True
    """Takes a list of text parts where a string would do."""
    null_content: bool = True
    """Takes null for the content of a message that only calls tools; else an empty string is sent."""
    json_schema: bool = True
    """Takes `response_format` with a JSON schema."""
    strict: bool = True
    """Takes `strict` in tools and JSON schemas."""
    send_back: SendBack | None = None
    send_back_always: bool = False
    """A message with tool calls must have the `send_back` field, though it be empty (DeepSeek, Kimi: else 400)."""
    short_ids: bool = False
    """Takes ids of calls only as nine letters and digits (Mistral); others are shortened to such."""
    document_urls: bool = False
    """Takes files by address as `document_url` parts (Mistral)."""
