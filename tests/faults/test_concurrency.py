"""Faults reported of other libraries: many runs at once, cancellation, time, contexts, trees of agents."""

from __future__ import annotations

import asyncio
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import pytest

from loopwright.agents import AgentState, create_agent
from loopwright.agents.middleware import before_model
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.errors import UsageError
from loopwright.messages import HumanMessage
from loopwright.testing import ScriptedModel, call
from loopwright.tools import ToolRuntime, tool
from loopwright.types import Command
from tests.agents.worlds import both_worlds, invoke, is_valid, stream, thread


@both_worlds
def test_B49_what_the_caller_gave_is_as_it_was(world):
    config: Any = {"metadata": {"k": "v"}, "tags": ["t"], "configurable": {"thread_id": "1"}}
    before = repr(config)
    message = HumanMessage("hi")
    given = {"messages": [message]}
    agent = create_agent(ScriptedModel("ok", loop=True), checkpointer=InMemorySaver())
    invoke(agent, world, given, config)
    invoke(agent, world, given, {**config, "configurable": {"thread_id": "2"}})
    assert (repr(config), given["messages"], message.id) == (before, [message], None)


class Marked(AgentState):
    marker: str


@both_worlds
def test_B51_twenty_runs_of_one_agent_see_their_own_state(world):
    @tool
    def mark(runtime: ToolRuntime) -> Any:
        """Mark."""
        config: Any = runtime.config
        return f"{runtime.state['marker']} {config['configurable']['thread_id']}"

    def answer(messages: Any) -> Any:
        return call("mark") if messages[-1].type == "human" else messages[-1].text

    agent = create_agent(ScriptedModel(answer, loop=True), [mark], state_schema=Marked, checkpointer=InMemorySaver())

    def given(n: int) -> Any:
        return {"messages": "hi", "marker": f"m{n}"}

    if world == "sync":
        with ThreadPoolExecutor(20) as pool:
            texts = list(pool.map(lambda n: agent.invoke(given(n), thread(f"t{n}")).text, range(20)))
    else:

        async def main() -> list[str]:
            runs = [agent.ainvoke(given(n), thread(f"t{n}")) for n in range(20)]
            return [result.text for result in await asyncio.gather(*runs)]

        texts = asyncio.run(main())
    assert texts == [f"m{n} t{n}" for n in range(20)]


@both_worlds
def test_B134_a_callers_variable_is_seen_everywhere_and_never_leaks(world):
    user: ContextVar[str] = ContextVar("user")
    seen: list[tuple[str, str]] = []

    @tool
    def who(n: int) -> str:
        """Who."""
        seen.append((f"tool {n}", user.get()))
        user.set(f"changed by {n}")
        return "seen"

    @before_model
    def hook(state: Any, runtime: Any) -> None:
        seen.append(("hook", user.get()))
        user.set("changed by the hook")

    user.set("ann")
    model = ScriptedModel([call("who", n=n) for n in range(3)], "ok")
    invoke(create_agent(model, [who], middleware=[hook]), world)
    assert sorted(seen) == [("hook", "ann"), ("hook", "ann"), ("tool 0", "ann"), ("tool 1", "ann"), ("tool 2", "ann")]
    assert user.get() == "ann"


@both_worlds
@pytest.mark.parametrize("kind", ["def", "async def", "async def that swallows"])
@pytest.mark.parametrize("reading", [False, True], ids=["invoke", "stream"])
def test_B136_a_tools_time_is_over(world, kind, reading):
    """A real tool that is really stuck: its error result comes long before the tool would have ended."""
    release = threading.Event()

    @tool(timeout_s=0.05)
    def stuck() -> str:
        """Be stuck."""
        release.wait(30)
        return "late"

    @tool("stuck", timeout_s=0.05)
    async def astuck() -> str:
        """Be stuck."""
        await asyncio.sleep(30)
        return "late"

    @tool("stuck", timeout_s=0.05)
    async def swallows() -> str:
        """Be stuck, and do not listen."""
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            return "swallowed"
        return "late"

    one = {"def": stuck, "async def": astuck, "async def that swallows": swallows}[kind]
    agent = create_agent(ScriptedModel(call("stuck"), "ok"), [one])
    try:
        if reading:
            messages = stream(agent, world, stream_mode="values")[-1]["messages"]
        else:
            messages = invoke(agent, world)["messages"]
    finally:
        release.set()
    assert (messages[2].status, messages[3].text) == ("error", "ok")
    assert "0.05 s" in messages[2].text


@both_worlds
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_B137_one_at_a_time(world, kind):
    inside, most = 0, 0
    lock = threading.Lock()

    def enter() -> None:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)

    def leave() -> None:
        nonlocal inside
        with lock:
            inside -= 1

    @tool
    def work(n: int) -> str:
        """Work."""
        enter()
        leave()
        return str(n)

    @tool("work")
    async def awork(n: int) -> str:
        """Work."""
        enter()
        await asyncio.sleep(0)
        leave()
        return str(n)

    model = ScriptedModel([call("work", n=n) for n in range(4)], "ok")
    agent = create_agent(model, [work if kind == "def" else awork])
    result = invoke(agent, world, config={"max_concurrency": 1})
    assert (most, [m.text for m in result["messages"][2:6]]) == (1, list("0123"))


