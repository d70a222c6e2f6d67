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

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SecretStr

from loopwright import __version__
from loopwright.errors import InvalidResponseError
from loopwright.models.embeddings.base import Embeddings, checked_text, checked_texts
from loopwright.models.http import Wire, WireHeaders, WireRequest
from loopwright.models.settings import sound_key, timeouts_of
from loopwright.models.wire_errors import Peer, error_in_answer
from loopwright.models.wire_json import dumps, loads

__all__ = ["Vectors", "WiredEmbeddings", "vector_of"]

Vectors = list[list[float]]


class WiredEmbeddings(BaseModel, Embeddings):
    """The base of the classes that speak to a provider."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True, protected_namespaces=(), defer_build=True)

    model: str
    """The provider's name of the model."""
    dimensions: int | None = None
    """Length of the vectors, for models that make shorter ones; the model's own without."""
    api_key: Any = Field(default=None, exclude=True, repr=False)
    """The key, or a function that gives it for each request. Without it, the provider's environment variable."""
    base_url: str = ""
    """The address that the paths of the format are added to. Without it, the provider's."""
    chunk_size: int = 0
    """Texts in one request; what the provider takes without it."""
    timeout: Any = None
    """Longest silence in seconds; 600 by default, `inf` for none. A pair is (connect, silence)."""
    max_retries: int = 2
    """Further tries after a failure that may pass."""
    default_headers: dict[str, str] | None = Field(default=None, exclude=True, repr=False)
    http_client: Any = Field(default=None, exclude=True, repr=False)
    """An `httpx2.Client` of your own (proxies, certificates). You close it."""
    http_async_client: Any = Field(default=None, exclude=True, repr=False)

    _wire: Any = PrivateAttr(default=None)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Only what was set: most settings are the provider's."""
        shown = self.model_fields_set
        return ((name, value) for name, value in super().__repr_args__() if name in shown and value is not None)

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
        own = {name.lower(): value for name, value in (self.default_headers or {}).items()}
        common = {"content-type": "application/json", "accept": "application/json"}
        whole = WireHeaders({**common, "user-agent": f"loopwright/{__version__}", **headers, **own})
        return WireRequest(url, whole, dumps(body), peer)

    def _key(self) -> str | None:
        """The key of one request."""
        key = self.api_key
        if key is None:
            return None
        return key.get_secret_value() if isinstance(key, SecretStr) else sound_key(key())

    def _secrets(self, key: str | None) -> tuple[str | None, ...]:
        """What no error may show."""
        return (key, *(self.default_headers or {}).values())

    def _connected(self) -> Wire:
        if self._wire is None:
            own = (self.http_client, self.http_async_client)
            self._wire = Wire(
                timeouts=timeouts_of(self.timeout, None, has_own=own != (None, None)),
                max_retries=self.max_retries,
                http_client=self.http_client,
                http_async_client=self.http_async_client,
            )
        return self._wire

    def close(self) -> None:
        """Close the connections of blocking calls. It happens by itself when the object is gone."""
        self._connected().close()

    async def aclose(self) -> None:
        """Close the connections of the running event loop. It happens by itself when the loop ends."""
        await self._connected().aclose()


def vector_of(numbers: Any) -> list[float]:
    """A vector that came as a list of numbers. Raises `TypeError` or `ValueError` for anything else."""
    if not isinstance(numbers, list) or not numbers:
        raise ValueError(f"a vector is a list of numbers, not {numbers!r:.60}")
    return [float(number) for number in cast("list[Any]", numbers)]
