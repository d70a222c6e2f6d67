"""Callback handlers with the method names that LangChain's users know, and the one place that calls them.

`config["callbacks"]` takes handlers on models and on agents. Rules:

- without a handler there is no `Callbacks` object and nothing is paid;
- a handler never changes the conversation, and its error is logged, not raised, unless its `raise_error` is set;
- only methods that a handler overrides are called; plain and coroutine methods both work in both worlds;
- whoever starts something (a run, a model call, a tool call) makes a `CallbackRun` and reports through it; what is
  started below finds its parent in `parent_run`.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar, cast

from loopwright.ids import new_id

if TYPE_CHECKING:
    from loopwright.messages import UsageMetadata
    from loopwright.port import Port

__all__ = [
    "AsyncCallbackHandler",
    "BaseCallbackHandler",
    "CallbackRun",
    "Callbacks",
    "StdOutCallbackHandler",
    "TokenTeller",
    "UsageMetadataCallbackHandler",
    "callbacks_of",
    "get_usage_metadata_callback",
    "parent_run",
]

T = TypeVar("T")

parent_run: ContextVar[uuid.UUID | None] = ContextVar("loopwright_parent_run", default=None)
"""The `run_id` of what the running code belongs to. Set inside a run's own context, so nobody resets it."""

_ambient: ContextVar[tuple[Any, ...]] = ContextVar("loopwright_ambient_handlers", default=())
"""Handlers that a `with` block around the call has put up."""


