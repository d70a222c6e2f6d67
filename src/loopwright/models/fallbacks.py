"""`with_fallbacks`: the same call, and others in order when it fails.

Rules: control flow passes through untouched and asks nobody else; once a piece of a stream has been given, there is
no way back; if all fail, the first one's error is raised, because that is the model the caller meant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar, cast

from loopwright.errors import UsageError
from loopwright.messages import AIMessage, BaseMessage
from loopwright.models.like import ChatCall, Exceptions, ModelLike, OnChunk
from loopwright.models.retry import Given
from loopwright.port import Port
from loopwright.scope import RunnableConfig

__all__ = ["Fallbacks", "ModelFallbacks"]

Out = TypeVar("Out")


class Fallbacks(ChatCall[Out], Generic[Out]):
    """`runnable`, then each of `fallbacks`."""

    def __init__(
        self,
        runnable: ChatCall[Out],
        fallbacks: Sequence[ChatCall[Out]],
        *,
        exceptions_to_handle: Exceptions = (Exception,),
    ) -> None:
        self.runnable = runnable
        self.fallbacks = [_call_of(one) for one in fallbacks]
        self.exceptions_to_handle = exceptions_to_handle

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.runnable!r}, {self.fallbacks!r})"

    def call_config(self, config: RunnableConfig) -> RunnableConfig:
        return self.runnable.call_config(config)

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
        first: Exception | None = None
        for call in (self.runnable, *self.fallbacks):
            try:
                return await call.respond(port, messages, stop=stop, kwargs=kwargs, config=config, on_chunk=given)
            except Exception as error:
                if (given is not None and given.any) or not isinstance(error, self.exceptions_to_handle):
                    raise
                first = first or error
        assert first is not None
        raise first


def _call_of(given: Any) -> ChatCall[Any]:
    """What can be called like a model; a chat model of LangChain's becomes one of ours."""
    if isinstance(given, ChatCall):
        return cast("ChatCall[Any]", given)
    from loopwright.models.langchain import adapted

    model = adapted(given)
    if model is None:
        raise UsageError(f"with_fallbacks takes chat models, not {type(given).__name__}: write with_fallbacks([model])")
    return model


class ModelFallbacks(Fallbacks[AIMessage], ModelLike):
    """A chat model with others behind it. Binding binds all of them."""

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: str | dict[str, Any] | bool | None = None, **kwargs: Any
    ) -> ModelLike:
        """Each model learns of the tools in its provider's own form."""
        bound = [model.bind_tools(tools, tool_choice=tool_choice, **kwargs) for model in self._models()]
        return ModelFallbacks(bound[0], bound[1:], exceptions_to_handle=self.exceptions_to_handle)

    def with_structured_output(
        self, schema: Any, *, include_raw: bool = False, method: str | None = None, **kwargs: Any
    ) -> Any:
        """An answer that does not fit is a failure too: the next model is asked."""
        asked = [
            model.with_structured_output(schema, include_raw=include_raw, method=method, **kwargs)
            for model in self._models()
        ]
        return Fallbacks(asked[0], asked[1:], exceptions_to_handle=self.exceptions_to_handle)

    def _models(self) -> list[ModelLike]:
        return cast("list[ModelLike]", [self.runnable, *self.fallbacks])
