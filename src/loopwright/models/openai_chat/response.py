"""Response in: the JSON of a whole answer becomes a message.

Rules:

- `content` is the text; it is a list of blocks only if there is more than text (reasoning, refusal, media, citations);
- reasoning is `reasoning_content`, else `reasoning`, else the texts of `reasoning_details`, else `thinking` parts of
  the content: providers often say the same thing twice, it counts once. What must be sent back unchanged (signatures,
  encrypted reasoning) is kept: `reasoning_details` in `additional_kwargs`, a thinking part's signature in its block;
- a call without an id gets one, because its result has to name it; arguments that are no object make an invalid call;
- `finish_reason` is one word for all providers, `raw_finish_reason` theirs;
- absent, null and empty mean the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from loopwright.ids import new_id
from loopwright.messages import AIMessage
from loopwright.messages.calls import normal_calls
from loopwright.models.wire_errors import Peer, error_in_answer, no_answer
from loopwright.models.wire_json import dumps_text, loads

__all__ = [
    "detail_texts",
    "finish_word",
    "media_blocks",
    "metadata_of",
    "new_call_id",
    "parse_response",
    "part_blocks",
    "raw_arguments",
    "usage_of",
]

_FINISH: Final = {
    "stop": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "stop_sequence": "stop",
    "end_turn": "stop",
    "complete": "stop",
    "completed": "stop",
    "tool_calls": "tool_calls",
    "tool_call": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
    "content_filter": "content_filter",
    "sensitive": "content_filter",  # Zhipu
    "safety": "content_filter",
    "recitation": "content_filter",
    "prohibited_content": "content_filter",
    "blocklist": "content_filter",
    "refusal": "refusal",
    "error": "error",
    "network_error": "error",  # Zhipu
    "insufficient_system_resource": "error",  # DeepSeek
    "malformed_function_call": "error",  # Gemini behind a gateway
    "abort": "error",
}
_KEPT: Final = ("system_fingerprint", "service_tier", "citations", "search_results")


def parse_response(body: bytes, peer: Peer, status: int = 200) -> list[AIMessage]:
    """One message for each choice, first choice first.

    Raises the provider's own error where the body holds one, and `InvalidResponseError` where it is no answer.
    """
    try:
        value: Any = loads(body)
    except ValueError:
        raise no_answer(peer, body, "no JSON, which is no chat completion", status=status) from None
    error = error_in_answer(peer, value[0] if isinstance(value, list) and value else value, status)
    if error is not None:
        raise error
    choices: Any = cast("dict[str, Any]", value).get("choices") if isinstance(value, dict) else None
    if (
        not isinstance(choices, list)
        or not choices
        or not all(isinstance(choice, dict) for choice in cast("list[Any]", choices))
    ):
        raise no_answer(peer, body, "JSON without choices, which is no chat completion", status=status)
    return [_message(choice, cast("dict[str, Any]", value), peer) for choice in cast("list[dict[str, Any]]", choices)]


def _message(choice: Mapping[str, Any], answer: Mapping[str, Any], peer: Peer) -> AIMessage:
    found = choice.get("message")
    said = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    content = said.get("content")
    blocks = part_blocks(cast("list[Any]", content)) if isinstance(content, list) else []
    text = content if isinstance(content, str) else ""
    details = said.get("reasoning_details")
    details = cast("list[Any]", details) if isinstance(details, list) else []
    reasoning = _first_text(said.get("reasoning_content"), said.get("reasoning")) or detail_texts(details)
    refusal = _first_text(said.get("refusal"))
    calls, broken = normal_calls(_raw_calls(said))
    usage = answer.get("usage")
    raw_finish = choice.get("finish_reason")
    metadata = metadata_of(
        answer,
        choice,
        who=peer.who,
        word=finish_word(raw_finish, calls=bool(calls or broken), refused=bool(refusal), said=bool(text or blocks)),
        raw=raw_finish or None,
        usage=usage or None,
    )
    more = {"reasoning_details": details, "annotations": said.get("annotations")}
    return AIMessage(
        _content(reasoning, [*_text_blocks(text), *blocks], refusal, media_blocks(said)),
        tool_calls=calls,
        invalid_tool_calls=broken,
        usage_metadata=usage_of(usage),
        response_metadata=metadata,
        additional_kwargs={key: value for key, value in more.items() if value},
    )


def _raw_calls(said: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    calls = said.get("tool_calls")
    for found in cast("list[Any]", calls) if isinstance(calls, list) else []:
        if isinstance(found, dict):
            call = cast("dict[str, Any]", found)
            function: Any = call.get("function")
            custom: Any = call.get("custom")
            if not isinstance(function, dict) and isinstance(custom, dict):  # a tool of free text, not of arguments
                words = cast("dict[str, Any]", custom)
                function = {"name": words.get("name"), "arguments": {"input": words.get("input")}}
            if isinstance(function, dict):
                more = {"extra_content": call["extra_content"]} if call.get("extra_content") else {}
                yield {"id": call.get("id") or new_call_id(), "function": function, **more}
    legacy = said.get("function_call")
    if isinstance(legacy, dict) and cast("dict[str, Any]", legacy).get("name"):
        yield {"id": new_call_id(), "function": legacy}


def new_call_id() -> str:
    """An id for a call that came without one."""
    return f"call_{new_id().replace('-', '')}"


def _content(reasoning: str, said: list[dict[str, Any]], refusal: str, media: list[dict[str, Any]]) -> str | list[Any]:
    """The parts of an answer in the order in which they were thought, said and added."""
    blocks: list[dict[str, Any]] = []
    if reasoning:
        blocks.append({"type": "reasoning", "reasoning": reasoning})
        said = [part for part in said if part["type"] != "reasoning"]
    blocks += said
    if refusal:
        blocks.append({"type": "refusal", "refusal": refusal})
    blocks += media
    if all(block["type"] == "text" and len(block) == 2 for block in blocks):
        return "".join(block["text"] for block in blocks)
    return cast("list[Any]", blocks)


def _text_blocks(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}] if text else []


def _first_text(*candidates: Any) -> str:
    for candidate in candidates:
        if isinstance(candidate, str) and candidate:
            return candidate
    return ""


def detail_texts(details: Iterable[Any]) -> str:
    """The readable part of `reasoning_details`."""
    texts: list[str] = []
    for found in details:
        if isinstance(found, dict):
            detail = cast("dict[str, Any]", found)
            text = detail.get("text") or detail.get("summary")
            if isinstance(text, str):
                texts.append(text)
    return "".join(texts)


def part_blocks(parts: Iterable[Any]) -> list[dict[str, Any]]:
    """Content that came as a list of parts, as standard blocks."""
    blocks: list[dict[str, Any]] = []
    for found in parts:
        if isinstance(found, str):
            blocks += _text_blocks(found)
        elif isinstance(found, dict):
            block = _part_block(cast("dict[str, Any]", found))
            if block is not None:
                blocks.append(block)
    return blocks


def _part_block(part: dict[str, Any]) -> dict[str, Any] | None:
    kind = part.get("type")
    if kind in ("text", "output_text"):
        text = part.get("text")
        return {"type": "text", "text": text} if isinstance(text, str) and text else None
    if kind == "thinking":
        thought = part.get("thinking")
        texts = thought if isinstance(thought, str) else detail_texts(cast("list[Any]", thought or []))
        block: dict[str, Any] = {"type": "reasoning", "reasoning": texts}
        if part.get("signature"):
            block["extras"] = {"signature": part["signature"]}
        return block
    if kind == "refusal":
        return {"type": "refusal", "refusal": str(part.get("refusal") or "")}
    if kind == "image_url":
        return _image_block(part)
    return {"type": "non_standard", "value": part}


def media_blocks(said: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Pictures (OpenRouter's `images`) and sound (OpenAI's `audio`) beside the text."""
    blocks: list[dict[str, Any]] = []
    images = said.get("images")
    if isinstance(images, list):
        found_images = cast("list[Any]", images)
        blocks += [_image_block(cast("dict[str, Any]", image)) for image in found_images if isinstance(image, dict)]
    found = said.get("audio")
    audio = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    if audio.get("id") or audio.get("data"):
        block: dict[str, Any] = {"type": "audio"}
        if audio.get("id"):
            block["id"] = audio["id"]
        if audio.get("data"):
            block["base64"] = audio["data"]
        rest = {key: value for key, value in audio.items() if key not in ("id", "data") and value}
        if rest:
            block["extras"] = rest
        blocks.append(block)
    return blocks


