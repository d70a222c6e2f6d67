"""What is known about Claude's models by their names: sizes and abilities. One table, as of November 2026.

A row is for all names that begin with it; the longest beginning counts. A name that no row knows, at a gateway say,
has no profile. The sizes are those of Anthropic's overview of models; the clouds' names hold the same name inside.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

__all__ = ["Facts", "default_max_tokens", "facts_of", "profile_of"]

_UNKNOWN_MAX_TOKENS: Final = 4096
"""Every model that speaks the format gives this much."""
_CAUTIOUS_MAX_TOKENS: Final = 32_000
"""Where the prompt and the longest answer have to share a small window."""


class Facts(NamedTuple):
    """One row."""

    max_input_tokens: int
    """The context window."""
    max_output_tokens: int
    released: str
    """Year and month."""
    reasoning: bool = True
    schemas: bool = True
    """Can be held to a JSON schema."""
    late_system: bool = False
    """Takes system messages between turns."""
    tools: bool = True


_FACTS: Final[dict[str, Facts]] = {
    "claude-fable-5": Facts(1_000_000, 128_000, "2026-06", late_system=True),
    "claude-mythos-5": Facts(1_000_000, 128_000, "2026-06", late_system=True),
    "claude-opus-5": Facts(1_000_000, 128_000, "2026-07", late_system=True),
    "claude-opus-4-8": Facts(1_000_000, 128_000, "2026-05", late_system=True),
    "claude-opus-4-7": Facts(1_000_000, 128_000, "2026-04"),
    "claude-opus-4-6": Facts(1_000_000, 128_000, "2026-02"),
    "claude-opus-4-5": Facts(200_000, 64_000, "2025-11"),
    "claude-opus-4-1": Facts(200_000, 32_000, "2025-08"),
    "claude-opus-4": Facts(200_000, 32_000, "2025-05", schemas=False),
    "claude-sonnet-5": Facts(1_000_000, 128_000, "2026-06", late_system=True),
    "claude-sonnet-4-6": Facts(1_000_000, 128_000, "2026-02"),
    "claude-sonnet-4-5": Facts(200_000, 64_000, "2025-09"),
    "claude-sonnet-4": Facts(200_000, 64_000, "2025-05", schemas=False),
    "claude-haiku-5": Facts(1_000_000, 128_000, "2026-10", late_system=True),
    "claude-haiku-4-5": Facts(200_000, 64_000, "2025-10"),
    "claude-3-7-sonnet": Facts(200_000, 64_000, "2025-02", schemas=False),
    "claude-3-5": Facts(200_000, 8_192, "2024-06", reasoning=False, schemas=False),
    "claude-3": Facts(200_000, 4_096, "2024-03", reasoning=False, schemas=False),
    "claude-2": Facts(100_000, 4_096, "2023-07", reasoning=False, schemas=False, tools=False),
}


def facts_of(model: str) -> Facts | None:
    """The row of a model, also by a cloud's name for it ("us.anthropic.claude-opus-4-8-v1:0")."""
    at = model.find("claude-")
    name = model[at:].replace(".", "-") if at >= 0 else ""
    rows = [beginning for beginning in _FACTS if name.startswith(beginning)]
    return _FACTS[max(rows, key=len)] if rows else None


def default_max_tokens(model: str) -> int:
    """How long an answer may be where nobody said it: the API wants a number."""
    facts = facts_of(model)
    if facts is None:
        return _UNKNOWN_MAX_TOKENS
    is_small = facts.max_input_tokens < 1_000_000
    return min(facts.max_output_tokens, _CAUTIOUS_MAX_TOKENS) if is_small else facts.max_output_tokens


def profile_of(model: str) -> dict[str, Any] | None:
    """`profile`, under LangChain's names; None for a model that is not known."""
    facts = facts_of(model)
    if facts is None:
        return None
    return {
        "max_input_tokens": facts.max_input_tokens,
        "max_output_tokens": facts.max_output_tokens,
        "text_inputs": True,
        "image_inputs": facts.tools,
        "image_url_inputs": facts.tools,
        "pdf_inputs": facts.tools,
        "audio_inputs": False,
        "video_inputs": False,
        "image_tool_message": facts.tools,
        "pdf_tool_message": facts.tools,
        "text_outputs": True,
        "image_outputs": False,
        "audio_outputs": False,
        "video_outputs": False,
        "reasoning_output": facts.reasoning,
        "tool_calling": facts.tools,
        "structured_output": facts.schemas,
    }
