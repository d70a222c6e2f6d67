"""The HTTP clients of one model: which exist, which takes the next call, when they are closed.

Rules:

- httpx2 is imported when the first client is made;
- blocking calls share clients among all threads; each event loop has its own, because connections belong to their loop;
- a client is a lane of at most `LANE` connections. A call goes to the first lane with room, a new lane is made when all
  are full: the client looks through all its connections for each call, so that one with a thousand of them costs more
  than all calls together (15 s of CPU for 5,000 calls of 1,000 runs at once, 3 s in lanes);
- clients are closed with their loop or with the model, the answers first that are still being read on the loop. In a
  forked child they are left alone, and new ones made.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any

from loopwright.drive.owned import Owned
from loopwright.errors import UsageError

__all__ = ["LANE", "Clients", "Lane", "Streamed", "is_packed"]

LANE = 16
"""Connections of one client."""
_LANES = 62
"""Clients of one world: below the usual limit of 1,024 open files. More calls wait for a connection."""
_IDLE_S = 30.0
"""How long a connection is kept for the next call."""


class Lane:
    """One client and how many calls it is busy with."""

    __slots__ = ("busy", "client")

    def __init__(self, client: Any) -> None:
        self.client = client
        self.busy = 0

    def leave(self) -> None:
        """The call is over."""
        with _counting:
            self.busy -= 1


class Streamed:
    """An answer that an event loop reads in pieces. It is closed once, by whoever comes first."""

    __slots__ = ("__weakref__", "_closed", "_response", "pieces")

    def __init__(self, response: Any) -> None:
        self._response = response
        self._closed = False
        self.pieces: Owned[bytes] = Owned(
            response.aiter_bytes() if is_packed(response) else response.aiter_raw(), deep=True
        )

    async def aclose(self) -> None:
        """Hang up, or give the connection back if the answer has been read."""
        if self._closed:
            return
        self._closed = True
        try:
            await self._response.aclose()  # then the generators have nothing left to wait for
        finally:
            await self.pieces.aclose()


def is_packed(response: Any) -> bool:
    """Whether the bytes of the answer have to be unpacked."""
    return "content-encoding" in response.headers


class _World:
    """The lanes of one event loop, or of all blocking calls."""

    def __init__(self) -> None:
        self.lanes: list[Lane] = []
        self.answers: weakref.WeakSet[Streamed] = weakref.WeakSet()
        """What is being read on the loop, also through a client of the user's."""
        self._closing: Any = None

    def take(self, make: Callable[[], Any]) -> Lane:
        """The lane for the next call, which has to `leave()` it.

        A client is made outside of the lock: that takes long, and the garbage collector may run code that needs it.
        """
        lane = self._free()
        if lane is None:
            made = Lane(make())
            with _counting:
                self.lanes.append(made)
                made.busy += 1
            return made
        return lane

    def _free(self) -> Lane | None:
        """A lane that takes one call more, which is counted; None where another one has to be made."""
        with _counting:
            lane: Lane | None = None
            for one in self.lanes:
                if one.busy < LANE:
                    lane = one
                    break
                if lane is None or one.busy < lane.busy:
                    lane = one
            if lane is None or (lane.busy >= LANE and len(self.lanes) < _LANES):
                return None
            lane.busy += 1
            return lane

    def close(self) -> None:
        lanes, self.lanes = self.lanes, []
        for lane in lanes:
            lane.client.close()

    async def aclose(self) -> None:
        """Whoever comes while it is being closed waits for that."""
        import asyncio

        self._closing = self._closing or asyncio.Lock()
        async with self._closing:
            for answer in list(self.answers):
                await answer.aclose()
            while self.lanes:
                await self.lanes.pop().client.aclose()


