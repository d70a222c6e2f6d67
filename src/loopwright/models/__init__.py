"""Chat models: what every model call does, the wire client, and one folder for each wire format.

Names are found when they are asked for, because `BaseChatModel` brings pydantic, which a program without a model of
its own never needs to load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loopwright.models.anthropic.bedrock import ChatAnthropicBedrock
    from loopwright.models.anthropic.model import ChatAnthropic
    from loopwright.models.base import BaseChatModel
    from loopwright.models.cache import InMemoryCache
    from loopwright.models.catalogue import init_chat_model
    from loopwright.models.google.model import ChatGoogleGenerativeAI, ChatVertexAI
    from loopwright.models.like import ChatCall, ModelLike
    from loopwright.models.openai_chat.azure import AzureChatOpenAI
    from loopwright.models.openai_chat.model import ChatOpenAI
    from loopwright.models.outputs import ChatGeneration, ChatGenerationChunk, ChatResult, Generation, LLMResult
    from loopwright.models.rate_limit import BaseRateLimiter, InMemoryRateLimiter
    from loopwright.models.shared_rate_limit import SharedRateLimiter

__all__ = [
    "AzureChatOpenAI",
    "BaseChatModel",
    "BaseRateLimiter",
    "ChatAnthropic",
    "ChatAnthropicBedrock",
    "ChatCall",
    "ChatGeneration",
    "ChatGenerationChunk",
    "ChatGoogleGenerativeAI",
    "ChatOpenAI",
    "ChatResult",
    "ChatVertexAI",
    "Generation",
    "InMemoryCache",
    "InMemoryRateLimiter",
    "LLMResult",
    "ModelLike",
    "SharedRateLimiter",
    "init_chat_model",
]

_LAZY = {
    "AzureChatOpenAI": "openai_chat.azure",
    "BaseChatModel": "base",
    "BaseRateLimiter": "rate_limit",
    "ChatAnthropic": "anthropic.model",
    "ChatAnthropicBedrock": "anthropic.bedrock",
    "ChatCall": "like",
    "ChatGeneration": "outputs",
    "ChatGenerationChunk": "outputs",
    "ChatGoogleGenerativeAI": "google.model",
    "ChatOpenAI": "openai_chat.model",
    "ChatResult": "outputs",
    "ChatVertexAI": "google.model",
    "Generation": "outputs",
    "InMemoryCache": "cache",
    "InMemoryRateLimiter": "rate_limit",
    "LLMResult": "outputs",
    "ModelLike": "like",
    "SharedRateLimiter": "shared_rate_limit",
    "init_chat_model": "catalogue",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    from loopwright.errors import no_such_name

    raise no_such_name(__name__, name)
