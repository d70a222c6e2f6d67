"""Door: the envelopes of a model's answer, where users of LangChain look for them."""

from loopwright.models.outputs import ChatGeneration, ChatGenerationChunk, ChatResult, Generation, LLMResult

__all__ = ["ChatGeneration", "ChatGenerationChunk", "ChatResult", "Generation", "LLMResult"]
