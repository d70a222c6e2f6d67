"""The one wire client: requests go out, bytes come in, whatever the provider's format is.

Rules:

- httpx2 is imported when the first request is made, and never by importing this module;
- a call is tried again only before its first byte was handed on, at most `max_retries` times: after connection errors,
  408, 409, 425, 429 and 5xx, waiting as long as the provider asks (up to a minute) or with exponential backoff and
  jitter. Not tried again: what the account cannot pay for, and an answer that did not come in time, because the
  caller's patience was spent on it;
- the read timeout is the longest silence that is waited for: `first_s` until the answer begins, `idle_s` in a stream;
- what is decided (headers, waiting, errors) is decided in plain functions; the blocking and the asynchronous sender
  differ in nothing but `await`.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import Any, NamedTuple

from loopwright.errors import ModelError, ModelTimeoutError
from loopwright.models.http_clients import Clients, Lane, is_packed
from loopwright.models.wire_errors import Peer, from_exception, from_response

__all__ = ["Timeouts", "Wire", "WireHeaders", "WireRequest", "wait_before_retry"]

_LONGEST_WAIT_S = 60.0
"""A provider that asks for more patience than this gets none: the error goes up, with `retry_after`."""


class WireHeaders(dict[str, str]):
    """Headers whose printed form hides every value: one of them is the key."""

    def __repr__(self) -> str:
        return f"<headers: {', '.join(self)}>"


class WireRequest(NamedTuple):
    """One POST. The same value can be sent again."""

    url: str
    headers: WireHeaders
    body: bytes
    peer: Peer


class Timeouts(NamedTuple):
    """Seconds; None waits for ever."""

    connect_s: float | None = 10.0
    first_s: float | None = 600.0
    idle_s: float | None = 600.0


class Wire:
    """Sends requests and gives back bytes. Safe to share between threads, tasks and event loops."""

    def __init__(
        self,
        *,
        timeouts: Timeouts | None = None,
        max_retries: int = 2,
        http_client: Any = None,
        http_async_client: Any = None,
        sleep: Callable[[float], object] | None = None,
        asleep: Callable[[float], Awaitable[object]] | None = None,
    ) -> None:
        """`timeouts` None means the defaults, or with a client of the user's own, that client's."""
        self.timeouts = timeouts
        self.max_retries = max_retries
        self._own = None if http_client is None else Lane(http_client)
        self._own_async = None if http_async_client is None else Lane(http_async_client)
        self._sleep = sleep or _sleep
        self._asleep = asleep or _asleep
        self._clients = Clients()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled and deeply copied without its connections."""
        own, own_async = (lane and lane.client for lane in (self._own, self._own_async))
        return _remade, (self.timeouts, self.max_retries, own, own_async)

    # -- blocking ---------------------------------------------------------------------------------------------------

    def read(self, request: WireRequest) -> bytes:
        """The whole body of the answer. Raises a `ModelError`."""
        for attempt in itertools.count():
            lane = self._own or self._clients.blocking(request.url)
            try:
                response = self._send(lane, request, streamed=False)
                try:
                    return _guarded(request.peer, response.read)
                finally:
                    response.close()
            except ModelError as error:
                wait = self._wait_s(request, error, attempt)
            finally:
                lane.leave()
            self._sleep(wait)
        raise AssertionError

    def pieces(self, request: WireRequest) -> Generator[bytes, None, None]:
        """The body of the answer as it arrives, in pieces of any size. Close the generator to hang up."""
        for attempt in itertools.count():
            received = 0
            lane = self._own or self._clients.blocking(request.url)
            try:
                response = self._send(lane, request, streamed=True)
                try:
                    for piece in response.iter_bytes() if is_packed(response) else response.iter_raw():
                        received += len(piece)
                        yield piece
                    return
                except Exception as exc:
                    raise from_exception(request.peer, exc, received) from exc
                finally:
                    response.close()
            except ModelError as error:
                if received:
                    raise
                wait = self._wait_s(request, error, attempt)
            finally:
                lane.leave()
            self._sleep(wait)

    def _send(self, lane: Lane, request: WireRequest, *, streamed: bool) -> Any:
        """An answer with a status of 2xx, its body unread."""
        try:
            made = self._build(lane, request, streamed)
            response = lane.client.send(made, stream=True, follow_redirects=_may_follow(request))
        except Exception as exc:
            raise from_exception(request.peer, exc) from exc
        if 200 <= response.status_code < 300:
            self._begin(made, streamed)
            return response
        try:
            body = _guarded(request.peer, response.read)
        finally:
            response.close()
        raise from_response(request.peer, response.status_code, response.headers, body)

    # -- asynchronous -----------------------------------------------------------------------------------------------

    async def aread(self, request: WireRequest) -> bytes:
        """`read`, on an event loop."""
        for attempt in itertools.count():
            lane = self._own_async or await self._clients.on_loop(request.url)
            try:
                response = await self._asend(lane, request, streamed=False)
                try:
                    return await _aguarded(request.peer, response.aread)
                finally:
                    await response.aclose()
            except ModelError as error:
                wait = self._wait_s(request, error, attempt)
            finally:
                lane.leave()
            await self._asleep(wait)
        raise AssertionError

    async def apieces(self, request: WireRequest) -> AsyncGenerator[bytes, None]:
        """`pieces`, on an event loop. Closing it with `aclose()`, or cancelling its task, hangs up."""
        for attempt in itertools.count():
            received = 0
            lane = self._own_async or await self._clients.on_loop(request.url)
            try:
                answer = await self._clients.reading(await self._asend(lane, request, streamed=True))
                try:
                    async for piece in answer.pieces:
                        received += len(piece)
                        yield piece
                    return
                except Exception as exc:
                    raise from_exception(request.peer, exc, received) from exc
                finally:
                    await answer.aclose()
            except ModelError as error:
                if received:
                    raise
                wait = self._wait_s(request, error, attempt)
            finally:
                lane.leave()
            await self._asleep(wait)

    async def _asend(self, lane: Lane, request: WireRequest, *, streamed: bool) -> Any:
        try:
            made = self._build(lane, request, streamed)
            response = await lane.client.send(made, stream=True, follow_redirects=_may_follow(request))
        except Exception as exc:
            raise from_exception(request.peer, exc) from exc
        if 200 <= response.status_code < 300:
            self._begin(made, streamed)
            return response
        try:
            body = await _aguarded(request.peer, response.aread)
        finally:
            await response.aclose()
        raise from_response(request.peer, response.status_code, response.headers, body)

    # -- decisions --------------------------------------------------------------------------------------------------

    def _build(self, lane: Lane, request: WireRequest, streamed: bool) -> Any:
        """The HTTP client's own request object."""
        extensions: dict[str, Any] = {}
        if self.timeouts is not None or lane not in (self._own, self._own_async):
            connect, first, _ = self.timeouts or Timeouts()
            extensions["timeout"] = {"connect": connect, "read": first, "write": first, "pool": None}
        encoding = {"accept-encoding": "identity"} if streamed else {}  # packed streams come in lumps
        return lane.client.build_request(
            "POST",
            request.url,
            headers={**request.headers, **encoding},
            content=request.body,
            extensions=extensions or None,
        )

    def _begin(self, made: Any, streamed: bool) -> None:
        """From here on another silence counts. The client reads its limits again when it reads the body."""
        limits = made.extensions.get("timeout")
        if streamed and self.timeouts is not None and limits:
            limits["read"] = self.timeouts.idle_s

    def _wait_s(self, request: WireRequest, error: ModelError, attempt: int) -> float:
        """How long to wait before the next try. Raises `error` where there is none."""
        wait = wait_before_retry(error, attempt, self.max_retries)
        if wait is None:
            raise error
        import logging

        logging.getLogger("loopwright.models").info(
            "%s: %s; trying again in %.1f s (%d of %d)",
            request.peer.label, type(error).__name__, wait, attempt + 1, self.max_retries,
        )  # fmt: skip
        return wait

    def close(self) -> None:
        """Close the blocking client now. Clients of event loops are closed with their loops, or by `aclose`."""
        self._clients.close_blocking()

    async def aclose(self) -> None:
        """Close the running loop's client now."""
        await self._clients.close_on_loop()


