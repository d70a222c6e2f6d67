"""From "provider:model" to embeddings. Which class it is, the name decides; it is imported then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from loopwright.errors import UsageError
from loopwright.models.catalogue import provider_named

if TYPE_CHECKING:
    from loopwright.models.embeddings.base import Embeddings

__all__ = ["init_embeddings"]

_GOOGLE: Final = ("google", "google_genai", "gemini")
_WITHOUT: Final = ("anthropic", "bedrock")
_EXAMPLE: Final = 'init_embeddings("openai:text-embedding-3-small")'
_BEGINNINGS: Final = {
    "text-embedding-3": "openai",
    "text-embedding-ada": "openai",
    "gemini-embedding": "google",
    "mistral-embed": "mistral",
    "codestral-embed": "mistral",
}
"""Beginnings of names that belong to one provider only."""


def init_embeddings(model: str, *, provider: str | None = None, **kwargs: Any) -> Embeddings:
    """Make embeddings from their name: `init_embeddings("openai:text-embedding-3-small", dimensions=256)`.

    `kwargs` are the fields of the class. "local:" is the model in this process, "local:/path/model.gguf" one of yours.
    Raises `UsageError`, which says what to write instead.
    """
    chosen, name = _split(model, provider)
    if chosen == "local":
        from loopwright.models.embeddings.local import LocalEmbeddings

        return LocalEmbeddings(model=name, **kwargs)
    if not name:
        raise UsageError(f"{model!r} names no model: write {chosen}:<model>")
    if chosen in _GOOGLE:
        from loopwright.models.embeddings.google import GoogleGenerativeAIEmbeddings

        return GoogleGenerativeAIEmbeddings(model=name, **kwargs)
    if chosen in _WITHOUT:
        raise UsageError(f"{chosen} has no embeddings; take another provider's, for instance {_EXAMPLE}")
    row = provider_named(chosen)
    from loopwright.models.embeddings.openai import OpenAIEmbeddings

    return OpenAIEmbeddings(model=name, provider=row.name, **kwargs)


def _split(model: Any, provider: str | None) -> tuple[str, str]:
    """(provider, model) of a name. Raises `UsageError` where the provider cannot be told."""
    if not isinstance(model, str) or not model.strip():
        raise UsageError(f"init_embeddings was given {model!r} for a model: write {_EXAMPLE}")
    name = model.strip()
    if provider is not None:
        return provider.lower(), name.removeprefix(f"{provider}:")
    before, colon, after = name.partition(":")
    if colon and "/" not in before:
        return before.lower(), after.strip()
    for beginning, owner in _BEGINNINGS.items():
        if name.startswith(beginning):
            return owner, name
    raise UsageError(
        f"the model {model!r} names no provider, and its name belongs to none: write provider:model, for instance "
        f'"ollama:{name}", or give provider='
    )
