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

from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, cast

from msgspec import structs

from loopwright.callbacks import callbacks_of
from loopwright.checkpoint.record import NO_ARG
from loopwright.errors import Escalated, GraphInterrupt, InvalidAnswerError, ParentCommand, UsageError
from loopwright.graph.beside import Beside
from loopwright.graph.chains import heard_run, heard_task
from loopwright.graph.events import (
    Event,
    MessageChunk,
    RunFinished,
    RunInterrupted,
    TaskFinished,
    TaskStarted,
)
from loopwright.graph.keeping import keep_account, save, save_ended, save_task
from loopwright.graph.leaving import leave, out_of_steps
from loopwright.graph.saved import failed_form, paused_form, reopened_form
from loopwright.graph.starting import begin, mend
from loopwright.graph.state import fold, refuse_misspelled
from loopwright.graph.stops import Stops
from loopwright.graph.task import Task
from loopwright.graph.telling import name_messages, tell_end, tell_messages, tell_start, tell_step
from loopwright.graph.types import END, START, Interrupt, RetryPolicy, Send
from loopwright.graph.writers import Writers
from loopwright.graph.writes import no_such_node, writes_of
from loopwright.port import Port
from loopwright.scope import RunnableConfig, current_scope

if TYPE_CHECKING:
    from loopwright.checkpoint.base import BaseCheckpointSaver
    from loopwright.graph.compiled import CompiledStateGraph
    from loopwright.graph.modes import Feed

__all__ = ["Run", "raise_first"]

_FIRST_PUSH = ("__pregel_push", 0, False)
_ALONE = nullcontext()


