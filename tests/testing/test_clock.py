"""The manual clock."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from loopwright.drive import blocking
from loopwright.drive.aio import AioPort
from loopwright.drive.blocking import BlockingPort
from loopwright.port import Port
from loopwright.testing import ManualClock


def run(core: Any, *, on_loop: bool) -> Any:
    """Run `core(port)` in one of the worlds."""
    return asyncio.run(core(AioPort())) if on_loop else blocking.run(core(BlockingPort()))


in_both = pytest.mark.parametrize("on_loop", [False, True], ids=["blocking", "asyncio"])


@in_both
def test_sleeping_moves_the_clock_and_nothing_else_does(on_loop: bool, manual_clock: ManualClock) -> None:
    async def core(port: Port) -> tuple[float, float]:
        begin, wall = port.now(), port.monotonic()
        await port.sleep(3600)
        manual_clock.advance(0.5)
        return port.now() - begin, port.monotonic() - wall

    assert run(core, on_loop=on_loop) == (3600.5, 3600.5)
    assert manual_clock.slept == [3600]


@in_both
def test_a_timeout_counts_what_was_slept_inside(on_loop: bool, manual_clock: ManualClock) -> None:
    async def core(port: Port) -> str:
        await port.sleep(100)
        return await port.call(manual_clock.sleep, 9, is_async=False, timeout_s=10) or "in time"

    async def late(port: Port) -> None:
        await port.call(manual_clock.asleep, 11, is_async=True, timeout_s=10)

    assert run(core, on_loop=on_loop) == "in time"
    with pytest.raises(TimeoutError):
        run(late, on_loop=on_loop)


@in_both
def test_a_timeout_holds_for_streams_and_stretches_of_the_core(on_loop: bool, manual_clock: ManualClock) -> None:
    def slow() -> Any:
        for _ in range(3):
            manual_clock.sleep(4)
            yield "x"

    async def stream(port: Port) -> None:
        await port.consume(slow, None, lambda _: None, 10)

    async def stretch(port: Port) -> None:
        await port.within(port.sleep(11), 10)

    for core in (stream, stretch):
        with pytest.raises(TimeoutError):
            run(core, on_loop=on_loop)


@in_both
def test_calls_at_the_same_time_do_not_use_up_each_others_timeouts(on_loop: bool, manual_clock: ManualClock) -> None:
    async def core(port: Port) -> list[Any]:
        calls = [port.call(manual_clock.sleep, 6, is_async=False, timeout_s=10) for _ in range(3)]
        return await port.gather(calls)

    assert run(core, on_loop=on_loop) == [None, None, None]


def test_an_error_in_time_is_itself_and_a_late_one_a_timeout(manual_clock: ManualClock) -> None:
    def fails(seconds: float) -> None:
        manual_clock.sleep(seconds)
        raise ValueError("mine")

    async def core(port: Port, seconds: float) -> None:
        await port.call(fails, seconds, is_async=False, timeout_s=10)

    with pytest.raises(ValueError, match="mine"):
        blocking.run(core(BlockingPort(), 5))
    with pytest.raises(TimeoutError):
        blocking.run(core(BlockingPort(), 50))


def test_it_leaves_no_trace() -> None:
    before = {name: vars(world).get(name) for world in (BlockingPort, AioPort) for name in ("sleep", "call", "now")}
    with ManualClock() as clock:
        assert BlockingPort().now() == clock.time
        with pytest.raises(RuntimeError, match="already running"), ManualClock():
            pass
    after = {name: vars(world).get(name) for world in (BlockingPort, AioPort) for name in ("sleep", "call", "now")}
    assert before == after
    assert abs(BlockingPort().now() - time.time()) < 60
