"""What one reply has cost, in US dollars.

Rules:

- the provider's own figure goes before everything: it knows its discounts, fees and tools;
- else the table of `genai-prices` (extra `[prices]`), by the provider that was spoken to and the model that answered;
- what is not known for certain has no price: another server under a provider's name, tools that the provider ran, a
  tier or a kind of token that the table does not have. There is no figure that is nearly right.

The table is imported with the first reply that needs it, which takes half a second; without the extra nothing is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from loopwright.messages import AIMessage
from loopwright.messages.plain import is_dict

__all__ = ["price_of"]

_TABLES: Final = {
    "anthropic": "anthropic",
    "azure": "azure",
    "bedrock": "aws",
    "cerebras": "cerebras",
    "cohere": "cohere",
    "deepseek": "deepseek",
    "fireworks": "fireworks",
    "google": "google",
    "google-vertex": "google",
    "groq": "groq",
    "minimax": "minimax",
    "mistral": "mistral",
    "moonshot": "moonshotai",
    "novita": "novita",
    "openai": "openai",
    "openrouter": "openrouter",
    "together": "together",
    "xai": "x-ai",
    "zai": "zai",
}
"""By our name of a provider, that of its table. Perplexity has none: it charges for searches, and says how much."""

_INPUT: Final = {
    "audio": "input_audio_tokens",
    "cache_creation": "cache_write_tokens",
    "cache_read": "cache_read_tokens",
    "ephemeral_1h_input_tokens": "cache_write_1h_tokens",
    "ephemeral_5m_input_tokens": "cache_write_5m_tokens",
    "image": "input_image_tokens",
    "text": "input_text_tokens",
}
_OUTPUT: Final = {
    "audio": "output_audio_tokens",
    "image": "output_image_tokens",
    "reasoning": "output_reasoning_tokens",
    "text": "output_text_tokens",
}
_USUAL_TIERS: Final = (None, "auto", "default", "standard")
_TICKS: Final = 10_000_000_000
"""xAI counts in these; so many are a dollar."""


def price_of(message: AIMessage) -> float | None:
    """What this reply has cost, in US dollars; None if that is not known."""
    metadata = message.response_metadata
    if metadata.get("cache_hit"):
        return 0.0
    own = _own_figure(metadata)
    return own if own is not None else _from_table(message, metadata)


def _own_figure(metadata: Mapping[str, Any]) -> float | None:
    """What the provider says: `response_metadata["cost"]`, or a figure in its own usage object."""
    if metadata.get("cost") is not None:
        return metadata["cost"]
    usage: Any = metadata.get("token_usage")
    if not is_dict(usage):
        return None
    if isinstance(ticks := usage.get("cost_in_usd_ticks"), (int, float)):
        return ticks / _TICKS
    cost: Any = usage.get("cost")
    if is_dict(cost):  # Perplexity
        cost = cost.get("total_cost")
    if not isinstance(cost, (int, float)):
        return None
    if usage.get("is_byok"):  # OpenRouter takes its fee, and the provider behind it charges the user's own key
        details: Any = usage.get("cost_details")
        upstream: Any = details.get("upstream_inference_cost") if is_dict(details) else None
        return cost + upstream if isinstance(upstream, (int, float)) else None
    return cost


def _from_table(message: AIMessage, metadata: Mapping[str, Any]) -> float | None:
    table, model = _TABLES.get(metadata.get("provider") or ""), metadata.get("model_name")
    counts = _counts(message.usage_metadata)
    if table is None or not model or counts is None or metadata.get("host") or _ran_tools(message):
        return None
    try:
        from genai_prices import Usage
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        return None
    tier = metadata.get("service_tier")
    try:
        provider, row = get_snapshot().find_provider_model(model, None, table, None)
        if tier not in _USUAL_TIERS and not any(
            variant.when.get("service_tier") == tier for variant in row.price_variants or ()
        ):
            return None
        context = None if tier in _USUAL_TIERS else {"service_tier": tier}
        return float(row.calc_price(Usage(**counts), provider, price_context=context).total_price)
    except (LookupError, ValueError):  # a model it does not know, or counts that do not go together
        return None


def _counts(usage: Any) -> dict[str, int] | None:
    """Reported tokens under the table's names; None if there are some that have no name there."""
    if not is_dict(usage) or not usage.get("total_tokens"):
        return None
    counts: dict[str, int] = {
        "input_tokens": usage.get("input_tokens") or 0,
        "output_tokens": usage.get("output_tokens") or 0,
    }
    for names, details in ((_INPUT, usage.get("input_token_details")), (_OUTPUT, usage.get("output_token_details"))):
        for kind, count in cast("dict[str, Any]", details or {}).items():
            if not count:
                continue
            if kind not in names:
                return None
            counts[names[kind]] = count
    return counts


def _ran_tools(message: AIMessage) -> bool:
    """Whether the provider has run tools of its own, which it charges for beside the tokens."""
    if isinstance(message.content, str) and not message.additional_kwargs.get("annotations"):
        return False
    return any(block.get("type") in ("server_tool_call", "server_tool_result") for block in message.content_blocks)
