"""Slips of people who know other libraries: each is answered with the call they meant."""

from __future__ import annotations

from typing import Any

import pytest

from loopwright.agents import Limits, create_agent
from loopwright.testing import ScriptedModel


def look(place: str) -> str:
    """Look at a place."""
    return place


def model() -> ScriptedModel:
    return ScriptedModel("hello", loop=True)


@pytest.mark.parametrize(
    ("limits", "words"),
    [({"model_calls": 2}, r"limits=Limits\(model_calls=2\)"), (5, r"limits=Limits\(model_calls=…\)")],
)
def test_limits_that_are_none(limits: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        create_agent(model(), limits=limits)


def test_limits_are_taken() -> None:
    assert create_agent(model(), limits=Limits(model_calls=2)).limits.model_calls == 2


@pytest.mark.parametrize("tools", [look, "look", {"name": "look"}])
def test_one_tool_where_a_list_is_meant(tools: Any) -> None:
    with pytest.raises(ValueError, match=r"tools=\["):
        create_agent(model(), tools=tools)


def test_a_mode_by_position_is_no_config() -> None:
    agent: Any = create_agent(model())
    with pytest.raises(ValueError, match='stream_mode="messages"'):
        agent.stream({"messages": "hi"}, "messages")
    with pytest.raises(ValueError, match="thread_id"):
        agent.invoke({"messages": "hi"}, "1")
