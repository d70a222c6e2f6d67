"""Nodes and branches: what runs in a step, and what decides where it goes on.

A node is one coroutine function from a `Task` to an update. Functions of the user's become one here, once, when they
are added: which of `config`, `runtime`, `writer`, `store` they take is read from their signature, never per call.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from loopwright.checkpoint.record import NO_ARG
from loopwright.errors import UsageError
from loopwright.graph.types import START, RetryPolicy, Send

if TYPE_CHECKING:
    from loopwright.graph.task import Task

__all__ = ["Branch", "Node", "from_outside", "is_coroutine_function", "node_from"]

_Work = Callable[["Task"], Awaitable[Any]]
_View = Callable[[dict[str, Any]], Any]
_Injector = Callable[["Task"], Any]


class Node:
    """One step of work, and the fixed edges that leave it."""

    __slots__ = (
        "branches",
        "destinations",
        "edges",
        "hidden",
        "metadata",
        "name",
        "pulled",
        "retry",
        "run",
        "subgraph",
        "tags",
    )

    def __init__(
        self,
        name: str,
        run: _Work,
        *,
        retry: Sequence[RetryPolicy] = (),
        metadata: Mapping[str, Any] | None = None,
        destinations: Mapping[str, str] | Sequence[str] = (),
        subgraph: Any = None,
        tags: Sequence[str] = (),
        hidden: bool = False,
    ) -> None:
        self.name = name
        self.run = run
        self.retry = tuple(retry)
        self.metadata = dict(metadata) if metadata else {}
        self.destinations = destinations
        """Where a `Command(goto=…)` of this node may lead; only for drawing."""
        self.subgraph = subgraph
        self.tags = tuple(tags)
        self.hidden = hidden
        """Left out of pictures: a node that is there in case of need."""
        self.pulled = ("__pregel_pull", name)
        """Path of a task that an edge has led to."""
        self.edges: tuple[str, ...] = ()
        self.branches: tuple[Branch, ...] = ()


def from_outside() -> Node:
    """The node of what is written from outside: it runs nothing and leads nowhere."""
    return Node(START, _runs_nothing)


async def _runs_nothing(_: Task) -> None: ...


class Branch:
    """A conditional edge: a function of the state that names what runs next."""

    __slots__ = ("_given", "is_async", "name", "path", "path_map", "plain")

    def __init__(
        self,
        path: Callable[..., Any],
        path_map: Mapping[Any, str] | Sequence[str] | None = None,
        *,
        plain: bool = False,
    ) -> None:
        self.path = path
        self.name: str = getattr(path, "__name__", type(path).__name__)
        self.path_map = (
            dict(path_map) if isinstance(path_map, Mapping) else None if path_map is None else {n: n for n in path_map}
        )
        """From what the function returns to the node it means; None: it returns node names."""
        self.plain = plain
        """One of our own functions, which need not wait: `path(task, state)` is called as it is."""
        self.is_async = not plain and is_coroutine_function(path)
        self._given = () if plain else _injected(path, f"conditional edge {self.name!r}")

    async def choose(self, task: Task, state: Mapping[str, Any]) -> list[str | Send]:
        """The answer of a user's function: node names and sends. Raises `UsageError` for one that means neither."""
        given = {name: inject(task) for name, inject in self._given}
        answer = await task.run.port.call(
            self.path, task.run.shaped(cast("dict[str, Any]", state)), is_async=self.is_async, **given
        )
        answers = list(cast("list[Any]", answer)) if isinstance(answer, (list, tuple)) else [answer]
        return [self._target(one) for one in answers]

    def _target(self, answer: Any) -> str | Send:
        if isinstance(answer, Send) and cast("Any", answer.node).__class__ is str:
            return answer
        if self.path_map is not None:
            try:
                return self.path_map[cast("Any", answer)]
            except (KeyError, TypeError):
                known = ", ".join(map(repr, self.path_map))
                raise UsageError(
                    f"Conditional edge {self.name!r} returned {answer!r}; its path_map has {known}."
                ) from None
        if isinstance(answer, str):
            return answer
        raise UsageError(
            f"Conditional edge {self.name!r} must return a node's name, a Send or a list of them; got {answer!r}."
        )


