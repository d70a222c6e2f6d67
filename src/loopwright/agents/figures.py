"""The figures that a run is held to, what is said when one is reached, and what is left of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import Struct, StructMeta, structs

from loopwright.errors import LimitReachedError, UsageError

__all__ = ["LimitName", "Limits", "Reached", "Remaining"]

LimitName: TypeAlias = Literal["model_calls", "tool_calls", "tokens", "cost", "seconds", "repeats", "failures"]


class _Named(StructMeta):
    """Makes `Limits`. A figure that there is not is told by its name, and by the one that was meant."""

    if not TYPE_CHECKING:  # checkers see the figures themselves

        def __call__(cls, *args: Any, **figures: Any) -> Any:  # noqa: N805 - of a class of classes
            for name in figures:
                if name not in cls.__struct_fields__:
                    raise _no_such_figure(name, cls.__struct_fields__)
            if args:
                raise UsageError(f"Limits({args[0]!r}): give figures by name: Limits(model_calls=20).")
            return super().__call__(**figures)


def _no_such_figure(name: str, known: Sequence[str]) -> UsageError:
    from difflib import get_close_matches

    core = name.removeprefix("max_").removesuffix("_limit")
    near = [each for each in known if core in each or each in core] or get_close_matches(core, known, 1)
    hint = f"Did you mean {' or '.join(near)}? " if near else ""
    return UsageError(f"Limits has no {name!r}. {hint}Its figures are {', '.join(known)}.")


class Limits(Struct, frozen=True, kw_only=True, metaclass=_Named):
    """What one call of an agent may spend, the runs inside its tools counted in. None: no limit.

    Raises `UsageError` for figures that cannot be meant.
    """

    model_calls: int | None = 100
    tool_calls: int | None = 200
    tokens: int | None = None
    """Input and output of all model calls."""
    cost: float | None = None
    """In US dollars, as `loopwright.models.prices` has them: the provider's own figures, or the table's."""
    seconds: float | None = None
    """From the start; time between an interrupt and its resume is not counted."""
    repeats: int | None = 5
    """Consecutive turns with the same call and the same result."""
    failures: int | None = 8
    """Errors of one tool in a row."""

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value: Any = getattr(self, name)
            if value is None:
                continue
            number = isinstance(value, (int, float) if name in ("cost", "seconds") else int)
            if not number or isinstance(value, bool):
                kind = "a number" if name in ("cost", "seconds") else "an integer"
                raise UsageError(f"Limits({name}={value!r}): {kind} is needed, or None for no limit")
            if not value >= least or (least == 0 and name != "tool_calls" and value == 0):
                floor = f"at least {least}" if least or name == "tool_calls" else "more than 0"
                raise UsageError(f"Limits({name}={value!r}): {floor} is needed, or None for no limit")
            if name == "seconds" and value > _MOST_SECONDS:
                raise UsageError(f"Limits(seconds={value!r}) is longer than a clock can wait; write None for no limit")

    def replace(self, **changes: Any) -> Limits:
        """A copy with other figures."""
        return structs.replace(self, **changes)


_MOST_SECONDS = 1e9  # about what a lock can wait for
_LEAST: dict[str, int] = {
    "model_calls": 1,
    "tool_calls": 0,
    "tokens": 1,
    "cost": 0,
    "seconds": 0,
    "repeats": 2,  # at 1 every first call would be a repetition
    "failures": 1,
}


class Reached(Struct, frozen=True):
    """A limit that ends the run. Its name is the run's stop reason."""

    limit: LimitName
    used: float | None
    """What was used when the run was stopped; None if it could not be measured."""
    allowed: float
    tool: str | None = None
    """Of `repeats` and `failures`: the tool."""

    @property
    def sentence(self) -> str:
        """For the notice at the end of the run."""
        return f"The run was stopped: {self.what()} (limit {self.limit}={self.allowed:g})."

    @property
    def not_run(self) -> str:
        """For the result of a call that the model asked for and that was not run."""
        return f"Not run: {self.what()}."

    def error(self) -> LimitReachedError:
        """For `on_limit="raise"`."""
        return LimitReachedError(self.sentence, limit=self.limit)

    def what(self) -> str:
        """What was reached, in words."""
        used = 0.0 if self.used is None else self.used
        if self.limit == "cost":
            if self.used is None:
                return "what its model calls cost is not known, so the limit on it cannot be kept"
            return f"its model calls have cost {used:.4g}"
        if self.limit == "seconds":
            return f"it took {used:.1f} seconds"
        if self.limit == "repeats":
            return f"the tool {self.tool!r} was called in the same way with the same result {used:g} times in a row"
        if self.limit == "failures":
            return f"the tool {self.tool!r} failed {used:g} times in a row"
        if self.limit == "tool_calls":
            return f"it needs {used:g} tool calls"
        return f"{used:g} {'tokens were used' if self.limit == 'tokens' else 'model calls were made'}"


class Remaining(Struct, frozen=True):
    """What may still be spent, the runs above counted in. None: no limit."""

    model_calls: int | None
    tool_calls: int | None
    tokens: int | None
    cost: float | None
    seconds: float | None
