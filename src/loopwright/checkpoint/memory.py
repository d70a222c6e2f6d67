"""A saver in the memory of the process: for tests, notebooks and threads that need not outlive a restart.

How a thread is laid out:

- a checkpoint is a row of pointers, channel -> cell; a channel that did not change points to its parent's cell;
- a list that grew (messages above all) is a pointer to shared items and a length: what was there before is neither
  looked at nor stored again. A branch that grows from the middle of shared items gets a list of its own;
- messages and other immutable values are kept as they are, containers are copied on their way in and out.

One lock, held for as long as a checkpoint takes to be filed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import count, islice
from operator import is_
from threading import RLock
from typing import Any, ClassVar, Final, cast

from loopwright.checkpoint.base import BaseCheckpointSaver, SizeReport, Strategy
from loopwright.checkpoint.plain import Registered, alike, argument_path, channel_path, check_storable, plain_copy
from loopwright.checkpoint.record import Pending, Record
from loopwright.checkpoint.size import Scale
from loopwright.checkpoint.words import (
    changed_meanwhile,
    check_prune,
    check_thread_id,
    is_older,
    no_source,
    no_such_checkpoint,
    taken_over,
    target_exists,
)
from loopwright.messages.history import Buffer, History

__all__ = ["InMemorySaver", "MemorySaver"]


class _Cell:
    """One value of one channel; many checkpoints may point to it."""

    __slots__ = ("fixed", "value", "version")

    def __init__(self, value: Any, fixed: bool, version: Any) -> None:
        self.value = value
        self.fixed = fixed
        """Whether nothing in it can change, so that it may be handed out as it is."""
        self.version = version

    def read(self) -> Any:
        return self.value if self.fixed else plain_copy(self.value)


class _Lines:
    """The first `length` of items that only grow in number."""

    __slots__ = ("buffer", "fixed", "items", "length", "version")

    def __init__(self, items: list[Any], length: int, buffer: Buffer | None, fixed: bool, version: Any) -> None:
        self.items = items
        self.length = length
        self.buffer = buffer
        """Whose items they are, if the value is a `History`."""
        self.fixed = fixed
        """Whether nothing in the items can change."""
        self.version = version

    def read(self) -> Any:
        if self.buffer is not None:
            return History.of(self.buffer, self.length)
        items = self.items[: self.length]
        return items if self.fixed else list(map(plain_copy, items))

    def shared(self, value: list[Any]) -> int:
        """How many items of `value` are at the same place here, from the first on; 0 if it is another list."""
        if len(value) < self.length:
            return 0
        same = self.length
        if not all(map(is_, islice(self.items, same), value)) and not all(map(alike, islice(self.items, same), value)):
            return 0
        for mine, other in zip(islice(self.items, same, None), islice(value, same, None), strict=False):
            if not alike(mine, other):
                break
            same += 1
        return same


class _Row:
    """One checkpoint."""

    __slots__ = (
        "account",
        "cells",
        "created_at",
        "id",
        "metadata",
        "ns",
        "number",
        "parent_id",
        "pending",
        "source",
        "step",
        "versions_seen",
        "writes",
    )

    id: str
    parent_id: str | None
    ns: str
    step: int
    source: str
    created_at: str
    metadata: _Cell
    cells: dict[str, _Cell | _Lines]
    pending: _Cell
    account: _Cell
    writes: dict[str, list[tuple[str, _Cell | _Lines]]]
    """By task."""
    versions_seen: _Cell
    number: int
    """Order of saving, over all threads."""

    def copy(self, number: int) -> _Row:
        twin = _Row()
        for name in self.__slots__:
            setattr(twin, name, getattr(self, name))
        twin.number = number
        twin.writes = dict(self.writes)
        return twin

    def describe(self) -> dict[str, Any]:
        return {"source": self.source, "step": self.step, "parents": {}, **self.metadata.value}


class _Thread:
    """All namespaces of one thread, and who may write to it."""

    __slots__ = ("fence", "heads", "holder", "runner", "spaces")

    def __init__(self) -> None:
        self.spaces: dict[str, dict[str, _Row]] = {}
        """By namespace, checkpoints by id, oldest first."""
        self.heads: dict[str, str] = {}
        self.fence = 0
        """Grows with every claim and write."""
        self.holder: int | None = None
        """The claim that counts."""
        self.runner = ""
        """The run that has, or had, it."""


class InMemorySaver(BaseCheckpointSaver):
    """Keeps threads in memory: `create_agent(..., checkpointer=InMemorySaver())`.

    `types`: classes whose instances may be stored beside those that graphs and agents declare, as for any saver.
    """

    instant: ClassVar[bool] = True

    def __init__(self, *, types: Iterable[type] = ()) -> None:
        super().__init__(types=types)
        self._threads: dict[str, _Thread] = {}
        self._numbers: Final = count(1)
        self._lock: Final = RLock()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self._threads)} threads)"

    # --- reading ----------------------------------------------------------------

    def load(self, thread_id: str, ns: str = "", checkpoint_id: str | None = None) -> Record | None:
        check_thread_id(thread_id, "load")
        with self._lock:
            thread = self._threads.get(thread_id)
            if thread is None:
                return None
            wanted = checkpoint_id or thread.heads.get(ns)
            row = thread.spaces.get(ns, {}).get(wanted or "")
            return None if row is None else _record(thread_id, thread, row)

    def walk(
        self,
        thread_id: str | None,
        ns: str | None = "",
        *,
        before: str | None = None,
        filter: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> Iterator[Record]:
        if thread_id is not None:
            check_thread_id(thread_id, "walk")
        with self._lock:
            rows = self._rows(thread_id, ns)
        if before is not None:
            # Ids are unique within a namespace; where several are asked for, the newest bearer counts.
            rows = rows[next((index + 1 for index, (_, row) in enumerate(rows) if row.id == before), len(rows)) :]
        wanted = list((filter or {}).items())
        found = 0
        for owner, row in rows:
            if limit is not None and found >= limit:
                return
            if wanted and not _matches(row.describe(), wanted):
                continue
            record = self.load(owner, row.ns, row.id)
            if record is not None:  # deleted while the reader was away
                found += 1
                yield record

    def _rows(self, thread_id: str | None, ns: str | None) -> list[tuple[str, _Row]]:
        """Newest first, with the thread each belongs to."""
        if thread_id is None:
            chosen = list(self._threads.items())
        else:
            thread = self._threads.get(thread_id)
            chosen = [] if thread is None else [(thread_id, thread)]
        rows = [
            (owner, row)
            for owner, thread in chosen
            for name, space in thread.spaces.items()
            if ns is None or name == ns
            for row in space.values()
        ]
        rows.sort(key=_age)
        return rows

    # --- writing ----------------------------------------------------------------

    def claim(self, thread_id: str, seen: Record | None, run_id: str) -> int:
        with self._lock:
            thread = self._threads.get(thread_id)
            if seen is None:
                changed = thread is not None and "" in thread.heads  # what runs below left behind is no state
            else:
                changed = thread is None or thread.fence != seen.fence
            if changed:
                raise changed_meanwhile(thread_id, thread.runner if thread is not None else "")
            if thread is None:
                thread = self._threads[thread_id] = _Thread()
            thread.fence += 1
            thread.holder = thread.fence
            thread.runner = run_id
            return thread.holder

    def save(self, record: Record, changed: Collection[str] | None = None, claim: int | None = None) -> None:
        with self._lock:
            thread = self._open(record.thread_id, claim)
            space = thread.spaces.get(record.ns, {})
            number = next(self._numbers)
            row = _row(record, changed, space.get(record.parent_id or ""), number, self.registry)
            known = space.get(record.id)
            if known is not None:
                row.number = known.number
                row.writes = {**known.writes, **row.writes}
            space[record.id] = row
            thread.spaces[record.ns] = space
            thread.heads[record.ns] = record.id
            self._close(record.thread_id, thread, claim)

    def save_writes(
        self,
        thread_id: str,
        ns: str,
        checkpoint_id: str,
        task_id: str,
        writes: Sequence[tuple[str, Any]],
        claim: int | None = None,
    ) -> None:
        with self._lock:
            thread = self._open(thread_id, claim)
            row = thread.spaces.get(ns, {}).get(checkpoint_id)
            if row is None:
                raise no_such_checkpoint(thread_id, checkpoint_id)
            row.writes[task_id] = [_written(channel, value, row, self.registry) for channel, value in writes]
            self._close(thread_id, thread, claim)

    def _open(self, thread_id: str, claim: int | None) -> _Thread:
        """The thread to write to, if `claim` still counts."""
        thread = self._threads.get(thread_id)
        if claim is not None and (thread is None or thread.holder != claim):
            raise taken_over(thread_id, thread.runner if thread is not None else "")
        return thread or _Thread()

    def _close(self, thread_id: str, thread: _Thread, claim: int | None) -> None:
        """Count the write; one without a claim takes the thread from whoever has it."""
        self._threads[thread_id] = thread
        thread.fence += 1
        if claim is None:
            thread.holder = None
            thread.runner = ""

    # --- whole threads ----------------------------------------------------------

    def delete_thread(self, thread_id: str) -> None:
        check_thread_id(thread_id, "delete_thread")
        with self._lock:
            self._threads.pop(thread_id, None)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        for thread_id in (source_thread_id, target_thread_id):
            check_thread_id(thread_id, "copy_thread")
        with self._lock:
            source = self._threads.get(source_thread_id)
            if source is None or not source.heads:
                raise no_source(source_thread_id)
            target = self._threads.get(target_thread_id)
            if target is not None and target.heads:
                raise target_exists(target_thread_id)
            twin = _Thread()
            twin.heads = dict(source.heads)
            for _, row in reversed(self._rows(source_thread_id, None)):
                twin.spaces.setdefault(row.ns, {})[row.id] = row.copy(next(self._numbers))
            twin.fence = 1
            self._threads[target_thread_id] = twin

    def prune(
        self,
        thread_ids: Sequence[str],
        *,
        strategy: Strategy = "keep_latest",
        keep: int = 1,
        older_than: datetime | None = None,
    ) -> int:
        listed = check_prune(thread_ids, strategy, keep, older_than)
        removed = 0
        with self._lock:
            for thread_id in listed:
                thread = self._threads.get(thread_id)
                if thread is not None:
                    removed += _prune(thread, 0 if strategy == "delete" else keep, older_than)
                    if not thread.heads:
                        del self._threads[thread_id]
        return removed

    def size_report(self, thread_id: str | None = None) -> SizeReport:
        if thread_id is not None:
            check_thread_id(thread_id, "size_report")
        scale = Scale()
        with self._lock:
            rows = self._rows(thread_id, None)
            for _, row in rows:
                scale.add((row.id, row.parent_id, row.ns, row.source, row.created_at))
                for cell in (row.metadata, row.pending, row.account, *row.cells.values(), *_cells_of(row.writes)):
                    if isinstance(cell, _Lines):
                        scale.add_items(cell.items, cell.length)
                    else:
                        scale.add_once(cell, cell.value)
            return {"bytes": scale.bytes(), "threads": len({owner for owner, _ in rows}), "checkpoints": len(rows)}


MemorySaver = InMemorySaver


def _age(entry: tuple[str, _Row]) -> int:
    return -entry[1].number


def _matches(described: dict[str, Any], wanted: list[tuple[str, Any]]) -> bool:
    return all(key in described and described[key] == value for key, value in wanted)


def _cells_of(writes: dict[str, list[tuple[str, _Cell | _Lines]]]) -> Iterator[_Cell | _Lines]:
    for entries in writes.values():
        for _, cell in entries:
            yield cell


# --- in and out -----------------------------------------------------------------


def _row(record: Record, changed: Collection[str] | None, parent: _Row | None, number: int, known: Registered) -> _Row:
    row = _Row()
    row.id, row.parent_id, row.ns = record.id, record.parent_id, record.ns
    row.step, row.source, row.created_at = record.step, record.source, record.created_at
    row.number = number
    row.metadata = _cell(record.metadata, "metadata", None, known)
    row.versions_seen = _cell(record.versions_seen, "versions_seen", None, known)
    row.pending = _cell(_arguments(record.pending, known), "pending", None, known)
    row.account = _cell(record.account, "account", None, known)
    before = {} if parent is None else parent.cells
    row.cells = {}
    for name, value in record.values.items():
        last = before.get(name)
        if last is not None and changed is not None and name not in changed:
            row.cells[name] = last
        else:
            row.cells[name] = _filed(value, f'state["{name}"]', last, record.versions.get(name, number), known)
    row.writes = {}
    for task_id, channel, value in record.writes:
        row.writes.setdefault(task_id, []).append(_written(channel, value, row, known))
    return row


def _cell(value: Any, path: str, version: Any, known: Registered) -> _Cell:
    taken = plain_copy(value, path, known)
    return _Cell(taken, taken is value, version)


def _filed(value: Any, path: str, last: _Cell | _Lines | None, version: Any, registered: Registered) -> _Cell | _Lines:
    """A cell for a value that has changed; of a list that has only grown, just the end is kept."""
    if type(value) is History:
        return _history(value, path, last, version, registered)
    if type(value) is not list:
        return _cell(value, path, version, registered)
    items = cast("list[Any]", value)
    known = last if isinstance(last, _Lines) else None
    length = known.shared(items) if known is not None else 0
    added = [plain_copy(item, f"{path}[{index}]", registered, 1) for index, item in enumerate(items[length:], length)]
    fixed = all(map(is_, added, islice(items, length, None)))
    if known is None or not length:
        return _Lines(added, len(items), None, fixed, version)
    shared = known.items
    if known.buffer is not None or (added and len(shared) != length):
        shared = shared[:length]
    shared += added
    return _Lines(shared, len(items), None, fixed and known.fixed, version)


def _history(value: History, path: str, last: _Cell | _Lines | None, version: Any, registered: Registered) -> _Lines:
    known = last if isinstance(last, _Lines) and last.buffer is value.buffer else None
    length = 0 if known is None else min(known.length, len(value))
    for index, item in enumerate(value[length:], length):
        check_storable(item, f"{path}[{index}]", registered, 1)
    return _Lines(value.buffer.items, len(value), value.buffer, fixed=True, version=version)


def _arguments(pending: tuple[Pending, ...], known: Registered) -> tuple[Pending, ...]:
    for task in pending:
        plain_copy(task.arg, argument_path(task.name), known)
    return pending


def _written(channel: str, value: Any, row: _Row, known: Registered) -> tuple[str, _Cell | _Lines]:
    """What a task has written; a list that its node has only added to shares the rest with the channel."""
    return channel, _filed(value, channel_path(channel), row.cells.get(channel), None, known)


def _record(thread_id: str, thread: _Thread, row: _Row) -> Record:
    return Record(
        id=row.id,
        thread_id=thread_id,
        ns=row.ns,
        parent_id=row.parent_id,
        step=row.step,
        source=row.source,
        created_at=row.created_at,
        metadata=row.metadata.read(),
        values={name: cell.read() for name, cell in row.cells.items()},
        pending=row.pending.read(),
        account=row.account.read(),
        writes=[
            (task_id, channel, cell.read()) for task_id, entries in row.writes.items() for channel, cell in entries
        ],
        versions={name: cell.version for name, cell in row.cells.items()},
        versions_seen=row.versions_seen.read(),
        fence=thread.fence,
    )


# --- forgetting -----------------------------------------------------------------


def _prune(thread: _Thread, keep: int, older_than: datetime | None) -> int:
    """Drop all but the newest `keep` rows of each namespace; what a paused run resumes from is among those."""
    head = thread.spaces.get("", {}).get(thread.heads.get("", ""))
    over = head is not None and not head.pending.value
    removed = 0
    for ns in list(thread.spaces):
        space = thread.spaces[ns]
        # A namespace with a colon belongs to one task; once the thread waits for nothing, that task is done.
        left = 0 if over and ":" in ns else keep
        newest = list(space)[-left:] if left else []
        stay = {*newest, thread.heads[ns]} if left else set[str]()
        gone = [key for key, row in space.items() if key not in stay and is_older(row.created_at, older_than)]
        removed += len(gone)
        _drop(space, gone)
        if not space:
            del thread.spaces[ns], thread.heads[ns]
        elif thread.heads[ns] not in space:
            thread.heads[ns] = next(reversed(space))
    return removed


def _drop(space: dict[str, _Row], gone: list[str]) -> None:
    """Remove rows; their children hang on to the nearest ancestor that is left."""
    dropped = {key: space.pop(key) for key in gone}
    for row in space.values():
        while row.parent_id in dropped:
            row.parent_id = dropped[row.parent_id].parent_id
