"""Counts of the golden scenarios, shown after pytest's own summary."""

from __future__ import annotations

import pytest

COUNTS: dict[str, int] = dict.fromkeys(("same", "on purpose", "later", "unexpected", "steps_ok", "steps"), 0)


@pytest.fixture
def golden_counts() -> dict[str, int]:
    return COUNTS


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if COUNTS["steps"]:
        shown = ", ".join(f"{COUNTS[kind]} {kind}" for kind in ("same", "on purpose", "later", "unexpected"))
        terminalreporter.write_line(f"goldens: {shown}; steps {COUNTS['steps_ok']}/{COUNTS['steps']}")
