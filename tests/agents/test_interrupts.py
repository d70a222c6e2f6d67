"""Questions in tools, hooks and agents inside of tools."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from loopwright.agents import create_agent
from loopwright.agents.limits import Limits
from loopwright.agents.middleware import after_model, before_model, wrap_model_call, wrap_tool_call
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.errors import UsageError
from loopwright.graph import START, MessagesState, StateGraph
from loopwright.messages import AIMessage
from loopwright.prebuilt import ToolNode
from loopwright.testing import ScriptedModel, call, say, use
from loopwright.tools import tool
from loopwright.types import Command, interrupt
from tests.agents.worlds import World, both_worlds, invoke, is_valid, shown, stream, thread


@tool
def ask(question: str) -> str:
    """Ask a person."""
    return f"they said {interrupt(question)}"


@tool
async def aask(question: str) -> str:
    """Ask a person."""
    return f"they said {interrupt(question)}"


def values(result: Any) -> list[Any]:
    return [one.value for one in result.interrupts]


@both_worlds
@pytest.mark.parametrize("asking", [ask, aask], ids=["plain", "async"])
def test_a_tool_asks(world: World, asking: Any):
    model = ScriptedModel(use(call(asking.name, {"question": "age?"})), "done")
    agent = create_agent(model, [asking], checkpointer=InMemorySaver())
    result = invoke(agent, world, config=thread())
    assert (values(result), result.stop_reason, result.final) == (["age?"], "interrupted", None)
    assert result["__interrupt__"] == list(result.interrupts)
    result = invoke(agent, world, Command(resume=42), thread())
    assert shown(result["messages"]) == [("human", "hi"), ("ai", ""), ("tool", "they said 42"), ("ai", "done")]
    assert (result.stop_reason, result.interrupts, "__interrupt__" in result) == ("answer", (), False)


@both_worlds
def test_B26_the_history_has_each_call_once(world: World):
    model = ScriptedModel(use(call("ask", {"question": "?"}, "c1")), "done")
    agent = create_agent(model, [ask], checkpointer=InMemorySaver())
    invoke(agent, world, config=thread())
    invoke(agent, world, Command(resume="x"), thread())
    sent = model.requests[-1].messages
    assert [m.type for m in sent] == ["human", "ai", "tool"]
    assert is_valid(sent)


@both_worlds
def test_B31_answers_reach_the_call_that_asked_whatever_ends_first(world: World):
    model = ScriptedModel(use(*(call("ask", {"question": q}, q) for q in "abc")), "done")
    agent = create_agent(model, [ask], checkpointer=InMemorySaver())
    asked = {one.value: one.id for one in invoke(agent, world, config=thread()).interrupts}
    assert list(asked) == ["a", "b", "c"]
    invoke(agent, world, Command(resume={asked["c"]: "C"}), thread())
    result = invoke(agent, world, Command(resume={asked["b"]: "B", asked["a"]: "A"}), thread())
    assert shown(result["messages"])[2:5] == [("tool", f"they said {answer}") for answer in "ABC"]


@both_worlds
def test_B32_a_sibling_with_an_effect_runs_once(world: World):
    effects: list[str] = []

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        effects.append(f"paid {amount}")
        return "paid"

    model = ScriptedModel(use(call("pay", {"amount": 5}), call("ask", {"question": "?"})), "done")
    agent = create_agent(model, [pay, ask], checkpointer=InMemorySaver())
    invoke(agent, world, config=thread())
    result = invoke(agent, world, Command(resume="!"), thread())
    assert effects == ["paid 5"]
    assert shown(result["messages"])[2:4] == [("tool", "paid"), ("tool", "they said !")]


@both_worlds
def test_calls_of_one_tool_node_ask_for_themselves(world: World):
    """They share a task; an answer still reaches its call."""
    graph = StateGraph(MessagesState).add_node("tools", ToolNode([ask])).add_edge(START, "tools")
    compiled = graph.compile(checkpointer=InMemorySaver())
    calls = AIMessage("", tool_calls=[call("ask", {"question": q}, q) for q in "ab"])
    given = {"messages": [calls]}
    result = invoke(compiled, world, given, thread())
    first, second = result["__interrupt__"]
    assert (first.value, second.value) == ("a", "b")
    assert invoke(compiled, world, Command(resume={second.id: "B"}), thread())["__interrupt__"] == [first]
    result = invoke(compiled, world, Command(resume="A"), thread())
    assert [m.text for m in result["messages"][1:]] == ["they said A", "they said B"]


@both_worlds
@pytest.mark.parametrize("hook", [before_model, after_model])
def test_a_hook_asks(world: World, hook: Any):
    @hook
    def gate(state: Any, runtime: Any) -> Any:
        return {"messages": [("user", f"approved by {interrupt('who?')}")]} if len(state["messages"]) < 3 else None

    model = ScriptedModel("one", "two", "three")
    agent = create_agent(model, middleware=[gate], checkpointer=InMemorySaver())
    assert values(invoke(agent, world, config=thread())) == ["who?"]
    before = len(model.requests)
    result = invoke(agent, world, Command(resume="Ada"), thread())
    assert ("human", "approved by Ada") in shown(result["messages"])
    assert len(model.requests) <= before + 1, "the reply that was asked about is not asked for again"


@both_worlds
@pytest.mark.parametrize("form", ["plain", "async"])
def test_B36_questions_pass_through_hooks_that_try_again(world: World, form: str):
    """A retry around tools, a fallback around the model: `except Exception` does not see a question."""
    tries: list[str] = []

    @wrap_tool_call
    def retry(request: Any, handler: Any) -> Any:
        for _ in range(3):
            tries.append("tool")
            try:
                return handler(request)
            except Exception:  # noqa: BLE001 - as such hooks do
                continue
        raise AssertionError

    @wrap_tool_call
    async def aretry(request: Any, handler: Any) -> Any:
        for _ in range(3):
            tries.append("tool")
            try:
                return await handler(request)
            except Exception:  # noqa: BLE001 - as such hooks do
                continue
        raise AssertionError

    @wrap_model_call
    def fallback(request: Any, handler: Any) -> Any:
        tries.append("model")
        try:
            if len(request.messages) == 1:
                interrupt("may I?")
            return handler(request)
        except Exception:  # noqa: BLE001 - as such hooks do
            return say("fallback")

    model = ScriptedModel(use(call("ask", {"question": "?"})), "done")
    hooks = [retry if form == "plain" else aretry, fallback]
    agent = create_agent(model, [ask], middleware=hooks, checkpointer=InMemorySaver())
    assert values(invoke(agent, world, config=thread())) == ["may I?"]
    assert tries == ["model"]
    assert values(invoke(agent, world, Command(resume="yes"), thread())) == ["?"]
    assert tries == ["model", "model", "tool"]
    assert invoke(agent, world, Command(resume="!"), thread()).text == "done"


@both_worlds
def test_B37_an_agent_in_a_tool_goes_on_in_place(world: World):
    """Its finished calls do not run again, and each of its questions gets its own answer."""
    effects: list[str] = []

    @tool
    def note(text: str) -> str:
        """Note."""
        effects.append(text)
        return "noted"

    inner_model = ScriptedModel(
        use(call("note", {"text": "first"}), call("ask", {"question": "1"})),
        use(call("ask", {"question": "2"})),
        "inner done",
    )
    inner = create_agent(inner_model, [note, ask])

    @tool
    def delegate(task: str) -> str:
        """Delegate."""
        effects.append("begun")
        return inner.invoke({"messages": [("user", task)]}).text

    @tool
    async def adelegate(task: str) -> str:
        """Delegate."""
        effects.append("begun")
        return (await inner.ainvoke({"messages": [("user", task)]})).text

    tools = [delegate] if world == "sync" else [adelegate]
    model = ScriptedModel(use(call(tools[0].name, {"task": "go"})), "outer done")
    agent = create_agent(model, tools, checkpointer=InMemorySaver())
    result = invoke(agent, world, config=thread())
    assert values(result) == ["1"]
    state = agent.get_state(thread(), subgraphs=True)
    assert [m.text for m in state.tasks[0].state.values["messages"]] == ["go", ""]
    result = invoke(agent, world, Command(resume="a"), thread())
    assert values(result) == ["2"]
    result = invoke(agent, world, Command(resume="b"), thread())
    assert shown(result["messages"])[2:] == [("tool", "inner done"), ("ai", "outer done")]
    assert effects == ["begun", "first", "begun", "begun"], (
        "the tool's own lines run again, what the agent did does not"
    )
    inner_sent = [message.text for message in inner_model.requests[-1].messages]
    assert inner_sent[-1] == "they said b"
    assert "they said a" in inner_sent


@both_worlds
def test_two_agents_in_one_tool_are_told_apart(world: World):
    def inner(name: str) -> Any:
        return create_agent(ScriptedModel(use(call("ask", {"question": name})), f"{name} done"), [ask])

    first, second = inner("one"), inner("two")

    @tool
    async def both() -> str:
        """Both."""
        one = await first.ainvoke({"messages": "go"})
        two = await second.ainvoke({"messages": "go"})
        return f"{one.text}, {two.text}"

    agent = create_agent(ScriptedModel(use(call("both")), "done"), [both], checkpointer=InMemorySaver())
    assert values(invoke(agent, world, config=thread())) == ["one"]
    assert values(invoke(agent, world, Command(resume="a"), thread())) == ["two"]
    result = invoke(agent, world, Command(resume="b"), thread())
    assert shown(result["messages"])[2] == ("tool", "one done, two done")


@both_worlds
def test_parallel_agents_ask_together(world: World):
    inner = [
        create_agent(ScriptedModel(use(call("ask", {"question": name})), f"{name} done"), [ask], name=name)
        for name in "xy"
    ]

    @tool
    async def run(number: int) -> str:
        """Run one."""
        return (await inner[number].ainvoke({"messages": "go"})).text

    model = ScriptedModel(use(call("run", {"number": 0}), call("run", {"number": 1})), "done")
    agent = create_agent(model, [run], checkpointer=InMemorySaver())
    x, y = invoke(agent, world, config=thread()).interrupts
    assert (x.value, y.value) == ("x", "y")
    assert invoke(agent, world, Command(resume={y.id: "!"}), thread()).interrupts == (x,)
    result = invoke(agent, world, Command(resume="!"), thread())
    assert shown(result["messages"])[2:4] == [("tool", "x done"), ("tool", "y done")]


@both_worlds
def test_what_was_spent_counts_after_the_answer(world: World):
    model = ScriptedModel(
        use(call("ask", {"question": "?"}), usage=(10, 5)), use(call("ask", {"question": "!"}), usage=(1, 1)), "done"
    )
    agent = create_agent(model, [ask], checkpointer=InMemorySaver(), limits=Limits(model_calls=2))
    assert invoke(agent, world, config=thread()).usage["total_tokens"] == 15
    result = invoke(agent, world, Command(resume=1), thread())
    assert result.usage["total_tokens"] == 17
    result = invoke(agent, world, Command(resume=2), thread())
    assert result.stop_reason == "model_calls"


@both_worlds
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_what_an_agent_below_spent_counts_once_after_the_answer(world: World, durability: str):
    inner = create_agent(
        ScriptedModel(use(call("ask", {"question": "?"}), usage=(10, 5)), say("done", usage=(2, 2))), [ask]
    )

    @tool
    async def run() -> str:
        """Run."""
        return (await inner.ainvoke({"messages": "go"})).text

    model = ScriptedModel(use(call("run"), usage=(1, 0)), say("done", usage=(1, 1)))
    agent = create_agent(model, [run], checkpointer=InMemorySaver())
    assert invoke(agent, world, config=thread(), durability=durability).usage["total_tokens"] == 16
    answer = Command(resume="!")
    assert invoke(agent, world, answer, thread(), durability=durability).usage["total_tokens"] == 22


@both_worlds
def test_a_new_turn_in_place_of_an_answer(world: World):
    """The open call gets a result, so that the model can be asked."""
    model = ScriptedModel(use(call("ask", {"question": "?"})), "new turn")
    agent = create_agent(model, [ask], checkpointer=InMemorySaver())
    invoke(agent, world, config=thread())
    result = invoke(agent, world, "never mind", thread())
    assert result.text == "new turn"
    assert is_valid(result["messages"])


@both_worlds
def test_B129_pruned_between_pauses_nothing_runs_again(world: World):
    effects: list[str] = []
    saver = InMemorySaver()

    @tool
    def gated(name: str) -> str:
        """Gated."""
        interrupt(name)
        effects.append(name)
        return name

    model = ScriptedModel(use(*(call("gated", {"name": name}, name) for name in "abc")), "done")
    agent = create_agent(model, [gated], checkpointer=saver)
    asked = {one.value: one.id for one in invoke(agent, world, config=thread()).interrupts}
    for name in "abc":
        saver.prune(["1"])
        invoke(agent, world, Command(resume={asked[name]: "go"}), thread())
    assert effects == ["a", "b", "c"]


@both_worlds
def test_an_inner_agent_with_a_thread_of_its_own_answers_to_its_tool(world: World):
    """It is paused for itself; the run around it goes on."""
    saver = InMemorySaver()
    inner = create_agent(ScriptedModel(use(call("ask", {"question": "?"})), "x"), [ask], checkpointer=saver)

    @tool
    async def run() -> str:
        """Run."""
        return (await inner.ainvoke({"messages": "go"}, thread("other"))).stop_reason

    agent = create_agent(ScriptedModel(use(call("run")), "done"), [run], checkpointer=InMemorySaver())
    assert shown(invoke(agent, world, config=thread())["messages"])[2] == ("tool", "interrupted")
    assert invoke(inner, world, Command(resume="!"), thread("other")).text == "x"


@both_worlds
def test_a_question_without_a_checkpointer_is_the_authors_to_see(world: World):
    """It is no result for the model: the model can do nothing about it."""
    agent = create_agent(ScriptedModel(use(call("ask", {"question": "?"})), "done"), [ask])
    with pytest.raises(UsageError, match="needs a checkpointer"):
        invoke(agent, world)


@both_worlds
def test_streams_show_a_question_and_go_on_where_they_were(world: World):
    model = ScriptedModel(use(call("ask", {"question": "?"})), "done")
    agent = create_agent(model, [ask], checkpointer=InMemorySaver())
    chunks = stream(agent, world, config=thread(), stream_mode=["updates", "messages"])
    assert list(chunks[-1][1]) == ["__interrupt__"]
    chunks = stream(agent, world, Command(resume="!"), thread(), stream_mode="updates")
    assert [list(chunk) for chunk in chunks] == [["tools"], ["model"]]


def test_a_question_from_a_thread_that_a_tool_has_started_is_an_error_there():
    """Threads that do not hand their context on are outside of the run."""
    from threading import Thread

    seen: list[Any] = []

    @tool
    def start() -> str:
        """Start."""

        def work() -> None:
            try:
                interrupt("?")
            except RuntimeError as error:
                seen.append(str(error))

        worker = Thread(target=work)
        worker.start()
        worker.join()
        return "done"

    create_agent(ScriptedModel(use(call("start")), "done"), [start], checkpointer=InMemorySaver()).invoke(
        {"messages": "hi"}, thread()
    )
    assert "outside of a run" in seen[0]


def test_many_paused_threads_at_once():
    agent = create_agent(
        ScriptedModel(*[use(call("ask", {"question": "?"}))] * 20, *["done"] * 20), [ask], checkpointer=InMemorySaver()
    )

    async def main() -> list[str]:
        await asyncio.gather(*(agent.ainvoke({"messages": "hi"}, thread(str(n))) for n in range(20)))
        results = await asyncio.gather(*(agent.ainvoke(Command(resume=n), thread(str(n))) for n in range(20)))
        return [result["messages"][2].text for result in results]

    assert asyncio.run(main()) == [f"they said {n}" for n in range(20)]


@both_worlds
def test_calls_of_one_tool_node_that_have_ended_do_not_run_again(world: World):
    effects: list[int] = []

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        effects.append(amount)
        return f"paid {amount}"

    graph = StateGraph(MessagesState).add_node("tools", ToolNode([ask, pay])).add_edge(START, "tools")
    compiled = graph.compile(checkpointer=InMemorySaver())
    calls = [call("pay", {"amount": 5}, "p"), call("ask", {"question": "a"}, "a"), call("ask", {"question": "b"}, "b")]
    first, second = invoke(compiled, world, {"messages": [AIMessage("", tool_calls=calls)]}, thread())["__interrupt__"]
    invoke(compiled, world, Command(resume={first.id: 1}), thread())
    result = invoke(compiled, world, Command(resume={second.id: 2}), thread())
    assert [m.text for m in result["messages"][1:]] == ["paid 5", "they said 1", "they said 2"]
    assert effects == [5]


@both_worlds
def test_an_old_answer_for_a_run_below_is_refused(world: World):
    """From an old checkpoint what runs in a task begins anew, so nobody would hear the answer."""
    inner = create_agent(ScriptedModel(use(call("ask", {"question": "?"})), "done", loop=True), [ask])

    @tool
    async def delegate() -> str:
        """Delegate."""
        return (await inner.ainvoke({"messages": "go"})).text

    agent = create_agent(ScriptedModel(use(call("delegate")), "a", "b"), [delegate], checkpointer=InMemorySaver())
    (asked,) = invoke(agent, world, config=thread()).interrupts
    old = agent.get_state(thread()).config
    invoke(agent, world, "never mind", thread())
    with pytest.raises(UsageError, match="asked by a run inside of node 'tools'"):
        invoke(agent, world, Command(resume={asked.id: "yes"}), old)


@both_worlds
def test_an_answer_with_a_goto_is_refused(world: World):
    agent = create_agent(ScriptedModel(use(call("ask", {"question": "?"})), "a"), [ask], checkpointer=InMemorySaver())
    invoke(agent, world, config=thread())
    with pytest.raises(UsageError, match="answers a task and gives it up at once"):
        invoke(agent, world, Command(resume="A", goto="model"), thread())
    assert invoke(agent, world, Command(resume="A"), thread()).text == "a"
