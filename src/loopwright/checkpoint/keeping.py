"""Deeds on whole threads: forgetting, copying, measuring. Beside `rows.py`, and by the same rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple

from loopwright.checkpoint.base import SizeReport, Strategy
from loopwright.checkpoint.drafts import CELL, MESSAGE, VALUE, entries_from
from loopwright.checkpoint.known import Mark
from loopwright.checkpoint.layout import NUMBER_BITS, TASK_BITS, Ranges, body_from, ranges_in, time_from
from loopwright.checkpoint.reading import marks
from loopwright.checkpoint.rows import Rows, has_checkpoints
from loopwright.checkpoint.sql import COMMIT, Deed, Row, Sql, Tried, Work
from loopwright.checkpoint.thread import Thread
from loopwright.checkpoint.words import check_prune, check_thread_id, is_older, no_source, target_exists

__all__ = ["Keeping"]

_MANY: Final = 500
"""Parameters of one statement."""

_OF_CHECKPOINT: Final = f"w.place >= c.number * {1 << TASK_BITS} AND w.place < (c.number + 1) * {1 << TASK_BITS}"
_SPACES_OF: Final = "SELECT number FROM loopwright_spaces WHERE thread = ?"


class _Kept(NamedTuple):
    """A checkpoint that `prune` looks at."""

    number: int
    id: bytes
    parent: bytes | None
    body: bytes

    def is_older(self, moment: datetime | None) -> bool:
        return moment is None or is_older(time_from(body_from(self.body).created_at), moment)


class Keeping:
    """Keeps house among the rows."""

    def __init__(self, rows: Rows) -> None:
        self._rows: Final = rows

    # --- deleting ---------------------------------------------------------------

    def delete(self, thread_id: str) -> Deed[None]:
        check_thread_id(thread_id, "delete_thread")
        return partial(self._delete, thread_id)

    def _delete(self, thread_id: str) -> Work[None]:
        thread = yield from self._rows.find(thread_id)
        if thread is not None:
            yield from _erase(thread)
            yield COMMIT

    # --- copying ----------------------------------------------------------------

    def copy(self, source_thread_id: str, target_thread_id: str) -> Deed[None]:
        for thread_id in (source_thread_id, target_thread_id):
            check_thread_id(thread_id, "copy_thread")
        return partial(self._copy, source_thread_id, target_thread_id, Tried[int]())

    def _copy(self, source_thread_id: str, target_thread_id: str, tried: Tried[int]) -> Work[None]:
        source = yield from self._rows.find(source_thread_id)
        if source is None or not (yield from has_checkpoints(source)):
            raise no_source(source_thread_id)
        target = yield from self._rows.find(target_thread_id)
        if target is not None:
            if target.number == tried.last:
                return
            if (yield from has_checkpoints(target)):
                raise target_exists(target_thread_id)
            yield from _erase(target)  # claimed, and nothing saved: the claim counts no more
        target = yield from self._rows.make(target_thread_id)
        shift = (target.number - source.number) << NUMBER_BITS
        inside = _inside(source)
        yield Sql(
            "INSERT INTO loopwright_items (place, blob) SELECT place + ?, blob FROM loopwright_items "
            "WHERE place >= ? AND place < ?",
            (shift, *inside),
        )
        yield Sql(
            "INSERT INTO loopwright_cells (place, base, prefix, suffix, blob) "
            "SELECT place + ?, base, prefix, suffix, blob FROM loopwright_cells WHERE place >= ? AND place < ?",
            (shift, *inside),
        )
        yield Sql(
            "INSERT INTO loopwright_spaces (thread, ns) SELECT ?, ns FROM loopwright_spaces WHERE thread = ?",
            (target.number, source.number),
        )
        pairs = (
            "FROM loopwright_spaces s JOIN loopwright_checkpoints c ON c.space = s.number "
            "JOIN loopwright_spaces new ON new.thread = ? AND new.ns = s.ns"
        )
        yield Sql(
            "INSERT INTO loopwright_checkpoints (space, id, parent, body) "
            f"SELECT new.number, c.id, c.parent, c.body {pairs} "
            "WHERE s.thread = ? ORDER BY c.number",
            (target.number, source.number),
        )
        twins = f"{pairs} JOIN loopwright_checkpoints twin ON twin.space = new.number AND twin.id = c.id"
        yield Sql(
            "INSERT INTO loopwright_writes (place, task, blob) "
            f"SELECT (twin.number - c.number) * {1 << TASK_BITS} + w.place, w.task, w.blob {twins} "
            f"JOIN loopwright_writes w ON {_OF_CHECKPOINT} WHERE s.thread = ?",
            (target.number, source.number),
        )
        heads = yield Sql(
            f"SELECT twin.number, new.number {twins} WHERE s.thread = ? AND s.head = c.number",
            (target.number, source.number),
        )
        yield Sql("UPDATE loopwright_spaces SET head = ? WHERE number = ?", heads, many=True)
        target.take_numbers_of(source)
        target.fence += 1
        yield from target.close()
        tried.last = target.number
        yield COMMIT

    # --- pruning ----------------------------------------------------------------

    def prune(
        self, thread_ids: Sequence[str], strategy: Strategy, keep: int, older_than: datetime | None
    ) -> list[Deed[int]]:
        """One deed for each thread, so that none is held while another is looked through."""
        listed = check_prune(thread_ids, strategy, keep, older_than)
        keep = 0 if strategy == "delete" else keep
        return [partial(self._prune, id, keep, older_than, Tried[tuple[Mark, int]]()) for id in listed]

    def _prune(
        self, thread_id: str, keep: int, older_than: datetime | None, tried: Tried[tuple[Mark, int]]
    ) -> Work[int]:
        return self._rows.reader.whole(thread_id, self._prune_thread(thread_id, keep, older_than, tried))

    def _prune_thread(
        self, thread_id: str, keep: int, older_than: datetime | None, tried: Tried[tuple[Mark, int]]
    ) -> Work[int]:
        thread = yield from self._rows.find(thread_id)
        before, removed = tried.last or (None, 0)
        if before is not None and thread is not None and thread.mark == before:
            removed = 0  # it is as it was: what was tried has not come to be
        if thread is None:
            return removed
        spaces = yield Sql("SELECT number, ns, head FROM loopwright_spaces WHERE thread = ?", (thread.number,))
        over = yield from self._is_over(spaces)
        mark = thread.mark
        gone = left = 0
        for number, ns, head in spaces:
            # A namespace with a colon belongs to one task; once the thread waits for nothing, that task is done.
            went, stay = yield from _prune_space(number, head, 0 if over and ":" in ns else keep, older_than)
            gone += went
            left += stay
        if not left:
            yield from _erase(thread)
        elif gone:
            yield from self._sweep(thread)
            thread.swept += 1
            yield from thread.close()
        removed += gone
        if gone or not left:
            tried.last = mark, removed
            yield COMMIT
        return removed

    def _is_over(self, spaces: list[Row]) -> Work[bool]:
        """Whether the thread waits for nothing."""
        heads = [head for _, ns, head in spaces if ns == ""]
        if not heads:
            return False
        rows = yield Sql("SELECT body FROM loopwright_checkpoints WHERE number = ?", (heads[0],))
        return bool(rows) and not body_from(rows[0][0]).pending

    def _sweep(self, thread: Thread) -> Work[None]:
        """Remove the cells and items that no checkpoint shows any more."""
        bodies = yield Sql(f"SELECT body FROM loopwright_checkpoints WHERE space IN ({_SPACES_OF})", (thread.number,))
        cells = {cell for (body,) in bodies for cell in body_from(body).cells.values()}
        items: set[int] = set()
        for cell in cells:
            if not isinstance(cell, int):
                items.update(ranges_in(cell[1]) or ())
        shown = [cell for cell in cells if isinstance(cell, int)]
        for part in _parts(shown):
            contents = yield from self._rows.reader.contents(thread.mark, part)
            for content in contents.values():
                items.update(ranges_in(content.data) or ())
        tasks = yield Sql(
            f"SELECT w.blob FROM loopwright_checkpoints c JOIN loopwright_writes w ON {_OF_CHECKPOINT} "
            f"WHERE c.space IN ({_SPACES_OF})",
            (thread.number,),
        )
        for (blob,) in tasks:
            for _, kind, payload in entries_from(blob):
                if kind == CELL:
                    shown.append(payload)
                elif kind != VALUE:
                    items.update((payload,) if kind == MESSAGE else Ranges(payload))
        origin, end = _inside(thread)
        rows = yield Sql("SELECT place, base FROM loopwright_cells WHERE place >= ? AND place < ?", (origin, end))
        bases = {place - origin: base for place, base in rows}
        needed: set[int] = set()
        for number in shown:
            step: int | None = number
            while step is not None and step not in needed:
                needed.add(step)
                step = bases.get(step)
        yield from _remove("loopwright_cells", [origin + number for number in bases if number not in needed])
        rows = yield Sql("SELECT place FROM loopwright_items WHERE place >= ? AND place < ?", (origin, end))
        yield from _remove("loopwright_items", [place for (place,) in rows if place - origin not in items])

    # --- measuring --------------------------------------------------------------

    def size(self, thread_id: str | None) -> Deed[SizeReport]:
        if thread_id is not None:
            check_thread_id(thread_id, "size_report")
        return partial(self._size, thread_id)

    def _size(self, thread_id: str | None) -> Work[SizeReport]:
        ids: tuple[Any, ...] = ()
        if thread_id is not None:
            rows = yield Sql("SELECT number FROM loopwright_threads WHERE thread_id = ?", (thread_id,))
            if not rows:
                return {"bytes": 0, "threads": 0, "checkpoints": 0}
            ids = (rows[0][0],)
        places = tuple(number << NUMBER_BITS for id in ids for number in (id, id + 1))
        within = "WHERE place >= ? AND place < ?" if ids else ""
        of_thread = "WHERE s.thread = ?" if ids else ""
        spaces = "loopwright_spaces s JOIN loopwright_checkpoints c ON c.space = s.number"
        sizes = "LENGTH(c.id) + LENGTH(COALESCE(c.parent, c.id)) + LENGTH(s.ns) + LENGTH(c.body)"
        rows = yield Sql(
            f"SELECT COUNT(*), COUNT(DISTINCT s.thread), COALESCE(SUM({sizes}), 0) FROM {spaces} {of_thread}", ids
        )
        count, threads, total = rows[0]
        for blob, text, params in (
            ("blob", f"loopwright_items {within}", places),
            ("blob", f"loopwright_cells {within}", places),
            ("w.blob", f"{spaces} JOIN loopwright_writes w ON {_OF_CHECKPOINT} {of_thread}", ids),
        ):
            rows = yield Sql(f"SELECT COALESCE(SUM(LENGTH({blob})), 0) FROM {text}", params)
            total += rows[0][0]
        return {"bytes": int(total), "threads": threads, "checkpoints": count}


def _inside(thread: Thread) -> tuple[int, int]:
    """The places of a thread: from, and up to."""
    return thread.number << NUMBER_BITS, (thread.number + 1) << NUMBER_BITS


def _erase(thread: Thread) -> Work[None]:
    """Remove all rows of a thread."""
    inside = _inside(thread)
    rows = yield Sql(f"SELECT number FROM loopwright_checkpoints WHERE space IN ({_SPACES_OF})", (thread.number,))
    yield from _remove_writes([number for (number,) in rows])
    yield Sql(f"DELETE FROM loopwright_checkpoints WHERE space IN ({_SPACES_OF})", (thread.number,))
    yield Sql("DELETE FROM loopwright_spaces WHERE thread = ?", (thread.number,))
    yield Sql("DELETE FROM loopwright_cells WHERE place >= ? AND place < ?", inside)
    yield Sql("DELETE FROM loopwright_items WHERE place >= ? AND place < ?", inside)
    yield Sql("DELETE FROM loopwright_threads WHERE number = ?", (thread.number,))


def _remove_writes(checkpoints: list[int]) -> Work[None]:
    spans = [(number << TASK_BITS, (number + 1) << TASK_BITS) for number in checkpoints]
    if spans:
        yield Sql("DELETE FROM loopwright_writes WHERE place >= ? AND place < ?", spans, many=True)


def _prune_space(space: int, head: int, keep: int, older_than: datetime | None) -> Work[tuple[int, int]]:
    """Drop all but the newest checkpoints of a namespace; returns how many went and how many are left."""
    rows = yield Sql(
        "SELECT number, id, parent, body FROM loopwright_checkpoints WHERE space = ? ORDER BY number", (space,)
    )
    found = [_Kept(number, bytes(id), parent and bytes(parent), body) for number, id, parent, body in rows]
    stay = {*(each.number for each in found[-keep:]), head} if keep else set[int]()
    gone = [each for each in found if each.number not in stay and each.is_older(older_than)]
    dropped = {each.id: each.parent for each in gone}
    kept = [each for each in found if each.id not in dropped]
    moved: list[tuple[bytes | None, int]] = []
    for each in kept:
        parent = each.parent
        while parent in dropped:  # children hang on to the nearest ancestor that is left
            parent = dropped[parent]
        if parent != each.parent:
            moved.append((parent, each.number))
    if moved:
        yield Sql("UPDATE loopwright_checkpoints SET parent = ? WHERE number = ?", moved, many=True)
    numbers = [each.number for each in gone]
    yield from _remove_writes(numbers)
    yield from _remove("loopwright_checkpoints", numbers, "number")
    if not kept:
        yield Sql("DELETE FROM loopwright_spaces WHERE number = ?", (space,))
    elif head in numbers:
        yield Sql("UPDATE loopwright_spaces SET head = ? WHERE number = ?", (kept[-1].number, space))
    return len(gone), len(kept)


def _remove(table: str, keys: list[int], column: str = "place") -> Work[None]:
    for part in _parts(keys):
        yield Sql(f"DELETE FROM {table} WHERE {column} IN ({marks(len(part))})", part)


def _parts(keys: list[int]) -> Iterable[list[int]]:
    return (keys[start : start + _MANY] for start in range(0, len(keys), _MANY))
