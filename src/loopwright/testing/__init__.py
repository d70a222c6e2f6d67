"""Fakes and instruments for testing agents: no network, no keys, no waiting."""

from __future__ import annotations

from loopwright.testing.clock import ManualClock
from loopwright.testing.fakes import FakeListChatModel, FakeMessagesListChatModel, GenericFakeChatModel
from loopwright.testing.recording import RecordedModel, Tape
from loopwright.testing.script import Reply, Request, ScriptedModel, call, say, use

__all__ = [
    "FakeListChatModel",
    "FakeMessagesListChatModel",
    "GenericFakeChatModel",
    "ManualClock",
    "RecordedModel",
    "Reply",
    "Request",
    "ScriptedModel",
    "Tape",
    "call",
    "say",
    "use",
]
