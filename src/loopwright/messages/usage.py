"""Adding up token usage.

Rules: None counts as nothing; details are added key by key, also those that only one provider has; `total_tokens`
that is missing is input plus output.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from loopwright.messages.blocks import UsageMetadata

__all__ = ["add_usage", "total_of"]

_DETAILS = ("input_token_details", "output_token_details")


def add_usage(left: UsageMetadata | None, right: UsageMetadata | None) -> UsageMetadata | None:
    """The sum of two usages as a new dictionary; None only if both are None."""
    if left is None:
        return right
    if right is None:
        return left
    total = _add_numbers(left, right)
    for usage in (left, right):
        if "total_tokens" not in usage:
            known: Any = total.get("total_tokens")
            total["total_tokens"] = (known if isinstance(known, (int, float)) else 0) + total_of(usage)
    return cast("UsageMetadata", total)


def total_of(usage: Mapping[str, Any]) -> Any:
    """Input plus output; what is no number counts as nothing."""
    counts = (usage.get("input_tokens"), usage.get("output_tokens"))
    return sum(count for count in counts if isinstance(count, (int, float)))


def _add_numbers(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Any]:
    total: dict[str, Any] = dict(left)
    for key, value in right.items():
        known = total.get(key)
        if known is None:
            total[key] = value
        elif value is None:
            continue
        elif isinstance(value, dict) and isinstance(known, dict):
            total[key] = _add_numbers(cast(dict[str, Any], known), cast(dict[str, Any], value))
        elif isinstance(value, (int, float)) and isinstance(known, (int, float)):
            total[key] = known + value
        else:
            total[key] = value
    return total
