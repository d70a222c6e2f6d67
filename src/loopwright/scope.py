"""What a piece of running code may ask about the run it belongs to, and `config`, the caller's dictionary.

A `Scope` stands for one step of one run: a node, a tool call, a hook, a model call outside of any agent.
It lives in a context variable, so code below a run finds it without being handed it, on whatever
thread or task it runs. Scopes are values: a child is a changed copy, the run's shared parts are shared.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypedDict, cast

from loopwright.errors import UsageError

if TYPE_CHECKING:
    from loopwright.port import Port

__all__ = [
    "ConfigLike",
    "RunnableConfig",
    "Scope",
    "StreamWriter",
    "check_config",
    "current_scope",
    "ensure_config",
    "merge_configs",
    "whole_config",
]

StreamWriter = Callable[[Any], None]
"""Writes one value of the caller's choice to the `custom` stream. Works from any thread."""


class RunnableConfig(TypedDict, total=False):
    """The `config` argument of every call. Never changed in place, never part of the conversation."""

    configurable: dict[str, Any]
    """`thread_id`, `checkpoint_id`, `checkpoint_ns` and keys of the caller's own."""
    recursion_limit: int
    """Graph steps before `GraphRecursionError`."""
    max_concurrency: int | None
    """How many tasks of one step run at once."""
    tags: list[str]
    metadata: dict[str, Any]
    callbacks: Any
    """A list of `BaseCallbackHandler`."""
    run_name: str
    run_id: Any


ConfigLike: TypeAlias = RunnableConfig | Mapping[str, Any]
"""What calls take as `config`: a plain dict that was put together elsewhere will do."""


class Scope(Protocol):
    """The run as seen from below. `graph` makes these; models and tools only ask them."""

    @property
    def port(self) -> Port:
        """The world it runs in."""
        ...

    @property
    def config(self) -> RunnableConfig:
        """The run's config, with this step's place in it."""
        ...

    @property
    def wants_tokens(self) -> bool:
        """Whether anybody reads single tokens: a model that can stream should."""
        ...

    def token(self, chunk: Any, tags: Sequence[str], metadata: Mapping[str, Any] | None) -> None:
        """Report one `AIMessageChunk` of a model call made here."""
        ...

    def message(self, message: Any, tags: Sequence[str], metadata: Mapping[str, Any] | None) -> None:
        """Report a whole message of a model call made here (usage is counted; shown if no token was)."""
        ...

    @property
    def writer(self) -> StreamWriter:
        """The `custom` stream's writer."""
        ...


current_scope: ContextVar[Scope | None] = ContextVar("loopwright_scope", default=None)
"""The scope of the code that is running, None outside of any run."""

os.register_at_fork(after_in_child=lambda: current_scope.set(None))
"""A forked child cannot reach the run that it was forked in: what it calls are runs of its own."""


def ensure_config(config: RunnableConfig | Mapping[str, Any] | None) -> RunnableConfig:
    """A shallow copy to work on; the caller's dictionary is never changed."""
    check_config(config)
    return cast(RunnableConfig, dict(config)) if config else cast(RunnableConfig, {})


def merge_configs(*configs: RunnableConfig | Mapping[str, Any] | None) -> RunnableConfig:
    """Later ones win; `tags` and `callbacks` are joined, `metadata` and `configurable` are merged by key."""
    merged: dict[str, Any] = {}
    for config in configs:
        if not config:
            continue
        if not isinstance(cast(Any, config), Mapping):
            raise UsageError(
                f'config= takes a dict, such as {{"configurable": {{"thread_id": "1"}}}}; it got {config!r:.60}. '
                'A stream\'s mode goes by name: stream_mode="messages".'
            )
        for key, value in config.items():
            if value is None:
                continue
            known = merged.get(key)
            if known is None:
                merged[key] = value
            elif key in ("metadata", "configurable"):
                merged[key] = {**known, **cast(dict[str, Any], value)}
            elif key == "tags":
                merged[key] = [*known, *(tag for tag in cast(list[str], value) if tag not in known)]
            elif key == "callbacks":
                merged[key] = [*_as_list(known), *_as_list(value)]
            else:
                merged[key] = value
    return cast(RunnableConfig, merged)


def check_config(config: ConfigLike | None) -> None:
    """Raise `UsageError` for a key of the caller's config that has another type than it must have."""
    if not config or not isinstance(cast("Any", config), Mapping):
        return
    for key, value in config.items():
        form = _FORMS.get(key)
        if form is not None and value is not None and not form[0](value):
            raise UsageError(f"config[{key!r}] is {form[1]}; got {value!r:.60}. Write config={{{key!r}: {form[2]}}}.")


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_listing(value: Any) -> bool:
    return isinstance(value, (list, tuple, set, frozenset))


def _may_be_handlers(value: Any) -> bool:
    """A list, one handler, or a manager of another library: anything but plain data."""
    return not isinstance(value, (str, bytes, int, float, Mapping))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


_FORMS: Final[dict[str, tuple[Callable[[Any], bool], str, str]]] = {
    "configurable": (_is_mapping, "a dict", '{"thread_id": "1"}'),
    "metadata": (_is_mapping, "a dict", '{"user": "ann"}'),
    "tags": (_is_listing, "a list of texts", '["tag"]'),
    "callbacks": (_may_be_handlers, "a list of handlers", "[handler]"),
    "run_name": (_is_text, "a text", '"name"'),
}
"""Keys of a config: whether a value will do, the form in words, an example."""


def whole_config(config: RunnableConfig | Mapping[str, Any] | None) -> RunnableConfig:
    """For a user's function: `tags`, `metadata` and `configurable` are there, empty if nothing else is known."""
    return cast(RunnableConfig, {"tags": [], "metadata": {}, "configurable": {}, **(config or {})})


def _as_list(value: Any) -> list[Any]:
    return list(cast("list[Any]", value)) if isinstance(value, (list, tuple)) else [value]
