"""What the program gives a tool beside what the model says: the runtime, and marks on parameters.

A parameter is injected because of its type, never because of its name. Injected parameters are not in the schema that
the model sees, and what the model sends under their names is dropped. Recognised are

- `runtime: ToolRuntime` (or `ToolRuntime[Context, State]`, or `ToolRuntime | None`): everything at once;
- `config: RunnableConfig`: the call's config;
- `Annotated[T, InjectedState]`, `InjectedState("key")`, `InjectedStore`, `InjectedToolCallId`: one thing;
- `Annotated[T, InjectedToolArg]`: a value that the program puts into the call's `args` itself, in a `wrap_tool_call`
  hook or in `tool.invoke({...})`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, cast

from loopwright.errors import UsageError
from loopwright.scope import RunnableConfig, StreamWriter, current_scope, whole_config

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # with a default, so that a bare `ToolRuntime` is fully typed

    ContextT = TypeVar("ContextT", default=Any)
    StateT = TypeVar("StateT", default=Any)
else:
    from typing import TypeVar

    ContextT = TypeVar("ContextT")
    StateT = TypeVar("StateT")

__all__ = [
    "InjectedState",
    "InjectedStore",
    "InjectedToolArg",
    "InjectedToolCallId",
    "Injection",
    "ToolRuntime",
    "ambient_runtime",
    "idempotency_key",
    "injection_of",
]


def _write_nowhere(value: Any, /) -> None:
    """The writer of a run that nobody reads."""


_NONE: Any = None


class ToolRuntime(Generic[ContextT, StateT]):
    """The run as a tool sees it. A parameter of this type is filled in and hidden from the model."""

    __slots__ = (
        "budget",
        "config",
        "context",
        "execution_info",
        "idempotency_key",
        "on_output_delta",
        "server_info",
        "state",
        "store",
        "stream_writer",
        "tool_call_id",
        "tools",
    )

    state: StateT
    """The agent's state before this step. Read it; to change it, return a `Command`."""
    context: ContextT
    """What the caller gave as `context=`."""
    config: RunnableConfig
    stream_writer: StreamWriter
    """Writes one value to the `custom` stream. Works from any thread."""
    tool_call_id: str | None
    """The id of the call that is being answered; None outside of one."""
    store: Any
    """The agent's store, None without one."""
    tools: Sequence[Any]
    """All tools of the agent."""
    execution_info: Any
    server_info: Any
    budget: Any
    """What the run has spent and what remains; None outside of an agent."""
    idempotency_key: str
    """The same for every try of this call, also after a crash and a resume; empty outside of a run."""
    on_output_delta: StreamWriter

    def __init__(
        self,
        *,
        state: StateT = _NONE,
        context: ContextT = _NONE,
        config: RunnableConfig | None = None,
        stream_writer: StreamWriter = _write_nowhere,
        tool_call_id: str | None = None,
        store: Any = None,
        tools: Sequence[Any] = (),
        execution_info: Any = None,
        server_info: Any = None,
        budget: Any = None,
        idempotency_key: str = "",
        on_output_delta: StreamWriter = _write_nowhere,
    ) -> None:
        self.state = state
        self.context = context
        self.config = {} if config is None else config
        self.stream_writer = stream_writer
        self.tool_call_id = tool_call_id
        self.store = store
        self.tools = tools
        self.execution_info = execution_info
        self.server_info = server_info
        self.budget = budget
        self.idempotency_key = idempotency_key
        self.on_output_delta = on_output_delta

    if not TYPE_CHECKING:

        def __class_getitem__(cls, _parameters: Any) -> type[Any]:
            """`ToolRuntime[Context, State]`: the parameters are for type checkers."""
            return cls

    def emit_output_delta(self, delta: Any) -> None:
        """Show a piece of the result before the tool is done. Works from any thread, and is dropped if nobody reads."""
        self.on_output_delta(delta)

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name in ("tool_call_id", "context", "store"))
        return f"ToolRuntime({', '.join(shown)})"

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> dict[str, Any]:
        """A field of this type in a tool's `args_schema` takes whatever is injected."""
        return {"type": "any"}


class InjectedToolArg:
    """Mark: this parameter is the program's to give, `Annotated[str, InjectedToolArg]`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class InjectedState(InjectedToolArg):
    """Mark: the agent's state, or with `InjectedState("key")` one key of it."""

    __slots__ = ("field",)

    def __init__(self, field: str | None = None) -> None:
        self.field = field

    def __repr__(self) -> str:
        return f"InjectedState({self.field!r})" if self.field is not None else "InjectedState()"


class InjectedStore(InjectedToolArg):
    """Mark: the agent's store."""

    __slots__ = ()


class InjectedToolCallId(InjectedToolArg):
    """Mark: the id of the call that is being answered."""

    __slots__ = ()


