from __future__ import annotations

import asyncio
import contextlib
import gc
import gzip
import itertools
import logging
import math
import os
import pickle
import subprocess
import sys
import textwrap
import threading
from email.utils import formatdate
from typing import Any

import httpx2
import pytest

from loopwright import errors
from loopwright.models.http import Timeouts, Wire, WireHeaders, WireRequest, wait_before_retry
from loopwright.models.http_clients import LANE
from loopwright.models.wire_errors import Peer
from tests.models.loopback import Answer, Loopback

KEY = "sk-very-secret-1234"


def request_to(server: Loopback | str) -> WireRequest:
    url = server if isinstance(server, str) else f"{server.url}/chat"
    headers = WireHeaders({"authorization": f"Bearer {KEY}", "content-type": "application/json"})
    return WireRequest(url, headers, b'{"q": 1}', Peer("acme", url, secrets=[KEY]))


class World:
    """The wire in one of its two worlds, with a clock that notes and does not wait."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.waits: list[float] = []

    def wire(self, **options: Any) -> Wire:
        async def asleep(seconds: float) -> None:
            self.waits.append(seconds)

        return Wire(sleep=self.waits.append, asleep=asleep, **options)

    def read(self, wire: Wire, request: WireRequest) -> bytes:
        return wire.read(request) if self.kind == "blocking" else asyncio.run(wire.aread(request))

    def pieces(self, wire: Wire, request: WireRequest) -> bytes:
        if self.kind == "blocking":
            return b"".join(wire.pieces(request))

        async def collect() -> bytes:
            return b"".join([piece async for piece in wire.apieces(request)])

        return asyncio.run(collect())

    @contextlib.contextmanager
    def closing(self, wire: Wire) -> Any:
        yield wire
        wire.close()


@pytest.fixture(params=["blocking", "asyncio"])
def world(request: pytest.FixtureRequest) -> World:
    return World(request.param)


# -- one call -------------------------------------------------------------------------------------------------------


def test_a_call(world: World):
    with Loopback(Answer(body=b'{"a": 1}')) as server, world.closing(world.wire()) as wire:
        assert world.read(wire, request_to(server)) == b'{"a": 1}'
        [got] = server.requests
    assert (got.method, got.path, got.json) == ("POST", "/v1/chat", {"q": 1})
    assert got.headers["authorization"] == f"Bearer {KEY}"


def test_a_stream(world: World):
    with Loopback(Answer(pieces=[b"ab", b"c"])) as server, world.closing(world.wire()) as wire:
        assert world.pieces(wire, request_to(server)) == b"abc"
        [got] = server.requests
    assert got.headers["accept-encoding"] == "identity"


def test_packed_answers_are_unpacked(world: World):
    packed = gzip.compress(b'{"a": 1}')
    answer = Answer(body=packed, headers={"content-encoding": "gzip"})
    with Loopback(answer) as server, world.closing(world.wire()) as wire:
        assert world.read(wire, request_to(server)) == b'{"a": 1}'
        assert world.pieces(wire, request_to(server)) == b'{"a": 1}'


def test_a_redirect_is_followed(world: World):
    moved = Answer(307, headers={"location": "/v2/chat"})
    with Loopback(moved, Answer(body=b"there")) as server, world.closing(world.wire()) as wire:
        assert world.read(wire, request_to(server)) == b"there"
        assert [(got.path, got.json) for got in server.requests] == [("/v1/chat", {"q": 1}), ("/v2/chat", {"q": 1})]


# -- trying again ---------------------------------------------------------------------------------------------------


def failing(status: int, **headers: str) -> Answer:
    return Answer(
        status, {"error": {"message": "no"}}, {name.replace("_", "-"): value for name, value in headers.items()}
    )


@pytest.mark.parametrize("status", [408, 409, 425, 429, 498, 500, 502, 503, 529])
def test_what_may_pass_is_tried_again(world: World, status: int):
    with Loopback(failing(status), failing(status), Answer(body=b"ok")) as server, world.closing(world.wire()) as wire:
        assert world.read(wire, request_to(server)) == b"ok"
        assert len(server.requests) == 3
    assert 0.375 <= world.waits[0] <= 0.5
    assert 0.75 <= world.waits[1] <= 1.0


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 413, 422])
def test_what_would_only_come_again_is_not(world: World, status: int):
    with Loopback(failing(status)) as server, world.closing(world.wire()) as wire:
        with pytest.raises(errors.ModelError) as caught:
            world.read(wire, request_to(server))
        assert len(server.requests) == 1
    assert (caught.value.status_code, world.waits) == (status, [])


def test_the_last_error_is_raised(world: World):
    with Loopback(failing(503), failing(500)) as server, world.closing(world.wire(max_retries=1)) as wire:
        with pytest.raises(errors.ServerError, match="500"):
            world.pieces(wire, request_to(server))
        assert len(server.requests) == 2


def test_no_retries(world: World):
    with Loopback(failing(503)) as server, world.closing(world.wire(max_retries=0)) as wire:
        with pytest.raises(errors.ServerError):
            world.read(wire, request_to(server))
        assert len(server.requests) == 1


def test_it_waits_as_long_as_the_provider_asks(world: World):
    answers = failing(429, retry_after="7"), failing(503, retry_after_ms="250"), Answer(body=b"ok")
    with Loopback(*answers) as server, world.closing(world.wire()) as wire:
        assert world.pieces(wire, request_to(server)) == b"ok"
    assert world.waits == [7.0, 0.25]


def test_it_waits_until_the_date_that_the_provider_names(world: World):
    past = formatdate(0, usegmt=True)
    with Loopback(failing(429, retry_after=past), Answer(body=b"ok")) as server, world.closing(world.wire()) as wire:
        assert world.read(wire, request_to(server)) == b"ok"
    assert world.waits == [0.0]


def test_it_does_not_wait_for_an_hour(world: World):
    refusing = Loopback(failing(429, retry_after="3600"))
    with refusing as server, world.closing(world.wire()) as wire, pytest.raises(errors.RateLimitError) as caught:
        world.read(wire, request_to(server))
    assert (caught.value.retry_after, world.waits) == (3600.0, [])


def test_an_empty_account_is_not_asked_again(world: World):
    empty = Answer(429, {"error": {"message": "pay", "code": "insufficient_quota"}})
    with Loopback(empty) as server, world.closing(world.wire()) as wire:
        with pytest.raises(errors.RateLimitError, match="pay"):
            world.read(wire, request_to(server))
        assert len(server.requests) == 1


def test_backoff_grows_to_eight_seconds():
    error = errors.ServerError("x")
    waits = [wait_before_retry(error, attempt, 10) for attempt in range(7)]
    for wait, most in zip(waits, [0.5, 1, 2, 4, 8, 8, 8], strict=True):
        assert wait is not None
        assert most * 0.75 <= wait <= most
    assert wait_before_retry(error, 10, 10) is None


def test_retries_are_logged_without_the_key(world: World, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    with Loopback(failing(503), Answer(body=b"ok")) as server, world.closing(world.wire()) as wire:
        world.read(wire, request_to(server))
    assert "acme: ServerError; trying again in" in caplog.text
    assert KEY not in caplog.text


# -- connections that break -----------------------------------------------------------------------------------------


def test_nobody_there(world: World):
    with Loopback(Answer()) as server:
        request = request_to(server)
    with world.closing(world.wire()) as wire, pytest.raises(errors.ModelConnectionError) as caught:
        world.read(wire, request)
    assert len(world.waits) == 2
    assert "no connection to acme at http://127.0.0.1" in str(caught.value)
    assert "Is the server running?" in str(caught.value)
    assert isinstance(caught.value, ConnectionError)


def test_a_connection_that_breaks_before_the_answer_is_made_anew(world: World):
    with Loopback(Answer(0), Answer(body=b"ok")) as server, world.closing(world.wire()) as wire:
        assert world.read(wire, request_to(server)) == b"ok"
        assert world.pieces(wire, request_to(server)) == b"ok"
    assert len(world.waits) == 1


def test_a_whole_answer_that_breaks_off_is_asked_for_again(world: World):
    with Loopback(Answer(body=b'{"a"', cut=True), Answer(body=b"ok")) as server, world.closing(world.wire()) as wire:
        assert world.read(wire, request_to(server)) == b"ok"


def test_a_stream_that_breaks_off_before_its_first_byte_is_asked_for_again(world: World):
    with Loopback(Answer(pieces=[], cut=True), Answer(pieces=[b"ok"])) as server, world.closing(world.wire()) as wire:
        assert world.pieces(wire, request_to(server)) == b"ok"


def test_a_stream_that_has_begun_is_never_begun_anew(world: World):
    with Loopback(Answer(pieces=[b"abc"], cut=True)) as server, world.closing(world.wire()) as wire:
        with pytest.raises(errors.ModelConnectionError, match="broke after 3 bytes"):
            world.pieces(wire, request_to(server))
        assert len(server.requests) == 1
    assert world.waits == []


def test_an_error_whose_body_breaks_off_is_still_an_error(world: World):
    wire = world.wire(max_retries=0)
    with Loopback(Answer(500, b"oh", cut=True)) as server, pytest.raises(errors.ModelConnectionError):
        world.read(wire, request_to(server))
    wire.close()


# -- patience -------------------------------------------------------------------------------------------------------


def test_silence_before_the_answer(world: World):
    """It is not tried again: the caller's patience was spent."""
    forever = threading.Event()
    with Loopback(Answer(silent=forever)) as server, world.closing(world.wire(timeouts=Timeouts(5, 0.05, 5))) as wire:
        with pytest.raises(errors.ModelTimeoutError, match="nothing came") as caught:
            world.read(wire, request_to(server))
        with pytest.raises(errors.ModelTimeoutError, match="nothing came"):
            world.pieces(wire, request_to(server))
        forever.set()
    assert (caught.value.retryable, isinstance(caught.value, TimeoutError), world.waits) == (True, True, [])


