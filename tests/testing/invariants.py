"""What holds of every scenario, whatever goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

from loopwright.errors import RunCancelled
from loopwright.graph.events import RunFinished
from loopwright.graph.modes import replay
from loopwright.messages import ToolMessage, find_broken_pair
from loopwright.testing import InjectedError, ManualClock, SimulatedCrash, Simulation
from loopwright.types import Command
from tests.testing.scenarios import Act, Attempt, Ledger, Scenario

__all__ = ["check"]

SEVEN = ["values", "updates", "messages", "custom", "checkpoints", "tasks", "debug"]
THREAD: Any = {"configurable": {"thread_id": "t"}}
CANCELLED = (RunCancelled, KeyboardInterrupt, asyncio.CancelledError)


class Turn(NamedTuple):
    """How a turn has ended, in words that do not change from run to run."""

    state: Mapping[str, Any]
    stop_reason: str | None


def check(seed: int) -> None:
    """Play the scenario of a seed: undisturbed, in the real world of the other kind, and with what may go wrong.

    Raises `AssertionError`.
    """
    scenario = Scenario(seed)
    undisturbed = [*_undisturbed(scenario)]
    turns = _in_the_real_world(scenario, asynchronous=not scenario.asynchronous)
    assert turns == undisturbed or scenario.order_matters, "the worlds do not agree"
    _disturbed(scenario, undisturbed)


# -- undisturbed ----------------------------------------------------------------------------------------------------


def _undisturbed(scenario: Scenario) -> Iterator[Turn]:
    agent = scenario.agent()
    with Simulation(scenario.seed) as simulation:
        ledger = Ledger(scenario, simulation)
        for words in scenario.turns:
            attempt = ledger.begin()
            facts, given = _shown(agent, simulation, attempt, {"messages": words}), _answers(agent)
            while given is not None:
                facts, given = _shown(agent, simulation, attempt, given), _answers(agent)
            state = agent.get_state(THREAD)
            assert state.next == ()
            _is_valid(state.values["messages"])
            _limits_hold(scenario, attempt)
            ended = next(fact for fact in reversed(facts) if isinstance(fact, RunFinished) and not fact.path)
            yield Turn(_plain(state.values), ended.stop_reason)
    _each_call_was_made_once(ledger)


def _shown(agent: Any, simulation: Simulation, attempt: Attempt, given: Any) -> list[Any]:
    """The facts of one call, which tell what every mode has shown and how the thread is now."""
    scenario = attempt.ledger.scenario
    chunks = simulation.stream(
        agent,
        given,
        THREAD,
        asynchronous=scenario.asynchronous,
        context=attempt,
        durability=scenario.durability,
        stream_mode=[*SEVEN, "events"],
        subgraphs=scenario.subgraphs,
    )
    shown = [*chunks]
    facts = _facts_tell_what_was_shown(shown, scenario)
    values = [data for path, mode, data in _placed(shown, scenario) if mode == "values" and not path]
    state = agent.get_state(THREAD)
    if not state.interrupts:
        assert _plain(values[-1]) == _plain(state.values), "`values` does not end with the state of the thread"
    return facts


def _answers(agent: Any) -> Command[Any] | None:
    """What a paused thread is given; None for one that is not paused."""
    asked = agent.get_state(THREAD).interrupts
    return Command(resume={one.id: "yes" for one in asked}) if asked else None


def _placed(shown: Sequence[Any], scenario: Scenario) -> Iterator[tuple[Any, str, Any]]:
    for chunk in shown:
        yield chunk if scenario.subgraphs else ((), *chunk)


def _facts_tell_what_was_shown(shown: Sequence[Any], scenario: Scenario) -> list[Any]:
    """`replay(facts, mode) == live(mode)`."""
    mode_of = (lambda chunk: chunk[1]) if scenario.subgraphs else (lambda chunk: chunk[0])
    facts = [chunk[-1] for chunk in shown if mode_of(chunk) == "events"]
    assert [fact.seq for fact in facts] == sorted(fact.seq for fact in facts)
    for mode in SEVEN:
        live = [chunk for chunk in shown if mode_of(chunk) == mode]
        assert [*replay(facts, [mode], subgraphs=scenario.subgraphs)] == live, f"mode {mode}"
    return facts


def _limits_hold(scenario: Scenario, attempt: Attempt) -> None:
    limits = scenario.limits
    last_words = scenario.on_limit == "answer"
    if limits.model_calls is not None:
        assert attempt.asked <= limits.model_calls + last_words, "more model calls than the limit"
    _tool_limit_holds(scenario, attempt)


def _tool_limit_holds(scenario: Scenario, attempt: Attempt) -> None:
    allowed = scenario.limits.tool_calls
    made = {act.call_id for act in attempt.ledger.acts if act.attempt == attempt.number}
    assert allowed is None or len(made) <= allowed, "more tool calls than the limit"


def _each_call_was_made_once(ledger: Ledger) -> None:
    assert len(_told_apart(ledger)) == len([*_acts(ledger)]), "a call was made twice"


def _told_apart(ledger: Ledger, attempt: int | None = None) -> set[str]:
    """The calls that had an effect, in an attempt or in all."""
    return {act.call_id for act in _acts(ledger) if attempt in (None, act.attempt)}


def _acts(ledger: Ledger) -> Iterator[Act]:
    """What was done. Where the one below may be asked the same again, not what it did: that has the same names."""
    scenario = ledger.scenario
    anew = scenario.stubborn or scenario.profile != "crash" or scenario.durability == "exit"
    return (act for act in ledger.acts if not anew or act.call_id.startswith(f"{scenario.seed}."))


def _in_the_real_world(scenario: Scenario, *, asynchronous: bool) -> list[Turn]:
    agent, ledger = scenario.agent(), Ledger(scenario, None)

    async def played() -> list[Turn]:
        turns: list[Turn] = []
        for words in scenario.turns:
            given: Any = {"messages": words}
            options: dict[str, Any] = {"context": ledger.begin(), "durability": scenario.durability}
            result: Any = None
            while given is not None:
                if asynchronous:
                    result = await agent.ainvoke(given, THREAD, **options)
                else:
                    result = agent.invoke(given, THREAD, **options)
                given = _answers(agent)
            turns.append(Turn(_plain(result), result.stop_reason))
        return turns

    with ManualClock():
        turns = asyncio.run(played()) if asynchronous else _without_a_loop(played())
    _each_call_was_made_once(ledger)
    return turns


def _without_a_loop(coroutine: Any) -> Any:
    """The result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("it waits")


