"""Every tool call has its result right after it: the rule that providers refuse a history for, checked and restored.

In full:

- after an AI message with calls come the results of its calls, all of them, in any order, and nothing between;
- a call that could not be parsed is a call; every call has an id;
- a result answers a call of the AI message before it, and no call is answered more often than it was made (an id
  may be used twice in one message; one result is then enough).

`repair_history` moves results to their calls, writes the ones that are missing, and drops those that answer
nothing. A result belongs to the last AI message before it that calls its id and still waits; if no message has
called it yet, to the first that does so later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec import structs

from loopwright.ids import new_id
from loopwright.messages.base import AIMessage, BaseMessage, ToolMessage
from loopwright.messages.history import History

__all__ = [
    "CANCELLED",
    "CUT_OFF",
    "NOT_RUN",
    "calls_of",
    "check_pairs",
    "find_broken_pair",
    "repair_history",
    "with_call_ids",
]

CANCELLED = "This call was cancelled while it ran: it may have had effects, and nothing is known of a result."
CUT_OFF = "It is not known whether this call ran to its end: it may have had effects, and its result is lost."
NOT_RUN = "This call was not run: nothing is known of a result."


def calls_of(message: BaseMessage) -> list[Any]:
    """All calls of a message, those that could not be parsed last; empty for any message but an AI's."""
    if not isinstance(message, AIMessage):
        return []
    return [*message.tool_calls, *message.invalid_tool_calls]


def find_broken_pair(messages: Sequence[BaseMessage], *, open_end: bool = False) -> str | None:
    """What breaks the rule first, in words, or None.

    With `open_end`, calls of the last AI message may be waiting for their results.
    """
    return check_pairs(messages, 0, open_end=open_end)[0]


def check_pairs(messages: Sequence[BaseMessage], start: int, *, open_end: bool) -> tuple[str | None, int]:
    """(what is wrong, how many of the first messages are in order, whatever comes after them).

    `start` is such a number, of these messages or of a history that they go on from.
    """
    waiting: dict[str, int] = {}
    answered: set[str] = set()
    asked_at = start
    for at in range(start, len(messages)):
        message = messages[at]
        if isinstance(message, ToolMessage):
            call_id = message.tool_call_id
            left = waiting.get(call_id, 0)
            if not left:
                return (
                    f"messages[{at}] is a result for {call_id!r}, which no AI message right before it asks for",
                    start,
                )
            waiting[call_id] = left - 1
            answered.add(call_id)
            continue
        if waiting:
            if len(answered) < len(waiting):
                return _unanswered(waiting, answered, asked_at), start
            waiting, answered = {}, set()
        if isinstance(message, AIMessage) and (message.tool_calls or message.invalid_tool_calls):
            asked_at = at
            for call in calls_of(message) if message.invalid_tool_calls else message.tool_calls:
                call_id = call["id"]
                if not call_id:
                    return f"messages[{at}] calls {call['name']!r} without an id", start
                waiting[call_id] = waiting.get(call_id, 0) + 1
    if len(answered) == len(waiting) and not any(waiting.values()):
        return None, len(messages)
    if open_end or len(answered) == len(waiting):  # one id of several calls may have another result yet
        return None, asked_at
    return _unanswered(waiting, answered, asked_at), start


def _unanswered(waiting: dict[str, int], answered: set[str], at: int) -> str:
    call_id = next(call_id for call_id in waiting if call_id not in answered)
    return f"messages[{at}] makes the call {call_id!r}, and its result does not follow"


def repair_history(
    messages: list[BaseMessage],
    text: str | Callable[[Any], str] = NOT_RUN,
    *,
    open_end: bool = False,
) -> list[BaseMessage]:
    """The messages with every call answered right after it; the very same list if nothing is wrong with it.

    `text` is what a missing result says, or a function of the call that does; the reason why a call could not be
    parsed goes before it. With `open_end`, calls of the last AI message are left waiting if only their results
    follow. A `History` remembers what was in order: asking again looks at what is new.
    """
    start = 0
    buffer = messages.buffer if isinstance(messages, History) else None
    if buffer is not None and buffer.checked <= len(messages):
        start = buffer.checked
        if start + 2 == len(messages) and _is_round(messages[start], messages[start + 1]):
            buffer.checked += 2
            return messages
    problem, sound = check_pairs(messages, start, open_end=open_end)
    if problem is None:
        if buffer is not None and sound > buffer.checked:
            buffer.checked = sound
        return messages
    return _repaired(messages, text, open_end)


