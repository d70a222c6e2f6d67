from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from loopwright.checkpoint import words
from loopwright.errors import ThreadConflictError, UsageError


def test_who_comes_second_is_told_what_became_of_it():
    late, overtaken = words.changed_meanwhile("t", "run-a"), words.taken_over("t", "run-a")

    assert type(late) is type(overtaken) is ThreadConflictError
    assert str(late).startswith(
        "Thread 't' was changed by another run (run-a) after this one had read it. This one has"
    )
    assert str(overtaken).startswith("Thread 't' was taken over by another run (run-a), or deleted, while this one was")
    assert "()" not in str(words.changed_meanwhile("t", ""))


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (words.no_such_checkpoint("t", "c1"), "Thread 't' has no checkpoint 'c1'"),
        (words.no_source("t"), "There is no thread 't' to copy"),
        (words.target_exists("t"), "Thread 't' exists already"),
    ],
)
def test_what_is_not_there_or_there_already_is_named(error, text):
    assert type(error) is UsageError
    assert text in str(error)


@pytest.mark.parametrize(
    ("threads", "options", "text"),
    [
        (["t"], {"strategy": "all"}, 'write "keep_latest" or "delete"'),
        (["t"], {"keep": 0}, 'strategy="delete"'),
        ("t", {}, r"prune\(\['t'\]\)"),
        (["t"], {"older_than": datetime(2026, 1, 1)}, "time zone"),  # noqa: DTZ001
    ],
)
def test_a_prune_that_means_nothing_is_told_what_to_write(threads: Any, options: Any, text: str):
    asked: dict[str, Any] = {"strategy": "keep_latest", "keep": 1, "older_than": None, **options}

    with pytest.raises(UsageError, match=text):
        words.check_prune(threads, **asked)


@pytest.mark.parametrize(
    ("created_at", "older"),
    [("2025-12-31T23:59:59+00:00", True), ("2026-01-01T00:00:00+00:00", False), ("2025-01-01", False), ("once", False)],
)
def test_only_a_moment_with_a_zone_can_be_older(created_at, older):
    assert words.is_older(created_at, datetime(2026, 1, 1, tzinfo=UTC)) is older
    assert words.is_older(created_at, None)