# -- disturbed ------------------------------------------------------------------------------------------------------


def _disturbed(scenario: Scenario, undisturbed: Sequence[Turn]) -> None:
    """Turn by turn, taken up again after each crash and error; of what a saver has, nothing is done again."""
    agent = scenario.agent()
    with Simulation(scenario.seed, scenario.faults) as simulation, _told(simulation):
        ledger = Ledger(scenario, simulation)
        for words, expected in zip(scenario.turns, undisturbed, strict=True):
            _play(agent, simulation, ledger, words)
            if scenario.leaves_no_trace:
                assert _plain(agent.get_state(THREAD).values) == expected.state
        if scenario.durability == "sync":
            _keys_are_stable(ledger)


@contextmanager
def _told(simulation: Simulation) -> Iterator[None]:
    """What was injected stands with what failed."""
    try:
        yield
    except Exception as error:
        error.add_note("injected: " + "; ".join(map(str, simulation.injected)))
        raise


def _play(agent: Any, simulation: Simulation, ledger: Ledger, words: str) -> None:
    scenario = ledger.scenario
    before = _head(agent)
    given: Any = {"messages": words}
    while True:
        attempt, known, head, stopped = ledger.begin(), len(simulation.injected), _head(agent), False
        recorded = set[str]() if isinstance(given, dict) else _results_on_record(agent)
        try:
            simulation.invoke(
                agent,
                given,
                THREAD,
                asynchronous=scenario.asynchronous,
                context=attempt,
                durability=scenario.durability,
                stream_mode="events" if scenario.reading else "values",
            )
        except SimulatedCrash:
            ended = False
        except InjectedError as error:
            ended = False
            _is_valid((getattr(error, "state", None) or {}).get("messages", []))
        except CANCELLED as error:
            stopped = True
            # Before it had begun, or while it was leaving already, it could not close the turn.
            faults = [one.fault for one in simulation.injected[known:] if one.fault != "slow"]
            ended = _head(agent) != head and faults == ["cancel"] and not hasattr(error, "__notes__")
        else:
            ended = True
        paused = _answers(agent)
        again = _told_apart(ledger, attempt.number) & recorded
        assert again == set(), "calls whose results were on record were made again"
        if isinstance(given, dict):
            _tool_limit_holds(scenario, attempt)
        _thread_is_valid(agent, ended=ended and paused is None)
        if scenario.durability != "exit":
            _runs_below_have_their_tasks(agent)
        if stopped or (ended and paused is None):
            return
        given = {"messages": words} if _head(agent) == before else paused


