"""The engine: supersteps over a state, written down as they happen.

A run is a chain of steps. In each, the tasks that are due run at the same time on one state; then, in the order of the
tasks, what they wrote is folded into a new state, the edges say what is due next, and the checkpoint is saved:

    begin ─→ tasks ─→ perform (together) ─→ commit ─→ route ─→ save ─┐
               └────────────────────────────────────────────────────┘

- What a task wrote is saved the moment it ends, before anything else can fail; a resumed step runs only its other tasks,
  and its routing again.
- Parallel tasks end in any order; they are committed, and their errors chosen, in the order they were planned.
- Leaving early (an error, a cancellation, a reader gone) is an exit like others: `_leave` keeps what was done.

Nothing here knows threads, event loops or models: whatever is outside is reached through `self.port`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, cast

from loopwright.callbacks import callbacks_of
from loopwright.checkpoint.base import NO_ARG, BaseCheckpointSaver, Pending, Record
from loopwright.errors import EmptyInputError, GraphRecursionError, InvalidUpdateError, LoopwrightError, ParentCommand, UsageError
from loopwright.graph.chains import heard_run, heard_task
from loopwright.graph.events import (
    CheckpointSaved,
    Event,
    MessageAdded,
    RunFinished,
    RunStarted,
    StepCommitted,
    TaskFinished,
    TaskStarted,
)
from loopwright.graph.nodes import Node
from loopwright.graph.state import fold
from loopwright.graph.task import Task
from loopwright.graph.types import END, START, Command, RetryPolicy, Send
from loopwright.graph.writes import writes_of
from loopwright.ids import new_ordered_id
from loopwright.port import Port
from loopwright.scope import RunnableConfig, current_scope

if TYPE_CHECKING:
    from loopwright.graph.compiled import CompiledStateGraph
    from loopwright.graph.modes import Feed

__all__ = ["ERROR_KEY", "GOTO_KEY", "RAN_KEY", "Run"]

GOTO_KEY = "__goto__"
"""In a task's saved writes: where its `Command` said to go."""
ERROR_KEY = "__error__"
"""In a task's saved writes: the words of the error that ended it."""
JOINS_KEY = "__joins__"
"""In the saved state: which tasks a node that waits for several has seen end."""
RAN_KEY = "__ran__"
"""In the saved state: the nodes that ran in the step before, so that `update_state` knows whose word it speaks."""
_FIRST_PUSH = ("__pregel_push", 0, False)
_OWN_KEYS = frozenset({"thread_id", "checkpoint_id", "checkpoint_ns"})


