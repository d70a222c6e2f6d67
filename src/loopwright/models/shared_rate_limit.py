"""Requests and tokens per minute for several processes (extra `[rate-limits]`, library `pyrate-limiter`).

The account is a few numbers, in a file for the processes of one machine or in Redis for those of several: when the
limit would be unused again, for requests and for tokens. The arithmetic is the library's token bucket; the file is
ours, because the library's own keeps a row for each token. Rules:

- each attempt reads and writes the account at once, in a transaction or a script, so no two processes take one place;
- a call that needs more than a minute's tokens waits for all of them, and the rest is a debt;
- time is that of the wall clock, as processes have no other in common.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from math import ceil
from typing import Any, Final

from loopwright.errors import MissingExtraError, UsageError
from loopwright.models.rate_limit import PolledRateLimiter, check_rates

try:
    from pyrate_limiter import Rate, StateBucket, StateStore, TokenBucket, WallClock
    from pyrate_limiter.abstracts import RateItem
    from pyrate_limiter.buckets.redis_state import RedisStateStore
except ImportError as missing:
    raise MissingExtraError(
        "SharedRateLimiter needs pyrate-limiter, which is not installed: pip install 'loopwright[rate-limits]'"
    ) from missing

__all__ = ["SharedRateLimiter"]

_MINUTE_MS: Final = 60_000
_KEPT_MS: Final = 3_600_000
"""How long Redis keeps an account that nobody asks for: longer than any debt of a call."""
_ANY: Final = 10**9
"""A bucket of this size takes whatever it is told, which is how a debt is written down."""


class SharedRateLimiter(PolledRateLimiter):
    """At most so many requests and tokens a minute, of all processes that name the same place.

    `shared` is the path of a file, or a `redis.Redis` client, whose address is where the account is. `name` tells
    several limits in one place apart. After a quiet time `max_bucket_size` requests and a minute's tokens may go at
    once. Raises `UsageError` where neither limit is given.
    """

    def __init__(
        self,
        shared: str | os.PathLike[str] | Any,
        *,
        name: str = "model",
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        max_bucket_size: int = 1,
    ) -> None:
        given = {"requests_per_minute": requests_per_minute, "tokens_per_minute": tokens_per_minute}
        check_rates(given)
        if requests_per_minute is None and tokens_per_minute is None:
            raise UsageError("SharedRateLimiter limits nothing: give requests_per_minute, tokens_per_minute, or both")
        if max_bucket_size < 1:
            raise UsageError(f"max_bucket_size must be at least 1, or no call could ever go out; not {max_bucket_size}")
        self.requests_per_minute, self.tokens_per_minute = requests_per_minute, tokens_per_minute
        self._requests = self._tokens = None
        if requests_per_minute is not None:
            self._requests = _Account(_store(shared, f"{name}:requests"), requests_per_minute, max_bucket_size)
        if tokens_per_minute is not None:
            size = max(1, int(tokens_per_minute))
            self._tokens = _Account(_store(shared, f"{name}:tokens"), tokens_per_minute, size)

    def attempt(self, now: float, tokens: int) -> float:
        """Take a place at `now`, in seconds since the epoch: 0, or the seconds after which to ask again."""
        wait_s = 0.0 if self._tokens is None else self._tokens.take(tokens, now)
        if wait_s == 0 and self._requests is not None:
            wait_s = self._requests.take(1, now)
            if wait_s > 0:
                self.correct(tokens, now)
        return wait_s

    def correct(self, tokens: int, now: float | None = None) -> None:
        """Give tokens back that were not used; below zero, take what was used more."""
        if self._tokens is not None:
            self._tokens.owe(-tokens, time.time() if now is None else now)


class _Account:
    """One limit: units that come at a rate, and who has taken them."""

    def __init__(self, store: StateStore, per_minute: float, size: int) -> None:
        # A limit is a whole number for the library, so a slow one is counted over a longer time.
        times = 1 if per_minute == int(per_minute) else ceil(1000 / per_minute)
        limit, interval = max(1, int(per_minute * times)), _MINUTE_MS * times
        self._size = size
        self._asked = StateBucket([Rate(limit, interval, burst=size)], TokenBucket(), store)
        self._told = StateBucket([Rate(limit, interval, burst=_ANY)], TokenBucket(), store)

    def take(self, units: int, now: float) -> float:
        """Take so many: 0, or the seconds after which there may be enough."""
        at_once = min(units, self._size)
        if at_once <= 0:
            return 0.0
        decision: Any = self._asked.put_decision(RateItem("", int(now * 1000), at_once))
        if not decision.allowed:
            return max(1, decision.retry_after_ms or 0) / 1000
        self.owe(units - at_once, now)
        return 0.0

    def owe(self, units: int, now: float) -> None:
        """Write so many down as taken, there or not; below zero, as not taken after all."""
        if units:
            self._told.put(RateItem("", int(now * 1000), units))


def _store(shared: Any, key: str) -> StateStore:
    if isinstance(shared, (str, os.PathLike)):
        return _FileStore(os.fspath(shared), key)
    if hasattr(shared, "register_script"):
        return RedisStateStore(shared, f"loopwright:{key}", ttl_ms=_KEPT_MS)
    raise UsageError(f"shared={shared!r} is no place to share: give the path of a file, or a redis.Redis client")


class _FileStore(StateStore):
    """The account in an SQLite file. It is opened for each attempt, so forks and threads need no care."""

    default_clock = WallClock()

    def __init__(self, path: str, key: str) -> None:
        self._path, self._key = path, key
        with closing(self._opened()) as file:
            file.execute("CREATE TABLE IF NOT EXISTS limits (key TEXT PRIMARY KEY, state TEXT NOT NULL) WITHOUT ROWID")

    def _opened(self) -> sqlite3.Connection:
        try:
            return sqlite3.connect(self._path, timeout=30, isolation_level=None)
        except sqlite3.OperationalError as error:
            raise UsageError(
                f"shared={self._path!r} cannot be opened as a file ({error}): "
                "give a path in a directory that is there, or for Redis a client, redis.Redis.from_url(...)"
            ) from error

    def check(self, algorithm: Any, rates: Any, now: int, weight: int) -> Any:
        """Apply one step to the account, in a transaction that holds others off."""
        with closing(self._opened()) as file:
            file.execute("BEGIN IMMEDIATE")
            state, decision = algorithm.step(rates, self._state(file, algorithm, rates), now, weight)
            if decision.allowed:
                row = (self._key, " ".join(map(str, state)))
                file.execute("INSERT OR REPLACE INTO limits (key, state) VALUES (?, ?)", row)
            file.execute("COMMIT")
        return decision

    def read(self, algorithm: Any, rates: Any) -> Any:
        with closing(self._opened()) as file:
            return self._state(file, algorithm, rates)

    def reset(self) -> None:
        with closing(self._opened()) as file:
            file.execute("DELETE FROM limits WHERE key = ?", (self._key,))

    def _state(self, file: sqlite3.Connection, algorithm: Any, rates: Any) -> Any:
        row = file.execute("SELECT state FROM limits WHERE key = ?", (self._key,)).fetchone()
        return algorithm.initial(rates) if row is None else algorithm.decode(row[0].split())
