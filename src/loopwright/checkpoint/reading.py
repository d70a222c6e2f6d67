"""From rows back to a `Record`. Reads cells with all that they are differences from, and items by their ranges."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar, cast

import msgspec

from loopwright.checkpoint.codec import Codec
from loopwright.checkpoint.drafts import CELL, MESSAGE, VALUE, argument_path, entries_from, written_path
from loopwright.checkpoint.kinds import Unreadable
from loopwright.checkpoint.known import Known, Lines, Mark, Step
from loopwright.checkpoint.layout import (
    HISTORY,
    NUMBER_BITS,
    TASK_BITS,
    Body,
    Cell,
    Content,
    Due,
    Ranges,
    body_from,
    encoded_in,
    id_from,
    pulled,
    ranges_in,
    resolve,
    time_from,
)
from loopwright.checkpoint.record import NO_ARG, Pending, Record, Write
from loopwright.checkpoint.sql import Sql, Work
from loopwright.errors import LoopwrightError, StoredDataError
from loopwright.messages.base import BaseMessage
from loopwright.messages.history import Buffer, History

__all__ = ["FOUND", "Found", "Items", "Reader", "marks"]

T = TypeVar("T")

FOUND: Final = (
    "SELECT c.number, c.id, c.parent, c.body, c.space, s.ns, t.thread_id, t.number, t.swept, "
    "t.fence, {life} FROM loopwright_threads t JOIN loopwright_spaces s ON s.thread = t.number "
    "JOIN loopwright_checkpoints c ON c.space = s.number"
)

_BROKEN: Final = (msgspec.MsgspecError, TypeError, ValueError, LookupError, ArithmeticError, AttributeError)
"""What rows that nobody of us has written may raise."""

_ITEMS: Final = "FROM loopwright_items WHERE place >= ? AND place < ? ORDER BY place"

_NEAR: Final = 16
"""Ranges that are no further apart than this are read as one."""


class Found(NamedTuple):
    """A row of `FOUND`, with a dialect's word for `life`: a checkpoint, and whose it is."""

    number: int
    id: bytes
    parent: bytes | None
    body: bytes
    space: int
    ns: str
    thread_id: str
    thread: int
    swept: int
    fence: int
    life: int


class Items:
    """The bytes of items, by number: runs that were read as such, and single ones."""

    __slots__ = ("runs", "single")

    def __init__(self) -> None:
        self.runs: dict[int, list[bytes]] = {}
        self.single: dict[int, bytes] = {}

    def of(self, ranges: Ranges) -> list[bytes]:
        """The bytes of messages in the order of a list. Raises `StoredDataError` for one that is not there."""
        found: list[bytes] = []
        try:
            for start, count in ranges.runs():
                found += self.runs.get(start) or map(self.single.__getitem__, range(start, start + count))
        except KeyError as missing:
            number = missing.args[0]
            raise StoredDataError(f"message {number} of a checkpoint is not there: the store is damaged.") from None
        return found


