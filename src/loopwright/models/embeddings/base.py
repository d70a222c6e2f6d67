"""`Embeddings`: what a class of your own becomes one by. Two methods are enough; both serve asyncio too."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, cast

from loopwright.errors import UsageError

__all__ = ["Embeddings", "checked_text", "checked_texts"]


class Embeddings(ABC):
    """Turns texts into vectors. Texts that mean alike have vectors that point alike."""

    @abstractmethod
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """A vector for each text, in order: what is searched."""

    @abstractmethod
    def embed_query(self, text: str) -> list[float]:
        """The vector of one text: what is searched for. Some models make another one of it than of a document."""

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """`embed_documents` under asyncio; on a helper thread, unless a class has better."""
        import asyncio

        return await asyncio.to_thread(self.embed_documents, texts)

    async def aembed_query(self, text: str) -> list[float]:
        """`embed_query` under asyncio."""
        import asyncio

        return await asyncio.to_thread(self.embed_query, text)


def checked_texts(texts: Sequence[str]) -> list[str]:
    """The texts as a list. Raises `UsageError` for anything else."""
    if isinstance(texts, str):
        raise UsageError("embed_documents takes a list of texts: write embed_documents([text]) or embed_query(text)")
    return [checked_text(text, f"embed_documents: texts[{place}]") for place, text in enumerate(texts)]


def checked_text(text: Any, where: str = "embed_query") -> str:
    """The text. Raises `UsageError` for anything else."""
    if not isinstance(text, str):
        hint = " Write embed_documents(texts) for several." if isinstance(text, list) else ""
        raise UsageError(f"{where} must be a str, not {type(cast(Any, text)).__name__}.{hint}")
    return text
