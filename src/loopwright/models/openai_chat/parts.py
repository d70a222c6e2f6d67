"""Content blocks in the form of OpenAI's message parts.

Rules:

- the standard blocks (`text`, `image`, `audio`, `video`, `file`, `text-plain`, `non_standard`) are converted, also in
  Anthropic's and LangChain's older spellings; a part that is in OpenAI's form already, or unknown, is sent as it is;
- what belongs to the model's own turn (reasoning, calls) is left out of everyone else's;
- a block that is broken (text that is no string) is skipped: it must not take the good ones with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from loopwright.errors import UsageError
from loopwright.models.openai_chat.dialect import Dialect

__all__ = ["media_parts", "text_of", "user_content"]

_NOT_FOR_OTHERS = frozenset({
    "reasoning", "thinking", "redacted_thinking", "refusal", "tool_call", "tool_use", "tool_call_chunk",
    "invalid_tool_call", "server_tool_call", "server_tool_call_chunk", "server_tool_result", "input_json_delta",
})  # fmt: skip
_TEXT = frozenset({None, "text", "input_text", "output_text"})
_SOUND_FORMATS = {"mpeg": "mp3", "mp3": "mp3", "wav": "wav", "x-wav": "wav", "wave": "wav"}


def text_of(content: str | Iterable[Any], between: str) -> str:
    """The words of a content, its text blocks joined with `between`."""
    if isinstance(content, str):
        return content
    texts: list[str] = []
    for found in content:
        if isinstance(found, str):
            texts.append(found)
        elif isinstance(found, dict):
            block = cast("dict[str, Any]", found)
            text = block.get("text") if block.get("type") in _TEXT or block.get("type") == "text-plain" else None
            if isinstance(text, str):
                texts.append(text)
    return between.join(texts)


def user_content(content: str | Iterable[Any], dialect: Dialect) -> str | list[dict[str, Any]]:
    """The content of a message that is not the model's: a string where that is enough."""
    if isinstance(content, str):
        return content
    parts = [part for block in content if (part := _part(block, dialect)) is not None]
    plain = all(part.get("type") == "text" and len(part) == 2 for part in parts)
    if plain and (len(parts) < 2 or not dialect.text_parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def media_parts(content: str | Iterable[Any], dialect: Dialect) -> list[dict[str, Any]]:
    """What a content has beyond text."""
    if isinstance(content, str):
        return []
    parts = (_part(block, dialect) for block in content if isinstance(block, dict) and not _is_text(cast("Any", block)))
    return [part for part in parts if part is not None]


def _is_text(block: dict[str, Any]) -> bool:
    return block.get("type") in _TEXT or (block.get("type") == "text-plain" and "text" in block)


def _part(found: Any, dialect: Dialect) -> dict[str, Any] | None:
    if isinstance(found, str):
        return {"type": "text", "text": found}
    if not isinstance(found, dict):
        return None
    block = cast("dict[str, Any]", found)
    kind = block.get("type")
    if kind in _TEXT:
        text = block.get("text")
        if not isinstance(text, str):
            return None
        rest = {"cache_control": block["cache_control"]} if block.get("cache_control") else {}
        return {"type": "text", "text": text, **rest}
    if kind in _NOT_FOR_OTHERS:
        return None
    if kind == "non_standard":
        value = block.get("value")
        return dict(cast("dict[str, Any]", value)) if isinstance(value, dict) else None
    if kind == "text-plain" and isinstance(block.get("text"), str):
        return {"type": "text", "text": block["text"]}
    if kind == "image_url":
        where = block.get("image_url")
        return {"type": "image_url", "image_url": {"url": where} if isinstance(where, str) else where}
    if kind in ("image", "audio", "video", "file", "text-plain"):
        return _media(kind, _normal(block), dialect)
    return block


def _normal(block: dict[str, Any]) -> dict[str, Any]:
    """Older spellings: `source` (Anthropic), `source_type` and `data` (LangChain 0.3)."""
    source = block.get("source")
    if isinstance(source, dict):
        inner = cast("dict[str, Any]", source)
        block = {**block, "base64": inner.get("data"), "url": inner.get("url"), "mime_type": inner.get("media_type")}
    if block.get("source_type") == "base64":
        block = {**block, "base64": block.get("data")}
    if block.get("source_type") == "id":
        block = {**block, "file_id": block.get("id")}
    return block


def _media(kind: str, block: dict[str, Any], dialect: Dialect) -> dict[str, Any]:
    url, data, mime, file_id = (block.get(key) for key in ("url", "base64", "mime_type", "file_id"))
    extras: dict[str, Any] = {**(block.get("extras") or {}), **(block.get("metadata") or {}), **block}
    if not (url or data or file_id):
        raise UsageError(
            f'a block of type {kind!r} needs "url", "base64" (with "mime_type") or "file_id"; it has {sorted(block)}'
        )
    if data and not mime:
        from loopwright.models.media import media_type

        mime = media_type(kind, data)
    where = url or f"data:{mime};base64,{data}"
    if kind == "image" and not file_id:
        image: dict[str, Any] = {"url": where}
        if extras.get("detail"):
            image["detail"] = extras["detail"]
        return {"type": "image_url", "image_url": image}
    if kind == "video" and not file_id:
        return {"type": "video_url", "video_url": {"url": where}}
    if kind == "audio" and not file_id:
        if not data:
            raise UsageError(
                'this wire takes sound as data, not by address: give "base64" and "mime_type" in the audio block'
            )
        subtype = str(mime).rpartition("/")[2]
        return {"type": "input_audio", "input_audio": {"data": data, "format": _SOUND_FORMATS.get(subtype, subtype)}}
    if file_id:
        return {"type": "file", "file": {"file_id": file_id}}
    if url and dialect.document_urls:
        return {"type": "document_url", "document_url": url}
    names = (block.get("filename"), extras.get("filename"), extras.get("name"), extras.get("title"))
    name = next(filter(None, names), f"file.{_extension(mime)}")
    return {"type": "file", "file": {"filename": name, "file_data": where}}


def _extension(mime: Any) -> str:
    return {"application/pdf": "pdf", "text/plain": "txt", "text/csv": "csv"}.get(str(mime), "bin" if mime else "pdf")
