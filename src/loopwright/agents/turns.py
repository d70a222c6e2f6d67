"""The last turn of a conversation: what the model said last, what it asked for, and what came of it.

Reads from the end and stops at the model's last message, however long the history is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loopwright.messages import AIMessage, AnyMessage, ToolMessage

__all__ = ["Turn", "last_turn"]


class Turn:
    """A reply and the results of its calls."""

    __slots__ = ("calls", "last", "reply", "results")

    def __init__(self, reply: AIMessage | None, results: list[ToolMessage], last: AnyMessage | None) -> None:
        self.reply = reply
        """The model's last message that asks for something or ends the conversation; None if there is none."""
        self.results = results
        """Results that came after it, in order."""
        self.last = last
        """The last message of all."""
        calls: Sequence[Any] = () if reply is None else reply.tool_calls
        if reply is not None and reply.invalid_tool_calls:
            calls = [*calls, *reply.invalid_tool_calls]
        self.calls: Sequence[Mapping[str, Any]] = calls
        """All calls of the reply, those that do not parse among them."""

    @property
    def open(self) -> Sequence[Mapping[str, Any]]:
        """Calls without a result yet. Two calls with one id need two results."""
        if not self.results:
            return self.calls
        answered = [result.tool_call_id for result in self.results]
        waiting: list[Mapping[str, Any]] = []
        for call in self.calls:
            if call["id"] in answered:
                answered.remove(call["id"])
            else:
                waiting.append(call)
        return waiting

    def paired(self) -> Sequence[ToolMessage | None]:
        """The results in the order of the calls, None for a call that is open."""
        calls, results = self.calls, self.results
        if len(calls) == 1 and len(results) == 1 and calls[0]["id"] == results[0].tool_call_id:
            return results
        return [self.result_of(call) for call in calls]

    def result_of(self, call: Mapping[str, Any]) -> ToolMessage | None:
        """The result of a call, None while it is open."""
        return next((result for result in self.results if result.tool_call_id == call["id"]), None)


def last_turn(messages: Sequence[AnyMessage]) -> Turn:
    """The last turn of a history. What a hook has put behind the reply is passed over."""
    results: list[ToolMessage] = []
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            results.append(message)
        elif isinstance(message, AIMessage):
            results.reverse()
            return Turn(message, results, messages[-1])
    return Turn(None, [], messages[-1] if messages else None)
