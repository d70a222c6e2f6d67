"""What a reader sees of an agent: the modes, alone and together, in both worlds, token by token."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from loopwright.agents import create_agent
from loopwright.agents.middleware import before_model, wrap_model_call
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.config import get_stream_writer
from loopwright.constants import TAG_NOSTREAM
from loopwright.errors import ServerError, UsageError
from loopwright.messages import AIMessage, AIMessageChunk, HumanMessage
from loopwright.testing import ScriptedModel, call, say, use
from loopwright.tools import ToolRuntime, tool
from tests.agents.worlds import both_worlds, invoke, is_valid, shown, stream, thread, until


def look(city: str) -> str:
    """Look at a city."""
    return f"sunny in {city}"


def one_round() -> ScriptedModel:
    return ScriptedModel(use(call("look", city="Oslo"), text="Let me see."), say(chunks=["It is ", "sunny."]))


# -- each mode ------------------------------------------------------------------------------------------------------


@both_worlds
def test_updates_is_the_default(world):
    updates = stream(create_agent(one_round(), [look]), world)
    assert [(name, shown(update["messages"])) for each in updates for name, update in each.items()] == [
        ("model", [("ai", "Let me see.")]),
        ("tools", [("tool", "sunny in Oslo")]),
        ("model", [("ai", "It is sunny.")]),
    ]


@both_worlds
def test_parallel_calls_are_an_update_each(world):
    model = ScriptedModel([call("look", city="Oslo"), call("look", city="Rome")], "ok")
    updates = stream(create_agent(model, [look]), world)
    assert [next(iter(each)) for each in updates] == ["model", "tools", "tools", "model"]
    assert sorted(each["tools"]["messages"][0].text for each in updates[1:3]) == ["sunny in Oslo", "sunny in Rome"]


@both_worlds
def test_values_are_states(world):
    chunks = stream(create_agent(one_round(), [look]), world, stream_mode="values")
    assert [len(chunk["messages"]) for chunk in chunks] == [1, 2, 3, 4]
    assert all(type(chunk) is dict for chunk in chunks)
    assert chunks[-1].keys() == invoke(create_agent(one_round(), [look]), world).keys()


@both_worlds
def test_messages_are_tokens_with_where_they_come_from(world):
    agent = create_agent(one_round(), [look])
    config = {"configurable": {"thread_id": "t"}, "metadata": {"user": "ann"}, "tags": ["x"]}
    tokens = stream(agent, world, config=config, stream_mode="messages")
    assert [(type(chunk).__name__, chunk.text) for chunk, _ in tokens if chunk.text] == [
        ("AIMessageChunk", "Let "),
        ("AIMessageChunk", "me "),
        ("AIMessageChunk", "see."),
        ("ToolMessage", "sunny in Oslo"),
        ("AIMessageChunk", "It is "),
        ("AIMessageChunk", "sunny."),
    ]
    steps = [(meta["langgraph_node"], meta["langgraph_step"]) for _, meta in tokens]
    assert list(dict.fromkeys(steps)) == [("model", 1), ("tools", 2), ("model", 3)]
    assert all((meta["user"], meta["thread_id"], meta["tags"]) == ("ann", "t", ["x"]) for _, meta in tokens)


@both_worlds
def test_the_sum_of_the_tokens_is_the_message_of_the_state(world):
    """With its id, its calls and its usage."""
    model = ScriptedModel(use(call("look", city="Oslo"), text="Let me see.", usage=(5, 3)), "ok")
    items = stream(create_agent(model, [look]), world, stream_mode=["messages", "values"])
    final = items[-1][1]["messages"]
    asks = final[1]
    parts = [c for mode, item in items if mode == "messages" for c in [item[0]] if c.id == asks.id]
    whole: Any = parts[0]
    for part in parts[1:]:
        whole = whole + part
    assert (whole.text, whole.tool_calls, whole.usage_metadata, whole.id) == (
        asks.text,
        asks.tool_calls,
        asks.usage_metadata,
        asks.id,
    )


@both_worlds
def test_a_model_that_cannot_stream_is_shown_once(world):
    agent = create_agent(ScriptedModel(say("hello there"), disable_streaming=True))
    tokens = stream(agent, world, stream_mode="messages")
    assert [(type(chunk).__name__, chunk.text) for chunk, _ in tokens] == [("AIMessage", "hello there")]


@both_worlds
def test_old_messages_are_not_shown_again(world):
    agent = create_agent(ScriptedModel("one", "two"), checkpointer=InMemorySaver())
    invoke(agent, world, "first", thread())
    tokens = stream(agent, world, "second", thread(), stream_mode="messages")
    assert [chunk.text for chunk, _ in tokens if chunk.text] == ["two"]


@both_worlds
@pytest.mark.parametrize("way", ["tag of the model", "with_config"])
def test_tokens_that_are_not_to_be_shown(world, way):
    model: Any = ScriptedModel(say(chunks=["se", "cret"]), tags=[TAG_NOSTREAM] if way == "tag of the model" else None)
    if way == "with_config":
        side, model = model.with_config(tags=[TAG_NOSTREAM]), ScriptedModel("ok")

        @before_model
        def think(state: Any, runtime: Any) -> None:
            side.invoke("?")

        agent = create_agent(model, middleware=[think])
        assert [c.text for c, _ in stream(agent, world, stream_mode="messages") if c.text] == ["ok"]
    else:
        agent = create_agent(model)
        assert [type(c) for c, _ in stream(agent, world, stream_mode="messages")] in ([], [AIMessage])


@both_worlds
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_tool_writes_to_the_stream_while_it_works(world, kind):
    """Each value is read before the tool goes on to the next: the tool waits for its reader."""
    read = [threading.Event() for _ in range(3)]

    @tool
    def work(runtime: ToolRuntime) -> str:
        """Work."""
        for step, event in enumerate(read):
            runtime.stream_writer(step)
            assert event.wait(timeout=20)
        return "done"

    @tool("work")
    async def awork() -> str:
        """Work."""
        write = get_stream_writer()
        for step, event in enumerate(read):
            write(step)
            await until(event.is_set)
        return "done"

    agent = create_agent(ScriptedModel(call("work"), "ok"), [work if kind == "def" else awork])
    seen: list[int] = []

    def take(step: int) -> None:
        seen.append(step)
        read[step].set()

    if world == "sync":
        for step in agent.stream({"messages": "hi"}, stream_mode="custom"):
            take(step)
    else:

        async def main() -> None:
            async for step in agent.astream({"messages": "hi"}, stream_mode="custom"):
                take(step)

        asyncio.run(main())
    assert seen == [0, 1, 2]


@both_worlds
def test_a_writer_works_from_any_thread(world):
    @tool
    def work() -> str:
        """Work."""
        write = get_stream_writer()
        helpers = [threading.Thread(target=write, args=(n,)) for n in range(3)]
        for helper in helpers:
            helper.start()
            helper.join()
        return "done"

    agent = create_agent(ScriptedModel(call("work"), "ok"), [work])
    assert stream(agent, world, stream_mode="custom") == [0, 1, 2]


@both_worlds
def test_a_child_task_of_an_async_tool_writes_too(world):
    @tool
    async def work() -> str:
        """Work."""

        async def child(n: int) -> None:
            get_stream_writer()(n)

        await asyncio.gather(*[child(n) for n in range(3)])
        return "done"

    agent = create_agent(ScriptedModel(call("work"), "ok"), [work])
    assert sorted(stream(agent, world, stream_mode="custom")) == [0, 1, 2]


@both_worlds
def test_tasks_and_debug_and_checkpoints(world):
    agent = create_agent(one_round(), [look], checkpointer=InMemorySaver())
    items = stream(agent, world, config=thread(), stream_mode=["tasks", "checkpoints"])
    kinds = [(mode, chunk.get("name")) for mode, chunk in items if mode == "tasks"]
    assert kinds == [("tasks", name) for name in ("model", "model", "tools", "tools", "model", "model")]
    assert [chunk["next"] for mode, chunk in items if mode == "checkpoints"] == [
        ["__start__"],
        ["model"],
        ["tools"],
        ["model"],
        [],
    ]
    debug = stream(create_agent(one_round(), [look]), world, stream_mode="debug")
    assert {chunk["type"] for chunk in debug} == {"task", "task_result"}


@both_worlds
def test_the_facts_of_a_run(world):
    agent = create_agent(ScriptedModel(call("look", city="Oslo", id="c1"), say("ok", usage=(2, 1))), [look])
    events = stream(agent, world, stream_mode="events")
    names = [type(event).__name__ for event in events]
    assert (names[0], names[-1]) == ("RunStarted", "RunFinished")
    assert [event.seq for event in events] == list(range(events[0].seq, events[0].seq + len(events)))
    started = next(event for event in events if type(event).__name__ == "ToolStarted")
    finished = next(event for event in events if type(event).__name__ == "ToolFinished")
    assert (started.id, started.name, started.args) == ("c1", "look", {"city": "Oslo"})
    assert (finished.id, finished.status, finished.content) == ("c1", "success", "sunny in Oslo")
    assert (events[-1].stop_reason, events[-1].usage["total_tokens"]) == ("answer", 3)


MODES = ["values", "updates", "messages", "custom", "tasks", "debug", "events", ["messages", "updates"]]


@both_worlds
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_the_final_state_is_the_same_whatever_the_mode(world, mode):
    agent = create_agent(one_round(), [look], checkpointer=InMemorySaver())
    stream(agent, world, config=thread(), stream_mode=mode)
    plain = invoke(create_agent(one_round(), [look]), world)
    kept = agent.get_state(thread()).values["messages"]
    assert [(m.type, m.content, getattr(m, "tool_calls", None)) for m in kept] == [
        (m.type, m.content, getattr(m, "tool_calls", None)) for m in plain["messages"]
    ]


@both_worlds
def test_several_modes_are_pairs_in_order(world):
    items = stream(create_agent(one_round(), [look]), world, stream_mode=["messages", "updates"])
    order = [mode for mode, _ in items]
    assert order.index("updates") > order.index("messages")
    assert [next(iter(chunk)) for mode, chunk in items if mode == "updates"] == ["model", "tools", "model"]


@both_worlds
def test_version_2(world):
    parts = stream(create_agent(ScriptedModel("ok")), world, stream_mode=["updates", "messages"], version="v2")
    assert {part["type"] for part in parts} == {"updates", "messages"}
    assert all(part["ns"] == () for part in parts)


# -- mistakes and errors --------------------------------------------------------------------------------------------


@both_worlds
def test_a_mode_that_does_not_exist(world):
    with pytest.raises(UsageError, match=r'Single tokens come with stream_mode="messages"'):
        stream(create_agent(ScriptedModel("ok")), world, stream_mode="token")


@both_worlds
def test_checkpoints_without_a_checkpointer(world):
    with pytest.raises(UsageError, match=r"checkpointer=InMemorySaver\(\)"):
        stream(create_agent(ScriptedModel("ok")), world, stream_mode="checkpoints")


@both_worlds
def test_a_model_that_breaks_in_the_middle(world):
    """What came before it reaches the reader, then the error does; the thread goes on."""
    model = ScriptedModel(say(chunks=["hel", ServerError("cut off")]), "hello")
    agent = create_agent(model, checkpointer=InMemorySaver())
    seen: list[str] = []

    def read() -> None:
        for chunk, _ in agent.stream({"messages": "hi"}, thread(), stream_mode="messages"):
            seen.append(chunk.text)

    async def aread() -> None:
        async for chunk, _ in agent.astream({"messages": "hi"}, thread(), stream_mode="messages"):
            seen.append(chunk.text)

    with pytest.raises(ServerError, match="cut off"):
        read() if world == "sync" else asyncio.run(aread())
    assert "".join(seen) == "hel"
    assert shown(invoke(agent, world, None, thread())["messages"]) == [("human", "hi"), ("ai", "hello")]


@both_worlds
def test_a_stream_that_nobody_reads_does_nothing(world):
    model = ScriptedModel("ok")
    agent = create_agent(model)
    if world == "sync":
        agent.stream({"messages": "hi"})
    else:

        async def main() -> None:
            agent.astream({"messages": "hi"})

        asyncio.run(main())
    assert model.requests == []


# -- many readers ---------------------------------------------------------------------------------------------------


def test_two_streams_in_turn_never_mix():
    def agent(word: str) -> Any:
        return create_agent(ScriptedModel(say(chunks=[f"{word}{n}" for n in range(5)])))

    first = agent("a").stream({"messages": "hi"}, stream_mode="messages")
    second = agent("b").stream({"messages": "hi"}, stream_mode="messages")
    pairs = [(one.text, other.text) for (one, _), (other, _) in zip(first, second, strict=True)]
    assert pairs[:5] == [(f"a{n}", f"b{n}") for n in range(5)]


def test_many_readers_of_one_agent_at_once():
    """Each task reads its own tokens."""

    def echo(messages: Any) -> Any:
        return say(chunks=[messages[-1].text, " ", "again"])

    agent = create_agent(ScriptedModel(*[echo] * 20))

    async def read(n: int) -> str:
        return "".join([c.text async for c, _ in agent.astream({"messages": str(n)}, stream_mode="messages")])

    async def main() -> list[str]:
        return await asyncio.gather(*[read(n) for n in range(20)])

    assert asyncio.run(main()) == [f"{n} again" for n in range(20)]


@both_worlds
def test_a_reader_that_changes_what_it_is_given(world):
    """A chunk of `values` is the reader's own: what it does to it changes no run."""
    agent = create_agent(one_round(), [look])
    last: Any = None
    if world == "sync":
        for last in agent.stream({"messages": "hi"}, stream_mode="values"):
            last["extra"] = 1
    else:

        async def main() -> Any:
            chunk: Any = None
            async for chunk in agent.astream({"messages": "hi"}, stream_mode="values"):
                chunk["extra"] = 1
            return chunk

        last = asyncio.run(main())
    assert is_valid(last["messages"])
    assert len(last["messages"]) == 4


