"""Work counted, not timed: how many bytecodes a call executes, on whatever thread it does so.

What is done in C (copying a list of pointers, looking a key up) counts as one. So a count that does not grow says that
nothing is walked in Python; and no other process on the machine can change it.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, Self

__all__ = ["Work", "work_by_place", "work_of"]


class Work:
    """Inside of it, work is counted on this thread and on those that begin meanwhile, as long as `of` runs."""

    def __init__(self) -> None:
        self._counts: Counter[Any] = Counter()
        self._counting = False

    def __enter__(self) -> Self:
        self._before = sys.gettrace(), threading.gettrace()
        threading.settrace(self._trace)
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        here, in_threads = self._before
        sys.settrace(here)
        threading.settrace(in_threads)  # type: ignore[arg-type] - None where nobody traces

    def of(self, function: Callable[[], Any]) -> int:
        """Bytecodes executed by a call."""
        return sum(self.by_place(function).values())

    def by_place(self, function: Callable[[], Any]) -> Counter[str]:
        """Bytecodes executed by a call, by the function they belong to: to find out where it goes."""
        self._counts.clear()
        self._counting = True
        try:
            function()
        finally:
            self._counting = False
        return Counter(
            {f"{code.co_filename}:{code.co_firstlineno} {code.co_name}": n for code, n in self._counts.items()}
        )

    def _trace(self, frame: Any, event: str, _: Any) -> Any:
        if not self._counting:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        code, counts = frame.f_code, self._counts

        def count(frame: Any, event: str, _: Any) -> Any:
            if event == "opcode":
                counts[code] += 1
            return count

        return count


def work_of(function: Callable[[], Any]) -> int:
    """Bytecodes executed by a call."""
    with Work() as work:
        return work.of(function)


def work_by_place(function: Callable[[], Any]) -> Counter[str]:
    """Bytecodes executed by a call, by the function they belong to."""
    with Work() as work:
        return work.by_place(function)
