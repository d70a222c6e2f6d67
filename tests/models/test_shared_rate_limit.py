"""One limit for several processes: in a file, with real processes, and in Redis, by a clock that nobody waits for."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loopwright.errors import UsageError
from loopwright.ids import new_id
from loopwright.models import InMemoryRateLimiter, SharedRateLimiter
from loopwright.testing import ManualClock, ScriptedModel
from tests.models.worlds import Blocking, both_worlds

NOW = 1_800_000_000.0
PROGRAM = """
import sys
from loopwright.models import SharedRateLimiter
limiter = SharedRateLimiter(sys.argv[1], {limits})
print("ready", flush=True)
sys.stdin.readline()
print(sum(limiter.attempt({now}, 100) == 0 for _ in range(30)))
"""


@pytest.fixture(params=["file", "redis"])
def place(request: Any, tmp_path: Path) -> Any:
    if request.param == "file":
        return tmp_path / "limits.db"
    fakeredis = pytest.importorskip("fakeredis", reason="pip install 'fakeredis[lua]'")
    pytest.importorskip("lupa", reason="pip install 'fakeredis[lua]'")
    return fakeredis.FakeRedis()


@pytest.mark.parametrize(
    ("limits", "allowed"),
    [
        ("tokens_per_minute=2000", 20),
        ("requests_per_minute=60, max_bucket_size=7", 7),
        ("requests_per_minute=60, max_bucket_size=50, tokens_per_minute=1500", 15),
    ],
)
def test_processes_together_take_no_more_than_there_is(tmp_path: Path, limits: str, allowed: int) -> None:
    """Three processes ask thirty times each, all at once and at one moment of the clock."""
    program = PROGRAM.format(limits=limits, now=NOW)
    command = [sys.executable, "-c", program, str(tmp_path / "limits.db")]
    running = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # they begin together
        for _ in range(3)
    ]
    for each in running:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    counts = []
    for each in running:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    for each in running:
        counts.append(int(each.communicate(timeout=60)[0]))
        assert each.returncode == 0
    assert sum(counts) == allowed


def test_others_see_what_was_taken_and_names_tell_limits_apart(place: Any) -> None:
    one, other = (SharedRateLimiter(place, tokens_per_minute=600) for _ in range(2))
    assert one.attempt(NOW, 400) == 0
    assert other.attempt(NOW, 400) == pytest.approx(20, abs=0.01)
    assert SharedRateLimiter(place, name="elsewhere", tokens_per_minute=600).attempt(NOW, 400) == 0
    one.correct(300, NOW)  # it took less
    assert other.attempt(NOW, 400) == 0
    other.correct(-600, NOW)  # and this one far more
    assert one.attempt(NOW, 100) == pytest.approx(60, abs=0.01)
    assert one.attempt(NOW + 60, 100) == 0


def test_more_than_a_minute_waits_for_all_of_it_and_leaves_a_debt(place: Any) -> None:
    limiter = SharedRateLimiter(place, tokens_per_minute=60)
    assert limiter.attempt(NOW, 90) == 0
    assert limiter.attempt(NOW, 1) == pytest.approx(31, abs=0.01)
    assert limiter.attempt(NOW, 90) == pytest.approx(90, abs=0.01)


def test_a_request_that_may_not_go_takes_no_tokens(place: Any) -> None:
    limiter = SharedRateLimiter(place, requests_per_minute=0.5, tokens_per_minute=100)
    assert limiter.attempt(NOW, 50) == 0
    assert [limiter.attempt(NOW, 50) for _ in range(3)] == pytest.approx([120] * 3, abs=0.01)
    assert limiter.attempt(NOW + 120, 100) == 0


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(calls=st.lists(st.tuples(st.integers(0, 20), st.integers(1, 150)), min_size=1, max_size=12))
def test_it_counts_as_the_one_in_memory_does(tmp_path: Path, calls: list[tuple[int, int]]) -> None:
    """A call waits as long as it would alone in one process, to the hundredth of a second."""
    shared = SharedRateLimiter(tmp_path / "limits.db", name=new_id(), tokens_per_minute=120)
    alone, now = InMemoryRateLimiter(tokens_per_minute=120), NOW
    for pause, tokens in calls:
        now += pause
        expected = alone.reserve(now, tokens=tokens)
        waited = 0.0
        while (wait_s := shared.attempt(now + waited, tokens)) > 0:
            waited += wait_s
        assert waited == pytest.approx(expected, abs=0.01)
        now += waited


@both_worlds
def test_models_wait_for_it_in_their_own_world(world: Blocking, manual_clock: ManualClock, tmp_path: Path) -> None:
    limiters = [SharedRateLimiter(tmp_path / "limits.db", requests_per_minute=30) for _ in range(2)]
    one, other = (ScriptedModel("ok", loop=True, rate_limiter=limiter) for limiter in limiters)
    begin = manual_clock.time
    for model in (one, other, one):
        world.invoke(model, "hi")
    assert manual_clock.time - begin == pytest.approx(4, abs=0.1)


def test_it_works_by_itself(tmp_path: Path) -> None:
    fast = SharedRateLimiter(tmp_path / "fast.db", requests_per_minute=60_000)
    assert [fast.acquire(), fast.acquire(), asyncio.run(fast.aacquire())] == [True] * 3
    slow = SharedRateLimiter(tmp_path / "slow.db", requests_per_minute=0.01)
    assert [slow.acquire(), slow.acquire(blocking=False)] == [True, False]
    assert not asyncio.run(slow.aacquire(blocking=False))


@pytest.mark.parametrize(
    ("place", "limits", "words"),
    [
        ("a.db", {}, "limits nothing"),
        ("a.db", {"tokens_per_minute": 0}, "tokens_per_minute must be more than 0"),
        ("a.db", {"requests_per_minute": 1, "max_bucket_size": 0}, "max_bucket_size must be at least 1"),
        (3, {"requests_per_minute": 1}, "is no place to share"),
        ("redis://localhost:6379", {"requests_per_minute": 1}, r"cannot be opened as a file .*redis\.Redis\.from_url"),
    ],
)
def test_what_cannot_be_shared_or_limited_is_refused(place: Any, limits: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        SharedRateLimiter(place, **limits)


def test_without_the_library_the_error_says_what_to_install() -> None:
    program = """
import sys
sys.modules["pyrate_limiter"] = None
try:
    from loopwright.models import SharedRateLimiter
except ImportError as error:
    print(error)
"""
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert "pip install 'loopwright[rate-limits]'" in ran.stdout
