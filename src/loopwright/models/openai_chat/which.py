"""Which of OpenAI's two APIs a request goes to.

Rules:

- `use_responses_api` decides if it is set;
- if not, OpenAI and Azure are asked by Responses where a setting, an argument or a tool exists only there, and for the
  models that are offered nowhere else;
- everything else, and every other provider, is asked by Chat Completions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from loopwright.models.openai_chat.model import ChatOpenAI

__all__ = ["by_responses", "is_own_tool"]

_FIELDS: Final = ("reasoning", "include", "truncation", "context_management", "use_previous_response_id")
_ARGUMENTS: Final = frozenset({
    "reasoning", "include", "truncation", "context_management", "previous_response_id", "text", "background",
    "conversation", "prompt", "max_tool_calls",
})  # fmt: skip
"""Fields and arguments that only Responses has."""


def by_responses(model: ChatOpenAI, kwargs: Mapping[str, Any]) -> bool:
    """Whether a call with these arguments goes to Responses."""
    if model.use_responses_api is not None:
        return model.use_responses_api
    if model.provider not in ("openai", "azure"):
        return False
    given = {**model.model_kwargs, **kwargs}
    return (
        model.output_version == "responses/v1"
        or any(getattr(model, name) for name in _FIELDS)
        or any(given[name] is not None for name in _ARGUMENTS.intersection(given))
        or any(map(is_own_tool, cast("Iterable[Any]", given.get("tools") or ())))
        or _is_only_there(model.model)
    )


def is_own_tool(tool: Any) -> bool:
    """Whether a tool is the provider's own, `{"type": "web_search"}` for instance."""
    if not isinstance(tool, Mapping):
        return False
    kind = cast("Mapping[str, Any]", tool).get("type", "function")
    return kind not in ("function", "custom", "object")


def _is_only_there(model: str) -> bool:
    """Models without Chat Completions, as of November 2026: the `-pro` ones, codex and deep research."""
    name = model.lower().removeprefix("openai/")
    family = name.startswith(("o1-pro", "o3-pro", "gpt-5")) and "-pro" in name
    return family or ("codex" in name and name.startswith(("gpt-5", "codex"))) or "deep-research" in name
