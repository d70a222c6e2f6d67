"""The scripted model behaviour that every adapter's fake model follows.

A `Script` decides what a model answers from nothing but the text of the last message it was shown, so one
script can serve any number of interleaved runs. The tool result names the round it came from
("round-3: 5 rows"), a user message never does, and that is how a script knows where it is.

Kept light: `fresh.py` measures a process that has to import this file too.
"""

import itertools
from typing import NamedTuple

SYSTEM_PROMPT = "You are a helpful assistant."
USER_TEXT = "Please look up the item and tell me what the table says of it."
INPUT_TOKENS = 100
OUTPUT_TOKENS = 10

_MARK = "round-"
_serial = itertools.count(1)


class ToolCall(NamedTuple):
    id: str
    name: str
    arguments: str  # JSON, as an OpenAI-compatible server sends it


class Reply(NamedTuple):
    text: str
    tool_calls: list[ToolCall]


class Script:
    """Ask for `width` tool calls in each of `rounds` rounds, then answer with `words` words."""

    def __init__(self, rounds=1, width=1, words=20, delay=0.0):
        self.rounds = rounds
        self.width = width
        self.delay = delay  # seconds a model call takes
        self.model_calls = 0
        self.longest_history = 0
        self.chunks = ["word "] * (words - 1) + ["end."]
        self.answer = "".join(self.chunks)

    def reply(self, last_text: str, history_length: int) -> Reply:
        self.model_calls += 1
        self.longest_history = max(self.longest_history, history_length)
        at = last_text.rfind(_MARK)
        turn = 0 if at < 0 else int(last_text[at + len(_MARK) :].split(":", 1)[0]) + 1
        if turn >= self.rounds:
            return Reply(self.answer, [])
        arguments = f'{{"query": "{_MARK}{turn}", "limit": 5}}'
        return Reply("", [ToolCall(f"call_{next(_serial)}", "lookup", arguments) for _ in range(self.width)])

    async def wait(self) -> None:
        """The latency of a real model; not even a trip through the event loop when there is none."""
        if self.delay:
            import asyncio

            await asyncio.sleep(self.delay)