class Clients:
    """The clients of one model."""

    def __init__(self) -> None:
        self._forget()
        _living.add(self)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._blocking = _World()
        self.loops: dict[int, tuple[weakref.ref[Any], Any, _World]] = {}
        self._closers = (
            weakref.finalize(self, self._blocking.close),
            weakref.finalize(self, _let_go, self.loops),
        )

    def blocking(self, url: str) -> Lane:
        """The lane for one blocking call to `url`."""
        return self._blocking.take(lambda: _client("Client", url))

    async def on_loop(self, url: str) -> Lane:
        """The lane for one call on the running loop."""
        return (await self._world_here()).take(lambda: _client("AsyncClient", url))

    async def reading(self, response: Any) -> Streamed:
        """The answer in `response`, which is read on the running loop: when that ends, it hangs up."""
        answer = Streamed(response)
        (await self._world_here()).answers.add(answer)
        return answer

    async def _world_here(self) -> _World:
        import asyncio

        loop = asyncio.get_running_loop()
        found = self.loops.get(id(loop))
        if found is None or found[0]() is not loop:
            world = _World()
            keeper = _keep(world, weakref.ref(self), id(loop))
            await anext(keeper)
            with self._lock:
                for key, (old, *_) in list(self.loops.items()):
                    if (ended := old()) is None or ended.is_closed():
                        del self.loops[key]
                found = self.loops[id(loop)] = (weakref.ref(loop), keeper, world)
                _keepers.setdefault(loop, set()).add(keeper)
        return found[2]

    def close_blocking(self) -> None:
        """Close what blocking calls have opened. They may go on with new connections."""
        self._blocking.close()

    async def close_on_loop(self) -> None:
        """The same for the running loop."""
        import asyncio

        loop = asyncio.get_running_loop()
        found = self.loops.pop(id(loop), None)
        if found is not None:
            await _end(loop, *found[1:])

    def leave_to_parent(self) -> None:
        """In a forked child: the sockets are the parent's, they must be neither used nor shut down here."""
        _inherited.append((self._blocking, self.loops))
        for closer in self._closers:
            closer.detach()
        self._forget()


async def _keep(world: _World, clients: weakref.ref[Clients], key: int) -> AsyncGenerator[None, None]:
    """Holds a loop's clients until the loop ends.

    `asyncio.run` closes the generators that are left before it closes the loop, which is the only notice of its end
    that a loop gives.
    """
    try:
        yield
    finally:
        owner = clients()
        if owner is not None and (entry := owner.loops.get(key)) and entry[2] is world:
            del owner.loops[key]
        await world.aclose()


def _let_go(loops: dict[int, tuple[weakref.ref[Any], Any, _World]]) -> None:
    """The model is gone, on whatever thread: its clients are closed on their loops."""
    for known, keeper, world in loops.values():
        loop = known()
        if loop is not None and not loop.is_closed():
            with suppress(RuntimeError):  # it has been closed since
                loop.call_soon_threadsafe(_begin_end, loop, keeper, world)


def _begin_end(loop: Any, keeper: AsyncGenerator[None, None], world: _World) -> None:
    task = loop.create_task(_end(loop, keeper, world))
    _ending.add(task)
    task.add_done_callback(_ending.discard)


async def _end(loop: Any, keeper: AsyncGenerator[None, None], world: _World) -> None:
    await world.aclose()
    with suppress(RuntimeError):  # the loop, which ends too, is just closing it
        await keeper.aclose()
    _keepers.get(loop, set[Any]()).discard(keeper)


_keepers: weakref.WeakKeyDictionary[Any, set[AsyncGenerator[None, None]]] = weakref.WeakKeyDictionary()
"""What is held for each loop. A model may be gone before its loop ends, in the same moment as well."""
_ending: set[Any] = set()
"""The tasks that close what models have left: a loop keeps no task alive."""
_counting = threading.RLock()
"""Held while calls are counted: threads share lanes. What the garbage collector runs meanwhile may end a call."""
_living: weakref.WeakSet[Clients] = weakref.WeakSet()
_inherited: list[Any] = []
_contexts: dict[str, Any] = {}


def _after_fork() -> None:
    global _counting
    _counting = threading.RLock()
    for clients in list(_living):
        clients.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _client(kind: str, url: str) -> Any:
    import httpx2

    limits = httpx2.Limits(max_connections=LANE, max_keepalive_connections=LANE, keepalive_expiry=_IDLE_S)
    return getattr(httpx2, kind)(verify=_tls(url), limits=limits)


def _tls(url: str) -> Any:
    """One TLS context for the process (60 ms to make). Plain HTTP without a proxy gets one that trusts nobody."""
    import ssl
    from urllib.request import getproxies

    scheme = url.partition("://")[0]
    if scheme not in ("http", "https"):
        raise UsageError(f"base_url must begin with https:// or http://, not {url!r}")
    kind = "none" if scheme == "http" and not getproxies() else "system"
    if kind not in _contexts:
        import httpx2

        _contexts[kind] = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if kind == "none" else httpx2.create_ssl_context()
    return _contexts[kind]