class Reader:
    """Reads checkpoints."""

    def __init__(self, codec: Codec, known: Known, store: str) -> None:
        self._store: Final = store
        self._codec: Final = codec
        self._known: Final = known

    def matches(self, data: bytes, wanted: list[tuple[str, Any]]) -> bool:
        """Whether what `Record.describe` says holds all that is wanted; of a checkpoint that need not be read for it.

        One that is damaged does: whoever reads it will tell.
        """
        try:
            body = body_from(data)
            metadata = self.plain(body.metadata, "metadata")
        except (StoredDataError, *_BROKEN):
            return True
        shown: dict[str, Any] = {"source": body.source, "step": body.step, "parents": {}, **metadata}
        return all(key in shown and shown[key] == value for key, value in wanted)

    def plain(self, data: bytes | None, path: str) -> dict[str, Any]:
        """A part of a body; empty where it is left out."""
        return {} if data is None else self._codec.decode(data, path)

    def record(self, found: Found, *, learn: bool) -> Work[Record]:
        """The checkpoint. With `learn`, what was read of lists of messages is remembered.

        Raises `StoredDataError` if a row of it is damaged.
        """
        return self.whole(found.thread_id, self._read(found, learn=learn))

    def whole(self, thread_id: str, work: Work[T]) -> Work[T]:
        """A work on rows of a thread; what damaged ones raise becomes a `StoredDataError` that names it."""
        try:
            return (yield from work)
        except StoredDataError as error:
            raise type(error)(f"{self._store}, thread {thread_id!r}: {error}") from error.__cause__
        except LoopwrightError:
            raise
        except _BROKEN as error:
            raise StoredDataError(
                f"{self._store}, thread {thread_id!r}: a row of it is damaged and cannot be read "
                f"({type(error).__name__}: {error}). Restore the store from a backup, or delete the thread."
            ) from error

    def _read(self, found: Found, *, learn: bool) -> Work[Record]:
        mark = Mark(found.thread, found.swept, found.life)
        body = body_from(found.body)
        cells = {name: cell if isinstance(cell, int) else cell[0] for name, cell in body.cells.items()}
        tasks = yield Sql(
            "SELECT task, blob FROM loopwright_writes WHERE place >= ? AND place < ? ORDER BY place",
            (found.number << TASK_BITS, (found.number + 1) << TASK_BITS),
        )
        entries = [(id_from(task), *entry) for task, blob in tasks for entry in entries_from(blob)]
        task_cells = [payload for _, _, kind, payload in entries if kind == CELL]
        contents = yield from self.contents(mark, [*body.cells.values(), *task_cells])
        lists = {
            name: ranges for name, number in cells.items() if (ranges := ranges_in(contents[number].data)) is not None
        }
        shown = {name: self._known_part(mark, (found.thread_id, found.ns, name), lists[name]) for name in lists}
        written = [number for _, _, kind, payload in entries for number in _numbers(kind, payload)]
        missing = [run for name, ranges in lists.items() for run in ranges.from_(shown[name][1]).runs()]
        blobs = yield from self.items(mark, [*missing, *((number, 1) for number in written)])
        lost: list[Unreadable] = []
        values: dict[str, Any] = {}
        for name, number in cells.items():
            if name in lists:
                key = (found.thread_id, found.ns, name)
                is_history = contents[number].data[:1] == HISTORY
                lost_before = len(lost)
                lines = self._lines(mark, name, lists[name], shown[name], blobs, lost, is_history=is_history)
                if learn and len(lost) == lost_before:  # what could not be read is to be told of again
                    self._known.lines.put(key, lines, lines.size)
                values[name] = _version(lines, lists[name].length)
            else:
                path = f'state["{name}"]'
                values[name] = self._codec.decode(encoded_in(contents[number].data), path, lost)
        if learn:
            step = Step(found.space, found.number, body)
            self._known.steps.put((mark, found.ns, bytes(found.id)), step, 1)
            for data, number in zip(blobs.of(Ranges().then(written)), written, strict=True):
                self._known.numbers.put((mark, bytes(data)), number, len(data))
            for number in task_cells:
                data = contents[number].data
                self._known.numbers.put((mark, data), number, len(data))
        writes = [self._write(*entry, blobs, contents, lost) for entry in entries]
        return self._record(found, body, cells, values, writes, lost)

    def _record(
        self,
        found: Found,
        body: Body,
        versions: dict[str, Any],
        values: dict[str, Any],
        writes: list[Write],
        lost: list[Unreadable],
    ) -> Record:
        decode = self._codec.decode
        return Record(
            id=id_from(found.id),
            thread_id=found.thread_id,
            ns=found.ns,
            parent_id=None if found.parent is None else id_from(found.parent),
            step=body.step,
            source=body.source,
            created_at=time_from(body.created_at),
            metadata=self.plain(body.metadata, "metadata"),
            values=values,
            pending=tuple(
                Pending(
                    id_from(due.id),
                    due.name,
                    _path(due, decode, lost),
                    NO_ARG if due.arg is None else decode(due.arg, argument_path(due.name), lost),
                )
                for due in body.pending
            ),
            writes=writes,
            versions={**versions, **self.plain(body.versions, "versions")},
            versions_seen=self.plain(body.versions_seen, "versions_seen"),
            account=None if body.account is None else decode(body.account, "account"),
            unreadable=lost,
            fence=found.fence,
        )

    def _write(
        self,
        task: str,
        channel: str,
        kind: str,
        payload: Any,
        blobs: Items,
        contents: Mapping[int, Content],
        lost: list[Unreadable],
    ) -> Write:
        path = written_path(channel)
        if kind == CELL:
            return task, channel, self._codec.decode(encoded_in(contents[payload].data), path, lost)
        if kind == VALUE:
            return task, channel, self._codec.decode(payload, path, lost)
        if kind == MESSAGE:
            (blob,) = blobs.of(Ranges([payload, 1]))
            return task, channel, self._codec.decode_message(blob, path, lost)
        items = self._codec.decode_messages(blobs.of(Ranges(payload)), path, lost)
        return task, channel, History(items) if kind == HISTORY.decode() else items

    # --- lists of messages ------------------------------------------------------

    def _known_part(self, mark: Mark, key: tuple[str, str, str], ranges: Ranges) -> tuple[Lines | None, int]:
        """What is remembered of a list, and how many messages of that are the first of these."""
        lines = self._known.lines.get(key)
        if lines is None or lines.mark != mark or not lines.whole:
            return None, 0
        return lines, lines.ranges.common(ranges)

    def _lines(
        self,
        mark: Mark,
        name: str,
        ranges: Ranges,
        known: tuple[Lines | None, int],
        blobs: Items,
        lost: list[Unreadable],
        *,
        is_history: bool,
    ) -> Lines:
        """The list: the remembered one if it is that or the beginning of it, else a new one."""
        lines, same = known
        if lines is not None and same == ranges.length and (lines.buffer is not None) == is_history:
            return lines
        items: list[BaseMessage] = []
        size = 0
        if lines is not None:
            items, size = lines.items[:same], lines.size * same // (lines.ranges.length or 1)
        new = blobs.of(ranges.from_(same))
        items += self._codec.decode_messages(new, f'state["{name}"]', lost, same)
        return Lines(mark, items, Buffer(items) if is_history else None, ranges, size + sum(map(len, new)))

    def items(self, mark: Mark, runs: Iterable[tuple[int, int]]) -> Work[Items]:
        """The bytes of items. Runs that are near are read as one; most lists are a single run, read without numbers."""
        spans: list[list[tuple[int, int]]] = []
        for run in sorted(runs):
            if spans and run[0] <= _end(spans[-1]) + _NEAR:
                spans[-1].append(run)
            else:
                spans.append([run])
        origin = mark.thread << NUMBER_BITS
        found = Items()
        for span in spans:
            start, count = span[0]
            places = (origin + start, origin + _end(span))
            if len(span) == 1:
                rows = yield Sql(f"SELECT blob {_ITEMS}", places)
                if len(rows) == count:
                    found.runs[start] = [blob for (blob,) in rows]
                    continue
            rows = yield Sql(f"SELECT place, blob {_ITEMS}", places)
            found.single.update((place - origin, blob) for place, blob in rows)
        return found

    # --- cells ------------------------------------------------------------------

    def contents(self, mark: Mark, cells: Collection[int | tuple[int, bytes]]) -> Work[dict[int, Content]]:
        """What cells say, by number."""
        known: dict[int, Content] = {}
        missing: list[int] = []
        for number in cells:
            if not isinstance(number, int):
                known[number[0]] = Content(number[1], 0, 0)
                continue
            content = self._known.contents.get((mark, number))
            if content is None:
                missing.append(number)
            else:
                known[number] = content
        if missing:
            rows = yield _chain(mark, missing)
            origin = mark.thread << NUMBER_BITS
            read = resolve(((row[0] - origin, Cell(*row[1:])) for row in rows), {})
            for number in missing:
                content = read.get(number)
                if content is None:
                    raise StoredDataError(
                        f"a cell ({mark.thread}, {number}) of a checkpoint is not there: the store is damaged."
                    )
                known[number] = content
                self._known.contents.put((mark, number), content, len(content.data))
        return known


