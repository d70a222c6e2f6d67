"""A thread that is taken up again knows what was spent and what was told, wherever it was broken off."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from loopwright.agents import Limits, create_agent
from loopwright.agents.middleware import after_model
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.errors import ServerError
from loopwright.graph import START, MessagesState, StateGraph
from loopwright.messages import find_broken_pair
from loopwright.testing import Faults, InjectedError, ScriptedModel, SimulatedCrash, Simulation, call, say, use
from loopwright.tools import tool
from loopwright.types import Command, interrupt
from tests.agents.worlds import both_worlds, invoke, thread, until


def look(city: str) -> str:
    """Look at a city."""
    return f"sunny in {city}"


def fails(city: str) -> str:
    """Fail."""
    raise ValueError(f"no {city}")


# -- a model step that is tried again -------------------------------------------------------------------------------


@both_worlds
@pytest.mark.parametrize(
    ("tool", "limits"), [(fails, Limits(failures=2)), (look, Limits(repeats=2))], ids=["failures", "repeats"]
)
def test_a_turn_counts_once_however_often_the_model_is_asked_after_it(world, tool, limits):
    asks = call(tool.__name__, city="Oslo")
    model = ScriptedModel(asks, ServerError("down"), ServerError("down"), "done")
    agent = create_agent(model, [tool], limits=limits, checkpointer=InMemorySaver())
    for given in ("hi", None):
        with pytest.raises(ServerError):
            invoke(agent, world, given, thread())
    assert invoke(agent, world, None, thread()).stop_reason == "answer"

    model = ScriptedModel(asks, ServerError("down"), asks, "done")
    agent = create_agent(model, [tool], limits=limits, checkpointer=InMemorySaver())
    with pytest.raises(ServerError):
        invoke(agent, world, "hi", thread())
    reason = "failures" if tool is fails else "repeats"
    assert invoke(agent, world, None, thread()).stop_reason == reason, "the next turn counts"


# -- a run that has ended -------------------------------------------------------------------------------------------


@both_worlds
def test_no_checkpoint_says_that_a_run_has_ended_and_has_open_calls(world):
    """A process that dies just after the last checkpoint leaves a history that a provider takes."""

    @after_model(can_jump_to=["end"])
    def leave(state: Any, runtime: Any) -> Any:
        return {"jump_to": "end"}

    saver = InMemorySaver()
    agent = create_agent(ScriptedModel(call("look", city="Oslo")), [look], middleware=[leave], checkpointer=saver)
    result = invoke(agent, world, "hi", thread())
    assert (result.stop_reason, [m.type for m in result["messages"]]) == ("jump", ["human", "ai", "tool"])
    ended = [record for record in saver.walk("1") if not record.pending]
    assert [find_broken_pair(record.values["messages"]) for record in ended] == [None]


# -- a process that dies --------------------------------------------------------------------------------------------


def played(agent: Any, simulation: Simulation, world: str) -> Any:
    """The result of a run that is taken up again after each crash, its questions answered."""
    given: Any = {"messages": "hi"}
    while True:
        try:
            result = simulation.invoke(agent, given, thread(), asynchronous=world == "async")
        except (SimulatedCrash, InjectedError):
            result = None
        state = agent.get_state(thread())
        if state.interrupts:
            given = Command(resume={asked.id: "yes" for asked in state.interrupts})
        elif result is not None:
            return result
        else:
            given = None if state.created_at else {"messages": "hi"}


def tree(made: list[int], **options: Any) -> Any:
    """An agent that asks two others at the same time, then one, then a tool of its own; each asks somebody.

    `made` is for the tokens of each reply.
    """

    def turns(*replies: Any) -> ScriptedModel:
        def next_reply(history: Any) -> Any:
            reply = replies[sum(m.type == "ai" for m in history)]
            made.append(reply.message.usage_metadata["total_tokens"])
            return reply

        return ScriptedModel(next_reply, loop=True)

    @tool
    def confirms(text: str) -> str:
        """Ask."""
        return str(interrupt(text))

    inner = create_agent(
        turns(
            use(call("look", city="Oslo", id="1"), usage=(10, 1)),
            use(call("confirms", text="?", id="2"), call("look", city="Bonn", id="3"), usage=(20, 2)),
            say("done", usage=(30, 3)),
        ),
        [look, confirms],
    )

    @tool
    def ask() -> str:
        """Ask another agent."""
        return inner.invoke({"messages": "go"}).text

    @tool
    async def aask() -> str:
        """Ask another agent, through a graph."""
        return str((await around.ainvoke({"messages": [("user", "go")]}))["messages"][-1].text)

    around = StateGraph(MessagesState).add_node("inner", inner).add_edge(START, "inner").compile()
    model = turns(
        use(call("ask", id="a"), call("aask", id="b"), call("look", city="Rome", id="c"), usage=(100, 10)),
        use(call("ask", id="d"), usage=(200, 20)),
        use(call("confirms", text="!", id="e"), usage=(300, 30)),
        say("end", usage=(400, 40)),
    )
    return create_agent(model, [ask, aask, look, confirms], checkpointer=InMemorySaver(), **options)


@both_worlds
@pytest.mark.parametrize("error", [0.0, 0.04])
def test_what_is_on_record_as_done_is_on_record_as_paid(world, error):
    """Wherever the process dies or the saver fails, a call that is not made again counts, and none counts twice."""
    for seed in range(40):
        with Simulation(seed, Faults(crash=0.05, error=error, at=("saver",)) if seed else None) as simulation:
            made: list[int] = []
            paid = played(tree(made), simulation, world).usage["total_tokens"]
            least = 1100 + 3 * 66
            assert least <= paid <= (sum(made) if error else least), (seed, simulation.injected)


@both_worlds
def test_a_limit_holds_however_often_the_process_dies(world):
    for seed in range(40):
        with Simulation(seed, Faults(crash=0.1, at=("saver",)) if seed else None) as simulation:
            result = played(tree([], limits=Limits(model_calls=9)), simulation, world)
            assert (result.stop_reason, result.usage["total_tokens"]) == ("model_calls", 473), seed


@both_worlds
@pytest.mark.parametrize(
    ("tool", "limits"), [(fails, Limits(failures=3)), (look, Limits(repeats=3))], ids=["failures", "repeats"]
)
def test_a_streak_is_not_reset_by_a_crash(world, tool, limits):
    for seed in range(40):
        model = ScriptedModel(lambda history: call(tool.__name__, city="Oslo"), loop=True)
        agent = create_agent(model, [tool], limits=limits, checkpointer=InMemorySaver())
        with Simulation(seed, Faults(crash=0.15, at=("saver",))) as simulation:
            result = played(agent, simulation, world)
        assert [m.type for m in result["messages"]] == ["human", *["ai", "tool"] * 3, "ai"], simulation.injected


# -- a run that was cancelled ---------------------------------------------------------------------------------------


def test_what_a_cancelled_run_has_left_behind_saves_nothing():
    """Between the reading of the next turn and its claim nothing comes in from a thread that could not be stopped."""
    begun, go, ended = threading.Event(), threading.Event(), threading.Event()

    @tool
    def step() -> str:
        """Take long."""
        begun.set()
        assert go.wait(20)
        return "made"

    inner = create_agent(ScriptedModel(call("step"), "done"), [step])

    @tool
    def ask() -> str:
        """Ask another agent."""
        try:
            return inner.invoke({"messages": "go"}).text
        finally:
            ended.set()

    saver = InMemorySaver()
    agent = create_agent(ScriptedModel(call("ask"), "again"), [ask], checkpointer=saver)

    async def main() -> None:
        task = asyncio.create_task(agent.ainvoke({"messages": "hi"}, thread()))
        await until(begun.is_set)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        seen = saver.load("1")
        go.set()
        await until(ended.is_set)
        assert saver.load("1") == seen
        assert (await agent.ainvoke({"messages": "and now?"}, thread())).text == "again"

    asyncio.run(main())


@both_worlds
def test_a_cancelled_turn_can_be_gone_on_with(world):
    """The model is told what was cut off, and decides."""
    agent = create_agent(
        ScriptedModel(use(call("look", city="Oslo"), call("look", city="Rome")), "I see"),
        [look],
        checkpointer=InMemorySaver(),
    )
    if world == "sync":
        for _ in agent.stream({"messages": "hi"}, thread()):
            break
    else:

        async def leave() -> None:
            async for _ in agent.astream({"messages": "hi"}, thread()):
                break

        asyncio.run(leave())
    state = agent.get_state(thread())
    assert (state.next, [m.type for m in state.values["messages"]]) == (("model",), ["human", "ai", "tool", "tool"])
    result = invoke(agent, world, None, thread())
    assert (result.text, result.stop_reason) == ("I see", "answer")


@both_worlds
def test_a_thread_that_a_limit_has_ended_says_so_again(world):
    agent = create_agent(
        ScriptedModel(call("look", city="Oslo"), loop=True),
        [look],
        checkpointer=InMemorySaver(),
        limits=Limits(model_calls=1),
    )
    assert invoke(agent, world, "hi", thread()).stop_reason == "model_calls"
    assert invoke(agent, world, None, thread()).stop_reason == "model_calls"


# -- a turn that was given up ---------------------------------------------------------------------------------------


@both_worlds
def test_a_call_of_which_nobody_knows_is_not_called_not_run(world):
    """It had begun: whoever reads "not run" may do it again."""

    def breaks() -> str:
        """Break."""
        raise ServerError("down")

    agent = create_agent(
        ScriptedModel(call("breaks"), "fine"), [breaks], checkpointer=InMemorySaver(), handle_tool_errors=False
    )
    with pytest.raises(ServerError):
        invoke(agent, world, "hi", thread())
    result = invoke(agent, world, "and now?", thread())
    assert "It is not known whether this call ran" in result["messages"][2].text


# -- runs below -----------------------------------------------------------------------------------------------------


def test_runs_below_that_begin_in_another_order_keep_their_places():
    """What one was asked is never answered to another."""
    order = ["a", "b"]

    @tool
    def ask(question: str) -> str:
        """Ask."""
        return str(interrupt(question))

    inner = create_agent(
        ScriptedModel(
            lambda history: (
                call("ask", question=history[0].text)
                if len(history) == 1
                else say(f"{history[0].text}: {history[-1].text}")
            ),
            loop=True,
        ),
        [ask],
    )

    @tool
    async def both() -> str:
        """Ask two agents at the same time."""

        async def one(name: str) -> str:
            return (await inner.ainvoke({"messages": name})).text

        texts = await asyncio.gather(*(one(name) for name in order))
        return ", ".join(sorted(texts))

    agent = create_agent(ScriptedModel(call("both"), "done"), [both], checkpointer=InMemorySaver())
    result = invoke(agent, "async", "hi", thread())
    while result.interrupts:
        asked = result.interrupts[0]
        order.reverse()
        result = invoke(agent, "async", Command(resume={asked.id: f"for {asked.value}"}), thread())
    assert result["messages"][2].text == "a: for a, b: for b"
