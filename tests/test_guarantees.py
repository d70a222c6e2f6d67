"""Every promise in docs/guarantees.md names a test that exists, and every test of a kill stands there."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE = (DOCS / "guarantees.md").read_text(encoding="utf-8")
NAMED = re.findall(r"\[`(test_\w+)`\]\(([^)]+)\)", PAGE)
ROWS = re.findall(r"^\| (?!promise|---|`|is saved)(.+) \| (.*) \| (.*) \| (.*) \|$", PAGE, re.MULTILINE)


def names_in(path: Path) -> set[str]:
    return set(re.findall(r"^ *(?:async )?def (test_\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE))


def test_every_named_test_exists():
    assert [(name, file) for name, file in NAMED if name not in names_in(DOCS / file)] == []


def test_every_promise_names_a_test():
    assert len(ROWS) > 20
    assert [promise for promise, *_, shown in ROWS if "`test_" not in shown and shown != "the same"] == []


def test_every_test_of_a_crash_is_named():
    crash = {name for path in DOCS.parent.glob("tests/crash/test_*.py") for name in names_in(path)}
    assert sorted(crash - {name for name, _ in NAMED}) == []