class Run:
    """One run of one graph: an object that lives as long as the run, never longer."""

    __slots__ = (
        "_step_limit",
        "arrived",
        "begun",
        "below",
        "beside",
        "budget",
        "checkpoint_id",
        "claim",
        "config",
        "context",
        "durability",
        "feed",
        "first_step",
        "graph",
        "heard",
        "interrupts",
        "kept",
        "metadata",
        "namespace",
        "opened",
        "parent",
        "parent_checkpoint_id",
        "passed",
        "path",
        "port",
        "ran",
        "run_id",
        "said",
        "saver",
        "state",
        "step",
        "stop_reason",
        "stops",
        "store",
        "tasks",
        "thread_id",
        "tokens",
        "unsaved",
        "writers",
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
        below: Task | None = None,
        durability: str = "sync",
        stops: Stops | None = None,
        run_id: str = "",
    ) -> None:
        configurable = config.get("configurable") or {}
        self.graph, self.port, self.config, self.feed = graph, port, config, feed
        self.path, self.parent = path, parent
        self.context, self.store, self.saver, self.durability = context, store, saver, durability
        self.run_id = run_id
        self.thread_id: str | None = configurable.get("thread_id")
        self.namespace = str(configurable.get("checkpoint_ns") or "")
        self.below = below
        """The task whose thread it is kept on, in a namespace of its own; None for a run with a thread of its own."""
        self.stops = stops
        self.passed: int | None = None
        """The step after which it has stopped, or goes on from a stop: it does not stop there again."""
        self.interrupts: tuple[Interrupt, ...] = ()
        """The questions it waits for."""
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
        self.kept: Any = None
        """The account that is on record."""
        self.opened = ""
        """Of a run below: what it was begun with, in short."""
        self.writers: Writers | None = None
        """Who writes to the thread beside its root; the same for the whole tree."""
        self.stop_reason: str | None = None
        self.said: str | None = None
        """What the run ends by saying, where that is not the last message."""
        self.beside = Beside(None if below is None else below.run.beside)
        """What is being written beside the run."""
        self.unsaved: set[str] = set()
        """Keys that changed since the last checkpoint."""
        self.arrived: dict[str, list[str]] = {}
        """Of nodes that wait for several: those that have ended by now."""
        self.ran: list[str] = [START]
        """The nodes of the step before."""
        self.begun = False
        self.first_step = 0
        limit = config.get("recursion_limit")
        self._step_limit = graph.recursion_limit if limit is None else limit
        _check_count("max_concurrency", config.get("max_concurrency"))
        _check_count("recursion_limit", limit)

    @property
    def place(self) -> Any:
        """Its thread, among those of the process."""
        return id(self.saver), self.thread_id

    def at_work(self, task: Task) -> AbstractContextManager[None]:
        """While a task ends. Raises `RunCancelled` if it ran beside others and was left behind: the run is over."""
        return _ALONE if self.writers is None or self.tasks == [task] else self.writers.writing()

    async def keep_alone(self) -> None:
        """Nobody but the run itself writes to the thread any more: no run below, no task that was left behind."""
        if self.writers is not None and self.below is None:
            await self.writers.close(self.port)

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

    def execute(self, given: Any) -> Coroutine[Any, Any, dict[str, Any]]:
        """Run from `given` (input, None or a `Command`) to the end; returns the public part of the final state."""
        heard = callbacks_of(self.config)
        if heard is None:
            return self._loop(given)
        self.heard = True
        return heard_run(self, heard, given, lambda: self._loop(given))

    async def _loop(self, given: Any) -> dict[str, Any]:
        try:
            asked = await self._steps(given)
        except Escalated as outer:
            await leave(self, outer.error)
            if self.parent is not None:
                raise
            raise outer.error from outer.error.__cause__
        except BaseException as error:
            await leave(self, error)
            raise
        finally:
            await self.keep_alone()
        if asked is not None:
            return await self.pause(asked)
        if self.wants(RunFinished):
            usage = None if self.budget is None else self.budget.usage
            self.emit(RunFinished, self.stop_reason, usage)
            await self.port.pause()
        return self.public(self.state)

    async def _steps(self, given: Any) -> tuple[Interrupt, ...] | None:
        """Step by step to the end, and all of it saved; the questions it stops for, None if it has ended."""
        try:
            await begin(self, given)
            while True:
                if self.stops is not None:
                    self._stop_where_asked(self.stops)
                if self.step - self.first_step >= self._step_limit:
                    raise out_of_steps(self._step_limit)
                if not self.tasks:
                    break
                await self.superstep()
        except GraphInterrupt as asked:
            if self.durability == "exit":
                await save(self, "loop", at_exit=True)
            else:
                await keep_account(self)
                await self.beside.over(self.port)
            return asked.interrupts
        if self.durability == "exit":
            await save(self, "loop", at_exit=True)
        await self.beside.over(self.port)
        return None

    async def superstep(self) -> None:
        if self.port.watched:
            self.port.check()
        due = self.tasks
        alone = len(due) == 1 and not due[0].done and not due[0].waits
        todo = due if alone else [task for task in due if not (task.done or task.waits)]
        if self.feed is not None and self.wants(TaskStarted):
            for task in todo:
                tell_start(self, task)
            await self.port.pause()
        if alone:
            await self.perform(due[0])
        else:
            await self._together(todo)
            open_tasks = [task for task in due if not task.done]
            if open_tasks:
                raise GraphInterrupt(tuple(asked for task in open_tasks for asked in task.interrupts))
        await self.commit(due)
        if not self.tasks:
            mend(self, self.graph.repair)  # before it is on record that the run has ended
        saved = await save(self, "loop") if self.saver is not None else None
        if self.feed is not None:
            await tell_step(self, saved, changed=any(task.writes for task in due))

    def _stop_where_asked(self, stops: Stops) -> None:
        """Stop before a step if it, or the one before it, is one that the caller wants to look at."""
        due = [task.name for task in self.tasks if not task.done]
        if due and self.passed != self.step and (stops.before(due) or stops.after(self.ran)):
            self.passed = self.step
            raise GraphInterrupt(())

    async def _together(self, todo: Sequence[Task]) -> None:
        """Run the tasks of a step at the same time. Questions wait until all of them have ended; errors go first."""
        if todo:
            limit = self.config.get("max_concurrency")
            raise_first(await self.port.gather([self.perform(task) for task in todo], limit))

    async def perform(self, task: Task) -> None:
        """Run one task to its end and keep what it wrote."""
        current_scope.set(task)
        task.begun = True
        try:
            try:
                answer = await (self._retried(task) if task.node.retry or self.heard else task.node.run(task))
            except ParentCommand as bubble:  # from a graph that ran in this node, and meant for this one
                answer = structs.replace(bubble.command, graph=None)
            if answer.__class__ is dict:
                task.update, task.writes = answer or None, list(answer.items())
            else:
                nested = self.parent is not None
                task.update, task.writes, task.goto = writes_of(answer, task.name, nested=nested)
            if self.saver is not None:  # before they are kept: a resumed run would find the mistake again
                refuse_misspelled(self.graph.channels, [key for key, _ in task.writes], f"Node {task.name!r} wrote")
        except GraphInterrupt as asked:
            with self.at_work(task):
                task.interrupts = asked.interrupts
                await save_task(self, task, paused_form(task.interrupts, task.answers, task.finished))
            if self.wants(TaskFinished):
                tell_end(self, task, None)
            raise
        except Escalated as outer:
            await self._failed(task, outer.error)
            raise
        except Exception as error:
            await self._failed(task, error)
            raise
        if self.feed is not None or self.saver is not None:
            name_messages(self, task)
        if self.saver is None:
            task.done = True
        else:
            with self.at_work(task):
                task.done = True
                await save_ended(self, task)
        if self.feed is not None:
            tell_messages(self, task)
            if self.wants(TaskFinished):
                tell_end(self, task, None)
            await self.port.pause()

    async def _failed(self, task: Task, error: Exception) -> None:
        if self.saver is not None:
            if isinstance(error, InvalidAnswerError) and task.answered:
                kept = reopened_form(task.interrupts, task.answers, task.answered, task.finished)
            else:
                kept = failed_form(repr(error), task.answers, task.finished)
            with self.at_work(task):
                await save_task(self, task, kept)
        if self.wants(TaskFinished):
            tell_end(self, task, repr(error))

    async def _retried(self, task: Task) -> Any:
        """A node that may be tried again, or whose run somebody hears of."""
        attempts = 0
        while True:
            attempts += 1
            task.begin()
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
        wrote = [(due[0].name, due[0].writes)] if len(due) == 1 else [(task.name, task.writes) for task in due]
        after, changed = fold(graph.channels, before, wrote, graph.ephemeral)
        self.state = after
        self.step += 1
        targets: list[str | Send] = []
        try:
            asked = None
            for task in due:
                targets += task.goto
                targets += task.node.edges
                for branch in task.node.branches:
                    if not branch.plain:
                        current_scope.set(task)
                        targets += await branch.choose(task, after)
                    elif task.node is not asked:  # one answer for all calls of a turn: it depends on the state only
                        way = branch.path(task, after)
                        targets += way if way.__class__ is list else [way]
                asked = task.node
            self.tasks = self._next_tasks(targets, due)
        except BaseException:
            self.state, self.arrived = before, arrived
            self.step -= 1
            raise
        if self.saver is not None:
            self.ran = [task.name for task in due]
            self.unsaved |= changed

    def give_up_step(self) -> None:
        """Take the step for ended, as its calls have been closed, and plan what comes after it."""
        given_up = self.tasks
        self.tasks, self.ran = [], [task.name for task in given_up]
        self.step += 1
        with suppress(Exception):  # it is on its way out, and has something to tell already
            self.tasks = self._next_tasks(list(self._ways_on(given_up)), given_up)

    def _ways_on(self, given_up: Sequence[Task]) -> set[str]:
        """Where edges, and questions of our own, lead from a step; a user's function would be asked in vain."""
        names: set[str] = set()
        for task in given_up:
            names.update(task.node.edges)
            for branch in task.node.branches:
                way = branch.path(task, self.state) if branch.plain else END
                names.update([way] if isinstance(way, str) else [one for one in way if isinstance(one, str)])
        return names

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
                raise no_such_node(target, nodes, done)
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

    async def pause(self, interrupts: tuple[Interrupt, ...]) -> dict[str, Any]:
        """Stop until the caller answers; the step stays open. A run below another one pauses that one too."""
        self.interrupts, self.stop_reason = interrupts, "interrupted"
        if self.wants(RunInterrupted):
            self.emit(RunInterrupted, self.step, self.public(self.state), interrupts)
            await self.port.pause()
        if self.below is not None:
            raise GraphInterrupt(interrupts)
        return self.public(self.state)

    def account(self) -> Any:
        """What has to be known to go on with this run: how it stands, what it has spent, and what of that is kept with
        the tasks of its step, or by runs in them, as well. None once it is over.
        """
        if not self.tasks and self.below is None:
            return None
        if self.budget is None:
            return [self.stop_reason, self.said, None, {}, self.opened]
        account = [self.stop_reason, self.said, self.budget.snapshot()]
        of_tasks = {
            task.id: known
            for task in self.tasks
            if (task.spent or task.tally is not None) and (known := task.spent if task.done else task.tally.below())
        }
        return [*account, of_tasks, self.opened] if of_tasks or self.opened else account

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


def raise_first(outcomes: Sequence[Any]) -> None:
    """Raise what ended the step: a cancellation before errors, earlier tasks before later ones. Questions end none."""
    errors = [one for one in outcomes if isinstance(one, BaseException) and not isinstance(one, GraphInterrupt)]
    for error in errors:
        if not isinstance(error, Exception):
            raise error
    for error in errors:
        raise error
