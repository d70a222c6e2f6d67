"""A real process at a real terminal, for tests that type and read what is shown."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

SECONDS = 60.0
"""How long something may take to appear. Waits end when it does."""

COMMAND = [sys.executable, "-W", "error", "-m", "loopwright"]


class Terminal:
    """`with Terminal(["chat", "slow:agent"], cwd=tmp_path) as terminal: terminal.expect("> ")`."""

    def __init__(self, arguments: list[str], *, cwd: Path, env: Mapping[str, str] | None = None) -> None:
        self._main, side = pty.openpty()
        attributes = termios.tcgetattr(side)
        attributes[3] &= ~termios.ECHO
        termios.tcsetattr(side, termios.TCSANOW, attributes)
        self.process = subprocess.Popen(
            [*COMMAND, *arguments],
            stdin=side,
            stdout=side,
            stderr=side,
            cwd=cwd,
            env={**os.environ, "TERM": "xterm", "PYTHONPATH": "", **(env or {})},
            start_new_session=True,
            preexec_fn=_take_terminal,  # noqa: PLW1509 - these tests start no threads
        )
        os.close(side)
        self.seen = ""
        self._read_to = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._main)

    def type(self, text: str) -> None:
        os.write(self._main, text.encode())

    def interrupt(self) -> None:
        """Ctrl-C as the terminal sends it, to the real process."""
        self.process.send_signal(signal.SIGINT)

    def interrupt_until(self, text: str) -> None:
        """Ctrl-C as people press it, again when nothing happens.

        One that comes in the instant between the prompt and the reading of the line is not seen by Python's `input`
        before the next key.
        """
        for _ in range(30):
            self.interrupt()
            deadline = time.monotonic() + 2
            while text not in self.rest and time.monotonic() < deadline:
                if select.select([self._main], [], [], 0.1)[0]:
                    self.seen += self._read().decode(errors="replace")
            if text in self.rest:
                break
        self.expect(text)

    def expect(self, text: str) -> str:
        """Wait until `text` is shown after what was expected before; everything up to its end."""
        deadline = time.monotonic() + SECONDS
        while (place := self.seen.find(text, self._read_to)) < 0:
            ready, _, _ = select.select([self._main], [], [], max(0.0, deadline - time.monotonic()))
            piece = self._read() if ready else b""
            assert piece, f"{text!r} did not come; after {self.seen[: self._read_to]!r} there was {self.rest!r}"
            self.seen += piece.decode(errors="replace")
        found = self.seen[self._read_to : place + len(text)]
        self._read_to = place + len(text)
        return found

    @property
    def rest(self) -> str:
        """Shown, and not expected yet."""
        return self.seen[self._read_to :]

    def wait(self) -> int:
        """The exit code, with all that was shown until then in `seen`."""
        while piece := self._read():
            self.seen += piece.decode(errors="replace")
        return self.process.wait(SECONDS)

    def _read(self) -> bytes:
        try:
            return os.read(self._main, 65536)
        except OSError:  # the other side is closed
            return b""


def _take_terminal() -> None:
    import fcntl

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
