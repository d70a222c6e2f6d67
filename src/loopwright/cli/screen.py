"""What a command shows and reads: colour and a spinner on a terminal, plain text everywhere else.

Rules:

- colour comes from rich (the extra `cli`); without it, without a terminal, or with NO_COLOR set, the
  same words come plainly;
- text of models and tools is text: an escape sequence in it is shown, not obeyed;
- a character that the terminal's encoding lacks becomes a question mark, never an error;
- errors go to the error stream, everything else to the output.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Screen"]

_CONTROLS = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"} | {
    0x7F: "\u2421",
    0x9B: "\u241b",
}


class Screen:
    """Output in pieces and lines; a line that was begun is ended before another begins."""

    def __init__(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            with suppress(AttributeError, ValueError):
                stream.reconfigure(errors="replace")  # type: ignore[union-attr]
        self.interactive = sys.stdin.isatty() and sys.stdout.isatty()
        """Whether somebody sits there: asks for input with a prompt, shows a spinner."""
        self._out, self._err = _console(), _console(stderr=True)
        self._begun = False
        self._spinner: Any = None
        if self.interactive:
            with suppress(ImportError):
                import_module("readline")  # gives `input` a history and arrow keys

    # -- showing ------------------------------------------------------------------------------------------------------

    def piece(self, text: str, style: str = "") -> None:
        """A part of a line; nothing is added to it."""
        if not text:
            return
        self.idle()
        self._put(text, style)
        self._begun = not text.endswith("\n")

    def line(self, text: str = "", style: str = "") -> None:
        self.end_line()
        self._put(f"{text}\n", style)

    def end_line(self) -> None:
        """End the line that was begun, if one was."""
        self.idle()
        if self._begun:
            self._begun = False
            self._put("\n", "")

    def error(self, text: str) -> None:
        self.end_line()
        sys.stdout.flush()
        self._put(f"error: {text}\n", "red", error=True)

    def _put(self, text: str, style: str, *, error: bool = False) -> None:
        text = text.translate(_CONTROLS)
        console, stream = (self._err, sys.stderr) if error else (self._out, sys.stdout)
        if console is None or not console.is_terminal:
            stream.write(text)
            stream.flush()
        else:
            from rich.text import Text

            console.print(Text(text, style=style), end="", soft_wrap=True, highlight=False)

    # -- waiting ------------------------------------------------------------------------------------------------------

    def busy(self, text: str) -> None:
        """Show that something goes on. Whatever is shown next takes its place."""
        if not self.interactive or self._out is None or self._begun:
            return
        if self._spinner is None:
            self._spinner = self._out.status(text.translate(_CONTROLS), spinner_style="dim")
            self._spinner.start()
        else:
            self._spinner.update(text.translate(_CONTROLS))

    def idle(self) -> None:
        """Take the spinner away."""
        spinner, self._spinner = self._spinner, None
        if spinner is not None:
            spinner.stop()

    # -- reading ------------------------------------------------------------------------------------------------------

    def ask(self) -> str | None:
        """What is typed next; None at the end of input. Raises `KeyboardInterrupt`."""
        self.end_line()
        if self.interactive:
            sys.stdout.flush()
            try:
                return input("\n> ")
            except EOFError:
                self._put("\n", "")
                return None
        given = sys.stdin.readline()
        if not given:
            return None
        text = given.rstrip("\r\n")
        if text.strip():
            self.line(f"\n> {text}")
        return text


def _console(*, stderr: bool = False) -> Console | None:
    """rich's console, where it is installed and there is a terminal that can do more than text."""
    stream = sys.stderr if stderr else sys.stdout
    if not stream.isatty() or os.environ.get("TERM") == "dumb":
        return None
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console(stderr=stderr)
