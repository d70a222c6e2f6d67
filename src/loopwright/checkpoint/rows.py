"""What a saver on a database does, without a database: every method once, as deeds (`sql.py`) that a driver runs.

How a thread is written to: its row is read (and locked, where others write beside us), the claim is checked, rows are
added, and last the row of the thread is written back with the fence and the numbers that were given out.

A work that comes after one whose COMMIT was not answered finds the row of the thread settled: to lock it, it has waited
for the other. A claim is known by its number and run, a save by its very bytes, which name cells that no other has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any, Final, NamedTuple

from loopwright.checkpoint.codec import Codec
from loopwright.checkpoint.drafts import CELL, MESSAGE, VALUE, Draft, Drafts, Key, Messages, Written, entries_of
from loopwright.checkpoint.known import Known, Lines, Step
from loopwright.checkpoint.layout import (
    SHORT,
    TASK_BITS,
    Body,
    Content,
    Ranges,
    body_from,
    body_of,
    content_of,
    id_of,
    is_near,
    ranges_in,
    time_of,
)
from loopwright.checkpoint.reading import FOUND, Found, Reader, marks
from loopwright.checkpoint.record import Record
from loopwright.checkpoint.sql import COMMIT, Deed, Dialect, Sql, Tried, Work
from loopwright.checkpoint.thread import THREAD, Shown, Thread
from loopwright.checkpoint.words import (
    changed_meanwhile,
    check_thread_id,
    lost_checkpoint,
    no_such_checkpoint,
    taken_over,
)

__all__ = ["PAGE", "Place", "Rows", "has_checkpoints"]

PAGE: Final = 200
"""Checkpoints that a walk looks at in one go."""


class Place(NamedTuple):
    """What a walk goes over. None: all of them."""

    thread_id: str | None
    ns: str | None


class _Letter(NamedTuple):
    """A record as it is brought to a transaction: all that could be encoded before is."""

    record: Record
    changed: Collection[str] | None
    claim: int | None
    drafts: dict[str, Draft]
    body: Body
    writes: dict[str, list[Written]]
    tried: Tried[bytes]
    """The checkpoint's body, as it was about to be committed."""


