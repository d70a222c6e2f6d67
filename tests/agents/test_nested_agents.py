"""Agents as tools: their tokens, usage, context, threads and cancellation belong to the tree."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import Any

import pytest

from loopwright.agents import AgentState, Limits, create_agent
from loopwright.agents.middleware import before_model
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.config import get_stream_writer
from loopwright.errors import ServerError
from loopwright.graph import END, START, StateGraph
from loopwright.graph.message import MessagesState
from loopwright.messages import AIMessage
from loopwright.testing import ScriptedModel, call, say, use
from loopwright.tools import ToolRuntime, tool
from tests.agents.worlds import World, both_worlds, invoke, is_valid, shown, stream, thread, until


def asking(inner: Any, kind: str = "def", name: str = "ask", **options: Any) -> Any:
    """A tool that asks an agent, in one of the two worlds."""

    @tool(name)
    def ask(question: str) -> str:
        """Ask."""
        return inner.invoke({"messages": question}, **options).text

    @tool(name)
    async def aask(question: str) -> str:
        """Ask."""
        return (await inner.ainvoke({"messages": question}, **options)).text

    return ask if kind == "def" else aask


kinds = pytest.mark.parametrize("kind", ["def", "async def"])


def outer_model(*names: str) -> ScriptedModel:
    return ScriptedModel(
        use(*[call(name, question="?") for name in names or ("ask",)], usage=(1, 1)), say("outer", usage=(1, 1))
    )


# -- results --------------------------------------------------------------------------------------------------------


@both_worlds
@kinds
@pytest.mark.parametrize("reading", [False, True], ids=["invoke", "stream"])
def test_an_agent_is_a_tool(world, kind, reading):
    inner = create_agent(ScriptedModel(say("inner", usage=(10, 5))))
    agent = create_agent(outer_model(), [asking(inner, kind)])
    if reading:
        assert shown(stream(agent, world, stream_mode="values")[-1]["messages"])[2:] == [
            ("tool", "inner"),
            ("ai", "outer"),
        ]
    else:
        result = invoke(agent, world)
        assert (result["messages"][2].text, result.text, result.usage["total_tokens"]) == ("inner", "outer", 19)


@both_worlds
def test_an_agent_that_is_called_in_a_reader_is_no_nested_one(world):
    """The body of the reader's loop is outside of the run: two agents, two accounts."""
    other = create_agent(ScriptedModel(say("other", usage=(100, 0)), loop=True), limits=Limits(model_calls=1))
    agent = create_agent(ScriptedModel(say("ok", usage=(1, 0))), limits=Limits(model_calls=1))
    texts: list[str] = []
    if world == "sync":
        for _ in agent.stream({"messages": "hi"}):
            texts.append(other.invoke({"messages": "hi"}).text)  # noqa: PERF401 - it is a reader's loop
    else:

        async def read() -> None:
            async for _ in agent.astream({"messages": "hi"}):
                result = await other.ainvoke({"messages": "hi"})
                texts.append(result.text)

        asyncio.run(read())
    assert texts == ["other"]


@both_worlds
@kinds
def test_an_error_of_an_inner_agent_is_a_result_of_its_tool(world, kind):
    inner = create_agent(ScriptedModel(ServerError("the provider is in trouble")))
    result = invoke(create_agent(outer_model(), [asking(inner, kind)]), world)
    assert (result.text, result["messages"][2].status) == ("outer", "error")
    assert "the provider is in trouble" in result["messages"][2].text


@both_worlds
def test_inner_agents_run_at_the_same_time(world):
    meet = threading.Barrier(2)

    def arrive(messages: Any) -> str:
        meet.wait(timeout=20)
        return f"met {messages[-1].text}"

    inner = create_agent(ScriptedModel(arrive, arrive))
    model = ScriptedModel([call("ask", question="a"), call("ask", question="b")], "outer")

    result = invoke(create_agent(model, [asking(inner)]), world)
    assert sorted(m.text for m in result["messages"][2:4]) == ["met a", "met b"]


# -- streams --------------------------------------------------------------------------------------------------------


