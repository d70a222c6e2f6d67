"""Checkpoints to test with."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from loopwright.checkpoint.base import BaseCheckpointSaver, Record

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def record(id: str, parent: str | None = None, thread: str = "t", /, **fields) -> Record:
    """A checkpoint whose time of creation grows with the digits of its id."""
    digits = int("".join(letter for letter in id if letter.isdigit()) or 0)
    fields.setdefault("created_at", (MOMENT + timedelta(seconds=digits)).isoformat())
    return Record(id=id, parent_id=parent, thread_id=thread, **fields)


def loaded(saver: BaseCheckpointSaver, thread: str = "t", id: str | None = None) -> Record:
    """A checkpoint that must be there."""
    found = saver.load(thread, "", id)
    assert found is not None
    return found


def said(history: list | None) -> list[str]:
    return [message.text for message in history or []]


def ids(records) -> list[str]:
    return [found.id for found in records]
