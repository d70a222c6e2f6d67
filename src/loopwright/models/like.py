"""Everything that can be called like a chat model, and the calls themselves, written once.

A class overrides one coroutine, `respond`, which holds for both worlds; `invoke`, `stream`, `batch` and their
asynchronous twins are made of it here. Rules:

- the caller's input and config are never changed, and config never becomes part of the conversation;
- `respond` does the call and nothing else. A public call made inside a run also reports to it: single tokens if
  somebody reads them, and the whole message, so that usage is counted;
- a wrapper (binding, retry, fallbacks) overrides `respond` and calls its inner `respond`, so nothing is reported twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast, overload

from loopwright.messages import AIMessage, AIMessageChunk, BaseMessage
from loopwright.models import running
from loopwright.models.inputs import ModelInput, as_messages
from loopwright.port import Port
from loopwright.scope import RunnableConfig, Scope, current_scope, ensure_config, merge_configs

if TYPE_CHECKING:
    from loopwright.models.binding import Bound, ModelBinding
    from loopwright.models.fallbacks import Fallbacks, ModelFallbacks
    from loopwright.models.retry import JitterParams, ModelRetry, Retry
    from loopwright.models.structured import StructuredModel

__all__ = ["ChatCall", "Exceptions", "ModelLike", "OnChunk"]

Out = TypeVar("Out")
Schema = TypeVar("Schema")

OnChunk = Callable[[AIMessageChunk], None]
"""Is given each piece of an answer as it comes. It must not wait."""
Exceptions = tuple[type[BaseException], ...]
"""As `isinstance` takes them."""

_BATCH_THREADS = 32
"""How many calls of a blocking batch run at once when `max_concurrency` does not say."""


class ChatCall(ABC, Generic[Out]):
    """A call that takes messages and gives an `Out`: a model's is a message, a structured one's the parsed answer."""

    @abstractmethod
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
        """The call. `kwargs` are for the model (tools, temperature); `on_chunk` gets the pieces, if there are any."""

    def call_config(self, config: RunnableConfig) -> RunnableConfig:
        """The caller's config with what was set on this object before: tags, metadata, callbacks."""
        return config

    async def perform(
        self,
        port: Port,
        messages: list[BaseMessage],
        stop: list[str] | None,
        kwargs: dict[str, Any],
        config: RunnableConfig,
        on_chunk: OnChunk | None,
    ) -> Out:
        """What a public call does; a model's also reports to the run it is made in."""
        return await self.respond(port, messages, stop=stop, kwargs=kwargs, config=config, on_chunk=on_chunk)

    # -- one call ----------------------------------------------------------------------------------------------

    def invoke(
        self,
        input: ModelInput,
        config: RunnableConfig | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> Out:
        """Call and wait. `input` is a string or a list of messages, pairs or dictionaries."""
        messages, config = as_messages(input), ensure_config(config)
        return running.run(lambda port: self.perform(port, messages, stop, kwargs, config, None))

    async def ainvoke(
        self,
        input: ModelInput,
        config: RunnableConfig | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> Out:
        """`invoke` in the caller's task."""
        messages, config = as_messages(input), ensure_config(config)
        return await running.arun(lambda port: self.perform(port, messages, stop, kwargs, config, None))

    def stream(
        self,
        input: ModelInput,
        config: RunnableConfig | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> Iterator[Any]:
        """The answer in pieces, each before the next is asked for; the whole as one if it does not come in pieces."""
        return running.stream(self._streaming(as_messages(input), stop, kwargs, ensure_config(config)))

    def astream(
        self,
        input: ModelInput,
        config: RunnableConfig | None = None,
        *,
        stop: list[str] | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        """`stream` in the caller's task. Leaving the loop early ends the call."""
        return running.astream(self._streaming(as_messages(input), stop, kwargs, ensure_config(config)))

    def _streaming(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any], config: RunnableConfig
    ) -> running.MakeStream:
        async def streaming(port: Port, put: Callable[[Any], None]) -> None:
            silent = True

            def on_chunk(chunk: AIMessageChunk) -> None:
                nonlocal silent
                silent = False
                put(chunk)

            answer = await self.perform(port, messages, stop, kwargs, config, on_chunk)
            if silent:
                put(answer)

        return streaming

    # -- many calls --------------------------------------------------------------------------------------------

    def batch(
        self,
        inputs: Sequence[ModelInput],
        config: RunnableConfig | Sequence[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[Any]:
        """Several calls at once, results in order; at most `config["max_concurrency"]` (else 32) run at a time.

        With `return_exceptions` a call that fails has its exception as its result. Without, the first one in order is
        raised when all are done.
        """
        make, limit = self._batching(inputs, config, kwargs)
        return _unless_failed(running.run(lambda port: make(port, limit or _BATCH_THREADS)), return_exceptions)

    async def abatch(
        self,
        inputs: Sequence[ModelInput],
        config: RunnableConfig | Sequence[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[Any]:
        """`batch` in the caller's task; without `max_concurrency` all run at once."""
        make, limit = self._batching(inputs, config, kwargs)
        return _unless_failed(await running.arun(lambda port: make(port, limit)), return_exceptions)

    def batch_as_completed(
        self,
        inputs: Sequence[ModelInput],
        config: RunnableConfig | Sequence[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> Iterator[tuple[int, Any]]:
        """`(index, result)` of each call as it is done. Leaving the loop early ends what still runs."""
        make, limit = self._batching(inputs, config, kwargs)
        done = running.stream(lambda port, put: make(port, limit or _BATCH_THREADS, put))
        return done if return_exceptions else map(_raised, done)

    async def abatch_as_completed(
        self,
        inputs: Sequence[ModelInput],
        config: RunnableConfig | Sequence[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> AsyncIterator[tuple[int, Any]]:
        """`batch_as_completed` in the caller's task."""
        make, limit = self._batching(inputs, config, kwargs)
        done = running.astream(lambda port, put: make(port, limit, put))
        try:
            async for item in done:
                yield item if return_exceptions else _raised(item)
        finally:
            await cast(Any, done).aclose()

    def _batching(
        self,
        inputs: Sequence[ModelInput],
        config: RunnableConfig | Sequence[RunnableConfig] | None,
        kwargs: dict[str, Any],
    ) -> tuple[Callable[..., Coroutine[Any, Any, list[Any]]], int | None]:
        conversations = [as_messages(one) for one in inputs]
        configs = _one_config_each(config, len(conversations))
        stop = kwargs.pop("stop", None)

        async def batching(port: Port, limit: int | None, put: Callable[[Any], None] | None = None) -> list[Any]:
            async def one(index: int) -> Any:
                try:
                    result = await self.perform(port, conversations[index], stop, dict(kwargs), configs[index], None)
                except Exception as error:
                    if put is None:
                        raise
                    result = error
                if put is not None:
                    put((index, result))
                    await port.pause()
                return result

            return await port.gather([one(index) for index in range(len(conversations))], limit)

        return batching, configs[0].get("max_concurrency") if configs else None

    # -- changed copies ----------------------------------------------------------------------------------------

    def bind(self, **kwargs: Any) -> Bound[Out]:
        """The same call with arguments for the model set beforehand; those of the call itself win."""
        from loopwright.models.binding import Bound

        return Bound(self, kwargs)

    def with_config(self, config: RunnableConfig | None = None, **kwargs: Any) -> Bound[Out]:
        """The same call with config set beforehand; the call's own is merged into it."""
        from loopwright.models.binding import Bound

        return Bound(self, {}, merge_configs(config, kwargs))

    def with_retry(
        self,
        *,
        retry_if_exception_type: Exceptions | None = None,
        wait_exponential_jitter: bool = True,
        exponential_jitter_params: JitterParams | None = None,
        stop_after_attempt: int = 3,
    ) -> Retry[Out]:
        """The same call, tried again when it fails.

        Waits 1, 2, 4, ... seconds plus up to one, or what the provider asked for (`error.retry_after`), if longer.
        Without `retry_if_exception_type` every `Exception` is tried again but those that would only come again: a
        missing key, a refused request, a wrong call. A stream that has given a piece is not begun anew.
        """
        from loopwright.models.retry import Retry

        return Retry(
            self,
            retry_if_exception_type=retry_if_exception_type,
            wait_exponential_jitter=wait_exponential_jitter,
            exponential_jitter_params=exponential_jitter_params,
            stop_after_attempt=stop_after_attempt,
        )

    def with_fallbacks(
        self, fallbacks: Sequence[ChatCall[Any]], *, exceptions_to_handle: Exceptions = (Exception,)
    ) -> Fallbacks[Out]:
        """The same call, and these others in order when it fails. If all fail, the first one's error is raised."""
        from loopwright.models.fallbacks import Fallbacks

        return Fallbacks(self, fallbacks, exceptions_to_handle=exceptions_to_handle)


class ModelLike(ChatCall[AIMessage]):
    """A chat model, or something around one that behaves like it."""

    async def perform(
        self,
        port: Port,
        messages: list[BaseMessage],
        stop: list[str] | None,
        kwargs: dict[str, Any],
        config: RunnableConfig,
        on_chunk: OnChunk | None,
    ) -> AIMessage:
        scope = current_scope.get()
        if scope is None:
            return await self.respond(port, messages, stop=stop, kwargs=kwargs, config=config, on_chunk=on_chunk)
        whole, around = self.call_config(config), scope.config
        known = around.get("tags") or ()
        tags, metadata = [tag for tag in whole.get("tags") or () if tag not in known], whole.get("metadata")
        inherited = around.get("callbacks")
        if inherited:
            config = merge_configs({"callbacks": inherited}, config)
        if scope.wants_tokens and "nostream" not in tags:
            on_chunk = _shown(scope, tags, metadata, on_chunk)
        answer = await self.respond(port, messages, stop=stop, kwargs=kwargs, config=config, on_chunk=on_chunk)
        scope.message(answer, tags, metadata)
        return answer

    if TYPE_CHECKING:

        def stream(
            self,
            input: ModelInput,
            config: RunnableConfig | None = None,
            *,
            stop: list[str] | None = None,
            **kwargs: Any,
        ) -> Iterator[AIMessageChunk]: ...

        def astream(
            self,
            input: ModelInput,
            config: RunnableConfig | None = None,
            *,
            stop: list[str] | None = None,
            **kwargs: Any,
        ) -> AsyncIterator[AIMessageChunk]: ...

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: str | dict[str, Any] | bool | None = None, **kwargs: Any
    ) -> ModelLike:
        """Tell the model of tools. It only learns what it may ask for; calling them is the agent's part.

        `tools`: functions, tools, pydantic models, `TypedDict`s or a provider's own dictionaries. `tool_choice`: a
        tool's name, "any" (one of them), "auto", "none", or the provider's own form.
        """
        from loopwright.tools import convert_to_openai_tool

        if tool_choice is not None:
            kwargs["tool_choice"] = tool_choice
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def bind(self, **kwargs: Any) -> ModelBinding:
        """The same model with arguments set beforehand (`stop`, `temperature`); those of the call itself win."""
        from loopwright.models.binding import ModelBinding

        return ModelBinding(self, kwargs)

    def with_config(self, config: RunnableConfig | None = None, **kwargs: Any) -> ModelBinding:
        """The same model with config set beforehand (`tags`, `metadata`, `callbacks`); the call's own is merged in."""
        from loopwright.models.binding import ModelBinding

        return ModelBinding(self, {}, merge_configs(config, kwargs))

    def with_retry(
        self,
        *,
        retry_if_exception_type: Exceptions | None = None,
        wait_exponential_jitter: bool = True,
        exponential_jitter_params: JitterParams | None = None,
        stop_after_attempt: int = 3,
    ) -> ModelRetry:
        from loopwright.models.retry import ModelRetry

        return ModelRetry(
            self,
            retry_if_exception_type=retry_if_exception_type,
            wait_exponential_jitter=wait_exponential_jitter,
            exponential_jitter_params=exponential_jitter_params,
            stop_after_attempt=stop_after_attempt,
        )

    def with_fallbacks(
        self, fallbacks: Sequence[ChatCall[Any]], *, exceptions_to_handle: Exceptions = (Exception,)
    ) -> ModelFallbacks:
        from loopwright.models.fallbacks import ModelFallbacks

        return ModelFallbacks(self, cast(Any, fallbacks), exceptions_to_handle=exceptions_to_handle)

    @overload
    def with_structured_output(
        self, schema: type[Schema], *, include_raw: Literal[False] = False, method: str | None = None, **kwargs: Any
    ) -> StructuredModel[Schema]: ...

    @overload
    def with_structured_output(
        self, schema: Mapping[str, Any], *, include_raw: bool = False, method: str | None = None, **kwargs: Any
    ) -> StructuredModel[dict[str, Any]]: ...

    @overload
    def with_structured_output(
        self, schema: Any, *, include_raw: bool = False, method: str | None = None, **kwargs: Any
    ) -> StructuredModel[Any]: ...

    def with_structured_output(
        self, schema: Any, *, include_raw: bool = False, method: str | None = None, **kwargs: Any
    ) -> StructuredModel[Any]:
        """A call that answers with an instance of `schema` instead of a message.

        `schema`: a pydantic model, a dataclass, a `TypedDict` or a JSON schema dictionary (the last two answer with
        a dictionary). `method`: "function_calling" (the default), "json_schema" (the provider holds the model to it)
        or "json_mode" (any JSON; say in the prompt which). `include_raw`: answer with
        `{"raw": message, "parsed": instance or None, "parsing_error": exception or None}` and do not raise.

        The call raises `OutputParserException`, which names the field, when the answer does not fit.
        """
        from loopwright.models.structured import structured

        return structured(self, schema, include_raw=include_raw, method=method, kwargs=kwargs)

    def get_num_tokens_from_messages(self, messages: ModelInput, tools: Sequence[Any] | None = None) -> int:
        """About how many tokens the messages (and tools) cost this model: an estimate, about four characters each."""
        from loopwright.messages import count_tokens_approximately

        return count_tokens_approximately(as_messages(messages), tools=tools)


def _shown(scope: Scope, tags: Sequence[str], metadata: Mapping[str, Any] | None, on_chunk: OnChunk | None) -> OnChunk:
    """Each piece goes to the run's reader, and to the call's own if there is one."""
    token = scope.token
    if on_chunk is None:
        return lambda chunk: token(chunk, tags, metadata)
    own = on_chunk

    def both(chunk: AIMessageChunk) -> None:
        token(chunk, tags, metadata)
        own(chunk)

    return both


def _one_config_each(config: RunnableConfig | Sequence[RunnableConfig] | None, count: int) -> list[RunnableConfig]:
    if not isinstance(config, (list, tuple)):
        return [ensure_config(cast("RunnableConfig | None", config)) for _ in range(count)]
    given = cast("Sequence[RunnableConfig]", config)
    if len(given) != count:
        words = f"{len(given)} configs were given for {count} inputs: give one for all, or one for each"
        raise ValueError(words)
    return [ensure_config(one) for one in given]


def _unless_failed(results: list[Any], return_exceptions: bool) -> list[Any]:
    for result in results:
        if isinstance(result, BaseException) and not (return_exceptions and isinstance(result, Exception)):
            raise result
    return results


def _raised(item: tuple[int, Any]) -> tuple[int, Any]:
    if isinstance(item[1], BaseException):
        raise item[1]
    return item
