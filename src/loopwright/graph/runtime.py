"""What a node, a hook or a tool may ask about the run it belongs to.

A `Runtime` is made once per run and handed to whoever names it. It is a value: to change it for a part of the run,
make a copy with `override`. Nothing in it is stored with the state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, cast

from loopwright.scope import StreamWriter, current_scope

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # with a default, so that a bare `Runtime` is fully typed

    ContextT = TypeVar("ContextT", default=Any)
else:
    from typing import TypeVar

    ContextT = TypeVar("ContextT")

__all__ = ["Runtime", "get_runtime"]


def _write_nowhere(value: Any, /) -> None:
    """The writer of a run that nobody reads."""


def _no_beat() -> None:
    """The heartbeat of a run that nobody watches."""


_NO_CONTEXT: Any = None


class Runtime(Generic[ContextT]):
    """The running run: what the caller gave it, and what it offers."""

    __slots__ = (
        "budget",
        "context",
        "control",
        "execution_info",
        "heartbeat",
        "previous",
        "server_info",
        "store",
        "stream_writer",
    )

    context: ContextT
    """What the caller gave as `context=`, as an instance of the agent's `context_schema`."""
    store: Any
    """The agent's store, None without one."""
    stream_writer: StreamWriter
    """Writes one value to the `custom` stream. Works from any thread."""
    heartbeat: Any
    """Call it in a long step to say that it is alive."""
    previous: Any
    """What the last run of this thread returned, where the graph keeps that."""
    execution_info: Any
    server_info: Any
    control: Any
    budget: Any
    """The run's `loopwright.agents.limits.Budget`: what has been spent, and `remaining()`; None in a bare graph."""

    def __init__(
        self,
        *,
        context: ContextT = _NO_CONTEXT,
        store: Any = None,
        stream_writer: StreamWriter = _write_nowhere,
        heartbeat: Any = _no_beat,
        previous: Any = None,
        execution_info: Any = None,
        server_info: Any = None,
        control: Any = None,
        budget: Any = None,
    ) -> None:
        self.context = context
        self.store = store
        self.stream_writer = stream_writer
        self.heartbeat = heartbeat
        self.previous = previous
        self.execution_info = execution_info
        self.server_info = server_info
        self.control = control
        self.budget = budget

    def override(self, **changes: Any) -> Runtime[ContextT]:
        """A copy with other values. Raises `TypeError` for a name that a runtime does not have."""
        values = {name: getattr(self, name) for name in Runtime.__slots__}
        unknown = changes.keys() - values.keys()
        if unknown:
            raise TypeError(f"a Runtime has no {min(unknown)!r}; it has {', '.join(Runtime.__slots__)}")
        return Runtime(**{**values, **changes})

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name in ("context", "store", "budget"))
        return f"Runtime({', '.join(shown)})"


def get_runtime(context_schema: type[ContextT] | None = None) -> Runtime[ContextT]:
    """The runtime of the node, hook or tool that is running; `context_schema` is only for type checkers.

    Raises `RuntimeError` outside of a run.
    """
    del context_schema
    runtime = getattr(current_scope.get(), "runtime", None)
    if runtime is None:
        raise RuntimeError(
            "get_runtime() was called outside of a run. Call it in a node, a tool or a hook, "
            "or take `runtime: Runtime` as a parameter of the hook (`runtime: ToolRuntime` of a tool)."
        )
    return cast("Runtime[ContextT]", runtime)
