"""A process that has everything imported and forks a child for each life: a start costs milliseconds.

One line in, a list of lives; one line out, how each of them ended. The lives of one line are led at the same time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from loopwright.checkpoint.memory import InMemorySaver
from tests.crash.program import SAVERS, Life, outer, play, saver_class

__all__ = ["End", "Zygote"]

ROOT = Path(__file__).resolve().parents[2]


class End(NamedTuple):
    """How a process ended."""

    signal: int
    """That killed it; 0: none."""
    told: Any
    """What it told before its end; None if it had no time to."""


class Zygote:
    """The test's side of it."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._process.communicate(timeout=20)
        except subprocess.TimeoutExpired:  # a test has given up waiting for it
            self._process.kill()
            self._process.communicate()

    def lead(self, *lives: Life) -> list[End]:
        """Lead lives, at the same time, to their ends."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(lives) + "\n")
        self._process.stdin.flush()
        ends = [End(*end) for end in json.loads(self._process.stdout.readline())]
        for end in ends:
            assert not isinstance(end.told, str), end.told
        return ends


def serve() -> None:
    for kind in SAVERS:
        with suppress(ImportError):  # tests of a saver whose driver is not installed are skipped
            saver_class(kind)
    outer(InMemorySaver())  # what is imported and built when an agent is made
    for line in sys.stdin:
        print(json.dumps(_lead([Life(*life) for life in json.loads(line)])), flush=True)


def _lead(lives: Sequence[Life]) -> list[tuple[int, Any]]:
    come_in, come_out = os.pipe()
    go_in, go_out = os.pipe()
    children: list[tuple[int, int]] = []
    for life in lives:
        told_in, told_out = os.pipe()
        child = os.fork()
        if child == 0:
            for end in (come_in, go_out, told_in):
                os.close(end)
            _live(life, told_out, come_out, go_in)
        os.close(told_out)
        children.append((child, told_in))
    os.close(come_out)
    if any(life.gate for life in lives):
        for _ in lives:
            os.read(come_in, 1)
        os.write(go_out, b"." * len(lives))
    ends: list[tuple[int, Any]] = []
    for child, told_in in children:
        with os.fdopen(told_in, "rb") as pipe:
            told = pipe.read()
        _, status = os.waitpid(child, 0)
        ends.append((os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, json.loads(told) if told else None))
    for end in (come_in, go_in, go_out):
        os.close(end)
    return ends


def _live(life: Life, told_out: int, come_out: int, go_in: int) -> None:
    """In the child. It never comes back."""

    def wait() -> None:
        os.write(come_out, b".")
        os.read(go_in, 1)

    try:
        told: Any = play(life, wait)
    except BaseException:  # noqa: BLE001 - the test is told of anything
        told = traceback.format_exc()
    with os.fdopen(told_out, "wb") as pipe:
        pipe.write(json.dumps(told).encode())
    os._exit(0)


if __name__ == "__main__":
    serve()
