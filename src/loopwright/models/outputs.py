"""What a model class written for LangChain's protocol returns: results and generations around a message.

They are envelopes. `BaseChatModel` opens them at once; nothing of ours keeps one. Fields are given by keyword.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from loopwright.messages import AIMessage, AIMessageChunk, BaseMessage

__all__ = ["ChatGeneration", "ChatGenerationChunk", "ChatResult", "Generation", "LLMResult", "of_message"]


class Generation(Struct, kw_only=True):
    """One answer of a text-completion model."""

    text: str
    generation_info: dict[str, Any] | None = None


class ChatGeneration(Struct, kw_only=True):
    """One answer of a chat model."""

    message: BaseMessage
    generation_info: dict[str, Any] | None = None
    """What the provider said beside the message; it ends up in the message's `response_metadata`."""

    @property
    def text(self) -> str:
        return self.message.text


class ChatGenerationChunk(Struct, kw_only=True):
    """One piece of an answer that is streamed."""

    message: AIMessageChunk
    generation_info: dict[str, Any] | None = None

    @property
    def text(self) -> str:
        return self.message.text

    def __add__(self, other: ChatGenerationChunk) -> ChatGenerationChunk:
        info = {**(self.generation_info or {}), **(other.generation_info or {})}
        return ChatGenerationChunk(message=self.message + other.message, generation_info=info or None)


class ChatResult(Struct, kw_only=True):
    """What `_generate` returns. The first generation is the answer."""

    generations: list[ChatGeneration]
    llm_output: dict[str, Any] | None = None
    """What the provider said about the whole call, `token_usage` for one."""


class LLMResult(Struct, kw_only=True):
    """What callback handlers get at the end of a model call: a list of generations for each prompt (there is one)."""

    generations: list[list[Generation | ChatGeneration | ChatGenerationChunk]]
    llm_output: dict[str, Any] | None = None


def of_message(message: AIMessage) -> LLMResult:
    """A finished call's message in the envelope that callback handlers expect."""
    metadata = message.response_metadata
    output = {key: metadata[key] for key in ("token_usage", "model_name") if key in metadata}
    return LLMResult(generations=[[ChatGeneration(message=message)]], llm_output=output or None)
