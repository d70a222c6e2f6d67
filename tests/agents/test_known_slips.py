"""Slips of people who know other libraries: each is answered with the call they meant."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from loopwright.agents import Limits, create_agent
from loopwright.agents.middleware import HumanInTheLoopMiddleware
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.errors import EmptyInputError, UsageError
from loopwright.testing import ScriptedModel, call
from loopwright.tools import tool
from loopwright.types import Command, interrupt
from tests.agents.worlds import World, both_worlds, invoke, thread


def look(place: str) -> str:
    """Look at a place."""
    return place


def ask() -> str:
    """Ask a person."""
    return interrupt("sure?")


class Place(BaseModel):
    city: str


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


def test_a_review_of_a_tool_that_is_not_there() -> None:
    with pytest.raises(UsageError, match=r"interrupt_on names 'lok', .*; its tools are 'look'\. Did you mean 'look'\?"):
        create_agent(ScriptedModel(), [look], middleware=[HumanInTheLoopMiddleware({"lok": True})])


def test_a_review_of_the_answer() -> None:
    with pytest.raises(UsageError, match=r"names 'Place', which is the form of the answer.*return_direct=True"):
        create_agent(ScriptedModel(), middleware=[HumanInTheLoopMiddleware({"Place": True})], response_format=Place)


@both_worlds
def test_a_tool_that_was_renamed_while_its_question_waits(world: World) -> None:
    def agent(name: str, *answers: Any) -> Any:
        return create_agent(ScriptedModel(*answers), [tool(name)(ask)], checkpointer=saver)

    saver = InMemorySaver()
    invoke(agent("ask", call("ask")), world, config=thread())
    with pytest.raises(UsageError, match="tool 'ask', which has asked"):
        invoke(agent("question"), world, Command(resume="yes"), thread())
    assert invoke(agent("ask", "done"), world, None, thread())["messages"][-2].text == "yes"


def test_one_name_where_reviews_are_meant() -> None:
    with pytest.raises(UsageError, match=r"Write interrupt_on=\{'look': True\}, or \['look'\]"):
        HumanInTheLoopMiddleware("look")


@both_worlds
def test_an_answer_on_a_fresh_thread(world: World) -> None:
    agent = create_agent(ScriptedModel(), checkpointer=InMemorySaver())
    with pytest.raises(EmptyInputError) as raised:
        invoke(agent, world, Command(resume="yes"), thread())
    assert "Command(resume=…) answers a question, and nothing was ever asked on this thread" in str(raised.value)
    assert '"content": "…"}]}, config)' in str(raised.value)


@both_worlds
def test_an_answer_without_a_checkpointer(world: World) -> None:
    with pytest.raises(EmptyInputError, match=r"only a checkpointer can keep, and this agent has none\. Make it with"):
        invoke(create_agent(ScriptedModel()), world, Command(resume="yes"))


@both_worlds
def test_an_answer_given_twice(world: World) -> None:
    agent = create_agent(
        ScriptedModel(call("look", place="here"), "done"),
        [look],
        middleware=[HumanInTheLoopMiddleware(["look"])],
        checkpointer=InMemorySaver(),
    )
    invoke(agent, world, "hi", thread())
    invoke(agent, world, Command(resume={"type": "approve"}), thread())
    with pytest.raises(UsageError, match=r"thread '1' is not paused\. Give a new input\.$"):
        invoke(agent, world, Command(resume={"type": "approve"}), thread())
