"""LangChain's tools in our agents: arguments, injected values, results, failures, both worlds."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest

pytest.importorskip("langchain_core", reason="langchain-core is not installed")

from langchain_core.callbacks import BaseCallbackHandler as TheirHandler
from langchain_core.messages import ToolMessage as TheirToolMessage
from langchain_core.runnables import RunnableConfig as TheirConfig
from langchain_core.tools import (
    BaseTool,
    InjectedToolArg,
    InjectedToolCallId,
    StructuredTool,
    Tool,
    ToolException,
    tool,
)
from langgraph.prebuilt import InjectedState, ToolRuntime
from langgraph.types import Command
from pydantic import BaseModel, Field

from loopwright.agents import create_agent
from loopwright.agents.middleware import wrap_tool_call
from loopwright.agents.tool_node import ToolNode
from loopwright.callbacks import BaseCallbackHandler
from loopwright.messages import AIMessage, ToolMessage
from loopwright.testing import ScriptedModel, call
from loopwright.tools import convert_to_openai_tool
from loopwright.types import interrupt


@tool
def add(a: int, b: int = 1) -> str:
    """Add two numbers."""
    return str(a + b)


def ask(tools: list[Any], *script: Any, world: str = "blocking", **options: Any) -> list[Any]:
    """The results of the calls of a scripted run."""
    agent = create_agent(ScriptedModel(*script, "done"), tools=tools, **options)
    given = {"messages": [("user", "go")]}
    result = agent.invoke(given) if world == "blocking" else asyncio.run(agent.ainvoke(given))
    return [message for message in result["messages"] if isinstance(message, ToolMessage)]


WORLDS = pytest.mark.parametrize("world", ["blocking", "asyncio"])


@WORLDS
def test_arguments_are_checked_and_handed_on(world: str) -> None:
    found = ask([add], call("add", a="2"), call("add", a="x"), world=world)
    assert found[0].content == "3"
    assert found[1].status == "error"
    assert "- a: Input should be a valid integer" in found[1].text


def test_schema_is_the_tools_own() -> None:
    class Where(BaseModel):
        city: str = Field(description="Its name.")

    @tool("look", args_schema=Where)
    def look(city: str) -> str:
        """Look at a city."""
        return city

    function = convert_to_openai_tool(look)["function"]
    assert (function["name"], function["description"]) == ("look", "Look at a city.")
    assert function["parameters"]["properties"] == {"city": {"description": "Its name.", "type": "string"}}


@WORLDS
def test_a_json_schema_is_taken_as_it_is(world: str) -> None:
    """As tools of MCP servers have it."""

    async def run(**given: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        return [{"type": "text", "text": given["q"]}], given

    schema = {"type": "object", "properties": {"q": {"type": "string"}, "n": {"type": "integer"}}, "required": ["q"]}
    search: Any = StructuredTool(
        name="search",
        description="Search.",
        args_schema=schema,
        coroutine=run,
        response_format="content_and_artifact",
    )
    found = ask([search], call("search", q="a", n=2), call("search", n=2), world=world)
    assert convert_to_openai_tool(search)["function"]["parameters"] == schema
    assert (found[0].text, found[0].artifact) == ("a", {"q": "a", "n": 2})
    assert (found[1].text.splitlines()[1], found[1].status) == ("- q: Field required", "error")


def test_a_tool_of_one_text() -> None:
    shout = Tool(name="shout", func=str.upper, description="Shout.")
    assert ask([shout], call("shout", __arg1="hi"))[0].content == "HI"


@WORLDS
def test_a_coroutine_tool_serves_both_worlds(world: str) -> None:
    @tool
    async def later(text: str) -> str:
        """Say it later."""
        await asyncio.sleep(0)
        return text.upper()

    assert ask([later], call("later", text="hi"), world=world)[0].content == "HI"


@WORLDS
def test_a_class_with_both_runs_its_own_in_each(world: str) -> None:
    class Where(BaseTool):
        name: str = "where"
        description: str = "Where it runs."

        def _run(self) -> str:
            return "blocking"

        async def _arun(self) -> str:
            return "asyncio"

    assert ask([Where()], call("where"), world=world)[0].content == world


@WORLDS
def test_artifacts_and_return_direct(world: str) -> None:
    chart = object()

    @tool(response_format="content_and_artifact", return_direct=True)
    def draw(n: int) -> tuple[str, object]:
        """Draw."""
        return f"{n} bars", chart

    found = ask([draw], call("draw", n=3), world=world)
    assert (found[0].content, found[0].status) == ("3 bars", "success")
    assert found[0].artifact is chart


@WORLDS
def test_injected_values(world: str) -> None:
    @tool
    def inspect(
        word: str,
        state: Annotated[dict[str, Any], InjectedState],
        messages: Annotated[list[Any], InjectedState("messages")],
        call_id: Annotated[str, InjectedToolCallId],
        runtime: ToolRuntime,
        config: TheirConfig,
    ) -> str:
        """Look around."""
        kinds = {type(message).__module__.partition(".")[0] for message in [*messages, *state["messages"]]}
        return f"{word} {kinds} {call_id == runtime.tool_call_id} {len(runtime.state['messages'])} {config.get('tags')}"

    assert list(convert_to_openai_tool(inspect)["function"]["parameters"]["properties"]) == ["word"]
    agent = create_agent(ScriptedModel(call("inspect", word="w", state="mine", call_id="mine"), "done"), [inspect])
    given: Any = {"messages": [("user", "go")]}
    config: Any = {"tags": ["t"]}
    result = agent.invoke(given, config) if world == "blocking" else asyncio.run(agent.ainvoke(given, config))
    assert result["messages"][2].text == "w {'langchain_core'} True 2 ['t']"


def test_injected_by_a_hook_and_never_by_the_model() -> None:
    @tool
    def who(user: Annotated[str, InjectedToolArg]) -> str:
        """Who is asking?"""
        return user

    @wrap_tool_call
    def sign(request: Any, handler: Any) -> Any:
        asked = request.tool_call
        return handler(request.override(tool_call={**asked, "args": {**asked["args"], "user": "ann"}}))

    assert ask([who], call("who", user="root"), middleware=[sign])[0].content == "ann"


@WORLDS
def test_commands_change_the_state(world: str) -> None:
    @tool
    def book(seat: str, call_id: Annotated[str, InjectedToolCallId]) -> Command:
        """Book a seat."""
        return Command(update={"messages": [TheirToolMessage(f"{seat} booked", tool_call_id=call_id, artifact={1})]})

    found = ask([book], call("book", seat="4a"), world=world)
    assert (found[0].content, found[0].name, found[0].artifact) == ("4a booked", "book", {1})


@WORLDS
def test_failures_are_results(world: str) -> None:
    @tool
    def fail(how: str) -> str:
        """Fail."""
        raise ToolException("ask for less") if how == "told" else OSError("disk full")

    found = ask([fail], call("fail", how="told"), call("fail", how="not"), world=world)
    assert [(one.content, one.status) for one in found] == [
        ("ask for less", "error"),
        ("Tool 'fail' failed: OSError: disk full", "error"),
    ]


def test_its_own_handling_of_failures_holds() -> None:
    @tool
    def fail() -> str:
        """Fail."""
        raise ToolException("no")

    fail.handle_tool_error = "try tomorrow"
    found = ask([fail], call("fail"))
    assert (found[0].content, found[0].status) == ("try tomorrow", "error")


def test_nobody_hears_twice() -> None:
    heard: list[str] = []

    class Ours(BaseCallbackHandler):
        def on_tool_start(self, *args: Any, **kwargs: Any) -> None:
            heard.append("ours")

    class Theirs(TheirHandler):
        def on_tool_start(self, *args: Any, **kwargs: Any) -> None:
            heard.append("theirs")

    counted = add.model_copy(update={"callbacks": [Theirs()]})
    agent = create_agent(ScriptedModel(call("add", a=1), "done"), [counted])
    agent.invoke({"messages": [("user", "go")]}, {"callbacks": [Ours()]})
    assert sorted(heard) == ["ours", "theirs"]


def test_a_tool_node_takes_them() -> None:
    asked = AIMessage("", tool_calls=[{"name": "add", "args": {"a": 1}, "id": "c1"}])
    assert ToolNode([add]).invoke({"messages": [asked]})["messages"][0].content == "2"


def test_our_interrupt_pauses_in_them() -> None:
    from loopwright.checkpoint.memory import InMemorySaver

    @tool
    def confirm(what: str) -> str:
        """Ask a person."""
        return f"{what}: {interrupt(what)}"

    agent = create_agent(ScriptedModel(call("confirm", what="pay"), "done"), [confirm], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    paused = agent.invoke({"messages": [("user", "go")]}, config)
    assert paused.interrupts[0].value == "pay"
    from loopwright.types import Command as OurCommand

    result = agent.invoke(OurCommand(resume="yes"), config)
    assert result["messages"][2].content == "pay: yes"
