"""The last turn of a conversation: what the model said last, what it asked for, and what came of it.

Reads from the end and stops at the model's last message, however long the history is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from loopwright.errors import InvalidUpdateError, UsageError
from loopwright.messages import AIMessage, AnyMessage, ToolMessage
from loopwright.messages.history import messages_with_ids
from loopwright.messages.pairing import with_call_ids

__all__ = ["Turn", "calls_for", "last_turn", "sent_state"]


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
        left: dict[str, int] = {}
        for result in self.results:
            left[result.tool_call_id] = left.get(result.tool_call_id, 0) + 1
        waiting: list[Mapping[str, Any]] = []
        for call in self.calls:
            if left.get(call["id"]):
                left[call["id"]] -= 1
            else:
                waiting.append(call)
        return waiting

    def paired(self) -> Sequence[ToolMessage | None]:
        """The results in the order of the calls, None for a call that is open."""
        calls, results = self.calls, self.results
        if len(calls) == 1 and len(results) == 1 and calls[0]["id"] == results[0].tool_call_id:
            return results
        answers = self.answers()
        return [answers.get(call["id"]) for call in calls]

    def answers(self) -> dict[str, ToolMessage]:
        """The results by the id of their call; of two with one id, the first."""
        return {result.tool_call_id: result for result in reversed(self.results)}


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


def calls_for(given: Any, node: str, key: str = "messages") -> Sequence[Mapping[str, Any]]:
    """The calls that a node of tools is to run: those it was sent, or those that are open in a state or in messages.

    Raises `InvalidUpdateError` for what holds neither.
    """
    items: list[Any] = list(cast("Sequence[Any]", given)) if isinstance(given, (list, tuple)) else [given]
    if items and all(map(_is_call, items)):
        return with_call_ids(AIMessage(tool_calls=items)).tool_calls
    if isinstance(given, (list, tuple)):
        found: Any = items
    else:
        found = cast("Any", given).get(key) if isinstance(given, Mapping) else getattr(given, key, None)
    try:
        turn = last_turn(cast("list[AnyMessage]", messages_with_ids(found)))
    except UsageError as error:
        raise _nothing_to_run(given, node, key) from error
    if turn.reply is None:
        raise _nothing_to_run(given, node, key)
    return turn.open


def _is_call(item: Any) -> bool:
    return isinstance(item, Mapping) and ("args" in item or "function" in item) and "content" not in item


def _nothing_to_run(given: Any, node: str, key: str) -> InvalidUpdateError:
    return InvalidUpdateError(
        f"Node {node!r} runs the calls of the last AIMessage in state[{key!r}], or those it is sent, and was given "
        f'{given!r:.80}. Write Send({node!r}, [{{"name": "search", "args": {{"q": "x"}}, "id": "call_1"}}]).'
    )


def sent_state(given: Any, node: str) -> dict[str, Any]:
    """The state that a model's node was sent in place of the graph's. Raises `InvalidUpdateError`."""
    try:
        return {**given, "messages": messages_with_ids(given["messages"])}
    except (KeyError, TypeError, UsageError) as error:
        raise InvalidUpdateError(
            f"Node {node!r} asks the model and was sent {given!r:.80}. It needs a state with messages, "
            f'Send({node!r}, {{"messages": [...]}}); goto={node!r} gives it the state of the graph.'
        ) from error
