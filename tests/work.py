"""Work counted, not timed: how many bytecodes a call executes, on whatever thread it does so.

What is done in C (copying a list of pointers, looking a key up) counts as one. So a count that does not grow says that
nothing is walked in Python; and no other process on the machine can change it.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

__all__ = ["work_by_place", "work_of"]


def work_of(function: Callable[[], Any]) -> int:
    """Bytecodes executed by a call."""
    return sum(work_by_place(function).values())


def work_by_place(function: Callable[[], Any]) -> Counter[str]:
    """Bytecodes executed by a call, by the function they belong to: to find out where it goes."""
    counts: Counter[Any] = Counter()

    def trace(frame: Any, event: str, _: Any) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        code = frame.f_code

        def count(frame: Any, event: str, _: Any) -> Any:
            if event == "opcode":
                counts[code] += 1
            return count

        return count

    before = sys.gettrace()
    threading.settrace(trace)
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
        threading.settrace(None)  # type: ignore[arg-type]
    return Counter({f"{code.co_filename}:{code.co_firstlineno} {code.co_name}": n for code, n in counts.items()})
