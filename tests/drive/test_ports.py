"""Both worlds keep the port's promises. Each case runs blocking and under asyncio, with and without a reader."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

import pytest

from loopwright.drive import aio, blocking
from loopwright.drive.aio import AioPort, AioStream
from loopwright.drive.blocking import BlockingPort
from loopwright.drive.outbox import Outbox
from loopwright.port import Port

Core = Callable[[Port, Callable[[Any], None]], Coroutine[Any, Any, Any]]


def run_blocking(core: Core) -> tuple[list[Any], Any]:
    seen: list[Any] = []
    return seen, blocking.run(core(BlockingPort(), seen.append))


def stream_blocking(core: Core) -> tuple[list[Any], Any]:
    outbox, result = Outbox(), []
    coroutine = _keeping(core, BlockingPort(outbox, root=True), outbox, result)
    return list(blocking.stream(lambda: coroutine, outbox, contextvars.copy_context())), result[0]


def run_aio(core: Core) -> tuple[list[Any], Any]:
    seen: list[Any] = []

    async def main() -> Any:
        return await aio.run(core(AioPort(), seen.append))

    return seen, asyncio.run(main())


def stream_aio(core: Core) -> tuple[list[Any], Any]:
    outbox, result = Outbox(), []

    async def main() -> list[Any]:
        coroutine = _keeping(core, AioPort(outbox, root=True), outbox, result)
        return [item async for item in AioStream(coroutine, outbox, contextvars.copy_context())]

    return asyncio.run(main()), result[0]


async def _keeping(core: Core, port: Port, outbox: Outbox, result: list[Any]) -> None:
    result.append(await core(port, outbox.put))


WORLDS = [run_blocking, stream_blocking, run_aio, stream_aio]
worlds = pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.__name__)
World = Callable[[Core], tuple[list[Any], Any]]


@worlds
def test_call_plain_and_async_functions(world: World) -> None:
    async def later(x: int, *, y: int) -> int:
        await asyncio.sleep(0)
        return x + y

    async def core(port: Port, emit: Callable[[Any], None]) -> list[int]:
        return [
            await port.call(lambda x, *, y: x + y, 1, y=2, is_async=False),
            await port.call(later, 3, y=4, is_async=True),
        ]

    assert world(core) == ([], [3, 7])


@worlds
def test_call_sees_context_variables(world: World) -> None:
    """A function of the user's reads what its caller has set, plain or not, on whatever thread."""
    name = contextvars.ContextVar("name", default="nobody")

    async def aread() -> str:
        return name.get()

    async def core(port: Port, emit: Callable[[Any], None]) -> list[str]:
        name.set("ann")
        return [await port.call(name.get, is_async=False), await port.call(aread, is_async=True)]

    assert world(core)[1] == ["ann", "ann"]


@worlds
def test_call_raises_what_the_function_raises(world: World) -> None:
    def broken() -> None:
        raise KeyError("x")

    async def abroken() -> None:
        raise KeyError("y")

    async def core(port: Port, emit: Callable[[Any], None]) -> list[str]:
        caught = []
        for function, is_async in ((broken, False), (abroken, True)):
            try:
                await port.call(function, is_async=is_async)
            except KeyError as error:
                caught.append(error.args[0])
        return caught

    assert world(core)[1] == ["x", "y"]


@worlds
def test_timeout_leaves_a_thread_and_cancels_a_coroutine(world: World) -> None:
    release, cancelled = threading.Event(), threading.Event()

    async def sleeper() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async def core(port: Port, emit: Callable[[Any], None]) -> list[str]:
        words = []
        for function, is_async in ((release.wait, False), (sleeper, True)):
            try:
                await port.call(function, is_async=is_async, timeout_s=0.02)
            except TimeoutError:
                words.append("late")
        return words

    assert world(core)[1] == ["late", "late"]
    release.set()
    assert cancelled.wait(5)


@worlds
def test_gather_keeps_order_and_siblings(world: World) -> None:
    """Results in the order of the coroutines, an exception in its place, nobody lost."""
    meet = threading.Barrier(3, timeout=5)

    async def core(port: Port, emit: Callable[[Any], None]) -> list[Any]:
        async def one(i: int) -> int:
            await port.call(meet.wait, is_async=False)
            if i == 1:
                raise ValueError(i)
            return i

        return await port.gather([one(i) for i in range(3)])

    first, second, third = world(core)[1]
    assert (first, repr(second), third) == (0, "ValueError(1)", 2)


@worlds
def test_gather_respects_its_limit(world: World) -> None:
    now, most = [0], [0]
    lock = threading.Lock()

    def work() -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        with lock:
            now[0] -= 1

    async def core(port: Port, emit: Callable[[Any], None]) -> int:
        async def one() -> None:
            await port.call(work, is_async=False)

        return len(await port.gather([one() for _ in range(20)], 2))

    assert world(core)[1] == 20
    assert most[0] <= 2


