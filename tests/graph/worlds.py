"""One test for both worlds: the same calls, blocking and under asyncio."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypedDict

import pytest

from loopwright.graph import END, START, CompiledStateGraph, StateGraph

__all__ = ["Asyncio", "Counted", "Log", "Once", "Thread", "World", "both_worlds", "chain", "side_by_side", "thread"]


class World:
    """Without an event loop."""

    def invoke(self, graph: CompiledStateGraph, *args: Any, **options: Any) -> Any:
        return graph.invoke(*args, **options)

    def stream(self, graph: CompiledStateGraph, *args: Any, **options: Any) -> list[Any]:
        return list(graph.stream(*args, **options))

    def first(self, graph: CompiledStateGraph, *args: Any, count: int = 1, **options: Any) -> list[Any]:
        """The first chunks of a stream that is left early."""
        got: list[Any] = []
        for chunk in graph.stream(*args, **options):
            got.append(chunk)
            if len(got) == count:
                break
        return got

    def state(self, graph: CompiledStateGraph, *args: Any, **options: Any) -> Any:
        return graph.get_state(*args, **options)

    def history(self, graph: CompiledStateGraph, *args: Any, **options: Any) -> list[Any]:
        return list(graph.get_state_history(*args, **options))

    def update(self, graph: CompiledStateGraph, *args: Any, **options: Any) -> Any:
        return graph.update_state(*args, **options)

    def __repr__(self) -> str:
        return type(self).__name__


class Asyncio(World):
    """In a task of a loop."""

    def invoke(self, graph: CompiledStateGraph, *args: Any, **options: Any) -> Any:
        return asyncio.run(graph.ainvoke(*args, **options))

    def stream(self, graph: CompiledStateGraph, *args: Any, **options: Any) -> list[Any]:
        async def collect() -> list[Any]:
            return [chunk async for chunk in graph.astream(*args, **options)]

        return asyncio.run(collect())

    def first(self, graph: CompiledStateGraph, *args: Any, count: int = 1, **options: Any) -> list[Any]:
        async def collect() -> list[Any]:
            got: list[Any] = []
            async for chunk in graph.astream(*args, **options):
                got.append(chunk)
                if len(got) == count:
                    break
            return got

        return asyncio.run(collect())

    def state(self, graph: CompiledStateGraph, *args: Any, **options: Any) -> Any:
        return asyncio.run(graph.aget_state(*args, **options))

    def history(self, graph: CompiledStateGraph, *args: Any, **options: Any) -> list[Any]:
        async def collect() -> list[Any]:
            return [snapshot async for snapshot in graph.aget_state_history(*args, **options)]

        return asyncio.run(collect())

    def update(self, graph: CompiledStateGraph, *args: Any, **options: Any) -> Any:
        return asyncio.run(graph.aupdate_state(*args, **options))


both_worlds = pytest.mark.parametrize("world", [World(), Asyncio()], ids=["blocking", "asyncio"])

Thread = Any
"""A config; what a user writes is a plain dict."""


def thread(name: str = "1", **more: Any) -> Thread:
    """A config that names a thread."""
    return {"configurable": {"thread_id": name, **more}}


class Log(TypedDict):
    """A state that keeps every word written to it."""

    log: Annotated[list[Any], operator.add]


def chain(*nodes: tuple[str, Any] | str, state: Any = Log) -> StateGraph:
    """A builder of nodes one after the other; a bare name is a node that writes its own name."""
    builder = StateGraph(state)
    pairs: Sequence[Any] = [(node, _says(node)) if isinstance(node, str) else node for node in nodes]
    builder.add_sequence(pairs)
    builder.add_edge(START, pairs[0][0])
    builder.add_edge(pairs[-1][0], END)
    return builder


def _says(name: str) -> Callable[[Any], Any]:
    return lambda state: {"log": [name]}


class Once:
    """A node or question that fails the first time."""

    def __init__(self, answer: Any, error: BaseException | None = None) -> None:
        self.answer, self.error, self.runs = answer, error or ConnectionError("down"), 0

    def __call__(self, state: Any) -> Any:
        self.runs += 1
        if self.runs == 1:
            raise self.error
        return self.answer


class Counted:
    """A node that counts its runs."""

    def __init__(self, answer: Any = None) -> None:
        self.answer, self.runs = answer, 0

    def __call__(self, state: Any) -> Any:
        self.runs += 1
        return self.answer


def side_by_side(**nodes: Callable[..., Any]) -> StateGraph:
    builder = StateGraph(Log)
    for name, node in nodes.items():
        builder.add_node(name, node).add_edge(START, name)
    return builder
