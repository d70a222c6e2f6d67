"""A model called by code inside a run: the run's reader sees its tokens, and its usage counts."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from loopwright.callbacks import BaseCallbackHandler
from loopwright.graph import START, MessagesState, StateGraph
from loopwright.messages import AIMessage
from loopwright.models import BaseChatModel
from loopwright.testing import ScriptedModel, call, say

INPUT: Any = {"messages": [("user", "hi")]}


def graph_of(node: Callable[..., Any]) -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    return builder.compile()


def read(node: Callable[..., Any], log: list[Any], *, on_loop: bool) -> None:
    """Run a graph of one node and write what its reader sees into `log`."""
    graph = graph_of(node)

    async def go() -> None:
        async for piece, metadata in graph.astream(INPUT, stream_mode="messages"):
            log.append(("reader", piece.content, metadata))

    if on_loop:
        asyncio.run(go())
        return
    for piece, metadata in graph.stream(INPUT, stream_mode="messages"):
        log.append(("reader", piece.content, metadata))


def texts(log: list[Any]) -> list[Any]:
    return [entry[:2] for entry in log]


in_both = pytest.mark.parametrize("on_loop", [False, True], ids=["blocking", "asyncio"])
READ = [("reader", "one "), ("reader", "two"), ("reader", "")]


@in_both
@pytest.mark.parametrize("kind", ["invoke", "ainvoke", "invoke on a loop", "batch", "structured"])
def test_the_runs_reader_sees_the_tokens(kind: str, on_loop: bool) -> None:
    model = ScriptedModel("one two", tags=["mine"])
    log: list[Any] = []

    def invoke(state: Any) -> Any:
        return {"messages": [model.invoke(state["messages"])]}

    def batch(state: Any) -> Any:
        return {"messages": model.batch([state["messages"]])}

    async def ainvoke(state: Any) -> Any:
        return {"messages": [await model.ainvoke(state["messages"])]}

    async def invoke_on_a_loop(state: Any) -> Any:
        """A sync call stops the loop it is made on: the tokens are shown when it is over, and nothing hangs."""
        return {"messages": [model.invoke(state["messages"])]}

    def structured(state: Any) -> Any:
        raw: Any = model.with_structured_output({"title": "T", "type": "object"}, include_raw=True)
        return {"messages": [raw.invoke(state["messages"])["raw"]]}

    nodes = {"invoke": invoke, "ainvoke": ainvoke, "batch": batch, "structured": structured}
    read(nodes.get(kind, invoke_on_a_loop), log, on_loop=on_loop)
    assert texts(log) == READ
    assert log[0][2]["tags"] == ["mine"]
    assert log[0][2]["langgraph_node"] == "node"


@in_both
@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_runs_reader_comes_first_and_paces_a_stream(asynchronous: bool, on_loop: bool) -> None:
    model = ScriptedModel("one two")
    log: list[Any] = []

    def node(state: Any) -> Any:
        for piece in model.stream(state["messages"]):
            log.append(("node", piece.content))  # noqa: PERF401 - who is first is the point
        return {}

    async def anode(state: Any) -> Any:
        async for piece in model.astream(state["messages"]):
            log.append(("node", piece.content))  # noqa: PERF401 - who is first is the point
        return {}

    read(anode if asynchronous else node, log, on_loop=on_loop)
    assert texts(log) == [
        ("reader", "one "),
        ("node", "one "),
        ("reader", "two"),
        ("node", "two"),
        ("reader", ""),
        ("node", ""),
    ]


@in_both
def test_B71_a_model_that_cannot_stream_is_shown_as_one_whole_message(on_loop: bool) -> None:
    model = ScriptedModel("one two", disable_streaming=True)
    log: list[Any] = []
    read(lambda state: {"messages": [model.invoke(state["messages"])]}, log, on_loop=on_loop)
    assert texts(log) == [("reader", "one two")]


@in_both
def test_a_model_tagged_nostream_is_not_shown(on_loop: bool) -> None:
    model = ScriptedModel("secret", "shown")
    log: list[Any] = []

    def node(state: Any) -> Any:
        model.with_config(tags=["nostream"]).invoke("think")
        model.invoke("speak", {"tags": ["loud"]})
        return {}

    read(node, log, on_loop=on_loop)
    assert texts(log) == [("reader", "shown"), ("reader", "")]
    assert log[0][2]["tags"] == ["loud"]


def test_a_config_that_is_passed_on_adds_nothing_twice() -> None:
    heard: list[Any] = []
    ends: list[str] = []
    run_id = uuid.uuid4()

    class Hears(BaseCallbackHandler):
        def on_chat_model_start(self, serialized: Any, messages: Any, **kwargs: Any) -> None:
            heard.append((kwargs["run_id"], kwargs["parent_run_id"]))

        def on_llm_end(self, response: Any, **kwargs: Any) -> None:
            ends.append(response.generations[0][0].text)

    model = ScriptedModel("one", "two")

    def node(state: Any, config: Any) -> Any:
        model.invoke("passed on", config)
        model.invoke("inherited")
        return {}

    config: Any = {"tags": ["run"], "callbacks": [Hears()], "run_id": run_id}
    pieces = list(graph_of(node).stream(INPUT, config, stream_mode="messages"))
    assert [metadata["tags"] for _, metadata in pieces] == [["run"]] * 4
    assert ends == ["one", "two"]
    (first, parent), (second, same_parent) = heard
    assert len({first, second, run_id}) == 3
    assert parent == same_parent is not None


@in_both
def test_a_model_with_only_async_methods_is_called_by_a_plain_call_on_a_loop(on_loop: bool) -> None:
    """The node runs on an event loop, and the call it makes there needs one too."""

    class OnlyAsync(BaseChatModel):
        async def _agenerate(self, messages: list[Any], **kwargs: Any) -> AIMessage:
            await asyncio.sleep(0)
            return AIMessage("done")

        async def _astream(self, messages: list[Any], **kwargs: Any) -> AsyncIterator[str]:
            await asyncio.sleep(0)
            yield "done"

    async def node(state: Any) -> Any:
        return {"messages": [OnlyAsync().invoke("hi")]}

    graph = graph_of(node)
    result = asyncio.run(graph.ainvoke(INPUT)) if on_loop else graph.invoke(INPUT)
    assert result["messages"][-1].content == "done"


def test_B142_a_schema_asked_for_inside_a_run_stays_there() -> None:
    schema = {"title": "Inner", "type": "object", "properties": {}}
    model = ScriptedModel(call("Inner"), say("outer"))

    def node(state: Any) -> Any:
        model.with_structured_output(schema).invoke("hi")
        return {"messages": [model.invoke(state["messages"])]}

    graph_of(node).invoke(INPUT)
    assert [request.tool_names for request in model.requests] == [["Inner"], []]
