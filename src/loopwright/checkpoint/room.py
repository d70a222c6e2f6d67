"""How deep values may be nested, and room on the stack for it, however deep the caller is in its own.

Each level of nesting takes a few frames, more for reading than for writing. So what a saver takes is limited by
number, not by the room that happens to be left; and where too little is left, the work is done on a thread of its own,
which has a stack of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar

from loopwright.checkpoint.kinds import Refused
from loopwright.errors import UnstorableError

__all__ = ["DEEPEST", "TOO_DEEP", "unstorable", "with_room"]

P = ParamSpec("P")
T = TypeVar("T")

DEEPEST: Final = 100
"""Levels of lists, dicts, objects and the like around a value. A stack of its own has room to read as many."""
TOO_DEEP: Final = (
    f"nested more than {DEEPEST} deep, or contains itself. Store it flat: as a list of parts that name each other."
)
_SHOWN: Final = 40
"""Steps of a path that are shown of one that long."""


def unstorable(path: str, refused: Refused) -> UnstorableError:
    """The error for what was refused, with the path to it."""
    steps = refused.trail[::-1]
    if len(steps) > _SHOWN:
        steps[_SHOWN:] = ["..."]
    return UnstorableError(f"{path}{''.join(steps)} cannot be stored: it is {refused.reason}")


def with_room(work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """What `work` returns or raises. It may be begun twice, the second time on another thread."""
    try:
        return work(*args, **options)
    except RecursionError:
        pass
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work(*args, **options))
        except BaseException as error:  # noqa: BLE001 - raised again on the thread that asked
            errors.append(error)

    thread: Any = threading.Thread(target=run, name="loopwright-deep-value")
    thread.start()
    thread.join()
    if errors:
        try:
            raise errors.pop()
        finally:
            errors.clear()
    return results[0]
