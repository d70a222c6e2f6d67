"""Fakes and instruments for testing agents: no network, no keys, no waiting."""

from __future__ import annotations

from loopwright.testing.clock import ManualClock
from loopwright.testing.fakes import FakeListChatModel, FakeMessagesListChatModel, GenericFakeChatModel
from loopwright.testing.faults import Faults, Injected, InjectedError, SimulatedCrash
from loopwright.testing.recording import RecordedModel, Tape
from loopwright.testing.script import Reply, Request, ScriptedModel, call, say, use
from loopwright.testing.simulated import SimulationPort
from loopwright.testing.simulation import Simulation

__all__ = [
    "FakeListChatModel",
    "FakeMessagesListChatModel",
    "Faults",
    "GenericFakeChatModel",
    "Injected",
    "InjectedError",
    "ManualClock",
    "RecordedModel",
    "Reply",
    "Request",
    "ScriptedModel",
    "SimulatedCrash",
    "Simulation",
    "SimulationPort",
    "Tape",
    "call",
    "say",
    "use",
]
