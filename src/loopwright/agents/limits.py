"""What a run may spend, and the account of what it has spent.

`Limits` are the caller's figures, None where there is no limit. A `Budget` keeps the account of one run. A run inside
another's tool keeps its own account and charges everything to the one above as well, so that the limits of the
outermost run hold for the whole tree. Rules:

- what is reached ends the run; it is asked for before the thing is done, so no figure is exceeded by more than one
  model call's tokens, cost or time;
- calls that were refused are not counted, and of one turn all calls are allowed or none;
- `repeats` counts consecutive turns in which the same call had the same result, `failures` the errors of one tool with
  no success of it between them; both look at one run, and only at its last turn;
- an account is plain data at any time (`snapshot`), and another can go on from there (`restore`);
- a round of all of it costs about a microsecond; nothing walks the history.
"""

from __future__ import annotations

import time
from _thread import RLock
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import structs

from loopwright.agents.figures import LimitName, Limits, Reached, Remaining
from loopwright.agents.repeating import FEW, Seen, SeenTurn, digest, found
from loopwright.messages.plain import is_dict

if TYPE_CHECKING:
    from loopwright.graph.engine import Run
    from loopwright.messages import AIMessage, AnyMessage, ToolMessage

__all__ = ["Budget", "LimitName", "Limits", "Reached", "Remaining", "Tally", "ended_by"]