class Rows:
    """The methods of a saver, as deeds."""

    def __init__(self, codec: Codec, dialect: Dialect, store: str) -> None:
        self.known: Final = Known()
        self._thread: Final = THREAD.format(following=dialect.following, life=dialect.life, lock=dialect.lock)
        self._found: Final = FOUND.format(life=dialect.life)
        self.reader: Final = Reader(codec, self.known, store)
        self._drafts: Final = Drafts(codec, self.known)

    # --- reading ----------------------------------------------------------------

    def load(self, thread_id: str, ns: str, checkpoint_id: str | None) -> Deed[Record | None]:
        check_thread_id(thread_id, "load")
        which, params = ("c.id = ?", (id_of(checkpoint_id),)) if checkpoint_id else ("c.number = s.head", ())
        find = Sql(f"{self._found} WHERE t.thread_id = ? AND s.ns = ? AND {which}", (thread_id, ns, *params))
        return partial(self._load, find, learn=True)

    def at(self, number: int) -> Deed[Record | None]:
        """The checkpoint of a number, if it is still there."""
        return partial(self._load, Sql(f"{self._found} WHERE c.number = ?", (number,)), learn=False)

    def _load(self, find: Sql, *, learn: bool) -> Work[Record | None]:
        rows = yield find
        return (yield from self.reader.record(Found(*rows[0]), learn=learn)) if rows else None

    def before(self, place: Place, checkpoint_id: str) -> Deed[int]:
        """The number of a checkpoint: of the newest, where several bear that id; 0 if there is none."""
        return partial(self._before, place, checkpoint_id)

    def _before(self, place: Place, checkpoint_id: str) -> Work[int]:
        where, params = _within(place)
        rows = yield Sql(
            f"SELECT c.number FROM loopwright_checkpoints c WHERE c.id = ?{where} ORDER BY c.number DESC LIMIT 1",
            (id_of(checkpoint_id), *params),
        )
        return rows[0][0] if rows else 0

    def page(
        self, place: Place, below: int | None, filter: Mapping[str, Any] | None, limit: int
    ) -> Deed[tuple[list[int], int | None]]:
        """Numbers of the next checkpoints of a walk, newest first, and where the page after these begins, if any."""
        return partial(self._page, place, below, list((filter or {}).items()), min(limit, PAGE))

    def _page(
        self, place: Place, below: int | None, wanted: list[tuple[str, Any]], limit: int
    ) -> Work[tuple[list[int], int | None]]:
        where, params = _within(place)
        if below is not None:
            where, params = f"{where} AND c.number < ?", (*params, below)
        size = PAGE if wanted else limit
        rows = yield Sql(
            f"SELECT c.number FROM loopwright_checkpoints c WHERE TRUE{where} ORDER BY c.number DESC LIMIT ?",
            (*params, size),
        )
        numbers = [row[0] for row in rows]
        following = numbers[-1] if len(numbers) == size else None
        if wanted and numbers:
            rows = yield Sql(
                "SELECT number, body FROM loopwright_checkpoints "
                f"WHERE number IN ({marks(len(numbers))}) ORDER BY number DESC",
                numbers,
            )
            numbers = [row[0] for row in rows if self.reader.matches(row[1], wanted)]
        return numbers, following

    # --- claims -----------------------------------------------------------------

    def claim(self, thread_id: str, seen: Record | None, run_id: str) -> Deed[int]:
        return partial(self._claim, thread_id, seen, run_id, Tried[int]())

    def _claim(self, thread_id: str, seen: Record | None, run_id: str, tried: Tried[int]) -> Work[int]:
        thread = yield from self.find(thread_id)
        if thread is not None and tried.last is not None and (thread.holder, thread.runner) == (tried.last, run_id):
            return tried.last
        if seen is not None:
            if thread is None or thread.fence != seen.fence or not (yield from self._is_stored(thread, seen)):
                raise changed_meanwhile(thread_id, thread.runner if thread else "")
        else:
            if thread is None:
                thread = yield from self.make(thread_id)
            if (yield from has_checkpoints(thread, "")):
                raise changed_meanwhile(thread_id, thread.runner)
        thread.fence += 1
        thread.holder = thread.fence
        thread.runner = run_id
        yield from thread.close()
        tried.last = thread.fence
        yield COMMIT
        self.known.runners.put((thread_id, thread.fence), run_id, 1)
        return thread.fence

    def _is_stored(self, thread: Thread, seen: Record) -> Work[bool]:
        """A fence may be given out again where a server has lost one; a checkpoint may not."""
        return (yield from self._checkpoint(thread, seen.ns, id_of(seen.id))) is not None

    def find(self, thread_id: str) -> Work[Thread | None]:
        """The row of a thread, to be written to."""
        rows = yield Sql(self._thread, (thread_id,))
        return Thread(thread_id, rows[0]) if rows else None

    def make(self, thread_id: str) -> Work[Thread]:
        """The row of a thread that there was none of; somebody else may make it, or delete it, at the same moment."""
        thread: Thread | None = None
        while thread is None:
            yield Sql(
                "INSERT INTO loopwright_threads (thread_id, fence, runner, swept, items, cells) "
                "VALUES (?, 0, '', 0, 0, 0) ON CONFLICT DO NOTHING",
                (thread_id,),
            )
            thread = yield from self.find(thread_id)
        return thread

    def _open(self, thread_id: str, claim: int | None, *, must_exist: bool = False) -> Work[Thread | None]:
        """The thread to write to, if `claim` still counts; one without a claim takes it from whoever has it."""
        thread = yield from self.find(thread_id)
        if claim is not None and (thread is None or not self._holds(thread, claim)):
            raise taken_over(thread_id, thread.runner if thread else "")
        if thread is None:
            if must_exist:
                return None
            thread = yield from self.make(thread_id)
        thread.fence += 1
        if claim is None:
            thread.holder = None
            thread.runner = ""
        return thread

    def _holds(self, thread: Thread, claim: int) -> bool:
        """Whether it is this very claim, and not another run's of the same number on a server that has lost ours."""
        runner = self.known.runners.get((thread.thread_id, claim))
        return thread.holder == claim and runner in (None, thread.runner)

    # --- saving -----------------------------------------------------------------

    def save(self, record: Record, changed: Collection[str] | None, claim: int | None) -> Deed[None]:
        drafts = self._drafts
        at = record.thread_id, record.ns
        by_task: dict[str, list[Written]] = {}
        for task, channel, value in record.writes:
            by_task.setdefault(task, []).append(drafts.written(channel, value, at))
        versions = {name: version for name, version in record.versions.items() if name in record.values}
        body = Body(
            record.step,
            record.source,
            time_of(record.created_at),
            {},
            drafts.due(record.pending),
            drafts.plain(record.metadata, "metadata") if record.metadata else None,
            drafts.plain(versions, "versions") if versions else None,
            drafts.plain(record.versions_seen, "versions_seen") if record.versions_seen else None,
            None if record.account is None else drafts.plain(record.account, "account"),
        )
        values = {
            name: self._draft(record, name)
            for name in record.values
            if changed is None or name in changed or record.parent_id is None
        }
        letter = _Letter(record, None if changed is None else frozenset(changed), claim, values, body, by_task, Tried())
        return lambda: self.reader.whole(record.thread_id, self._save(letter))

    def _draft(self, record: Record, name: str) -> Draft:
        return self._drafts.of(record.values[name], f'state["{name}"]', (record.thread_id, record.ns, name))

    def _save(self, letter: _Letter) -> Work[None]:
        record = letter.record
        thread = yield from self._open(record.thread_id, letter.claim)
        assert thread is not None
        own, parent_id = id_of(record.id), None if record.parent_id is None else id_of(record.parent_id)
        space, parent = yield from self._parent(thread, record.ns, parent_id)
        if letter.tried.last is not None:
            rows = yield Sql("SELECT body FROM loopwright_checkpoints WHERE space = ? AND id = ?", (space, own))
            if rows == [(letter.tried.last,)]:
                return
        cells: dict[str, Shown] = {}
        lines: dict[Key, Lines] = {}
        for name in record.values:
            last = None if parent is None else parent.cells.get(name)
            if last is not None and letter.changed is not None and name not in letter.changed:
                cells[name] = last
                continue
            draft = letter.drafts.get(name) or self._draft(record, name)
            if isinstance(draft, Messages):
                draft, lines[record.thread_id, record.ns, name] = yield from self._numbered(thread, draft, last)
            cells[name] = yield from self._cell(thread, draft, last)
        written: dict[str, bytes] = {}
        for task, entries in letter.writes.items():
            written[task] = yield from self._entries(thread, entries, cells)
        body = copy(letter.body)
        body.cells = cells
        if parent is not None and parent.versions is not None:
            body.versions = self._versions(letter, parent, body)
        data = letter.tried.last = body_of(body)
        if thread.following is None or written:
            number = yield from _put(thread, space, own, parent_id, data)
            for task, row in written.items():
                yield from _put_writes(number, task, row)
        else:
            number = yield from _put_unasked(thread, thread.following, space, own, parent_id, data)
        yield from thread.close()
        yield COMMIT
        self._learn(thread, lines)
        self.known.steps.put((thread.mark, record.ns, own), Step(space, number, body), 1)

    def _parent(self, thread: Thread, ns: str, parent: bytes | None) -> Work[tuple[int, Body | None]]:
        """The number of the namespace, and the body of the parent, if that is stored."""
        known = None if parent is None else self.known.steps.get((thread.mark, ns, parent))
        if known is not None:
            return known.space, known.body
        space = yield from _space(thread, ns)
        rows = yield Sql("SELECT body FROM loopwright_checkpoints WHERE space = ? AND id = ?", (space, parent))
        return space, body_from(rows[0][0]) if rows else None

    def _versions(self, letter: _Letter, parent: Body, body: Body) -> bytes | None:
        """Versions that are somebody's own, of channels that did not change, hold on."""
        inherited = self.reader.plain(parent.versions, "versions")
        held = {name: version for name, version in inherited.items() if body.cells.get(name) == parent.cells.get(name)}
        own = {name: version for name, version in letter.record.versions.items() if name in body.cells}
        return self._drafts.plain({**held, **own}, "versions") if held or own else None

    def save_writes(
        self,
        thread_id: str,
        ns: str,
        checkpoint_id: str,
        task_id: str,
        writes: Sequence[tuple[str, Any]],
        claim: int | None,
    ) -> Deed[None]:
        entries = [self._drafts.written(channel, value, (thread_id, ns)) for channel, value in writes]
        tried = Tried[bytes]()
        return lambda: self.reader.whole(
            thread_id, self._save_writes(thread_id, ns, checkpoint_id, task_id, entries, claim, tried)
        )

    def _save_writes(
        self,
        thread_id: str,
        ns: str,
        checkpoint_id: str,
        task_id: str,
        entries: list[Written],
        claim: int | None,
        tried: Tried[bytes],
    ) -> Work[None]:
        thread = yield from self._open(thread_id, claim, must_exist=True)
        found = None if thread is None else (yield from self._checkpoint(thread, ns, id_of(checkpoint_id)))
        if thread is None or found is None:
            raise (no_such_checkpoint if claim is None else lost_checkpoint)(thread_id, checkpoint_id)
        number, body = found
        if tried.last is not None and (yield from _writes_of(number, task_id)) == tried.last:
            return
        row = tried.last = yield from self._entries(thread, entries, body.cells)
        yield from _put_writes(number, task_id, row)
        yield from thread.close()
        yield COMMIT
        self._learn(thread, {})

    def _checkpoint(self, thread: Thread, ns: str, id: bytes) -> Work[tuple[int, Body] | None]:
        """The number and the body of a checkpoint, if it is stored."""
        known = self.known.steps.get((thread.mark, ns, id))
        if known is not None:
            return known.number, known.body
        rows = yield Sql(
            "SELECT c.number, c.body FROM loopwright_spaces s JOIN loopwright_checkpoints c ON c.space = s.number "
            "WHERE s.thread = ? AND s.ns = ? AND c.id = ?",
            (thread.number, ns, id),
        )
        return (rows[0][0], body_from(rows[0][1])) if rows else None

    # --- numbers ----------------------------------------------------------------

    def _numbered(self, thread: Thread, draft: Messages, last: Shown | None) -> Work[tuple[bytes, Lines]]:
        """The content of a cell that shows these messages, and what is then known of them."""
        draft = self._current(thread, draft)
        again: Mapping[bytes, int] = {}
        if last is not None and not draft.ranges.length:
            again = yield from self._items_again(thread, draft, last)
        ranges = self._ranges(thread, draft, again)
        new = sum(len(entry) for entry in draft.rest if isinstance(entry, bytes))
        size = new if draft.lines is None else draft.lines.size + new
        lines = Lines(thread.mark, draft.items, draft.buffer, ranges, size, draft.whole)
        if draft.lines is not None and draft.buffer is draft.lines.buffer and ranges.length < draft.lines.ranges.length:
            lines = draft.lines  # an older version of what is known
        return ranges.content(draft.kind), lines

    def _ranges(self, thread: Thread, draft: Messages, again: Mapping[bytes, int]) -> Ranges:
        """The numbers of messages; those that are stored nowhere get new ones."""
        return draft.ranges.then(
            entry if isinstance(entry, int) else again.get(entry) or self._item(thread, entry) for entry in draft.rest
        )

    def _item(self, thread: Thread, blob: bytes) -> int:
        """The number of a message."""
        return self.known.numbers.get((thread.mark, blob)) or thread.item(blob)

    def _current(self, thread: Thread, draft: Messages) -> Messages:
        """The draft, if the numbers in it are still good; else one without any."""
        return draft if draft.lines is None or draft.lines.mark == thread.mark else self._drafts.anew(draft)

    def _items_again(self, thread: Thread, draft: Messages, last: Shown) -> Work[dict[bytes, int]]:
        """The messages of the last version, as bytes, if the draft has more that are unknown than were added.

        It was rebuilt, or somebody else has made it, of the same messages as other objects.
        """
        content = yield from self._content(thread, last)
        ranges = ranges_in(content.data)
        unknown = sum(isinstance(entry, bytes) for entry in draft.rest)
        if ranges is None or unknown <= max(draft.length - ranges.length, 0):
            return {}
        items = yield from self.reader.items(thread.mark, ranges.runs())
        return {bytes(blob): number for blob, number in zip(items.of(ranges), ranges, strict=True)}

    def _cell(self, thread: Thread, data: bytes, last: Shown | None) -> Work[Shown]:
        """A cell that says this: the last one, if it does, or one that a task has written since."""
        before = None if last is None else (yield from self._content(thread, last))
        if last is not None and before is not None and before.data == data:
            return last
        written = self.known.numbers.get((thread.mark, data)) if len(data) > SHORT else None
        if written is not None and written > _number(last):  # what changed has a higher number
            return written
        return thread.cell(data, before, last) if isinstance(last, int) else thread.cell(data, None, None)

    def _entries(self, thread: Thread, entries: list[Written], shown: Mapping[str, Shown]) -> Work[bytes]:
        """What a task has written, as a row holds it. `shown`: the cells of its checkpoint."""
        row: list[tuple[str, str, Any]] = []
        for channel, kind, payload in entries:
            if isinstance(payload, Messages):
                row.append((channel, kind, self._ranges(thread, self._current(thread, payload), {}).pairs))
            elif kind == MESSAGE:
                row.append((channel, kind, self._item(thread, payload)))
            elif kind == VALUE and (cell := (yield from self._near(thread, payload, shown.get(channel)))) is not None:
                row.append((channel, CELL, cell))
            else:
                row.append((channel, kind, payload))
        return entries_of(row)

    def _near(self, thread: Thread, value: bytes, last: Shown | None) -> Work[int | None]:
        """The cell of a written value, if it is much the same as what the channel holds."""
        if len(value) <= SHORT or not isinstance(last, int):
            return None
        data = content_of(value)
        if not is_near(data, (yield from self._content(thread, last))):
            return None
        cell = yield from self._cell(thread, data, last)
        assert isinstance(cell, int)
        thread.written[data] = cell
        return cell

    def _content(self, thread: Thread, cell: Shown) -> Work[Content]:
        number = _number(cell)
        content = thread.contents.get(number)
        return content or (yield from self.reader.contents(thread.mark, (cell,)))[number]

    def _learn(self, thread: Thread, lines: dict[Key, Lines]) -> None:
        for cell, content in thread.contents.items():
            self.known.contents.put((thread.mark, cell), content, len(content.data))
        for data, number in (*thread.new_items.items(), *thread.written.items()):
            self.known.numbers.put((thread.mark, data), number, len(data))
        for key, value in lines.items():
            self.known.lines.put(key, value._replace(mark=thread.mark), value.size)


