"""A limit on how often a model is asked, and on how many tokens that takes: shared by all who hold the same limiter.

Rules:

- a caller in one process takes its place at once and then waits for it, so callers are served in the order they came,
  whatever their number; limiters that processes share are asked again after the wait that they name;
- the tokens of a call are estimated from what is sent, before it goes out, and set right by the reply's usage: what it
  took more is a debt that later calls wait for, what it took less is theirs;
- the waiting goes through the port of the call, and a wait that is cancelled gives its place back.
"""

from __future__ import annotations

import time
from _thread import allocate_lock
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from loopwright.errors import UsageError
from loopwright.messages import AIMessage
from loopwright.port import Port

__all__ = ["BaseRateLimiter", "InMemoryRateLimiter", "PolledRateLimiter", "check_rates", "correct", "wait_for"]


class BaseRateLimiter(ABC):
    """A limiter of your own: `acquire`, and `aacquire` if it waits for something asynchronous."""

    @abstractmethod
    def acquire(self, *, blocking: bool = True) -> bool:
        """Wait until a call may go out. Without `blocking`, say at once whether one may."""

    async def aacquire(self, *, blocking: bool = True) -> bool:
        """`acquire` for an event loop."""
        import asyncio

        return await asyncio.to_thread(self.acquire, blocking=blocking)


class _Bucket:
    """So many units, filled at a rate. It may be below zero: that much is owed."""

    __slots__ = ("_filled_at", "_size", "level", "per_second")

    def __init__(self, per_second: float, size: float, level: float) -> None:
        self.per_second, self._size, self.level = per_second, size, level
        self._filled_at: float | None = None

    def fill(self, now: float) -> None:
        if self._filled_at is not None:
            self.level = min(self._size, self.level + max(0.0, now - self._filled_at) * self.per_second)
        self._filled_at = now

    def wait_s(self, units: float) -> float:
        """Seconds until so many can be taken. More than it holds can be taken of a full one."""
        return max(0.0, min(units, self._size) - self.level) / self.per_second