@both_worlds
def test_messages_of_a_hook_without_ids_have_the_states_ids(world):
    """B64 as users met it: two messages without ids in one update, and a reader of tokens."""

    @before_model
    def two(state: Any, runtime: Any) -> Any:
        return {"messages": [HumanMessage("one"), HumanMessage("two")]}

    agent = create_agent(ScriptedModel("ok"), middleware=[two])
    items = stream(agent, world, stream_mode=["messages", "values"])
    tokens = [item[0] for mode, item in items if mode == "messages" and not isinstance(item[0], AIMessageChunk)]
    kept = items[-1][1]["messages"]
    assert [m.text for m in kept] == ["hi", "one", "two", "ok"]
    assert [(m.text, m.id) for m in tokens] == [(m.text, m.id) for m in kept[1:3]]


@both_worlds
def test_tokens_have_the_tags_and_metadata_of_the_model(world):
    def model(name: str) -> Any:
        return ScriptedModel(say("hi", chunks=["hi"]), tags=[name]).with_config(tags=["bound"], metadata={"k": name})

    other = model("other")

    @wrap_model_call
    async def switch(request: Any, handler: Any) -> Any:
        return await handler(request.override(model=other))

    for middleware, name in (([], "own"), ([switch], "other")):
        agent = create_agent(model("own"), middleware=middleware)
        _, metadata = stream(agent, world, stream_mode="messages")[0]
        assert (sorted(metadata["tags"]), metadata["k"]) == (sorted(["bound", name]), name)


@both_worlds
def test_a_model_that_is_not_to_be_streamed_may_say_so_when_it_is_bound(world):
    agent = create_agent(ScriptedModel(say("se cret", chunks=["se", " cret"])).with_config(tags=[TAG_NOSTREAM]))
    assert [token.text for token, _ in stream(agent, world, stream_mode="messages")] == ["se cret"]
