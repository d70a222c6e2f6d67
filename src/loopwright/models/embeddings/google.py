"""`GoogleGenerativeAIEmbeddings`: vectors from Gemini, `batchEmbedContents` for documents, `embedContent` for a query.

Documents and queries are told apart (`taskType`), because the model makes vectors for either side of a search; give
`task_type` where a text has another purpose. Vectors shorter than the model's own are not of length 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from loopwright.models.embeddings.wired import WiredEmbeddings, vector_of
from loopwright.models.google.settings import HOST, address_of
from loopwright.models.http import WireRequest
from loopwright.models.settings import first_env, given_key, no_key, settle_names
from loopwright.models.wire_errors import Peer

__all__ = ["GoogleGenerativeAIEmbeddings"]

_KEYS: Final = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
_MOST_TEXTS: Final = 100
_SPELLINGS: Final = {
    "google_api_key": "api_key",
    "output_dimensionality": "dimensions",
    "request_timeout": "timeout",
    "batch_size": "chunk_size",
}


class GoogleGenerativeAIEmbeddings(WiredEmbeddings):
    """Embeddings of the Gemini API."""

    model: str = "gemini-embedding-001"
    task_type: str | None = None
    """`RETRIEVAL_DOCUMENT` for documents and `RETRIEVAL_QUERY` for queries without it."""

    if not TYPE_CHECKING:

        def __init__(self, **fields: Any) -> None:
            super().__init__(**_settled(type(self), fields))

    def _request(self, texts: Sequence[str], *, query: bool) -> WireRequest:
        key = self._key()
        name = self.model if "/" in self.model else f"models/{self.model}"
        asked = [self._asked(name, text, query=query) for text in texts]
        method, body = ("embedContent", asked[0]) if query else ("batchEmbedContents", {"requests": asked})
        hint = f"the key comes from api_key= or {' or '.join(_KEYS)}"
        peer = Peer("google", self.base_url, key_hint=hint, secrets=self._secrets(key))
        return self._post(f"{self.base_url}/{name}:{method}", body, peer, {"x-goog-api-key": key} if key else {})

    def _asked(self, name: str, text: str, *, query: bool) -> dict[str, Any]:
        task = self.task_type or ("RETRIEVAL_QUERY" if query else "RETRIEVAL_DOCUMENT")
        asked: dict[str, Any] = {"model": name, "content": {"parts": [{"text": text}]}, "taskType": task}
        if self.dimensions is not None:
            asked["outputDimensionality"] = self.dimensions
        return asked

    def _read(self, answer: Any) -> Any:
        found = answer["embeddings"] if "embeddings" in answer else [answer["embedding"]]
        return [vector_of(one["values"]) for one in found]


def _settled(cls: Any, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields with key and address found. Raises `UsageError`."""
    settle_names(cls, fields, _SPELLINGS)
    given = fields.get("api_key")
    fields["api_key"] = given_key(first_env(_KEYS) if given is None else given)
    if given is None and fields["api_key"] is None:
        raise no_key(cls.__name__, "google", _KEYS)
    fields["base_url"] = address_of(fields.get("base_url"), "v1beta") or f"https://{HOST}/v1beta"
    fields["chunk_size"] = fields.get("chunk_size") or _MOST_TEXTS
    return fields
