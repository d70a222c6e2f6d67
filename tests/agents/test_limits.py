"""The account of a run: what is counted, what ends it, and what survives a pause."""

from __future__ import annotations

import json
import pickle
import re
import threading
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.agents.limits import Budget, Limits, Reached, Remaining
from loopwright.errors import LimitReachedError, UsageError
from loopwright.messages import AIMessage, HumanMessage, ToolMessage


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def reply(tokens: tuple[int, int] | None = None, *, cost: float | None = None, **details: Any) -> AIMessage:
    usage: Any = None
    if tokens is not None:
        usage = {"input_tokens": tokens[0], "output_tokens": tokens[1], "total_tokens": sum(tokens), **details}
    return AIMessage("ok", usage_metadata=usage, response_metadata={} if cost is None else {"cost": cost})


def call(name: str = "look", args: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"name": name, "args": {"x": 1} if args is None else args, "id": "c1", "type": "tool_call"}


def result(content: Any = "same", status: Any = "success") -> ToolMessage:
    return ToolMessage(content, tool_call_id="c1", name="look", status=status)


# -- Limits ---------------------------------------------------------------------------------------------------------


def test_defaults_are_on():
    assert Limits() == Limits(
        model_calls=100, tool_calls=200, tokens=None, cost=None, seconds=None, repeats=5, failures=8
    )


def test_limits_are_a_value():
    limits = Limits(tokens=5)
    with pytest.raises(AttributeError):
        limits.tokens = 6  # type: ignore[misc]
    assert (limits.replace(tokens=6), limits) == (Limits(tokens=6), Limits(tokens=5))
    assert (pickle.loads(pickle.dumps(limits)), hash(limits)) == (limits, hash(Limits(tokens=5)))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"model_calls": 0}, r"Limits\(model_calls=0\): at least 1"),
        ({"model_calls": 2.5}, "an integer is needed"),
        ({"tool_calls": -1}, "at least 0"),
        ({"tokens": True}, "an integer is needed, or None for no limit"),
        ({"cost": 0}, "more than 0"),
        ({"cost": "1"}, "a number is needed"),
        ({"seconds": 0.0}, "more than 0"),
        ({"seconds": float("nan")}, "more than 0"),
        ({"seconds": float("inf")}, "longer than a clock can wait; write None"),
        ({"repeats": 1}, "at least 2"),
        ({"failures": 0}, "at least 1"),
    ],
)
def test_figures_that_cannot_be_meant(given, words):
    with pytest.raises(UsageError, match=words):
        Limits(**given)


def test_limits_may_be_off_or_zero_tool_calls():
    off = Limits(model_calls=None, tool_calls=None, tokens=None, cost=None, seconds=None, repeats=None, failures=None)
    budget = Budget(off)
    assert [budget.before_model() for _ in range(300)] == [None] * 300
    assert budget.remaining() == Remaining(None, None, None, None, None)
    assert Budget(Limits(tool_calls=0)).reserve_tools(1) == Reached("tool_calls", 1, 0)


# -- calls ----------------------------------------------------------------------------------------------------------


def test_model_calls_end_at_the_limit_and_not_one_earlier():
    budget = Budget(Limits(model_calls=2))
    assert [budget.before_model(), budget.before_model()] == [None, None]
    assert budget.before_model() == Reached("model_calls", 2, 2)
    assert budget.model_calls == 2


def test_B22_calls_over_the_limit_are_refused_together_and_not_counted():
    """Limit 1, one turn with three calls: none may run, and the next turn still has its one."""
    budget = Budget(Limits(tool_calls=1))
    assert budget.reserve_tools(3) == Reached("tool_calls", 3, 1)
    assert budget.tool_calls == 0
    assert budget.reserve_tools(1) is None
    assert budget.tool_calls == 1


def test_B109_a_forced_last_call_does_not_lift_the_limit():
    """A reply that is charged beyond the limit leaves the budget as spent as it was."""
    budget = Budget(Limits(model_calls=1))
    assert budget.before_model() is None
    budget.charge(reply((5, 5)))
    assert budget.before_model() == Reached("model_calls", 2, 1)