def _image_block(part: dict[str, Any]) -> dict[str, Any]:
    where = part.get("image_url")
    url = cast("dict[str, Any]", where).get("url") if isinstance(where, dict) else where
    if not isinstance(url, str):
        return {"type": "non_standard", "value": part}
    head, comma, data = url.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        return {"type": "image", "base64": data, "mime_type": head[5:-7]}
    return {"type": "image", "url": url}


def finish_word(raw: Any, *, calls: bool, refused: bool, said: bool) -> str:
    """Why the answer ended, in the one vocabulary. Some providers say `stop` after calls and refusals, or nothing."""
    word = _FINISH.get(raw.lower(), "other") if isinstance(raw, str) and raw else None
    if word is None:
        word = "stop" if said or calls or refused else "other"
    if word == "stop" and calls:
        return "tool_calls"
    if word == "stop" and refused:
        return "refusal"
    return word


def metadata_of(
    answer: Mapping[str, Any],
    choice: Mapping[str, Any],
    *,
    who: Mapping[str, str],
    word: str,
    raw: str | None,
    usage: Any,
) -> dict[str, Any]:
    """`response_metadata`: what users of every provider find in the same place. `who`: as `Peer` has it."""
    metadata: dict[str, Any] = {
        "finish_reason": word,
        "raw_finish_reason": raw,
        "token_usage": usage,
        "model_name": answer.get("model") or None,
        "id": answer.get("id") or None,
        **who,
    }
    for key in _KEPT:
        if answer.get(key):
            metadata[key] = answer[key]
    logprobs = choice.get("logprobs")
    if isinstance(logprobs, dict) and any(cast("dict[str, Any]", logprobs).values()):
        metadata["logprobs"] = logprobs
    return metadata


