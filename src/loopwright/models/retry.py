"""`with_retry`: the same call, tried again when it fails.

Rules: the waiting goes through the port; a provider that says how long to wait is obeyed; control flow (a pause, a
cancellation) is never retried, nor is a stream that has given a piece: its reader cannot take it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypedDict, TypeVar, cast

from loopwright.errors import (
    AuthenticationError,
    BadRequestError,
    NotFoundError,
    PermissionDeniedError,
    UsageError,
)
from loopwright.messages import AIMessage, AIMessageChunk, BaseMessage
from loopwright.models.like import ChatCall, Exceptions, ModelLike, OnChunk
from loopwright.port import Port
from loopwright.scope import RunnableConfig

__all__ = ["Given", "JitterParams", "ModelRetry", "Retry"]

Out = TypeVar("Out")

_IN_VAIN = (AuthenticationError, PermissionDeniedError, NotFoundError, BadRequestError, UsageError)
"""What comes again however often it is tried; retried only if the caller names it."""


class JitterParams(TypedDict, total=False):
    """How long to wait before attempt n + 1: `min(max, initial * exp_base ** (n - 1) + random up to jitter)`."""

    initial: float
    """Seconds; 1."""
    max: float
    """Seconds; 60."""
    exp_base: float
    """2."""
    jitter: float
    """Seconds; 1."""


class Retry(ChatCall[Out], Generic[Out]):
    """`bound`, tried up to `stop_after_attempt` times."""

    def __init__(
        self,
        bound: ChatCall[Out],
        *,
        retry_if_exception_type: Exceptions | None = None,
        wait_exponential_jitter: bool = True,
        exponential_jitter_params: JitterParams | None = None,
        stop_after_attempt: int = 3,
    ) -> None:
        if stop_after_attempt < 1:
            raise UsageError(f"stop_after_attempt is how often to try in all, at least 1, not {stop_after_attempt}")
        self.bound = bound
        self.retry_if_exception_type = retry_if_exception_type
        self.wait_exponential_jitter = wait_exponential_jitter
        self.exponential_jitter_params: JitterParams = exponential_jitter_params or {}
        self.stop_after_attempt = stop_after_attempt

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.bound!r}, stop_after_attempt={self.stop_after_attempt})"

    def call_config(self, config: RunnableConfig) -> RunnableConfig:
        return self.bound.call_config(config)

    async def respond(
        self,
        port: Port,
        messages: list[BaseMessage],
        *,
        stop: list[str] | None = None,
        kwargs: dict[str, Any],
        config: RunnableConfig,
        on_chunk: OnChunk | None = None,
    ) -> Out:
        given = Given(on_chunk) if on_chunk is not None else None
        attempt = 1
        while True:
            try:
                return await self.bound.respond(port, messages, stop=stop, kwargs=kwargs, config=config, on_chunk=given)
            except Exception as error:
                if attempt >= self.stop_after_attempt or (given is not None and given.any) or not self._retries(error):
                    raise
                wait_s = self._wait_s(attempt, error, port.random())
            attempt += 1
            if wait_s > 0:
                await port.sleep(wait_s)

    def _retries(self, error: Exception) -> bool:
        if self.retry_if_exception_type is not None:
            return isinstance(error, self.retry_if_exception_type)
        return not isinstance(error, _IN_VAIN)

    def _wait_s(self, attempt: int, error: Exception, luck: float) -> float:
        asked: float = getattr(error, "retry_after", None) or 0.0
        if not self.wait_exponential_jitter:
            return asked
        params = self.exponential_jitter_params
        grown = params.get("initial", 1.0) * params.get("exp_base", 2.0) ** (attempt - 1)
        return max(asked, min(params.get("max", 60.0), grown + luck * params.get("jitter", 1.0)))

    def _again(self, bound: ChatCall[Any]) -> dict[str, Any]:
        return {
            "bound": bound,
            "retry_if_exception_type": self.retry_if_exception_type,
            "wait_exponential_jitter": self.wait_exponential_jitter,
            "exponential_jitter_params": self.exponential_jitter_params,
            "stop_after_attempt": self.stop_after_attempt,
        }


class ModelRetry(Retry[AIMessage], ModelLike):
    """A chat model that is tried again when it fails."""

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: str | dict[str, Any] | bool | None = None, **kwargs: Any
    ) -> ModelLike:
        """Bind to the model below, because that one knows its provider."""
        inner = cast(ModelLike, self.bound).bind_tools(tools, tool_choice=tool_choice, **kwargs)
        return ModelRetry(**self._again(inner))


class Given:
    """An `on_chunk` that knows whether anything has been given out."""

    __slots__ = ("any", "on_chunk")

    def __init__(self, on_chunk: OnChunk) -> None:
        self.on_chunk = on_chunk
        self.any = False

    def __call__(self, chunk: AIMessageChunk) -> None:
        self.any = True
        self.on_chunk(chunk)
