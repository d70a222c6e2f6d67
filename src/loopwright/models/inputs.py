"""What a model may be called with, as a list of messages.

A string is one human message. A list may hold messages, `(role, text)` pairs, dictionaries and strings. The caller's
list and what is in it are never changed.
"""

from __future__ import annotations

from typing import Any

from loopwright.messages import BaseMessage, HumanMessage, convert_to_messages

__all__ = ["ModelInput", "as_messages"]

ModelInput = Any
"""`str`, a list of message-likes, or an object with `to_messages()`, which a prompt template makes."""


def as_messages(given: ModelInput) -> list[BaseMessage]:
    """A new list of messages. Raises `ValueError` that shows what to write instead."""
    if isinstance(given, str):
        return [HumanMessage(given)]
    if isinstance(given, (list, tuple)):
        return convert_to_messages(given)
    to_messages = getattr(given, "to_messages", None)
    if to_messages is not None:
        return list(to_messages())
    if isinstance(given, BaseMessage):
        words = f"a model takes a list of messages: write [{type(given).__name__}(...)] instead of the bare message"
    elif isinstance(given, dict):
        words = 'a model takes messages, not a state: write model.invoke(state["messages"])'
    else:
        words = f"a model takes a str or a list of messages, not {type(given).__name__}"
    raise ValueError(words)
