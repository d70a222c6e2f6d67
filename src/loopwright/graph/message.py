"""Conversations as graph state: the reducer of a list of messages, and the state that has nothing else."""

from __future__ import annotations

from typing import Annotated, TypedDict

from loopwright.messages import REMOVE_ALL_MESSAGES, AnyMessage, add_messages

__all__ = ["REMOVE_ALL_MESSAGES", "MessagesState", "add_messages"]


class MessagesState(TypedDict):
    """A graph's state with one key. Derive from it to add your own."""

    messages: Annotated[list[AnyMessage], add_messages]