def usage_of(usage: Any) -> Any:
    """`usage_metadata` from the provider's object; None if there is none. Details only where they were reported."""
    if not isinstance(usage, dict) or not usage:
        return None
    found = cast("dict[str, Any]", usage)
    asked, answered = _count(found.get("prompt_tokens")), _count(found.get("completion_tokens"))
    total = found.get("total_tokens")
    made: dict[str, Any] = {
        "input_tokens": asked or 0,
        "output_tokens": answered or 0,
        "total_tokens": _count(total) if total is not None else (asked or 0) + (answered or 0),
    }
    before = _section(found.get("prompt_tokens_details"))
    after = _section(found.get("completion_tokens_details"))
    read = _first_count(
        before.get("cached_tokens"),
        found.get("prompt_cache_hit_tokens"),
        found.get("cached_tokens"),
        found.get("num_cached_tokens"),
    )
    details = {
        "audio": _count(before.get("audio_tokens")) or None,
        "cache_creation": _first_count(before.get("cache_write_tokens"), found.get("cache_creation_input_tokens")),
        "cache_read": read,
    }
    _attach(made, "input_token_details", details)
    details = {
        "audio": _count(after.get("audio_tokens")) or None,
        "reasoning": _first_count(after.get("reasoning_tokens"), found.get("reasoning_tokens")),
    }
    _attach(made, "output_token_details", details)
    return made


def _attach(made: dict[str, Any], name: str, details: dict[str, int | None]) -> None:
    known = {key: value for key, value in details.items() if value is not None}
    if known:
        made[name] = known


def _section(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _count(value: Any) -> int | None:
    return int(value) if isinstance(value, (int, float)) else None


def _first_count(*values: Any) -> int | None:
    """The first number above zero, else zero if any was given."""
    counts = [count for value in values if (count := _count(value)) is not None]
    return next((count for count in counts if count), counts[0] if counts else None)


def raw_arguments(value: Any) -> str:
    """A fragment of arguments as text; some servers send an object."""
    if value is None:
        return ""
    return value if isinstance(value, str) else dumps_text(value)
