"""What a run costs: the sum of all its replies, nested agents in, also after a pause; None if one has no price."""

from __future__ import annotations

from typing import Any

import pytest

from loopwright.agents import Limits, create_agent
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.messages import AIMessage
from loopwright.testing import ScriptedModel, call
from loopwright.types import Command, interrupt
from tests.agents.worlds import both_worlds, invoke, thread

MINI = (1000 * 0.15 + 100 * 0.60) / 1e6
"""Dollars for one reply of `reply`."""


def reply(text: str = "ok", *calls: Any, model: str = "gpt-4o-mini") -> AIMessage:
    return AIMessage(
        text,
        tool_calls=list(calls),
        usage_metadata={"input_tokens": 1000, "output_tokens": 100, "total_tokens": 1100},
        response_metadata={"provider": "openai", "model_name": model},
    )


def look(city: str) -> str:
    """Look at a city."""
    return "nothing new"


@both_worlds
def test_replies_are_priced_by_the_table_and_added_up(world):
    agent = create_agent(ScriptedModel(reply("", call("look", city="Oslo")), reply()), [look])
    assert invoke(agent, world).cost == pytest.approx(2 * MINI)


@both_worlds
def test_one_reply_without_a_price_leaves_none(world):
    unknown = reply(model="gpt-of-tomorrow")
    agent = create_agent(ScriptedModel(reply("", call("look", city="Oslo")), unknown), [look])
    assert invoke(agent, world).cost is None


@both_worlds
def test_nested_agents_cost_the_one_around_them(world):
    inner = create_agent(ScriptedModel(reply("Owls."), loop=True))

    def ask(question: str) -> str:
        """Ask the expert."""
        return inner.invoke({"messages": question}).text

    def outer(**options: Any) -> Any:
        script = ScriptedModel(reply("", call("ask", question="who?")), reply())
        return create_agent(script, [ask], **options)

    assert invoke(outer(), world).cost == pytest.approx(3 * MINI)
    stopped = invoke(outer(limits=Limits(cost=2 * MINI)), world)
    assert (stopped.stop_reason, stopped.cost) == ("cost", pytest.approx(2 * MINI))


@both_worlds
def test_the_sum_goes_on_after_a_pause(world):
    def confirm(what: str) -> str:
        """Ask the user."""
        return str(interrupt(what))

    agent = create_agent(
        ScriptedModel(reply("", call("confirm", what="sure?")), reply()), [confirm], checkpointer=InMemorySaver()
    )
    paused = invoke(agent, world, config=thread())
    assert (paused.stop_reason, paused.cost) == ("interrupted", pytest.approx(MINI))
    assert invoke(agent, world, Command(resume="yes"), thread()).cost == pytest.approx(2 * MINI)


@both_worlds
def test_a_lost_price_stays_lost_after_a_pause(world):
    def confirm(what: str) -> str:
        """Ask the user."""
        return str(interrupt(what))

    first = reply("", call("confirm", what="sure?"), model="gpt-of-tomorrow")
    agent = create_agent(ScriptedModel(first, reply()), [confirm], checkpointer=InMemorySaver())
    invoke(agent, world, config=thread())
    assert invoke(agent, world, Command(resume="yes"), thread()).cost is None
