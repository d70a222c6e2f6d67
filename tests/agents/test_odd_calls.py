"""Calls as models of one's own may give them: each gets its one result, and the run goes on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopwright.agents import create_agent
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.messages import AIMessage
from loopwright.testing import ScriptedModel
from loopwright.tools import tool
from tests.agents.worlds import World, both_worlds, invoke, is_valid, stream, thread


@tool
def act(x: Any = None) -> str:
    """Act."""
    return "acted"


def deep(levels: int) -> dict[str, Any]:
    """Arguments with so many levels."""
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"x": value}
    return value


@both_worlds
@pytest.mark.parametrize(
    "call",
    [
        {"name": "act", "args": {}},
        {"name": "act", "args": {}, "id": None},
        {"name": "act", "args": {}, "id": ""},
        {"name": "act", "args": None, "id": 5},
        {"name": "act", "id": "c1"},
        {"function": {"name": "act", "arguments": "{}"}},
        {"function": {"name": "act", "arguments": None}, "id": 3, "type": "function"},
    ],
    ids=str,
)
def test_a_call_in_any_form_is_run(world: World, call: Any):
    agent = create_agent(ScriptedModel(AIMessage("", tool_calls=[call]), "done"), [act], checkpointer=InMemorySaver())
    result = invoke(agent, world, "hi", thread())
    assert is_valid(result["messages"])
    assert [message.text for message in result["messages"][2:]] == ["acted", "done"]


@both_worlds
@pytest.mark.parametrize("call", [{}, {"name": "act"}, {"args": "{", "id": 5}], ids=str)
def test_a_call_that_cannot_be_read_in_any_form(world: World, call: Any):
    """It gets an error result, with whatever the model has given of it."""
    agent = create_agent(ScriptedModel(AIMessage("", invalid_tool_calls=[call]), "done"), [act])
    result = invoke(agent, world, "hi")
    assert is_valid(result["messages"])
    assert result["messages"][2].status == "error"
    history = [("user", "hi"), AIMessage("", invalid_tool_calls=[call]), ("user", "and now?")]
    assert is_valid(invoke(create_agent(ScriptedModel("done"), [act]), world, {"messages": history})["messages"])


@both_worlds
@pytest.mark.parametrize("levels", [101, 900, 20_000])
@pytest.mark.parametrize("form", ["object", "text"])
def test_arguments_nested_too_deep_are_an_error_result(world: World, levels: int, form: str):
    """The run goes on, whoever reads and whatever keeps it."""
    args = deep(levels) if form == "object" else '{"x":' * (levels - 1) + "{}" + "}" * (levels - 1)
    reply = AIMessage("", tool_calls=[{"name": "act", "args": args, "id": "c1"}])
    agent = create_agent(ScriptedModel(reply, "done", reply, "done"), [act], checkpointer=InMemorySaver())
    result = invoke(agent, world, "hi", thread())
    assert "nested" in result["messages"][2].text
    assert [message.text for message in result["messages"][3:]] == ["done"]
    modes = ["values", "updates", "messages", "debug", "events"]
    shown = stream(agent, world, "hi", thread(), stream_mode=modes)
    assert {mode for mode, _ in shown} == set(modes)
    assert is_valid(agent.get_state(thread()).values["messages"])


def test_arguments_as_deep_as_allowed_are_run_and_stored():
    args = deep(90)
    reply = AIMessage("", tool_calls=[{"name": "act", "args": args, "id": "c1"}])
    agent = create_agent(ScriptedModel(reply, "done"), [act], checkpointer=InMemorySaver())
    assert agent.invoke({"messages": "hi"}, thread())["messages"][2].text == "acted"
    assert json.dumps(agent.get_state(thread()).values["messages"][1].tool_calls[0]["args"]) == json.dumps(args)