class Run:
    """One run of one graph: an object that lives as long as the run, never longer."""

    __slots__ = (
        "_first_step",
        "_step_limit",
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
        self.namespace = str(configurable.get("checkpoint_ns") or "") if not path else "|".join(path)
        self.metadata = _metadata_of(config)
        self.tokens = feed is not None and feed.tokens and (not path or feed.subgraphs)
        self.budget: Any = None
        self.heard = False
        """Whether `config["callbacks"]` hear of it."""
        self.state: dict[str, Any] = {}
        self.step = 0
        self.tasks: list[Task] = []
        self.checkpoint_id: str | None = configurable.get("checkpoint_id")
        self.parent_checkpoint_id: str | None = None
        self.claim: int | None = None
        self.stop_reason: str | None = None
        self.said: str | None = None
        """What the run ends by saying, where that is not the last message."""
        self.unsaved: set[str] = set()
        """Keys that changed since the last checkpoint."""
        self._first_step = 0
        self._step_limit = int(config.get("recursion_limit") or graph.recursion_limit)

    # ---- facts

    def wants(self, kind: type[Event]) -> bool:
        """Whether anybody reads facts of this type from this run."""
        return self.feed is not None and self.feed.wants(kind, self.path)

    def emit(self, kind: type[Event], *fields: Any) -> None:
        """Make a fact that somebody wants and show it."""
        feed = cast("Feed", self.feed)
        feed.emit(kind(next(feed.seq), self.path, *fields))

    def first_sight(self, message_id: str | None) -> bool:
        """Whether a message has not been shown to the reader yet."""
        return self.feed is not None and self.feed.first_sight(message_id)

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
                    raise self._out_of_steps()
                if not self.tasks:
                    break
                await self.superstep()
            if self.durability == "exit":
                await self.save("loop", at_exit=True)
        except BaseException as error:
            await self._leave(error)
            raise
        if self.wants(RunFinished):
            usage = None if self.budget is None else self.budget.usage
            self.emit(RunFinished, self.stop_reason, usage)
            await self.port.pause()
        return self.public(self.state)

    async def superstep(self) -> None:
        due = self.tasks
        todo = due if len(due) == 1 and not due[0].done else [task for task in due if not task.done]
        if self.feed is not None and self.wants(TaskStarted):
            for task in todo:
                self._tell_start(task)
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
            await self._tell_step(saved, changed=any(task.writes for task in due))

    async def perform(self, task: Task) -> None:
        """Run one task to its end and keep what it wrote."""
        current_scope.set(task)
        try:
            answer = await (self._retried(task) if task.node.retry or self.heard else task.node.run(task))
            if answer.__class__ is dict:
                task.update, task.writes = answer, list(answer.items())
            else:
                task.update, task.writes, task.goto = writes_of(answer, task.name)
        except BaseException as error:
            if self.saver is not None and isinstance(error, Exception):
                await self._save_writes(task, [(ERROR_KEY, repr(error))])
            if self.wants(TaskFinished):
                self._tell_end(task, repr(error))
            raise
        task.done = True
        if self.saver is not None:
            await self._save_writes(task, [*task.writes, (GOTO_KEY, list(task.goto))] if task.goto else task.writes)
        if self.feed is not None:
            self._tell_messages(task)
            if self.wants(TaskFinished):
                self._tell_end(task, None)
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
        before = self.state
        graph = self.graph
        after, changed = fold(graph.channels, before, [(task.name, task.writes) for task in due], graph.ephemeral)
        self.state = after
        self.step += 1
        try:
            self.tasks = await self._route(due)
        except BaseException:
            self.state = before
            self.step -= 1
            raise
        if self.saver is not None:
            self.state[RAN_KEY] = [task.name for task in due]
            self.unsaved |= {RAN_KEY, *changed}

    async def _route(self, done: Iterable[Task]) -> list[Task]:
        """Tasks of the next step: nodes in the order of their names, then sends in the order they were made."""
        targets: list[str | Send] = []
        for task in done:
            node = task.node
            targets += task.goto
            targets += node.edges
            for branch in node.branches:
                targets += branch.decide(task, self.state) if branch.plain else await branch.choose(task, self.state)
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
        names = {target for target in targets if target.__class__ is str and target != END}
        sends = [target for target in targets if isinstance(target, Send)]
        for target in (*names, *(send.node for send in sends)):
            if target not in nodes:
                raise UsageError(f"There is no node {target!r} to go to; the nodes are {', '.join(map(repr, nodes))}.")
        tasks = [self.make_task(nodes[name], nodes[name].pulled, NO_ARG) for name in sorted(names)]
        tasks += [self.make_task(nodes[s.node], ("__pregel_push", i, False), s.arg) for i, s in enumerate(sends)]
        return tasks

    def _joined(self, done: Iterable[Task]) -> set[str]:
        """Nodes that wait for several others, all of which have ended by now."""
        arrived: dict[str, list[str]] = {key: list(seen) for key, seen in self.state.get(JOINS_KEY, {}).items()}
        ready: set[str] = set()
        for key, (sources, target) in self.graph.joins.items():
            seen = {*arrived.get(key, ()), *(task.name for task in done if task.name in sources)}
            if seen == set(sources):
                ready.add(target)
                arrived.pop(key, None)
            elif seen:
                arrived[key] = sorted(seen)
        self.state = {**self.state, JOINS_KEY: arrived}
        self.unsaved.add(JOINS_KEY)
        return ready

    def make_task(self, node: Any, path: tuple[Any, ...], arg: Any, task_id: str | None = None) -> Task:
        given = dict(self.state) if arg is NO_ARG else arg
        return Task(self, node, task_id, path, arg, given, self.step + 1)

    # ---- beginning and leaving

    async def _begin(self, given: Any) -> None:
        head = record = await self.load(None)
        wanted = self.checkpoint_id
        if wanted is not None and (head is None or head.id != wanted):
            record = await self.load(wanted)
            if record is None:
                raise UsageError(f"Thread {self.thread_id!r} has no checkpoint {wanted!r}; see agent.get_state_history(config).")
        if self.saver is not None:
            self.claim = await self.ask(self.saver.claim, self.thread_id, head, self.run_id)
        if record is not None:
            self.state, self.step = dict(record.values), record.step
            self.checkpoint_id, self.parent_checkpoint_id = record.id, record.parent_id
        if self.wants(RunStarted):
            self.emit(RunStarted, self.run_id, self.thread_id, given)
        if given is None or isinstance(given, Command):
            saved = await self._resume(record, is_head=record is head, command=given)
        else:
            saved = await self._start(record, given)
        self._first_step = self.step
        if self.feed is not None:
            await self._tell_step(saved, changed=True)

    async def _start(self, record: Record | None, given: Any) -> Record | None:
        """New input: on a fresh thread, or as the next turn of one that has ended or broken off."""
        writes = self._input_writes(given)
        if record is not None:
            self._repair(self.graph.repair)
        else:
            self.state = self.graph.empty_state()
            self.unsaved = set(self.state)
            self.step = -2
        start = self.make_task(self.graph.start, (START,), NO_ARG)
        start.writes, start.done = writes, True
        self.tasks = [start]
        self.step += 1
        self._tell_checkpoint(await self.save("input"))
        await self.commit([start])
        self._repair(self.graph.repair)
        return await self.save("loop")

    def _input_writes(self, given: Any) -> list[tuple[str, Any]]:
        given = self.graph.check_input(given, self.state)
        channels = self.graph.channels
        return [(key, value) for key, value in given.items() if key in channels and channels[key].in_input]

    async def _resume(self, record: Record | None, *, is_head: bool, command: Command[Any] | None) -> Record | None:
        """No input: go on where the thread stopped, running only what has not ended."""
        if record is None:
            raise EmptyInputError(self.graph.nothing_to_resume(has_saver=self.saver is not None))
        if command is not None and command.resume is not None:
            raise UsageError(
                f"Command(resume=…) answers a paused run, and thread {self.thread_id!r} is not paused. "
                "Go on with invoke(None, config), or give a new input."
            )
        written: dict[str, list[tuple[str, Any]]] = {}
        if is_head:
            for task_id, key, value in record.writes:
                written.setdefault(task_id, []).append((key, value))
        self.tasks = [self._revived(pending, written.get(pending.id), keep_id=is_head) for pending in record.pending]
        if command is not None:
            return await self._redirect(command)
        if is_head:
            return None
        self.step += 1
        return await self.save("fork")

    def _revived(self, pending: Pending, writes: list[tuple[str, Any]] | None, *, keep_id: bool) -> Task:
        """A task of the saved step; one that had ended is not run again."""
        node = self.graph.start if pending.name == START else self.graph.nodes[pending.name]
        task = self.make_task(node, pending.path, pending.arg, pending.id if keep_id else None)
        if writes is not None and not any(key == ERROR_KEY for key, _ in writes):
            task.done = True
            task.writes = [(key, value) for key, value in writes if key != GOTO_KEY]
            task.goto = cast("Sequence[str | Send]", next((value for key, value in writes if key == GOTO_KEY), ()))
        return task

    async def _redirect(self, command: Command[Any]) -> Record | None:
        """The caller changes the state, or where the thread goes on, from outside."""
        task = self.make_task(Node(START, _runs_nothing), (START,), NO_ARG)
        _, task.writes, task.goto = writes_of(command, START)
        kept = self.tasks
        await self.commit([task])
        if not command.goto:
            self.tasks = kept
        return await self.save("update")

    def _repair(self, repair: Any) -> bool:
        """Mend what a broken-off run or another program left in the state; whether anything had to be."""
        mended: dict[str, Any] = {} if repair is None else repair(self.state)
        if mended:
            self.state = {**self.state, **mended}
            self.unsaved |= mended.keys()
        return bool(mended)

    async def _leave(self, error: BaseException) -> None:
        """The run ends before its end. What was done is kept, and the thread can go on."""
        done = [task for task in self.tasks if task.done]
        if isinstance(error, Exception):
            if isinstance(error, LoopwrightError) or not hasattr(error, "state"):
                state, _ = fold(self.graph.channels, self.state, [(task.name, task.writes) for task in done])
                with suppress(Exception):  # an exception class of the user's may refuse attributes
                    error.state = self.public({**state, **(self.graph.repair(state) if self.graph.repair else {})})  # type: ignore[attr-defined]
            if self.durability == "exit" and self.checkpoint_id is not None:
                await self.save("loop", at_exit=True)
        elif isinstance(error, ParentCommand):
            if self.parent is None:
                raise InvalidUpdateError(
                    f"Command(graph=Command.PARENT) was returned in {self.graph.name!r}, and there is no graph around it. "
                    "Add it as a node of another graph, or leave graph= out."
                ) from None
        elif self.saver is not None and self.graph.repair is not None:
            before = self.state
            self.state, changed = fold(self.graph.channels, before, [(task.name, task.writes) for task in done])
            if self._repair(self.graph.repair):
                self.unsaved |= changed
                self.tasks = []
                self.step += 1
                await self.save("loop", at_exit=True)

    def _out_of_steps(self) -> GraphRecursionError:
        return GraphRecursionError(
            f"{self._step_limit} steps were made and the graph has not ended (recursion_limit={self._step_limit}). "
            'Raise it with config={"recursion_limit": …}, or give the graph a way to end; '
            "the state so far is in error.state."
        )

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
        record = Record(
            id=new_ordered_id(),
            parent_id=self.checkpoint_id,
            thread_id=cast(str, self.thread_id),
            ns=self.namespace,
            step=self.step,
            source=source,
            metadata=self.metadata_saved(),
            created_at=datetime.fromtimestamp(self.port.now(), timezone.utc).isoformat(),
            values=values,
            pending=tuple(Pending(task.id, task.name, task.path, task.arg) for task in self.tasks),
            writes=[],
        )
        await self.ask(self.saver.save, record, self.unsaved, claim=self.claim)
        self.unsaved = set()
        self.parent_checkpoint_id, self.checkpoint_id = self.checkpoint_id, record.id
        return record

    def metadata_saved(self) -> dict[str, Any]:
        """What of the config is kept with a checkpoint: the caller's metadata and own keys, not our addresses."""
        return {key: value for key, value in self.metadata.items() if key not in _OWN_KEYS}

    # ---- what readers are told

    def public(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """The part of a state that callers see, as a new dict."""
        return {key: state[key] for key in self.graph.output_keys if key in state}

    def shaped(self, state: Any) -> Any:
        """A state in the form of the graph's schema: an instance, where the schema is a model or a dataclass."""
        shape = self.graph.shape
        return state if shape is None or not isinstance(state, dict) else shape(cast("dict[str, Any]", state))

    def _tell_start(self, task: Task) -> None:
        given = self.public_input(task)
        self.emit(TaskStarted, task.step, task.id, task.name, given, task.triggers, task.node.metadata, self.port.now())

    def public_input(self, task: Task) -> Any:
        """What a reader sees of a task's input: a state without its private keys, or the argument it was sent."""
        return self.public(task.input) if task.arg is NO_ARG else task.input

    def _tell_end(self, task: Task, error: str | None) -> None:
        self.emit(TaskFinished, task.step, task.id, task.name, task.update, error, (), self.port.now())

    def _tell_messages(self, task: Task) -> None:
        """Messages in a task's update that no reader of tokens has seen."""
        if not self.tokens:
            return
        for key, value in task.writes:
            if key in self.graph.message_keys:
                messages: list[Any] = value if isinstance(value, list) else [value]
                for message in messages:
                    if getattr(message, "id", None) is not None and self.first_sight(message.id):
                        self.emit(MessageAdded, message, task.metadata)

    async def _tell_step(self, saved: Record | None, *, changed: bool) -> None:
        """A step is reported when it is on record, not before."""
        if self.wants(StepCommitted):
            self.emit(StepCommitted, self.step, self.public(self.state), changed, ())
        self._tell_checkpoint(saved)
        await self.port.pause()

    def _tell_checkpoint(self, record: Record | None) -> None:
        if record is None or not self.wants(CheckpointSaved):
            return
        config = {"thread_id": record.thread_id, "checkpoint_ns": record.ns}
        parent = None if record.parent_id is None else {"configurable": {**config, "checkpoint_id": record.parent_id}}
        tasks = tuple({"id": p.id, "name": p.name, "interrupts": (), "state": None} for p in record.pending)
        self.emit(
            CheckpointSaved,
            record.step,
            {"configurable": {**config, "checkpoint_id": record.id}},
            parent,
            self.public(record.values),
            record.describe(),
            tuple(pending.name for pending in record.pending),
            tasks,
            self.port.now(),
        )


def _metadata_of(config: RunnableConfig) -> dict[str, Any]:
    """The caller's metadata, and those of its own config keys that are plain words or numbers."""
    configurable = config.get("configurable") or {}
    plain = {
        key: value
        for key, value in configurable.items()
        if isinstance(value, (str, int, float, bool)) and not key.startswith("__") and key not in ("checkpoint_id", "checkpoint_ns")
    }
    return {**plain, **(config.get("metadata") or {})}


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


async def _runs_nothing(_: Task) -> None:
    """The node of an update from outside."""
