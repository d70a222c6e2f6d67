"""A conversation at the terminal: read a line, run the agent, show the run, and again.

Rules:

- Ctrl-C stops the run, not the program: what was said so far stays in the thread, which goes on with the next line;
- an error of a run is one line, and the conversation goes on;
- what is typed while a run waits for a person is the answer, until all its questions have one;
- the thread is the agent's own. An agent without a checkpointer gets one in memory for as long as the program runs.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from loopwright.cli.questions import Questions
from loopwright.cli.screen import Screen
from loopwright.cli.view import RunView, usage_words
from loopwright.errors import InvalidAnswerError, LoopwrightError
from loopwright.graph.types import Command
from loopwright.ids import new_id
from loopwright.messages import add_usage

__all__ = ["HELP", "Session", "error_words"]

HELP = """\
/help        this
/new         a new conversation; the old one keeps its thread
/thread [ID] which thread this is, or go to another
/usage       tokens so far
/skip        leave what the run asks: what is typed next begins a new turn
/exit        leave (so do exit, quit and Ctrl-D); Ctrl-C stops a run"""

_COMMANDS = ("/help", "/new", "/thread", "/usage", "/skip")
_LEAVING = ("/exit", "/quit", "exit", "quit")
"""Alone on a line. Nobody who types one of them means the model."""


class Session:
    """One agent, one screen, one thread after the other."""

    def __init__(self, agent: Any, screen: Screen, *, thread: str | None = None, debug: bool = False) -> None:
        if agent.checkpointer is None:
            from loopwright.checkpoint.memory import InMemorySaver

            agent.checkpointer = InMemorySaver()
        self.agent = agent
        self.screen = screen
        self.thread = thread or new_id()
        self.debug = debug
        self.usage: Any = None
        self.runs = 0
        self._questions: Questions | None = None

    @property
    def config(self) -> dict[str, Any]:
        return {"configurable": {"thread_id": self.thread}}

    def chat(self) -> None:
        """Until one of `_LEAVING` or the end of input."""
        while True:
            try:
                said = self.screen.ask()
                if said is None or said.strip().lower() in _LEAVING:
                    return
                self._obey(said)
            except KeyboardInterrupt:
                self.screen.line("(exit or Ctrl-D leaves)", "dim")

    def _obey(self, said: str) -> None:
        """Do what was typed: a command, an answer, or the next turn."""
        asked, line = self._questions, said.strip()
        if line.startswith("/") and (asked is None or line.partition(" ")[0] in _COMMANDS):
            self._command(line)
            if asked is not None and asked is self._questions:
                asked.show(self.screen)
        elif line and asked is None:
            self.turn(said)
        elif line and asked is not None:
            self._answer(asked, line)

    def _answer(self, asked: Questions, said: str) -> None:
        try:
            complete = asked.take(said)
        except InvalidAnswerError as error:
            self.screen.line(str(error), "yellow")
            complete = False
        if complete:
            self._run(Command(resume=asked.answers))
        else:
            asked.show(self.screen)

    def turn(self, text: str) -> None:
        """One run on what was said."""
        self._run({"messages": [{"role": "user", "content": text}]})

    def _run(self, given: Any) -> None:
        """One run, until it ends or asks. Never raises but for a second Ctrl-C while the first one is obeyed."""
        view = RunView(self.screen)
        self.runs += 1
        self.screen.busy("thinks")
        stream: Any = None
        try:
            stream = self.agent.stream(given, self.config, stream_mode="events")
            for event in stream:
                view.show(event)
            self.screen.line(f"· {view.summary()}", "dim")
            asked = view.interrupts
        except KeyboardInterrupt:
            self._leave(stream)
            self.screen.line("stopped; the conversation goes on where it was", "yellow")
            asked = self._open()
        except Exception as error:  # noqa: BLE001 - whatever a run raises, the conversation goes on
            self.fail(error)
            asked = self._open()
        finally:
            self._leave(stream)
            self.screen.idle()
        if view.usage:
            self.usage = add_usage(self.usage, view.usage)
        self._put(asked)

    def _put(self, asked: Sequence[Any]) -> None:
        """Put questions to whoever types; none are a turn to begin."""
        self._questions = Questions(asked) if asked else None
        if self._questions is not None:
            self._questions.show(self.screen)

    def _open(self) -> Sequence[Any]:
        """What the thread waits for, read from its saver: a run that fails over an answer leaves the question open."""
        with suppress(Exception):  # a saver that cannot be read says so in a run
            return self.agent.get_state(self.config).interrupts
        return ()

    def fail(self, error: Exception) -> None:
        """Show an error in a line; the traceback too, where that was asked for."""
        self.screen.error(error_words(error))
        if self.debug:
            self.screen.line("".join(traceback.format_exception(error)), "dim")

    def welcome_back(self) -> None:
        """Say so, if the thread has messages already, and ask what it waits for."""
        messages: Sequence[Any] = ()
        with suppress(Exception):  # a saver that cannot be read says so at the first run
            messages = self.agent.get_state(self.config).values.get("messages") or ()
        if messages:
            self.screen.line(f"thread {self.thread} goes on after {len(messages)} messages", "dim")
        self._put(self._open())

    @staticmethod
    def _leave(stream: Any) -> None:
        close: Callable[[], None] | None = getattr(stream, "close", None)
        if close is not None:
            close()

    def _command(self, line: str) -> None:
        name, _, rest = line.partition(" ")
        match name:
            case "/help":
                self.screen.line(HELP)
            case "/new":
                self.thread, self._questions = new_id(), None
                self.screen.line(f"new thread {self.thread}", "dim")
            case "/thread":
                self.thread, self._questions = rest.strip() or self.thread, None
                self.screen.line(f"thread {self.thread}", "dim")
                self.welcome_back()
            case "/usage":
                runs = f"{self.runs} run{'' if self.runs == 1 else 's'}"
                self.screen.line(" · ".join(filter(None, [runs, usage_words(self.usage)])))
            case "/skip":
                words = "nothing is asked" if self._questions is None else "what is typed next begins a new turn"
                self._questions = None
                self.screen.line(words, "dim")
            case _:
                self.screen.line(f"there is no {name}; /help shows what there is", "yellow")


def error_words(error: BaseException) -> str:
    """An error in one line: its own words, and whose they are unless they are ours."""
    words = " ".join(str(error).split()) or "no reason given"
    name = type(error).__name__
    return words if isinstance(error, LoopwrightError) and not _is_model_error(error) else f"{name}: {words}"


def _is_model_error(error: BaseException) -> bool:
    from loopwright.errors import ModelError

    return isinstance(error, ModelError)