@both_worlds
@kinds
def test_tokens_of_the_tree(world, kind):
    """Without `subgraphs` the reader sees the outer agent's; with it all, each with where it comes from."""

    def make() -> Any:
        inner = create_agent(ScriptedModel(say(chunks=["in", "ner"])), name="inner")
        return create_agent(ScriptedModel(call("ask", question="?"), say(chunks=["out", "er"])), [asking(inner, kind)])

    flat = [(c.text, meta["langgraph_node"]) for c, meta in stream(make(), world, stream_mode="messages") if c.text]
    assert flat == [("inner", "tools"), ("out", "model"), ("er", "model")]
    tree = stream(make(), world, stream_mode="messages", subgraphs=True)
    texts = [
        (len(ns), chunk.text, meta["langgraph_node"])
        for ns, (chunk, meta) in tree
        if chunk.text and chunk.type != "tool"
    ]
    assert texts == [(1, "in", "model"), (1, "ner", "model"), (0, "out", "model"), (0, "er", "model")]
    (path,) = {ns for ns, _ in tree if ns}
    assert path[0].startswith("tools:")


@both_worlds
@kinds
def test_an_inner_token_is_read_before_the_next_is_made(world, kind):
    made: list[str] = []

    class Slow(ScriptedModel):
        async def answer(self, port: Any, messages: Any, **more: Any) -> Any:
            take = more.pop("take")

            def note(piece: Any) -> Any:
                made.append(piece if isinstance(piece, str) else piece.text)
                return take(piece)

            return await super().answer(port, messages, take=take and note, **more)

    inner = create_agent(Slow(say(chunks=["a", "b", "c"])))  # pyright: ignore[reportCallIssue]
    agent = create_agent(ScriptedModel(call("ask", question="?"), "ok"), [asking(inner, kind)])
    seen: list[Any] = []

    def look(item: Any) -> None:
        namespace, (chunk, _) = item
        if namespace and chunk.text:
            seen.append((chunk.text, list(made)))

    options: Any = {"stream_mode": "messages", "subgraphs": True}
    if world == "sync":
        for item in agent.stream({"messages": "hi"}, **options):
            look(item)
    else:

        async def read() -> None:
            async for item in agent.astream({"messages": "hi"}, **options):
                look(item)

        asyncio.run(read())
    assert seen == [("a", ["a"]), ("b", ["a", "b"]), ("c", ["a", "b", "c"])]


@both_worlds
@kinds
def test_updates_of_the_tree(world, kind):
    inner = create_agent(ScriptedModel("inner"))
    items = stream(create_agent(outer_model(), [asking(inner, kind)]), world, subgraphs=True)
    assert [(len(namespace), next(iter(update))) for namespace, update in items] == [
        (0, "model"),
        (1, "model"),
        (0, "tools"),
        (0, "model"),
    ]


@both_worlds
@kinds
def test_own_values_of_an_inner_tool_reach_the_reader(world, kind):
    """The `custom` mode belongs to the tree."""

    @tool
    def work() -> str:
        """Work."""
        get_stream_writer()("at work")
        return "done"

    inner = create_agent(ScriptedModel(call("work"), "inner"), [work])
    agent = create_agent(outer_model(), [asking(inner, kind)])
    assert stream(agent, world, stream_mode="custom") == ["at work"]


@both_worlds
@kinds
def test_an_inner_stream_gives_to_its_reader_and_to_the_trees(world, kind):
    inner = create_agent(ScriptedModel(say(chunks=["a", "b"])))
    inside: list[str] = []

    @tool
    def ask() -> str:
        """Ask."""
        inside.extend(c.text for c, _ in inner.stream({"messages": "?"}, stream_mode="messages") if c.text)
        return "asked"

    @tool("ask")
    async def aask() -> str:
        """Ask."""
        async for chunk, _ in inner.astream({"messages": "?"}, stream_mode="messages"):
            inside.extend([chunk.text] if chunk.text else [])
        return "asked"

    agent = create_agent(ScriptedModel(call("ask"), "ok"), [ask if kind == "def" else aask])
    outside = stream(agent, world, stream_mode="messages", subgraphs=True)
    assert inside == ["a", "b"]
    assert [chunk.text for namespace, (chunk, _) in outside if namespace and chunk.text] == ["a", "b"]


