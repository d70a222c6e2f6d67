"""The table in README.md tells the truth: what it names is tested there, and what waits is tested nowhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TESTS = HERE.parent
ROW = re.compile(r"^\| (B\d+) \| .* \| (.*) \|$", re.MULTILINE)
NAMED = re.compile(r"^(?:    )?(?:async )?def test_(?:(?=B\d+_)|.*# (?=B\d+$))(B\d+)", re.MULTILINE)
"""In the name; in the suite that savers' authors run, beside it."""
ROWS: dict[str, str] = dict(ROW.findall((HERE / "README.md").read_text(encoding="utf-8")))
SUITE = TESTS.parent / "src" / "loopwright" / "checkpoint" / "conformance"
"""Tests that are part of the product: our savers run them."""
RECIPES = TESTS.parent.parent / "shared" / "faults.md"


def where_tested() -> dict[str, set[str]]:
    """Number -> files with a test of it."""
    found: dict[str, set[str]] = {}
    for path in sorted([*TESTS.rglob("*.py"), *SUITE.rglob("*.py")]):
        for number in NAMED.findall(path.read_text(encoding="utf-8")):
            where = path.relative_to(SUITE.parent if path.is_relative_to(SUITE) else TESTS)
            found.setdefault(number, set()).add(where.as_posix())
    return found


def test_every_row_names_files_with_a_test_of_it():
    there = where_tested()
    named = {number: set(re.findall(r"\[([^\]]+)\]", cell)) for number, cell in ROWS.items()}
    assert {number: files - there.get(number, set()) for number, files in named.items() if files} == {
        number: set() for number, files in named.items() if files
    }


def test_what_is_not_tested_says_what_it_waits_for():
    waiting = {number for number, cell in ROWS.items() if cell.startswith("later: ")}
    assert waiting == ROWS.keys() - where_tested().keys()


@pytest.mark.skipif(not RECIPES.exists(), reason="no ../shared/faults.md beside this project")
def test_every_recipe_has_a_row():
    recipes = re.findall(r"^\*\*(B\d+) ", RECIPES.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(ROWS) == sorted(recipes)