def is_coroutine_function(function: Any) -> bool:
    """Whether calling it gives a coroutine: it is a coroutine function, a partial of one, or its `__call__` is one."""
    while hasattr(function, "func") and hasattr(function, "keywords"):
        function = function.func
    if inspect.iscoroutinefunction(function):
        return True
    kind = cast("type[Any]", type(function))
    return inspect.iscoroutinefunction(getattr(kind, "__call__", None))  # noqa: B004 - not whether, but which


def node_from(name: str, action: Any, view: _View | None = None, **options: Any) -> Node:
    """A node from a function, a compiled graph, or anything with `invoke` (a model, say).

    `view` makes what a function is given of the graph's state; without it, it is given all, in the graph's schema.
    """
    if hasattr(action, "run_nested"):
        graph = action

        async def nested(task: Task) -> Any:
            return await graph.run_nested(task, task.input)

        return Node(name, nested, subgraph=graph, **options)
    if hasattr(action, "run_node"):  # a node of our own that only looks like an object to its user, such as ToolNode
        return Node(name, action.run_node, **options)
    if not callable(action) and hasattr(action, "invoke"):
        return _runnable_node(name, action, options)
    if not callable(action):
        raise UsageError(
            f"Node {name!r} must be a function or something with .invoke; got {type(action).__name__}: {action!r}."
        )
    function, is_async = action, is_coroutine_function(action)
    given = _injected(function, f"node {name!r}")

    async def call(task: Task) -> Any:
        extra = {key: inject(task) for key, inject in given}
        state = task.input
        if task.arg is NO_ARG:
            state = task.run.handed(state)
            state = task.run.shaped(state) if view is None else view(state)
        return await task.run.port.call(function, state, is_async=is_async, **extra)

    return Node(name, call, **options)


def _runnable_node(name: str, runnable: Any, options: dict[str, Any]) -> Node:
    is_model = hasattr(runnable, "respond")

    async def call(task: Task) -> Any:
        is_async = task.port.asynchronous and hasattr(runnable, "ainvoke")
        function = runnable.ainvoke if is_async else runnable.invoke
        if not is_model:
            return await task.port.call(function, task.input, task.config, is_async=is_async)
        key = _message_key(task)
        messages = task.input[key] if task.arg is NO_ARG else task.input
        return {key: [await task.port.call(function, messages, task.config, is_async=is_async)]}

    return Node(name, call, **options)


def _message_key(task: Task) -> str:
    """The key of the conversation that a model as a node takes part in."""
    keys = task.run.graph.message_keys
    if len(keys) != 1:
        raise UsageError(
            f"Node {task.name!r} is a model, which needs a state with one key of messages (MessagesState has it); this "
            f"one has {len(keys)}. Put a function around it: lambda state: {{…: model.invoke(state[…])}}."
        )
    return next(iter(keys))


_BY_NAME: dict[str, _Injector] = {
    "config": lambda task: task.config,
    "runtime": lambda task: task.runtime,
    "writer": lambda task: task.writer,
    "store": lambda task: task.run.store,
}


def _injected(function: Any, where: str) -> tuple[tuple[str, _Injector], ...]:
    """Which of our values a function takes after the state, by parameter name."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return ()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)]
    if not positional:
        name = getattr(function, "__name__", "node")
        raise UsageError(f"The function of {where} takes no argument; it must take the state: def {name}(state).")
    rest = [p for p in parameters if p is not positional[0]]
    given: list[tuple[str, _Injector]] = []
    for parameter in rest:
        inject = _BY_NAME.get(parameter.name)
        if inject is not None:
            given.append((parameter.name, inject))
        elif parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        ):
            raise UsageError(
                f"The function of {where} wants a parameter {parameter.name!r} that nothing fills. "
                f"Besides the state it may take {', '.join(_BY_NAME)}; give others a default."
            )
    return tuple(given)
