"""A run on the screen, from its facts: words as they come, calls, results, why it ended and what it took.

Nested runs show their tools, indented; their words belong to the tool that called them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, cast

from loopwright.cli.screen import Screen
from loopwright.graph import events
from loopwright.messages import AIMessage, AIMessageChunk, add_usage

__all__ = ["RunView", "usage_words"]

_RESULT_CHARS = 600
_CALLS_CHARS = 300


class RunView:
    """Shows one run. `usage`, `stop_reason`, and what it asks in `interrupts` are there when it has ended."""

    def __init__(self, screen: Screen) -> None:
        self.usage: Any = None
        self.stop_reason: str | None = None
        self.interrupts: tuple[Any, ...] = ()
        self._screen = screen
        self._started = time.monotonic()
        self._model_calls = 0
        self._last_message: str | None = None
        self._so_far: Any = None

    def show(self, event: events.Event) -> None:
        """Show one fact, if it is one to show."""
        match event:
            case events.MessageChunk(path=(), chunk=AIMessageChunk() as chunk):
                self._words(chunk)
            case events.MessageChunk(chunk=AIMessageChunk() as chunk):
                self._count(chunk)
            case events.MessageAdded(message=AIMessage() as message):
                self._whole(message, nested=bool(event.path))
            case events.ToolStarted():
                self._screen.line(f"{_indent(event)}→ {event.name}({_arguments(event.args)})", "cyan")
                self._screen.busy(f"{event.name} runs")
            case events.ToolFinished():
                failed = event.status == "error"
                mark, style = ("✗", "red") if failed else ("←", "green")
                self._screen.line(f"{_indent(event)}{mark} {_short(_text(event.content), _RESULT_CHARS)}", style)
                self._screen.busy("reads the result")
            case events.LimitReached():
                self._screen.line(f"{_indent(event)}! limit reached: {event.limit}", "yellow")
            case events.RunInterrupted(path=()):
                self.interrupts, self.stop_reason = event.interrupts, "interrupted"
            case events.RunFinished(path=()):
                self.usage, self.stop_reason = event.usage, event.stop_reason
            case _:
                pass

    def summary(self) -> str:
        """Why it ended, and what it took."""
        calls = f"{self._model_calls} model call{'' if self._model_calls == 1 else 's'}"
        parts = [calls, usage_words(self.usage or self._so_far), f"{time.monotonic() - self._started:.1f} s"]
        return " · ".join(filter(None, [self.stop_reason, *parts]))

    # -- messages -----------------------------------------------------------------------------------------------------

    def _words(self, chunk: AIMessageChunk) -> None:
        self._count(chunk)
        if isinstance(chunk.content, str):
            self._screen.piece(chunk.content)
        else:
            for block in chunk.content:
                self._block(block)
        for call in chunk.tool_call_chunks:
            name = call.get("name")
            if name:
                self._screen.end_line()
                self._screen.busy(f"asks for {name}")

    def _block(self, block: Any) -> None:
        if isinstance(block, str):
            self._screen.piece(block)
            return
        told = cast("Mapping[str, Any]", block)
        if told.get("type") == "reasoning":
            self._screen.piece(str(told.get("reasoning") or ""), "dim italic")
        else:
            self._screen.piece(str(told.get("text") or told.get("refusal") or ""))

    def _whole(self, message: AIMessage, *, nested: bool) -> None:
        if message.usage_metadata is not None:
            self._model_calls += 1
            self._so_far = add_usage(self._so_far, message.usage_metadata)
        if not nested and message.text:
            self._screen.line(message.text)

    def _count(self, chunk: AIMessageChunk) -> None:
        """A model call, at the first of its pieces; its tokens, at the piece that tells them."""
        if chunk.id != self._last_message:
            self._last_message = chunk.id
            self._model_calls += 1
            self._screen.end_line()
        if chunk.usage_metadata is not None:
            self._so_far = add_usage(self._so_far, chunk.usage_metadata)


def usage_words(usage: Any) -> str:
    """Tokens in a line; empty where nobody counted them."""
    if not usage:
        return ""
    told = cast("Mapping[str, Any]", usage)
    details: Mapping[str, Any] = told.get("input_token_details") or {}
    kept = details.get("cache_read") or 0
    cached = f" ({kept} from cache)" if kept else ""
    return f"{told.get('input_tokens', 0)} tokens in{cached}, {told.get('output_tokens', 0)} out"


def _indent(event: events.Event) -> str:
    return "  " * len(event.path)


def _arguments(args: Any) -> str:
    if not isinstance(args, Mapping):
        return _short(repr(args), _CALLS_CHARS)
    named = cast("Mapping[str, Any]", args)
    return _short(", ".join(f"{name}={value!r}" for name, value in named.items()), _CALLS_CHARS)


def _text(content: Any) -> str:
    if not isinstance(content, list):
        return str(content)
    blocks = (cast("Mapping[str, Any]", block) for block in cast("list[Any]", content) if isinstance(block, Mapping))
    return " ".join(str(block.get("text") or f"[{block.get('type')}]") for block in blocks)


def _short(text: str, most: int) -> str:
    text = text.strip()
    return text if len(text) <= most else f"{text[:most]}… ({len(text)} characters)"
