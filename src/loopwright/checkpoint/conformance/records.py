"""Checkpoints to test with."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import pytest

from loopwright.checkpoint.base import Record

__all__ = ["MOMENT", "Saver", "ids", "loaded", "record", "refused", "said"]

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


@contextmanager
def refused(kind: type[Exception], *names: str) -> Generator[None]:
    """What stands below must raise `kind`, in words of its own choice among which these names are."""
    with pytest.raises(kind) as caught:
        yield
    assert [name for name in names if not _names(str(caught.value), name)] == []


def _names(text: str, name: str) -> bool:
    """Whether a text has a name, and not only as a part of a word."""
    edges = [r"\b" if edge.isalnum() else "" for edge in (name[0], name[-1])]
    return re.search(re.escape(name).join(edges), text) is not None


def said(history: list[Any] | None) -> list[str]:
    """The words of messages."""
    return [message.text for message in history or []]


def ids(records: Iterable[Record]) -> list[str]:
    """Their ids, in the order they come."""
    return [found.id for found in records]