def test_silence_inside_a_stream(world: World):
    """`idle_s` counts from the headers on; before them it is `first_s`."""
    forever = threading.Event()
    answer = Answer(pieces=[b"abc", forever])
    with Loopback(answer) as server, world.closing(world.wire(timeouts=Timeouts(5, 20, 0.05))) as wire:
        with pytest.raises(errors.ModelTimeoutError, match="fell silent after 3 bytes"):
            world.pieces(wire, request_to(server))
        forever.set()


def test_a_whole_answer_may_be_silent_after_its_headers(world: World):
    """Some providers send the headers at once and think then: `idle_s` is for streams."""
    late = threading.Event()
    answer = Answer(pieces=[late, b"ok"])
    with Loopback(answer) as server, world.closing(world.wire(timeouts=Timeouts(5, 20, 0.01))) as wire:
        threading.Timer(0.1, late.set).start()
        assert world.read(wire, request_to(server)) == b"ok"


# -- hanging up -----------------------------------------------------------------------------------------------------


def test_closing_a_stream_early_hangs_up():
    hung_up = threading.Event()
    with Loopback(Answer(pieces=[b"a", "until hangup"], on_hangup=hung_up)) as server:
        wire = Wire()
        pieces = wire.pieces(request_to(server))
        assert next(pieces) == b"a"
        pieces.close()
        assert hung_up.wait(5)
        wire.close()


