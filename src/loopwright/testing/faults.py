"""What can go wrong in a simulation, and how often."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Literal, NamedTuple, TypeAlias

from msgspec import Struct

__all__ = ["POSSIBLE", "Effect", "Fault", "Faults", "Injected", "InjectedError", "SimulatedCrash"]

Effect: TypeAlias = Literal["call", "item", "gather", "hook", "sleep", "saver"]
"""A way out of the core: a function called, an item of a stream asked for, tasks begun together, a wrap hook, a wait,
a word to the saver."""
Fault: TypeAlias = Literal["error", "slow", "cancel", "crash"]

POSSIBLE: Final[dict[Effect, tuple[Fault, ...]]] = {
    "call": ("error", "slow", "cancel", "crash"),
    "item": ("error", "slow", "cancel", "crash"),
    "gather": ("cancel", "crash"),
    "hook": ("error", "cancel", "crash"),
    "sleep": ("slow", "cancel", "crash"),
    "saver": ("error", "cancel", "crash"),
}
"""What can go wrong at which effect."""


class Faults(Struct, frozen=True, kw_only=True):
    """How likely each fault is at each effect, from 0 to 1."""

    error: float = 0.0
    """What was called raises `InjectedError`: before it has done anything, or after it has done all."""
    slow: float = 0.0
    """The answer comes `slow_s` seconds later, or never if a timeout is shorter."""
    cancel: float = 0.0
    """The run's caller gives up on it."""
    crash: float = 0.0
    """The process is killed, before or after the effect: `SimulatedCrash`."""
    slow_s: float = 60.0
    most: int = 3
    """So many in all; then nothing goes wrong any more."""
    at: Collection[Effect] | None = None
    """Only at these effects; None: at all."""


class Injected(NamedTuple):
    """A fault that was drawn."""

    number: int
    """Of the effect, from 1."""
    fault: Fault
    effect: Effect
    what: str
    """What was called."""

    def __str__(self) -> str:
        return f"{self.fault} at effect {self.number} ({self.effect} {self.what})"


class InjectedError(ConnectionError):
    """What a simulation makes a function, a model or a saver raise."""


class SimulatedCrash(BaseException):
    """The simulated process was killed. The simulation can be used again: what the saver holds is what is left."""
