"""Write into tests/faults/README.md where each fault report is tested, by the names of the tests."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent / "tests"
TABLE = TESTS / "faults" / "README.md"
SUITE = TESTS.parent / "src" / "loopwright" / "checkpoint" / "conformance"
"""Tests that are part of the product."""
NAMED = re.compile(r"^(?:    )?(?:async )?def test_(?:(?=B\d+_)|.*# (?=B\d+$))(B\d+)", re.MULTILINE)
"""In the name of a test; in the suite that savers' authors run, beside it."""
ROW = re.compile(r"^\| (B\d+) \| (.*) \| .* \|$", re.MULTILINE)


def where_tested() -> dict[str, list[str]]:
    """Number -> files with a test of it, in order."""
    found: dict[str, list[str]] = {}
    for path in sorted([*TESTS.rglob("*.py"), *SUITE.rglob("*.py")]):
        where = path.relative_to(SUITE.parent if path.is_relative_to(SUITE) else TESTS).as_posix()
        for number in sorted(set(NAMED.findall(path.read_text(encoding="utf-8")))):
            found.setdefault(number, []).append(where)
    return {number: sorted(files) for number, files in found.items()}


def linked(file: str) -> str:
    if file.startswith(f"{SUITE.name}/"):
        return f"[{file}](../../src/loopwright/checkpoint/{file})"
    here = file.removeprefix("faults/")
    return f"[{file}]({here if here != file else '../' + file})"


def main() -> None:
    found = where_tested()

    def row(match: re.Match[str]) -> str:
        number, what = match.groups()
        return f"| {number} | {what} | {', '.join(map(linked, found[number]))} |" if number in found else match.group()

    TABLE.write_text(ROW.sub(row, TABLE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
