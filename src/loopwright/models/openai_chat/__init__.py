"""OpenAI Chat Completions, and every provider that speaks it.

`request` is what goes out, `response` a whole answer that comes in, `stream` an answer that comes in pieces, `model`
the class that users make, `azure` the same at Azure. The first three are plain functions on plain data: no sockets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loopwright.models.openai_chat.azure import AzureChatOpenAI
    from loopwright.models.openai_chat.model import ChatOpenAI

__all__ = ["AzureChatOpenAI", "ChatOpenAI"]

_LAZY = {"AzureChatOpenAI": "azure", "ChatOpenAI": "model"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