def _head(agent: Any) -> str | None:
    record = agent.checkpointer.load("t")
    return None if record is None else record.id


def _results_on_record(agent: Any) -> set[str]:
    """Ids of the calls whose results the saver has, those of runs below among them."""
    messages: list[Any] = []
    for record in agent.checkpointer.walk("t", None):
        messages += record.values.get("messages", ())
        for _, key, value in record.writes:
            if key == "messages":
                messages += value if isinstance(value, list) else [value]
    return {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}


def _thread_is_valid(agent: Any, *, ended: bool) -> None:
    state = agent.get_state(THREAD)
    messages = state.values.get("messages", [])
    problem = find_broken_pair(messages, open_end=not ended)  # a killed process closes nothing; the next run does
    assert problem is None, problem
    for record in agent.checkpointer.walk("t"):
        if not record.pending:
            _is_valid(record.values.get("messages", []))


def _runs_below_have_their_tasks(agent: Any) -> None:
    """What a run in a task has written is there only if the step of that task is."""
    records = [*agent.checkpointer.walk("t", None)]
    tasks = {task.id for record in records for task in record.pending}
    around = {record.ns.split("|")[-1 if ":" in record.ns.split("|")[-1] else -2] for record in records if record.ns}
    assert {place.rpartition(":")[2] for place in around} <= tasks, "a run below was kept before its task"


def _keys_are_stable(ledger: Ledger) -> None:
    """A call that is made again has the key of its first time. A nested agent begins anew, and so do its keys."""
    keys: dict[str, set[str]] = {}
    for act in ledger.acts:
        if act.call_id.startswith(f"{ledger.scenario.seed}."):
            keys.setdefault(act.call_id, set()).add(act.key)
    assert {call_id: found for call_id, found in keys.items() if len(found) > 1} == {}


# -- in words -------------------------------------------------------------------------------------------------------


def _is_valid(messages: Any) -> None:
    problem = find_broken_pair(messages)
    assert problem is None, problem


def _plain(state: Mapping[str, Any]) -> dict[str, Any]:
    """A state without what differs from run to run: ids."""
    return {
        **{key: value for key, value in state.items() if key != "messages"},
        "messages": [_words(message) for message in cast("list[Any]", state["messages"])],
    }


def _words(message: Any) -> tuple[Any, ...]:
    calls = [(one["name"], one["args"], one["id"]) for one in getattr(message, "tool_calls", ())]
    return (
        message.type,
        message.content,
        message.name,
        calls,
        getattr(message, "tool_call_id", None),
        getattr(message, "status", None),
    )
