"""A reader leaves a stream over HTTP: the server is hung up on, and nothing is complained of, whichever way it was.

The ways are those of `tests/agents/test_readers_that_leave.py` and some more; the server would go on talking.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import warnings
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import pytest

from loopwright.agents import create_agent
from loopwright.models.openai_chat import ChatOpenAI
from tests.agents.test_readers_that_leave import WAYS
from tests.agents.worlds import until
from tests.models.loopback import Answer, Loopback, chat_stream

pytestmark = pytest.mark.timeout(60)

_WORDS = 4


class Talker(Loopback):
    """A server that says some words and then waits to be hung up on."""

    def __init__(self) -> None:
        self.hung_up = threading.Event()
        begun = chat_stream(*"abcd")[: 1 + _WORDS]
        super().__init__(Answer(pieces=[*begun, "until hangup"], on_hangup=self.hung_up))


def alone(model: ChatOpenAI) -> Any:
    return model.astream("hi")


def in_an_agent(model: ChatOpenAI) -> Any:
    return create_agent(model).astream({"messages": "hi"}, stream_mode="messages")


def in_a_node_of_a_users_own(model: ChatOpenAI) -> Any:
    """Through a generator that nobody closes, as the ones that web frameworks read."""

    async def reading() -> AsyncIterator[Any]:
        async for chunk in model.astream("hi"):
            yield chunk

    return reading()


READERS = [alone, in_an_agent, in_a_node_of_a_users_own]


async def by_keeping_it(stream: Any, count: int) -> bool:
    """The loop ends while somebody still holds the stream."""
    _kept.append(stream)
    while count:
        await anext(stream)
        count -= 1
    return True


_kept: list[Any] = []


async def by_dropping_it_elsewhere(stream: Any, count: int) -> bool:
    """The garbage collector runs on any thread."""
    while count:
        await anext(stream)
        count -= 1
    held = [stream]
    del stream
    await asyncio.to_thread(held.clear)
    return True


async def by_dropping_it_in_a_callback(stream: Any, count: int) -> bool:
    """Outside of every task."""
    while count:
        await anext(stream)
        count -= 1
    held = [stream]
    del stream
    asyncio.get_running_loop().call_soon(held.clear)
    return True


ALL_WAYS: list[Any] = [*WAYS, by_keeping_it, by_dropping_it_elsewhere, by_dropping_it_in_a_callback]


@pytest.fixture
def noise(monkeypatch):
    """All that Python, asyncio or a library would print."""
    heard: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told: heard.append((told.err_msg, told.exc_value)))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        yield heard
        gc.collect()
    heard += [str(one.message) for one in warned]
    assert heard == []


def run(main: Callable[[], Any], noise: list[Any], **options: Any) -> Any:
    async def quietly() -> Any:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: noise.append(context))
        return await main()

    return asyncio.run(quietly(), **options)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("way", ALL_WAYS, ids=lambda way: way.__name__)
def test_a_reader_leaves_while_the_loop_goes_on(noise, way, reader):
    for count in (1, _WORDS):
        with Talker() as server:
            model = ChatOpenAI(model="m", api_key="sk-none", base_url=server.url)

            async def main(count: int = count, model: Any = model, server: Talker = server) -> bool:
                if way is by_keeping_it:
                    return await way(reader(model), count)
                await way(reader(model), count)
                gc.collect()
                return await asyncio.to_thread(server.hung_up.wait, 10)

            assert run(main, noise, debug=count == 1)
            _kept.clear()
            assert server.hung_up.wait(10)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("way", ALL_WAYS, ids=lambda way: way.__name__)
def test_a_reader_leaves_as_the_last_thing_of_a_loop(noise, way, reader):
    for count in (1, _WORDS):
        with Talker() as server:
            model = ChatOpenAI(model="m", api_key="sk-none", base_url=server.url)
            run(lambda count=count, model=model: way(reader(model), count), noise)
            _kept.clear()
            gc.collect()
            assert server.hung_up.wait(10)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("way", ALL_WAYS, ids=lambda way: way.__name__)
def test_with_a_client_of_the_users_own(noise, way, reader):
    with Talker() as server:

        async def main() -> None:
            async with httpx2.AsyncClient() as client:
                model = ChatOpenAI(model="m", api_key="sk-none", base_url=server.url, http_async_client=client)
                await way(reader(model), 2)

        run(main, noise)
        _kept.clear()
        gc.collect()
        assert server.hung_up.wait(10)


def test_an_error_that_ends_the_loop_with_the_stream_in_its_traceback(noise):
    with Talker() as server:
        model = ChatOpenAI(model="m", api_key="sk-none", base_url=server.url)

        async def main() -> None:
            stream = model.astream("hi")
            async for _ in stream:
                raise LookupError

        with pytest.raises(LookupError):
            run(main, noise)
        gc.collect()
        assert server.hung_up.wait(10)


def test_a_model_that_goes_as_the_last_thing_of_a_loop_leaves_nothing_open(noise):
    with Loopback(Answer(pieces=chat_stream("a", "b"))) as server:

        async def main() -> None:
            model = ChatOpenAI(model="m", api_key="sk-none", base_url=server.url, streaming=True)
            await asyncio.gather(*(model.ainvoke("hi") for _ in range(3)))

        run(main, noise)
        gc.collect()


def test_a_connection_that_was_read_to_its_end_is_used_again(noise):
    with Loopback(Answer(pieces=chat_stream("a", "b"))) as server:
        model = ChatOpenAI(model="m", api_key="sk-none", base_url=server.url)

        async def main() -> list[str]:
            return ["".join([chunk.text async for chunk in model.astream("hi")]) for _ in range(3)]

        assert run(main, noise) == ["ab"] * 3
        assert server.connections == 1


def test_clean_up_that_waits_has_one_task_from_its_first_step(noise):
    """What is entered in a clean-up can be left in it, after a wait."""
    from loopwright.models import BaseChatModel

    seen: list[bool] = []

    class Careful(BaseChatModel):
        async def _astream(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
            try:
                yield "a"
                yield "b"
            finally:
                before = asyncio.current_task()
                async with asyncio.timeout(10):
                    await asyncio.sleep(0)
                seen.append(before is asyncio.current_task())

    async def main() -> None:
        me = asyncio.current_task()
        async for _ in Careful().astream("hi"):
            break
        assert asyncio.current_task() is me
        await until(lambda: seen != [])

    run(main, noise)
    assert seen == [True]
