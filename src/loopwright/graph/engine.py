"""The engine: supersteps over a state, written down as they happen.

A run is a chain of steps. In each, the tasks that are due run at the same time on one state; then, in the order of the
tasks, what they wrote is folded into a new state, the edges say what is due next, and the checkpoint is saved:

    begin ─→ tasks ─→ perform (together) ─→ commit ─→ route ─→ save ─┐
               └────────────────────────────────────────────────────┘

- What a task wrote is saved the moment it ends, before anything else can fail; a resumed step runs only its other
  tasks, and its routing again.
- Parallel tasks end in any order; they are committed, and their errors chosen, in the order they were planned.
- Leaving early (an error, a cancellation, a reader gone) is an exit like others: `leave` keeps what was done.

Nothing here knows threads, event loops or models: whatever is outside is reached through `self.port`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from msgspec import structs

from loopwright.callbacks import callbacks_of
from loopwright.checkpoint.base import NO_ARG, BaseCheckpointSaver, Pending, Record
from loopwright.errors import (
    EmptyInputError,
    ParentCommand,
    UsageError,
)
from loopwright.graph.chains import heard_run, heard_task
from loopwright.graph.events import Event, MessageChunk, RunFinished, RunStarted, TaskFinished, TaskStarted
from loopwright.graph.leaving import leave, out_of_steps
from loopwright.graph.nodes import from_outside
from loopwright.graph.saved import ERROR_KEY, JOINS_KEY, RAN_KEY, ended_in, joined, saved_form
from loopwright.graph.state import fold, refuse_misspelled
from loopwright.graph.task import Task
from loopwright.graph.telling import name_messages, tell_checkpoint, tell_end, tell_messages, tell_start, tell_step
from loopwright.graph.types import END, START, Command, RetryPolicy, Send
from loopwright.graph.writes import writes_of
from loopwright.ids import new_ordered_id
from loopwright.port import Port
from loopwright.scope import RunnableConfig, current_scope

if TYPE_CHECKING:
    from loopwright.graph.compiled import CompiledStateGraph
    from loopwright.graph.modes import Feed

__all__ = ["Run"]

_FIRST_PUSH = ("__pregel_push", 0, False)
_OWN_KEYS = frozenset({"thread_id", "checkpoint_id", "checkpoint_ns"})


class Run:
    """One run of one graph: an object that lives as long as the run, never longer."""

    __slots__ = (
        "_first_step",
        "_step_limit",
        "arrived",
        "begun",
        "budget",
        "checkpoint_id",
        "claim",
        "config",
        "context",
        "durability",
        "feed",
        "graph",
        "heard",
        "metadata",
        "namespace",
        "parent",
        "parent_checkpoint_id",
        "path",
        "port",
        "ran",
        "run_id",
        "said",
        "saver",
        "state",
        "step",
        "stop_reason",
        "store",
        "tasks",
        "thread_id",
        "tokens",
        "unsaved",
    )

    def __init__(
        self,
        graph: CompiledStateGraph,
        port: Port,
        config: RunnableConfig,
        *,
        feed: Feed | None = None,
        path: tuple[str, ...] = (),
        parent: Task | None = None,
        context: Any = None,
        store: Any = None,
        saver: BaseCheckpointSaver | None = None,
        durability: str = "sync",
        run_id: str = "",
    ) -> None:
        configurable = config.get("configurable") or {}
        self.graph, self.port, self.config, self.feed = graph, port, config, feed
        self.path, self.parent = path, parent
        self.context, self.store, self.saver, self.durability = context, store, saver, durability
        self.run_id = run_id
        self.thread_id: str | None = configurable.get("thread_id")
        self.namespace = str(configurable.get("checkpoint_ns") or "")
        self.metadata = _metadata_of(config)
        """What is told with tokens and tasks: the caller's metadata, and which thread it is."""
        self.tokens = feed is not None and feed.wants(MessageChunk, path)
        self.budget: Any = None
        self.heard = False
        """Whether `config["callbacks"]` hear of it."""
        self.state: dict[str, Any] = {}
        self.step = 0
        self.tasks: list[Task] = []
        self.checkpoint_id: str | None = None if saver is None else configurable.get("checkpoint_id")
        self.parent_checkpoint_id: str | None = None
        self.claim: int | None = None
        self.stop_reason: str | None = None
        self.said: str | None = None
        """What the run ends by saying, where that is not the last message."""
        self.unsaved: set[str] = set()
        """Keys that changed since the last checkpoint."""
        self.arrived: dict[str, list[str]] = {}
        """Of nodes that wait for several: those that have ended by now."""
        self.ran: list[str] = [START]
        """The nodes of the step before."""
        self.begun = False
        self._first_step = 0
        limit = config.get("recursion_limit")
        self._step_limit = graph.recursion_limit if limit is None else limit
        _check_count("max_concurrency", config.get("max_concurrency"))
        _check_count("recursion_limit", limit)

    # ---- facts

    def wants(self, kind: type[Event]) -> bool:
        """Whether anybody reads facts of this type from this run."""
        return self.feed is not None and self.feed.wants(kind, self.path)

    def emit(self, kind: type[Event], *fields: Any) -> None:
        """Make a fact that somebody wants and show it."""
        cast("Feed", self.feed).tell(kind, self.path, *fields)

    def first_sight(self, message_id: str | None) -> bool:
        """Whether a message has not been shown to the reader yet."""
        return self.feed is not None and self.feed.first_sight(message_id, self.path)

    # ---- the loop

    async def execute(self, given: Any) -> dict[str, Any]:
        """Run from `given` (input, None or a `Command`) to the end; returns the public part of the final state."""
        heard = callbacks_of(self.config)
        if heard is None:
            return await self._loop(given)
        self.heard = True
        return cast("dict[str, Any]", await heard_run(self, heard, given, lambda: self._loop(given)))

    async def _loop(self, given: Any) -> dict[str, Any]:
        try:
            await self._begin(given)
            while True:
                if self.step - self._first_step >= self._step_limit:
                    raise out_of_steps(self._step_limit)
                if not self.tasks:
                    break
                await self.superstep()
            if self.mend(self.graph.repair):
                self.step += 1
                saved = await self.save("loop")
                if self.feed is not None:
                    await tell_step(self, saved, changed=True)
            if self.durability == "exit":
                await self.save("loop", at_exit=True)
        except BaseException as error:
            await leave(self, error)
            raise
        if self.wants(RunFinished):
            usage = None if self.budget is None else self.budget.usage
            self.emit(RunFinished, self.stop_reason, usage)
            await self.port.pause()
        return self.public(self.state)

    async def superstep(self) -> None:
        self.port.check()
        due = self.tasks
        todo = due if len(due) == 1 and not due[0].done else [task for task in due if not task.done]
        if self.feed is not None and self.wants(TaskStarted):
            for task in todo:
                tell_start(self, task)
            await self.port.pause()
        if len(todo) == 1:
            await self.perform(todo[0])
        elif todo:
            limit = self.config.get("max_concurrency")
            outcomes = await self.port.gather([self.perform(task) for task in todo], limit)
            _raise_first(outcomes)
        await self.commit(due)
        saved = await self.save("loop") if self.saver is not None else None
        if self.feed is not None:
            await tell_step(self, saved, changed=any(task.writes for task in due))

    async def perform(self, task: Task) -> None:
        """Run one task to its end and keep what it wrote."""
        current_scope.set(task)
        try:
            try:
                answer = await (self._retried(task) if task.node.retry or self.heard else task.node.run(task))
            except ParentCommand as bubble:  # from a graph that ran in this node, and meant for this one
                answer = structs.replace(bubble.command, graph=None)
            if answer.__class__ is dict:
                task.update, task.writes = answer or None, list(answer.items())
            else:
                task.update, task.writes, task.goto = writes_of(answer, task.name)
            if self.saver is not None:  # before they are kept: a resumed run would find the mistake again
                refuse_misspelled(self.graph.channels, [key for key, _ in task.writes], f"Node {task.name!r} wrote")
        except Exception as error:
            if self.saver is not None:
                await self._save_writes(task, [(ERROR_KEY, repr(error))])
            if self.wants(TaskFinished):
                tell_end(self, task, repr(error))
            raise
        if self.feed is not None:
            name_messages(self, task)
        task.done = True
        if self.saver is not None:
            await self._save_writes(task, saved_form(task.writes, task.goto))
        if self.feed is not None:
            tell_messages(self, task)
            if self.wants(TaskFinished):
                tell_end(self, task, None)
            await self.port.pause()

    async def _retried(self, task: Task) -> Any:
        """A node that may be tried again, or whose run somebody hears of."""
        attempts = 0
        while True:
            attempts += 1
            heard = callbacks_of(self.config)
            try:
                if heard is not None:
                    return await heard_task(task, heard, lambda: task.node.run(task))
                return await task.node.run(task)
            except Exception as error:
                policy = _policy_for(task.node.retry, error, attempts)
                if policy is None:
                    raise
                await self.port.sleep(policy.pause_s(attempts, self.port.random()))

    async def commit(self, due: Sequence[Task]) -> None:
        """Fold what the step wrote into a new state and find out what is due next. All or nothing."""
        before, arrived = self.state, self.arrived
        graph = self.graph
        after, changed = fold(graph.channels, before, [(task.name, task.writes) for task in due], graph.ephemeral)
        self.state = after
        self.step += 1
        targets: list[str | Send] = []
        try:
            for task in due:
                targets += task.goto
                targets += task.node.edges
                for branch in task.node.branches:
                    targets += branch.decide(task, after) if branch.plain else await branch.choose(task, after)
            self.tasks = self._next_tasks(targets, due)
        except BaseException:
            self.state, self.arrived = before, arrived
            self.step -= 1
            raise
        if self.saver is not None:
            self.ran = [task.name for task in due]
            self.unsaved |= changed

    def _next_tasks(self, targets: list[str | Send], done: Sequence[Task]) -> list[Task]:
        """Tasks of the next step: nodes in the order of their names, then sends in the order they were made."""
        if self.graph.joins:
            targets += self._joined(done)
        nodes = self.graph.nodes
        if len(targets) == 1:  # nearly every step
            target = targets[0]
            if isinstance(target, Send):
                if target.node in nodes:
                    return [self.make_task(nodes[target.node], _FIRST_PUSH, target.arg)]
            elif target in nodes:
                return [self.make_task(nodes[target], nodes[target].pulled, NO_ARG)]
        names = {target for target in targets if not isinstance(target, Send) and target != END}
        sends = [target for target in targets if isinstance(target, Send)]
        for target in (*names, *(send.node for send in sends)):
            if target not in nodes:
                raise UsageError(f"There is no node {target!r} to go to; the nodes are {', '.join(map(repr, nodes))}.")
        tasks = [self.make_task(nodes[name], nodes[name].pulled, NO_ARG) for name in sorted(names)]
        tasks += [self.make_task(nodes[s.node], ("__pregel_push", i, False), s.arg) for i, s in enumerate(sends)]
        return tasks

    def _joined(self, done: Iterable[Task]) -> set[str]:
        """Nodes that wait for several others, all of which have ended by now."""
        arrived = dict(self.arrived)
        ready: set[str] = set()
        for key, (sources, target) in self.graph.joins.items():
            seen = {*arrived.get(key, ()), *(task.name for task in done if task.name in sources)}
            if seen == set(sources):
                ready.add(target)
                arrived.pop(key, None)
            elif seen:
                arrived[key] = sorted(seen)
        self.arrived = arrived
        return ready

    def make_task(self, node: Any, path: tuple[Any, ...], arg: Any, task_id: str | None = None) -> Task:
        given = dict(self.state) if arg is NO_ARG else arg
        return Task(self, node, task_id, path, arg, given, self.step + 1)

    # ---- beginning and leaving

    async def open(self) -> tuple[Record | None, Record | None]:
        """Read the thread: its head, and the checkpoint to go on from, which becomes the state of this run."""
        head = record = await self.load(None)
        wanted = self.checkpoint_id
        if wanted is not None and (head is None or head.id != wanted):
            record = await self.load(wanted)
            if record is None:
                raise UsageError(
                    f"Thread {self.thread_id!r} has no checkpoint {wanted!r}; see agent.get_state_history(config)."
                )
        if record is not None:
            self.take(record)
        return head, record

    async def _begin(self, given: Any) -> None:
        head, record = await self.open()
        command = cast("Command[Any]", given) if isinstance(given, Command) else None
        resumes = given is None or command is not None
        # Before the claim: a wrong call must not take the thread from the run that has it.
        writes = self._check_resume(record, command) if resumes else self._input_writes(given)
        if self.saver is not None:
            self.claim = await self.ask(self.saver.claim, self.thread_id, head, self.run_id)
        if self.wants(RunStarted):
            self.emit(RunStarted, self.run_id, self.thread_id, given)
        if record is not None and resumes:
            saved = await self._resume(record, is_head=record is head, command=command)
        else:
            saved = await self._start(record, writes, is_head=record is head)
        self._first_step = self.step
        self.begun = True
        if self.tokens and self.feed is not None:
            for key in self.graph.message_keys:
                self.feed.skip(self.state.get(key, ()), self.path)
        if self.feed is not None:
            await tell_step(self, saved, changed=True)

    def take(self, record: Record | None) -> None:
        """Make what is saved the state of this run; None is a fresh thread."""
        if record is None:
            self.state = self.graph.empty_state()
            self.unsaved = set(self.state)
            self.step = -2
            return
        self.state = dict(record.values)
        self.ran = self.state.pop(RAN_KEY, self.ran)
        self.arrived = self.state.pop(JOINS_KEY, self.arrived)
        self.step = record.step
        self.checkpoint_id, self.parent_checkpoint_id = record.id, record.parent_id

    def settle(self, record: Record) -> None:
        """Take in what tasks of the saved step have written, because that step will not be finished."""
        ended = ended_in(record).values()
        self.state, changed = joined(self.graph.channels, self.state, [(task.name, task.writes) for task in ended])
        self.unsaved |= changed

    async def _start(self, record: Record | None, writes: list[tuple[str, Any]], *, is_head: bool) -> Record | None:
        """New input: on a fresh thread, or as the next turn of one that has ended or broken off."""
        if record is None:
            self.take(None)
        else:
            if is_head:
                self.settle(record)
            self.mend(self.graph.repair)
            self.mend(self.graph.renew)
        start = self.make_task(self.graph.start, (START,), NO_ARG)
        start.writes, start.done = writes, True
        self.tasks = [start]
        self.step += 1
        tell_checkpoint(self, await self.save("input"))
        await self.commit([start])
        self.mend(self.graph.repair)
        return await self.save("loop")

    def _input_writes(self, given: Any) -> list[tuple[str, Any]]:
        keys, given = self.graph.input_keys, self.graph.check_input(given, self.state)
        writes = [(key, value) for key, value in given.items() if key in keys]
        if len(writes) < len(given) and (self.parent is None or self.parent.node.subgraph is None):
            foreign = [key for key in given if key in keys or key not in self.graph.channels]
            refuse_misspelled(keys, foreign, "The input has")
        return writes

    def _check_resume(self, record: Record | None, command: Command[Any] | None) -> list[tuple[str, Any]]:
        """Raise for a call without input that there is nothing to do for; it writes nothing."""
        if record is None:
            raise EmptyInputError(self.graph.nothing_to_resume(has_saver=self.saver is not None))
        if command is not None and command.resume is not None:
            raise UsageError(
                f"Command(resume=…) answers a paused run, and thread {self.thread_id!r} is not paused. "
                "Go on with invoke(None, config), or give a new input."
            )
        return []

    async def _resume(self, record: Record, *, is_head: bool, command: Command[Any] | None) -> Record | None:
        """No input: go on where the thread stopped, running only what has not ended."""
        if command is not None and command.goto and is_head:
            self.settle(record)
        self.revive(record, is_head=is_head)
        if command is not None:
            return await self._redirect(command)
        if is_head:
            return None
        self.step += 1
        return await self.save("fork")

    def revive(self, record: Record, *, is_head: bool) -> None:
        """Plan the saved step again. At the head, tasks that had ended stay so; of an old step, only its input does."""
        ended = ended_in(record)
        self.tasks = []
        for pending in record.pending:
            node = self.graph.start if pending.name == START else self.graph.nodes.get(pending.name)
            if node is None:
                names = ", ".join(map(repr, self.graph.nodes))
                raise UsageError(
                    f"Thread {self.thread_id!r} waits for node {pending.name!r}, which this graph does not have (it "
                    f"has {names}). Go on with the graph that made it, or say what runs next: "
                    "update_state(…, as_node=…)."
                )
            task = self.make_task(node, pending.path, pending.arg, pending.id if is_head else None)
            if pending.id in ended and (is_head or pending.name == START):
                task.done, (_, task.writes, task.goto) = True, ended[pending.id]
            self.tasks.append(task)

    async def _redirect(self, command: Command[Any]) -> Record | None:
        """The caller changes the state, or where the thread goes on, from outside."""
        task = self.make_task(from_outside(), (START,), NO_ARG)
        _, task.writes, task.goto = writes_of(command, START)
        kept = self.tasks
        await self.commit([task])
        if not command.goto:
            self.tasks = kept
            for task in kept:
                if task.arg is NO_ARG:
                    task.input = dict(self.state)
        return await self.save("update")

    def mend(self, repair: Any) -> bool:
        """Mend what a broken-off run or another program left in the state; whether anything had to be."""
        mended: dict[str, Any] = {} if repair is None else repair(self.state)
        if mended:
            self.state = {**self.state, **mended}
            self.unsaved |= mended.keys()
            for task in self.tasks:
                if task.arg is NO_ARG:
                    task.input = dict(self.state)
        return bool(mended)

    # ---- the saver

    async def ask(self, method: Any, *args: Any, **kwargs: Any) -> Any:
        """Call a saver. One that never waits is called at once, others the way the world can."""
        if cast("BaseCheckpointSaver", self.saver).instant:
            return method(*args, **kwargs)
        return await self.port.call(method, *args, is_async=False, **kwargs)

    async def load(self, checkpoint_id: str | None) -> Record | None:
        if self.saver is None:
            return None
        return cast("Record | None", await self.ask(self.saver.load, self.thread_id, self.namespace, checkpoint_id))

    async def _save_writes(self, task: Task, writes: Sequence[tuple[str, Any]]) -> None:
        if self.saver is not None and self.durability != "exit" and self.checkpoint_id is not None:
            place = (self.thread_id, self.namespace, self.checkpoint_id, task.id)
            await self.ask(self.saver.save_writes, *place, writes, claim=self.claim)

    async def save(self, source: str, *, at_exit: bool = False) -> Record | None:
        """Write a checkpoint of the state as it is now, with what is due next."""
        if self.saver is None or (self.durability == "exit" and not at_exit):
            return None
        channels = self.graph.channels
        values = {key: value for key, value in self.state.items() if key not in channels or not channels[key].ephemeral}
        values[RAN_KEY] = self.ran
        self.unsaved.add(RAN_KEY)
        if self.graph.joins:
            values[JOINS_KEY] = self.arrived
            self.unsaved.add(JOINS_KEY)
        record = Record(
            id=new_ordered_id(),
            parent_id=self.checkpoint_id,
            thread_id=cast(str, self.thread_id),
            ns=self.namespace,
            step=self.step,
            source=source,
            metadata=self.metadata_saved(),
            created_at=datetime.fromtimestamp(self.port.now(), UTC).isoformat(),
            values=values,
            pending=tuple(Pending(task.id, task.name, task.path, task.arg) for task in self.tasks),
            writes=[(t.id, *write) for t in self.tasks if t.done for write in saved_form(t.writes, t.goto)],
        )
        await self.ask(self.saver.save, record, self.unsaved, claim=self.claim)
        self.unsaved = set()
        self.parent_checkpoint_id, self.checkpoint_id = self.checkpoint_id, record.id
        return record

    def metadata_saved(self) -> dict[str, Any]:
        """What of the config is kept with a checkpoint: the metadata, and plain values of the caller's own keys."""
        configurable = self.config.get("configurable") or {}
        own = {
            key: value
            for key, value in configurable.items()
            if isinstance(value, (str, int, float, bool)) and not key.startswith("__")
        }
        kept = {**own, **(self.config.get("metadata") or {})}
        return {key: value for key, value in kept.items() if key not in _OWN_KEYS}

    # ---- the state as others see it

    def public(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """The part of a state that callers see, as a new dict."""
        return {key: state[key] for key in self.graph.output_keys if key in state}

    def shaped(self, state: dict[str, Any]) -> Any:
        """A state in the form of the graph's schema: an instance, where the schema is a model or a dataclass."""
        shape = self.graph.shape
        return state if shape is None else shape(state)

    def handed(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """A state for a user's function: what that changes in its lists of messages, it changes in its own."""
        own = dict(state)
        for key in self.graph.message_keys:
            if key in own:
                own[key] = own[key].copy()
        return own


def _check_count(key: str, value: Any) -> None:
    """What the config counts is a whole number from 1 on; None says nothing. Raises `UsageError`."""
    if value is not None and (not isinstance(value, int) or value < 1):
        raise UsageError(f"config[{key!r}] must be a whole number from 1 on, or be left out; got {value!r}.")


def _metadata_of(config: RunnableConfig) -> dict[str, Any]:
    """The caller's metadata and the thread; other keys of `configurable` may be secrets and are told to nobody."""
    configurable = config.get("configurable") or {}
    told = {key: configurable[key] for key in ("thread_id", "run_id") if configurable.get(key)}
    return {**told, **(config.get("metadata") or {})}


def _policy_for(policies: Sequence[RetryPolicy], error: Exception, attempts: int) -> RetryPolicy | None:
    return next((policy for policy in policies if policy.allows(error, attempts)), None)


def _raise_first(outcomes: Sequence[Any]) -> None:
    """Raise what ended the step: control flow before errors, earlier tasks before later ones."""
    errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    for error in errors:
        if not isinstance(error, Exception):
            raise error
    for error in errors:
        raise error
