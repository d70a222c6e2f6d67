"""Which of OpenAI's two APIs a request goes to.

Rules:

- `use_responses_api` decides if it is set;
- if not, OpenAI and Azure are asked by Responses where a setting, an argument or a tool exists only there;
- and, at their own addresses, for models that Chat Completions does not have or refuses tools to;
- everything else, and every other provider, is asked by Chat Completions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from loopwright.models.providers import provider_at

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
        or (provider_at(model.base_url) is not None and _needs_it(model, given))
    )


def is_own_tool(tool: Any) -> bool:
    """Whether a tool is the provider's own, `{"type": "web_search"}` for instance."""
    if not isinstance(tool, Mapping):
        return False
    kind = cast("Mapping[str, Any]", tool).get("type", "function")
    return kind not in ("function", "custom", "object")


def _needs_it(model: ChatOpenAI, given: Mapping[str, Any]) -> bool:
    """As of November 2026: the `-pro` models, codex and deep research are not in Chat Completions, and models from
    gpt-5.4 on take no tools there, unless they are told not to think.
    """
    name = model.model.lower()
    if "deep-research" in name or "codex" in name or (name.startswith(("o1", "o3", "gpt-5")) and "-pro" in name):
        return True
    effort = given.get("reasoning_effort") or model.reasoning_effort
    return bool(given.get("tools")) and effort != "none" and _version(name) >= (5, 4) and "chat" not in name


def _version(name: str) -> tuple[int, ...]:
    """(5, 4) of "gpt-5.4-mini"; empty for a name without a number."""
    numbers = name.removeprefix("gpt-").partition("-")[0].split(".")
    return tuple(map(int, numbers)) if name.startswith("gpt-") and all(map(str.isdecimal, numbers)) else ()