def _is_round(reply: BaseMessage, result: BaseMessage) -> bool:
    """Whether these are one call and its result: what nearly every round has added."""
    if not isinstance(reply, AIMessage) or not isinstance(result, ToolMessage):
        return False
    calls = reply.tool_calls
    if len(calls) != 1 or reply.invalid_tool_calls:
        return False
    call_id = calls[0]["id"]
    return bool(call_id) and call_id == result.tool_call_id


class _Asking:
    """An AI message with calls, and the results found for them."""

    def __init__(self, message: AIMessage, at: int) -> None:
        message = with_call_ids(message)
        calls = calls_of(message)
        self.message = message
        self.at = at
        self.calls: list[Any] = calls
        self.results: list[BaseMessage | None] = [None] * len(calls)

    def take(self, result: BaseMessage, call_id: str) -> bool:
        for place, call in enumerate(self.calls):
            if call["id"] == call_id and self.results[place] is None:
                self.results[place] = result
                return True
        return False

    def answers(self, text: str | Callable[[Any], str], wait: bool) -> Iterator[BaseMessage]:
        """Results in the order of the calls; missing ones are written, unless they may wait or the id has one."""
        done = {call["id"] for call, result in zip(self.calls, self.results, strict=True) if result is not None}
        for call, result in zip(self.calls, self.results, strict=True):
            if result is not None:
                yield result
            elif not wait and call["id"] not in done:
                done.add(call["id"])
                words = text if isinstance(text, str) else text(call)
                if call.get("error"):
                    words = f"{call['error']}. {words}"
                yield ToolMessage(words, tool_call_id=call["id"], name=call["name"], status="error", id=new_id())


def with_call_ids(message: AIMessage) -> AIMessage:
    """The message with an id for each of its calls; itself if they have one. Some servers give none."""
    for call in message.tool_calls:
        if not call["id"]:
            break
    else:
        if not message.invalid_tool_calls or all(call["id"] for call in message.invalid_tool_calls):
            return message
    return structs.replace(
        message,
        tool_calls=[_with_call_id(call) for call in message.tool_calls],
        invalid_tool_calls=[_with_call_id(call) for call in message.invalid_tool_calls],
    )


def _with_call_id(call: Any) -> Any:
    return call if call["id"] else {**call, "id": f"call_{new_id()}"}


def _repaired(messages: Sequence[BaseMessage], text: str | Callable[[Any], str], open_end: bool) -> list[BaseMessage]:
    asking: dict[int, _Asking] = {}
    by_id: dict[str, list[_Asking]] = {}
    early: dict[str, list[BaseMessage]] = {}
    for at, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            askers = by_id.get(message.tool_call_id)
            if askers is None:
                early.setdefault(message.tool_call_id, []).append(message)
            else:
                any(asker.take(message, message.tool_call_id) for asker in reversed(askers))
        elif isinstance(message, AIMessage) and (message.tool_calls or message.invalid_tool_calls):
            asker = asking[at] = _Asking(message, at)
            for call in asker.calls:
                by_id.setdefault(call["id"], []).append(asker)
    for call_id, results in early.items():
        for result in results:
            any(asker.take(result, call_id) for asker in by_id.get(call_id, ()))
    others = [at for at, message in enumerate(messages) if not isinstance(message, ToolMessage)]
    repaired: list[BaseMessage] = []
    for at in others:
        asker = asking.get(at)
        if asker is None:
            repaired.append(messages[at])
        else:
            repaired.append(asker.message)
            repaired += asker.answers(text, wait=open_end and at == others[-1])
    return repaired
