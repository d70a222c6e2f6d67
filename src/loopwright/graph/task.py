"""One task of a step: a node, what it was given, what it wrote, and what code inside it may ask of the run.

A task is the `Scope` of everything that runs in it. It is found through the context variable `current_scope`, which is
how a model, a writer or a nested agent called by a user's function knows the run it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from loopwright.checkpoint.plain import plain_copy
from loopwright.checkpoint.record import NO_ARG
from loopwright.errors import Escalated, GraphInterrupt, UsageError
from loopwright.graph.answering import MISSING, asking_call, question_id
from loopwright.graph.events import CustomEmitted, MessageAdded, MessageChunk
from loopwright.graph.runtime import Runtime
from loopwright.graph.types import TAG_NOSTREAM, Interrupt, Send
from loopwright.scope import RunnableConfig, StreamWriter, current_scope, merge_configs, whole_config

if TYPE_CHECKING:
    from loopwright.graph.engine import Run
    from loopwright.graph.modes import Feed
    from loopwright.graph.nodes import Node
    from loopwright.port import Port

__all__ = ["Task", "get_config", "get_store", "get_stream_writer", "no_saver"]


class Task:
    """A node at work in one step of one run."""

    # What most tasks never set stands on the class: a task is made in every step.
    begun = False
    done = False
    update: Any = None
    """What the node returned, as a dict; for readers."""
    writes: Sequence[tuple[str, Any]] = ()
    goto: Sequence[str | Send] = ()
    interrupts: tuple[Interrupt, ...] = ()
    """The questions it has asked and has no answer to."""
    answers: Mapping[str, Any] = {}
    """The answers it has had, by the id of the question."""
    answered: tuple[Interrupt, ...] = ()
    """The questions that the call of this run has brought an answer to."""
    heard: frozenset[str] = frozenset()
    """The questions that were asked in it since it began, by runs inside of it, too."""
    waits = False
    """Whether it has asked before this run, and nothing was answered: it has no reason to run."""
    places: Mapping[int, object] = {}
    """The places that runs in it have taken."""
    finished: Mapping[str, Any] = {}
    """Results of calls that have ended, by id, where a task has several and has stopped to ask."""
    tally: Any = None
    """What it has spent, the runs in it counted in; None as long as that is nothing that has to be told apart."""
    spent: list[Any] | None = None
    """The same as it is kept with its writes, where it is one of several tasks and has ended."""
    _asked: dict[str, int] | None = None
    _metadata: dict[str, Any] | None = None
    _runtime: Runtime[Any] | None = None

    def __init__(
        self, run: Run, node: Node, task_id: str | None, path: tuple[Any, ...], arg: Any, given: Any, step: int
    ) -> None:
        self.run = run
        self.node = node
        self.name = node.name
        self._id = task_id
        self.path = path
        self.arg = arg
        """What it was sent; `NO_ARG` for a task that is given the state."""
        self.input = given
        self.step = step

    @property
    def id(self) -> str:
        """Unique; drawn when somebody asks."""
        if self._id is None:
            self._id = self.run.port.new_id()
        return self._id

    def begin(self) -> None:
        """Run it once more from its first line: it asks and calls in the same order again."""
        self._asked, self.places, self.heard = None, {}, frozenset()
        if self.tally is not None:
            self.tally.begin_again()

    def takes(self, place: int, token: object) -> bool:
        """Whether a run that begins in it may have this place; each is given once."""
        taken: dict[int, object] = self.__dict__.setdefault("places", {})
        return taken.setdefault(place, token) is token

    def spending(self) -> Any:
        """The account that runs in this task, and model calls made here, are charged to; None where none is kept."""
        if self.tally is None and self.run.budget is not None:
            self.__dict__.setdefault("tally", self.run.budget.tally())  # threads of the task may come at the same time
        return self.tally

    def ask(self, values: Sequence[Any], response_schema: Any = None) -> list[Any]:
        """The answers to questions that code in this task asks. Raises `GraphInterrupt` while one is missing."""
        if self.run.saver is None:
            raise Escalated(UsageError(no_saver("interrupt()")))
        if self.done:
            raise Escalated(
                UsageError(
                    f"interrupt() was called in a conditional edge after node {self.name!r}, which has ended. "
                    "Ask in the node, and let the edge decide by what the node has written."
                )
            )
        asked, call = self._asked or {}, asking_call.get()
        number = asked.get(call, 0)
        self._asked = {**asked, call: number + len(values)}
        ids = [question_id(self.id, call, number + at) for at in range(len(values))]
        self._hear(ids)
        answers = [self.answer_to(id) for id in ids]
        waiting = [at for at, answer in enumerate(answers) if answer is MISSING]
        if waiting:
            # A copy: what a caller does to the question changes nothing here.
            raise GraphInterrupt(
                tuple(Interrupt(plain_copy(values[at], "interrupt"), ids[at], response_schema) for at in waiting)
            )
        return answers

    def _hear(self, questions: Sequence[str]) -> None:
        self.heard = self.heard.union(questions)
        if self.run.below is not None:
            self.run.below._hear(questions)

    def has_unheard(self) -> bool:
        """Whether it has had answers to questions that it has asked before and, since it began again, not yet."""
        asked = {*self.answers, *(question.id for question in self.interrupts)}
        return any(self.answer_to(id) is not MISSING for id in asked - self.heard)

    def answer_to(self, question: str) -> Any:
        """The answer that this task, or one above it, has had; `MISSING` if there is none."""
        if question in self.answers:
            return self.answers[question]
        above = self.run.below
        return MISSING if above is None else above.answer_to(question)

    @property
    def port(self) -> Port:
        """The world the run is in."""
        return self.run.port

    @property
    def triggers(self) -> tuple[str, ...]:
        """What made it run, in the words its readers know."""
        return (f"branch:to:{self.name}",) if self.arg is NO_ARG else ("__pregel_push",)

    @property
    def namespace(self) -> str:
        """Its place in the tree of runs, as `checkpoint_ns` shows it."""
        return "|".join((*self.run.path, f"{self.name}:{self.id}"))

    @property
    def metadata(self) -> dict[str, Any]:
        """What the `messages` mode tells about a token; one object for the whole task."""
        if self._metadata is None:
            namespace = self.namespace
            self._metadata = {
                "langgraph_step": self.step,
                "langgraph_node": self.name,
                "langgraph_triggers": self.triggers,
                "langgraph_path": self.path,
                "langgraph_checkpoint_ns": namespace,
                "checkpoint_ns": namespace,
                **self.run.metadata,
            }
            tags = [*self.run.config.get("tags", ()), *self.node.tags]
            if tags:
                self._metadata["tags"] = tags
        return self._metadata

    @property
    def config(self) -> RunnableConfig:
        """The run's config, with this task's place in it."""
        metadata = {key: value for key, value in self.metadata.items() if key != "tags"}  # a key of its own here
        place = {"metadata": metadata, "configurable": {"checkpoint_ns": self.namespace}}
        return whole_config(merge_configs(self.run.config, place))

    @property
    def runtime(self) -> Runtime[Any]:
        """What hooks and nodes get as `runtime`."""
        if self._runtime is None:
            run = self.run
            self._runtime = Runtime(
                context=run.context,
                store=run.store,
                stream_writer=self.writer,
                budget=run.budget,
                execution_info={"run_id": run.run_id, "task_id": self.id, "node": self.name, "step": self.step},
            )
        return self._runtime

    @property
    def writer(self) -> StreamWriter:
        """The `custom` stream's writer: a plain function, usable from any thread, also after a `await`."""
        run = self.run
        if not run.wants(CustomEmitted):
            return _write_nowhere
        return lambda value: run.emit(CustomEmitted, value)

    @property
    def wants_tokens(self) -> bool:
        """Whether anybody reads single tokens of this run."""
        return self.run.tokens

    def token(self, chunk: Any, tags: Sequence[str], metadata: Mapping[str, Any] | None) -> None:
        """Report one chunk of a model call made here."""
        if self.run.tokens and TAG_NOSTREAM not in tags:
            self.run.first_sight(chunk.id)
            self.run.emit(MessageChunk, chunk, self._told(tags, metadata))

    def message(self, message: Any, tags: Sequence[str], metadata: Mapping[str, Any] | None) -> None:
        """Report a whole message of a model call made here: its usage counts, and it is shown if no token was."""
        account = self.spending()
        if account is not None:
            account.charge(message)
        run = self.run
        if run.tokens and TAG_NOSTREAM not in tags and run.first_sight(message.id):
            run.emit(MessageAdded, message, self._told(tags, metadata))

    def _told(self, tags: Sequence[str], metadata: Mapping[str, Any] | None) -> dict[str, Any]:
        if not tags and not metadata:
            return self.metadata
        told = {**self.metadata, **(metadata or {})}
        if tags:
            told["tags"] = [*told.get("tags", ()), *tags]
        return told

    def chunk_teller(
        self, tags: Sequence[str], metadata: Mapping[str, Any] | None = None
    ) -> Callable[[Any], None] | None:
        """`token` for the agent's own model call, with all that does not change worked out; None if nobody reads."""
        run = self.run
        if not run.tokens or TAG_NOSTREAM in tags:
            return None
        feed = cast("Feed", run.feed)
        show, seen = feed.token_teller(run.path, self._told(tags, metadata)), False

        def tell(chunk: Any) -> None:
            nonlocal seen
            if not seen:
                seen = True
                feed.first_sight(chunk.id, run.path)
            show(chunk)

        return tell


def no_saver(what: str) -> str:
    """The words for something that pauses a run, where nothing keeps it."""
    return (
        f"{what} needs a checkpointer, which keeps the run until it is answered. Make the graph with one: "
        "create_agent(..., checkpointer=InMemorySaver()), or builder.compile(checkpointer=InMemorySaver())."
    )


def _write_nowhere(value: Any, /) -> None:
    """The writer of a run that nobody reads."""


def _here(name: str) -> Any:
    scope = current_scope.get()
    if scope is None:
        raise RuntimeError(
            f"{name}() was called outside of a run. Call it in a node, a hook or a tool while the graph runs; "
            "a writer obtained there works from any thread."
        )
    return scope


def get_stream_writer() -> StreamWriter:
    """The writer of the `custom` stream, for code in a node, hook or tool. It works from any thread.

    Raises `RuntimeError` outside of a run.
    """
    writer: StreamWriter = _here("get_stream_writer").writer
    return writer


def get_config() -> RunnableConfig:
    """The config of the running step. Raises `RuntimeError` outside of a run."""
    config: RunnableConfig = _here("get_config").config
    return config


def get_store() -> Any:
    """The store of the running graph, None without one. Raises `RuntimeError` outside of a run."""
    return _here("get_store").run.store
