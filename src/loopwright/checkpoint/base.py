"""The saver's interface, ours, and on top of it the methods that LangGraph's users know.

A thread is a tree of checkpoints for each namespace, and a head in each: the one that was saved last. Rules that
every saver keeps:

- **Stored once.** `save` gets the whole state and the channels that changed since the parent; only those are stored.
- **Fenced.** A run, and a resume, calls `claim` with the record it has loaded, before its first call. If anything was
  written or claimed since that load, it gets `ThreadConflictError` and has run nothing. The number it gets goes with
  each later `save` and `save_writes`; once somebody else has claimed the thread, or has written to it without a
  claim, they raise. A claim is a fence, not a lock: nothing waits for it and nothing has to give it back, so after
  a crash the next resume loads and claims anew.
- **Told in words.** Errors name the thread and what else they are about: the run that was first, by its `run_id`; the
  checkpoint or thread that is not there. `checkpoint/words.py` makes them.
- **Isolated.** What is stored is never changed by what a caller does to the object it gave or was given.
- **Refused early.** What cannot be stored raises `UnstorableError` with the path to it (`state["cart"][1]`,
  `metadata["user"]`); nothing of that call is kept. The codec, and `plain_copy` for values in memory, raise it.
  A class of the user's is stored when `registry` has it.
- **Loading runs no code.** What names a class that `registry` has not stands as `Unreadable` where it was, and is
  listed in `Record.unreadable`.
- **Asked by name.** A thread id is a str. What a caller may have mistaken for one is refused in words, by
  `check_thread_id`: a config that was given to `delete_thread` must not delete nothing in silence.
- **Newest first.** `walk` goes by the order of saving, over all branches, and holds no lock while its reader thinks.
  What is deleted meanwhile no longer appears.
- **Names are names.** Ids of threads, checkpoints and tasks, namespaces and names of channels are any text, told apart
  to the last character; a store that cannot hold one refuses it. So is `created_at`.

A saver writes the plain methods. Those beginning with `a` call them: at once if the saver is `instant`, else on a
helper thread; a saver that can do better overrides them. Every method may be called from any thread. Under asyncio a
write that has begun goes on when the task that waits for it is cancelled.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, ClassVar, Literal, NamedTuple, ParamSpec, Required, Self, TypedDict, TypeVar, cast

from loopwright.checkpoint.record import NO_ARG, Pending, Record, Write
from loopwright.checkpoint.registry import Registry
from loopwright.checkpoint.words import check_thread_id
from loopwright.errors import UsageError
from loopwright.scope import RunnableConfig

__all__ = [
    "NO_ARG",
    "BaseCheckpointSaver",
    "Checkpoint",
    "CheckpointMetadata",
    "CheckpointTuple",
    "Pending",
    "Record",
    "SizeReport",
    "Strategy",
    "Write",
    "as_tuple",
    "check_thread_id",
    "config_of",
    "require_thread_id",
]

P = ParamSpec("P")
T = TypeVar("T")

Strategy = Literal["keep_latest", "delete"]
_List = list  # the class below has a method of that name


class Checkpoint(TypedDict, total=False):
    """A checkpoint as LangGraph's users read it."""

    v: int
    id: Required[str]
    ts: str
    channel_values: dict[str, Any]
    channel_versions: dict[str, Any]
    versions_seen: dict[str, Any]
    updated_channels: list[str] | None
    pending_tasks: list[dict[str, Any]]
    """Ours: what runs next, so that a checkpoint that is put into another saver goes on there."""


class CheckpointMetadata(TypedDict, total=False):
    """`source` (input, loop, update, fork), `step` (-1: the first input), `parents`, `run_id`, and the config's own."""

    source: str
    step: int
    parents: dict[str, str]
    run_id: str


class CheckpointTuple(NamedTuple):
    """A checkpoint, where it is, and what its unfinished step has written."""

    config: RunnableConfig
    checkpoint: Checkpoint
    metadata: CheckpointMetadata
    parent_config: RunnableConfig | None = None
    pending_writes: list[Write] | None = None


class SizeReport(TypedDict):
    """What a saver holds."""

    bytes: int
    """As encoded; a message that many checkpoints show is counted once."""
    threads: int
    checkpoints: int