async def test_closing_a_stream_early_hangs_up_on_a_loop():
    hung_up = threading.Event()
    with Loopback(Answer(pieces=[b"a", "until hangup"], on_hangup=hung_up)) as server:
        wire = Wire()
        pieces = wire.apieces(request_to(server))
        assert await anext(pieces) == b"a"
        await pieces.aclose()
        assert await asyncio.to_thread(hung_up.wait, 5)
        await wire.aclose()


async def test_cancelling_a_stream_hangs_up():
    hung_up = threading.Event()
    with Loopback(Answer(pieces=[b"a", "until hangup"], on_hangup=hung_up)) as server:
        wire = Wire()
        begun = asyncio.Event()

        async def read() -> None:
            async for _ in wire.apieces(request_to(server)):
                begun.set()

        task = asyncio.create_task(read())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(hung_up.wait, 5)
        await wire.aclose()


async def test_cancelling_a_call_hangs_up():
    asked, forever = threading.Event(), threading.Event()

    def answer(_: Any) -> Answer:
        asked.set()
        return Answer(silent=forever)

    with Loopback(answer) as server:
        wire = Wire()
        task = asyncio.create_task(wire.aread(request_to(server)))
        assert await asyncio.to_thread(asked.wait, 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        forever.set()
        await wire.aclose()


# -- clients --------------------------------------------------------------------------------------------------------


def test_connections_are_used_again(world: World):
    with Loopback(Answer(body=b"x")) as server, world.closing(world.wire()) as wire:
        if world.kind == "blocking":
            for _ in range(3):
                wire.read(request_to(server))
                assert list(wire.pieces(request_to(server))) == [b"x"]
        else:

            async def several() -> None:
                for _ in range(3):
                    await wire.aread(request_to(server))
                    assert [piece async for piece in wire.apieces(request_to(server))] == [b"x"]

            asyncio.run(several())
        assert server.connections == 1


def test_each_loop_has_its_own_client_and_leaves_nothing_open(recwarn: pytest.WarningsRecorder):
    """`asyncio.run` again and again with one model: connections cannot be shared, and none is left behind."""
    with Loopback(Answer(body=b"x")) as server:
        wire = Wire()
        for _ in range(3):
            assert asyncio.run(wire.aread(request_to(server))) == b"x"
            assert wire._clients.loops == {}
        assert server.connections == 3
    gc.collect()
    assert list(recwarn) == []


async def test_a_client_goes_with_its_model():
    """Dropping the last reference closes the loop's client in the background."""
    with Loopback(Answer(body=b"x")) as server:
        wire = Wire()
        await wire.aread(request_to(server))
        [(_, _, world)] = wire._clients.loops.values()
        [lane] = world.lanes
        client = lane.client
        del wire
        gc.collect()
        for _ in range(10):
            await asyncio.sleep(0)
        assert client.is_closed


def test_the_blocking_client_goes_with_its_model():
    with Loopback(Answer(body=b"x")) as server:
        wire = Wire()
        wire.read(request_to(server))
        [lane] = wire._clients._blocking.lanes
        client = lane.client
        del wire
        gc.collect()
        assert client.is_closed


def test_a_closed_wire_can_be_used_again():
    with Loopback(Answer(body=b"x")) as server:
        wire = Wire()
        wire.close()
        assert wire.read(request_to(server)) == b"x"
        wire.close()
        assert wire.read(request_to(server)) == b"x"
        wire.close()


async def test_closing_a_loops_client_by_hand():
    with Loopback(Answer(body=b"x")) as server:
        wire = Wire()
        await wire.aclose()
        await wire.aread(request_to(server))
        await wire.aclose()
        assert wire._clients.loops == {}
        assert await wire.aread(request_to(server)) == b"x"
        await wire.aclose()


def test_a_loop_that_was_just_closed_is_forgotten():
    """A program that ends its loop without `asyncio.run` gives no notice; the next loop clears up."""
    with Loopback(Answer(body=b"x", headers={"connection": "close"}, cut=True)) as server:
        wire = Wire(max_retries=0)
        request = request_to(server)
        for _ in range(2):
            loop = asyncio.new_event_loop()
            with contextlib.suppress(errors.ModelConnectionError):
                loop.run_until_complete(wire.aread(request))
            loop.close()
        assert len(wire._clients.loops) == 1


def test_many_threads_share_one_client():
    with Loopback(Answer(body=b"x")) as server:
        wire = Wire()
        got: list[bytes] = []
        threads = [threading.Thread(target=lambda: got.append(wire.read(request_to(server)))) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert got == [b"x"] * 20
        wire.close()


async def test_many_streams_at_once():
    """A small sample of a thousand runs: all are open together before the first goes on."""
    count, opened, everyone = 60, itertools.count(1), threading.Event()

    def answer(_: Any) -> Answer:
        if next(opened) == count:
            everyone.set()
        return Answer(pieces=[b"a", everyone, b"b"])

    with Loopback(answer) as server:
        wire = Wire()

        async def one() -> bytes:
            return b"".join([piece async for piece in wire.apieces(request_to(server))])

        assert await asyncio.gather(*(one() for _ in range(count))) == [b"ab"] * count
        assert server.connections == count
        [(_, _, world)] = wire._clients.loops.values()
        assert [lane.busy for lane in world.lanes] == [0] * math.ceil(count / LANE)
        await wire.aclose()


def test_the_users_own_client(world: World):
    """It is used as it is, with its own timeouts, and not closed."""
    with Loopback(Answer(body=b"x")) as server:
        own = httpx2.Client(headers={"x-mine": "1"}, timeout=7)
        own_async = httpx2.AsyncClient(headers={"x-mine": "1"}, timeout=7)
        wire = world.wire(http_client=own, http_async_client=own_async)

        async def both() -> None:
            assert await wire.aread(request_to(server)) == b"x"
            assert [piece async for piece in wire.apieces(request_to(server))] == [b"x"]
            await own_async.aclose()

        if world.kind == "blocking":
            assert wire.read(request_to(server)) == b"x"
            assert list(wire.pieces(request_to(server))) == [b"x"]
        else:
            asyncio.run(both())
        wire.close()
        assert not own.is_closed
        assert {got.headers["x-mine"] for got in server.requests} == {"1"}
        assert wire._own is not None
        built = wire._build(wire._own, request_to(server), False)
        assert built.extensions["timeout"]["read"] == 7
        own.close()


def test_proxies_of_the_environment_are_honoured(world: World, monkeypatch: pytest.MonkeyPatch):
    with Loopback(Answer(body=b"by proxy")) as proxy:
        for name in ("http_proxy", "HTTP_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("no_proxy", "")
        with world.closing(world.wire()) as wire:
            assert world.read(wire, request_to("http://model.test/v1/chat")) == b"by proxy"
        assert [got.path for got in proxy.requests] == ["http://model.test/v1/chat"]


def test_an_address_that_is_none(world: World):
    with world.closing(world.wire()) as wire:
        for url in ("ftp://x/v1", "http://[::1/v1", "model.test/v1"):
            with pytest.raises(errors.UsageError, match="base_url"):
                world.read(wire, request_to(url))
    assert world.waits == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_makes_its_own_connections():
    """The parent's sockets are neither used nor closed in the child."""
    program = textwrap.dedent("""
        import os, sys
        from loopwright.models.http import Wire, WireHeaders, WireRequest
        from loopwright.models.wire_errors import Peer
        request = WireRequest(sys.argv[1], WireHeaders(), b"{}", Peer("acme", sys.argv[1]))
        wire = Wire()
        print(wire.read(request).decode(), flush=True)
        child = os.fork()
        if child == 0:
            assert wire._clients._blocking.lanes == []
            print(wire.read(request).decode(), flush=True)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        print(wire.read(request).decode(), flush=True)
    """)

    with Loopback(lambda request: Answer(body=str(request.connection))) as server:
        ran = subprocess.run(
            [sys.executable, "-W", "error", "-c", program, f"{server.url}/chat"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert (ran.stdout.split(), ran.stderr) == (["1", "2", "1"], "")


def test_it_can_be_pickled_without_its_connections():
    wire = pickle.loads(pickle.dumps(Wire(timeouts=Timeouts(1, 2, 3), max_retries=5)))
    assert (wire.timeouts, wire.max_retries) == (Timeouts(1, 2, 3), 5)


def test_headers_do_not_show_the_key():
    request = request_to("http://x.test")
    assert KEY not in repr(request)
    assert "authorization" in repr(request)


def test_importing_it_imports_no_http():
    program = "import sys, loopwright.models.http; print([m for m in ('httpx2', 'asyncio', 'ssl') if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_a_key_that_a_redirect_would_carry_along_stays_here(world: World):
    """HTTP clients take `authorization` off on the way to another host, and no other header."""
    with Loopback(Answer(307, headers={"location": "/elsewhere"})) as server, world.closing(world.wire()) as wire:
        request = request_to(server)._replace(headers=WireHeaders({"api-key": KEY}))
        with pytest.raises(errors.BadRequestError):
            world.read(wire, request)
        assert len(server.requests) == 1


def test_more_calls_than_connections_wait_their_turn(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("loopwright.models.http_clients._LANES", 1)
    with Loopback(Answer(body=b"x")) as server:
        wire = Wire()

        async def all_at_once() -> list[bytes]:
            return await asyncio.gather(*(wire.aread(request_to(server)) for _ in range(LANE * 2)))

        assert asyncio.run(all_at_once()) == [b"x"] * LANE * 2
        assert server.connections <= LANE
