"""`BaseChatModel`: what a class of your own becomes a chat model by.

    class Parrot(BaseChatModel):
        loud: bool = False                                  # fields are pydantic's

        def _generate(self, messages, stop=None, run_manager=None, **kwargs):
            return AIMessage(messages[-1].text)

Rules:

- one method is enough: `_generate`, or `_stream` if it can; plain or asynchronous (`_agenerate`, `_astream` beside a
  plain one). `invoke` uses `_generate` when there is one; a reader gets what `_stream` yields, or the whole at once;
- `respond` adds what every model call has: the rate limit, the cache, callbacks, ids, and one form of the answer;
- errors of the model's pass through unchanged.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from loopwright.callbacks import CallbackRun, Callbacks, callbacks_of
from loopwright.errors import UsageError
from loopwright.messages import AIMessage, AIMessageChunk, BaseMessage
from loopwright.models.assemble import assembling
from loopwright.models.like import ModelLike, OnChunk
from loopwright.models.outputs import ChatGenerationChunk, of_message
from loopwright.models.protocol import Method, message_of, methods_of, settled
from loopwright.port import Port
from loopwright.scope import RunnableConfig, merge_configs

__all__ = ["BaseChatModel"]


class BaseChatModel(BaseModel, ModelLike):
    """A chat model. Subclass it and declare your settings as fields."""

    model_config = ConfigDict(
        arbitrary_types_allowed=True, populate_by_name=True, protected_namespaces=(), defer_build=True
    )

    name: str | None = None
    """How callbacks and traces call it; its class's name without."""
    cache: Any = Field(default=None, exclude=True, repr=False)
    """Remembers answers: an `InMemoryCache`, or an object with `lookup(prompt, model)` and `update(...)`."""
    verbose: bool = Field(default=False, exclude=True, repr=False)
    """Write each answer to standard output."""
    callbacks: Any = Field(default=None, exclude=True, repr=False)
    """Handlers that hear of every call of this model."""
    tags: list[str] | None = Field(default=None, exclude=True)
    """On every call; "nostream" keeps its tokens out of the `messages` stream."""
    metadata: dict[str, Any] | None = Field(default=None, exclude=True)
    custom_get_token_ids: Callable[[str], list[int]] | None = Field(default=None, exclude=True, repr=False)
    """Counts exactly where `get_num_tokens` would estimate."""
    rate_limiter: Any = Field(default=None, exclude=True, repr=False)
    """An `InMemoryRateLimiter` or a `SharedRateLimiter`, which several models may share."""
    disable_streaming: bool | Literal["tool_calling"] = False
    """True: the answer always comes as a whole. "tool_calling": only when tools are bound."""
    output_version: str | None = None
    """"v1": an answer's content is a list of standard blocks."""
    profile: dict[str, Any] | None = Field(default=None, exclude=True, repr=False)
    """What the model can do: `max_input_tokens`, `structured_output`, `tool_calling`, ..."""

    # -- what a subclass may have -------------------------------------------------------------------------------

    @property
    def _llm_type(self) -> str:
        return type(self).__name__

    @property
    def _identifying_params(self) -> dict[str, Any]:
        """What makes two models of one class different: all fields that are no secrets."""
        return self.model_dump(mode="python", exclude_none=True)

    def _combine_llm_outputs(self, llm_outputs: list[dict[str, Any] | None]) -> dict[str, Any]:
        """Kept for classes that call it."""
        return {key: value for output in llm_outputs if output for key, value in output.items()}

    def answer(
        self,
        port: Port,
        messages: list[BaseMessage],
        *,
        stop: list[str] | None,
        kwargs: dict[str, Any],
        take: Callable[[Any], AIMessageChunk] | None,
    ) -> Awaitable[AIMessage | None]:
        """One call of the model: the message, or None after each piece of it went to `take`.

        `take` is None when nobody reads pieces. Override it, as a coroutine function, in a model that needs the port
        (a delay, say); one that speaks to a provider overrides `_generate` and its sisters.
        """
        if take is not None and methods_of(type(self)).can_stream and self._streams(kwargs):
            return self._consume(port, messages, stop, kwargs, take)
        return self._whole(port, messages, stop, kwargs)

    async def _whole(
        self, port: Port, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]
    ) -> AIMessage:
        methods = methods_of(type(self))
        if not methods.can_generate and not methods.can_stream:
            raise UsageError(
                f"{type(self).__name__} cannot answer: "
                "write def _generate(self, messages, stop=None, **kwargs) that returns an AIMessage"
            )
        if not methods.can_generate:
            take, finish = assembling(port.new_id, None)
            await self._consume(port, messages, stop, kwargs, take)
            return finish()
        plain, coro = methods.generate, methods.agenerate
        use_coro = coro is not None and (port.asynchronous or plain is None)
        method = coro if use_coro else plain
        assert method is not None
        arguments = method.arguments(self, stop, kwargs)
        result = await port.call(getattr(self, method.name), list(messages), is_async=use_coro, **arguments)
        return message_of(result, self)

    # -- one call -----------------------------------------------------------------------------------------------

    def respond(
        self,
        port: Port,
        messages: list[BaseMessage],
        *,
        stop: list[str] | None = None,
        kwargs: dict[str, Any],
        config: RunnableConfig,
        on_chunk: OnChunk | None = None,
    ) -> Coroutine[Any, Any, AIMessage]:
        # No coroutine of its own: each piece would pass through it.
        around = self.cache or self.verbose or self.rate_limiter is not None or self.output_version == "v1"
        call = self._surrounded if around else self._answered
        callbacks = callbacks_of(config, self.callbacks)
        if callbacks is None:
            return call(port, messages, stop, kwargs, on_chunk, None)
        go = partial(call, port, messages, stop, kwargs, on_chunk)
        return self._heard(port, callbacks, go, messages, kwargs, stop)

    async def _heard(
        self,
        port: Port,
        callbacks: Callbacks,
        go: Callable[[CallbackRun], Awaitable[AIMessage]],
        messages: list[BaseMessage],
        kwargs: dict[str, Any],
        stop: list[str] | None,
    ) -> AIMessage:
        """A call that callbacks hear of."""
        run = callbacks.with_defaults(self.tags, self.metadata).run_of_call()
        name = self.get_name()
        about = {"invocation_params": {**self._identifying_params, **kwargs}, "options": {"stop": stop}}
        serialized = {"name": name, "id": [*type(self).__module__.split("."), type(self).__qualname__]}
        await run.emit(port, "on_chat_model_start", serialized, [list(messages)], name=name, **about)
        try:
            answer = await go(run)
        except GeneratorExit:
            raise
        except BaseException as error:
            await run.emit(port, "on_llm_error", error)
            raise
        await run.emit(port, "on_llm_end", of_message(answer))
        return answer

    async def _surrounded(
        self,
        port: Port,
        messages: list[BaseMessage],
        stop: list[str] | None,
        kwargs: dict[str, Any],
        on_chunk: OnChunk | None,
        run: CallbackRun | None,
    ) -> AIMessage:
        """The answer, where the model remembers answers, is limited, or shows them in a form of its own."""
        memory = None
        if self.cache:
            from loopwright.models.cache import Memory

            memory = Memory.of(self, messages, stop, kwargs)
        if memory is not None:
            remembered = await memory.look_up(port)
            if remembered is not None:
                return settled(remembered, port.new_id)
        if on_chunk is not None and self.output_version == "v1":
            on_chunk = _in_blocks(on_chunk)
        if self.rate_limiter is None:
            answer = await self._answered(port, messages, stop, kwargs, on_chunk, run)
        else:
            from loopwright.models.rate_limit import correct, wait_for

            tools = kwargs.get("tools")
            taken = await wait_for(
                self.rate_limiter, port, lambda: self.get_num_tokens_from_messages(messages, tools=tools)
            )
            answer = await self._answered(port, messages, stop, kwargs, on_chunk, run)
            await correct(self.rate_limiter, port, taken, answer)
        if self.output_version == "v1":
            answer = answer.model_copy(update={"content": list(answer.content_blocks)})
        if self.verbose:
            answer.pretty_print()
        if memory is not None:
            await memory.update(port, answer)
        return answer

    async def _answered(
        self,
        port: Port,
        messages: list[BaseMessage],
        stop: list[str] | None,
        kwargs: dict[str, Any],
        on_chunk: OnChunk | None,
        run: CallbackRun | None,
    ) -> AIMessage:
        """The model's own answer, its pieces given to whoever wants them."""
        if on_chunk is None and not methods_of(type(self)).has_streaming_field:
            answer: Any = await self.answer(port, messages, stop=stop, kwargs=kwargs, take=None)
            return settled(answer, port.new_id)
        take, finish = assembling(port.new_id, on_chunk)
        teller = run.token_teller(port) if run is not None else None
        if teller is not None:
            take = _telling(take, teller.tell)
        wanted = None if on_chunk is None and not getattr(self, "streaming", False) else take
        call = self.answer(port, messages, stop=stop, kwargs=kwargs, take=wanted)
        answer = await (call if teller is None else teller.around(call))
        return settled(finish() if answer is None else answer, port.new_id)

    def _consume(
        self,
        port: Port,
        messages: list[BaseMessage],
        stop: list[str] | None,
        kwargs: dict[str, Any],
        take: Callable[[Any], object],
    ) -> Awaitable[None]:
        methods = methods_of(type(self))
        return port.consume(
            _opener(self, methods.stream, list(messages), stop, kwargs),
            _opener(self, methods.astream, list(messages), stop, kwargs),
            take,
        )

    def _streams(self, kwargs: dict[str, Any]) -> bool:
        """Whether a reader may have the answer in pieces."""
        disabled = self.disable_streaming
        return not disabled or (disabled == "tool_calling" and not kwargs.get("tools"))

    # -- around a call ------------------------------------------------------------------------------------------

    def call_config(self, config: RunnableConfig) -> RunnableConfig:
        if not self.tags and not self.metadata:
            return config
        return merge_configs({"tags": self.tags or [], "metadata": self.metadata or {}}, config)

    def get_name(self) -> str:
        """The name under which callbacks hear of it."""
        return self.name or type(self).__name__

    def get_num_tokens(self, text: str) -> int:
        """Tokens in a text: counted by `custom_get_token_ids`, else estimated at four characters each."""
        if self.custom_get_token_ids is not None:
            return len(self.custom_get_token_ids(text))
        return -(-len(text) // 4)


def _opener(
    model: BaseChatModel,
    method: Method | None,
    messages: list[BaseMessage],
    stop: list[str] | None,
    kwargs: dict[str, Any],
) -> Callable[[], Any] | None:
    if method is None:
        return None
    return partial(getattr(model, method.name), messages, **method.arguments(model, stop, kwargs))


def _telling(
    take: Callable[[Any], AIMessageChunk], tell: Callable[[str, ChatGenerationChunk], None]
) -> Callable[[Any], AIMessageChunk]:
    def telling(item: Any) -> AIMessageChunk:
        piece = take(item)
        tell(piece.text, ChatGenerationChunk(message=piece))
        return piece

    return telling


def _in_blocks(on_chunk: OnChunk) -> OnChunk:
    """Pieces whose content is a list of blocks."""

    def in_blocks(piece: AIMessageChunk) -> None:
        on_chunk(piece.model_copy(update={"content": list(piece.content_blocks)}))

    return in_blocks