class BaseCheckpointSaver(ABC):
    """Keeps the checkpoints of threads. See the top of this file for what every saver promises."""

    instant: ClassVar[bool] = False
    """Whether the plain methods return at once, waiting for nothing: then they are called on the event loop itself."""

    _registry: Registry | None = None

    def __init__(self, *, types: Iterable[type] = ()) -> None:
        self._registry = Registry(types)

    @property
    def registry(self) -> Registry:
        """The classes, beside those of the library, whose instances may be stored."""
        if self._registry is None:
            self._registry = Registry()
        return self._registry

    def register(self, *types: type, name: str | None = None) -> None:
        """Let instances of these classes be stored and loaded, beside those that graphs and agents declare.

        `name`: of one class that has moved, the name it was stored under, `"old.module:Cart"`.
        """
        self.registry.add(*types, name=name)

    # --- what the engine calls ------------------------------------------------

    @abstractmethod
    def load(self, thread_id: str, ns: str = "", checkpoint_id: str | None = None) -> Record | None:
        """The head, or the checkpoint of that id; None if there is none."""

    @abstractmethod
    def claim(self, thread_id: str, seen: Record | None, run_id: str) -> int:
        """Make the thread this run's own; returns the number that its `save` and `save_writes` pass as `claim`.

        Once for the whole tree of runs: nested graphs write with the number of the run they belong to.
        `seen` is the record the run goes on from, as it was loaded (None: the thread had none); `run_id` is for the
        words of errors. Raises `ThreadConflictError` if the thread has changed since. Claiming a thread that has no
        checkpoint always succeeds; of two, the one that claimed first then fails at its first `save`.
        """

    @abstractmethod
    def save(self, record: Record, changed: Collection[str] | None = None, claim: int | None = None) -> None:
        """Store a checkpoint and make it the head of its namespace; its `writes` are stored with it.

        `changed` names the channels that differ from the parent's (one that `record.values` lacks is dropped);
        None, or a parent that is not stored: all. Saving an id again replaces it, but it keeps what tasks have written
        (of those that `record.writes` has, the new words count) and its place in the order of saving; it is the head
        again. `record.versions` are kept for the channels they name; where there are none, the saver counts.

        Without `claim` the write takes the thread over from whoever has claimed it. Raises `ThreadConflictError`,
        `UnstorableError`.
        """

    @abstractmethod
    def save_writes(
        self,
        thread_id: str,
        ns: str,
        checkpoint_id: str,
        task_id: str,
        writes: Sequence[tuple[str, Any]],
        claim: int | None = None,
    ) -> None:
        """Store what a task of that checkpoint has written, in place of what the same task had written before.

        Without `claim` it takes the thread over, as `save` does. Raises `UsageError` if there is no such checkpoint,
        and makes no thread then; `ThreadConflictError`, `UnstorableError`.
        """

    @abstractmethod
    def walk(
        self,
        thread_id: str | None,
        ns: str | None = "",
        *,
        before: str | None = None,
        filter: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> Iterator[Record]:
        """Checkpoints, newest first. `thread_id=None`: of all threads; `ns=None`: of all namespaces.

        `before`: only those saved before the checkpoint of that id (nothing, if there is no such). `filter`: entries
        that `Record.describe()` must have, compared with `==`.
        """

    @abstractmethod
    def delete_thread(self, thread_id: str) -> None:
        """Forget a thread with all its namespaces. Nothing of it is left; a thread that does not exist is no error."""

    @abstractmethod
    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Make a second thread with the same checkpoints, writes, heads and parents.

        Raises `UsageError` if the source has no checkpoint, or the target has one.
        """

    @abstractmethod
    def prune(
        self,
        thread_ids: Sequence[str],
        *,
        strategy: Strategy = "keep_latest",
        keep: int = 1,
        older_than: datetime | None = None,
    ) -> int:
        """Forget old checkpoints; returns how many. A thread that does not exist is no error.

        `keep_latest` leaves the newest `keep` of each namespace with all their writes, so a paused run still resumes,
        and the head, even if `keep` others were saved after it; nested namespaces (with a colon in their name) go once
        their task is done and the thread is not waiting. `delete` is `delete_thread` for each. With `older_than`, which
        has a time zone, only checkpoints created before that moment go: the head, too, with `delete`, and then the
        newest that is left is the head. One whose `created_at` is no moment with a time zone is not older.

        The `parent_id` of what is left is that of the nearest ancestor that is left, None if there is none. A run under
        way may go on saving. Raises `UsageError` for arguments that mean nothing: `words.check_prune`.
        """

    @abstractmethod
    def size_report(self, thread_id: str | None = None) -> SizeReport:
        """What is held, in all or of one thread."""

    def close(self) -> None:  # noqa: B027 - a saver without a connection has nothing to do
        """Let go of connections and threads."""

    # --- what LangGraph's users call ------------------------------------------

    def get(self, config: RunnableConfig) -> Checkpoint | None:
        """The checkpoint that `config` names: the head, or the one of `checkpoint_id`."""
        found = self.get_tuple(config)
        return found.checkpoint if found else None

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The same, with where it is and what was written."""
        record = self.load(*_place(config, self, "get_tuple({})"))
        return as_tuple(record) if record else None

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints newest first: of all threads (None), of a thread, of a `checkpoint_ns`, or the one of an id."""
        for record in self.walk(*_range(config, self), before=_id_in(before), filter=filter, limit=limit):
            if config is None or _id_in(config) in (None, record.id):
                yield as_tuple(record)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: Mapping[str, Any] | None = None,
    ) -> RunnableConfig:
        """Store a checkpoint of somebody else's making, in full; returns the config that reads it.

        Its `channel_versions` (`new_versions` last) and `versions_seen` come back as they were given.
        """
        record = _record_from(config, checkpoint, metadata, new_versions, self)
        self.save(record)
        return config_of(record)

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store what a task has written; `config` must name the checkpoint. `task_path` is not kept."""
        self.save_writes(*_place(config, self, "put_writes({}, ...)", needs_id=True), task_id, writes)

    def get_next_version(self, current: Any, channel: None = None) -> Any:
        """The version after `current`, counted from 1."""
        if isinstance(current, str):
            current = int(current.partition(".")[0])
        return 1 if current is None else current + 1

    # --- the same for asyncio -------------------------------------------------

    async def aload(self, thread_id: str, ns: str = "", checkpoint_id: str | None = None) -> Record | None:
        return await self._off_loop(self.load, thread_id, ns, checkpoint_id)

    async def aclaim(self, thread_id: str, seen: Record | None, run_id: str) -> int:
        return await self._off_loop(self.claim, thread_id, seen, run_id)

    async def asave(self, record: Record, changed: Collection[str] | None = None, claim: int | None = None) -> None:
        await self._off_loop(self.save, record, changed, claim)

    async def asave_writes(
        self,
        thread_id: str,
        ns: str,
        checkpoint_id: str,
        task_id: str,
        writes: Sequence[tuple[str, Any]],
        claim: int | None = None,
    ) -> None:
        await self._off_loop(self.save_writes, thread_id, ns, checkpoint_id, task_id, writes, claim)

    async def awalk(
        self,
        thread_id: str | None,
        ns: str | None = "",
        *,
        before: str | None = None,
        filter: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[Record]:
        walk = self.walk(thread_id, ns, before=before, filter=filter, limit=limit)
        while (record := await self._off_loop(next, walk, None)) is not None:
            yield record

    async def adelete_thread(self, thread_id: str) -> None:
        await self._off_loop(self.delete_thread, thread_id)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await self._off_loop(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(
        self,
        thread_ids: Sequence[str],
        *,
        strategy: Strategy = "keep_latest",
        keep: int = 1,
        older_than: datetime | None = None,
    ) -> int:
        return await self._off_loop(self.prune, thread_ids, strategy=strategy, keep=keep, older_than=older_than)

    async def asize_report(self, thread_id: str | None = None) -> SizeReport:
        return await self._off_loop(self.size_report, thread_id)

    async def aclose(self) -> None:
        await self._off_loop(self.close)

    async def _off_loop(self, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a plain method without holding up the event loop; where none runs, there is none to hold up."""
        if self.instant or not _has_loop():
            return method(*args, **kwargs)
        return await asyncio.to_thread(method, *args, **kwargs)

    async def aget(self, config: RunnableConfig) -> Checkpoint | None:
        found = await self.aget_tuple(config)
        return found.checkpoint if found else None

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        record = await self.aload(*_place(config, self, "get_tuple({})"))
        return as_tuple(record) if record else None

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        async for record in self.awalk(*_range(config, self), before=_id_in(before), filter=filter, limit=limit):
            if config is None or _id_in(config) in (None, record.id):
                yield as_tuple(record)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: Mapping[str, Any] | None = None,
    ) -> RunnableConfig:
        record = _record_from(config, checkpoint, metadata, new_versions, self)
        await self.asave(record)
        return config_of(record)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        await self.asave_writes(*_place(config, self, "put_writes({}, ...)", needs_id=True), task_id, writes)

    # --- `with` ---------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _has_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


# --- configs and shapes -------------------------------------------------------


def require_thread_id(config: Mapping[str, Any] | None, saver: Any = None, call: str = "invoke(..., {})") -> str:
    """The thread that `config` names. Raises `UsageError` if it names none, in words that show the right `call`."""
    configurable: Any = (config or {}).get("configurable")
    thread_id = configurable.get("thread_id") if isinstance(configurable, Mapping) else None  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]
    if isinstance(thread_id, str) and thread_id:
        return thread_id
    keeper = type(saver).__name__ if saver is not None else "a checkpointer"
    if thread_id is None:
        problem = f"With {keeper} each run belongs to a thread, and the config names none."
        if config and "thread_id" in config:
            problem = f'With {keeper} each run belongs to a thread; its thread_id belongs inside of "configurable".'
    elif thread_id == "":
        problem = "The config's thread_id is empty."
    else:
        problem = (
            f"The config's thread_id is of type {type(thread_id).__name__} ({thread_id!r}); it must be a str: str(...)."  # pyright: ignore[reportUnknownArgumentType]
        )
    right = call.format('{"configurable": {"thread_id": "1"}}')
    raise UsageError(f"{problem} Write {right}.")


def config_of(record: Record, checkpoint_id: str | None = None) -> RunnableConfig:
    """The config that reads this checkpoint, or another one of the same thread and namespace."""
    return {
        "configurable": {
            "thread_id": record.thread_id,
            "checkpoint_ns": record.ns,
            "checkpoint_id": checkpoint_id or record.id,
        }
    }


def as_tuple(record: Record) -> CheckpointTuple:
    """A record in the shape that LangGraph's users know."""
    checkpoint: Checkpoint = {
        "v": 4,
        "id": record.id,
        "ts": record.created_at,
        "channel_values": record.values,
        "channel_versions": record.versions,
        "versions_seen": record.versions_seen,
        "updated_channels": None,
        "pending_tasks": [_task_as_dict(task) for task in record.pending],
    }
    parent = config_of(record, record.parent_id) if record.parent_id else None
    metadata = cast("CheckpointMetadata", record.describe())
    return CheckpointTuple(config_of(record), checkpoint, metadata, parent, record.writes)


def _task_as_dict(task: Pending) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": task.id, "name": task.name, "path": task.path}
    if task.arg is not NO_ARG:
        entry["arg"] = task.arg
    return entry


def _record_from(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    new_versions: Mapping[str, Any] | None,
    saver: BaseCheckpointSaver,
) -> Record:
    thread_id, ns, parent_id = _place(config, saver, "put({}, ...)")
    described: dict[str, Any] = dict(metadata)
    return Record(
        id=checkpoint["id"],
        thread_id=thread_id,
        ns=ns,
        parent_id=parent_id,
        step=described.pop("step", -1),
        source=described.pop("source", "update"),
        created_at=checkpoint.get("ts") or datetime.now(UTC).isoformat(),
        metadata=described,
        values=dict(checkpoint.get("channel_values") or {}),
        pending=tuple(
            Pending(task["id"], task["name"], tuple(task.get("path", ())), task.get("arg", NO_ARG))
            for task in checkpoint.get("pending_tasks") or ()
        ),
        versions={**(checkpoint.get("channel_versions") or {}), **(new_versions or {})},
        versions_seen=dict(checkpoint.get("versions_seen") or {}),
    )


def _configurable(config: RunnableConfig | None) -> Mapping[str, Any]:
    return (config or {}).get("configurable") or {}


def _id_in(config: RunnableConfig | None) -> str | None:
    return _configurable(config).get("checkpoint_id")


def _place(
    config: RunnableConfig, saver: BaseCheckpointSaver, call: str, *, needs_id: bool = False
) -> tuple[str, str, Any]:
    """Thread, namespace and checkpoint id of a config."""
    checkpoint_id = _id_in(config)
    if needs_id and not checkpoint_id:
        raise UsageError(
            "put_writes needs a config that names the checkpoint the task belongs to: the one that put() returned."
        )
    thread_id = require_thread_id(config, saver, call)
    return thread_id, _configurable(config).get("checkpoint_ns") or "", checkpoint_id


def _range(config: RunnableConfig | None, saver: BaseCheckpointSaver) -> tuple[str | None, str | None]:
    """Thread and namespace that `list` goes over."""
    if config is None:
        return None, None
    return require_thread_id(config, saver, "list({})"), _configurable(config).get("checkpoint_ns")
