"""Why a run has ended: the closed set of `result.stop_reason`, and the notice a run leaves when nothing was answered.

    answer              the model answered and asked for no tool
    structured_answer   the model answered in the form that `response_format` asks for
    return_direct       a tool with `return_direct=True` gave the answer
    jump                a hook sent the run to its end
    model_calls         a limit of `Limits`, by its name:  more model calls than allowed would have been needed
    tool_calls            more tool calls than allowed
    tokens                more tokens than allowed
    cost                  more money than allowed
    seconds               more time than allowed
    repeats               the same call gave the same result, turn after turn
    failures              one tool failed again and again
    interrupted         the run waits for an answer from outside
    cancelled           kept: the caller or the reader has ended it
    malformed_turn      the model's reply could not be read, and asking again did not help
    empty_turn          the model said nothing and asked for nothing
    error               kept: the run raised

No run ends with a reason that is kept: one that raises or is cancelled has no result, and its exception says so.

A notice is an `AIMessage` that this library wrote, not the model. It is stored like any message and is told apart by
one key of its `response_metadata`, so that it is never taken for the model's answer.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

from loopwright.messages import AIMessage, HumanMessage

__all__ = ["NOTICE_KEY", "STOP_REASONS", "StopReason", "is_notice", "is_reminder", "notice", "reminder"]

StopReason: TypeAlias = Literal[
    "answer",
    "structured_answer",
    "return_direct",
    "jump",
    "model_calls",
    "tool_calls",
    "tokens",
    "cost",
    "seconds",
    "repeats",
    "failures",
    "interrupted",
    "cancelled",
    "malformed_turn",
    "empty_turn",
    "error",
]
"""Why a run has ended."""
STOP_REASONS: Final[tuple[StopReason, ...]] = get_args(StopReason)

NOTICE_KEY: Final = "notice"
"""`message.response_metadata["notice"]` is the stop reason, on notices only."""


def notice(reason: StopReason, text: str, *, id: str | None = None) -> AIMessage:
    """The message that ends a run in the model's place and says why."""
    return AIMessage(text, id=id, response_metadata={NOTICE_KEY: reason})


def is_notice(message: object) -> bool:
    """Whether a message is one that `notice` made."""
    return isinstance(message, AIMessage) and NOTICE_KEY in message.response_metadata


def reminder(text: str) -> HumanMessage:
    """A request that this library makes in the caller's place: to answer in the form that was asked for."""
    return HumanMessage(text, response_metadata={NOTICE_KEY: "reminder"})


def is_reminder(message: object) -> bool:
    """Whether a message is one that `reminder` made."""
    return isinstance(message, HumanMessage) and NOTICE_KEY in message.response_metadata
