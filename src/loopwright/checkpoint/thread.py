"""The row of a thread, and what the work that holds it is about to add.

A thread's fence begins where no other thread's can be, so a run that was under way when its thread was deleted and made
anew does not take the new one for its own.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from loopwright.checkpoint.known import Mark
from loopwright.checkpoint.layout import INLINE, NUMBER_BITS, Content, cell_after
from loopwright.checkpoint.sql import Row, Sql, Work

__all__ = ["THREAD", "Shown", "Thread"]

_FENCE_BITS: Final = 32

THREAD: Final = (
    "SELECT number, fence, holder, runner, swept, items, cells, {following}, {life} FROM loopwright_threads "
    "WHERE thread_id = ?{lock}"
)
"""With a dialect's words."""

Shown: TypeAlias = int | tuple[int, bytes]
"""How a checkpoint shows a cell: `Body.cells`."""


class Thread:
    """The row of a thread, and what the work that holds it is about to add."""

    def __init__(self, thread_id: str, row: Row) -> None:
        self.thread_id: Final = thread_id
        self.number: Final[int] = row[0]
        self.fence: int = row[1] or self.number << _FENCE_BITS
        self.holder: int | None = row[2]
        self.runner: str = row[3]
        self.swept: int = row[4]
        self._swept: Final = self.swept
        self._items: int = row[5]
        self._cells: int = row[6]
        self.following: Final[int | None] = row[7]
        """The number of the next checkpoint, if it was drawn."""
        self._life: Final[int] = row[8]
        self.new_items: Final[dict[bytes, int]] = {}
        self.new_cells: Final[list[tuple[Any, ...]]] = []
        self.contents: Final[dict[int, Content]] = {}
        self.written: Final[dict[bytes, int]] = {}
        """Cells of what tasks have written, by content."""

    @property
    def mark(self) -> Mark:
        return Mark(self.number, self.swept, self._life)

    def item(self, blob: bytes) -> int:
        """The number of a message that is not stored yet."""
        number = self.new_items.get(blob)
        if number is None:
            self._items += 1
            number = self.new_items[blob] = self._items
        return number

    def cell(self, data: bytes, before: Content | None, base: int | None) -> Shown:
        """A new cell; a short content stands in the checkpoint."""
        self._cells += 1
        if len(data) <= INLINE:
            return self._cells, data
        cell, self.contents[self._cells] = cell_after(data, before, base)
        self.new_cells.append((self.number << NUMBER_BITS | self._cells, *cell))
        return self._cells

    def take_numbers_of(self, other: Thread) -> None:
        """Number on from where another thread is, whose rows were copied."""
        self._items, self._cells = other._items, other._cells

    def close(self) -> Work[None]:
        """Write what was added."""
        origin = self.number << NUMBER_BITS
        if self.new_items:
            rows = [(origin + number, blob) for blob, number in self.new_items.items()]
            yield Sql("INSERT INTO loopwright_items (place, blob) VALUES (?, ?)", rows, many=True)
        if self.new_cells:
            yield Sql(
                "INSERT INTO loopwright_cells (place, base, prefix, suffix, blob) VALUES (?, ?, ?, ?, ?)",
                self.new_cells,
                many=True,
            )
        yield Sql(
            "UPDATE loopwright_threads SET fence = ?, holder = ?, runner = ?, swept = swept + ?, items = ?, cells = ? "
            "WHERE number = ?",
            (self.fence, self.holder, self.runner, self.swept - self._swept, self._items, self._cells, self.number),
        )
