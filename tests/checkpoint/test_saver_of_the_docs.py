"""The saver that docs/savers.md shows in full keeps what every saver promises."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from loopwright.checkpoint.conformance import SaverConformance

PAGE = Path(__file__).resolve().parents[2] / "docs/savers.md"


def shown() -> type[Any]:
    """The class, from the block of the page that has it."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (code,) = [block for block in blocks if "class RowSaver" in block]
    namespace: dict[str, Any] = {"__name__": __name__}
    exec(compile(code, str(PAGE), "exec"), namespace)
    return namespace["RowSaver"]


RowSaver = shown()


class TestRowSaver(SaverConformance):
    many = 500
    test_a_store_grows_with_what_was_said = None  # it keeps each value in full  # pyright: ignore[reportAssignmentType]
    test_what_a_task_returns_whole_is_stored_once = None  # the same  # pyright: ignore[reportAssignmentType]
    test_a_history_that_is_handed_to_a_graph_inside_is_not_stored_again = None  # the same  # pyright: ignore[reportAssignmentType]
    test_a_message_is_counted_once = None  # the same  # pyright: ignore[reportAssignmentType]

    def make_saver(self, folder):
        return RowSaver()

    def reopen(self, saver):
        """Another one of the same rows, that knows no class."""
        other = RowSaver()
        other._threads, other._numbers, other._lock = saver._threads, saver._numbers, saver._lock
        return other
