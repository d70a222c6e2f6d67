"""Response in: the JSON of a whole answer becomes a message.

Rules:

- `content` is the text where the answer is one text, with or without calls after it; else it is the list of
  Anthropic's own blocks, unchanged, because most of them must be sent back unchanged (signatures, encrypted
  reasoning, the calls and results of Anthropic's tools). `content_blocks` shows them in the standard form;
- calls are in `tool_calls`. In a list, a `tool_use` block without its input marks the place of each; `tool_calls` has
  the last word on what was asked for;
- empty texts and thoughts are dropped: they say nothing, and may not be sent back;
- `finish_reason` is one word for all providers, `raw_finish_reason` Anthropic's;
- `input_tokens` counts what was read from the cache and written to it; absent and null mean not reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from loopwright.ids import new_id
from loopwright.messages import AIMessage
from loopwright.messages.calls import normal_calls
from loopwright.models.wire_errors import Peer, error_in_answer, no_answer
from loopwright.models.wire_json import dumps_text, loads

__all__ = ["call_mark", "call_piece", "kept", "metadata_of", "parse_response", "says_something", "usage_of"]

_FINISH: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}
"""What is not here (`pause_turn`, say) is `other`."""
_WORDS: Final = frozenset({"text", "thinking"})
"""Blocks of words, which are under the key that the block is named after."""
_KEPT: Final = ("stop_sequence", "stop_details", "container", "context_management")


def parse_response(body: bytes, peer: Peer, status: int = 200) -> list[AIMessage]:
    """The one message of an answer.

    Raises the provider's own error where the body holds one, and `InvalidResponseError` where it is no answer.
    """
    try:
        value: Any = loads(body)
    except ValueError:
        raise no_answer(peer, body, "no JSON, which is no message of Anthropic's format", status=status) from None
    error = error_in_answer(peer, value, status)
    if error is not None:
        raise error
    content: Any = cast("dict[str, Any]", value).get("content") if isinstance(value, dict) else None
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in cast("list[Any]", content)):
        raise no_answer(peer, body, "JSON without content, which is no message of Anthropic's format", status=status)
    return [_message(cast("list[dict[str, Any]]", content), cast("dict[str, Any]", value), peer)]


def _message(blocks: list[dict[str, Any]], answer: Mapping[str, Any], peer: Peer) -> AIMessage:
    calls: list[dict[str, Any]] = []
    content: list[Any] = []
    for block in blocks:
        kind = block.get("type")
        if kind == "tool_use":
            piece = call_piece(block)
            calls.append({**piece, "args": block.get("input")})
            content.append(call_mark(piece))
        elif says_something(block):
            content.append(kept(block))
    good, broken = normal_calls([_in_openai_form(call) for call in calls])
    usage = answer.get("usage")
    return AIMessage(
        _plain(content),
        tool_calls=good,
        invalid_tool_calls=broken,
        usage_metadata=usage_of(usage),
        response_metadata=metadata_of(answer, who=peer.who, usage=usage or None),
    )


def _in_openai_form(call: Mapping[str, Any]) -> dict[str, Any]:
    """What reads calls whose arguments may be text, or nothing at all."""
    more = {key: value for key, value in call.items() if key not in ("name", "args", "id")}
    args = call["args"]
    text = None if isinstance(args, (dict, str)) else dumps_text(args)
    return {"id": call["id"], "function": {"name": call["name"], "arguments": args if text is None else text}, **more}


def call_piece(block: Mapping[str, Any]) -> dict[str, Any]:
    """Name and id of a `tool_use` block, and who else called it (`caller`: a program that Claude wrote)."""
    piece: dict[str, Any] = {"name": block.get("name"), "id": block.get("id") or f"toolu_{new_id().replace('-', '')}"}
    if block.get("caller"):
        piece["caller"] = block["caller"]
    return piece


def call_mark(piece: Mapping[str, Any]) -> dict[str, Any]:
    """What stands in the content where a call was made."""
    return {"type": "tool_use", "id": piece["id"], "name": piece["name"]}


def kept(block: dict[str, Any]) -> dict[str, Any]:
    """A block as it came; words without what is null or empty beside them."""
    kind = block.get("type")
    if kind not in _WORDS:
        return block
    return {"type": kind, kind: block.get(kind) or "", **{key: value for key, value in block.items() if value}}


def says_something(block: Mapping[str, Any]) -> bool:
    """Whether a block is more than an empty text or an empty thought."""
    kind = block.get("type")
    return kind not in _WORDS or any(block.get(key) for key in (kind, "citations", "signature"))


def _plain(content: list[Any]) -> str | list[Any]:
    """The content as text, where it is at most one text and then calls."""
    said = content[:1] if content and content[0]["type"] == "text" and len(content[0]) == 2 else []
    if all(block["type"] == "tool_use" for block in content[len(said) :]):
        return "".join(block["text"] for block in said)
    return content


def metadata_of(answer: Mapping[str, Any], *, who: Mapping[str, str], usage: Any) -> dict[str, Any]:
    """`response_metadata`: what users of every provider find in the same place."""
    raw = answer.get("stop_reason")
    metadata: dict[str, Any] = {
        "finish_reason": _FINISH.get(raw, "other") if isinstance(raw, str) else "other",
        "raw_finish_reason": raw or None,
        "token_usage": usage,
        "model_name": answer.get("model") or None,
        "id": answer.get("id") or None,
        **who,
    }
    for key in _KEPT:
        if answer.get(key):
            metadata[key] = answer[key]
    return metadata


def usage_of(usage: Any) -> Any:
    """`usage_metadata` from the provider's object; None if there is none. Details only where they were reported."""
    if not isinstance(usage, dict) or not usage:
        return None
    found = cast("dict[str, Any]", usage)
    read, written = _count(found.get("cache_read_input_tokens")), _count(found.get("cache_creation_input_tokens"))
    asked = (_count(found.get("input_tokens")) or 0) + (read or 0) + (written or 0)
    answered = _count(found.get("output_tokens")) or 0
    made: dict[str, Any] = {"input_tokens": asked, "output_tokens": answered, "total_tokens": asked + answered}
    cached = {"cache_creation": written, "cache_read": read}
    known = {key: value for key, value in cached.items() if value is not None}
    if known:
        made["input_token_details"] = known
    details: Any = found.get("output_tokens_details")
    thought = _count(cast("dict[str, Any]", details).get("thinking_tokens")) if isinstance(details, dict) else None
    if thought is not None:
        made["output_token_details"] = {"reasoning": thought}
    return made


def _count(value: Any) -> int | None:
    return int(value) if isinstance(value, (int, float)) else None