class Budget:
    """The account of one run. Hooks and tools read it as `runtime.budget`.

    Any thread may read it and charge to it. `after_turn` is for the run's own loop.
    """

    __slots__ = (
        "_cost",
        "_counted",
        "_elapsed_before",
        "_estimated",
        "_failing",
        "_input",
        "_input_details",
        "_last_turn",
        "_limits_spending",
        "_lock",
        "_output",
        "_output_details",
        "_started",
        "_total",
        "_unpriced",
        "chain",
        "clock",
        "ended",
        "granted",
        "limits",
        "model_calls",
        "price",
        "timed",
        "tool_calls",
    )

    model_calls: int
    """Calls begun, by this run and those inside it."""
    tool_calls: int
    """Calls allowed, in this run and those inside it."""
    ended: Reached | None
    """What has ended this run; from then on it asks no model and runs no tool, whatever a hook wants."""
    granted: int
    """Calls of the present turn that have been counted already."""
    timed: bool
    """Whether the time of this run, or of one above, is limited."""

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        parent: Budget | None = None,
        clock: Callable[[], float] = time.monotonic,
        price: Callable[[AIMessage], float | None] | None = None,
    ) -> None:
        """`clock` gives seconds; `price` the cost of one reply, in place of what `loopwright.models.prices` knows."""
        self.limits = Limits() if limits is None else limits
        self.chain: tuple[Budget, ...] = (self,) if parent is None else (self, *parent.chain)
        self.clock = clock
        self.price = price
        own = self.limits
        self._limits_spending = own.tokens is not None or own.cost is not None or own.seconds is not None
        self.timed = any(budget.limits.seconds is not None for budget in self.chain)
        self._lock: Any = RLock() if parent is None else parent._lock
        self.model_calls = self.tool_calls = self.granted = 0
        self._counted: str | int | None = None
        """The id of the reply whose turn was counted last; after a resume only its digest is known."""
        self.ended: Reached | None = None
        self._input = self._output = self._total = self._estimated = 0
        self._input_details: dict[str, int] = {}
        self._output_details: dict[str, int] = {}
        self._cost: float | None = None
        self._unpriced = False
        self._elapsed_before = 0.0
        self._started = clock()
        self._last_turn = SeenTurn([])
        self._failing: dict[str, int] = {}
        if isinstance(parent, Tally):
            parent.inside.append(self)

    # -- what the loop asks and tells ------------------------------------------------------------------------------

    def before_model(self) -> Reached | None:
        """Ask for one model call. It is counted unless a limit is reached."""
        with self._lock:
            for budget in self.chain:
                allowed = budget.limits.model_calls
                if allowed is not None and budget.model_calls >= allowed:
                    return Reached("model_calls", budget.model_calls, allowed)
                if budget._limits_spending and (reached := budget._spent()) is not None:
                    return reached
            for budget in self.chain:
                budget.model_calls += 1
        return None

    def after_model(self, message: AIMessage, sent: Sequence[AnyMessage] | None = None) -> Reached | None:
        """Charge a reply's tokens and cost. What is reached forbids the calls that it asks for, not the reply itself.

        `sent` is what the model was given; it is read only where tokens are limited and the reply does not report any.
        """
        usage = _readable(message.usage_metadata)
        cost: Any = _price_of(message) if self.price is None else self.price(message)
        if cost is not None and (cost.__class__ is not float or not 0 <= cost < inf):
            cost = _amount(cost)
        estimated = 0
        if usage is None and any(budget.limits.tokens is not None for budget in self.chain):
            estimated = _estimate(message, sent)
        with self._lock:
            reached = None
            for budget in self.chain:
                if usage is not None:
                    budget._charge(usage)
                budget._estimated += estimated
                if cost is None:
                    budget._unpriced = True
                else:
                    budget._cost = cost + (budget._cost or 0.0)
                if reached is None and budget._limits_spending:
                    reached = budget._spent()
        return reached

    def reserve_tools(self, count: int) -> Reached | None:
        """Ask for the tool calls of one turn. All are counted, or a limit is reached and none is."""
        with self._lock:
            for budget in self.chain:
                allowed = budget.limits.tool_calls
                if allowed is not None and budget.tool_calls + count > allowed:
                    return Reached("tool_calls", budget.tool_calls + count, allowed)
            for budget in self.chain:
                budget.tool_calls += count
        return None

    def after_turn(
        self,
        calls: Sequence[Mapping[str, Any]],
        results: Sequence[ToolMessage | None],
        reply_id: str | None = None,
    ) -> Reached | None:
        """Tell the calls of a turn and their results, in the same order; None where a call has no result message.

        The turn of one `reply_id` counts once, however often the step behind it is tried.
        """
        if reply_id is not None:
            if self._counted == (digest(reply_id) if self._counted.__class__ is int else reply_id):
                return None
            self._counted = reply_id
        limits, failing, before = self.limits, self._failing, self._last_turn
        reached: Reached | None = None
        turn = SeenTurn([])
        for call, result in zip(calls, results, strict=True):
            if result is None:
                continue
            name: str = call["name"] or ""
            if result.status == "error":
                count = failing[name] = failing.get(name, 0) + 1
                if limits.failures is not None and count >= limits.failures:
                    reached = reached or Reached("failures", count, limits.failures, name)
            elif failing:
                failing.pop(name, None)
            if limits.repeats is None:
                continue
            args, content = call["args"], result.content
            if turn.seen and turn.find(name, args, content) is not None:
                continue
            few = len(before.seen) <= FEW  # nearly always
            seen = found(before.seen, name, args, content) if few else before.find(name, args, content)
            streak = 1 if seen is None else seen.streak + 1
            if turn.by_digest is None:
                turn.seen.append(Seen(name, args, content, streak))
            else:
                turn.add(Seen(name, args, content, streak))
            if streak >= limits.repeats:
                reached = reached or Reached("repeats", streak, limits.repeats, name)
        self._last_turn = turn
        return reached

    def out_of_time(self) -> Reached | None:
        """Whether a `TimeoutError` was the end of `Limits.seconds`, of this run or of one above."""
        for budget in self.chain:
            allowed = budget.limits.seconds
            if allowed is not None and budget.elapsed >= allowed:
                return Reached("seconds", budget.elapsed, allowed)
        return None

    def charge(self, message: AIMessage) -> None:
        """Count a model call that was made beside the loop, by a tool or a hook, with its tokens and cost."""
        with self._lock:
            for budget in self.chain:
                budget.model_calls += 1
        self.after_model(message)

    # -- what hooks, tools and the result read ---------------------------------------------------------------------

    @property
    def usage(self) -> dict[str, Any]:
        """What the models reported: `input_tokens`, `output_tokens`, `total_tokens`, and their details where known."""
        with self._lock:
            usage: dict[str, Any] = {
                "input_tokens": self._input,
                "output_tokens": self._output,
                "total_tokens": self._total,
            }
            if self._input_details:
                usage["input_token_details"] = dict(self._input_details)
            if self._output_details:
                usage["output_token_details"] = dict(self._output_details)
        return usage

    @property
    def tokens(self) -> int:
        """What counts against `Limits.tokens`: reported tokens, and estimates where a model reports none."""
        return self._total + self._estimated

    @property
    def cost(self) -> float | None:
        """What the model calls have cost; None while that is not known of every one of them."""
        return None if self._unpriced else self._cost

    @property
    def elapsed(self) -> float:
        """Seconds of running; the time between an interrupt and its resume is not in it."""
        return self._elapsed_before + self.clock() - self._started

    @property
    def deadline(self) -> float | None:
        """The moment, on `clock`, at which `Limits.seconds` of this run or of one above is over."""
        return min(self._ends(), default=(None,))[0]

    @property
    def time_limit(self) -> float | None:
        """The `Limits.seconds` that end at `deadline`."""
        return min(self._ends(), default=(None, None))[1]

    def _ends(self) -> list[tuple[float, float]]:
        """When the time of this run and of those above is over, and how long it was."""
        return [
            (budget._started - budget._elapsed_before + allowed, allowed)
            for budget in self.chain
            if (allowed := budget.limits.seconds) is not None
        ]

    def remaining(self) -> Remaining:
        """What may still be spent. Never below zero."""
        with self._lock:
            left = [
                (
                    _left(budget.limits.model_calls, budget.model_calls),
                    _left(budget.limits.tool_calls, budget.tool_calls),
                    _left(budget.limits.tokens, budget.tokens),
                    _left(budget.limits.cost, budget._cost or 0.0),
                    None if budget.limits.seconds is None else _left(budget.limits.seconds, budget.elapsed),
                )
                for budget in self.chain
            ]
        least: list[Any] = [
            min((x for x in column if x is not None), default=None) for column in zip(*left, strict=True)
        ]
        return Remaining(*least)

    def __repr__(self) -> str:
        return (
            f"<Budget model_calls={self.model_calls} tool_calls={self.tool_calls} tokens={self.tokens} "
            f"cost={self.cost} of {self.limits!r}>"
        )

    # -- across a pause --------------------------------------------------------------------------------------------

    def snapshot(self) -> list[Any]:
        """The account as plain data, short because each checkpoint has one: figures by place, empty ones at the end
        left out. Of the last turn's results only digests are kept, as the state has them already.
        """
        with self._lock:
            figures: list[Any] = [
                self.model_calls,
                self.tool_calls,
                self.granted,
                self._input,
                self._output,
                self._total,
                self._unpriced,
                round(self.elapsed, 3) if self.timed else 0,
                self._seen(),
                dict(self._failing),
                dict(self._input_details),
                dict(self._output_details),
                self._estimated,
                self._cost,
                None if self.ended is None else list(structs.astuple(self.ended)),
            ]
        while figures and not figures[-1]:
            figures.pop()
        return figures

    def _seen(self) -> list[Any]:
        """The last turn in short: its calls, and the digest of its reply's id."""
        seen: list[Any] = [
            [seen.name, seen.args, seen.content, seen.streak]
            if seen.restored
            else [seen.name, digest(seen.args), digest(seen.content), seen.streak]
            for seen in self._last_turn.seen
        ]
        if self._counted is not None:
            seen.append(self._counted if isinstance(self._counted, int) else digest(self._counted))
        return seen

    def restore(self, account: Sequence[Any]) -> None:
        """Go on from what `snapshot` gave."""
        figures = [*account, *_NOTHING[len(account) :]]
        with self._lock:
            self.model_calls, self.tool_calls, self.granted = figures[:3]
            self._input, self._output, self._total = figures[3:6]
            self._unpriced = bool(figures[6])
            self._elapsed_before, self._started = figures[7], self.clock()
            self._counted = next((seen for seen in figures[8] if isinstance(seen, int)), None)
            self._last_turn = SeenTurn([Seen(*seen, restored=True) for seen in figures[8] if not isinstance(seen, int)])
            self._failing = dict(figures[9])
            self._input_details, self._output_details = dict(figures[10]), dict(figures[11])
            self._estimated, self._cost = figures[12:14]
            self.ended = None if figures[14] is None else Reached(*figures[14])

    def add(self, account: Sequence[Any], sign: int = 1) -> None:
        """Charge what an account says was spent; with -1, take it back."""
        spent = Budget(clock=self.clock)
        spent.restore(account)
        with self._lock:
            self._add(spent, sign)

    def tally(self, included: Sequence[Any] | None = None) -> Tally:
        """An account for one task of this run. `included`: what this account holds already of runs inside that task."""
        tally = Tally(_NO_LIMITS, parent=self, clock=self.clock, price=self.price)
        if included is not None:
            tally.included = list(included)
            tally.add(included)
        return tally

    def charge_above(self) -> None:
        """Charge what was restored to the task around and the runs above, but for what they have counted."""
        if len(self.chain) == 1:
            return
        tally = cast("Tally", self.chain[1])
        counted, tally.included = tally.included, None
        for above in self.chain[1:]:
            with self._lock:
                above._add(self, 1)
            if counted is not None:
                above.add(counted, -1)

    # -- the sums; the lock is held --------------------------------------------------------------------------------

    def _add(self, other: Budget, sign: int) -> None:
        self.model_calls += sign * other.model_calls
        self.tool_calls += sign * other.tool_calls
        self._input += sign * other._input
        self._output += sign * other._output
        self._total += sign * other._total
        self._estimated += sign * other._estimated
        self._unpriced |= other._unpriced
        self._elapsed_before += sign * other.elapsed
        _add(self._input_details, other._input_details, sign)
        _add(self._output_details, other._output_details, sign)
        if other._cost is not None:
            self._cost = (self._cost or 0.0) + sign * other._cost

    def _charge(self, usage: Mapping[str, Any]) -> None:
        got, said = usage.get("input_tokens") or 0, usage.get("output_tokens") or 0
        self._input += got
        self._output += said
        self._total += usage.get("total_tokens") or got + said
        if details := usage.get("input_token_details"):
            _add(self._input_details, details)
        if details := usage.get("output_token_details"):
            _add(self._output_details, details)

    def _spent(self) -> Reached | None:
        limits = self.limits
        if limits.tokens is not None and self._total + self._estimated >= limits.tokens:
            return Reached("tokens", self._total + self._estimated, limits.tokens)
        if limits.cost is not None:
            if self._unpriced:
                return Reached("cost", None, limits.cost)
            if self._cost is not None and self._cost >= limits.cost:
                return Reached("cost", self._cost, limits.cost)
        if limits.seconds is not None and (elapsed := self.elapsed) >= limits.seconds:
            return Reached("seconds", elapsed, limits.seconds)
        return None


