"""Threads from outside: what a saver holds, in the form that callers read, and changing it by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from loopwright.checkpoint.base import BaseCheckpointSaver, Pending, Record, require_thread_id
from loopwright.errors import InvalidUpdateError, UsageError
from loopwright.graph.engine import Run
from loopwright.graph.keeping import ask, save
from loopwright.graph.nodes import Node, from_outside
from loopwright.graph.saved import JOINS_KEY, RAN_KEY, joined, progress_in
from loopwright.graph.starting import open_thread, refuse_place_below, revive, settle, take
from loopwright.graph.state import as_update, refuse_misspelled
from loopwright.graph.types import END, START, Command, PregelTask, StateSnapshot
from loopwright.graph.writes import writes_of
from loopwright.scope import ConfigLike, RunnableConfig, check_config, merge_configs

if TYPE_CHECKING:
    from loopwright.graph.compiled import CompiledStateGraph
    from loopwright.port import Port

__all__ = ["get_state", "get_state_history", "update_state"]


def get_state(graph: CompiledStateGraph, config: ConfigLike, *, subgraphs: bool = False) -> StateSnapshot:
    """The thread at its head, or at the checkpoint that `config` names; an empty snapshot where there is none.

    With `subgraphs` the tasks of an unfinished step show the runs they have begun, in `task.state`.
    """
    saver, config = _saver_of(graph, config, "get_state({})")
    place = config.get("configurable") or {}
    record = saver.load(place["thread_id"], place.get("checkpoint_ns", ""), place.get("checkpoint_id"))
    if record is None:
        return StateSnapshot({}, (), config, None, None, None, (), ())
    known = graph if not record.ns else None
    return _snapshot(known, record, is_now="checkpoint_id" not in place, saver=saver if subgraphs else None)


def get_state_history(
    graph: CompiledStateGraph,
    config: ConfigLike,
    *,
    filter: dict[str, Any] | None = None,
    before: ConfigLike | None = None,
    limit: int | None = None,
) -> Iterator[StateSnapshot]:
    """The thread's checkpoints, newest first."""
    saver, config = _saver_of(graph, config, "get_state_history({})")
    place = config.get("configurable") or {}
    before_id = (before.get("configurable") or {}).get("checkpoint_id") if before else None
    records = saver.walk(
        place["thread_id"], place.get("checkpoint_ns", ""), before=before_id, filter=filter, limit=limit
    )
    return (_snapshot(graph, record, is_now=False) for record in records)


def _saver_of(graph: CompiledStateGraph, config: ConfigLike, call: str) -> tuple[BaseCheckpointSaver, RunnableConfig]:
    saver = graph.checkpointer
    if saver is None:
        raise UsageError(
            "This graph has no checkpointer, so it keeps no state. Make it with one: "
            "create_agent(..., checkpointer=InMemorySaver()), or builder.compile(checkpointer=InMemorySaver())."
        )
    check_config(config)
    merged = merge_configs(graph.config, config)
    require_thread_id(merged, saver, call)
    return saver, merged


def _snapshot(graph: CompiledStateGraph | None, record: Record, *, is_now: bool, saver: Any = None) -> StateSnapshot:
    """A record as callers read it. Of a thread's present state, what the unfinished step has written is a part.

    `graph` is None for a run below, whose own graph is not at hand; with `saver` such runs are shown in their tasks.
    """
    progress = progress_in(record)
    values, channels = record.values, {} if graph is None else graph.channels
    if is_now and channels:
        ended = [(task.name, task.writes) for task in progress.values() if task.ended]
        values, _ = joined(channels, values, ended)
    tasks = tuple(
        PregelTask(
            pending.id,
            pending.name,
            pending.path or ("__pregel_pull", pending.name),
            error=progress[pending.id].error,
            interrupts=progress[pending.id].interrupts,
            state=None if saver is None or progress[pending.id].ended else _below(saver, record, pending),
            result=dict(progress[pending.id].writes) if progress[pending.id].ended else None,
        )
        for pending in record.pending
    )
    shown = channels or [key for key in values if key not in (RAN_KEY, JOINS_KEY)]
    due = [pending.name for pending in record.pending]
    left = [pending.name for pending in record.pending if not progress[pending.id].ended]
    return StateSnapshot(
        values={key: values[key] for key in shown if key in values},
        # Where all have ended and what comes after them is not on record, the step still is to be closed.
        next=tuple(left or due) if is_now else tuple(due),
        config=_config(record, record.id),
        metadata=record.describe(),
        created_at=record.created_at,
        parent_config=None if record.parent_id is None else _config(record, record.parent_id),
        tasks=tasks,
        interrupts=tuple(asked for task in tasks for asked in task.interrupts),
    )


def _below(saver: BaseCheckpointSaver, record: Record, pending: Pending) -> StateSnapshot | None:
    """The run that a task of an unfinished step has begun, None if there is none."""
    place = f"{pending.name}:{pending.id}"
    nested = saver.load(record.thread_id, f"{record.ns}|{place}" if record.ns else place)
    return None if nested is None else _snapshot(None, nested, is_now=True, saver=saver)


def _config(record: Record, checkpoint_id: str) -> RunnableConfig:
    place = {"thread_id": record.thread_id, "checkpoint_ns": record.ns, "checkpoint_id": checkpoint_id}
    return cast(RunnableConfig, {"configurable": place})


async def update_state(
    graph: CompiledStateGraph, port: Port, config: ConfigLike, values: Any, as_node: str | None
) -> RunnableConfig:
    """Save a checkpoint in which node `as_node` has returned `values`; returns the config that reads it."""
    saver, merged = _saver_of(graph, config, "update_state({}, ...)")
    refuse_place_below(merged, graph.nodes)
    _check_values(values)
    run = Run(graph, port, merged, saver=saver, run_id=port.new_id())
    head, record = await open_thread(run)
    if record is None:
        take(run, None)
        run.step += 1  # no input comes before it
    if values is None and as_node is None:
        if record is not None:
            revive(run, record, is_head=record is head)
        run.step += 1
        run.claim = await ask(run, "claim", run.thread_id, head, run.run_id)
        await save(run, "fork")
        return _saved(run)
    if record is not None and record is head:
        settle(run, record)
    node = _speaker(graph, run.ran, as_node)
    task = run.make_task(node, (node.name,), None)
    _, task.writes, task.goto = writes_of(values, node.name)
    refuse_misspelled(graph.channels, [key for key, _ in task.writes], "update_state was given")
    run.claim = await ask(run, "claim", run.thread_id, head, run.run_id)
    await run.commit([task])
    await save(run, "update")
    return _saved(run)


def _check_values(values: Any) -> None:
    """Refuse what no node could have returned, before a node is blamed for it."""
    for each in cast("list[Any]", values) if isinstance(values, (list, tuple)) else [values]:
        if each is not None and not isinstance(each, (dict, list, tuple, Command)) and as_update(each) is None:
            raise InvalidUpdateError(
                f"update_state(config, values): values must be a dict from state key to its update, "
                f'{{"messages": [...]}}; got {type(each).__name__} {each!r:.80}.'
            )


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
            raise InvalidUpdateError(
                f"as_node={as_node!r} is no node; the nodes are {names}, and START and END speak from outside."
            )
        return graph.nodes[as_node]
    names = sorted(set(ran))
    if len(names) == 1:
        return graph.nodes.get(names[0], graph.start)
    raise InvalidUpdateError(
        f"Several nodes ran last ({', '.join(names)}): say whose update this is, "
        f"update_state(config, values, as_node={names[0]!r})."
    )