class InMemoryRateLimiter(BaseRateLimiter):
    """At most `requests_per_second` on average, `max_bucket_size` of them at once after a quiet time.

    `requests_per_minute` says the same in minutes. `tokens_per_minute` limits tokens, beside the requests or alone; a
    minute's tokens may go at once. Without any of them it is one request a second. `check_every_n_seconds` is the
    finest step of a wait; 0 waits exactly.
    """

    def __init__(
        self,
        *,
        requests_per_second: float | None = None,
        check_every_n_seconds: float = 0.0,
        max_bucket_size: float = 1.0,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
    ) -> None:
        given = {
            "requests_per_second": requests_per_second,
            "requests_per_minute": requests_per_minute,
            "tokens_per_minute": tokens_per_minute,
        }
        check_rates(given)
        if requests_per_second is not None and requests_per_minute is not None:
            raise UsageError("requests_per_second and requests_per_minute say the same thing: give one of them")
        if max_bucket_size < 1:
            raise UsageError(f"max_bucket_size must be at least 1, or no call could ever go out; not {max_bucket_size}")
        if requests_per_minute is not None:
            requests_per_second = requests_per_minute / 60
        elif requests_per_second is None and tokens_per_minute is None:
            requests_per_second = 1.0
        self.requests_per_second = requests_per_second
        self.check_every_n_seconds = check_every_n_seconds
        self.max_bucket_size = max_bucket_size
        self.tokens_per_minute = tokens_per_minute
        self._lock = allocate_lock()
        self._requests = None if requests_per_second is None else _Bucket(requests_per_second, max_bucket_size, 1.0)
        size = tokens_per_minute
        self._tokens = None if size is None else _Bucket(size / 60, size, size)

    def acquire(self, *, blocking: bool = True, tokens: int = 0) -> bool:
        """Wait until a call of so many tokens may go out. Without `blocking`, say at once whether one may."""
        wait_s = self.reserve(time.monotonic(), blocking=blocking, tokens=tokens)
        if wait_s:
            time.sleep(wait_s)
        return wait_s is not None

    async def aacquire(self, *, blocking: bool = True, tokens: int = 0) -> bool:
        wait_s = self.reserve(time.monotonic(), blocking=blocking, tokens=tokens)
        if wait_s:
            import asyncio

            await asyncio.sleep(wait_s)
        return wait_s is not None

    def reserve(self, now: float, *, blocking: bool = True, tokens: int = 0) -> float | None:
        """Take the next place: seconds to wait for it. Without `blocking`, None and no place taken if that is not 0."""
        wanted = [(bucket, units) for bucket, units in ((self._requests, 1), (self._tokens, tokens)) if bucket]
        with self._lock:
            for bucket, _ in wanted:
                bucket.fill(now)
            wait_s = max(bucket.wait_s(units) for bucket, units in wanted)
            if wait_s > 0 and not blocking:
                return None
            for bucket, units in wanted:
                bucket.level -= units
        step = self.check_every_n_seconds
        return -(-wait_s // step) * step if step > 0 else wait_s

    def give_back(self, tokens: int = 0) -> None:
        """A place that was taken and will not be used: the wait for it was cancelled."""
        with self._lock:
            if self._requests is not None:
                self._requests.level += 1
        self.correct(tokens)

    def correct(self, tokens: int) -> None:
        """Give tokens back that were not used; below zero, take what was used more."""
        if self._tokens is not None:
            with self._lock:
                self._tokens.level += tokens


class PolledRateLimiter(BaseRateLimiter):
    """One that has to be asked until it lets a call out, because others take places too."""

    tokens_per_minute: float | None

    @abstractmethod
    def attempt(self, now: float, tokens: int) -> float:
        """Take a place at `now`, in seconds since the epoch: 0, or the seconds after which to ask again."""

    @abstractmethod
    def correct(self, tokens: int, now: float | None = None) -> None:
        """Give tokens back that were not used; below zero, take what was used more."""

    def acquire(self, *, blocking: bool = True, tokens: int = 0) -> bool:
        while (wait_s := self.attempt(time.time(), tokens)) > 0:
            if not blocking:
                return False
            time.sleep(wait_s)
        return True

    async def aacquire(self, *, blocking: bool = True, tokens: int = 0) -> bool:
        import asyncio

        while (wait_s := await asyncio.to_thread(self.attempt, time.time(), tokens)) > 0:
            if not blocking:
                return False
            await asyncio.sleep(wait_s)
        return True


def check_rates(rates: dict[str, float | None]) -> None:
    """Raise `UsageError` for a limit that would let nothing out."""
    for name, rate in rates.items():
        if rate is not None and rate <= 0:
            raise UsageError(f"{name} must be more than 0, not {rate}")


async def wait_for(limiter: Any, port: Port, estimate: Callable[[], int]) -> int:
    """Wait, in the world of `port`, until the limiter lets one call out. The tokens that it was told of."""
    tokens = estimate() if getattr(limiter, "tokens_per_minute", None) is not None else 0
    if isinstance(limiter, InMemoryRateLimiter):
        wait_s = limiter.reserve(port.monotonic(), tokens=tokens) or 0.0
        if wait_s > 0:
            try:
                await port.sleep(wait_s)
            except BaseException:
                limiter.give_back(tokens)
                raise
    elif isinstance(limiter, PolledRateLimiter):
        while (wait_s := await port.call(limiter.attempt, port.now(), tokens, is_async=False)) > 0:
            await port.sleep(wait_s)
    elif port.asynchronous:
        await port.call(limiter.aacquire, blocking=True, is_async=True)
    else:
        await port.call(limiter.acquire, blocking=True, is_async=False)
    return tokens


async def correct(limiter: Any, port: Port, tokens: int, answer: AIMessage) -> None:
    """Set the estimate right by what the reply says it took. Without a report the estimate stands."""
    usage: Any = answer.usage_metadata
    if not tokens or usage is None or not usage.get("total_tokens"):
        return
    unused = tokens - int(usage["total_tokens"])
    if isinstance(limiter, PolledRateLimiter):
        await port.call(limiter.correct, unused, port.now(), is_async=False)
    else:
        limiter.correct(unused)