@both_worlds
def test_the_events_of_the_tree(world):
    inner = create_agent(ScriptedModel("inner"))
    events = stream(create_agent(outer_model(), [asking(inner)]), world, stream_mode="events")
    assert [event.seq for event in events] == sorted(event.seq for event in events)
    runs = [(type(e).__name__, len(e.path)) for e in events if type(e).__name__ in ("RunStarted", "RunFinished")]
    assert runs == [("RunStarted", 0), ("RunStarted", 1), ("RunFinished", 1), ("RunFinished", 0)]


@both_worlds
def test_two_inner_agents_keep_their_own_pairs(world):
    """B146 as users met it: two agents at the same time, each with calls and results of its own."""

    @tool
    def look(city: str) -> str:
        """Look."""
        return f"sunny in {city}"

    def answers(messages: Any) -> Any:
        question = messages[0].text
        if len(messages) == 1:
            return call("look", city=question)
        return f"{question}: {messages[-1].text}"

    inner = create_agent(ScriptedModel(*[answers] * 8), [look])
    model = ScriptedModel([call("ask", question=str(n)) for n in range(4)], "ok")
    result = invoke(create_agent(model, [asking(inner)]), world)
    assert [m.text for m in result["messages"][2:6]] == [f"{n}: sunny in {n}" for n in range(4)]


# -- what is handed down --------------------------------------------------------------------------------------------


@dataclass
class User:
    name: str


@both_worlds
@kinds
def test_the_context_is_handed_down(world, kind):
    seen: list[Any] = []

    @tool
    def who(runtime: ToolRuntime) -> str:
        """Who."""
        seen.append(runtime.context)
        return "seen"

    inner = create_agent(ScriptedModel(call("who"), "inner"), [who], context_schema=User)
    agent = create_agent(outer_model(), [asking(inner, kind)], context_schema=User)
    invoke(agent, world, context={"name": "ann"})
    assert seen == [User("ann")]


@both_worlds
def test_an_inner_context_of_its_own(world):
    seen: list[Any] = []

    @before_model
    def see(state: Any, runtime: Any) -> None:
        seen.append(runtime.context)

    inner = create_agent(ScriptedModel("inner"), middleware=[see])
    agent = create_agent(outer_model(), [asking(inner, context={"name": "bob"})], middleware=[see])
    invoke(agent, world, context={"name": "ann"})
    assert seen == [{"name": "ann"}, {"name": "bob"}, {"name": "ann"}]


@both_worlds
def test_tags_and_metadata_are_handed_down(world):
    inner = create_agent(ScriptedModel(say(chunks=["inner"])))
    agent = create_agent(outer_model(), [asking(inner)])
    config = {"tags": ["t"], "metadata": {"k": 1}, "recursion_limit": 50}
    tokens = stream(agent, world, config=config, stream_mode="messages", subgraphs=True)
    metadata = [meta for namespace, (chunk, meta) in tokens if namespace]
    assert [(meta["tags"], meta["k"]) for meta in metadata if meta] == [(["t"], 1)] * len(metadata)
    assert metadata


@both_worlds
@kinds
def test_an_inner_agent_with_a_checkpointer_is_a_part_of_the_tree(world, kind):
    """It has a thread of its own only if it is called with one."""
    saver = InMemorySaver()
    inner_model = ScriptedModel("one", "two")
    inner = create_agent(inner_model, checkpointer=saver)
    agent = create_agent(
        ScriptedModel(call("ask", question="a"), "ok", call("ask", question="b"), "ok"),
        [asking(inner, kind)],
        checkpointer=InMemorySaver(),
    )
    invoke(agent, world, config=thread("outer"))
    invoke(agent, world, config=thread("outer"))
    assert [len(request.messages) for request in inner_model.requests] == [1, 1]
    own = asking(inner, kind, config=thread("inner"))
    inner_model._script += ["three", "four"]
    agent = create_agent(ScriptedModel(call("ask", question="a"), call("ask", question="b"), "ok"), [own])
    invoke(agent, world)
    assert [len(request.messages) for request in inner_model.requests[2:]] == [1, 3]


