"""`ToolNode` and `tools_condition`: the tools of an agent in graphs of one's own, and by hand."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import BaseModel

from loopwright.errors import UsageError
from loopwright.graph import END, START, StateGraph
from loopwright.graph.message import MessagesState, add_messages
from loopwright.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from loopwright.prebuilt import ToolNode, tools_condition
from loopwright.testing import ScriptedModel, call
from loopwright.tools import InjectedState, ToolRuntime, tool
from loopwright.types import Command, Send
from tests.agents.worlds import World, both_worlds, invoke, shown, stream


def look(city: str) -> str:
    """Look at a city."""
    return f"sunny in {city}"


def boom() -> str:
    """Fail."""
    raise ValueError("no luck")


def asks(*calls: Any) -> AIMessage:
    return AIMessage("", tool_calls=list(calls))


OSLO = call("look", city="Oslo", id="c1")
ROME = call("look", city="Rome", id="c2")


# -- in a graph -----------------------------------------------------------------------------------------------------


def by_hand(model: Any, node: ToolNode) -> Any:
    """The loop as people wrote it before there was `create_agent`."""
    graph = StateGraph(MessagesState)
    bound = model.bind_tools([look])
    graph.add_node("model", lambda state: {"messages": [bound.invoke(state["messages"])]})
    graph.add_node("tools", node)
    graph.add_edge(START, "model").add_edge("tools", "model")
    graph.add_conditional_edges("model", tools_condition)
    return graph.compile()


@both_worlds
def test_a_loop_by_hand(world):
    agent = by_hand(ScriptedModel([OSLO, ROME], "ok"), ToolNode([look]))
    assert [m.text for m in invoke(agent, world)["messages"]] == ["hi", "", "sunny in Oslo", "sunny in Rome", "ok"]


@both_worlds
def test_its_name_is_the_nodes(world):
    graph = StateGraph(MessagesState)
    graph.add_node(ToolNode([look], name="hands"))
    graph.add_edge(START, "hands").add_edge("hands", END)
    given = {"messages": [HumanMessage("hi"), asks(OSLO)]}
    assert [next(iter(update)) for update in stream(graph.compile(), world, given)] == ["hands"]


@both_worlds
def test_calls_that_were_sent(world):
    """Each call a task of its own."""
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([look]))

    def fan_out(state: Any) -> Any:
        return [Send("tools", [one]) for one in state["messages"][-1].tool_calls]

    graph.add_conditional_edges(START, fan_out, ["tools"])
    given = {"messages": [HumanMessage("hi"), asks(OSLO, ROME)]}
    result = invoke(graph.compile(), world, given)
    assert [m.text for m in result["messages"][2:]] == ["sunny in Oslo", "sunny in Rome"]


@dataclass
class State:
    messages: Annotated[list[AnyMessage], add_messages]


class Model(BaseModel):
    messages: Annotated[list[Any], add_messages]


@both_worlds
@pytest.mark.parametrize("schema", [State, Model], ids=["dataclass", "model"])
def test_states_that_are_objects(world, schema):
    graph = StateGraph(schema)
    graph.add_node("tools", ToolNode([look]))
    graph.add_edge(START, "tools")
    result = invoke(graph.compile(), world, {"messages": [HumanMessage("hi"), asks(OSLO)]})
    assert shown(result["messages"])[2:] == [("tool", "sunny in Oslo")]


# -- by hand --------------------------------------------------------------------------------------------------------


def run(node: ToolNode, world: World, given: Any) -> Any:
    import asyncio

    return node.invoke(given) if world == "sync" else asyncio.run(node.ainvoke(given))


@both_worlds
def test_a_dict_or_a_list(world):
    node = ToolNode([look])
    assert shown(run(node, world, {"messages": [asks(OSLO, ROME)]})["messages"]) == [
        ("tool", "sunny in Oslo"),
        ("tool", "sunny in Rome"),
    ]
    assert shown(run(node, world, [HumanMessage("hi"), asks(OSLO)])) == [("tool", "sunny in Oslo")]


@both_worlds
def test_only_calls_that_are_open(world):
    given = [asks(OSLO, ROME), ToolMessage("cached", tool_call_id="c1")]
    assert shown(run(ToolNode([look]), world, given)) == [("tool", "sunny in Rome")]


@both_worlds
def test_another_key(world):
    node = ToolNode([look], messages_key="talk")
    assert shown(run(node, world, {"talk": [asks(OSLO)]})["talk"]) == [("tool", "sunny in Oslo")]


@both_worlds
def test_another_key_in_a_graph(world):
    class Talk(TypedDict):
        talk: Annotated[list[AnyMessage], add_messages]

    graph = StateGraph(Talk)
    graph.add_node("tools", ToolNode([look], messages_key="talk"))
    graph.add_edge(START, "tools")
    assert shown(invoke(graph.compile(), world, {"talk": [asks(OSLO)]})["talk"])[1:] == [("tool", "sunny in Oslo")]


@both_worlds
def test_the_rest_of_the_state_is_the_tools_to_read(world):
    @tool
    def cart(items: Annotated[list[str], InjectedState("items")]) -> str:
        """The cart."""
        return ", ".join(items)

    given = {"messages": [asks(call("cart", id="c1"))], "items": ["tea", "milk"]}
    assert shown(run(ToolNode([cart]), world, given)["messages"]) == [("tool", "tea, milk")]


@both_worlds
def test_tools_read_a_state_that_is_a_model_with_its_defaults(world):
    class State(BaseModel):
        messages: Annotated[list[Any], add_messages]
        user: str = "nobody"

    @tool
    def who(user: Annotated[str, InjectedState("user")], state: Annotated[Any, InjectedState]) -> str:
        """Who."""
        return f"{user} {type(state).__name__}"

    graph = StateGraph(State).add_node("tools", ToolNode([who])).add_edge(START, "tools").compile()
    result = invoke(graph, world, {"messages": [asks(call("who", id="c1"))]})
    assert shown(result["messages"][1:]) == [("tool", "nobody State")]


def test_where_tools_condition_leads_is_drawn():
    drawn = by_hand(ScriptedModel("ok"), ToolNode([look])).get_graph()
    assert sorted((e.source, e.target) for e in drawn.edges if e.conditional) == [
        ("model", "__end__"),
        ("model", "tools"),
    ]


@both_worlds
def test_a_command_changes_the_rest_of_the_state(world):
    @tool
    def put(item: str, runtime: ToolRuntime) -> Any:
        """Put."""
        done = ToolMessage("done", tool_call_id=str(runtime.tool_call_id))
        return Command(update={"items": [*runtime.state["items"], item], "messages": [done]})

    given = {"messages": [asks(call("put", item="tea", id="c1"))], "items": ["milk"]}
    result = run(ToolNode([put]), world, given)
    assert (result["items"], shown(result["messages"])) == (["milk", "tea"], [("tool", "done")])


@both_worlds
@pytest.mark.parametrize("given", [{"messages": []}, {"messages": [HumanMessage("hi")]}, []], ids=str)
def test_nothing_to_run(world, given):
    with pytest.raises(UsageError, match="Node 'tools' runs the calls of the last AIMessage"):
        run(ToolNode([look]), world, given)


@both_worlds
def test_a_state_without_its_key(world):
    with pytest.raises(UsageError, match=r"AIMessage in state\['messages'\], or those it is sent"):
        run(ToolNode([look]), world, {"talk": [asks(OSLO)]})


# -- failures and hooks ---------------------------------------------------------------------------------------------


@both_worlds
def test_failures_are_results(world):
    (failed,) = run(ToolNode([boom]), world, [asks(call("boom", id="c1"))])
    assert (failed.status, failed.text) == ("error", "Tool 'boom' failed: ValueError: no luck")
    (words,) = run(ToolNode([boom], handle_tool_errors="Sorry."), world, [asks(call("boom", id="c1"))])
    assert words.text == "Sorry."


@both_worlds
def test_failures_that_are_raised(world):
    node = ToolNode([boom, look], handle_tool_errors=False)
    with pytest.raises(ValueError, match="no luck"):
        run(node, world, [asks(call("boom", id="c0"), OSLO)])


@both_worlds
@pytest.mark.parametrize("kind", ["wrap_tool_call", "awrap_tool_call"])
def test_a_hook_around_each_call(world, kind):
    def hook(request: Any, handler: Any) -> Any:
        return handler(
            request.override(tool_call={**request.tool_call, "args": {"city": request.tool_call["args"]["city"] * 2}})
        )

    async def ahook(request: Any, handler: Any) -> Any:
        changed = {**request.tool_call, "args": {"city": request.tool_call["args"]["city"] * 2}}
        return await handler(request.override(tool_call=changed))

    options: dict[str, Any] = {kind: ahook if kind[0] == "a" else hook}
    assert shown(run(ToolNode([look], **options), world, [asks(OSLO)])) == [("tool", "sunny in OsloOslo")]


@both_worlds
def test_a_pair_of_hooks(world):
    """Of a pair each world takes its own."""

    def hook(request: Any, handler: Any) -> Any:
        return ToolMessage("sync", tool_call_id=request.tool_call["id"])

    async def ahook(request: Any, handler: Any) -> Any:
        return ToolMessage("async", tool_call_id=request.tool_call["id"])

    node = ToolNode([look], wrap_tool_call=hook, awrap_tool_call=ahook)
    assert shown(run(node, world, [asks(OSLO)])) == [("tool", world)]


def test_a_providers_tool_has_no_place_here():
    with pytest.raises(UsageError, match="Bind it to the model"):
        ToolNode([{"type": "web_search", "name": "web_search"}])  # type: ignore[list-item]


def test_its_tools_by_name():
    assert list(ToolNode([look, boom]).tools_by_name) == ["look", "boom"]


# -- tools_condition ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("last", "where"),
    [(asks(OSLO), "tools"), (AIMessage("ok"), END), (HumanMessage("hi"), END)],
    ids=["ask", "ai", "h"],
)
def test_where_to_go_on(last, where):
    assert tools_condition({"messages": [last]}) == where
    assert tools_condition([last]) == where
    assert tools_condition(State([last])) == where
    assert tools_condition({"talk": [last]}, messages_key="talk") == where


@pytest.mark.parametrize("state", [{}, {"messages": []}, []], ids=str)
def test_no_messages_to_decide_on(state):
    with pytest.raises(UsageError, match="tools_condition needs messages"):
        tools_condition(state)


@both_worlds
def test_results_of_several_kinds_together(world):
    """A command, a list of commands and plain results in one turn, each folded into the state."""

    class Notes(TypedDict):
        messages: Annotated[list[AnyMessage], add_messages]
        notes: Annotated[list[str], operator.add]

    @tool
    def note(text: str, runtime: ToolRuntime) -> Any:
        """Note."""
        done = ToolMessage("noted", tool_call_id=str(runtime.tool_call_id))
        return [Command(update={"notes": [text]}), done]

    graph = StateGraph(Notes)
    graph.add_node("tools", ToolNode([look, note]))
    graph.add_edge(START, "tools")
    given = {"messages": [asks(OSLO, call("note", text="a", id="c3"), ROME)], "notes": []}
    result = invoke(graph.compile(), world, given)
    assert [m.text for m in result["messages"][1:]] == ["sunny in Oslo", "noted", "sunny in Rome"]
    assert result["notes"] == ["a"]


@both_worlds
def test_messages_that_were_sent(world):
    """A `Send` of a list of messages, as older examples have it."""
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([look]))
    graph.add_conditional_edges(START, lambda state: Send("tools", state["messages"]), ["tools"])
    result = invoke(graph.compile(), world, {"messages": [HumanMessage("hi"), asks(OSLO)]})
    assert [m.text for m in result["messages"][2:]] == ["sunny in Oslo"]
