"""Threads from outside: what a saver holds, in the form that callers read, and changing it by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from loopwright.checkpoint.base import BaseCheckpointSaver, Record, require_thread_id
from loopwright.errors import InvalidUpdateError, UsageError
from loopwright.graph.engine import Run
from loopwright.graph.nodes import Node, from_outside
from loopwright.graph.saved import ended_in, errors_in, joined
from loopwright.graph.state import refuse_misspelled
from loopwright.graph.types import END, START, PregelTask, StateSnapshot
from loopwright.graph.writes import writes_of
from loopwright.scope import ConfigLike, RunnableConfig, merge_configs

if TYPE_CHECKING:
    from loopwright.graph.compiled import CompiledStateGraph
    from loopwright.port import Port

__all__ = ["get_state", "get_state_history", "update_state"]


def get_state(graph: CompiledStateGraph, config: ConfigLike) -> StateSnapshot:
    """The thread at its head, or at the checkpoint that `config` names; an empty snapshot where there is none."""
    saver, config = _saver_of(graph, config)
    place = config.get("configurable") or {}
    record = saver.load(place["thread_id"], place.get("checkpoint_ns", ""), place.get("checkpoint_id"))
    if record is None:
        return StateSnapshot({}, (), config, None, None, None, (), ())
    return _snapshot(graph, record, is_now="checkpoint_id" not in place)


def get_state_history(
    graph: CompiledStateGraph,
    config: ConfigLike,
    *,
    filter: dict[str, Any] | None = None,
    before: ConfigLike | None = None,
    limit: int | None = None,
) -> Iterator[StateSnapshot]:
    """The thread's checkpoints, newest first."""
    saver, config = _saver_of(graph, config)
    place = config.get("configurable") or {}
    before_id = (before.get("configurable") or {}).get("checkpoint_id") if before else None
    records = saver.walk(
        place["thread_id"], place.get("checkpoint_ns", ""), before=before_id, filter=filter, limit=limit
    )
    return (_snapshot(graph, record, is_now=False) for record in records)


def _saver_of(graph: CompiledStateGraph, config: ConfigLike) -> tuple[BaseCheckpointSaver, RunnableConfig]:
    saver = graph.checkpointer
    if saver is None:
        raise UsageError(
            "This graph has no checkpointer, so it keeps no state. Make it with one: "
            "create_agent(..., checkpointer=InMemorySaver()), or builder.compile(checkpointer=InMemorySaver())."
        )
    merged = merge_configs(graph.config, config)
    require_thread_id(merged, saver)
    return saver, merged


def _snapshot(graph: CompiledStateGraph, record: Record, *, is_now: bool) -> StateSnapshot:
    """A record as callers read it. Of a thread's present state, what the unfinished step has written is a part."""
    ended, errors = ended_in(record), errors_in(record)
    values = record.values
    if is_now:
        values, _ = joined(graph.channels, values, [(task.name, task.writes) for task in ended.values()])
    tasks = tuple(
        PregelTask(
            pending.id,
            pending.name,
            pending.path,
            error=errors.get(pending.id),
            result=dict(ended[pending.id].writes) if pending.id in ended else None,
        )
        for pending in record.pending
    )
    return StateSnapshot(
        values={key: values[key] for key in graph.channels if key in values},
        next=tuple(pending.name for pending in record.pending if not is_now or pending.id not in ended),
        config=_config(record, record.id),
        metadata=record.describe(),
        created_at=record.created_at,
        parent_config=None if record.parent_id is None else _config(record, record.parent_id),
        tasks=tasks,
        interrupts=(),
    )


def _config(record: Record, checkpoint_id: str) -> RunnableConfig:
    place = {"thread_id": record.thread_id, "checkpoint_ns": record.ns, "checkpoint_id": checkpoint_id}
    return cast(RunnableConfig, {"configurable": place})


async def update_state(
    graph: CompiledStateGraph, port: Port, config: ConfigLike, values: Any, as_node: str | None
) -> RunnableConfig:
    """Save a checkpoint in which node `as_node` has returned `values`; returns the config that reads it."""
    saver, merged = _saver_of(graph, config)
    run = Run(graph, port, merged, saver=saver, run_id=port.new_id())
    head, record = await run.open()
    if record is None:
        run.take(None)
        run.step += 1  # no input comes before it
    if values is None and as_node is None:
        if record is not None:
            run.revive(record, is_head=record is head)
        run.step += 1
        run.claim = await run.ask(saver.claim, run.thread_id, head, run.run_id)
        await run.save("fork")
        return _saved(run)
    if record is not None and record is head:
        run.settle(record)
    node = _speaker(graph, run.ran, as_node)
    task = run.make_task(node, (node.name,), None)
    _, task.writes, task.goto = writes_of(values, node.name)
    refuse_misspelled(graph.channels, [key for key, _ in task.writes], "update_state was given")
    run.claim = await run.ask(saver.claim, run.thread_id, head, run.run_id)
    await run.commit([task])
    await run.save("update")
    return _saved(run)


def _saved(run: Run) -> RunnableConfig:
    place = {"thread_id": run.thread_id, "checkpoint_ns": run.namespace, "checkpoint_id": run.checkpoint_id}
    return cast(RunnableConfig, {"configurable": place})


def _speaker(graph: CompiledStateGraph, ran: list[str], as_node: str | None) -> Node:
    """The node that the update speaks for: the one that is named, else the one that ran last."""
    if as_node == END:
        return from_outside()
    if as_node in (START, "__input__"):
        return graph.start
    if as_node is not None:
        if as_node not in graph.nodes:
            names = ", ".join(map(repr, graph.nodes))
            raise InvalidUpdateError(f"as_node={as_node!r} is no node; the nodes are {names}.")
        return graph.nodes[as_node]
    names = sorted(set(ran))
    if len(names) == 1:
        return graph.nodes.get(names[0], graph.start)
    raise InvalidUpdateError(
        f"Several nodes ran last ({', '.join(names)}): say whose update this is, "
        f"update_state(config, values, as_node={names[0]!r})."
    )
