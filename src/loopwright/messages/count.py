"""How many tokens messages are, roughly, without a tokenizer and without a network.

Rules: four ASCII characters are a token, three bytes of any other script are (a Chinese character is one token, an
emoji 1.3). Everything that is sent counts: words, reasoning, calls with their arguments, results, names, pictures,
tool schemas. What is not sent (artifacts, metadata) does not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from loopwright.messages.base import BaseMessage, ToolMessage
from loopwright.messages.convert import convert_to_messages
from loopwright.messages.plain import json_text

__all__ = ["count_tokens_approximately"]

_LOW_DETAIL: Final = 85  # tokens of a picture that is asked to be looked at in low detail
_MEDIA: Final = frozenset(("image", "audio", "video", "file"))


def count_tokens_approximately(
    messages: Any,
    *,
    chars_per_token: float = 4.0,
    extra_tokens_per_message: float = 3.0,
    count_name: bool = True,
    tokens_per_image: int = 765,
    tools: Iterable[Any] | None = None,
) -> int:
    """Tokens of one message or several, in any form `convert_to_messages` takes, and of the `tools` offered with them.

    `tokens_per_image` stands for any picture, recording or file, whatever its size: 765 is a picture of 1024 ×
    1024.
    """
    total = 0
    for message in convert_to_messages(messages):
        tokens = extra_tokens_per_message
        if count_name and message.name:
            tokens += _tokens(message.name, chars_per_token)
        tokens += _message_tokens(message, chars_per_token, tokens_per_image)
        total += math.ceil(tokens)
    for tool in tools or ():
        total += math.ceil(_tokens(_tool_text(tool), chars_per_token))
    return total


def _tokens(text: str, chars_per_token: float) -> float:
    if text.isascii():
        return len(text) / chars_per_token
    ascii_characters = len(text.encode("ascii", "ignore"))
    other_bytes = len(text.encode("utf-8", "surrogatepass")) - ascii_characters
    return ascii_characters / chars_per_token + other_bytes / 3


def _message_tokens(message: BaseMessage, chars_per_token: float, tokens_per_image: int) -> float:
    content = message.content
    calls: list[Any] = [*getattr(message, "tool_calls", ()), *getattr(message, "invalid_tool_calls", ())]
    tokens = _tokens(message.tool_call_id, chars_per_token) if isinstance(message, ToolMessage) else 0.0
    if isinstance(content, str) and not calls and not message.additional_kwargs:
        return tokens + _tokens(content, chars_per_token)
    for block in cast("list[dict[str, Any]]", message.content_blocks):
        tokens += _block_tokens(block, chars_per_token, tokens_per_image)
    for call in getattr(message, "invalid_tool_calls", ()):
        tokens += _tokens(json_text([call["name"], call["id"], call["args"]]), chars_per_token)
    return tokens


def _block_tokens(block: Mapping[str, Any], chars_per_token: float, tokens_per_image: int) -> float:
    kind = block["type"]
    if kind in _MEDIA:
        extras: Mapping[str, Any] = block.get("extras") or {}
        return min(_LOW_DETAIL, tokens_per_image) if extras.get("detail") == "low" else tokens_per_image
    if kind == "tool_call":
        return _tokens(f"{block['name']}{block['id'] or ''}{json_text(block['args'])}", chars_per_token)
    words = block.get("text") or block.get("reasoning") or block.get("refusal")
    if isinstance(words, str):
        return _tokens(words, chars_per_token)
    if kind in ("text", "reasoning", "refusal"):
        return 0.0
    return _tokens(json_text(block.get("value", block)), chars_per_token)


def _tool_text(tool: Any) -> str:
    if isinstance(tool, Mapping):
        return json_text(tool)
    parts = [getattr(tool, name, None) for name in ("name", "description", "args")]
    return json_text([part for part in parts if isinstance(part, (str, dict))])
