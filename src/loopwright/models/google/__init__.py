"""Gemini's generateContent, at the Gemini API and at Vertex AI.

`request` is what goes out, with `parts` (blocks to parts), `tools` and `schemas`. `answer` reads the parts of what
comes in, with `citations`, `facts` and `partial` (calls in pieces); `response` a whole answer, `stream` one that comes
in pieces. `model` has the classes that users make. All but `model` and `settings` are plain functions and classes on
plain data: no sockets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loopwright.models.google.model import ChatGoogleGenerativeAI, ChatVertexAI

__all__ = ["ChatGoogleGenerativeAI", "ChatVertexAI"]

_LAZY = {"ChatGoogleGenerativeAI": "model", "ChatVertexAI": "model"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
