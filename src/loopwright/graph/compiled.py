"""The compiled graph: the calls a user makes, each a run of the engine in one of two worlds.

`invoke` is a run that nobody reads, `stream` one with a reader; both go through `_run`, so they cannot differ. A
graph called from inside another run (a tool that calls an agent) finds that run by the context variable and joins
its tree: same reader, same budget, one cancellation.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextvars import copy_context
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self, cast

from msgspec import Struct, structs

from loopwright.drive import blocking
from loopwright.drive.blocking import BlockingPort
from loopwright.drive.outbox import Outbox
from loopwright.drive.steps import InContext
from loopwright.errors import InvalidUpdateError, ParentCommand, UsageError, making
from loopwright.graph.engine import Run
from loopwright.graph.modes import Feed, check_modes, picked
from loopwright.graph.starting import refuse_place_below
from loopwright.graph.state import Channel, as_update
from loopwright.graph.stops import StopAt, Stops, stops_at
from loopwright.graph.task import Task, no_saver
from loopwright.graph.types import GraphOutput, StateSnapshot
from loopwright.messages.history import add_messages
from loopwright.port import Port, world_around
from loopwright.scope import ConfigLike, RunnableConfig, check_config, current_scope, merge_configs

if TYPE_CHECKING:
    from loopwright.checkpoint.base import BaseCheckpointSaver
    from loopwright.checkpoint.registry import Declarations
    from loopwright.graph.draw import Graph
    from loopwright.graph.nodes import Node

__all__ = ["CompiledStateGraph", "Parts"]

_StreamModes = str | Sequence[str] | None
_DURABILITIES = ("sync", "async", "exit")


class Parts(Struct, frozen=True):
    """A graph as the engine runs it."""

    nodes: dict[str, Node]
    start: Node
    """The node before the first; its edges lead to what runs first."""
    channels: dict[str, Channel]
    joins: dict[str, tuple[frozenset[str], str]]
    """Nodes that wait for several: key → (names of those, the node)."""
    output_keys: tuple[str, ...]
    input_keys: frozenset[str]
    shape: Callable[[dict[str, Any]], Any] | None
    """From a state to an instance of its schema; None where that is the dict itself."""
    context_schema: type[Any] | None
    declares: Sequence[Any] = ()
    """Annotations of what its runs may store; a saver reads them when it meets a class."""


class CompiledStateGraph:
    """A graph that can be run."""

    recursion_limit = 10_000
    """Steps of one run, unless `config["recursion_limit"]` says otherwise."""

    def __init__(
        self,
        parts: Parts,
        *,
        checkpointer: Any = None,
        store: Any = None,
        debug: bool = False,
        name: str = "LangGraph",
        config: ConfigLike | None = None,
        interrupt_before: StopAt = None,
        interrupt_after: StopAt = None,
    ) -> None:
        self.parts = parts
        self.nodes, self.start, self.channels, self.joins = parts.nodes, parts.start, parts.channels, parts.joins
        self.input_keys, self.output_keys = parts.input_keys, parts.output_keys
        self.shape, self.context_schema = parts.shape, parts.context_schema
        self.checkpointer = _checked_saver(checkpointer)
        if self.checkpointer is not None:
            self.checkpointer.registry.expect(self.declared)
        self.store = store
        self.debug = debug
        self.name = name
        self.config = config
        self.stop_at = interrupt_before, interrupt_after
        stops_at(interrupt_before, interrupt_after, parts.nodes)
        self.ephemeral = tuple(k for k, c in parts.channels.items() if c.ephemeral)
        self.message_keys = frozenset(k for k, c in parts.channels.items() if c.reducer is add_messages)
        self.renew: Callable[[dict[str, Any]], dict[str, Any]] | None = None
        """What of the state a new turn of a thread begins with in another form: returns the keys to replace."""
        self.close: Callable[..., dict[str, Any]] | None = None
        """`repair` for a step that is given up: `(state, begun, cancelled=)`, with what its unended tasks were sent."""
        self.repair: Callable[[dict[str, Any]], dict[str, Any]] | None = None
        """Mends what a broken-off run left in a state: returns the keys to replace, `{}` when nothing is wrong."""
        self.asks_by_design: str | None = None
        """What in the graph is there to pause it, and so needs a checkpointer."""

    @cached_property
    def declared(self) -> Declarations:
        """Where the classes are named that its runs may store, those of nested graphs included."""
        from loopwright.checkpoint.registry import Declarations

        nested = (node.subgraph.declared for node in self.nodes.values() if node.subgraph)
        return Declarations(*self.parts.declares, *nested)

    # ---- running

    def invoke(
        self,
        input: Any,
        config: ConfigLike | None = None,
        *,
        context: Any = None,
        stream_mode: _StreamModes = "values",
        print_mode: _StreamModes = (),
        output_keys: str | Sequence[str] | None = None,
        interrupt_before: StopAt = None,
        interrupt_after: StopAt = None,
        durability: Literal["sync", "async", "exit"] | None = None,
        version: Literal["v1", "v2"] = "v1",
    ) -> Any:
        """Run to the end and return the final state.

        With another `stream_mode` than "values", the list of what `stream` yields.
        """
        if stream_mode != "values":
            items = self.stream(
                input,
                config,
                context=context,
                stream_mode=stream_mode,
                print_mode=print_mode,
                output_keys=output_keys,
                interrupt_before=interrupt_before,
                interrupt_after=interrupt_after,
                durability=durability,
                version=version,
            )
            return list(items)
        outbox, world = _outbox_around(), world_around.get()
        port = BlockingPort(outbox) if world is None else world.port(outbox, asynchronous=False)
        stops = interrupt_before, interrupt_after
        run = self._run(port, self._printing(print_mode), config, context, durability, stops)
        drive = blocking.run if world is None else world.run
        values = drive(run.execute(input), outbox, copy_context())
        return self._answer(run, values, output_keys, version)

    async def ainvoke(
        self,
        input: Any,
        config: ConfigLike | None = None,
        *,
        context: Any = None,
        stream_mode: _StreamModes = "values",
        print_mode: _StreamModes = (),
        output_keys: str | Sequence[str] | None = None,
        interrupt_before: StopAt = None,
        interrupt_after: StopAt = None,
        durability: Literal["sync", "async", "exit"] | None = None,
        version: Literal["v1", "v2"] = "v1",
    ) -> Any:
        """`invoke` under asyncio."""
        from loopwright.drive import aio

        if stream_mode != "values":
            items = self.astream(
                input,
                config,
                context=context,
                stream_mode=stream_mode,
                print_mode=print_mode,
                output_keys=output_keys,
                interrupt_before=interrupt_before,
                interrupt_after=interrupt_after,
                durability=durability,
                version=version,
            )
            return [item async for item in items]
        outbox, world = _outbox_around(), world_around.get()
        port = aio.AioPort(outbox) if world is None else world.port(outbox, asynchronous=True)
        stops = interrupt_before, interrupt_after
        run = self._run(port, self._printing(print_mode), config, context, durability, stops)
        drive = aio.run if world is None else world.arun
        values = await drive(run.execute(input), outbox, copy_context())
        return self._answer(run, values, output_keys, version)

    def stream(
        self,
        input: Any,
        config: ConfigLike | None = None,
        *,
        context: Any = None,
        stream_mode: _StreamModes = None,
        print_mode: _StreamModes = (),
        output_keys: str | Sequence[str] | None = None,
        interrupt_before: StopAt = None,
        interrupt_after: StopAt = None,
        durability: Literal["sync", "async", "exit"] | None = None,
        subgraphs: bool = False,
        version: Literal["v1", "v2"] = "v1",
    ) -> Iterator[Any]:
        """Run and yield what `stream_mode` shows, each item before the run goes on.

        One mode gives its chunks, a list of modes gives `(mode, chunk)`; `subgraphs=True` puts the namespace of a
        nested run in front. `output_keys` are the keys that "values" and "updates" show; one key in place of a list
        gives its bare value. Leaving the loop early ends the run in good order.
        """
        feed = self._feed(stream_mode, print_mode, output_keys, subgraphs=subgraphs, version=version)
        outbox, world = feed.outbox, world_around.get()
        port = BlockingPort(outbox, root=True) if world is None else world.port(outbox, asynchronous=False)
        stops = interrupt_before, interrupt_after
        run = self._run(port, feed, config, context, durability, stops)
        drive = blocking.stream if world is None else world.stream
        return drive(lambda: run.execute(input), outbox, copy_context())

    def astream(
        self,
        input: Any,
        config: ConfigLike | None = None,
        *,
        context: Any = None,
        stream_mode: _StreamModes = None,
        print_mode: _StreamModes = (),
        output_keys: str | Sequence[str] | None = None,
        interrupt_before: StopAt = None,
        interrupt_after: StopAt = None,
        durability: Literal["sync", "async", "exit"] | None = None,
        subgraphs: bool = False,
        version: Literal["v1", "v2"] = "v1",
    ) -> AsyncIterator[Any]:
        """`stream` under asyncio. The run is stepped in the reader's own task."""
        from loopwright.drive import aio

        feed = self._feed(stream_mode, print_mode, output_keys, subgraphs=subgraphs, version=version)
        outbox, world = feed.outbox, world_around.get()
        port = aio.AioPort(outbox, root=True) if world is None else world.port(outbox, asynchronous=True)
        stops = interrupt_before, interrupt_after
        run = self._run(port, feed, config, context, durability, stops)
        outbox.place = run.place
        drive = aio.AioStream if world is None else world.astream
        return drive(run.execute(input), outbox, copy_context())

    async def run_nested(self, task: Task, given: Any) -> Any:
        """Run as a node of another graph, on the same port; its update has the keys that the other state has."""
        run = self._run(task.port, None, None, None, None)
        try:
            values = self.result_for_parent(await InContext(run.execute(given), copy_context()))
            return {key: value for key, value in values.items() if key in task.run.graph.channels}
        except ParentCommand as bubble:
            return structs.replace(bubble.command, graph=None)

    def result_for_parent(self, values: dict[str, Any]) -> dict[str, Any]:
        """The update that a run as a node gives the graph around it."""
        return values

    def _run(
        self,
        port: Port,
        feed: Feed | None,
        config: ConfigLike | None,
        context: Any,
        durability: str | None,
        stop_at: tuple[StopAt, StopAt] = (None, None),
    ) -> Run:
        """A run of this graph, as a part of the run around it if there is one."""
        check_config(config)
        scope = current_scope.get()
        parent = scope if isinstance(scope, Task) else None
        own = merge_configs(self.config, config)
        asked, path = feed, ()
        if parent is not None:
            own = merge_configs(_inherited(parent.run.config), own)
            path = (*parent.run.path, f"{parent.name}:{parent.id}")
            feed = parent.run.feed if feed is None else feed.below(parent.run.feed, path)
        saver, below = self.checkpointer, None
        if parent is not None and not (saver is not None and _names_own_thread(config, saver, parent)):
            saver = parent.run.saver  # kept by the run around it, on its thread
            if saver is not None:
                below, own = parent, _placed_below(own, parent, path)
                saver.registry.expect(self.declared)
        if saver is not None:
            from loopwright.checkpoint.base import require_thread_id

            require_thread_id(own, saver)
            if below is None:
                refuse_place_below(own, self.nodes)
        stops = self._stops(stop_at)
        self._check_options(asked, saver, durability, stops)
        run = Run(
            self,
            port,
            own,
            feed=feed,
            path=path,
            parent=parent,
            context=self._context(context, parent),
            store=self.store if self.store is not None or parent is None else parent.run.store,
            saver=saver,
            below=below,
            durability=durability or ("sync" if below is None else below.run.durability),
            stops=stops,
            run_id=str(own.get("run_id") or port.new_id()),
        )
        run.budget = self.budget_for(run, parent)
        return run

    def _stops(self, stop_at: tuple[StopAt, StopAt]) -> Stops | None:
        """Where this run stops: what its call says goes before what the graph was compiled with."""
        before, after = stop_at
        own_before, own_after = self.stop_at
        if before is None and after is None and not own_before and not own_after:
            return None
        return stops_at(own_before if before is None else before, own_after if after is None else after, self.nodes)

    def _check_options(
        self, asked: Feed | None, saver: BaseCheckpointSaver | None, durability: str | None, stops: Stops | None
    ) -> None:
        if saver is None and (stops is not None or self.asks_by_design):
            raise UsageError(no_saver("interrupt_before/interrupt_after" if stops else self.asks_by_design or ""))
        if asked is not None and saver is None and asked.only_checkpoints():
            raise UsageError(
                'stream_mode="checkpoints" needs a checkpointer: create_agent(..., checkpointer=InMemorySaver()).'
            )
        if durability is not None and durability not in _DURABILITIES:
            raise UsageError(
                f"durability={durability!r} does not exist; use one of {', '.join(map(repr, _DURABILITIES))}."
            )

    def _feed(
        self,
        stream_mode: _StreamModes,
        print_mode: _StreamModes,
        output_keys: str | Sequence[str] | None = None,
        *,
        subgraphs: bool,
        version: str,
    ) -> Feed:
        modes, single = check_modes("updates" if stream_mode is None else stream_mode)
        printed, _ = check_modes(print_mode or ())
        if self.debug:
            printed = [*printed, "debug"]
        return Feed(
            Outbox(),
            modes,
            single=single,
            subgraphs=subgraphs,
            version=version,
            printed=printed,
            output_keys=output_keys,
        )

    def _printing(self, print_mode: _StreamModes) -> Feed | None:
        """For a run that nobody reads: a feed that only prints, None if nothing is to be printed."""
        if not print_mode and not self.debug:
            return None
        return self._feed((), print_mode, subgraphs=False, version="v1")

    def _context(self, context: Any, parent: Task | None) -> Any:
        """The run's context in the form of `context_schema`; a nested run has its parent's unless it is given one."""
        if context is None and parent is not None:
            context = parent.run.context
        schema = self.context_schema
        if schema is None or (context is None and not _is_instantiable(schema)):
            return context
        if isinstance(context, Mapping) or context is None:
            given = cast("Mapping[str, Any]", context or {})
            return _context_from(schema, given, was_given=context is not None)
        return context

    def _answer(self, run: Run, values: dict[str, Any], output_keys: str | Sequence[str] | None, version: str) -> Any:
        answer: Any = values if output_keys is None else picked(values, output_keys)
        if run.interrupts and version == "v1" and isinstance(answer, dict):
            answer = {**cast("dict[str, Any]", answer), "__interrupt__": list(run.interrupts)}
        if output_keys is None:
            answer = self.result(run, answer)
        return GraphOutput(answer, run.interrupts) if version == "v2" else answer

    # ---- what agents do in their own way

    def result(self, run: Run, values: dict[str, Any]) -> Any:
        """What `invoke` returns."""
        return values

    def budget_for(self, run: Run, parent: Task | None) -> Any:
        """The account of what the run spends, None where nobody keeps one; the runs above are charged as well."""
        around = None if parent is None else parent.spending()
        return None if around is None else around.tally()

    def check_input(self, given: Any, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Input as a dict; `state` is what the thread holds. Raises for what cannot be run on."""
        if isinstance(given, Mapping):
            return cast("Mapping[str, Any]", given)
        update = as_update(given)
        if update is None:
            keys = ", ".join(f'"{key}": …' for key in sorted(self.parts.input_keys))
            raise InvalidUpdateError(
                f"The input must be a dict of state keys, {{{keys}}}; got {type(given).__name__}: {given!r:.80}"
            )
        return update

    def empty_state(self) -> dict[str, Any]:
        """The state of a fresh thread: keys with a reducer begin with its empty value."""
        return {k: c.default() for k, c in self.channels.items() if c.default is not None and not c.ephemeral}

    def nothing_to_resume(self, *, has_saver: bool, answers: bool) -> str:
        """The words for `invoke(None)`, or with `answers` for `Command(resume=…)`, without anything saved."""
        what = "Command(resume=…) answers what a paused run asks" if answers else "Without input a run goes on"
        why = "this thread has no checkpoint yet" if has_saver else "this graph has no checkpointer"
        return f"{what}, and {why}. Give it an input."

    # ---- looking at threads

    def get_state(self, config: ConfigLike, *, subgraphs: bool = False) -> StateSnapshot:
        """The thread as it is now, or at the checkpoint that `config` names."""
        from loopwright.graph.snapshot import get_state

        return get_state(self, config, subgraphs=subgraphs)

    async def aget_state(self, config: ConfigLike, *, subgraphs: bool = False) -> StateSnapshot:
        """`get_state` under asyncio."""
        return await self._off_loop(lambda: self.get_state(config, subgraphs=subgraphs))

    def get_state_history(
        self,
        config: ConfigLike,
        *,
        filter: dict[str, Any] | None = None,
        before: ConfigLike | None = None,
        limit: int | None = None,
    ) -> Iterator[StateSnapshot]:
        """The thread's checkpoints, newest first."""
        from loopwright.graph.snapshot import get_state_history

        return get_state_history(self, config, filter=filter, before=before, limit=limit)

    async def aget_state_history(
        self,
        config: ConfigLike,
        *,
        filter: dict[str, Any] | None = None,
        before: ConfigLike | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[StateSnapshot]:
        """`get_state_history` under asyncio."""
        history = self.get_state_history(config, filter=filter, before=before, limit=limit)
        while (snapshot := await self._off_loop(lambda: next(history, None))) is not None:
            yield snapshot

    def update_state(
        self, config: ConfigLike, values: Any, as_node: str | None = None, task_id: str | None = None
    ) -> RunnableConfig:
        """Change the state from outside, as if node `as_node` had returned `values`; on an old checkpoint it forks."""
        from loopwright.graph.snapshot import update_state

        return blocking.run(update_state(self, BlockingPort(), config, values, as_node), None, copy_context())

    async def aupdate_state(
        self, config: ConfigLike, values: Any, as_node: str | None = None, task_id: str | None = None
    ) -> RunnableConfig:
        """`update_state` under asyncio."""
        from loopwright.drive import aio
        from loopwright.graph.snapshot import update_state

        return await aio.run(update_state(self, aio.AioPort(), config, values, as_node))

    async def _off_loop(self, ask: Callable[[], Any]) -> Any:
        """Ask a saver without holding up the event loop."""
        if self.checkpointer is None or self.checkpointer.instant:
            return ask()
        from loopwright.drive.aio import AioPort

        return await AioPort().call(ask, is_async=False)

    # ---- the rest

    def get_graph(self, config: ConfigLike | None = None, *, xray: int | bool = False) -> Graph:
        """Nodes and edges, to look at or to draw; `xray` opens nested graphs."""
        from loopwright.graph.shape import graph_of

        return graph_of(self, xray=xray)

    def with_config(self, config: ConfigLike | None = None, **kwargs: Any) -> Any:
        """The same graph with a config of its own, under the one of each call."""
        twin = self.__copy__()
        for given in (config, kwargs):
            check_config(given)
        twin.config = merge_configs(self.config, config, cast(RunnableConfig, kwargs))
        return twin

    def __copy__(self) -> Self:
        """The same graph again: nodes, checkpointer and store are shared."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(
            f"{self!r} cannot be pickled or copied deeply: it holds functions, models and connections. Make it again "
            "where it is needed, the way it was made here; copy.copy(graph) and graph.with_config(…) share its parts."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}: {', '.join(self.nodes)}>"


def _outbox_around() -> Outbox | None:
    """The reader of the run around this call, if one reads."""
    scope = current_scope.get()
    feed = scope.run.feed if isinstance(scope, Task) else None
    return None if feed is None else feed.outbox


def _inherited(config: RunnableConfig) -> RunnableConfig:
    """What a nested run takes over; limits and addresses of checkpoints are each run's own."""
    kept: dict[str, Any] = {
        k: v for k, v in config.items() if k in ("tags", "metadata", "callbacks", "max_concurrency")
    }
    configurable = config.get("configurable") or {}
    kept["configurable"] = {k: v for k, v in configurable.items() if k not in ("checkpoint_id", "checkpoint_ns")}
    return cast(RunnableConfig, kept)


def _placed_below(config: RunnableConfig, parent: Task, path: tuple[str, ...]) -> RunnableConfig:
    """The config of a run that is kept on its parent's thread, in the namespace of the task that has begun it."""
    namespace = "|".join(path)
    place = {**(config.get("configurable") or {}), "thread_id": parent.run.thread_id, "checkpoint_ns": namespace}
    return cast(RunnableConfig, {**config, "configurable": place})


def _names_own_thread(config: ConfigLike | None, saver: BaseCheckpointSaver, parent: Task) -> bool:
    """Whether a nested call names a thread, other than the one it runs on, in a config that is not just handed on."""
    place = (config.get("configurable") or {}) if config else {}
    if not place.get("thread_id") or place.get("checkpoint_ns") == parent.namespace:
        return False
    run = parent.run
    while run.saver is None and run.parent is not None:
        run = run.parent.run
    return saver is not run.saver or place["thread_id"] != run.thread_id


def _is_instantiable(schema: type[Any]) -> bool:
    """A dataclass or a pydantic model: a class with checks and defaults of its own."""
    return hasattr(schema, "__dataclass_fields__") or hasattr(schema, "model_validate")


def _context_from(schema: type[Any], given: Mapping[str, Any], *, was_given: bool) -> Any:
    if not _is_instantiable(schema):
        return dict(given)
    try:
        return schema(**given)
    except Exception as error:
        shown = f"context={dict(given)!r}" if was_given else "no context="
        raise UsageError(
            f"The run needs a context of type {schema.__name__}, and {shown} does not make one: {error}. "
            f"Write agent.invoke(input, context={schema.__name__}(…))."
        ) from error


def _checked_saver(checkpointer: Any) -> BaseCheckpointSaver | None:
    if checkpointer is None or checkpointer is False:
        return None
    from loopwright.checkpoint.base import BaseCheckpointSaver

    if isinstance(checkpointer, BaseCheckpointSaver):
        return checkpointer
    if isinstance(checkpointer, type):
        name: str = checkpointer.__name__
        raise UsageError(f"checkpointer={name} is the class; make one: checkpointer={making(checkpointer)}.")
    if isinstance(checkpointer, str) or hasattr(checkpointer, "__fspath__"):
        is_server = str(checkpointer).startswith("postgres")  # its url is not shown, it may hold a password
        kind, home, given = ("PostgresSaver", "postgres", "url") if is_server else ("SqliteSaver", "sqlite", "path")
        raise UsageError(
            f"checkpointer= takes a saver, not the {given} of one: checkpointer={kind}({given}). "
            f"Write: from loopwright.checkpoint.{home} import {kind}."
        )
    if hasattr(checkpointer, "__enter__"):
        raise UsageError(
            "checkpointer= is a context manager that was not entered. Write: "
            "with SqliteSaver.from_conn_string(path) as saver: create_agent(..., checkpointer=saver)."
        )
    hint = " Write checkpointer=InMemorySaver()." if checkpointer is True else ""
    raise UsageError(
        f"checkpointer={checkpointer!r:.80} is no checkpoint saver (a {type(checkpointer).__name__}).{hint} "
        "Savers are in loopwright.checkpoint: from loopwright.checkpoint.memory import InMemorySaver."
    )
