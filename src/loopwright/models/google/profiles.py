"""What Gemini's models can do, by the beginnings of their names, as of November 2026.

A row holds what differs from `_COMMON`; the first whose beginning fits is taken. Names that say no version
(`gemini-flash-latest`) are the newest. A model in no row has no profile: nothing is guessed.

`structured_output` means here what agents need: to hold to a schema and call tools in the same answer. Gemini refuses
the two together before version 3; there a schema alone works, by `with_structured_output(..., method="json_schema")`.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["profile_of", "signs_calls"]

_COMMON: Final[dict[str, Any]] = {
    "max_input_tokens": 1_048_576,
    "max_output_tokens": 65_536,
    "text_inputs": True,
    "image_inputs": True,
    "image_url_inputs": True,
    "pdf_inputs": True,
    "audio_inputs": True,
    "video_inputs": True,
    "image_tool_message": True,
    "pdf_tool_message": True,
    "text_outputs": True,
    "image_outputs": False,
    "audio_outputs": False,
    "video_outputs": False,
    "reasoning_output": True,
    "tool_calling": True,
    "tool_choice": True,
    "structured_output": False,
    "temperature": True,
}

_SMALL: Final[dict[str, Any]] = {"max_output_tokens": 8_192, "reasoning_output": False}
_PAINTS: Final[dict[str, Any]] = {
    "max_output_tokens": 32_768, "image_outputs": True, "audio_inputs": False, "video_inputs": False,
    "reasoning_output": False, "tool_calling": False, "tool_choice": False,
}  # fmt: skip
_NEWEST: Final[dict[str, Any]] = {"structured_output": True}

_ROWS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("gemini-1.5-pro", {**_SMALL, "max_input_tokens": 2_097_152}),
    ("gemini-1.5-flash", _SMALL),
    ("gemini-2.0-flash", _SMALL),
    ("gemini-2.5-flash-image", {**_PAINTS, "max_input_tokens": 65_536}),
    ("gemini-2.5-flash", {}),
    ("gemini-2.5-pro", {}),
    ("gemini-3-pro-image", {**_PAINTS, "max_input_tokens": 65_536, "reasoning_output": True}),
    ("gemini-3", _NEWEST),
    ("gemini-pro-latest", _NEWEST),
    ("gemini-flash", _NEWEST),
)
_OTHERWISE: Final = ("-tts", "-audio", "-live", "-image", "-embedding", "-computer-use")
"""Marks in a name of a model that is not like the others of its beginning."""


def profile_of(model: str) -> dict[str, Any] | None:
    """The profile of a model by its name, with or without `models/` before it; a new dictionary."""
    name = model.rpartition("/")[2]
    for beginning, differs in _ROWS:
        if name.startswith(beginning):
            rest = name[len(beginning) :]
            return None if any(mark in rest for mark in _OTHERWISE) else {**_COMMON, **differs}
    return None


def signs_calls(model: str) -> bool:
    """Whether the model refuses calls without a signature: all Gemini models from version 3 on do."""
    name = model.rpartition("/")[2]
    return name.startswith("gemini-") and not name.startswith(("gemini-1", "gemini-2"))
