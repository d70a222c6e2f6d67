"""Fakes and instruments for testing agents: no network, no keys, no waiting."""

from __future__ import annotations

from loopwright.testing.script import Reply, Request, ScriptedModel, call, say, use

__all__ = ["Reply", "Request", "ScriptedModel", "call", "say", "use"]