@both_worlds
def test_the_schema_of_a_model_call_in_a_tool_is_not_the_agents(world):
    """B142 as users met it."""
    side = ScriptedModel(call("Answer", text="42"))
    schema = {"title": "Answer", "type": "object", "properties": {"text": {"type": "string"}}}

    @tool
    def think() -> Any:
        """Think."""
        return side.with_structured_output(schema).invoke("?")

    model = ScriptedModel(call("think"), "ok")
    result = invoke(create_agent(model, [think]), world)
    assert ([request.tool_names for request in model.requests], result["messages"][2].text) == (
        [["think"], ["think"]],
        '{"text": "42"}',
    )


# -- leaving the tree -----------------------------------------------------------------------------------------------


def running_inner(started: threading.Event, ended: list[str], kind: str) -> Any:
    """An agent inside a tool whose own tool waits for ever, and notes when it is stopped."""
    stop = threading.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("tool")
        return "never"

    inner = create_agent(ScriptedModel(call("wait"), "never"), [wait])
    return create_agent(
        ScriptedModel(call("ask", question="?"), "never"), [asking(inner, kind)], checkpointer=InMemorySaver()
    ), stop


def test_cancelling_the_outer_run_cancels_the_inner_one():
    started, ended = threading.Event(), []
    agent, _ = running_inner(started, ended, "async def")

    async def main() -> None:
        run = asyncio.create_task(agent.ainvoke({"messages": "hi"}, thread()))
        await until(started.is_set)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert ended == ["tool"]

    asyncio.run(main())
    assert is_valid(agent.get_state(thread()).values["messages"])


class Endless:
    """An agent in a plain tool that goes on for ever, unless somebody stops it. Its steps wait for the test."""

    def __init__(self, depth: int = 1) -> None:
        self.steps = 0
        self.stepped = threading.Event()
        self.go = threading.Semaphore(0)

        @tool
        def step(n: int) -> str:
            """Step."""
            self.steps += 1
            self.stepped.set()
            assert self.go.acquire(timeout=20)
            return str(n)

        model = ScriptedModel(lambda messages: call("step", n=len(messages)), loop=True)
        self.saver = InMemorySaver()
        self.inner = create_agent(model, [step], checkpointer=self.saver)
        self.ended = threading.Event()
        self.agent = create_agent(ScriptedModel(call("ask", question="?"), "ok", loop=True), [self.asking(depth)])

    def asking(self, depth: int, **options: Any) -> Any:
        @tool("ask", **options)
        def ask(question: str) -> str:
            """Ask."""
            try:
                if depth > 1:
                    deeper = create_agent(ScriptedModel(call("ask", question="?"), "ok"), [self.asking(depth - 1)])
                    return deeper.invoke({"messages": question}).text
                return self.inner.invoke({"messages": question}, thread("inner")).text
            finally:
                self.ended.set()

        return ask

    def is_stopped(self) -> bool:
        """Let it go on: it makes no further step, ends, and its own thread is in order."""
        before = self.steps
        for _ in range(5):
            self.go.release()
        assert self.ended.wait(timeout=20)
        assert is_valid(self.inner.get_state(thread("inner")).values["messages"])
        return self.steps == before


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("reading", [False, True], ids=["ainvoke", "astream"])
def test_cancelling_stops_an_agent_that_a_plain_tool_asks(reading, depth):
    """Its thread cannot be stopped, but the run on it asks no model any more."""
    endless = Endless(depth)

    async def read() -> None:
        async for _ in endless.agent.astream({"messages": "hi"}):
            pass

    async def main() -> None:
        task = asyncio.create_task(read() if reading else endless.agent.ainvoke({"messages": "hi"}))
        await until(endless.stepped.is_set)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert endless.is_stopped()


@both_worlds
def test_a_timeout_of_a_tool_stops_the_agent_in_it(world):
    endless = Endless()
    ask = endless.asking(1, timeout_s=0.05)
    result = invoke(create_agent(ScriptedModel(call("ask", question="?"), "ok"), [ask]), world)
    assert (result["messages"][2].status, result.text) == ("error", "ok")
    assert endless.is_stopped()


