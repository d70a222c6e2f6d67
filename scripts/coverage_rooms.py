"""Show line and branch coverage of each room, and fail when one of those named is below a bound.

    python scripts/coverage_rooms.py 95 agents graph

Reads `.coverage`, so it comes after `coverage run -m pytest`. Branches that coverage counts are pairs of lines,
taken or not; a room without branches counts as covered. Files at the top of the package are one room, `(top)`.
What needs a server that this machine has not is left out.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))
from tests.services import has_postgres

PACKAGE = "src/loopwright/"
COUNTS = ("num_statements", "covered_lines", "num_branches", "covered_branches")


def percent(covered: int, of: int) -> float:
    return 100.0 * covered / of if of else 100.0


def left_out() -> tuple[str, ...]:
    """Beginnings of the names of files whose tests were skipped here."""
    return () if has_postgres() else ("checkpoint/postgres/",)


def measured() -> tuple[dict[str, dict[str, int]], list[str]]:
    """Counts by room, and for each file that misses something one line that says where."""
    report = subprocess.run(
        [sys.executable, "-m", "coverage", "json", "-q", "-o", "-"], check=True, capture_output=True, text=True
    ).stdout
    rooms: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(COUNTS, 0))
    misses: list[str] = []
    for path, data in sorted(json.loads(report)["files"].items()):
        name = path.replace("\\", "/").rpartition(PACKAGE)[2]
        if name.startswith(left_out()):
            continue
        room = name.split("/")[0] if "/" in name else "(top)"
        for count in COUNTS:
            rooms[room][count] += data["summary"][count]
        branches = [f"{a}->{b}" for a, b in data["missing_branches"]]
        if data["missing_lines"] or branches:
            misses.append(f"{name}: lines {data['missing_lines']}, branches {', '.join(branches) or 'none'}")
    return rooms, misses


def main() -> int:
    bound, wanted = float(sys.argv[1]), sys.argv[2:]
    rooms, misses = measured()
    print(f"\n{'room':<12} {'statements':>10} {'lines':>7} {'branches':>9} {'taken':>7}")
    low: list[str] = []
    for room, counts in sorted(rooms.items()):
        lines = percent(counts["covered_lines"], counts["num_statements"])
        branches = percent(counts["covered_branches"], counts["num_branches"])
        mark = ""
        if room in wanted and min(lines, branches) < bound:
            low.append(room)
            mark = f"  below {bound:g} %"
        totals = f"{counts['num_statements']:>10} {lines:>6.1f}% {counts['num_branches']:>9} {branches:>6.1f}%"
        print(f"{room:<12} {totals}{mark}")
    low += [room for room in wanted if room not in rooms]
    if low:
        print(f"\nBelow {bound:g} %, or not measured at all: {', '.join(low)}. What no test reached:")
        print("\n".join(miss for miss in misses if miss.split("/")[0] in low))
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
