"""A call with arguments or config set beforehand: what `bind`, `bind_tools` and `with_config` return.

What the call itself is given wins over what was bound. Attributes that a binding does not have are those of what
it binds, so `bound.model_name` works.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, Generic, TypeVar, cast

from loopwright.messages import AIMessage, BaseMessage
from loopwright.models.like import ChatCall, ModelLike, OnChunk
from loopwright.port import Port
from loopwright.scope import RunnableConfig, merge_configs

__all__ = ["Bound", "ModelBinding"]

Out = TypeVar("Out")


class Bound(ChatCall[Out], Generic[Out]):
    """`bound` called with `kwargs` and `config` set beforehand."""

    bound: ChatCall[Out]
    kwargs: dict[str, Any]
    """Arguments for the model."""
    config: RunnableConfig

    def __init__(self, bound: ChatCall[Out], kwargs: dict[str, Any], config: RunnableConfig | None = None) -> None:
        self.bound = bound
        self.kwargs = kwargs
        self._stop: list[str] | None = kwargs.get("stop")
        self._rest = {key: value for key, value in kwargs.items() if key != "stop"}
        self.config = config or {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.bound!r}, {sorted(self.kwargs)})"

    def __getattr__(self, name: str) -> Any:
        if name == "bound" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.bound, name)

    def call_config(self, config: RunnableConfig) -> RunnableConfig:
        return self.bound.call_config(merge_configs(self.config, config) if self.config else config)

    def respond(
        self,
        port: Port,
        messages: list[BaseMessage],
        *,
        stop: list[str] | None = None,
        kwargs: dict[str, Any],
        config: RunnableConfig,
        on_chunk: OnChunk | None = None,
    ) -> Coroutine[Any, Any, Out]:
        kwargs = {**self._rest, **kwargs} if kwargs else self._rest
        stop = self._stop if stop is None else stop
        if self.config:
            config = merge_configs(self.config, config)
        return self.bound.respond(port, messages, stop=stop, kwargs=kwargs, config=config, on_chunk=on_chunk)


class ModelBinding(Bound[AIMessage], ModelLike):
    """A chat model with arguments or config set beforehand."""

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: str | dict[str, Any] | bool | None = None, **kwargs: Any
    ) -> ModelLike:
        """Bind to the model below, because that one knows its provider; what was bound before stays."""
        inner = cast(ModelLike, self.bound).bind_tools(tools, tool_choice=tool_choice, **kwargs)
        if isinstance(inner, ModelBinding):
            return ModelBinding(inner.bound, {**self.kwargs, **inner.kwargs}, merge_configs(self.config, inner.config))
        return ModelBinding(inner, self.kwargs, self.config)

    def bind(self, **kwargs: Any) -> ModelBinding:
        return ModelBinding(self.bound, {**self.kwargs, **kwargs}, self.config)

    def with_config(self, config: RunnableConfig | None = None, **kwargs: Any) -> ModelBinding:
        return ModelBinding(self.bound, self.kwargs, merge_configs(self.config, config, kwargs))

    def get_num_tokens_from_messages(self, messages: Any, tools: Sequence[Any] | None = None) -> int:
        return cast(ModelLike, self.bound).get_num_tokens_from_messages(messages, tools)
