"""Scenarios recorded from LangChain, run on ours: nothing may differ that `expected.py` does not name.

The scenarios and their runner lie beside the project, in `../shared/goldens`; without them these tests are skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.goldens.expected import EXPECTED, LATER, WHOLE

ROOT = Path(__file__).resolve().parents[2]
GOLDENS = ROOT.parent / "shared" / "goldens"
TOPICS = (
    "loop", "tools", "stream", "threads", "interrupt", "hitl",
    "structured", "middleware", "model", "messages", "store", "graph",
)  # fmt: skip
"""Topics 01 to 07 and 09, by the first word of their scenarios."""

here = pytest.mark.skipif(not (GOLDENS / "harness").is_dir(), reason="no ../shared/goldens beside this project")


def run_topic(topic: str, report: Path) -> dict[str, dict[str, Any]]:
    """Scenario -> its `problems`, `steps_ok`, `steps` and `tags`."""
    command = ["-m", "harness.run", "check", "--lib", "loopwright", "--libmap", "libmap.json", "--level", "core"]
    options = ["--set", "visible", "--only", f"{topic}/", "--quiet", "--json", str(report)]
    process = subprocess.run(
        [sys.executable, "-B", *command, *options],
        cwd=GOLDENS,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        check=False,
        capture_output=True,
        text=True,
    )
    assert report.exists(), process.stdout + process.stderr
    found = json.loads(report.read_text(encoding="utf-8"))
    return {name: result for name, result in found.items() if name.startswith(f"{topic}/")}


@here
@pytest.mark.slow
@pytest.mark.parametrize("topic", TOPICS)
def test_nothing_differs_that_is_not_named(topic: str, tmp_path: Path, golden_counts: dict[str, int]) -> None:
    """A step that is named as different and no longer is fails too: the list tells the truth both ways."""
    results = run_topic(topic, tmp_path / "report.json")
    assert results, f"no scenario of {topic!r}"
    unexpected: list[str] = []
    for name, result in results.items():
        expected, differing = EXPECTED.get(name, {}), steps_of(result["problems"])
        lines = [line for step, found in differing.items() if not {step, WHOLE} & expected.keys() for line in found]
        unexpected += [f"\n{name}", *lines] if lines else []
        same = [step for step in expected if step not in differing and (step != WHOLE or not differing)]
        unexpected += [f"\n{name}: expected.py names {step!r}, which does not differ" for step in same]
        count(name, result, unexpected=bool(lines), counts=golden_counts)
    assert not unexpected, "differs from what expected.py says:" + "\n    ".join(unexpected)


def steps_of(problems: list[str]) -> dict[str, list[str]]:
    """Step -> its problems. Each begins with its step, `[invoke] .messages: ...`."""
    steps: dict[str, list[str]] = {}
    for problem in problems:
        steps.setdefault(problem[1:].partition("] ")[0], []).append(problem)
    return steps


def count(name: str, result: dict[str, Any], *, unexpected: bool, counts: dict[str, int]) -> None:
    reasons = EXPECTED.get(name, {}).values()
    if not result["problems"]:
        kind = "same"
    elif unexpected:
        kind = "unexpected"
    else:
        kind = "later" if any(reason.startswith(LATER) for reason in reasons) else "on purpose"
    counts[kind] += 1
    counts["steps_ok"] += result["steps_ok"]
    counts["steps"] += result["steps"]


@here
def test_names_are_those_of_scenarios() -> None:
    known = {path.stem.replace("__", "/", 1) for path in (GOLDENS / "visible" / "golden").glob("*.json")}
    assert sorted(set(EXPECTED) - known) == []


def test_differences_on_purpose_are_documented() -> None:
    rows = (ROOT / "docs" / "differences.md").read_text(encoding="utf-8").splitlines()
    titles = {row.split("|")[1].strip() for row in rows if row.startswith("| ")}
    named = {row for steps in EXPECTED.values() for row in steps.values() if not row.startswith(LATER)}
    assert sorted(named - titles) == []