@worlds
def test_consume_takes_a_plain_or_an_async_stream(world: World) -> None:
    def plain() -> Iterator[int]:
        yield from (1, 2)

    async def coro() -> AsyncIterator[int]:
        yield 3
        yield 4

    async def core(port: Port, emit: Callable[[Any], None]) -> list[int]:
        taken: list[int] = []
        await port.consume(plain, None, taken.append)
        await port.consume(None, coro, taken.append)
        await port.consume(plain, coro, lambda item: None)
        await port.consume(plain, None, taken.append, 5)
        await port.consume(None, coro, taken.append, 5)
        return taken

    assert world(core)[1] == [1, 2, 3, 4, 1, 2, 3, 4]


@worlds
def test_consume_has_a_deadline(world: World) -> None:
    release = threading.Event()

    def plain() -> Iterator[int]:
        yield 1
        release.wait()
        yield 2

    async def coro() -> AsyncIterator[int]:
        yield 1
        await asyncio.Event().wait()
        yield 2

    async def core(port: Port, emit: Callable[[Any], None]) -> list[Any]:
        taken: list[Any] = []
        for streams in ((plain, None), (None, coro)):
            try:
                await port.consume(*streams, taken.append, 0.05)
            except TimeoutError:
                taken.append("late")
        return taken

    assert world(core)[1] == [1, "late", 1, "late"]
    release.set()


@worlds
@pytest.mark.parametrize("is_async", [False, True])
def test_bridge_lets_a_hook_call_the_core_any_number_of_times(world: World, is_async: bool) -> None:
    def plain(x: int, handler: Callable[[int], int]) -> list[Any]:
        return [handler(x), handler(x + 1)]

    async def coro(x: int, handler: Any) -> list[Any]:
        return [await handler(x), await asyncio.create_task(handler(x + 1))]

    async def core(port: Port, emit: Callable[[Any], None]) -> Any:
        async def inner(x: int) -> int:
            emit(x)
            await port.pause()
            return x * 10

        return await port.bridge(coro if is_async else plain, inner, 1, is_async=is_async)

    assert world(core) == ([1, 2], [10, 20])


@worlds
@pytest.mark.parametrize("is_async", [False, True])
def test_bridge_shows_a_hook_the_error_of_what_it_called(world: World, is_async: bool) -> None:
    def plain(handler: Callable[[], int]) -> str:
        try:
            handler()
        except KeyError as error:
            return f"caught {error.args[0]}"
        return "nothing"

    async def coro(handler: Any) -> str:
        try:
            await handler()
        except KeyError as error:
            return f"caught {error.args[0]}"
        return "nothing"

    async def core(port: Port, emit: Callable[[Any], None]) -> Any:
        async def inner() -> int:
            raise KeyError("inside")

        return await port.bridge(coro if is_async else plain, inner, is_async=is_async)

    assert world(core)[1] == "caught inside"


@worlds
@pytest.mark.parametrize("is_async", [False, True])
def test_bridge_carries_the_context_a_hook_has_made(world: World, is_async: bool) -> None:
    span = contextvars.ContextVar("span", default="root")

    def plain(handler: Callable[[], str]) -> str:
        span.set("hook")
        return handler()

    async def coro(handler: Any) -> str:
        span.set("hook")
        return await handler()

    async def core(port: Port, emit: Callable[[Any], None]) -> Any:
        async def inner() -> str:
            return span.get()

        return await port.bridge(coro if is_async else plain, inner, is_async=is_async)

    assert world(core)[1] == "hook"


@worlds
def test_within_has_a_deadline(world: World) -> None:
    release = threading.Event()

    async def core(port: Port, emit: Callable[[Any], None]) -> list[Any]:
        async def quick() -> int:
            return 7

        async def slow() -> None:
            await port.call(release.wait, is_async=False)

        seen: list[Any] = [await port.within(quick(), 5)]
        try:
            await port.within(slow(), 0.02)
        except TimeoutError:
            seen.append("late")
        return seen

    assert world(core)[1] == [7, "late"]
    release.set()


@worlds
def test_sleep_comes_back(world: World) -> None:
    async def core(port: Port, emit: Callable[[Any], None]) -> str:
        await port.sleep(0.001)
        return "awake"

    assert world(core)[1] == "awake"


def test_clock_ids_and_chance() -> None:
    port = BlockingPort()
    assert port.new_id() != port.new_id()
    assert port.monotonic() <= port.monotonic()
    assert 0 <= port.random() < 1
    assert port.now() > 1_700_000_000
