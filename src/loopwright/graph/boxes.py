"""Boxes and lines for a terminal: a small layered layout.

Rules of the drawing:
- an edge leaves a box at its bottom and enters one at its top, with a `v`;
- forward edges go down through the gap between two rows of boxes; an edge that skips rows passes them as a line;
- an edge that goes back up (a loop) runs in a lane at the right, one lane for all that go back to the same box;
- solid edges are drawn `|` and `-`, conditional ones `:` and `.`; `+` is a corner or a fork. Where two lines
  cross without meeting, the vertical one is drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, Protocol

__all__ = ["draw_boxes"]

_GAP: Final = 4
"""Columns between two neighbours of a row."""
_SWEEPS: Final = 6
"""Passes that pull boxes towards what they are connected with; more change nothing on graphs one would print."""


class _Arrow(Protocol):
    @property
    def source(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def conditional(self) -> bool: ...


class _Link(NamedTuple):
    """A piece of an edge: from one row to the next, or, going back, from a box to the lane."""

    source: str
    target: str
    dotted: bool


class _Run(NamedTuple):
    """One horizontal line in a gap: from column `start` down to each of `ends`, or up from them into it."""

    start: int
    ends: tuple[int, ...]
    dotted: bool


def draw_boxes(nodes: Sequence[str], arrows: Iterable[_Arrow]) -> str:
    """The drawing, lines without trailing spaces, ending in a line break. The first node is taken for the start."""
    return _Layout(nodes, arrows).draw() if nodes else ""


class _Layout:
    def __init__(self, order: Sequence[str], arrows: Iterable[_Arrow]) -> None:
        self.boxes = frozenset(order)
        links = list(
            dict.fromkeys(
                _Link(arrow.source, arrow.target, bool(arrow.conditional))
                for arrow in arrows
                if arrow.source in self.boxes and arrow.target in self.boxes
            )
        )
        back = _loops(order, links)
        self.back = [link for link in links if link in back]
        forward = [link for link in links if link not in back]
        self.row_of = _rows(order, forward)
        self.width = {name: len(name) + 4 for name in order}
        self.links = self._with_waypoints(forward)
        self.rows: list[list[str]] = [[] for _ in range(max(self.row_of.values()) + 1)]
        for name in self.row_of:
            self.rows[self.row_of[name]].append(name)
        self._order_rows()
        self.center = self._place()

    def _with_waypoints(self, forward: list[_Link]) -> list[_Link]:
        """Cut edges that skip rows into pieces, at waypoints: nodes one column wide."""
        pieces: list[_Link] = []
        for source, target, dotted in forward:
            last = source
            for row in range(self.row_of[source] + 1, self.row_of[target]):
                point = f"\0{source}\0{target}\0{row}\0{dotted}"
                self.row_of[point] = row
                self.width[point] = 1
                pieces.append(_Link(last, point, dotted))
                last = point
            pieces.append(_Link(last, target, dotted))
        return pieces

    def _order_rows(self) -> None:
        """Order each row by where its neighbours stand, so that few lines cross."""
        above: dict[str, list[str]] = {name: [] for name in self.row_of}
        below: dict[str, list[str]] = {name: [] for name in self.row_of}
        for source, target, _ in self.links:
            above[target].append(source)
            below[source].append(target)
        for sweep in range(_SWEEPS):
            down = sweep % 2 == 0
            rows = self.rows if down else self.rows[::-1]
            for fixed, row in pairwise(rows):
                at = {name: index for index, name in enumerate(fixed)}
                near = above if down else below
                now = {name: index for index, name in enumerate(row)}
                row.sort(
                    key=lambda name, near=near, at=at, now=now: _mean([at[other] for other in near[name]], now[name])
                )

    def _place(self) -> dict[str, int]:
        """The middle column of each box and waypoint: near its neighbours, never over another one."""
        center: dict[str, float] = {}
        for row in self.rows:
            total = sum(self.width[name] for name in row) + _GAP * (len(row) - 1)
            column = -total / 2
            for name in row:
                center[name] = column + self.width[name] / 2
                column += self.width[name] + _GAP
        near: dict[str, list[str]] = {name: [] for name in self.row_of}
        for source, target, _ in self.links:
            near[source].append(target)
            near[target].append(source)
        for sweep in range(_SWEEPS):
            for row in self.rows if sweep % 2 == 0 else self.rows[::-1]:
                wanted = [_mean([center[other] for other in near[name]], center[name]) for name in row]
                center.update(zip(row, self._spread(row, wanted), strict=True))
        left = min(center[name] - self.width[name] / 2 for name in center)
        whole = {name: round(column - left) for name, column in center.items()}
        self._straighten(whole)
        return whole

    def _straighten(self, center: dict[str, int]) -> None:
        """Take out bends of a column or two where the row has room."""
        for source, target, _ in self.links:
            row = self.rows[self.row_of[target]]
            column = center[source]
            if 0 < abs(column - center[target]) <= 2 and all(
                abs(column - center[other]) * 2 >= self.width[other] + self.width[target] + 4
                for other in row
                if other != target
            ):
                center[target] = max(column, self.width[target] // 2)

    def _spread(self, row: list[str], wanted: list[float]) -> list[float]:
        """Columns near to `wanted` that keep the row's order and its gaps: the mean of pushing right and left."""
        space = [(self.width[one] + self.width[two]) / 2 + _GAP for one, two in pairwise(row)]
        right = list(wanted)
        for index, least in enumerate(space):
            right[index + 1] = max(right[index + 1], right[index] + least)
        left = list(wanted)
        for index in range(len(space) - 1, -1, -1):
            left[index] = min(left[index], left[index + 1] - space[index])
        return [(one + two) / 2 for one, two in zip(right, left, strict=True)]

    def draw(self) -> str:
        edge = max(self.center[name] + self.width[name] // 2 for name in self.center)
        lanes = {
            target: edge + 3 + 3 * index
            for index, target in enumerate(dict.fromkeys(link.target for link in self.back))
        }
        canvas = _Canvas()
        top = 0
        span: dict[str, list[int]] = {target: [] for target in lanes}
        for index in range(-1, len(self.rows)):
            if index >= 0:
                self._draw_row(canvas, top, self.rows[index])
                top += 3
            runs = self._runs(index, lanes)
            for line, run in runs:
                for target, lane in lanes.items():
                    if lane in run.ends or lane == run.start:
                        span[target].append(top + line)
            top = self._draw_gap(canvas, top, index, [(top + line, run) for line, run in runs], lanes)
        for target, lane in lanes.items():
            dotted = all(link.dotted for link in self.back if link.target == target)
            canvas.vertical(lane, min(span[target]), max(span[target]), dotted)
        for target, lane in lanes.items():
            for line in span[target]:
                canvas.put(lane, line, "+")
        return canvas.text()

    def _runs(self, index: int, lanes: Mapping[str, int]) -> list[tuple[int, _Run]]:
        """The horizontal lines of the gap below row `index` (-1: above the first), each with its line in the gap."""
        runs: list[_Run] = []
        here = self.rows[index] if index >= 0 else []
        for name in here:
            for dotted in (False, True):
                ends = [
                    self.center[link.target] for link in self.links if link.source == name and link.dotted is dotted
                ]
                ends += [lanes[link.target] for link in self.back if link.source == name and link.dotted is dotted]
                if ends:
                    runs.append(_Run(self.center[name], tuple(sorted(set(ends))), dotted))
        if index + 1 < len(self.rows):
            for name in self.rows[index + 1]:
                if name in lanes:
                    dotted = all(link.dotted for link in self.back if link.target == name)
                    runs.append(_Run(lanes[name], (self.center[name],), dotted))
        return _stack(runs, set(lanes.values()))

    def _draw_row(self, canvas: _Canvas, top: int, row: list[str]) -> None:
        for name in row:
            center, width = self.center[name], self.width[name]
            if name not in self.boxes:
                canvas.vertical(center, top, top + 2, name.endswith("True"))
                continue
            left = center - width // 2
            bar = "+" + "-" * (width - 2) + "+"
            for line, text in enumerate((bar, f"| {name} |", bar)):
                canvas.write(left, top + line, text)

    def _draw_gap(
        self, canvas: _Canvas, top: int, index: int, runs: list[tuple[int, _Run]], lanes: Mapping[str, int]
    ) -> int:
        """Draw the lines of one gap; returns the first line below it."""
        if not runs:
            return top
        height = max(line for line, _ in runs) - top + 1
        bottom = top + height
        side = set(lanes.values())
        for line, run in runs:
            columns = (run.start, *run.ends)
            canvas.horizontal(line, min(columns), max(columns), run.dotted)
        for line, run in runs:
            if run.start not in side:
                canvas.vertical(run.start, top, line, run.dotted)
            for column in run.ends:
                if column not in side:
                    canvas.vertical(column, line, bottom, run.dotted)
        for line, run in runs:
            straight = run.ends == (run.start,)
            for column in () if straight else (run.start, *run.ends):
                canvas.put(column, line, "+")
        if index + 1 < len(self.rows):
            entered = {column for _, run in runs for column in run.ends}
            for name in self.rows[index + 1]:
                if self.center[name] in entered and name in self.boxes:
                    canvas.put(self.center[name], bottom, "v")
            return bottom + 1
        return bottom


def _mean(columns: Sequence[float], default: float) -> float:
    return sum(columns) / len(columns) if columns else default


def _loops(order: Sequence[str], links: list[_Link]) -> set[_Link]:
    """The edges that close a loop, found by walking depth first from the first node."""
    out: dict[str, list[_Link]] = {name: [] for name in order}
    for link in links:
        out[link.source].append(link)
    closing: set[_Link] = set()
    done: set[str] = set()
    for root in order:
        if root in done:
            continue
        path = {root}
        stack = [(root, iter(out[root]))]
        while stack:
            name, rest = stack[-1]
            link = next(rest, None)
            if link is None:
                stack.pop()
                path.discard(name)
                done.add(name)
            elif link.target in path:
                closing.add(link)
            elif link.target not in done:
                path.add(link.target)
                stack.append((link.target, iter(out[link.target])))
    return closing


def _rows(order: Sequence[str], forward: list[_Link]) -> dict[str, int]:
    """The row of each node: one below the lowest of those that lead to it."""
    into: dict[str, list[str]] = {name: [] for name in order}
    out: dict[str, list[str]] = {name: [] for name in order}
    for source, target, _ in forward:
        into[target].append(source)
        out[source].append(target)
    waiting = {name: len(sources) for name, sources in into.items()}
    ready = [name for name in order if not waiting[name]]
    rows: dict[str, int] = dict.fromkeys(order, 0)
    for name in ready:
        for target in out[name]:
            rows[target] = max(rows[target], rows[name] + 1)
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    return rows


def _stack(runs: list[_Run], side: set[int]) -> list[tuple[int, _Run]]:
    """Give each run the first line of its gap where it touches no other; line 0 is for the stubs and for straight runs.

    A run that starts where another one ends goes above it, so that no two share a vertical piece.
    """
    leaving = [run for run in runs if run.start not in side]
    entering = [run for run in runs if run.start in side]
    placed: list[tuple[int, _Run]] = []
    for run in sorted(leaving, key=lambda run: _above(run, leaving)) + entering:
        line = 0 if run.ends == (run.start,) else 1
        while line and any(other == line and _touch(run, theirs) for other, theirs in placed):
            line += 1
        for other, theirs in placed:
            if run.start in side or run.start in theirs.ends or set(run.ends) & set(theirs.ends):
                line = max(line, other + 1 if _touch(run, theirs) else line)
        placed.append((line, run))
    return placed


def _above(run: _Run, runs: list[_Run]) -> int:
    """How many runs end where this one starts: those must come below it."""
    return -sum(run.start in other.ends for other in runs if other is not run)


def _touch(one: _Run, two: _Run) -> bool:
    low = max(min(one.start, *one.ends), min(two.start, *two.ends))
    high = min(max(one.start, *one.ends), max(two.start, *two.ends))
    return low <= high + 1


class _Canvas:
    """Lines of characters that grow as they are written to."""

    def __init__(self) -> None:
        self.lines: list[list[str]] = []

    def put(self, column: int, line: int, mark: str) -> None:
        while len(self.lines) <= line:
            self.lines.append([])
        row = self.lines[line]
        if len(row) <= column:
            row.extend(" " * (column + 1 - len(row)))
        row[column] = mark

    def write(self, column: int, line: int, text: str) -> None:
        for offset, mark in enumerate(text):
            self.put(column + offset, line, mark)

    def horizontal(self, line: int, left: int, right: int, dotted: bool) -> None:
        self.write(left, line, ("." if dotted else "-") * (right - left + 1))

    def vertical(self, column: int, top: int, bottom: int, dotted: bool) -> None:
        for line in range(top, bottom + 1):
            self.put(column, line, ":" if dotted else "|")

    def text(self) -> str:
        return "\n".join("".join(line).rstrip() for line in self.lines) + "\n"
