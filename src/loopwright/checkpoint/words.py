"""What all savers say in the same words, and the checks that they share; for the authors of savers, too.

The functions return the error to raise, of the class and with the names that `base.py` asks for:

    if thread.fence != seen.fence:
        raise changed_meanwhile(thread_id, thread.runner)

`runner` is the `run_id` of the run that has claimed the thread, or had; "" if it was written to without a claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, cast

from loopwright.errors import SaverError, ThreadConflictError, UsageError

__all__ = [
    "changed_meanwhile",
    "check_prune",
    "check_thread_id",
    "is_older",
    "lost_checkpoint",
    "no_source",
    "no_such_checkpoint",
    "taken_over",
    "target_exists",
]


def changed_meanwhile(thread_id: str, runner: str) -> ThreadConflictError:
    """For `claim`: the thread is not as this run had read it."""
    return ThreadConflictError(
        f"Thread {thread_id!r} was changed by another run{_named(runner)} after this one had read it. "
        "This one has run nothing: call it again, and it goes on from the new state."
    )


def taken_over(thread_id: str, runner: str) -> ThreadConflictError:
    """For `save` and `save_writes`: the claim counts no more."""
    return ThreadConflictError(
        f"Thread {thread_id!r} was taken over by another run{_named(runner)}, or deleted, while this one was "
        "under way. What this one has done since is not saved; the thread is as the other one left it. "
        "Call it again to go on from there, one run at a time."
    )


def no_such_checkpoint(thread_id: str, checkpoint_id: str) -> UsageError:
    """For `save_writes`."""
    return UsageError(f"Thread {thread_id!r} has no checkpoint {checkpoint_id!r} that writes could belong to.")


def lost_checkpoint(thread_id: str, checkpoint_id: str) -> SaverError:
    """For `save_writes` with a claim that counts: this run has saved the checkpoint, and it is not there."""
    return SaverError(
        f"thread {thread_id!r} has lost the checkpoint {checkpoint_id!r}, which this run had saved. A replica that "
        "takes over from a server may lack its last commits. What the run has done since is not saved: call it again, "
        "and it goes on from what is there."
    )


def no_source(thread_id: str) -> UsageError:
    """For `copy_thread`."""
    return UsageError(f"There is no thread {thread_id!r} to copy.")


def target_exists(thread_id: str) -> UsageError:
    """For `copy_thread`."""
    return UsageError(f"Thread {thread_id!r} exists already. Copy to a new name, or delete_thread() it first.")


def check_thread_id(thread_id: Any, call: str) -> None:
    """Raise `UsageError` for what is no thread's id; `call` is the method that was given it."""
    if isinstance(thread_id, str):
        return
    if isinstance(thread_id, Mapping):
        place: Any = cast("Mapping[str, Any]", thread_id).get("configurable")
        named: Any = cast("Mapping[str, Any]", place).get("thread_id") if isinstance(place, Mapping) else None
        meant = named if isinstance(named, str) else "1"
        raise UsageError(f"{call} takes the id of a thread, not a config: write {call}({meant!r}).")
    hint = f": write {str(thread_id)!r}" if isinstance(thread_id, int) else ""
    raise UsageError(f"{call}({thread_id!r:.80}): a thread id is a str, not of type {type(thread_id).__name__}{hint}.")


def check_prune(thread_ids: Iterable[str], strategy: Any, keep: int, older_than: datetime | None) -> list[str]:
    """For `prune`, at its beginning: the ids as a list. Raises `UsageError` for what it cannot mean."""
    if strategy not in ("keep_latest", "delete"):
        raise UsageError(f'prune(strategy={strategy!r}): write "keep_latest" or "delete".')
    if keep < 1:
        raise UsageError(f'prune(keep={keep}): at least 1; to delete whole threads write strategy="delete".')
    given: Any = thread_ids
    if isinstance(given, str):
        raise UsageError(f"prune takes a list of thread ids: prune([{given!r}]).")
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise UsageError(f'prune takes a list of thread ids, prune(["1"]); got {type(given).__name__}.')  # pyright: ignore[reportUnknownArgumentType]
    listed = list(thread_ids)
    for thread_id in listed:
        check_thread_id(thread_id, "prune")
    if older_than is not None and older_than.tzinfo is None:
        raise UsageError(
            "prune(older_than=...): give the datetime a time zone: datetime.now(timezone.utc) - timedelta(...)."
        )
    return listed


def is_older(created_at: str, moment: datetime | None) -> bool:
    """For `prune`: whether a checkpoint was created before a moment; None is the end of time."""
    if moment is None:
        return True
    try:
        return datetime.fromisoformat(created_at) < moment
    except (ValueError, TypeError):
        return False  # put by somebody else, without a time that can be compared


def _named(runner: str) -> str:
    return f" ({runner})" if runner else ""