# -- tokens, cost, time ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cost", ["free", float("nan"), float("inf"), -1.0, [], {}])
def test_a_cost_that_is_none_counts_as_unknown(cost: Any):
    budget = Budget(Limits(cost=1))
    assert budget.after_model(reply((1, 1), cost=cost)) == Reached("cost", None, 1)
    assert Budget().after_model(reply((1, 1), cost=cost)) is None


@pytest.mark.parametrize("cost", ["0.5", Decimal("0.5"), 0.5])
def test_a_cost_counts_in_whatever_form_it_comes(cost: Any):
    budget = Budget(Limits(cost=1))
    assert [budget.after_model(reply((1, 1), cost=cost)) for _ in range(2)] == [None, Reached("cost", 1.0, 1)]


def test_counts_of_tokens_are_read_in_whatever_form_they_come():
    budget = Budget(Limits(tokens=20))
    odd: Any = {"input_tokens": "7", "output_tokens": 3.0, "total_tokens": None, "input_token_details": {"audio": "x"}}
    assert budget.after_model(AIMessage("ok", usage_metadata=odd)) is None
    assert budget.usage == {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
    unreadable: Any = {"input_tokens": "many", "output_tokens": float("nan"), "input_token_details": "none"}
    budget.after_model(AIMessage("some words to be estimated", usage_metadata=unreadable))
    assert budget.tokens > 10


def test_tokens_are_summed_with_their_details():
    budget = Budget()
    budget.after_model(reply((10, 5), input_token_details={"cache_read": 4, "audio": 0}))
    budget.after_model(reply((1, 2), input_token_details={"cache_read": 1}, output_token_details={"reasoning": 2}))
    budget.after_model(reply(None))
    assert budget.usage == {
        "input_tokens": 11,
        "output_tokens": 7,
        "total_tokens": 18,
        "input_token_details": {"cache_read": 5},
        "output_token_details": {"reasoning": 2},
    }


def test_a_total_that_is_missing_is_the_sum():
    budget = Budget()
    budget.after_model(AIMessage("", usage_metadata={"input_tokens": 3, "output_tokens": 4}))  # type: ignore[typeddict-item]
    assert budget.usage == {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}


def test_tokens_forbid_the_calls_of_the_reply_that_used_them_up():
    budget = Budget(Limits(tokens=20))
    assert budget.after_model(reply((10, 5))) is None
    assert budget.after_model(reply((4, 1))) == Reached("tokens", 20, 20)
    assert budget.before_model() == Reached("tokens", 20, 20)
    assert budget.model_calls == 0


def test_tokens_are_estimated_only_where_they_are_limited_and_not_reported():
    limited, free = Budget(Limits(tokens=10_000)), Budget()
    for budget in (limited, free):
        budget.after_model(AIMessage("word " * 100), [HumanMessage("word " * 1000)])
    assert limited.usage == free.usage == {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
    assert (limited.tokens > 500, free.tokens) == (True, 0)
    before = limited.tokens
    limited.after_model(AIMessage("word"))
    assert limited.tokens > before


def test_cost_comes_from_the_reply_or_from_a_price():
    budget = Budget(Limits(cost=1.0))
    assert budget.cost is None
    assert budget.after_model(reply(cost=0.25)) is None
    assert budget.after_model(reply(cost=0.75)) == Reached("cost", 1.0, 1.0)
    assert budget.cost == 1.0
    priced = Budget(price=lambda message: len(message.text) / 10)
    priced.after_model(reply())
    assert priced.cost == 0.2


def test_a_cost_that_is_not_known_cannot_be_limited_and_says_so():
    budget = Budget(Limits(cost=1.0))
    reached = budget.after_model(reply())
    assert reached == Reached("cost", None, 1.0)
    assert "not known" in reached.sentence  # pyright: ignore[reportOptionalMemberAccess]


def test_time():
    clock = Clock()
    budget = Budget(Limits(seconds=10), clock=clock)
    clock.now += 9.5
    assert (budget.before_model(), budget.elapsed, budget.deadline) == (None, 9.5, 110.0)
    assert budget.out_of_time() is None
    clock.now += 0.5
    inner = Budget(parent=budget, clock=clock)
    over = Reached("seconds", 10.0, 10)
    assert [budget.before_model(), budget.out_of_time(), inner.out_of_time()] == [over] * 3
    assert (Budget().deadline, Budget().out_of_time()) == (None, None)


# -- turns ----------------------------------------------------------------------------------------------------------


def test_the_same_call_with_the_same_result_ends_the_run():
    budget = Budget(Limits(repeats=3))
    assert [budget.after_turn([call()], [result()]) for _ in range(3)] == [
        None,
        None,
        Reached("repeats", 3, 3, "look"),
    ]


def test_a_poll_whose_answer_changes_is_no_repetition():
    budget = Budget(Limits(repeats=2))
    assert [budget.after_turn([call()], [result(f"{n} %")]) for n in range(20)] == [None] * 20


def test_only_consecutive_turns_count():
    budget = Budget(Limits(repeats=2))
    turns = [call(), call("other"), call(), call(args={"x": 2}), call()]
    assert [budget.after_turn([each], [result()]) for each in turns] == [None] * 5


def test_the_same_call_twice_in_one_turn_counts_once():
    budget = Budget(Limits(repeats=2))
    assert budget.after_turn([call(), call()], [result(), result()]) is None
    assert budget.after_turn([call("other"), call()], [result(), result()]) == Reached("repeats", 2, 2, "look")


def test_a_call_without_a_result_breaks_the_row():
    budget = Budget(Limits(repeats=2))
    budget.after_turn([call()], [result()])
    budget.after_turn([call()], [None])
    assert budget.after_turn([call()], [result()]) is None


def test_one_tool_that_fails_again_and_again_ends_the_run():
    budget = Budget(Limits(failures=3))
    broken = [budget.after_turn([call(args={"n": n})], [result(f"down {n}", "error")]) for n in range(3)]
    assert broken == [None, None, Reached("failures", 3, 3, "look")]


def test_a_success_or_another_tool_does_not_add_to_the_failures():
    budget = Budget(Limits(failures=2))
    outcomes = [
        budget.after_turn([call()], [result("a", "error")]),
        budget.after_turn([call()], [result("b")]),
        budget.after_turn([call(), call("other")], [result("c", "error"), result("d", "error")]),
        budget.after_turn([call(), call("third")], [result("e"), result("f")]),
    ]
    assert outcomes == [None] * 4


def test_calls_that_did_not_parse_count_like_others():
    budget = Budget(Limits(failures=2))
    broken = {"name": None, "args": "{", "id": "c1", "error": None, "type": "invalid_tool_call"}
    assert budget.after_turn([broken], [result("no JSON", "error")]) is None
    assert budget.after_turn([broken], [result("no JSON", "error")]) == Reached("failures", 2, 2, "")


def test_repeats_and_failures_may_be_off():
    budget = Budget(Limits(repeats=None, failures=None))
    assert [budget.after_turn([call()], [result("down", "error")]) for _ in range(30)] == [None] * 30


# -- the tree -------------------------------------------------------------------------------------------------------


def test_a_nested_run_charges_the_runs_above_it():
    outer = Budget(Limits(model_calls=10, tokens=100))
    inner = Budget(Limits(), parent=outer)
    innermost = Budget(Limits(), parent=inner)
    innermost.before_model()
    innermost.after_model(reply((10, 10), cost=0.5))
    innermost.reserve_tools(2)
    for budget in (outer, inner, innermost):
        assert (budget.model_calls, budget.tool_calls, budget.tokens, budget.cost) == (1, 2, 20, 0.5)
    assert innermost.remaining() == Remaining(9, 198, 80, None, None)


def test_the_outer_limits_hold_for_the_whole_tree():
    clock = Clock()
    outer = Budget(Limits(model_calls=1, tool_calls=1, tokens=10, seconds=5), clock=clock)
    inner = Budget(Limits(tokens=50), parent=outer, clock=clock)
    assert inner.before_model() is None
    assert inner.before_model() == Reached("model_calls", 1, 1)
    assert inner.reserve_tools(2) == Reached("tool_calls", 2, 1)
    assert inner.after_model(reply((10, 1))) == Reached("tokens", 11, 10)
    assert (inner.tool_calls, outer.tool_calls, inner.deadline) == (0, 0, 105.0)


def test_the_inner_limits_hold_for_the_inner_run_alone():
    outer = Budget(Limits())
    inner = Budget(Limits(model_calls=1), parent=outer)
    inner.before_model()
    assert inner.before_model() == Reached("model_calls", 1, 1)
    assert outer.before_model() is None


def test_parallel_runs_lose_no_count():
    outer = Budget(Limits(model_calls=None, tool_calls=500))

    def work() -> None:
        inner = Budget(Limits(model_calls=None, tool_calls=None), parent=outer)
        for _ in range(200):
            inner.before_model()
            inner.after_model(reply((1, 1)))
            inner.reserve_tools(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (outer.model_calls, outer.usage["total_tokens"], outer.tool_calls) == (800, 1600, 500)


# -- a pause --------------------------------------------------------------------------------------------------------


def test_the_account_goes_on_after_a_pause_and_the_time_of_waiting_is_not_in_it():
    clock = Clock()
    first = Budget(Limits(repeats=3, failures=3, seconds=10), clock=clock)
    first.before_model()
    first.after_model(reply((3, 4), cost=0.1, input_token_details={"cache_read": 1}))
    first.reserve_tools(2)
    first.granted, first.ended = 2, Reached("failures", 3, 3, "bad")
    first.after_turn([call(), call("bad")], [result([{"type": "text", "text": "ä"}]), result("x", "error")])
    clock.now += 4
    stored = json.loads(json.dumps(first.snapshot()))
    clock.now += 1000
    again = Budget(first.limits, clock=clock)
    again.restore(stored)
    assert again.snapshot() == stored
    assert (again.elapsed, again.usage, again.cost) == (4.0, first.usage, 0.1)
    assert (again.granted, again.ended) == (2, first.ended)
    second = [result([{"type": "text", "text": "ä"}]), result("y", "error")]
    assert again.after_turn([call(), call("bad")], second) is None
    assert again.after_turn([call()], second[:1]) == Reached("repeats", 3, 3, "look")
    assert again.after_turn([call("bad")], second[1:]) == Reached("failures", 3, 3, "bad")


def test_after_a_pause_another_result_is_no_repetition():
    first = Budget(Limits(repeats=2))
    first.after_turn([call(args={"b": 1, "a": 2})], [result("one")])
    stored = first.snapshot()
    for args, content in (({"b": 1, "a": 2}, "two"), ({"b": 2, "a": 2}, "one")):
        again = Budget(Limits(repeats=2))
        again.restore(stored)
        assert again.after_turn([call(args=args)], [result(content)]) is None
    again = Budget(Limits(repeats=2))
    again.restore(stored)
    assert again.after_turn([call(args={"a": 2, "b": 1})], [result("one")]) == Reached("repeats", 2, 2, "look")


# -- words ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reached", "sentence"),
    [
        (Reached("model_calls", 5, 5), "The run was stopped: 5 model calls were made (limit model_calls=5)."),
        (Reached("tool_calls", 7, 5), "The run was stopped: it needs 7 tool calls (limit tool_calls=5)."),
        (Reached("tokens", 1200, 1000), "The run was stopped: 1200 tokens were used (limit tokens=1000)."),
        (Reached("cost", 1.25, 1.0), "The run was stopped: its model calls have cost 1.25 (limit cost=1)."),
        (Reached("seconds", 12.34, 10), "The run was stopped: it took 12.3 seconds (limit seconds=10)."),
        (
            Reached("repeats", 5, 5, "look"),
            (
                "The run was stopped: the tool 'look' was called in the same way with the same result "
                "5 times in a row (limit repeats=5)."
            ),
        ),
        (
            Reached("failures", 8, 8, "look"),
            "The run was stopped: the tool 'look' failed 8 times in a row (limit failures=8).",
        ),
    ],
)
def test_sentences(reached, sentence):
    assert reached.sentence == sentence
    assert reached.not_run == "Not run: " + sentence.removeprefix("The run was stopped: ").split(" (limit")[0] + "."


def test_the_error_names_the_limit():
    error = Reached("tokens", 1200, 1000).error()
    assert (type(error), error.limit, "1200 tokens" in str(error)) == (LimitReachedError, "tokens", True)


def test_repr_shows_the_account():
    budget = Budget(Limits(tokens=9))
    budget.charge(reply((1, 1)))
    assert "model_calls=1 tool_calls=0 tokens=2" in repr(budget)


# -- laws -----------------------------------------------------------------------------------------------------------

steps = st.lists(
    st.one_of(
        st.just(("model",)),
        st.tuples(st.just("reply"), st.integers(0, 50), st.integers(0, 50)),
        st.tuples(st.just("tools"), st.integers(1, 4)),
        st.tuples(st.just("turn"), st.integers(0, 2), st.integers(0, 1), st.booleans()),
    ),
    max_size=40,
)
some_limits = st.builds(
    Limits,
    model_calls=st.none() | st.integers(1, 10),
    tool_calls=st.none() | st.integers(0, 10),
    tokens=st.none() | st.integers(1, 500),
    repeats=st.none() | st.integers(2, 4),
    failures=st.none() | st.integers(1, 4),
)


def step(budget: Budget, what: tuple[Any, ...]) -> Reached | None:
    match what:
        case ("model",):
            return budget.before_model()
        case ("reply", got, said):
            return budget.after_model(reply((got, said)))
        case ("tools", count):
            return budget.reserve_tools(count)
        case (_, args, content, failed):
            return budget.after_turn(
                [call(args={"n": args})], [result(f"r{content}", "error" if failed else "success")]
            )
    raise AssertionError(what)


@given(some_limits, steps)
def test_no_counted_figure_exceeds_its_limit(limits, done):
    budget = Budget(limits)
    for what in done:
        before = (budget.model_calls, budget.tool_calls)
        reached = step(budget, what)
        assert limits.model_calls is None or budget.model_calls <= limits.model_calls
        assert limits.tool_calls is None or budget.tool_calls <= limits.tool_calls
        if reached is not None and what[0] in ("model", "tools"):
            assert (budget.model_calls, budget.tool_calls) == before
        if reached is not None:
            assert reached.used is not None
            assert reached.used >= reached.allowed
        left = budget.remaining()
        assert all(each is None or each >= 0 for each in (left.model_calls, left.tool_calls, left.tokens))


@given(some_limits, steps, st.integers(0, 40))
def test_a_pause_anywhere_changes_no_decision(limits, done, at):
    straight, paused = Budget(limits, clock=Clock()), Budget(limits, clock=Clock())
    for index, what in enumerate(done):
        if index == at:
            account = json.loads(json.dumps(paused.snapshot()))
            paused = Budget(limits, clock=Clock())
            paused.restore(account)
        assert step(paused, what) == step(straight, what)
    assert paused.snapshot() == straight.snapshot()


@given(steps, steps)
def test_the_run_above_has_the_sum_of_the_runs_inside(first, second):
    free = Limits(model_calls=None, tool_calls=None)
    outer = Budget(free)
    inner = [Budget(free, parent=outer) for _ in range(2)]
    for budget, done in zip(inner, (first, second), strict=True):
        for what in done:
            step(budget, what)
    assert outer.model_calls == sum(each.model_calls for each in inner)
    assert outer.tool_calls == sum(each.tool_calls for each in inner)
    assert outer.usage["total_tokens"] == sum(each.usage["total_tokens"] for each in inner)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"max_calls": 2}, "Limits has no 'max_calls'. Did you mean model_calls or tool_calls?"),
        ({"max_tokens": 2}, "Limits has no 'max_tokens'. Did you mean tokens?"),
        ({"toolcalls": 2}, "Limits has no 'toolcalls'. Did you mean tool_calls?"),
        ({"thread_limit": 2}, "Limits has no 'thread_limit'. Its figures are model_calls, tool_calls, tokens"),
    ],
)
def test_a_figure_that_there_is_not(given, words):
    with pytest.raises(UsageError, match=re.escape(words)):
        Limits(**given)


def test_figures_have_names():
    with pytest.raises(UsageError, match=r"Limits\(5\): give figures by name"):
        Limits(5)  # type: ignore[misc]


def test_the_time_limit_is_the_one_that_ends_first():
    clock = Clock()
    outer = Budget(Limits(seconds=10), clock=clock)
    assert (Budget().time_limit, Budget(parent=outer, clock=clock).time_limit) == (None, 10)
    assert Budget(Limits(seconds=3), parent=outer, clock=clock).time_limit == 3
    assert Budget(Limits(seconds=30), parent=outer, clock=clock).time_limit == 10
