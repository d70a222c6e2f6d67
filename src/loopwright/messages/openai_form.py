"""Messages in the form of OpenAI's Chat Completions, and back.

The form is what many programs besides OpenAI's speak. Rules:

- contents that are words only become one string (`text_format="string"`), else a list of blocks;
- calls that could not be parsed are sent with their raw text: they have been answered, and an answer needs its
  call;
- reasoning is left out, as the form has no place for it; what is standard and unknown there, and foreign blocks,
  pass through or are an error (`pass_through_unknown_blocks=False`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, cast, overload

from msgspec import structs

from loopwright.errors import UsageError
from loopwright.messages.base import AIMessage, BaseMessage, ChatMessage, ToolMessage
from loopwright.messages.convert import DEVELOPER_KEY, convert_to_messages
from loopwright.messages.plain import json_text
from loopwright.messages.standard import standard_block

__all__ = ["convert_from_openai_messages", "convert_to_openai_messages", "in_openai_blocks", "openai_block"]

_Block = dict[str, Any]

_ROLES: Final = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "function"}

_SILENT: Final = frozenset(
    ("reasoning", "tool_call", "tool_call_chunk", "invalid_tool_call", "server_tool_call", "server_tool_result")
)
"""Blocks that the form holds elsewhere or not at all."""


@overload
def convert_to_openai_messages(
    messages: BaseMessage | str | dict[str, Any] | tuple[str, Any],
    *,
    text_format: Literal["string", "block"] = "string",
    include_id: bool = False,
    pass_through_unknown_blocks: bool = True,
) -> dict[str, Any]: ...
@overload
def convert_to_openai_messages(
    messages: Sequence[Any],
    *,
    text_format: Literal["string", "block"] = "string",
    include_id: bool = False,
    pass_through_unknown_blocks: bool = True,
) -> list[dict[str, Any]]: ...
def convert_to_openai_messages(
    messages: Any,
    *,
    text_format: Literal["string", "block"] = "string",
    include_id: bool = False,
    pass_through_unknown_blocks: bool = True,
) -> Any:
    """Dictionaries with `role` and `content`: one for one message, a list for a list.

    `text_format="block"` gives every content as a list of blocks. Raises `UsageError` (a `ValueError`).
    """
    if text_format not in ("string", "block"):
        raise UsageError(f'text_format is "string" or "block", not {text_format!r}')
    single = isinstance(messages, (BaseMessage, str, Mapping))
    converted = [
        _to_openai(message, text_format == "block", include_id, pass_through_unknown_blocks)
        for message in convert_to_messages(messages)
    ]
    return converted[0] if single else converted


def convert_from_openai_messages(messages: Any) -> list[BaseMessage]:
    """Our messages from one dictionary of that form or a list of them; tool calls with JSON text are parsed."""
    return convert_to_messages(messages)


def _to_openai(message: BaseMessage, blocks: bool, include_id: bool, pass_through: bool) -> _Block:
    kind = message.type.removesuffix("MessageChunk").lower()
    role = message.role if isinstance(message, ChatMessage) else _ROLES.get(kind)
    if role is None:
        raise UsageError(f"a message of type {message.type!r} has no role in OpenAI's form")
    entry: _Block = {"role": message.additional_kwargs.get(DEVELOPER_KEY, role)}
    if message.name:
        entry["name"] = message.name
    if include_id and message.id is not None:
        entry["id"] = message.id
    if isinstance(message, ToolMessage):
        entry["tool_call_id"] = message.tool_call_id
    entry["content"] = _content(message, blocks, pass_through)
    if isinstance(message, AIMessage):
        calls = [_call(call["id"], call["name"], call["args"]) for call in message.tool_calls]
        calls += [_call(call["id"], call["name"], call["args"]) for call in message.invalid_tool_calls]
        if calls:
            entry["tool_calls"] = calls
        refusal = message.additional_kwargs.get("refusal")
        if refusal:
            entry["refusal"] = refusal
    return entry


def _call(call_id: str | None, name: str | None, args: Any) -> _Block:
    import json  # as late as it is needed

    # Spaced as Python's json writes it, because that is what programs and tests compare with.
    plain = args if isinstance(args, str) else json.loads(json_text(args or {}))
    text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
    return {"type": "function", "id": call_id, "function": {"name": name or "", "arguments": text}}


def _content(message: BaseMessage, as_blocks: bool, pass_through: bool) -> str | list[_Block]:
    content = message.content
    if isinstance(content, str):
        if not as_blocks:
            return content
        return [{"type": "text", "text": content}] if content else []
    blocks: list[_Block] = []
    for item in content:
        block = standard_block(item)
        if block is None or block["type"] in _SILENT:
            continue
        blocks.append(openai_block(block, pass_through))
    if not as_blocks and all(block.get("type") == "text" for block in blocks):
        return "\n".join(block["text"] for block in blocks)
    return blocks


def openai_block(block: Mapping[str, Any], pass_through: bool = True) -> _Block:
    """One standard block in OpenAI's form. Raises `UsageError` for one that has none, unless it may pass."""
    kind = block["type"]
    extras: Mapping[str, Any] = block.get("extras") or {}
    if kind == "text" or (kind == "text-plain" and isinstance(block.get("text"), str)):
        return {"type": "text", "text": block["text"]}
    if kind == "refusal":
        return {"type": "refusal", "refusal": block["refusal"]}
    if kind in ("file", "text-plain") or "file_id" in block:
        return {"type": "file", "file": _file(block, extras)}
    url = _url(block)
    if kind == "image" and url is not None:
        detail = {"detail": extras["detail"]} if "detail" in extras else {}
        return {"type": "image_url", "image_url": {"url": url, **detail}}
    if kind == "audio" and "base64" in block:
        form = str(block.get("mime_type", "audio/wav")).partition("/")[2]
        return {"type": "input_audio", "input_audio": {"data": block["base64"], "format": _AUDIO.get(form, form)}}
    if kind == "video" and url is not None:
        return {"type": "video_url", "video_url": {"url": url}}
    if pass_through:
        return cast("_Block", block["value"] if kind == "non_standard" else dict(block))
    shown = block["value"].get("type") if kind == "non_standard" else kind
    raise UsageError(
        f"a block of type {shown!r} has no form of OpenAI's: "
        "remove it, or leave pass_through_unknown_blocks=True to send it as it is"
    )


_AUDIO: Final = {"mpeg": "mp3", "x-wav": "wav", "wave": "wav"}


def _url(block: Mapping[str, Any]) -> str | None:
    if "base64" in block:
        return f"data:{block.get('mime_type') or _MIME.get(block['type'], '')};base64,{block['base64']}"
    return block.get("url")


_MIME: Final = {"image": "image/png", "video": "video/mp4", "file": "application/pdf", "text-plain": "text/plain"}


def _file(block: Mapping[str, Any], extras: Mapping[str, Any]) -> _Block:
    if "file_id" in block:
        return {"file_id": block["file_id"]}
    filename = block.get("filename") or extras.get("filename")
    name = {"filename": filename} if filename else {}
    if "base64" in block:
        return {"file_data": _url(block), **name}
    return {"file_url": block.get("url"), **name}


def in_openai_blocks(message: BaseMessage) -> BaseMessage:
    """The same message with its content as a list of OpenAI's blocks."""
    if isinstance(message.content, str):
        return message
    return structs.replace(message, content=_content(message, as_blocks=True, pass_through=True))