def marks(count: int) -> str:
    return ", ".join("?" * count)


def _chain(mark: Mark, numbers: Collection[int]) -> Sql:
    """Cells, and those that they are differences from, oldest first."""
    origin = mark.thread << NUMBER_BITS
    return Sql(
        "WITH RECURSIVE chain (place, base) AS ("
        f"SELECT place, base FROM loopwright_cells WHERE place IN ({marks(len(numbers))}) UNION "
        "SELECT c.place, c.base FROM chain JOIN loopwright_cells c ON c.place = ? + chain.base) "
        "SELECT c.place, c.base, c.prefix, c.suffix, c.blob FROM chain "
        "JOIN loopwright_cells c ON c.place = chain.place ORDER BY c.place",
        (*(origin + number for number in numbers), origin),
    )


def _end(span: list[tuple[int, int]]) -> int:
    """The number behind the last of some runs."""
    return max(start + count for start, count in span)


def _path(due: Due, decode: Callable[..., Any], lost: list[Unreadable]) -> tuple[Any, ...]:
    if due.path is True:
        return pulled(due.name)
    return decode(due.path, "path", lost) if due.path else ()


def _numbers(kind: str, payload: Any) -> Iterable[int]:
    if kind in (VALUE, CELL):
        return ()
    return (cast(int, payload),) if kind == MESSAGE else Ranges(payload)


def _version(lines: Lines, length: int) -> list[BaseMessage]:
    """The value of a channel that shows the first `length` of these."""
    return lines.items[:length] if lines.buffer is None else History.of(lines.buffer, length)
