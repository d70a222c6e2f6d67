"""Content blocks in the form of Gemini's parts.

Rules:

- blocks are read in any provider's form (`messages/standard.py`); a part in Gemini's own form is sent as it is;
- media go as data, as an address or as a file of the Files API, always with a media type, which is told from the
  address where it is not given;
- what the model itself said goes back as it came, signatures included, if it came from here. From another provider
  only what can be read stays: words, refusals and media; its thoughts and the work of its own tools do not;
- what belongs to the model's turn (thoughts, calls) is left out of everyone else's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from loopwright.errors import UsageError
from loopwright.messages.plain import is_dict
from loopwright.messages.standard import standard_block
from loopwright.models.google.wire import is_made
from loopwright.models.media import media_type, usual_type

__all__ = ["media_parts", "model_part", "text_of", "user_parts"]

_Block = dict[str, Any]
_MEDIA: Final = frozenset(("image", "audio", "video", "file"))
_OF_THE_MODEL: Final = frozenset((
    "reasoning", "refusal", "tool_call", "tool_call_chunk", "invalid_tool_call", "server_tool_call",
    "server_tool_call_chunk", "server_tool_result",
))  # fmt: skip
_SKIPPED: Final = frozenset(("text", "redacted_thinking", "input_json_delta"))
"""Types of blocks without a standard form that nobody misses: broken text, and what no reader can read."""
_FILES: Final = "https://generativelanguage.googleapis.com/v1beta/"


def user_parts(content: str | Iterable[Any]) -> list[_Block]:
    """The parts of a message that is not the model's. Raises `UsageError` for a block that has no form here."""
    if isinstance(content, str):
        return [{"text": content}]
    parts = (_user_part(block) for item in content if (block := standard_block(item)) is not None)
    return [part for part in parts if part is not None]


def text_of(content: str | Iterable[Any]) -> str:
    """The words of a tool's result, its text blocks joined with line breaks."""
    if isinstance(content, str):
        return content
    blocks = [block for item in content if (block := standard_block(item)) is not None]
    return "\n".join(str(block["text"]) for block in blocks if _is_text(block))


def media_parts(content: str | Iterable[Any]) -> list[_Block]:
    """What a content has beyond words."""
    if isinstance(content, str):
        return []
    blocks = (block for item in content if (block := standard_block(item)) is not None)
    parts = (_user_part(block) for block in blocks if not _is_text(block))
    return [part for part in parts if part is not None]


def model_part(block: _Block, *, own: bool) -> _Block | None:
    """A standard block that the model said, calls aside; None if it does not go back. `own`: it came from here."""
    kind = block["type"]
    extras: Mapping[str, Any] = block.get("extras") or {}
    signature = extras.get("signature") if own else None
    part: _Block | None = None
    if kind in ("text", "refusal"):
        text = block.get(kind)
        part = {"text": text} if isinstance(text, str) and (text or signature) else None
    elif kind in _MEDIA:
        part = _media_part(kind, block)
        if own and extras.get("thought"):
            part["thought"] = True
    elif not own:
        return None
    elif kind == "reasoning":
        text = block.get("reasoning") or ""
        part = {"text": text, "thought": True} if text or signature else None
    elif kind == "server_tool_call":
        part = _server_call(block, extras)
    elif kind == "server_tool_result":
        part = _server_result(block, extras)
    elif kind == "non_standard":
        value = block.get("value")
        return dict(value) if is_dict(value) and "type" not in value else None
    if part is not None and signature:
        part["thoughtSignature"] = signature
    return part


def _is_text(block: _Block) -> bool:
    return block["type"] in ("text", "text-plain") and isinstance(block.get("text"), str)


def _user_part(block: _Block) -> _Block | None:
    kind = block["type"]
    if _is_text(block):
        return {"text": block["text"]}
    if kind in _OF_THE_MODEL or kind == "text":
        return None
    if kind == "text-plain":
        return _media_part("file", {"mime_type": "text/plain", **block})
    if kind in _MEDIA:
        return _media_part(kind, block)
    value = block.get("value")
    found: _Block = value if is_dict(value) else {}
    if found and "type" not in found:
        return dict(found)
    if found.get("type") in _SKIPPED:
        return None
    raise UsageError(
        f"a block of type {found.get('type')!r} has no form at Gemini: write text, image, audio, video or file, or "
        'one of Gemini\'s own parts as {"type": "non_standard", "value": {"fileData": ...}}'
    )


# -- media ----------------------------------------------------------------------------------------------------------


def _media_part(kind: str, block: _Block) -> _Block:
    url, data, file_id = (block.get(key) for key in ("url", "base64", "file_id"))
    mime = block.get("mime_type")
    if isinstance(url, str) and url.startswith("data:"):
        head, _, data = url.partition(",")
        mime = mime or head[5:].partition(";")[0]
    extras: Mapping[str, Any] = {**(block.get("extras") or {}), **block}
    if data:
        part: _Block = {"inlineData": {"mimeType": mime or media_type(kind, data), "data": data}}
    elif url or file_id:
        where = str(url or file_id)
        uri = f"{_FILES}{where}" if where.startswith("files/") else where
        part = {"fileData": {"mimeType": mime or _mime_of(uri, kind), "fileUri": uri}}
    else:
        raise UsageError(
            f'a block of type {kind!r} needs "url", "base64" (with "mime_type") or "file_id"; it has {sorted(block)}'
        )
    for name, key in (("video_metadata", "videoMetadata"), ("media_resolution", "mediaResolution")):
        if extras.get(name):
            part[key] = extras[name]
    return part


def _mime_of(uri: str, kind: str) -> str:
    """The media type by the ending of an address; Google's own files and videos have none."""
    from mimetypes import guess_type

    found = guess_type(uri.partition("?")[0])[0]
    return found if found and (kind == "file" or found.startswith(kind)) else usual_type(kind)


# -- the provider's own tools ---------------------------------------------------------------------------------------


def _server_call(block: _Block, extras: Mapping[str, Any]) -> _Block | None:
    call_id = {} if is_made(block.get("id")) else {"id": block["id"]}
    args: _Block = block.get("args") or {}
    if extras.get("part") == "executableCode":
        return {"executableCode": {**args, **call_id}}
    if extras.get("part") == "toolCall":
        return {"toolCall": {"toolType": block.get("name"), "args": args, **call_id}}
    return None


def _server_result(block: _Block, extras: Mapping[str, Any]) -> _Block | None:
    kind = extras.get("part")
    output = {"codeExecutionResult": "output", "toolResponse": "response"}.get(str(kind))
    if output is None:
        return None
    inner = {key: value for key, value in extras.items() if key not in ("part", "signature")}
    if "output" in block:
        inner[output] = block["output"]
    if not is_made(block.get("tool_call_id")):
        inner["id"] = block["tool_call_id"]
    return {str(kind): inner}
