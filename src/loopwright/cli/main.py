"""`loopwright`: what was typed becomes one command. Errors are one readable line; `--debug` shows where they came from.

Exit codes: 0 done, 1 an error that is said, 2 a command line that makes no sense, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence

from loopwright import __version__

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    given = _parser().parse_args(arguments)
    try:
        return _run(given)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Nobody reads any more. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:  # noqa: BLE001 - whatever it is, its user gets a line
        from loopwright.cli.session import error_words

        if given.debug:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.write(f"error: {error_words(error)}\n")
        return 1


def _run(given: argparse.Namespace) -> int:
    from loopwright.cli.screen import Screen

    if given.command == "demo":
        from loopwright.cli.demo import demo

        return demo(Screen(), debug=given.debug)
    from loopwright.cli.chat import chat

    return chat(
        Screen(), agent=given.agent, model=given.model, thread=given.thread, system=given.system, debug=given.debug
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="loopwright", description="Agents that always end.")
    parser.add_argument("--version", action="version", version=f"loopwright {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    demo = commands.add_parser(
        "demo",
        help="a short tour on a small local model, then a chat",
        description="A short tour on a small local model, then a chat. Only the tour where there is no terminal.",
    )
    chat = commands.add_parser(
        "chat",
        help="talk to an agent of yours, or to a model",
        description="Talk to an agent of yours (module:name), or to a model. /help shows what can be typed.",
    )
    chat.add_argument("agent", nargs="?", metavar="module:agent", help="an agent of yours, found from this folder")
    chat.add_argument("--model", metavar="provider:name", help="a model without tools instead (default local:)")
    chat.add_argument("--thread", metavar="ID", help="the conversation to go on with")
    chat.add_argument("--system", metavar="TEXT", help="the system prompt of such a model")
    for command in (demo, chat):
        command.add_argument("--debug", action="store_true", help="show tracebacks")
    return parser
