"""Content blocks in the form of Anthropic's.

Rules:

- a block that is in Anthropic's form already, or that nobody here knows, is sent as it is; the standard blocks and what
  can be read as one (OpenAI's, Gemini's, LangChain's older forms) are converted;
- `cache_control`, `citations`, `title` and `context` are carried along, from the block or from its `extras`;
- what belongs to the model's own turn (reasoning, calls) is left out of everyone else's, and empty texts of all;
- media that Claude does not take (sound, video) are an error here, which says so, and not at the provider.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from loopwright.errors import UsageError
from loopwright.messages.standard import STANDARD_TYPES, standard_block
from loopwright.models.media import media_type

__all__ = ["content_parts"]

_OWN: Final = frozenset({
    "document", "search_result", "tool_result", "tool_reference", "container_upload", "tool_addition",
})  # fmt: skip
"""Blocks of the user's side that only Anthropic has."""
_NOT_FOR_OTHERS: Final = frozenset({
    "reasoning", "thinking", "redacted_thinking", "refusal", "tool_call", "tool_use", "tool_call_chunk",
    "invalid_tool_call", "server_tool_call", "server_tool_call_chunk", "server_tool_result", "input_json_delta",
})  # fmt: skip
_CARRIED: Final = ("cache_control", "citations", "title", "context")


def content_parts(content: str | Iterable[Any]) -> list[dict[str, Any]]:
    """The content of a message that is not the model's, as Anthropic's blocks. Raises `UsageError`."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content.strip() else []
    return [part for block in content if (part := _part(block)) is not None]


def _part(found: Any) -> dict[str, Any] | None:
    if isinstance(found, dict):
        block = cast("dict[str, Any]", found)
        if block.get("type") in _OWN or isinstance(block.get("source"), dict):
            return {key: value for key, value in block.items() if key != "index"}
        if block.get("type") in _NOT_FOR_OTHERS:
            return None
    elif not isinstance(found, str):
        return None
    standard = standard_block(found)
    if standard is None:
        return None
    kind = standard["type"]
    if kind == "text":
        text = standard.get("text")
        return {"type": "text", "text": text, **_carried(standard)} if isinstance(text, str) and text.strip() else None
    if kind == "image":
        return {"type": "image", "source": _source(standard, "image"), **_carried(standard)}
    if kind in ("file", "text-plain"):
        return _document(standard)
    if kind in ("audio", "video"):
        raise UsageError(f"Claude takes no {kind}: leave the block out, or send its words as text")
    if kind == "non_standard":
        value = cast("dict[str, Any]", standard.get("value") if isinstance(standard.get("value"), dict) else {})
        named = value.get("type")
        return dict(value) if isinstance(named, str) and named not in STANDARD_TYPES else None
    return None


def _carried(block: Mapping[str, Any]) -> dict[str, Any]:
    extras: Mapping[str, Any] = block.get("extras") or {}
    found = {key: block.get(key) or extras.get(key) for key in _CARRIED}
    return {key: value for key, value in found.items() if value}


def _document(block: dict[str, Any]) -> dict[str, Any]:
    mime = str(block.get("mime_type") or "")
    if mime.startswith("image/"):
        return {"type": "image", "source": _source(block, "image"), **_carried(block)}
    text = block.get("text")
    if not isinstance(text, str) and mime.startswith("text/") and isinstance(block.get("base64"), str):
        from base64 import b64decode

        text = b64decode(block["base64"]).decode("utf-8", "replace")
    if isinstance(text, str):
        source = {"type": "text", "media_type": "text/plain", "data": text}
    else:
        source = _source(block, "file")
    extras: Mapping[str, Any] = block.get("extras") or {}
    named = {"title": extras["filename"]} if extras.get("filename") else {}
    return {"type": "document", "source": source, **named, **_carried(block)}


def _source(block: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Where the bytes are. Raises `UsageError` where nothing says so."""
    data = block.get("base64")
    if isinstance(data, str):
        kind = "image" if what == "image" else "file"
        return {"type": "base64", "media_type": block.get("mime_type") or media_type(kind, data), "data": data}
    for key, kind in (("url", "url"), ("file_id", "file")):
        if isinstance(block.get(key), str):
            return {"type": kind, key: block[key]}
    raise UsageError(
        f'a block of type {block["type"]!r} needs "base64" (with "mime_type"), "url" or "file_id"; '
        f"it has {', '.join(map(repr, block))}"
    )