def _number(cell: Shown | None) -> int:
    """The number of a cell; 0 for none."""
    return cell[0] if isinstance(cell, tuple) else cell or 0


def has_checkpoints(thread: Thread, ns: str | None = None) -> Work[bool]:
    """Whether a namespace of it has any; None: whether the thread has."""
    where, params = ("", ()) if ns is None else (" AND ns = ?", (ns,))
    rows = yield Sql(f"SELECT 1 FROM loopwright_spaces WHERE thread = ?{where} LIMIT 1", (thread.number, *params))
    return bool(rows)


def _space(thread: Thread, ns: str) -> Work[int]:
    """The number of a namespace of a thread."""
    rows = yield Sql("SELECT number FROM loopwright_spaces WHERE thread = ? AND ns = ?", (thread.number, ns))
    if not rows:
        rows = yield Sql(
            "INSERT INTO loopwright_spaces (thread, ns) VALUES (?, ?) RETURNING number", (thread.number, ns)
        )
    return rows[0][0]


def _put(thread: Thread, space: int, id: bytes, parent: bytes | None, body: bytes) -> Work[int]:
    """The number of the checkpoint, which is now the head of its namespace."""
    rows = yield Sql(
        "INSERT INTO loopwright_checkpoints (space, id, parent, body) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (space, id) DO NOTHING RETURNING number",
        (space, id, parent, body),
    )
    if not rows:
        rows = yield Sql(
            "UPDATE loopwright_checkpoints SET parent = ?, body = ? WHERE space = ? AND id = ? RETURNING number",
            (parent, body, space, id),
        )
        thread.swept += 1  # what anybody remembers of it is no longer so
    number = rows[0][0]
    yield Sql("UPDATE loopwright_spaces SET head = ? WHERE number = ?", (number, space))
    return number


