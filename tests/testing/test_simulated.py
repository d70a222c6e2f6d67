"""The simulated world itself: order, time, and each accident."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from loopwright.agents import create_agent
from loopwright.agents.middleware import wrap_model_call, wrap_tool_call
from loopwright.checkpoint.memory import InMemorySaver
from loopwright.errors import InternalError, RunCancelled
from loopwright.graph.events import ToolFinished
from loopwright.messages import find_broken_pair
from loopwright.testing import (
    Faults,
    InjectedError,
    ScriptedModel,
    SimulatedCrash,
    Simulation,
    call,
    say,
)
from loopwright.tools import tool

THREAD: Any = {"configurable": {"thread_id": "1"}}
HI = {"messages": "hi"}

both = pytest.mark.parametrize("asynchronous", [False, True], ids=["blocking", "asyncio"])


class Shop:
    """An agent that calls two slow tools at the same time, and what was done in which order."""

    def __init__(self, seed: int, faults: Faults | None = None, **options: Any) -> None:
        self.simulation = Simulation(seed, faults)
        self.done: list[str] = []

        @tool
        def plain(name: str) -> str:
            """Work."""
            self.simulation.sleep(10)
            self.done.append(name)
            return name

        @tool
        async def coro(name: str) -> str:
            """Work."""
            await self.simulation.asleep(10)
            self.done.append(name)
            return name

        calls = [call("plain", {"name": "a"}), call("coro", {"name": "b"}), call("plain", {"name": "c"})]
        script = lambda messages: calls if len(messages) == 1 else say("done")
        self.agent = create_agent(
            ScriptedModel(script, loop=True), [plain, coro], checkpointer=InMemorySaver(), **options
        )


def gate_of(one: Any) -> Any:
    return one.gate


def words(result: Any) -> list[str]:
    return [message.text for message in result["messages"]]


# -- order and time -------------------------------------------------------------------------------------------------


@both
def test_what_waits_lets_others_go_on_and_nobody_waits(asynchronous):
    """Three tools wait ten seconds each, at the same time; the clock jumps once."""
    shop = Shop(1)
    began = shop.simulation.time
    result = shop.simulation.invoke(shop.agent, HI, THREAD, asynchronous=asynchronous)
    assert words(result) == ["hi", "", "a", "b", "c", "done"]
    assert shop.simulation.time - began == 10


@both
def test_a_tool_with_few_places_is_waited_for(asynchronous):
    """Calls of one tool come one after the other, whoever of them gives up, and no place is lost."""
    simulation = Simulation(1)
    inside: list[int] = []
    calls = [call("narrow", number=number) for number in range(5)]

    @tool(max_concurrency=2)
    async def narrow(number: int) -> str:
        """Take ten seconds."""
        inside.append(number)
        assert len(inside) <= 2
        try:
            await simulation.asleep(10)
        finally:
            inside.remove(number)
        return "done"

    def agent() -> Any:
        model = ScriptedModel(lambda messages: calls if len(messages) == 1 else "done", loop=True)
        return create_agent(model, [narrow], checkpointer=InMemorySaver())

    began = simulation.time
    assert simulation.invoke(agent(), HI, THREAD, asynchronous=asynchronous).text == "done"
    assert simulation.time - began == 30
    for seed in range(30):
        simulation = Simulation(seed, Faults(crash=0.02, cancel=0.02, error=0.02))
        with suppress(RunCancelled, KeyboardInterrupt, asyncio.CancelledError):
            simulation.finish(agent(), HI, THREAD, asynchronous=asynchronous)
        simulation.close()
        assert (inside, gate_of(narrow)._free) == ([], 2), (seed, simulation.injected)


@both
def test_the_seed_decides_the_order(asynchronous):
    def order(seed: int) -> tuple[str, ...]:
        shop = Shop(seed)
        shop.simulation.invoke(shop.agent, HI, THREAD, asynchronous=asynchronous)
        return tuple(shop.done)

    orders = [order(seed) for seed in range(20)]
    assert orders == [order(seed) for seed in range(20)]
    assert len(set(orders)) == 6


@both
def test_a_stream_shows_what_happens_in_the_order_of_the_seed(asynchronous):
    def told(seed: int) -> list[str]:
        shop = Shop(seed)
        facts = shop.simulation.stream(shop.agent, HI, THREAD, asynchronous=asynchronous, stream_mode="events")
        return [str(fact.content) for fact in facts if isinstance(fact, ToolFinished)]

    assert [sorted(told(seed)) for seed in range(5)] == [["a", "b", "c"]] * 5
    assert told(3) == told(3)


@both
def test_a_reader_that_leaves_ends_the_run(asynchronous):
    shop = Shop(1)
    stream = shop.simulation.stream(shop.agent, HI, THREAD, asynchronous=asynchronous, stream_mode="updates")
    next(stream)
    stream.close()  # type: ignore
    kept = shop.agent.get_state(THREAD).values["messages"]
    assert find_broken_pair(kept) is None
    assert [message.type for message in kept] == ["human", "ai", "tool", "tool", "tool"]
    assert words(shop.simulation.invoke(shop.agent, {"messages": "again"}, THREAD))[-1] == "done"


@both
def test_agents_below_are_in_the_simulation_however_they_are_called(asynchronous):
    simulation = Simulation(1)

    @tool
    async def look() -> str:
        """Look."""
        await simulation.asleep(100)
        return "sunny"

    script = lambda messages: call("look") if len(messages) == 1 else "fine"
    inner = create_agent(ScriptedModel(script, loop=True), [look])

    @tool
    def invoked() -> str:
        """Ask."""
        return inner.invoke(HI).text

    @tool
    async def awaited() -> str:
        """Ask."""
        return (await inner.ainvoke(HI)).text

    @tool
    def streamed() -> str:
        """Ask."""
        return [*inner.stream(HI, stream_mode="values")][-1]["messages"][-1].text

    @tool
    async def astreamed() -> str:
        """Ask."""
        shown = [chunk async for chunk in inner.astream(HI, stream_mode="values")]
        return shown[-1]["messages"][-1].text

    tools = [invoked, awaited, streamed, astreamed]
    agent = create_agent(ScriptedModel([call(one.name) for one in tools], "done"), tools)
    began = simulation.time
    result = simulation.invoke(agent, HI, asynchronous=asynchronous)
    assert words(result) == ["hi", "", "fine", "fine", "fine", "fine", "done"]
    assert simulation.time - began == 100


@both
def test_hooks_of_either_kind_wrap_what_is_simulated(asynchronous):
    @wrap_model_call
    def twice(request, handler):
        handler(request)
        return handler(request)

    @wrap_tool_call
    async def once(request, handler):
        return await handler(request)

    shop = Shop(1, middleware=[twice, once])
    assert words(shop.simulation.invoke(shop.agent, HI, THREAD, asynchronous=asynchronous))[-1] == "done"
    assert len(shop.agent.get_state(THREAD).values["messages"]) == 6


def test_a_coroutine_that_needs_an_event_loop_is_told_so():
    async def waits() -> str:
        """Wait."""
        await asyncio.Future(loop=loop)
        return ""

    loop = asyncio.new_event_loop()
    agent = create_agent(ScriptedModel(call("waits")), [waits], handle_tool_errors=False)
    with Simulation(1) as simulation, pytest.raises(InternalError, match=r"Await simulation\.asleep"):
        simulation.invoke(agent, HI, asynchronous=True)
    loop.close()


# -- accidents ------------------------------------------------------------------------------------------------------


@both
def test_an_error_comes_before_the_work_or_after_it(asynchronous):
    """Either way the model is told of an error; whether the work was done is what it cannot know."""
    seen: set[tuple[str, bool]] = set()
    for seed in range(30):
        shop = Shop(seed, Faults(error=1, most=1, at={"call"}))
        result = shop.simulation.invoke(shop.agent, HI, THREAD, asynchronous=asynchronous)
        [injected] = shop.simulation.injected
        failed = [message for message in result["messages"] if getattr(message, "status", "") == "error"]
        assert len(failed) == 1
        assert str(injected) in failed[0].text
        seen.add((injected.what, len(shop.done) == 3))
    assert {done for _, done in seen} == {True, False}
    assert {what.rpartition(".")[2] for what, _ in seen} == {"plain", "coro"}


@both
def test_a_slow_answer_runs_into_a_timeout(asynchronous):
    @tool(timeout_s=5)
    def quick() -> str:
        """Answer."""
        return "here"

    agent = create_agent(ScriptedModel(call("quick"), "done"), [quick])
    simulation = Simulation(1, Faults(slow=1, most=1))
    result = simulation.invoke(agent, HI, asynchronous=asynchronous)
    assert "it was not done within 5 s" in words(result)[2]
    assert "slow at effect 1 (call" in str(simulation.injected[0])


@both
def test_a_cancelled_run_leaves_a_closed_turn(asynchronous):
    seen: set[str] = set()
    for seed in range(20):
        shop = Shop(seed, Faults(cancel=1, most=1, at={"call"}))
        with pytest.raises(BaseException) as caught:
            shop.simulation.invoke(shop.agent, HI, THREAD, asynchronous=asynchronous)
        seen.add(caught.type.__name__)
        assert find_broken_pair(shop.agent.get_state(THREAD).values["messages"]) is None
        shop.simulation.close()
    assert seen == {"RunCancelled", "CancelledError" if asynchronous else "KeyboardInterrupt"}


@both
def test_a_crash_leaves_what_was_saved_and_the_thread_goes_on(asynchronous):
    """Nothing is cleaned up; a work whose result was on record is not done again."""
    for seed in range(20):
        shop = Shop(seed, Faults(crash=1, most=1, at={"saver"} if seed % 2 else {"call"}))
        with pytest.raises(SimulatedCrash):
            shop.simulation.invoke(shop.agent, HI, THREAD, asynchronous=asynchronous)
        result = shop.simulation.finish(shop.agent, HI, THREAD, asynchronous=asynchronous)
        assert words(result)[-1] == "done"


@both
def test_finish_goes_on_until_the_run_has_ended(asynchronous):
    for seed in range(20):
        shop = Shop(seed, Faults(error=0.1, crash=0.1, most=5, at={"saver"}))
        result = shop.simulation.finish(shop.agent, HI, THREAD, asynchronous=asynchronous)
        assert words(result) == ["hi", "", "a", "b", "c", "done"], shop.simulation.injected


def test_faults_are_at_the_effects_that_are_named_and_no_more_than_are_allowed():
    shop = Shop(1, Faults(error=1, most=2, at={"gather", "saver"}))
    for _ in range(2):
        with pytest.raises(InjectedError):
            shop.simulation.invoke(shop.agent, HI, THREAD)
    assert [one.effect for one in shop.simulation.injected] == ["saver", "saver"]
    assert words(shop.simulation.invoke(shop.agent, HI, THREAD))[-1] == "done"


def test_what_stands_still_in_a_process_is_gone_with_it():
    """Plain functions are unwound in the middle, whatever thread they are on, and get nothing done on their way."""
    simulation = Simulation(3, Faults(crash=1, most=1, at={"sleep"}))
    left: list[str] = []

    @tool
    def stands() -> str:
        """Stand still."""
        try:
            simulation.sleep(50)
        except SimulatedCrash as crash:
            left.append(type(crash).__name__)
            simulation.sleep(1)
        return "never"

    @tool
    async def dies() -> str:
        """Ask somebody who never answers."""
        await simulation.asleep(20)
        return (await create_agent(ScriptedModel(say("never", delay_s=1))).ainvoke(HI)).text

    agent = create_agent(ScriptedModel([call("stands"), call("stands"), call("dies")]), [stands, dies])
    with pytest.raises(SimulatedCrash):
        simulation.invoke(agent, HI)
    assert left == ["SimulatedCrash", "SimulatedCrash"]


def test_what_is_left_behind_goes_on_while_the_next_call_runs():
    """A thread cannot be stopped: what outlives its timeout does its work later."""
    simulation = Simulation(1)
    done: list[str] = []

    @tool(timeout_s=5)
    def slow() -> str:
        """Take long."""
        simulation.sleep(100)
        done.append("slow")
        return "late"

    @tool
    async def waits() -> str:
        """Wait."""
        await simulation.asleep(200)
        return "waited"

    agent = create_agent(ScriptedModel([call("slow"), call("slow")], call("waits"), "done"), [slow, waits])
    result = simulation.invoke(agent, HI)
    assert [message.status for message in result["messages"] if message.type == "tool"] == ["error", "error", "success"]
    assert done == ["slow", "slow"]
