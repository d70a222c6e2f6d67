"""A limit on how often a model is asked, shared by all who hold the same limiter: threads, tasks, models.

A token bucket in which a caller takes its place at once and then waits for it, so callers are served in the order
they came, whatever their number. The waiting goes through the port of the call.
"""

from __future__ import annotations

import time
from _thread import allocate_lock
from abc import ABC, abstractmethod
from typing import Any

from loopwright.errors import UsageError
from loopwright.port import Port

__all__ = ["BaseRateLimiter", "InMemoryRateLimiter", "wait_for"]


class BaseRateLimiter(ABC):
    """A limiter of your own: `acquire`, and `aacquire` if it waits for something asynchronous."""

    @abstractmethod
    def acquire(self, *, blocking: bool = True) -> bool:
        """Wait until a call may go out. Without `blocking`, say at once whether one may."""

    async def aacquire(self, *, blocking: bool = True) -> bool:
        """`acquire` for an event loop."""
        import asyncio

        return await asyncio.to_thread(self.acquire, blocking=blocking)


class InMemoryRateLimiter(BaseRateLimiter):
    """At most `requests_per_second` on average, `max_bucket_size` of them at once after a quiet time.

    `check_every_n_seconds` is the finest step of a wait; 0 waits exactly.
    """

    def __init__(
        self,
        *,
        requests_per_second: float = 1.0,
        check_every_n_seconds: float = 0.0,
        max_bucket_size: float = 1.0,
    ) -> None:
        if requests_per_second <= 0:
            raise UsageError(f"requests_per_second must be more than 0, not {requests_per_second}")
        if max_bucket_size < 1:
            raise UsageError(f"max_bucket_size must be at least 1, or no call could ever go out; not {max_bucket_size}")
        self.requests_per_second = requests_per_second
        self.check_every_n_seconds = check_every_n_seconds
        self.max_bucket_size = max_bucket_size
        self._lock = allocate_lock()
        self._tokens = 1.0
        self._filled_at: float | None = None

    def acquire(self, *, blocking: bool = True) -> bool:
        wait_s = self.reserve(time.monotonic(), blocking=blocking)
        if wait_s is None:
            return False
        if wait_s > 0:
            time.sleep(wait_s)
        return True

    async def aacquire(self, *, blocking: bool = True) -> bool:
        wait_s = self.reserve(time.monotonic(), blocking=blocking)
        if wait_s is None:
            return False
        if wait_s > 0:
            import asyncio

            await asyncio.sleep(wait_s)
        return True

    def reserve(self, now: float, *, blocking: bool = True) -> float | None:
        """Take the next place: seconds to wait for it. Without `blocking`, None and no place taken if that is not 0."""
        with self._lock:
            if self._filled_at is not None:
                gained = max(0.0, now - self._filled_at) * self.requests_per_second
                self._tokens = min(self.max_bucket_size, self._tokens + gained)
            self._filled_at = now
            if self._tokens < 1 and not blocking:
                return None
            self._tokens -= 1
            wait_s = max(0.0, -self._tokens / self.requests_per_second)
        step = self.check_every_n_seconds
        return -(-wait_s // step) * step if step > 0 else wait_s

    def give_back(self) -> None:
        """A place that was taken and will not be used: the wait for it was cancelled."""
        with self._lock:
            self._tokens += 1


async def wait_for(limiter: Any, port: Port) -> None:
    """Wait, in the world of `port`, until the limiter lets one call out."""
    if isinstance(limiter, InMemoryRateLimiter):
        wait_s = limiter.reserve(port.monotonic()) or 0.0
        if wait_s > 0:
            try:
                await port.sleep(wait_s)
            except BaseException:
                limiter.give_back()
                raise
    elif port.asynchronous:
        await port.call(limiter.aacquire, blocking=True, is_async=True)
    else:
        await port.call(limiter.acquire, blocking=True, is_async=False)