def _remade(timeouts: Timeouts | None, max_retries: int, own: Any, own_async: Any) -> Wire:
    return Wire(timeouts=timeouts, max_retries=max_retries, http_client=own, http_async_client=own_async)


def wait_before_retry(error: ModelError, attempt: int, max_retries: int) -> float | None:
    """Seconds before try number `attempt + 2`, or None if there will be none."""
    if attempt >= max_retries or not error.retryable:
        return None
    if isinstance(error, ModelTimeoutError) and error.code == "read_timeout":
        return None
    asked = error.retry_after
    if asked is not None:
        return asked if asked <= _LONGEST_WAIT_S else None
    import random

    return min(0.5 * 2.0**attempt, 8.0) * (0.75 + 0.25 * random.random())


def _guarded(peer: Peer, read: Callable[[], bytes]) -> bytes:
    try:
        return read()
    except Exception as exc:
        raise from_exception(peer, exc, 0) from exc


async def _aguarded(peer: Peer, read: Callable[[], Awaitable[bytes]]) -> bytes:
    try:
        return await read()
    except Exception as exc:
        raise from_exception(peer, exc, 0) from exc


def _may_follow(request: WireRequest) -> bool:
    """A redirect to another host loses the `authorization` header, but would carry any other key along."""
    return not any("api-key" in name for name in request.headers)


def _sleep(seconds: float) -> None:
    import time

    time.sleep(seconds)


async def _asleep(seconds: float) -> None:
    import asyncio

    await asyncio.sleep(seconds)
