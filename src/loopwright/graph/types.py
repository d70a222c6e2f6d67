"""The values that nodes, tools and callers exchange with a graph.

Commands, sends and interrupts are frozen: they compare by content, pickle, and may be shared between threads.
They are msgspec Structs because the messages have loaded msgspec already: a class costs nothing more at import,
an instance 0.1 µs. What a user unpacks (snapshots, tasks, state updates) is a named tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, NamedTuple, TypeAlias, cast

from msgspec import Struct

from loopwright.checkpoint.record import Interrupt, Overwrite, Send
from loopwright.errors import ModelError, UsageError
from loopwright.scope import StreamWriter

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # with a default, so that a bare `Command(...)` is fully typed
else:
    from typing import TypeVar

__all__ = [
    "END",
    "START",
    "TAG_HIDDEN",
    "TAG_NOSTREAM",
    "Command",
    "Durability",
    "GraphOutput",
    "Interrupt",
    "Overwrite",
    "PregelTask",
    "RetryPolicy",
    "Send",
    "StateSnapshot",
    "StateUpdate",
    "StreamMode",
    "StreamWriter",
    "as_command",
    "default_retry_on",
    "is_foreign_command",
]

START: Final = "__start__"
"""The virtual node before the first one: `add_edge(START, "first")`."""
END: Final = "__end__"
"""The virtual node after the last one."""
TAG_NOSTREAM: Final = "nostream"
"""A model with this tag is left out of the `messages` stream."""
TAG_HIDDEN: Final = "langsmith:hidden"
"""What carries this tag is left out of traces."""

StreamMode: TypeAlias = Literal["values", "updates", "checkpoints", "tasks", "debug", "messages", "custom", "events"]
"""The seven views of a run, and `events`: the facts themselves."""
Durability: TypeAlias = Literal["sync", "async", "exit"]
"""When a step is on disk: before the next one starts, soon after, or only when the run ends."""

if TYPE_CHECKING:
    NodeName = TypeVar("NodeName", bound=str, default=str)
else:
    NodeName = TypeVar("NodeName", bound=str)


class Command(Struct, Generic[NodeName], frozen=True, kw_only=True, repr_omit_defaults=True):
    """Change the state and say where to go, in one return value; or answer what a paused run has asked.

    A node that returns one may say in its annotation where it can lead: `-> Command[Literal["a", "b"]]`.
    """

    graph: str | None = None
    """Which graph it is meant for: None is the one of the node, `Command.PARENT` the one around it."""
    update: Any = None
    """A partial state: a dict, or a list of `(key, value)`."""
    resume: Any = None
    """For the caller of a paused run: the answer, or a dict from interrupt id to answer."""
    goto: Send | str | Sequence[Send | str] = ()
    """What runs next, besides what the edges say."""

    PARENT: ClassVar[Literal["__parent__"]] = "__parent__"


def is_foreign_command(value: Any) -> bool:
    """Whether it is a `Command` of LangGraph's, which a tool written for it returns. It is known by its fields."""
    return not isinstance(value, Command) and all(hasattr(value, name) for name in Command.__struct_fields__)


def as_command(theirs: Any) -> Command[Any]:
    """The same command in our class."""
    goto: Any = theirs.goto
    ways: list[Any] = list(cast("Sequence[Any]", goto)) if isinstance(goto, (list, tuple)) else [goto]
    ways = [Send(way.node, way.arg) if hasattr(way, "node") and hasattr(way, "arg") else way for way in ways]
    return Command(graph=theirs.graph, update=theirs.update, resume=theirs.resume, goto=ways)


class GraphOutput(Struct, frozen=True):
    """What `invoke(..., version="v2")` returns: the final state, and the questions still open."""

    value: Any
    interrupts: tuple[Interrupt, ...] = ()


class PregelTask(NamedTuple):
    """One task of a step, as a snapshot shows it."""

    id: str
    name: str
    path: tuple[Any, ...]
    error: Exception | str | None = None
    interrupts: tuple[Interrupt, ...] = ()
    state: Any = None
    """With `subgraphs=True` the nested graph's own `StateSnapshot`, else the config that reads it."""
    result: Any = None
    """What the task wrote, if it has finished and its step has not."""


class StateSnapshot(NamedTuple):
    """A thread at one checkpoint."""

    values: Any
    next: tuple[str, ...]
    """Names of the nodes that run when the thread goes on; empty at the end."""
    config: Any
    """Reads this very checkpoint again, or goes on from it."""
    metadata: Any
    """`source`, `step`, `parents` and what the run's config carried; None on a thread that has none."""
    created_at: str | None
    """ISO 8601, UTC."""
    parent_config: Any
    tasks: tuple[PregelTask, ...]
    interrupts: tuple[Interrupt, ...]


class StateUpdate(NamedTuple):
    """One update of `bulk_update_state`: `values` as if node `as_node` had returned them."""

    values: Any
    as_node: str | None = None
    task_id: str | None = None


def default_retry_on(error: BaseException) -> bool:
    """Whether a second try may help.

    A model's error says so itself, an HTTP client's error by its status (408, 429 and 5xx). Lost connections and
    timeouts: yes. Wrong calls and bugs (`UsageError`, `TypeError`, `KeyError`, a missing file): no. Else yes.
    """
    if isinstance(error, ModelError):
        return error.retryable
    if isinstance(error, (ConnectionError, TimeoutError)):
        return True
    status: Any = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(status, int):
        return status >= 500 or status in (408, 429)
    return isinstance(error, Exception) and not isinstance(error, _BUGS)


_BUGS: Final = (
    UsageError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    BufferError,
    EOFError,
    ImportError,
    LookupError,
    MemoryError,
    NameError,
    OSError,
    ReferenceError,
    RuntimeError,
    StopAsyncIteration,
    StopIteration,
    SyntaxError,
    SystemError,
    TypeError,
    ValueError,
)
"""Errors that come again however often the same code runs."""


class RetryPolicy(Struct, frozen=True):
    """How often, and after what pause, a node that raised is tried again."""

    initial_interval: float = 0.5
    """Seconds before the second try."""
    backoff_factor: float = 2.0
    max_interval: float = 128.0
    """Seconds that no pause exceeds."""
    max_attempts: int = 3
    """Tries in all, the first one counted."""
    jitter: bool = True
    """Lengthen each pause by a random part of a second, so that many do not knock at once."""
    retry_on: type[Exception] | Sequence[type[Exception]] | Callable[[Exception], bool] = default_retry_on

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise UsageError(f"RetryPolicy(max_attempts={self.max_attempts}): at least 1, the first try is counted.")
        if self.initial_interval < 0 or self.backoff_factor < 1 or self.max_interval < 0:
            raise UsageError("RetryPolicy: intervals are seconds >= 0, backoff_factor is >= 1.")

    def allows(self, error: BaseException, attempts: int) -> bool:
        """Whether to try again after `attempts` tries, the last of which raised `error`."""
        if attempts >= self.max_attempts or not isinstance(error, Exception):
            return False
        rule = self.retry_on
        if isinstance(rule, type):
            return isinstance(error, rule)
        if isinstance(rule, Sequence):
            return isinstance(error, tuple(cast("Sequence[type[Exception]]", rule)))
        return bool(rule(error))

    def pause_s(self, attempts: int, random: float = 0.0) -> float:
        """Seconds to wait after `attempts` tries; `random` in 0…1 is used when `jitter` is on."""
        pause = min(self.max_interval, self.initial_interval * self.backoff_factor ** (attempts - 1))
        return pause + random if self.jitter else pause
