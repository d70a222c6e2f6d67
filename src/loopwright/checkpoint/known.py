"""What a saver remembers of what it has stored, so that it looks only at what is new.

All of it may be forgotten at any time; then it is read again. It can never be wrong: an item and a cell keep their
number and their bytes for ever, and a checkpoint its body, until rows are removed or one is saved again, and then the
thread's `swept` is another; a thread that was deleted and made anew has another number. A server that takes over from
another one may have lost what that had committed, and gives its numbers out again: it has another `life`. So whatever
is remembered goes with `(thread, swept, life)`, and counts only where the row of the thread says the same, in the
transaction that uses it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, NamedTuple, TypeVar

from loopwright.checkpoint.layout import Body, Content, Ranges
from loopwright.messages.base import BaseMessage
from loopwright.messages.history import Buffer

__all__ = ["Known", "Lines", "Mark", "Shelf", "Step"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_BYTES: Final = 32 << 20
"""Of messages, as encoded, and of cells, each."""
_NEW: Final = 4 << 20
"""Of what was stored lately, as encoded."""
_STEPS: Final = 1000
"""Checkpoints."""


class Mark(NamedTuple):
    """The row of a thread, how often rows of it were removed, and in which life of the server: what numbers are good
    for.
    """

    thread: int
    swept: int
    life: int


class Lines(NamedTuple):
    """A list of messages whose items have numbers."""

    mark: Mark
    items: list[BaseMessage]
    """May have grown since: only as many as there are numbers count."""
    buffer: Buffer | None
    """Whose items they are."""
    ranges: Ranges
    size: int
    """Bytes of the items."""
    whole: bool = True
    """Whether all of it could be read; else it is good for numbers only, and whoever loads it must be told."""


class Step(NamedTuple):
    """A checkpoint that is stored."""

    space: int
    number: int
    body: Body


class Shelf(Generic[K, V]):
    """What was used last, up to so many bytes. May be used from any thread."""

    def __init__(self, capacity: int) -> None:
        self._capacity: Final = capacity
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._held = 0
        self._lock: Final = threading.Lock()

    def get(self, key: K) -> V | None:
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: K, value: V, size: int) -> None:
        with self._lock:
            old = self._entries.pop(key, None)
            if old is not None:
                self._held -= old[1]
            self._entries[key] = value, size
            self._held += size
            while self._held > self._capacity and len(self._entries) > 1:
                _, (_, gone) = self._entries.popitem(last=False)
                self._held -= gone

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._held = 0


class Known:
    """All that one saver remembers."""

    def __init__(self) -> None:
        self.lines: Final[Shelf[tuple[str, str, str], Lines]] = Shelf(_BYTES)
        """By thread id, namespace and channel: the list of messages that was seen there last."""
        self.contents: Final[Shelf[tuple[Mark, int], Content]] = Shelf(_BYTES)
        """What cells say, by number."""
        self.steps: Final[Shelf[tuple[Mark, str, bytes], Step]] = Shelf(_STEPS)
        """By namespace and id: checkpoints that were saved or loaded lately. The next one is made from one of them."""
        self.numbers: Final[Shelf[tuple[Mark, bytes], int]] = Shelf(_NEW)
        """By its bytes: a message that was stored lately, or the content of a cell that a task has written.

        Whatever namespace it was stored for: it will be part of the next checkpoint, there or further out.
        """
        self.runners: Final[Shelf[tuple[str, int], str]] = Shelf(_STEPS)
        """Who has made a claim, by thread id and claim. It is true whatever a server has lost."""

    def forget(self) -> None:
        """All that is stored: what was known of it may no longer be so."""
        for shelf in (self.lines, self.contents, self.steps, self.numbers):
            shelf.clear()
