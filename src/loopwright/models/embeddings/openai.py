"""`OpenAIEmbeddings`: vectors from OpenAI, or from any server that speaks its `/embeddings`.

Rules:

- `provider` picks a row of `models/providers.py`: address and key variable. Without it, `base_url` is looked up there;
- OpenAI is asked for numbers as base64, a third of the bytes; not all others know that, and give lists;
- the vectors of an answer are put in order by their `index`.
"""

from __future__ import annotations

import sys
from array import array
from base64 import b64decode
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from pydantic import Field

from loopwright.models.addresses import host_of
from loopwright.models.embeddings.wired import WiredEmbeddings, vector_of
from loopwright.models.http import WireRequest
from loopwright.models.openai_chat.settings import key_hint, locate
from loopwright.models.providers import PROVIDERS, provider_at
from loopwright.models.settings import settle_names, with_query
from loopwright.models.wire_errors import Peer

__all__ = ["OpenAIEmbeddings"]

_SPELLINGS: Final = {
    "model_name": "model",
    "openai_api_key": "api_key",
    "openai_api_base": "base_url",
    "request_timeout": "timeout",
    "batch_size": "chunk_size",
}
_MOST_TEXTS: Final = {"qwen": 10, "siliconflow": 32, "zhipu": 64, "zai": 64, "cohere": 96}
"""What providers take in one request, where it is less than `_TEXTS`."""
_TEXTS: Final = 256
_KNOW_BASE64: Final = ("openai", "azure")


class OpenAIEmbeddings(WiredEmbeddings):
    """Embeddings at OpenAI, or at any server that speaks its format. `base_url` is the address up to and with `/v1`."""

    model: str = "text-embedding-3-small"
    provider: str = ""
    """A row of the table of providers. Found from `base_url` if left out."""
    user: str | None = None
    default_query: dict[str, str] | None = None
    model_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Further fields of the request."""

    if not TYPE_CHECKING:

        def __init__(self, **fields: Any) -> None:
            super().__init__(**_settled(type(self), fields))

    def _request(self, texts: Sequence[str], *, query: bool) -> WireRequest:
        key, row = self._key(), PROVIDERS[self.provider]
        known = self.provider != "openai" or provider_at(self.base_url) is not None
        body: dict[str, Any] = {"model": self.model, "input": list(texts)}
        if self.dimensions is not None:
            body["dimensions"] = self.dimensions
        if known and self.provider in _KNOW_BASE64:
            body["encoding_format"] = "base64"
        if self.user is not None:
            body["user"] = self.user
        body.update(self.model_kwargs)
        headers: dict[str, str] = {}
        if key:
            headers[row.key_header] = f"Bearer {key}" if row.key_header == "authorization" else key
        label = None if known else host_of(self.base_url)
        peer = Peer(row.name, self.base_url, label=label, key_hint=key_hint(row), secrets=self._secrets(key))
        return self._post(with_query(f"{self.base_url}/embeddings", self.default_query), body, peer, headers)

    def _read(self, answer: Any) -> Any:
        items: list[Any] = list(answer["data"])
        if all("index" in item for item in items):
            items.sort(key=lambda item: item["index"])
        return [_vector(item["embedding"]) for item in items]


def _settled(cls: Any, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields with provider, key and address found. Raises `UsageError`."""
    settle_names(cls, fields, _SPELLINGS)
    row = locate(cls.__name__, fields)
    fields["chunk_size"] = fields.get("chunk_size") or _MOST_TEXTS.get(row.name, _TEXTS)
    return fields


def _vector(given: Any) -> list[float]:
    """A vector from a list of numbers, or from base64 of 32-bit floats, the smallest byte first."""
    if not isinstance(given, str):
        return vector_of(given)
    numbers = array("f")
    numbers.frombytes(b64decode(given, validate=True))
    if sys.byteorder == "big":
        numbers.byteswap()
    return vector_of(numbers.tolist())
