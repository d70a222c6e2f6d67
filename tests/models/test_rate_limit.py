"""The rate limiter, by a clock that nobody waits for."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.errors import UsageError
from loopwright.models import BaseRateLimiter, InMemoryRateLimiter, SharedRateLimiter
from loopwright.testing import ManualClock, ScriptedModel, say
from tests.models.worlds import Blocking, both_worlds


@both_worlds
def test_calls_are_spread_over_time(world: Blocking, manual_clock: ManualClock) -> None:
    limiter = InMemoryRateLimiter(requests_per_second=2)
    one, other = (ScriptedModel("ok", loop=True, rate_limiter=limiter) for _ in range(2))
    begin = manual_clock.time
    for model in (one, other, one, other):
        world.invoke(model, "hi")
    world.stream(one, "hi")
    assert manual_clock.time - begin == pytest.approx(2.0)
    assert manual_clock.slept == pytest.approx([0.5] * 4)


def test_a_quiet_time_saves_up_no_more_than_the_bucket() -> None:
    limiter = InMemoryRateLimiter(requests_per_second=1, max_bucket_size=3)
    assert limiter.reserve(0.0) == 0
    assert [limiter.reserve(100.0) for _ in range(5)] == [0, 0, 0, 1, 2]
    assert limiter.reserve(100.0, blocking=False) is None
    limiter.give_back()
    assert limiter.reserve(100.0) == 2


def test_waits_come_in_steps_if_asked() -> None:
    limiter = InMemoryRateLimiter(requests_per_second=3, check_every_n_seconds=0.25)
    assert [limiter.reserve(0.0) for _ in range(3)] == [0, 0.5, 0.75]


@given(st.lists(st.floats(0, 2), max_size=40), st.floats(0.5, 20), st.integers(1, 5))
def test_the_limit_holds_for_every_pattern_of_callers(pauses: list[float], rate: float, burst: int) -> None:
    """However callers come, in no stretch of time go out more than the bucket and what flows in during it."""
    limiter, now, sent = InMemoryRateLimiter(requests_per_second=rate, max_bucket_size=burst), 0.0, []
    for pause in pauses:
        now += pause
        wait_s = limiter.reserve(now)
        assert wait_s is not None
        sent.append(now + wait_s)
    for first in range(len(sent)):
        for last in range(first, len(sent)):
            assert last - first + 1 <= burst + rate * (sent[last] - sent[first]) + 1e-6


@given(st.lists(st.tuples(st.floats(0, 30), st.integers(0, 300), st.integers(0, 300)), max_size=30))
def test_tokens_are_spent_at_their_rate_whatever_was_estimated(calls: list[tuple[float, int, int]]) -> None:
    """From the first call to the last, no more was begun than a minute's tokens, what has come since, and one call."""
    limiter, now, begun = InMemoryRateLimiter(tokens_per_minute=240), 0.0, []
    for pause, estimate, took in calls:
        now += pause
        wait_s = limiter.reserve(now, tokens=estimate)
        assert wait_s is not None
        now += wait_s
        begun.append((now, took))
        limiter.correct(estimate - took)
    for last in range(len(begun)):
        before = sum(took for _, took in begun[:last])
        assert before <= 240 + 4 * (begun[last][0] - begun[0][0]) + 1e-6


def test_requests_and_tokens_are_limited_together() -> None:
    limiter = InMemoryRateLimiter(requests_per_minute=60, tokens_per_minute=600, max_bucket_size=3)
    assert [limiter.reserve(0.0, tokens=250) for _ in range(3)] == [
        0,
        1,
        15,
    ]  # seconds for requests, then for tokens
    assert limiter.reserve(100.0, tokens=10, blocking=False) == 0
    limiter.correct(-1000)  # it took far more: the next ones pay
    assert limiter.reserve(100.0, tokens=10, blocking=False) is None
    limiter.correct(1000)
    assert limiter.reserve(100.0, tokens=10, blocking=False) == 0
    alone = InMemoryRateLimiter(tokens_per_minute=60)
    assert (alone.requests_per_second, alone.reserve(0.0, tokens=60), alone.reserve(0.0, tokens=5)) == (None, 0, 5)


def test_a_call_of_more_than_a_minute_goes_when_all_of_it_is_there() -> None:
    limiter = InMemoryRateLimiter(tokens_per_minute=60)
    assert limiter.reserve(0.0, tokens=90) == 0
    assert limiter.reserve(0.0, tokens=90) == 90  # 30 are owed, and it waits for a full minute's
    assert limiter.reserve(0.0, tokens=1, blocking=False) is None


@both_worlds
@pytest.mark.parametrize("shared", [False, True], ids=["one process", "several"])
def test_the_reply_sets_the_estimate_right(
    world: Blocking, shared: bool, manual_clock: ManualClock, tmp_path: Path
) -> None:
    """600 tokens a minute: the second call waits for what the first one really took, with its tools counted."""
    limiter: Any = InMemoryRateLimiter(tokens_per_minute=600)
    if shared:
        limiter = SharedRateLimiter(tmp_path / "limits.db", tokens_per_minute=600)
    model = ScriptedModel(say("ok", usage=(500, 400)), say("ok", usage=(10, 10)), loop=True, rate_limiter=limiter)
    world.invoke(model, "hi")
    assert manual_clock.slept == []
    begin = manual_clock.time
    world.stream(model, "hi")
    estimate = model.get_num_tokens_from_messages("hi")
    assert manual_clock.time - begin == pytest.approx((300 + estimate) / 10, abs=0.5)


@pytest.mark.parametrize(
    "wrong",
    [
        {"requests_per_second": 0},
        {"max_bucket_size": 0.5},
        {"tokens_per_minute": -1},
        {"requests_per_second": 1, "requests_per_minute": 1},
    ],
)
def test_a_limit_that_lets_nothing_out_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError):
        InMemoryRateLimiter(**wrong)


def test_it_works_by_itself() -> None:
    fast = InMemoryRateLimiter(requests_per_second=1000)
    assert [fast.acquire(), fast.acquire()] == [True, True]
    assert [asyncio.run(fast.aacquire()), asyncio.run(fast.aacquire())] == [True, True]
    slow = InMemoryRateLimiter(requests_per_second=0.001)
    assert [slow.acquire(), slow.acquire(blocking=False)] == [True, False]
    assert not asyncio.run(slow.aacquire(blocking=False))


async def test_a_cancelled_wait_gives_its_place_back() -> None:
    limiter = InMemoryRateLimiter(requests_per_second=0.001)
    model = ScriptedModel("ok", loop=True, rate_limiter=limiter)
    await model.ainvoke("hi")
    task = asyncio.create_task(model.ainvoke("hi"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    # Less what has passed since the first call; with the place still taken it would be 2000.
    assert limiter.reserve(time.monotonic()) == pytest.approx(1000, abs=100)


@both_worlds
def test_a_limiter_of_ones_own(world: Blocking) -> None:
    class Mine(BaseRateLimiter):
        asked = 0

        def acquire(self, *, blocking: bool = True) -> bool:
            self.asked += 1
            return True

    mine = Mine()
    world.invoke(ScriptedModel("ok", rate_limiter=mine), "hi")
    assert mine.asked == 1
