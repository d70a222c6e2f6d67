"""Content blocks in the form of input parts: `input_text`, `input_image`, `input_file`, `input_audio`.

Rules:

- the standard blocks are converted, also in Anthropic's, LangChain's older and Chat Completions' spellings; a part
  that is in this API's form already, or unknown, is sent as it is;
- what belongs to the model's own turn (reasoning, calls) is left out of everyone else's;
- a block that is broken (text that is no string) is skipped: it must not take the good ones with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, cast

from loopwright.errors import UsageError
from loopwright.messages.standard import standard_block
from loopwright.models.media import media_type

__all__ = ["input_parts", "only_text"]

_NOT_FOR_OTHERS: Final = frozenset({
    "reasoning", "refusal", "tool_call", "tool_call_chunk", "invalid_tool_call", "server_tool_call",
    "server_tool_call_chunk", "server_tool_result",
})  # fmt: skip
_OWN: Final = frozenset({"input_text", "input_image", "input_file", "input_audio"})
_SOUND_FORMATS: Final = {"mpeg": "mp3", "x-wav": "wav", "wave": "wav"}


def input_parts(content: str | Iterable[Any]) -> str | list[dict[str, Any]]:
    """The content of a message that is not the model's, or of a tool's result: a string where that is enough."""
    if isinstance(content, str):
        return content
    return only_text([part for item in content if (part := _part(item)) is not None])


def only_text(parts: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """A string in place of no part, or of a single one that is plain text."""
    if not parts:
        return ""
    if len(parts) == 1 and parts[0].get("type") == "input_text" and len(parts[0]) == 2:
        return parts[0]["text"]
    return parts


def _part(item: Any) -> dict[str, Any] | None:
    if isinstance(item, dict) and cast("dict[str, Any]", item).get("type") in _OWN:
        return dict(cast("dict[str, Any]", item))
    block = standard_block(item)
    if block is None:
        return None
    kind = block["type"]
    if kind == "text":
        return {"type": "input_text", "text": block["text"]} if isinstance(block.get("text"), str) else None
    if kind in _NOT_FOR_OTHERS:
        return None
    if kind == "non_standard":
        return _as_it_is(block.get("value"))
    if kind == "text-plain" and isinstance(block.get("text"), str):
        return {"type": "input_text", "text": block["text"]}
    return _media(kind, block)


def _as_it_is(value: Any) -> dict[str, Any] | None:
    """A part that only the provider knows; text that is no string is none."""
    if not isinstance(value, dict):
        return None
    part = cast("dict[str, Any]", value)
    return None if part.get("type") in (None, "text", "output_text") else dict(part)


def _media(kind: str, block: dict[str, Any]) -> dict[str, Any]:
    url, data, mime, file_id = (block.get(key) for key in ("url", "base64", "mime_type", "file_id"))
    extras: dict[str, Any] = {**block, **(block.get("extras") or {})}
    if not (url or data or file_id):
        raise UsageError(
            f'a block of type {kind!r} needs "url", "base64" (with "mime_type") or "file_id"; it has {sorted(block)}'
        )
    if kind == "image":
        mime = mime or media_type(kind, data or "")
        where = {"file_id": file_id} if file_id else {"image_url": url or f"data:{mime};base64,{data}"}
        return {"type": "input_image", "detail": extras.get("detail") or "auto", **where}
    if kind == "audio" and data:
        subtype = str(mime or "audio/wav").rpartition("/")[2]
        sound = {"data": data, "format": _SOUND_FORMATS.get(subtype, subtype)}
        return {"type": "input_audio", "input_audio": sound}
    if kind in ("audio", "video") and not file_id:
        raise UsageError(_NOT_TAKEN[kind])
    if file_id:
        return {"type": "input_file", "file_id": file_id}
    if url:
        return {"type": "input_file", "file_url": url}
    mime = mime or "application/pdf"
    names = (extras.get("filename"), extras.get("name"), extras.get("title"))
    name = next(filter(None, names), f"file.{_EXTENSIONS.get(mime, 'bin')}")
    return {"type": "input_file", "filename": name, "file_data": f"data:{mime};base64,{data}"}


_EXTENSIONS: Final = {"application/pdf": "pdf", "text/plain": "txt", "text/csv": "csv", "text/html": "html"}
_NOT_TAKEN: Final = {
    "audio": "the Responses API takes sound as data, not by address: give base64 and mime_type in the audio block",
    "video": "the Responses API takes no video: send pictures of it",
}
