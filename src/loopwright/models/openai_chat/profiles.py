"""What OpenAI's models can do, as their documentation says. Seen 2026-11-30.

A row is the beginning of a name; the longest that fits counts. What is not known is not said: a key that is missing
means that nobody looked, not that the model cannot.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["profile_of"]

_TOOLS: Final = {"tool_calling": True}
_SCHEMAS: Final = {**_TOOLS, "structured_output": True}
_SEES: Final = {**_SCHEMAS, "image_inputs": True, "image_url_inputs": True}
_READS: Final = {**_SEES, "pdf_inputs": True}
_PLAIN: Final = {"reasoning_output": False}
_THINKS: Final = {"reasoning_output": True}

_ROWS: Final[dict[str, dict[str, Any]]] = {
    "gpt-3.5": {**_PLAIN, **_TOOLS, "structured_output": False, "max_input_tokens": 16_385, "max_output_tokens": 4_096},
    "gpt-4": {**_PLAIN, **_TOOLS, "structured_output": False, "max_input_tokens": 8_192, "max_output_tokens": 8_192},
    "gpt-4-": {**_PLAIN, **_TOOLS, "structured_output": False},
    "gpt-4-turbo": {
        **_PLAIN,
        **_SEES,
        "structured_output": False,
        "max_input_tokens": 128_000,
        "max_output_tokens": 4_096,
    },
    "gpt-4o": {**_PLAIN, **_READS, "max_input_tokens": 128_000, "max_output_tokens": 16_384},
    "gpt-4o-2024-05-13": {
        **_PLAIN,
        **_SEES,
        "structured_output": False,
        "max_input_tokens": 128_000,
        "max_output_tokens": 4_096,
    },
    "gpt-4o-audio": {"tool_calling": True, "audio_inputs": True, "audio_outputs": True, "max_input_tokens": 128_000},
    "gpt-4.1": {**_PLAIN, **_READS, "max_input_tokens": 1_047_576, "max_output_tokens": 32_768},
    "gpt-5": {**_READS, **_THINKS, "max_output_tokens": 128_000},
    "gpt-5-": {**_READS, **_THINKS, "max_input_tokens": 272_000, "max_output_tokens": 128_000},
    "gpt-5-chat": {"image_inputs": True, "max_input_tokens": 128_000, "max_output_tokens": 16_384},
    "gpt-5.1": {**_READS, **_THINKS, "max_input_tokens": 272_000, "max_output_tokens": 128_000},
    "gpt-5.2": {**_READS, **_THINKS, "max_input_tokens": 272_000, "max_output_tokens": 128_000},
    "o1": {**_READS, **_THINKS, "max_input_tokens": 200_000, "max_output_tokens": 100_000},
    "o1-mini": {**_THINKS, "structured_output": False, "max_input_tokens": 128_000, "max_output_tokens": 65_536},
    "o1-preview": {**_THINKS, "structured_output": False, "max_input_tokens": 128_000, "max_output_tokens": 32_768},
    "o3": {**_READS, **_THINKS, "max_input_tokens": 200_000, "max_output_tokens": 100_000},
    "o3-mini": {**_SCHEMAS, **_THINKS, "max_input_tokens": 200_000, "max_output_tokens": 100_000},
    "o4-mini": {**_READS, **_THINKS, "max_input_tokens": 200_000, "max_output_tokens": 100_000},
    "chatgpt-": {"structured_output": False},
}
_EXACT: Final = {"gpt-5": "gpt-5-"}
"""A name that is one model and the beginning of others."""


def profile_of(model: str) -> dict[str, Any] | None:
    """A new dictionary under LangChain's names, tokens as numbers; None for a model that is in no row."""
    name = model.lower()
    name = _EXACT.get(name, name)
    found = max((row for row in _ROWS if name.startswith(row)), key=len, default=None)
    return None if found is None else dict(_ROWS[found])
