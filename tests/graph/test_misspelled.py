"""A key that is all but the name of a state's key is a slip, and said; any other foreign key is passed over."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest

from loopwright.agents import create_agent
from loopwright.agents.middleware import before_model
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.errors import InvalidUpdateError
from loopwright.graph import END, START, StateGraph
from loopwright.graph.state import refuse_misspelled
from loopwright.testing import ScriptedModel
from loopwright.types import Command
from tests.graph.worlds import World, both_worlds, thread
from tests.graph.worlds import chain as chain_of


class Notes(TypedDict):
    question: str
    answers: Annotated[list[str], operator.add]


class Other(TypedDict):
    questions: str
    answer: str


def chain(state: Any, node: tuple[str, Any], checkpointer: Any = None) -> Any:
    return chain_of(node, state=state).compile(checkpointer=checkpointer)


WORDS = r"which the state does not have\. Did you mean 'answers'\? Its keys are 'question', 'answers'\."


@both_worlds
@pytest.mark.parametrize(
    "answer",
    [{"anwsers": ["a"]}, {"Answers": ["a"]}, Command(update={"answer": "a"}), [{"question": "q"}, {"answer": ["a"]}]],
    ids=["letters", "capital", "command", "several"],
)
@pytest.mark.parametrize("saver", [None, InMemorySaver], ids=["unkept", "kept"])
def test_an_update(world: World, answer: Any, saver: Any) -> None:
    graph = chain(Notes, ("write", lambda state: answer), checkpointer=saver and saver())
    with pytest.raises(InvalidUpdateError, match=f"Node 'write' wrote '[aA]n[sw]+er?s?', {WORDS}"):
        world.invoke(graph, {"question": "why?"}, thread("1"))


@both_worlds
def test_an_input(world: World) -> None:
    graph = chain(Notes, ("write", lambda state: {"answers": ["a"]}))
    with pytest.raises(InvalidUpdateError, match=r"The input has 'quesion', .* Did you mean 'question'\?"):
        world.invoke(graph, {"quesion": "why?"})


@both_worlds
def test_an_update_from_outside_takes_the_thread_from_nobody(world: World) -> None:
    graph = chain(Notes, ("write", lambda state: {"answers": ["a"]}), checkpointer=InMemorySaver())
    world.invoke(graph, {"question": "why?"}, thread("1"))
    before = world.state(graph, thread("1"))
    with pytest.raises(InvalidUpdateError, match="update_state was given 'answer', "):
        world.update(graph, thread("1"), {"answer": ["b"]})
    assert world.state(graph, thread("1")) == before


@both_worlds
def test_a_command_from_outside(world: World) -> None:
    graph = chain(Notes, ("write", lambda state: {"answers": ["a"]}), checkpointer=InMemorySaver())
    world.invoke(graph, {"question": "why?"}, thread("1"))
    with pytest.raises(InvalidUpdateError, match="The command's update has 'answer', "):
        world.invoke(graph, Command(update={"answer": ["b"]}), thread("1"))


@both_worlds
def test_a_slip_is_mended_and_the_thread_goes_on(world: World) -> None:
    """The slip was not kept: the node runs again, and its neighbour does not."""
    keys, ran = ["answer"], []

    def other(state: Any) -> Any:
        ran.append("other")
        return {"answers": ["o"]}

    builder = StateGraph(Notes)
    builder.add_node("other", other)
    builder.add_node("write", lambda state: {keys[-1]: ["w"]})
    for name in ("other", "write"):
        builder.add_edge(START, name)
        builder.add_edge(name, END)
    graph = builder.compile(checkpointer=InMemorySaver())
    with pytest.raises(InvalidUpdateError):
        world.invoke(graph, {"question": "why?"}, thread("1"))
    keys.append("answers")
    assert world.invoke(graph, None, thread("1"))["answers"] == ["o", "w"]
    assert ran == ["other"]


@both_worlds
def test_a_hook_of_an_agent(world: World) -> None:
    @before_model
    def note(state: Any, runtime: Any) -> Any:
        return {"mesages": ["look"]}

    agent = create_agent(ScriptedModel("hi"), middleware=[note])
    with pytest.raises(InvalidUpdateError, match=r"Node 'note.before_model' wrote 'mesages', .* mean 'messages'\?"):
        world.invoke(agent, {"messages": "hi"})


@both_worlds
def test_an_agent_that_has_messages_already(world: World) -> None:
    agent = create_agent(ScriptedModel("hi", loop=True), checkpointer=InMemorySaver())
    world.invoke(agent, {"messages": "hi"}, thread("1"))
    with pytest.raises(InvalidUpdateError, match=r"The input has 'message', .* Did you mean 'messages'\?"):
        world.invoke(agent, {"message": "and?"}, thread("1"))


# -- what is no slip ------------------------------------------------------------------------------------------------


@both_worlds
def test_foreign_keys_are_passed_over(world: World) -> None:
    graph = chain(Notes, ("write", lambda state: {"answers": ["a"], "tokens": 3}))
    assert world.invoke(graph, {"question": "why?", "user": "Ann"}) == {"question": "why?", "answers": ["a"]}


@both_worlds
def test_a_key_beside_the_one_it_is_like(world: World) -> None:
    """Somebody who gives both means both."""
    graph = chain(Notes, ("write", lambda state: {"answers": ["a"], "answer": "a"}))
    given = {"question": "why?", "questions": ["why?"]}
    assert world.invoke(graph, given) == {"question": "why?", "answers": ["a"]}


@both_worlds
def test_a_graph_as_a_node_has_keys_of_its_own(world: World) -> None:
    """Both states have a key that is nearly one of the other's."""
    inner = chain(Other, ("think", lambda state: {"answer": "a", "questions": "q"}))
    graph = chain(Notes, ("inner", inner), checkpointer=InMemorySaver())
    assert world.invoke(graph, {"question": "why?"}, thread("1")) == {"question": "why?", "answers": []}


@pytest.mark.parametrize("key", ["input_tokens", "foo", "__interrupt__", 3, ("messages", 1)], ids=str)
def test_what_is_not_like_enough(key: Any) -> None:
    refuse_misspelled(["messages", "output_tokens", "fop"], [key], "It has")
