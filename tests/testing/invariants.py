"""What holds of every scenario, whatever goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, cast, get_args

from loopwright.agents.limits import LimitName
from loopwright.errors import RunCancelled
from loopwright.graph.events import RunFinished
from loopwright.graph.modes import replay
from loopwright.messages import ToolMessage, find_broken_pair
from loopwright.testing import InjectedError, ManualClock, SimulatedCrash, Simulation
from tests.testing.scenarios import Attempt, Ledger, Scenario

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
            chunks = simulation.stream(
                agent,
                {"messages": words},
                THREAD,
                asynchronous=scenario.asynchronous,
                context=attempt,
                durability=scenario.durability,
                stream_mode=[*SEVEN, "events"],
                subgraphs=scenario.subgraphs,
            )
            shown = [*chunks]
            facts = _facts_tell_what_was_shown(shown, scenario)
            state = agent.get_state(THREAD)
            assert state.next == ()
            values = [data for path, mode, data in _placed(shown, scenario) if mode == "values" and not path]
            assert _plain(values[-1]) == _plain(state.values), "`values` does not end with the state of the thread"
            _is_valid(state.values["messages"])
            _limits_hold(scenario, attempt)
            ended = next(fact for fact in reversed(facts) if isinstance(fact, RunFinished) and not fact.path)
            yield Turn(_plain(state.values), ended.stop_reason)
    _each_call_was_made_once(ledger)


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
    """A stubborn agent asks the one below the same again; what that one does then has the same names."""
    scenario = ledger.scenario
    calls = [act.call_id for act in ledger.acts if not scenario.stubborn or act.call_id.startswith(f"{scenario.seed}.")]
    assert sorted(calls) == sorted(set(calls)), "a call was made twice"


def _in_the_real_world(scenario: Scenario, *, asynchronous: bool) -> list[Turn]:
    agent, ledger = scenario.agent(), Ledger(scenario, None)

    async def played() -> list[Turn]:
        return [_turn(await agent.ainvoke(*args, **options)) for args, options in calls()]

    def calls() -> Iterator[tuple[tuple[Any, Any], dict[str, Any]]]:
        for words in scenario.turns:
            yield ({"messages": words}, THREAD), {"context": ledger.begin(), "durability": scenario.durability}

    with ManualClock():
        if asynchronous:
            turns = asyncio.run(played())
        else:
            turns = [_turn(agent.invoke(*args, **options)) for args, options in calls()]
    _each_call_was_made_once(ledger)
    return turns


def _turn(result: Any) -> Turn:
    return Turn(_plain(result), result.stop_reason)


# -- disturbed ------------------------------------------------------------------------------------------------------


def _disturbed(scenario: Scenario, undisturbed: Sequence[Turn]) -> None:
    """Turn by turn, taken up again after each crash and error; of what a saver has, nothing is done again."""
    agent = scenario.agent()
    with Simulation(scenario.seed, scenario.faults) as simulation, _told(simulation):
        ledger = Ledger(scenario, simulation)
        for words, expected in zip(scenario.turns, undisturbed, strict=True):
            _play(agent, simulation, ledger, words)
            if scenario.leaves_no_trace:
                if expected.stop_reason in get_args(LimitName):
                    break  # the account of a step is kept with its end, so a crash before that may let one more begin
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
        attempt, recorded, head, stopped = ledger.begin(), _results_on_record(agent), _head(agent), False
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
            _is_valid(cast("Any", error).state.get("messages", []))
        except CANCELLED as error:
            ended = _head(agent) != head and not getattr(error, "__notes__", None)  # else it could not close the turn
            stopped = True
        else:
            ended = True
        again = {act.call_id for act in ledger.acts if act.attempt == attempt.number} & recorded
        assert again == set(), "calls whose results were on record were made again"
        if given is not None:
            _tool_limit_holds(scenario, attempt)
        _thread_is_valid(agent, ended=ended)
        if ended or stopped:
            return
        given = {"messages": words} if _head(agent) == before else None


def _head(agent: Any) -> str | None:
    return agent.get_state(THREAD).config["configurable"].get("checkpoint_id")


def _results_on_record(agent: Any) -> set[str]:
    """Ids of the calls whose results the saver has."""
    record = agent.checkpointer.load("t")
    if record is None:
        return set()
    messages = [*record.values.get("messages", ())]
    for _, key, value in record.writes:
        if key == "messages":
            messages += value if isinstance(value, list) else [value]
    return {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}


def _thread_is_valid(agent: Any, *, ended: bool) -> None:
    state = agent.get_state(THREAD)
    messages = state.values.get("messages", [])
    problem = find_broken_pair(messages, open_end=not ended)  # a killed process closes nothing; the next run does
    assert problem is None, problem


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
