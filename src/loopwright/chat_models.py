"""Door: chat models, where users of LangChain look for them."""

from loopwright.models.base import BaseChatModel
from loopwright.models.cache import InMemoryCache
from loopwright.models.catalogue import init_chat_model
from loopwright.models.like import ModelLike
from loopwright.models.openai_chat.model import ChatOpenAI
from loopwright.models.rate_limit import BaseRateLimiter, InMemoryRateLimiter

__all__ = [
    "BaseChatModel",
    "BaseRateLimiter",
    "ChatOpenAI",
    "InMemoryCache",
    "InMemoryRateLimiter",
    "ModelLike",
    "init_chat_model",
]