@both_worlds
def test_time_that_is_over_stops_the_agent_in_a_tool(world):
    endless = Endless()
    agent = create_agent(ScriptedModel(call("ask", question="?")), [endless.asking(1)], limits=Limits(seconds=0.05))
    assert invoke(agent, world).stop_reason == "seconds"
    assert endless.is_stopped()


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_leaving_the_stream_at_an_inner_token_ends_the_tree(kind):
    made: list[str] = []

    def pieces(messages: Any) -> Any:
        return say(chunks=[str(n) for n in range(100)])

    class Counting(ScriptedModel):
        async def answer(self, port: Any, messages: Any, **more: Any) -> Any:
            take = more.pop("take")

            def note(piece: Any) -> Any:
                made.append("piece")
                return take(piece)

            return await super().answer(port, messages, take=take and note, **more)

    def make() -> Any:
        made.clear()
        inner = create_agent(Counting(pieces))  # pyright: ignore[reportCallIssue]
        return create_agent(
            ScriptedModel(call("ask", question="?"), "never"), [asking(inner, kind)], checkpointer=InMemorySaver()
        )

    agent = make()
    options: Any = {"stream_mode": "messages", "subgraphs": True}
    for namespace, (chunk, _) in agent.stream({"messages": "hi"}, thread(), **options):
        if namespace and chunk.text == "3":
            break
    assert 4 <= len(made) <= 6
    assert is_valid(agent.get_state(thread()).values["messages"])

    agent = make()

    async def read() -> None:
        stream = agent.astream({"messages": "hi"}, thread(), **options)
        async for namespace, (chunk, _) in stream:
            if namespace and chunk.text == "3":
                break
        await stream.aclose()  # type: ignore[attr-defined]

    asyncio.run(read())
    assert 4 <= len(made) <= 6
    assert is_valid(agent.get_state(thread()).values["messages"])


# -- agents as nodes ------------------------------------------------------------------------------------------------


@both_worlds
def test_an_agent_is_a_node(world):
    inner = create_agent(ScriptedModel(say(chunks=["in", "ner"]), loop=True), name="inner")
    graph = StateGraph(MessagesState)
    graph.add_node("agent", inner)
    graph.add_node("after", lambda state: {"messages": [AIMessage("after")]})
    graph.add_edge(START, "agent").add_edge("agent", "after").add_edge("after", END)
    compiled = graph.compile()
    assert shown(invoke(compiled, world)["messages"]) == [("human", "hi"), ("ai", "inner"), ("ai", "after")]
    tokens = stream(compiled, world, stream_mode="messages", subgraphs=True)
    assert [(len(ns), chunk.text) for ns, (chunk, _) in tokens if chunk.text] == [(1, "in"), (1, "ner"), (0, "after")]


@both_worlds
def test_an_agent_calls_itself_through_a_tool(world: World):
    """Recursion has a bottom: the budget of the tree."""
    agents: list[Any] = []

    @tool
    def again(depth: int) -> str:
        """Again."""
        return agents[0].invoke({"messages": str(depth + 1)}).text

    model = ScriptedModel(lambda messages: call("again", depth=len(messages)), loop=True)
    agents.append(create_agent(model, [again], limits=Limits(model_calls=12)))
    result = invoke(agents[0], world)
    assert (result.stop_reason, len(model.requests)) == ("model_calls", 12)


@both_worlds
def test_state_of_the_outer_agent_is_not_the_inner_ones(world):
    class Notes(AgentState):
        note: str

    seen: list[Any] = []

    @before_model(state_schema=Notes)
    def see(state: Any, runtime: Any) -> None:
        seen.append(state.get("note"))

    inner = create_agent(ScriptedModel("inner"), middleware=[see])
    agent = create_agent(outer_model(), [asking(inner)], middleware=[see])
    invoke(agent, world, {"messages": "hi", "note": "mine"})
    assert seen == ["mine", None, "mine"]
