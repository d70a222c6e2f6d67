"""Door: chat models, where users of LangChain look for them.

A name is imported when it is asked for: a program with a model of its own needs no provider's.
"""

from typing import TYPE_CHECKING

from loopwright.models import __getattr__  # noqa: F401  # this module's own: it finds the names below

if TYPE_CHECKING:
    from loopwright.models.anthropic.bedrock import ChatAnthropicBedrock
    from loopwright.models.anthropic.model import ChatAnthropic
    from loopwright.models.base import BaseChatModel
    from loopwright.models.cache import InMemoryCache
    from loopwright.models.catalogue import init_chat_model
    from loopwright.models.google.model import ChatGoogleGenerativeAI, ChatVertexAI
    from loopwright.models.like import ModelLike
    from loopwright.models.openai_chat.azure import AzureChatOpenAI
    from loopwright.models.openai_chat.model import ChatOpenAI
    from loopwright.models.rate_limit import BaseRateLimiter, InMemoryRateLimiter
    from loopwright.models.shared_rate_limit import SharedRateLimiter

__all__ = [
    "AzureChatOpenAI",
    "BaseChatModel",
    "BaseRateLimiter",
    "ChatAnthropic",
    "ChatAnthropicBedrock",
    "ChatGoogleGenerativeAI",
    "ChatOpenAI",
    "ChatVertexAI",
    "InMemoryCache",
    "InMemoryRateLimiter",
    "ModelLike",
    "SharedRateLimiter",
    "init_chat_model",
]
