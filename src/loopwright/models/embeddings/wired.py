"""Embeddings at the other end of a wire: batches, connections, retries. A subclass is a format.

Rules:

- texts are sent `chunk_size` at a time, one request after the other; the vectors keep the order of the texts;
- an answer with too few vectors, or with one that is none, is an error: nothing is filled in;
- the key is no field that can be printed or dumped.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, cast

from pydantic import ConfigDict

from loopwright.errors import InvalidResponseError
from loopwright.models.embeddings.base import Embeddings, checked_text, checked_texts
from loopwright.models.http import WireRequest
from loopwright.models.settings import WireSettings
from loopwright.models.wire_errors import Peer, error_in_answer
from loopwright.models.wire_json import dumps, loads

__all__ = ["Vectors", "WiredEmbeddings", "vector_of"]

Vectors = list[list[float]]


class WiredEmbeddings(WireSettings, Embeddings):
    """The base of the classes that speak to a provider."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True, protected_namespaces=(), defer_build=True)

    dimensions: int | None = None
    """Length of the vectors, for models that make shorter ones; the model's own without."""
    chunk_size: int = 0
    """Texts in one request; what the provider takes without it."""

    # -- the format -------------------------------------------------------------------------------------------------

    @abstractmethod
    def _request(self, texts: Sequence[str], *, query: bool) -> WireRequest:
        """What is posted. With `query` there is one text, and it is searched for."""

    @abstractmethod
    def _read(self, answer: Any) -> Any:
        """The vectors in an answer's JSON, in order. May raise `LookupError`, `TypeError` or `ValueError`."""

    # -- the four methods -------------------------------------------------------------------------------------------

    def embed_documents(self, texts: list[str]) -> Vectors:
        """A vector for each text, in order. Raises a `ModelError`."""
        vectors: Vectors = []
        for batch in self._batches(texts):
            request = self._request(batch, query=False)
            vectors += self._vectors(self._connected().read(request), request, len(batch))
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """The vector of a text that is searched for. Raises a `ModelError`."""
        request = self._request([checked_text(text)], query=True)
        return self._vectors(self._connected().read(request), request, 1)[0]

    async def aembed_documents(self, texts: list[str]) -> Vectors:
        """`embed_documents`, on an event loop."""
        vectors: Vectors = []
        for batch in self._batches(texts):
            request = self._request(batch, query=False)
            vectors += self._vectors(await self._connected().aread(request), request, len(batch))
        return vectors

    async def aembed_query(self, text: str) -> list[float]:
        """`embed_query`, on an event loop."""
        request = self._request([checked_text(text)], query=True)
        return self._vectors(await self._connected().aread(request), request, 1)[0]

    # -- what they share --------------------------------------------------------------------------------------------

    def _batches(self, texts: Sequence[str]) -> Iterator[list[str]]:
        checked, size = checked_texts(texts), max(1, self.chunk_size)
        return (checked[at : at + size] for at in range(0, len(checked), size))

    def _vectors(self, body: bytes, request: WireRequest, count: int) -> Vectors:
        """The vectors of an answer. Raises a `ModelError`."""
        peer = request.peer
        try:
            answer: Any = loads(body)
        except ValueError as error:
            raise InvalidResponseError(f"{peer.label} answered with no JSON: {error} ({peer.url})") from None
        refused = error_in_answer(peer, answer)
        if refused is not None:
            raise refused
        try:
            vectors: Any = self._read(answer)
        except (LookupError, TypeError, ValueError) as error:
            raise InvalidResponseError(f"{peer.label} answered without vectors: {error!r} ({peer.url})") from None
        if len(vectors) != count:
            raise InvalidResponseError(f"{peer.label} answered with {len(vectors)} vectors for {count} texts")
        return vectors

    def _post(self, url: str, body: Any, peer: Peer, headers: dict[str, str]) -> WireRequest:
        return WireRequest(url, self._headers(headers), dumps(body), peer)


def vector_of(numbers: Any) -> list[float]:
    """A vector that came as a list of numbers. Raises `TypeError` or `ValueError` for anything else."""
    if not isinstance(numbers, list) or not numbers:
        raise ValueError(f"a vector is a list of numbers, not {numbers!r:.60}")
    return [float(number) for number in cast("list[Any]", numbers)]