class Injection:
    """What one parameter is filled with."""

    __slots__ = ("key", "kind")

    kind: str
    """`runtime`, `config`, `state`, `store`, `call_id`, `given` (by the program, through the call) or `none`."""
    key: str | None
    """Of `state`: which key; None for all of it."""

    def __init__(self, kind: str, key: str | None = None) -> None:
        self.kind = kind
        self.key = key

    def value(self, runtime: ToolRuntime[Any, Any], tool: str, parameter: str, default: Any) -> Any:
        """The value. Raises `UsageError` if the run has none and the parameter no default (`...`)."""
        kind = self.kind
        if kind == "runtime":
            return runtime
        if kind == "config":
            return runtime.config
        if kind == "none":
            return None if default is ... else default
        if kind == "state" and self.key is not None:
            found = _key_of(runtime.state, self.key)
        elif kind == "given":
            found = ...
        else:
            found = {"state": runtime.state, "store": runtime.store, "call_id": runtime.tool_call_id}[kind]
            found = ... if found is None else found
        if found is ...:
            if default is ...:
                raise UsageError(_missing(self, tool, parameter))
            return default
        return found


def _key_of(state: Any, key: str) -> Any:
    if isinstance(state, Mapping):
        return cast(Mapping[str, Any], state).get(key, ...)
    return getattr(state, key, ...)


def _missing(injection: Injection, tool: str, parameter: str) -> str:
    where = f"Tool {tool!r}, parameter {parameter!r}"
    if injection.kind == "state":
        what = "the state" if injection.key is None else f"the state's key {injection.key!r}"
        mend = f'pass it to invoke, as in tool.invoke({{..., "{parameter}": value}}), or give the parameter a default'
        return f"{where}: there is no {what[4:]} here; {mend}."
    if injection.kind == "store":
        return f"{where}: there is no store; give the agent one, create_agent(..., store=...)."
    if injection.kind == "call_id":
        return (
            f"{where}: there is no call id; invoke the tool with a whole call, "
            f'{{"name": {tool!r}, "args": {{...}}, "id": "call_1", "type": "tool_call"}}.'
        )
    return (
        f"{where} is marked InjectedToolArg and nobody gave it; put it into the call's args in a wrap_tool_call hook "
        "(request.override(tool_call={**call, 'args': {...}})), or give the parameter a default."
    )


_MANAGERS: Final = frozenset(("CallbackManagerForToolRun", "AsyncCallbackManagerForToolRun"))


def injection_of(annotation: Any) -> Injection | None:
    """How a parameter of this type is filled; None if the model gives it."""
    if isinstance(annotation, type):
        kind = cast("type[Any]", annotation)
        if kind is RunnableConfig:
            return Injection("config")
        if issubclass(kind, ToolRuntime):
            return Injection("runtime")
        # Tools written for LangChain name its manager. There is none here: whoever calls the tool tells the callbacks.
        return Injection("none") if kind.__name__ in _MANAGERS else None
    marks: Any = getattr(annotation, "__metadata__", None)
    if marks is not None:
        for mark in marks:
            found = _marked(mark)
            if found is not None:
                return found
        return injection_of(annotation.__origin__)
    members: Any = getattr(annotation, "__args__", None)
    if members is not None and type(None) in members:
        rest = [member for member in members if member is not type(None)]
        return injection_of(rest[0]) if len(rest) == 1 else None
    return None


def _marked(mark: Any) -> Injection | None:
    kind: Any = mark if isinstance(mark, type) else cast(Any, type(mark))
    if not issubclass(kind, InjectedToolArg):
        return None
    if issubclass(kind, InjectedState):
        return Injection("state", mark.field if isinstance(mark, InjectedState) else None)
    if issubclass(kind, InjectedStore):
        return Injection("store")
    return Injection("call_id" if issubclass(kind, InjectedToolCallId) else "given")


def ambient_runtime(config: RunnableConfig | None, call_id: str | None) -> ToolRuntime[Any, Any]:
    """The runtime of a tool that is invoked by hand: what the run around it offers, if there is one."""
    scope = current_scope.get()
    if scope is None:
        return ToolRuntime(config=whole_config(config), tool_call_id=call_id)
    around: Any = getattr(scope, "runtime", None)
    return ToolRuntime(
        config=whole_config(config or scope.config),
        stream_writer=scope.writer,
        tool_call_id=call_id,
        context=getattr(around, "context", None),
        store=getattr(around, "store", None),
        execution_info=getattr(around, "execution_info", None),
        budget=getattr(around, "budget", None),
    )


def idempotency_key(*parts: str | None) -> str:
    """A key of 32 hexadecimal digits, the same for the same parts: the thread, the message that asks, the call's id.

    The call's id alone is not enough: some models number their calls anew in every message.
    """
    from hashlib import sha256

    return sha256("\0".join(part or "" for part in parts).encode()).hexdigest()[:32]
