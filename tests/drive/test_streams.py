"""Handing over: each item reaches its reader before the next is asked for, and a reader may leave at any time."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from loopwright.drive import aio, blocking
from loopwright.drive.aio import AioPort, AioStream
from loopwright.drive.blocking import BlockingPort
from loopwright.drive.outbox import Outbox
from loopwright.drive.threads import Job, start
from loopwright.errors import InternalError, RunCancelled
from loopwright.port import Port, pause

Core = Callable[[Port, Outbox], Coroutine[Any, Any, Any]]


def streaming(core: Core) -> Any:
    outbox = Outbox()
    return blocking.stream(lambda: core(BlockingPort(outbox, root=True), outbox), outbox, contextvars.copy_context())


def astreaming(core: Core) -> AioStream:
    outbox = Outbox()
    return AioStream(core(AioPort(outbox, root=True), outbox), outbox, contextvars.copy_context())


async def count_up(port: Port, outbox: Outbox, made: list[int], left: list[str]) -> None:
    try:
        for i in range(100):
            made.append(i)
            outbox.put(i)
            await port.pause()
    except RunCancelled:
        left.append("cancelled")
        raise
    finally:
        await port.pause()
        left.append("cleaned up")


def test_blocking_item_arrives_before_the_next_is_made() -> None:
    made: list[int] = []
    for item in streaming(lambda port, outbox: count_up(port, outbox, made, [])):
        assert made[-1] == item


def test_aio_item_arrives_before_the_next_is_made() -> None:
    made: list[int] = []

    async def main() -> None:
        async for item in astreaming(lambda port, outbox: count_up(port, outbox, made, [])):
            assert made[-1] == item

    asyncio.run(main())
    assert made == list(range(100))


def test_blocking_reader_leaves_early() -> None:
    """The run is told, and its clean-up may pause."""
    made: list[int] = []
    left: list[str] = []
    for item in streaming(lambda port, outbox: count_up(port, outbox, made, left)):
        if item == 3:
            break
    assert (made, left) == ([0, 1, 2, 3], ["cancelled", "cleaned up"])


def test_aio_break_cleans_up_before_the_next_line() -> None:
    made: list[int] = []
    left: list[str] = []

    async def main() -> list[str]:
        async for item in astreaming(lambda port, outbox: count_up(port, outbox, made, left)):
            if item == 3:
                break
        return list(left)

    assert asyncio.run(main()) == ["cancelled", "cleaned up"]


def test_aio_break_whose_cleanup_waits_is_finished_by_the_loop() -> None:
    done = []

    async def core(port: Port, outbox: Outbox) -> None:
        try:
            outbox.put(1)
            await port.pause()
        finally:
            await asyncio.sleep(0)
            await port.pause()
            await asyncio.sleep(0)
            done.append(True)

    async def main() -> None:
        async for _ in astreaming(core):
            break
        while not done:  # noqa: ASYNC110 - it is the turns of the loop that are waited for
            await asyncio.sleep(0)

    asyncio.run(main())


def test_aio_aclose_ends_the_run() -> None:
    left: list[str] = []

    async def main() -> None:
        stream = astreaming(lambda port, outbox: count_up(port, outbox, [], left))
        assert await anext(stream) == 0
        await stream.aclose()
        assert left == ["cancelled", "cleaned up"]
        await stream.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(stream)

    asyncio.run(main())


def test_aio_stream_dropped_after_its_loop_has_gone() -> None:
    """Nothing can be waited for any more; dropping it is quiet all the same."""

    async def core(port: Port, outbox: Outbox) -> None:
        try:
            outbox.put(1)
            await port.pause()
        finally:
            await asyncio.sleep(0)

    kept: list[Any] = []

    async def main() -> None:
        kept.append(astreaming(core))
        assert await anext(kept[0]) == 1

    asyncio.run(main())
    kept.clear()
    gc.collect()


def test_aio_consumer_cancelled_cancels_the_run() -> None:
    left: list[str] = []
    started = threading.Event()

    async def core(port: Port, outbox: Outbox) -> None:
        async def forever() -> None:
            started.set()
            await asyncio.Event().wait()

        try:
            await port.call(forever, is_async=True)
        except asyncio.CancelledError:
            left.append("cancelled")
            raise

    async def main() -> None:
        async def read() -> None:
            async for _ in astreaming(core):
                pass

        task = asyncio.create_task(read())
        while not started.is_set():  # noqa: ASYNC110 - the event is one of threads
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert left == ["cancelled"]


def test_error_comes_after_what_was_emitted_before_it() -> None:
    async def core(port: Port, outbox: Outbox) -> None:
        outbox.put("first")
        raise ValueError("then")

    seen: list[Any] = []
    with pytest.raises(ValueError, match="then"):
        seen.extend(streaming(core))
    seen = []
    with pytest.raises(ValueError, match="then"):
        for item in streaming(core):
            seen.append(item)
    assert seen == ["first"]

    async def main() -> list[Any]:
        got = []
        with pytest.raises(ValueError, match="then"):
            async for item in astreaming(core):
                got.append(item)  # noqa: PERF401 - the items before the error are to be kept
        return got

    assert asyncio.run(main()) == ["first"]


def test_emitting_from_a_thread_reaches_the_reader_live() -> None:
    """A plain function that emits three times is seen three times while it runs."""
    go_on = [threading.Event() for _ in range(3)]

    def core_for(outbox: Outbox) -> Callable[[], None]:
        def work() -> None:
            for i, event in enumerate(go_on):
                outbox.put(i)
                assert event.wait(5)

        return work

    async def core(port: Port, outbox: Outbox) -> None:
        await port.call(core_for(outbox), is_async=False)

    for item in streaming(core):
        go_on[item].set()
    for event in go_on:
        event.clear()

    async def main() -> None:
        async for item in astreaming(core):
            go_on[item].set()

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["thread", "task"])
def test_a_nested_run_hands_each_item_over_before_it_goes_on(kind: str) -> None:
    made: list[int] = []

    async def inner(port: Port, outbox: Outbox) -> None:
        for i in range(20):
            made.append(i)
            outbox.put(i)
            await port.pause()

    async def main() -> None:
        async def core(port: Port, outbox: Outbox) -> None:
            if kind == "thread":
                nested = lambda: blocking.run(inner(BlockingPort(outbox), outbox), outbox)
                await port.call(nested, is_async=False)
            else:
                await port.call(lambda: aio.run(inner(AioPort(outbox), outbox), outbox), is_async=True)

        async for item in astreaming(core):
            assert made[-1] == item

    asyncio.run(main())

    async def core(port: Port, outbox: Outbox) -> None:
        if kind == "thread":
            await port.call(lambda: blocking.run(inner(BlockingPort(outbox), outbox), outbox), is_async=False)
        else:
            await port.call(lambda: aio.run(inner(AioPort(outbox), outbox), outbox), is_async=True)

    made.clear()
    for item in streaming(core):
        assert made[-1] == item


def test_a_reader_that_leaves_ends_what_runs_below() -> None:
    """Parallel children are told at their next pause; a thread that sleeps is not waited for."""
    told = threading.Event()
    release = threading.Event()

    async def core(port: Port, outbox: Outbox) -> None:
        async def child() -> None:
            try:
                while True:
                    outbox.put("tick")
                    await port.pause()
            except (RunCancelled, asyncio.CancelledError):  # a task is told in asyncio's own way
                told.set()
                raise

        async def sleeper() -> None:
            await port.call(release.wait, is_async=False)

        await port.gather([child(), sleeper()])

    for _ in streaming(core):
        break
    assert told.wait(5)
    release.set()
    told.clear()
    release.clear()

    async def main() -> None:
        async for _ in astreaming(core):
            break
        while not told.is_set():  # noqa: ASYNC110 - the event is one of threads
            await asyncio.sleep(0)

    asyncio.run(main())
    release.set()


def test_many_nested_runs_do_not_run_out_of_threads() -> None:
    """Each level waits on a thread for the next: no bounded pool could do that."""

    async def level(port: Port, depth: int) -> int:
        if depth == 0:
            return 1
        parts = await port.gather([level(port, depth - 1) for _ in range(3)])
        return sum(part for part in parts if isinstance(part, int))

    assert blocking.run(level(BlockingPort(), 4)) == 81


def test_a_core_that_waits_for_a_loop_in_the_blocking_world_is_our_bug() -> None:
    class Waits:
        def __await__(self) -> Any:
            yield "future"

    async def core() -> None:
        await Waits()

    with pytest.raises(InternalError, match="kept loop"):
        blocking.run(core())

    async def unwinding(port: Port, outbox: Outbox) -> None:
        try:
            outbox.put(1)
            await pause()
        finally:
            await Waits()

    stream = streaming(unwinding)
    assert next(stream) == 1
    with pytest.raises(InternalError, match="kept loop"):
        stream.close()


def test_nothing_is_kept_for_a_reader_that_has_left() -> None:
    outbox = Outbox()
    outbox.close()
    outbox.put(1)
    outbox.handover()
    assert not outbox.items


def test_threads_are_kept_and_used_again() -> None:
    done: list[int] = []
    lock = threading.Lock()
    lock.acquire()
    job = start(lambda: done.append(threading.get_ident()))
    job.add_done_callback(lambda _: lock.release())
    assert lock.acquire(timeout=5)
    again = start(lambda: done.append(threading.get_ident()))
    again.add_done_callback(lambda _: lock.release())
    assert lock.acquire(timeout=5)
    assert done[0] == done[1]
    assert again.result() is None


def test_a_job_keeps_its_error() -> None:
    job = Job()
    job.cancel()
    assert job.cancelled
    job.finish(None, KeyError("x"))
    with pytest.raises(KeyError):
        job.result()


def test_a_stream_that_is_never_read_leaves_nothing_behind() -> None:
    """Not even the warning of a coroutine that was never awaited."""
    streaming(lambda port, outbox: count_up(port, outbox, [], []))

    async def main() -> None:
        astreaming(lambda port, outbox: count_up(port, outbox, [], []))

    asyncio.run(main())
    gc.collect()


def test_aio_an_end_that_the_run_raises_is_not_the_end_of_the_stream() -> None:
    async def core(port: Port, outbox: Outbox) -> None:
        outbox.put("first")
        await port.pause()
        raise StopAsyncIteration

    async def main() -> None:
        items = astreaming(core)
        assert await anext(items) == "first"
        with pytest.raises(RuntimeError, match="The run raised StopAsyncIteration"):
            await anext(items)

    asyncio.run(main())
