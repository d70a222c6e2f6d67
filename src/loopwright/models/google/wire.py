"""The shapes of an answer, as far as they are read, and the names that both directions agree on.

Rules:

- a part's signature is kept where the part went: a block's in `extras["signature"]`, a function call's in
  `extra_content`, in the form in which Gemini's OpenAI-compatible endpoint sends it too;
- what the provider gave no id gets one that says it was made here (`MADE`), and goes back without it;
- a tool that the provider ran itself keeps in `extras["part"]` which part of the wire it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec

from loopwright.ids import new_id

__all__ = ["MADE", "Candidate", "Event", "Part", "call_signature", "is_made", "made_id", "sealed_call"]

MADE: Final = "made_"
"""Ids that begin so are ours, and the provider never saw them."""


class Part(msgspec.Struct, gc=False, rename="camel"):
    text: Any = None
    thought: Any = None
    thought_signature: Any = None
    function_call: Any = None
    executable_code: Any = None
    code_execution_result: Any = None
    tool_call: Any = None
    tool_response: Any = None
    inline_data: Any = None
    file_data: Any = None


class _Content(msgspec.Struct, gc=False):
    parts: list[Part] | None = None


class Candidate(msgspec.Struct, gc=False, rename="camel"):
    content: _Content | None = None
    finish_reason: Any = None
    finish_message: Any = None
    index: int | None = 0
    grounding_metadata: Any = None
    url_context_metadata: Any = None
    citation_metadata: Any = None
    safety_ratings: Any = None
    logprobs_result: Any = None
    avg_logprobs: Any = None

    def has_facts(self) -> bool:
        """Whether it says something beside its parts."""
        return bool(
            self.grounding_metadata
            or self.finish_message
            or self.safety_ratings
            or self.citation_metadata
            or self.url_context_metadata
            or self.logprobs_result
            or self.avg_logprobs
        )


class Event(msgspec.Struct, gc=False, rename="camel"):
    """A whole answer, or one piece of a stream: they have the same shape."""

    candidates: list[Candidate] | None = None
    prompt_feedback: Any = None
    usage_metadata: msgspec.Raw = msgspec.Raw()
    """Undecoded: every piece of a stream repeats it, and only the last counts."""
    model_version: Any = None
    response_id: Any = None
    error: Any = None

    def is_answer(self) -> bool:
        """Whether anything in it belongs to this format."""
        return bool(self.candidates or self.prompt_feedback or self.usage_metadata or self.model_version)


def made_id() -> str:
    """An id for what came without one."""
    return f"{MADE}{new_id().replace('-', '')}"


def is_made(call_id: Any) -> bool:
    """Whether the provider never saw this id."""
    return not call_id or str(call_id).startswith(MADE)


def sealed_call(signature: Any) -> dict[str, Any]:
    """What a call carries so that its signature goes back with it; nothing without one."""
    return {"extra_content": {"google": {"thought_signature": signature}}} if signature else {}


def call_signature(call: Mapping[str, Any]) -> str | None:
    """The signature that came with a call."""
    more = call.get("extra_content")
    google = cast("dict[str, Any]", more).get("google") if isinstance(more, Mapping) else None
    return cast("dict[str, Any]", google).get("thought_signature") if isinstance(google, Mapping) else None
