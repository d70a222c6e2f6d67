"""What is said about an answer beside its parts: why it ended, what it cost, which model gave it.

Rules:

- `finish_reason` is one word for all providers, `raw_finish_reason` Google's own; a prompt that was blocked has no
  candidate, and the reason for blocking it is the word;
- `input_tokens` are the prompt and what the provider's own tools put into it, `output_tokens` the answer and the
  thoughts, `total_tokens` as sent; a usage without any of these counts is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from loopwright.messages.plain import is_dict, is_list
from loopwright.models.wire_json import loads

__all__ = ["counts_in", "finish_word", "metadata_of", "usage_of"]

_FINISH: Final = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
    "MODEL_ARMOR": "content_filter",
    "JAILBREAK": "content_filter",
    "IMAGE_SAFETY": "content_filter",
    "IMAGE_PROHIBITED_CONTENT": "content_filter",
    "IMAGE_RECITATION": "content_filter",
    "MALFORMED_FUNCTION_CALL": "error",
    "UNEXPECTED_TOOL_CALL": "error",
    "TOO_MANY_TOOL_CALLS": "error",
    "MISSING_THOUGHT_SIGNATURE": "error",
    "MALFORMED_RESPONSE": "error",
}
_COUNTS: Final = ("promptTokenCount", "candidatesTokenCount", "totalTokenCount", "thoughtsTokenCount")
_KEPT: Final = (
    ("finish_message", "finish_message"),
    ("prompt_feedback", "prompt_feedback"),
    ("grounding_metadata", "grounding_metadata"),
    ("url_context_metadata", "url_context_metadata"),
    ("citation_metadata", "citation_metadata"),
    ("safety_ratings", "safety_ratings"),
    ("logprobs_result", "logprobs"),
    ("avg_logprobs", "avg_logprobs"),
)
"""What is kept of a candidate and its answer, and its name in `response_metadata`."""


def finish_word(raw: str | None, *, blocked: bool, calls: bool, said: bool) -> str:
    """Why the answer ended. Google says `STOP` after calls too."""
    if blocked:
        return "content_filter"
    word = _FINISH.get(raw, "other") if raw else ("stop" if said or calls else "other")
    return "tool_calls" if word == "stop" and calls else word


def metadata_of(
    facts: Mapping[str, Any], *, who: Mapping[str, str], word: str, raw: str | None, usage: Any
) -> dict[str, Any]:
    """`response_metadata`: what users of every provider find in the same place, and what only Google has."""
    metadata: dict[str, Any] = {
        "finish_reason": word,
        "raw_finish_reason": raw,
        "token_usage": usage,
        "model_name": facts.get("model_version") or None,
        "id": facts.get("response_id") or None,
        **who,
    }
    for fact, name in _KEPT:
        if facts.get(fact):
            metadata[name] = facts[fact]
    return metadata


def counts_in(usage: Any) -> dict[str, Any] | None:
    """The provider's own object from its JSON; None if it counts nothing."""
    try:
        found = loads(bytes(usage)) if usage else None
    except ValueError:
        return None
    if not is_dict(found):
        return None
    return found if any(isinstance(found.get(name), int) for name in _COUNTS) else None


def usage_of(counts: Mapping[str, Any] | None) -> Any:
    """`usage_metadata`. Details only where they were reported."""
    if counts is None:
        return None
    thoughts = _count(counts, "thoughtsTokenCount")
    asked = _count(counts, "promptTokenCount") + _count(counts, "toolUsePromptTokenCount")
    answered = _count(counts, "candidatesTokenCount") + thoughts
    made: dict[str, Any] = {
        "input_tokens": asked,
        "output_tokens": answered,
        "total_tokens": counts["totalTokenCount"]
        if isinstance(counts.get("totalTokenCount"), int)
        else asked + answered,
    }
    before = {"audio": _sound(counts.get("promptTokensDetails"))}
    if "cachedContentTokenCount" in counts:
        before["cache_read"] = _count(counts, "cachedContentTokenCount")
    after = {"audio": _sound(counts.get("candidatesTokensDetails"))}
    if "thoughtsTokenCount" in counts:
        after["reasoning"] = thoughts
    for name, details in (("input_token_details", before), ("output_token_details", after)):
        known = {key: value for key, value in details.items() if value is not None}
        if known:
            made[name] = known
    return made


def _count(counts: Mapping[str, Any], name: str) -> int:
    value = counts.get(name)
    return value if isinstance(value, int) else 0


def _sound(details: Any) -> int | None:
    """Tokens of sound; None if there were none."""
    for detail in details if is_list(details) else ():
        if is_dict(detail) and detail.get("modality") == "AUDIO":
            return _count(detail, "tokenCount") or None
    return None
