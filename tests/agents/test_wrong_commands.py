"""Commands that lead nowhere or cannot be read: what the caller is told, and what is left of the thread."""

from __future__ import annotations

from typing import Any

import pytest

from loopwright.agents import create_agent
from loopwright.agents.middleware import before_model
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.errors import InvalidUpdateError, UsageError
from loopwright.graph import START, MessagesState, StateGraph
from loopwright.messages import AIMessage, ToolMessage
from loopwright.testing import ScriptedModel
from loopwright.tools import tool
from loopwright.types import Command, Send
from tests.agents.worlds import World, both_worlds, invoke, is_valid, shown, thread

CALL = {"name": "act", "args": {}, "id": "c1", "type": "tool_call"}


def calling(*commands: Any, **options: Any) -> Any:
    """An agent whose tool returns these, one a call."""
    left = list(commands)

    @tool
    def act() -> Any:
        """Act."""
        return left.pop(0)

    model = ScriptedModel(AIMessage("", tool_calls=[CALL]), "done", "done", check_history=True)
    return create_agent(model, [act], **options)


def hooked(command: Any, *answers: Any) -> Any:
    """An agent whose first hook returns this, once."""
    left = [command]

    @before_model
    def hook(state: Any, runtime: Any) -> Any:
        return left.pop() if left else None

    @tool
    def act() -> str:
        """Act."""
        return "acted"

    return create_agent(ScriptedModel(*(answers or ("done",))), [act], middleware=[hook])


@both_worlds
def test_a_command_for_a_graph_around_an_agent_that_has_none(world: World):
    """It is an error; the step stays open, `error.state` is valid, and new input closes it."""
    agent = calling(Command(graph=Command.PARENT, goto="elsewhere"), checkpointer=InMemorySaver())
    with pytest.raises(InvalidUpdateError, match=r"Node 'tools' returned Command\(graph=Command.PARENT\)") as caught:
        invoke(agent, world, "hi", thread())
    assert caught.value.state is not None
    assert is_valid(caught.value.state["messages"])
    (task,) = agent.get_state(thread()).tasks
    assert (task.name, "Command.PARENT" in str(task.error)) == ("tools", True)
    result = invoke(agent, world, "again", thread())
    assert is_valid(result["messages"])
    assert result.text == "done"


@both_worlds
def test_an_update_from_outside_has_no_graph_around_it(world: World):
    agent = calling("fine", checkpointer=InMemorySaver())
    invoke(agent, world, "hi", thread())
    with pytest.raises(InvalidUpdateError, match="no graph around its own"):
        agent.update_state(thread(), Command(graph=Command.PARENT, goto="x"))
    with pytest.raises(InvalidUpdateError, match="no graph around its own"):
        invoke(agent, world, Command(graph=Command.PARENT, goto="x"), thread())


WRONG = [5, [5], {"a": 1}, Send(5, 1), Send(["x"], 1), [["model"]]]  # type: ignore[arg-type]


@pytest.mark.parametrize("goto", WRONG, ids=repr)
def test_a_goto_that_names_no_node(goto: Any):
    words = r"Node '{}' returned a Command with goto=.*Write the name of a node, Send\(.*, or a list of these"
    answer = Command(goto=goto, update={"messages": [ToolMessage("ok", tool_call_id="c1")]})
    with pytest.raises(InvalidUpdateError, match=words.format("tools")):
        calling(answer).invoke({"messages": "hi"})
    with pytest.raises(InvalidUpdateError, match=words.format("hook.before_model")):
        hooked(Command(goto=goto)).invoke({"messages": "hi"})
    graph = StateGraph(MessagesState).add_node("ask", lambda state: Command(goto=goto)).add_edge(START, "ask")
    with pytest.raises(InvalidUpdateError, match=words.format("ask")):
        graph.compile().invoke({"messages": "hi"})


@pytest.mark.parametrize("goto", ["nope", ["nope"], Send("nope", 1), ["model", "nope"]], ids=repr)
def test_a_goto_to_a_node_that_is_not_there(goto: Any):
    """The error names the node whose command it was."""
    with pytest.raises(UsageError, match=r"Node 'hook\.before_model' returned a Command that leads to 'nope'"):
        hooked(Command(goto=goto)).invoke({"messages": "hi"})


def test_an_edge_to_a_node_that_is_not_there():
    graph = StateGraph(MessagesState).add_node("ask", lambda state: None).add_edge(START, "ask")
    graph.add_conditional_edges("ask", lambda state: "nope")
    with pytest.raises(UsageError, match="An edge from 'ask' that leads to 'nope'"):
        graph.compile().invoke({"messages": "hi"})


def test_a_goto_of_none_leads_nowhere():
    assert hooked(Command(goto=None)).invoke({"messages": "hi"}).text == "done"  # type: ignore[arg-type]


@pytest.mark.parametrize("arg", [5, None, [], {"x": 1}, [{}], ["act"], {"messages": 5}, {"messages": []}], ids=repr)
def test_a_node_of_tools_that_is_sent_no_calls(arg: Any):
    with pytest.raises(InvalidUpdateError, match=r"Node 'tools' runs the calls of .* and was given .*Write Send\("):
        hooked(Command(goto=Send("tools", arg))).invoke({"messages": "hi"})


@pytest.mark.parametrize("arg", [5, None, [], {"x": 1}, {"messages": 5}], ids=repr)
def test_a_model_that_is_sent_no_messages(arg: Any):
    with pytest.raises(InvalidUpdateError, match=r"Node 'model' asks the model and was sent .*goto='model' gives it"):
        hooked(Command(goto=Send("model", arg))).invoke({"messages": "hi"})


@pytest.mark.parametrize("arg", [[CALL], CALL, [CALL, {**CALL, "id": "c2"}]], ids=["list", "bare", "two"])
def test_calls_that_are_sent_are_run(arg: Any):
    """From a hook, a tool or the caller; a lone call need not be put into a list."""
    agent = calling("fine", "one", "two", checkpointer=InMemorySaver())
    agent.invoke({"messages": "hi"}, thread())
    asked = AIMessage("", tool_calls=arg if isinstance(arg, list) else [arg])
    result = agent.invoke(Command(update={"messages": [asked]}, goto=Send("tools", arg)), thread())
    expected = [("tool", text) for text in ("one", "two")[: len(asked.tool_calls)]]
    assert expected == sorted(shown(result["messages"][5:-1])), "two run at the same time, and either may be first"
    assert is_valid(result["messages"])


@both_worlds
def test_a_goto_to_the_tools_runs_the_calls_that_are_open(world: World):
    agent = calling("fine", "one", checkpointer=InMemorySaver())
    invoke(agent, world, "hi", thread())
    asked = AIMessage("", tool_calls=[{**CALL, "id": "c2"}])
    result = invoke(agent, world, Command(update={"messages": [asked]}, goto="tools"), thread())
    assert shown(result["messages"][4:]) == [("ai", ""), ("tool", "one"), ("ai", "done")]