class BaseCallbackHandler:
    """Override what you want to hear of. Every method takes further keyword arguments that may be added later.

    `run_id` and `parent_run_id` are `uuid.UUID`; the parent is None for what was called from outside.
    """

    raise_error: bool = False
    """Whether an error in this handler ends the call it listens to."""
    run_inline: bool = False
    """Kept for handlers written elsewhere; order among handlers is always the order they were given in."""
    ignore_llm: bool = False
    ignore_chat_model: bool = False
    ignore_chain: bool = False
    """Chains are what runs other things: agents, graphs, nodes."""
    ignore_agent: bool = False
    """Agents in the sense of the tool methods: `on_tool_*`, `on_agent_*`."""
    ignore_retriever: bool = False
    ignore_retry: bool = False
    ignore_custom_event: bool = False

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[Any]],
        *,
        run_id: uuid.UUID,
        parent_run_id: uuid.UUID | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """A chat model is asked. Not overridden, `on_llm_start` is called with the messages as text."""

    def on_llm_start(
        self,
        serialized: dict[str, Any],
        prompts: list[str],
        *,
        run_id: uuid.UUID,
        parent_run_id: uuid.UUID | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """A model is asked."""

    def on_llm_new_token(
        self,
        token: str,
        *,
        chunk: Any = None,
        run_id: uuid.UUID,
        parent_run_id: uuid.UUID | None = None,
        **kwargs: Any,
    ) -> Any:
        """A piece of a streamed answer; `chunk` is a `ChatGenerationChunk`."""

    def on_llm_end(
        self, response: Any, *, run_id: uuid.UUID, parent_run_id: uuid.UUID | None = None, **kwargs: Any
    ) -> Any:
        """The answer is complete; `response` is an `LLMResult`."""

    def on_llm_error(
        self, error: BaseException, *, run_id: uuid.UUID, parent_run_id: uuid.UUID | None = None, **kwargs: Any
    ) -> Any:
        """The model call failed or was cancelled."""

    def on_chain_start(
        self,
        serialized: dict[str, Any],
        inputs: Any,
        *,
        run_id: uuid.UUID,
        parent_run_id: uuid.UUID | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """An agent, a graph or a node begins; `kwargs["name"]` says which."""

    def on_chain_end(
        self, outputs: Any, *, run_id: uuid.UUID, parent_run_id: uuid.UUID | None = None, **kwargs: Any
    ) -> Any:
        """It is done."""

    def on_chain_error(
        self, error: BaseException, *, run_id: uuid.UUID, parent_run_id: uuid.UUID | None = None, **kwargs: Any
    ) -> Any:
        """It failed, paused or was cancelled."""

    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        run_id: uuid.UUID,
        parent_run_id: uuid.UUID | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        inputs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """A tool begins; `inputs` are its arguments, `input_str` the same as text."""

    def on_tool_end(
        self, output: Any, *, run_id: uuid.UUID, parent_run_id: uuid.UUID | None = None, **kwargs: Any
    ) -> Any:
        """The tool is done."""

    def on_tool_error(
        self, error: BaseException, *, run_id: uuid.UUID, parent_run_id: uuid.UUID | None = None, **kwargs: Any
    ) -> Any:
        """The tool failed."""

    def on_text(self, text: str, *, run_id: uuid.UUID, parent_run_id: uuid.UUID | None = None, **kwargs: Any) -> Any:
        """Arbitrary text."""

    def on_retry(
        self, retry_state: Any, *, run_id: uuid.UUID, parent_run_id: uuid.UUID | None = None, **kwargs: Any
    ) -> Any:
        """Something that failed is tried again."""

    def on_custom_event(
        self,
        name: str,
        data: Any,
        *,
        run_id: uuid.UUID,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """An event of the user's own."""


class AsyncCallbackHandler(BaseCallbackHandler):
    """The same, for handlers whose methods are `async def`. Any handler may mix both kinds."""


_IGNORED_BY = {
    "on_chat_model": "ignore_chat_model",
    "on_llm": "ignore_llm",
    "on_chain": "ignore_chain",
    "on_tool": "ignore_agent",
    "on_agent": "ignore_agent",
    "on_retriever": "ignore_retriever",
    "on_retry": "ignore_retry",
    "on_custom_event": "ignore_custom_event",
}


class _Target:
    """One method of one handler."""

    __slots__ = ("is_async", "method", "raises", "wants_prompts")

    def __init__(self, handler: Any, method: Callable[..., Any], *, wants_prompts: bool) -> None:
        self.method = method
        self.is_async = _is_coroutine_function(method)
        self.raises = bool(getattr(handler, "raise_error", False))
        self.wants_prompts = wants_prompts
        """`on_llm_start` stands in for `on_chat_model_start`: it takes text instead of messages."""


class Callbacks:
    """The handlers of one call, with what they are told of it."""

    __slots__ = ("_targets", "handlers", "metadata", "run_id", "run_name", "tags")

    def __init__(self, handlers: Sequence[Any], config: Mapping[str, Any]) -> None:
        self.handlers = list(handlers)
        self.tags: list[str] = list(config.get("tags") or ())
        self.metadata: dict[str, Any] = dict(config.get("metadata") or {})
        self.run_name: str | None = config.get("run_name")
        self.run_id: Any = config.get("run_id")
        self._targets: dict[str, list[_Target]] = {}

    def targets(self, event: str) -> list[_Target]:
        """Who hears of an event, in the order the handlers were given."""
        found = self._targets.get(event)
        if found is None:
            found = self._targets[event] = [
                target for handler in self.handlers if (target := _target(handler, event)) is not None
            ]
        return found

    def with_defaults(self, tags: Sequence[str] | None, metadata: Mapping[str, Any] | None) -> Callbacks:
        """Itself, with the tags and metadata of the object that is called before those of the call."""
        if tags:
            self.tags = [*tags, *(tag for tag in self.tags if tag not in tags)]
        if metadata:
            self.metadata = {**metadata, **self.metadata}
        return self

    def run(self, run_id: uuid.UUID | str | None = None) -> CallbackRun:
        """Begin to report about one thing. Its parent is what the calling code belongs to."""
        return CallbackRun(self, _as_uuid(run_id), parent_run.get())

    def run_of_call(self) -> CallbackRun:
        """The same for what a user calls: `config["run_id"]` is its id, unless that came down from a run around it."""
        return self.run(self.run_id if parent_run.get() is None else None)


class CallbackRun:
    """One thing that handlers are told about: a run, a model call, a tool call."""

    __slots__ = ("callbacks", "parent_run_id", "run_id")

    def __init__(self, callbacks: Callbacks, run_id: uuid.UUID, parent_run_id: uuid.UUID | None) -> None:
        self.callbacks = callbacks
        self.run_id = run_id
        self.parent_run_id = parent_run_id

    def become_parent(self) -> None:
        """What is started from here on, in this context, belongs to this run."""
        parent_run.set(self.run_id)

    def listens(self, event: str) -> bool:
        """Whether any handler hears of `event`; ask before you build something costly for it."""
        return bool(self.callbacks.targets(event))

    async def emit(self, port: Port, event: str, /, *args: Any, **kwargs: Any) -> None:
        """Tell the handlers. `event` is a method's name; the ids, tags and, at a start, metadata are added."""
        targets = self.callbacks.targets(event)
        if not targets:
            return
        told = self._told(event, kwargs)
        for target in targets:
            method, given, is_async = target.method, args, target.is_async
            if target.wants_prompts:
                given = _with_prompts(args)
            try:
                try:
                    await port.call(method, *given, is_async=is_async, **told)
                except NotImplementedError:
                    method = _stand_in(target, event)
                    if method is None:
                        raise
                    await port.call(method, *_with_prompts(args), is_async=_is_coroutine_function(method), **told)
            except Exception as error:
                if target.raises:
                    raise
                _log(target, event, error)

    def token_teller(self, port: Port) -> TokenTeller | None:
        """Who tells the handlers of each token of a model call; None if no handler hears of tokens."""
        targets = self.callbacks.targets("on_llm_new_token")
        if not targets:
            return None
        return TokenTeller(targets, self._told("on_llm_new_token", {}), port.asynchronous)

    def _told(self, event: str, kwargs: dict[str, Any]) -> dict[str, Any]:
        about = self.callbacks
        told = {**kwargs, "run_id": self.run_id, "parent_run_id": self.parent_run_id, "tags": about.tags}
        if event.endswith("_start"):
            told["metadata"] = about.metadata
            told.setdefault("name", about.run_name)
        return told


class TokenTeller:
    """Tells handlers of tokens from inside a function that must not wait.

    A coroutine method is waited for in the blocking world. Under asyncio it becomes a task: the tokens reach it in
    order, while the model goes on, and `around` waits for the last one.
    """

    __slots__ = ("_coroutines", "_last", "_on_loop", "_plain", "_told")

    def __init__(self, targets: Sequence[_Target], told: dict[str, Any], on_loop: bool) -> None:
        self._plain = [target for target in targets if not target.is_async]
        self._coroutines = [target for target in targets if target.is_async]
        self._told = told
        self._on_loop = on_loop
        self._last: Any = None

    def tell(self, text: str, chunk: Any) -> None:
        """`chunk` is a `ChatGenerationChunk`."""
        for target in self._plain:
            try:
                target.method(text, chunk=chunk, **self._told)
            except Exception as error:
                if target.raises:
                    raise
                _log(target, "on_llm_new_token", error)
        if not self._coroutines:
            return
        if self._on_loop:
            from loopwright.drive import aio

            telling = self._atell(text, chunk, self._last)
            self._last = aio.started(telling, telling)
        else:
            from loopwright.drive import blocking

            port = blocking.BlockingPort()
            blocking.run(port.call(self._atell, text, chunk, None, is_async=True))

    async def _atell(self, text: str, chunk: Any, before: Any) -> None:
        if before is not None:
            await before
        for target in self._coroutines:
            try:
                await target.method(text, chunk=chunk, **self._told)
            except Exception as error:
                if target.raises:
                    raise
                _log(target, "on_llm_new_token", error)

    async def around(self, call: Awaitable[T]) -> T:
        """What a call gives, once all its tokens are told: before its end, and before its error.

        Of one that is cancelled, those that were not told yet never are. Raises what a handler with `raise_error`
        raised, unless the call itself has failed.
        """
        try:
            answer = await call
        except Exception:
            with suppress(Exception):
                await self._settle()
            raise
        except BaseException:
            if self._last is not None:
                with suppress(RuntimeError):  # its loop is closed
                    self._last.cancel()
            raise
        await self._settle()
        return answer

    async def _settle(self) -> None:
        if self._last is not None:
            await self._last


def callbacks_of(config: Mapping[str, Any] | None, *more: Any) -> Callbacks | None:
    """The handlers of a call, each once: those put up around it, the config's, then `more`. None if there are none."""
    given = config.get("callbacks") if config else None
    around = _ambient.get()
    if not given and not around and not any(more):
        return None
    handlers: dict[int, Any] = {}
    for group in (around, given, *more):
        for handler in _handlers_in(group):
            handlers.setdefault(id(handler), handler)
    return Callbacks(list(handlers.values()), config or {}) if handlers else None


def _handlers_in(group: Any) -> Sequence[Any]:
    """A list of handlers, one handler, or a manager of another library that holds some."""
    if group is None:
        return ()
    if isinstance(group, (list, tuple)):
        return cast(Sequence[Any], group)
    held = getattr(group, "handlers", None)
    return held if held is not None else [group]


def _target(handler: Any, event: str) -> _Target | None:
    for prefix, flag in _IGNORED_BY.items():
        if event.startswith(prefix) and getattr(handler, flag, False):
            return None
    method = getattr(handler, event, None)
    if method is not None and not _is_untouched(handler, event):
        return _Target(handler, method, wants_prompts=False)
    if event == "on_chat_model_start" and not _is_untouched(handler, "on_llm_start"):
        return _Target(handler, handler.on_llm_start, wants_prompts=True)
    return None


def _is_untouched(handler: Any, event: str) -> bool:
    """Whether the handler has only the base class's empty method."""
    base = getattr(BaseCallbackHandler, event, None)
    kind = cast(Any, type(handler))
    return base is not None and getattr(kind, event, base) is base and event not in getattr(handler, "__dict__", ())


def _stand_in(target: _Target, event: str) -> Callable[..., Any] | None:
    """Handlers written elsewhere say by `NotImplementedError` that they have only `on_llm_start`."""
    if event != "on_chat_model_start" or target.wants_prompts:
        return None
    return getattr(getattr(target.method, "__self__", None), "on_llm_start", None)


def _is_coroutine_function(function: Any) -> bool:
    from inspect import iscoroutinefunction

    return iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def _as_uuid(value: uuid.UUID | str | None) -> uuid.UUID:
    if isinstance(value, uuid.UUID):
        return value
    return uuid.UUID(value or new_id())


def _with_prompts(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of `on_chat_model_start` as those of `on_llm_start`."""
    from loopwright.messages import get_buffer_string

    return (args[0], [get_buffer_string(messages) for messages in args[1]], *args[2:])


def _log(target: _Target, event: str, error: Exception) -> None:
    import logging

    handler = type(getattr(target.method, "__self__", target.method)).__name__
    logging.getLogger("loopwright.callbacks").warning(
        "%s.%s failed: %s: %s", handler, event, type(error).__name__, error, exc_info=error
    )


# -- handlers of ours -----------------------------------------------------------------------------------------------


class UsageMetadataCallbackHandler(BaseCallbackHandler):
    """Sums the tokens of the model calls it hears of, for each model name, from any thread."""

    usage_metadata: dict[str, UsageMetadata]
    """By `response_metadata["model_name"]`; answers that name no model are under `"unknown"`."""

    def __init__(self) -> None:
        from threading import Lock

        self._lock = Lock()
        self.usage_metadata = {}

    def __repr__(self) -> str:
        return repr(self.usage_metadata)

    def on_llm_end(self, response: Any, **kwargs: Any) -> None:
        from loopwright.messages import add_usage

        generations = response.generations[0] if response.generations else ()
        for generation in generations[:1]:
            message: Any = getattr(generation, "message", None)
            usage = getattr(message, "usage_metadata", None)
            if not usage:
                continue
            name = message.response_metadata.get("model_name") or "unknown"
            with self._lock:
                self.usage_metadata[name] = add_usage(self.usage_metadata.get(name), usage) or usage


@contextmanager
def get_usage_metadata_callback(
    name: str = "usage_metadata_callback",
) -> Generator[UsageMetadataCallbackHandler]:
    """Sum the tokens of every model call inside the `with` block, agents' included."""
    handler = UsageMetadataCallbackHandler()
    token = _ambient.set((*_ambient.get(), handler))
    try:
        yield handler
    finally:
        _ambient.reset(token)


class StdOutCallbackHandler(BaseCallbackHandler):
    """Writes what begins and ends, one line each, to standard output."""

    def on_chain_start(self, serialized: dict[str, Any], inputs: Any, **kwargs: Any) -> None:
        _write(f"> {kwargs.get('name') or (serialized or {}).get('name') or 'run'}")

    def on_chain_end(self, outputs: Any, **kwargs: Any) -> None:
        _write("< done")

    def on_chain_error(self, error: BaseException, **kwargs: Any) -> None:
        _write(f"! {type(error).__name__}: {error}")

    def on_tool_start(self, serialized: dict[str, Any], input_str: str, **kwargs: Any) -> None:
        _write(f"> {(serialized or {}).get('name') or kwargs.get('name') or 'tool'} {input_str}")

    def on_tool_end(self, output: Any, **kwargs: Any) -> None:
        _write(f"< {getattr(output, 'content', output)}")

    def on_tool_error(self, error: BaseException, **kwargs: Any) -> None:
        _write(f"! {type(error).__name__}: {error}")

    def on_text(self, text: str, **kwargs: Any) -> None:
        _write(text)

    def on_llm_end(self, response: Any, **kwargs: Any) -> None:
        for generations in response.generations:
            for generation in generations[:1]:
                _write(generation.text)


def _write(line: str) -> None:
    sys.stdout.write(line + "\n")