class Tally(Budget):
    """What one task of a step has spent, the runs inside it counted in; it has no limits of its own.

    What a task has spent is kept with what it wrote, so that both are there after a crash, or neither. A run inside
    that is taken up again brings its own account along.
    """

    __slots__ = ("included", "inside")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.inside: list[Budget] = []
        """The accounts of the runs that have begun in the task."""
        self.included: list[Any] | None = None
        """What is counted already of runs that the task has not taken up yet."""
        super().__init__(*args, **kwargs)

    def spent(self) -> list[Any]:
        """What the task has spent, as plain data. Time passes for all tasks of a step at once, so it is left out."""
        figures = self.snapshot()
        if len(figures) > _TIME:
            figures[_TIME] = 0
        return figures if any(figures) else []

    def below(self) -> list[Any]:
        """The part of it that the runs inside have spent."""
        figures = Budget(clock=self.clock)
        figures.timed = self.timed
        figures._elapsed_before, figures._started = 0.0, self.clock()
        for one in self.inside:
            figures._add(one, 1)
        if self.included is not None:
            figures.add(self.included)
        return figures.snapshot()

    def begin_again(self) -> None:
        """The task runs from its first line once more: what runs inside it have spent so far is counted."""
        self.included, self.inside = self.below() or None, []


_NO_LIMITS: Final = Limits(model_calls=None, tool_calls=None, repeats=None, failures=None)
_TIME: Final = 7
_NOTHING: Final[tuple[Any, ...]] = (0, 0, 0, 0, 0, 0, False, 0.0, (), {}, {}, {}, 0, None, None)
"""The account of a run that has spent nothing, as `snapshot` orders it."""