def _put_unasked(thread: Thread, number: int, space: int, id: bytes, parent: bytes | None, body: bytes) -> Work[int]:
    """The same where each answer takes a trip: with a number drawn before, and nothing asked.

    If one of that id was stored, it keeps its number, and the `swept` of the thread tells everybody.
    """
    yield Sql(
        "INSERT INTO loopwright_checkpoints (number, space, id, parent, body) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (space, id) DO UPDATE SET parent = excluded.parent, body = excluded.body",
        (number, space, id, parent, body),
    )
    stored = "(SELECT number FROM loopwright_checkpoints WHERE space = ? AND id = ?)"
    yield Sql(f"UPDATE loopwright_spaces SET head = {stored} WHERE number = ?", (space, id, space))
    yield Sql(
        f"UPDATE loopwright_threads SET swept = swept + 1 WHERE number = ? AND {stored} <> ?",
        (thread.number, space, id, number),
    )
    return number


def _put_writes(checkpoint: int, task: str, entries: bytes) -> Work[None]:
    """What a task has written, in place of what it had written before."""
    inside = checkpoint << TASK_BITS, (checkpoint + 1) << TASK_BITS
    id = id_of(task)
    yield Sql(
        "UPDATE loopwright_writes SET blob = ? WHERE place >= ? AND place < ? AND task = ?", (entries, *inside, id)
    )
    yield Sql(
        "INSERT INTO loopwright_writes (place, task, blob) SELECT following, ?, ? FROM (SELECT "
        "COALESCE(MAX(place) + 1, ?) AS following, COUNT(CASE WHEN task = ? THEN 1 END) AS known "
        "FROM loopwright_writes WHERE place >= ? AND place < ?) AS those WHERE known = 0",
        (id, entries, inside[0], id, *inside),
    )


def _writes_of(checkpoint: int, task: str) -> Work[bytes | None]:
    rows = yield Sql(
        "SELECT blob FROM loopwright_writes WHERE place >= ? AND place < ? AND task = ?",
        (checkpoint << TASK_BITS, (checkpoint + 1) << TASK_BITS, id_of(task)),
    )
    return rows[0][0] if rows else None


def _within(place: Place) -> tuple[str, tuple[Any, ...]]:
    """The condition that checkpoints lie in a place."""
    if place.thread_id is None:
        if place.ns is None:
            return "", ()
        return " AND c.space IN (SELECT number FROM loopwright_spaces WHERE ns = ?)", (place.ns,)
    thread = "(SELECT number FROM loopwright_threads WHERE thread_id = ?)"
    if place.ns is None:
        return f" AND c.space IN (SELECT number FROM loopwright_spaces WHERE thread = {thread})", (place.thread_id,)
    return (
        f" AND c.space = (SELECT number FROM loopwright_spaces WHERE thread = {thread} AND ns = ?)",
        (place.thread_id, place.ns),
    )
