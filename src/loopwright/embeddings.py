"""Door: embeddings, where users of LangChain look for them.

A name is imported when it is asked for: a program that embeds with one provider needs no other.
"""

from typing import TYPE_CHECKING

from loopwright.models.embeddings import __getattr__  # noqa: F401  # this module's own: it finds the names below

if TYPE_CHECKING:
    from loopwright.models.embeddings.base import Embeddings
    from loopwright.models.embeddings.catalogue import init_embeddings
    from loopwright.models.embeddings.google import GoogleGenerativeAIEmbeddings
    from loopwright.models.embeddings.local import LocalEmbeddings
    from loopwright.models.embeddings.openai import OpenAIEmbeddings

__all__ = ["Embeddings", "GoogleGenerativeAIEmbeddings", "LocalEmbeddings", "OpenAIEmbeddings", "init_embeddings"]
