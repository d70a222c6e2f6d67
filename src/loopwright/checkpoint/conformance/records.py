"""Checkpoints to test with."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from loopwright.checkpoint.base import Record

__all__ = ["MOMENT", "Saver", "ids", "loaded", "record", "said"]

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)

Saver: TypeAlias = Any
"""A `BaseCheckpointSaver`, or what behaves like one; loosely typed, because what a test looks at must be there."""


def record(id: str, parent: str | None = None, thread: str = "t", /, **fields: Any) -> Record:
    """A checkpoint whose time of creation grows with the digits of its id."""
    digits = int("".join(letter for letter in id if letter in "0123456789")[:6] or 0)
    fields.setdefault("created_at", (MOMENT + timedelta(seconds=digits)).isoformat())
    return Record(id=id, parent_id=parent, thread_id=thread, **fields)


def loaded(saver: Saver, thread: str = "t", id: str | None = None) -> Record:
    """A checkpoint that must be there."""
    found = saver.load(thread, "", id)
    assert found is not None
    return found


def said(history: list[Any] | None) -> list[str]:
    """The words of messages."""
    return [message.text for message in history or []]


def ids(records: Iterable[Record]) -> list[str]:
    """Their ids, in the order they come."""
    return [found.id for found in records]
