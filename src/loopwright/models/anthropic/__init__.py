"""Anthropic's Messages: Claude at Anthropic, at a server that speaks the same, and behind Amazon Bedrock.

`request` is what goes out (with `parts`, `tools`, `caching` and `schemas`), `response` a whole answer that comes in,
`stream` an answer that comes in pieces, `profiles` what is known about the models, `model` and `bedrock` the classes
that users make. All but these are plain functions on plain data: no sockets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loopwright.models.anthropic.bedrock import ChatAnthropicBedrock
    from loopwright.models.anthropic.model import ChatAnthropic

__all__ = ["ChatAnthropic", "ChatAnthropicBedrock"]

_LAZY = {"ChatAnthropic": "model", "ChatAnthropicBedrock": "bedrock"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