def test_B139_many_runs_cancelled_at_any_moment():
    """Each ends with its result or with the caller's own cancellation, and with nothing else."""

    @tool
    async def look(n: int) -> str:
        """Look."""
        await asyncio.sleep(0)
        return str(n)

    def answer(messages: Any) -> Any:
        return [call("look", n=1), call("look", n=2)] if messages[-1].type == "human" else "ok"

    saver = InMemorySaver()
    agent = create_agent(ScriptedModel(answer, loop=True), [look], checkpointer=saver)
    chance = random.Random(7)

    async def one(number: int) -> str:
        config = thread(f"t{number % 10}")
        task = asyncio.create_task(agent.ainvoke({"messages": "hi"}, config))
        for _ in range(chance.randrange(30)):
            await asyncio.sleep(0)
        task.cancel()
        try:
            return (await task).text
        except asyncio.CancelledError:
            assert is_valid(agent.get_state(config).values.get("messages", []))
            return "cancelled"

    async def main() -> set[str]:
        return {await one(number) for number in range(1000)}

    assert asyncio.run(main()) == {"ok", "cancelled"}


@dataclass
class User:
    username: str


@both_worlds
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_B141_the_context_reaches_a_nested_agent(world, kind):
    seen: list[Any] = []

    @tool
    def who(runtime: ToolRuntime) -> str:
        """Who."""
        seen.append(runtime.context)
        return "seen"

    def answers(messages: Any) -> Any:
        return call("who") if messages[-1].type == "human" else "ok"

    inner = create_agent(ScriptedModel(answers, loop=True), [who], context_schema=User)

    @tool
    def ask() -> str:
        """Ask."""
        return inner.invoke({"messages": "?"}).text

    @tool("ask")
    async def aask() -> str:
        """Ask."""
        return (await inner.ainvoke({"messages": "?"})).text

    outer = create_agent(
        ScriptedModel([call("who"), call("ask")], "ok", loop=True),
        [who, ask if kind == "def" else aask],
        context_schema=User,
    )
    invoke(outer, world, context={"username": "ann"})
    assert seen == [User("ann"), User("ann")]
    with pytest.raises(UsageError, match="username"):
        invoke(outer, world)


@both_worlds
def test_B146_parallel_agents_keep_their_own_pairs(world):
    """Their steps are interleaved by a barrier, so that none could run by itself."""
    together = threading.Barrier(2)

    @tool
    def look(city: str) -> str:
        """Look."""
        together.wait(timeout=20)
        return f"sunny in {city}"

    def answers(messages: Any) -> Any:
        if len(messages) < 4:
            return call("look", city=f"{messages[0].text}{len(messages)}", id=f"same{len(messages)}")
        return " / ".join(m.text for m in messages if m.type == "tool")

    inner = create_agent(ScriptedModel(answers, loop=True), [look])

    @tool
    def ask(question: str) -> str:
        """Ask."""
        return inner.invoke({"messages": question}).text

    model = ScriptedModel([call("ask", question="a"), call("ask", question="b")], "ok")
    result = invoke(create_agent(model, [ask]), world)
    assert [m.text for m in result["messages"][2:4]] == [
        "sunny in a1 / sunny in a3",
        "sunny in b1 / sunny in b3",
    ]


@both_worlds
def test_B101_a_direct_result_with_a_sibling(world):
    @tool(return_direct=True)
    def direct() -> str:
        """The answer."""
        return "42"

    @tool
    def other() -> str:
        """Something else."""
        return "other"

    model = ScriptedModel([call("direct"), call("other")], "next")
    agent = create_agent(model, [direct, other], checkpointer=InMemorySaver())
    result = invoke(agent, world, config=thread())
    assert (result.text, result.stop_reason) == ("42", "return_direct")
    assert [m.text for m in result["messages"][2:]] == ["42", "other"]
    assert invoke(agent, world, "and?", thread()).text == "next"


@both_worlds
def test_B97_a_result_for_a_siblings_call(world):
    """The tool is told, both calls have one answer each."""
    from loopwright.messages import ToolMessage

    @tool
    def wrong() -> Any:
        """Answer for another."""
        return ToolMessage("mine", tool_call_id="c2")

    @tool
    def right() -> str:
        """Answer."""
        return "right"

    model = ScriptedModel([call("wrong", id="c1"), call("right", id="c2")], "ok")
    result = invoke(create_agent(model, [wrong, right]), world)
    first, second = result["messages"][2:4]
    assert (first.tool_call_id, first.status, second.tool_call_id, second.text) == ("c1", "error", "c2", "right")
    assert "'c1'" in first.text
    assert "'c2'" in first.text


@both_worlds
@pytest.mark.parametrize("form", ["object", "dict", "pairs"])
def test_B96_a_list_of_commands_closes_its_call(world, form):
    from loopwright.messages import ToolMessage

    @tool
    def put(runtime: ToolRuntime) -> Any:
        """Put."""
        closer: Any = {"role": "tool", "content": "done", "tool_call_id": runtime.tool_call_id}
        if form == "object":
            closer = ToolMessage("done", tool_call_id=str(runtime.tool_call_id))
        update: Any = [("messages", [closer])] if form == "pairs" else {"messages": [closer]}
        return [Command(update={"marker": "put"}), Command(update=update)]

    result = invoke(create_agent(ScriptedModel(call("put"), "ok"), [put], state_schema=Marked), world)
    assert (result["marker"], result["messages"][2].text, is_valid(result["messages"])) == ("put", "done", True)
