"""A tool is renamed while its question waits: the answer is not lost, and whoever gives it is told."""

from __future__ import annotations

from typing import Any

import pytest

from loopwright.agents import create_agent
from loopwright.agents.middleware import AgentMiddleware
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.checkpoint.sqlite import SqliteSaver
from loopwright.errors import UsageError
from loopwright.graph import START, MessagesState, StateGraph
from loopwright.messages import AIMessage
from loopwright.prebuilt import ToolNode
from loopwright.testing import ScriptedModel, call, use
from loopwright.tools import tool
from loopwright.types import Command, interrupt
from tests.agents.worlds import both_worlds, invoke, is_valid, thread


def asking(name: str) -> Any:
    @tool(name)
    def ask(what: str = "sure?") -> str:
        """Ask a person."""
        return f"they said {interrupt(what)}"

    return ask


def delegating(name: str, inner_name: str = "ask") -> Any:
    """A tool that hands on to an agent whose tool asks."""

    @tool(name)
    def delegate() -> str:
        """Ask by another agent."""
        model = ScriptedModel(lambda m: call("ask") if m[-1].type == "human" else "in", loop=True)
        inner = create_agent(model, [asking(inner_name)])
        result = inner.invoke({"messages": "go"})
        return result["messages"][-2].text

    return delegate


@pytest.fixture(params=["memory", "file"])
def saver(request, tmp_path):
    if request.param == "memory":
        yield InMemorySaver()
        return
    with SqliteSaver(tmp_path / "threads.sqlite") as saver:
        yield saver


def process(saver: Any, tools: Any, *answers: Any, middleware: Any = ()) -> Any:
    """An agent as one process has it, and what its model says there."""
    return create_agent(ScriptedModel(*answers), tools, checkpointer=saver, middleware=middleware)


class Passes(AgentMiddleware[Any, Any, Any]):
    """A hook that makes a result of every error that it sees."""

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        try:
            return handler(request)
        except Exception as error:  # noqa: BLE001 - that is what it does
            return f"the hook has seen {error}"


HOOKS = pytest.mark.parametrize("middleware", [[], [Passes()]], ids=["bare", "hooked"])


@both_worlds
@HOOKS
@pytest.mark.parametrize("made", [asking, delegating])
def test_the_answer_for_a_tool_that_was_renamed(world, saver, made, middleware):
    first = process(saver, [made("ask")], call("ask"), middleware=middleware)
    assert len(invoke(first, world, config=thread()).interrupts) == 1
    renamed = process(saver, [made("question")], "never", middleware=middleware)
    words = r"tool 'ask', which has asked.*its tools are 'question'.*invoke\(None"
    with pytest.raises(UsageError, match=words) as told:
        invoke(renamed, world, Command(resume="yes"), thread())
    assert is_valid(told.value.state["messages"])  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="tool 'ask', which has asked"):
        invoke(renamed, world, None, thread())
    again = process(saver, [made("ask")], "done", middleware=middleware)
    result = invoke(again, world, None, thread())
    assert [message.text for message in result["messages"]] == ["hi", "", "they said yes", "done"]


@both_worlds
def test_a_tool_that_was_renamed_in_an_agent_below(world, saver):
    first = process(saver, [delegating("delegate")], call("delegate"))
    assert len(invoke(first, world, config=thread()).interrupts) == 1
    renamed = process(saver, [delegating("delegate", inner_name="question")], "never")
    with pytest.raises(UsageError, match=r"tool 'ask', which has asked.*its tools are 'question'"):
        invoke(renamed, world, Command(resume="yes"), thread())
    again = process(saver, [delegating("delegate")], "done")
    assert invoke(again, world, None, thread())["messages"][-2].text == "they said yes"


@both_worlds
def test_siblings_of_a_call_whose_tool_was_renamed(world, saver):
    both = use(call("ask", {"what": "one"}, "c1"), call("other", {"what": "two"}, "c2"))
    first = process(saver, [asking("ask"), asking("other")], both)
    one, two = invoke(first, world, config=thread()).interrupts
    renamed = process(saver, [asking("question"), asking("other")], "never")
    with pytest.raises(UsageError, match="tool 'ask', which has asked"):
        invoke(renamed, world, Command(resume={one: "1", two: "2"}), thread())
    again = process(saver, [asking("ask"), asking("other")], "done")
    result = invoke(again, world, None, thread())
    assert [message.text for message in result["messages"][2:]] == ["they said 1", "they said 2", "done"]


@both_worlds
def test_a_tool_node_of_a_graph(world, saver):
    def graph(*tools: Any) -> Any:
        builder = StateGraph(MessagesState)
        builder.add_node("tools", ToolNode(list(tools)))
        builder.add_edge(START, "tools")
        return builder.compile(checkpointer=saver)

    calls: Any = [{"name": "ask", "args": {}, "id": "c1"}, {"name": "other", "args": {}, "id": "c2"}]
    asked = {"messages": [AIMessage("", tool_calls=calls)]}
    first = graph(asking("ask"), asking("other"))
    one, two = invoke(first, world, asked, thread())["__interrupt__"]
    renamed = graph(asking("question"), asking("other"))
    with pytest.raises(UsageError, match="tool 'ask', which has asked"):
        invoke(renamed, world, Command(resume={one: "1", two: "2"}), thread())
    result = invoke(first, world, None, thread())
    assert [message.text for message in result["messages"][1:]] == ["they said 1", "they said 2"]


@both_worlds
def test_what_a_hook_has_asked_about_a_tool_that_never_was_is_no_lost_answer(world, saver):
    class Reviews(AgentMiddleware[Any, Any, Any]):
        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            interrupt(request.tool_call["name"])
            return handler(request)

    model = ScriptedModel(call("made_up"), "done", check_tools=False)
    agent = create_agent(model, [asking("ask")], checkpointer=saver, middleware=[Reviews()])
    assert len(invoke(agent, world, config=thread()).interrupts) == 1
    result = invoke(agent, world, Command(resume="go on"), thread())
    assert (result.text, result["messages"][-2].status) == ("done", "error")
