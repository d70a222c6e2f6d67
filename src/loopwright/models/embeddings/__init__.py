"""Embeddings: texts as vectors. What every class does, and one file for each place they come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loopwright.models.embeddings.base import Embeddings
    from loopwright.models.embeddings.catalogue import init_embeddings
    from loopwright.models.embeddings.google import GoogleGenerativeAIEmbeddings
    from loopwright.models.embeddings.local import LocalEmbeddings
    from loopwright.models.embeddings.openai import OpenAIEmbeddings

__all__ = ["Embeddings", "GoogleGenerativeAIEmbeddings", "LocalEmbeddings", "OpenAIEmbeddings", "init_embeddings"]

_LAZY = {
    "Embeddings": "base",
    "GoogleGenerativeAIEmbeddings": "google",
    "LocalEmbeddings": "local",
    "OpenAIEmbeddings": "openai",
    "init_embeddings": "catalogue",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    from loopwright.errors import no_such_name

    raise no_such_name(__name__, name)