def ended_by(run: Run) -> Reached | None:
    """What has ended a run. None while it goes on, and where only an update by hand asks for the way on."""
    budget: Budget | None = run.budget
    return None if budget is None else budget.ended


def _left(allowed: float | None, used: float) -> float | None:
    return None if allowed is None else max(allowed - used, 0)


def _price_of(message: AIMessage) -> Any:
    """A reply that does not say who it is from has no other price than its own."""
    metadata = message.response_metadata
    if not metadata or ("provider" not in metadata and "cache_hit" not in metadata):
        return metadata.get("cost")
    from loopwright.models.prices import price_of

    return price_of(message)


def _amount(cost: Any) -> float | None:
    """A cost as it was reported; None if it is none, or no amount at all."""
    try:
        amount = float(cost)
    except (TypeError, ValueError, OverflowError):
        return None
    return amount if 0 <= amount < inf else None


def _readable(usage: Any) -> dict[str, Any] | None:
    """Reported usage with integers for counts; None where there are none, so that the reply counts as one without."""
    if usage is None:
        return None
    known = (usage.get("input_tokens"), usage.get("output_tokens"), usage.get("total_tokens"))
    if known[0].__class__ is known[1].__class__ is known[2].__class__ is int:  # nearly always
        return usage
    counts = {name: _amount(count) for name, count in zip(_COUNTS, known, strict=True)}
    readable = {name: int(count) for name, count in counts.items() if count is not None}
    return {**{name: value for name, value in usage.items() if name not in _COUNTS}, **readable} if readable else None


_COUNTS: Final = ("input_tokens", "output_tokens", "total_tokens")


def _add(sums: dict[str, int], details: Any, sign: int = 1) -> None:
    for name, count in details.items() if is_dict(details) else ():
        if count and isinstance(count, int):
            sums[name] = sums.get(name, 0) + sign * count


def _estimate(message: AIMessage, sent: Sequence[AnyMessage] | None) -> int:
    from loopwright.messages import count_tokens_approximately

    return int(count_tokens_approximately([*(sent or ()), message]))
