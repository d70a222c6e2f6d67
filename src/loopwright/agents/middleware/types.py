"""What hooks are given and what they give back, and the class that carries them.

Hooks are written once. An `async def` under the plain name serves `invoke` and `ainvoke` alike, and so does a plain
`def`; the `a`-prefixed pair is accepted too, and each world then takes its own. A request is a value: a hook hands on a
changed copy (`request.override(...)`) and the state stays as it was.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Generic,
    Literal,
    NotRequired,
    Required,
    TypeAlias,
    TypedDict,
    Unpack,
    cast,
)

from loopwright.errors import UsageError
from loopwright.graph.runtime import Runtime
from loopwright.graph.state import EphemeralValue, OmitFromInput, OmitFromOutput, OmitFromSchema, PrivateStateAttr
from loopwright.messages import AIMessage, AnyMessage, SystemMessage, ToolMessage, add_messages

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # with a default, so that a bare `AgentMiddleware` is fully typed

    from loopwright.graph.types import Command
    from loopwright.messages import ToolCall

    ResponseT = TypeVar("ResponseT", default=Any)
    ContextT = TypeVar("ContextT", default=Any)
else:
    from typing import TypeVar

    ResponseT = TypeVar("ResponseT")
    ContextT = TypeVar("ContextT")

__all__ = [
    "JUMP_TARGETS",
    "AgentMiddleware",
    "AgentState",
    "ExtendedModelResponse",
    "HookResult",
    "JumpTo",
    "ModelCallResult",
    "ModelHandler",
    "ModelRequest",
    "ModelRequestChanges",
    "ModelResponse",
    "OmitFromInput",
    "OmitFromOutput",
    "OmitFromSchema",
    "PrivateStateAttr",
    "ToolCallRequest",
    "ToolCallRequestChanges",
    "ToolHandler",
]

JumpTo: TypeAlias = Literal["tools", "model", "end"]
"""Where a hook may send the run: to the open tool calls, to the model, or to the end."""
JUMP_TARGETS: Final = ("tools", "model", "end")


class AgentState(TypedDict, Generic[ResponseT]):
    """The state of an agent. Extend it for keys of your own."""

    messages: Required[Annotated[list[AnyMessage], add_messages]]
    jump_to: NotRequired[Annotated[JumpTo | None, EphemeralValue, PrivateStateAttr]]
    """Set by a hook's update, gone after the step that reads it."""
    structured_response: NotRequired[Annotated[ResponseT, OmitFromInput]]
    """The answer as `response_format` asks for it."""


if TYPE_CHECKING:
    StateT = TypeVar("StateT", bound=AgentState[Any], default=AgentState[Any])
else:
    StateT = TypeVar("StateT", bound=AgentState)

HookResult: TypeAlias = "Mapping[str, Any] | Command[Any] | None"
"""A partial state, or None. The key `jump_to` sends the run elsewhere, if the hook has declared it."""


class ModelRequestChanges(TypedDict, total=False):
    """What `ModelRequest.override` takes."""

    model: Any
    messages: Sequence[AnyMessage]
    system_message: SystemMessage | None
    system_prompt: str | None
    tool_choice: Any
    tools: Sequence[Any]
    response_format: Any
    state: Any
    runtime: Any
    model_settings: dict[str, Any]


_REQUEST: Final = (
    "model",
    "messages",
    "system_message",
    "tool_choice",
    "tools",
    "response_format",
    "state",
    "runtime",
    "model_settings",
)


class ModelRequest(Generic[ContextT]):
    """One model call that is about to be made."""

    __slots__ = _REQUEST

    model: Any
    """The chat model."""
    messages: list[AnyMessage]
    """The conversation, oldest first, without the system prompt."""
    system_message: SystemMessage | None
    """Sent before `messages`, never stored."""
    tool_choice: Any
    tools: list[Any]
    """What the model may call: tools, and providers' own tool dictionaries."""
    response_format: Any
    """The strategy for a structured answer, or None."""
    state: Any
    """The agent's state before the call. Read it; what changes it is what the hook returns."""
    runtime: Runtime[ContextT]
    model_settings: dict[str, Any]
    """Keyword arguments for the model, this call only: `{"temperature": 0}`."""

    def __init__(
        self,
        *,
        model: Any,
        messages: Sequence[AnyMessage],
        system_message: SystemMessage | None = None,
        system_prompt: str | None = None,
        tool_choice: Any = None,
        tools: Sequence[Any] | None = None,
        response_format: Any = None,
        state: Any = None,
        runtime: Any = None,
        model_settings: dict[str, Any] | None = None,
    ) -> None:
        if system_prompt is not None:
            if system_message is not None:
                raise UsageError("give a ModelRequest either system_prompt= or system_message=, not both")
            system_message = SystemMessage(system_prompt)
        self.model = model
        self.messages = messages if type(messages) is list else list(messages)
        self.system_message = system_message
        self.tool_choice = tool_choice
        self.tools = [] if tools is None else list(tools)
        self.response_format = response_format
        self.state = {} if state is None else state
        self.runtime = runtime
        self.model_settings = {} if model_settings is None else model_settings

    @property
    def system_prompt(self) -> str | None:
        """The text of `system_message`."""
        return None if self.system_message is None else self.system_message.text

    @system_prompt.setter
    def system_prompt(self, text: str | None) -> None:
        self.system_message = None if text is None else SystemMessage(text)

    def override(self, **changes: Unpack[ModelRequestChanges]) -> ModelRequest[ContextT]:
        """A copy with other values; this request stays as it is. Hand the copy to `handler`."""
        new = cast("ModelRequest[ContextT]", object.__new__(type(self)))
        for name in _REQUEST:
            setattr(new, name, getattr(self, name))
        given = cast("dict[str, Any]", changes)
        if "system_prompt" in given and "system_message" in given:
            raise UsageError("override a ModelRequest's system_prompt or its system_message, not both")
        for name, value in given.items():
            if name not in _REQUEST and name != "system_prompt":
                raise TypeError(f"a ModelRequest has no {name!r}; override one of {', '.join(_REQUEST)}, system_prompt")
            setattr(new, name, list(value) if name in ("messages", "tools") else value)
        return new

    def __repr__(self) -> str:
        return f"ModelRequest({', '.join(f'{name}={getattr(self, name)!r}' for name in _REQUEST[:6])})"


class ModelResponse(Generic[ResponseT]):
    """What came of a model call: the model's message, and results that were made for it."""

    __slots__ = ("result", "structured_response")

    result: list[AnyMessage]
    """The model's message; after it, the result of an answer tool's call."""
    structured_response: ResponseT | None

    def __init__(self, result: Sequence[AnyMessage], structured_response: ResponseT | None = None) -> None:
        self.result = result if type(result) is list else list(result)
        self.structured_response = structured_response

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ModelResponse):
            return NotImplemented
        same = cast("ModelResponse[Any]", other)
        return (self.result, self.structured_response) == (same.result, same.structured_response)

    __hash__ = None  # type: ignore[assignment]  # it holds a list

    def __repr__(self) -> str:
        return f"ModelResponse(result={self.result!r}, structured_response={self.structured_response!r})"


class ExtendedModelResponse(Generic[ResponseT]):
    """A response, and a change of the state that goes with it: `command=Command(update={...})`."""

    __slots__ = ("command", "model_response")

    def __init__(self, model_response: ModelResponse[ResponseT], command: Command[Any] | None = None) -> None:
        self.model_response = model_response
        self.command = command

    def __repr__(self) -> str:
        return f"ExtendedModelResponse(model_response={self.model_response!r}, command={self.command!r})"


ModelCallResult: TypeAlias = ModelResponse[Any] | AIMessage | ExtendedModelResponse[Any]
"""What a `wrap_model_call` hook may return."""


class ToolCallRequestChanges(TypedDict, total=False):
    """What `ToolCallRequest.override` takes."""

    tool_call: ToolCall
    tool: Any
    state: Any
    runtime: Any


class ToolCallRequest:
    """One tool call that is about to be made."""

    __slots__ = ("runtime", "state", "tool", "tool_call")

    tool_call: ToolCall
    """`{"name", "args", "id", "type"}`, as the model asked."""
    tool: Any
    """The tool of that name; None if the agent has none. A hook may put one in."""
    state: Any
    runtime: Any
    """The call's `ToolRuntime`."""

    def __init__(self, tool_call: ToolCall, tool: Any, state: Any, runtime: Any) -> None:
        self.tool_call = tool_call
        self.tool = tool
        self.state = state
        self.runtime = runtime

    def override(self, **changes: Unpack[ToolCallRequestChanges]) -> ToolCallRequest:
        """A copy with other values; this request stays as it is. Hand the copy to `handler`."""
        new = ToolCallRequest(self.tool_call, self.tool, self.state, self.runtime)
        for name, value in changes.items():
            if name not in ToolCallRequest.__slots__:
                raise TypeError(f"a ToolCallRequest has no {name!r}; override tool_call, tool, state or runtime")
            setattr(new, name, value)
        return new

    def __repr__(self) -> str:
        return f"ToolCallRequest(tool_call={self.tool_call!r}, tool={self.tool!r})"


ModelHandler: TypeAlias = Callable[[ModelRequest[Any]], Any]
"""Makes the call; a plain hook gets a `ModelResponse`, an `async` one awaits it. May be called 0 to n times."""
ToolHandler: TypeAlias = Callable[[ToolCallRequest], Any]
"""Makes the call; a plain hook gets a `ToolMessage` or a `Command`, an `async` one awaits it."""


class AgentMiddleware(Generic[StateT, ContextT, ResponseT]):
    """Hooks around the steps of an agent. Override those you need; what is not overridden costs nothing.

    Of several middlewares the first is the outermost: `before_*` run in list order, `after_*` in reverse.
    """

    state_schema: type[Any] = AgentState
    """State keys that this middleware brings: an extension of `AgentState`."""
    tools: Sequence[Any] = ()
    """Tools that this middleware brings."""
    needs_checkpointer: bool = False
    """Whether it pauses runs, which only a checkpointer can keep. An agent without one then refuses to run."""

    if not TYPE_CHECKING:

        def __class_getitem__(cls, _parameters: Any) -> type[Any]:
            """`AgentMiddleware[State]`, with any number of parameters: they are for type checkers."""
            return cls

    @property
    def name(self) -> str:
        """Unique in its agent; the class's name if not set. Steps are named `<name>.<hook>`."""
        given: str | None = self.__dict__.get("_given_name")
        return type(self).__name__ if given is None else given

    @name.setter
    def name(self, name: str) -> None:
        self.__dict__["_given_name"] = name

    def check_tools(self, names: Sequence[str], *, complete: bool) -> None:
        """Look at the tools of an agent that is being made; raise `UsageError` for what cannot work with them.

        `names` are those that the model may call: the agent's own tools, what middlewares bring as `tools`, providers'
        tools, answer tools. `complete`: there will be no others; the `wrap_tool_call` of another middleware could run
        some that nobody knows yet.
        """

    def check_answers(self, names: Sequence[str]) -> None:
        """The same for the names of structured answers, whose calls no tool runs: they are what the run answers."""

    def before_agent(self, state: StateT, runtime: Runtime[ContextT]) -> HookResult | Awaitable[HookResult]:
        """Once per call of the agent, before the loop."""

    async def abefore_agent(self, state: StateT, runtime: Runtime[ContextT]) -> HookResult:
        """`before_agent` for `ainvoke`, where it has to differ."""

    def before_model(self, state: StateT, runtime: Runtime[ContextT]) -> HookResult | Awaitable[HookResult]:
        """Before each model call."""

    async def abefore_model(self, state: StateT, runtime: Runtime[ContextT]) -> HookResult:
        """`before_model` for `ainvoke`, where it has to differ."""

    def after_model(self, state: StateT, runtime: Runtime[ContextT]) -> HookResult | Awaitable[HookResult]:
        """After each model call, before the tools it asks for."""

    async def aafter_model(self, state: StateT, runtime: Runtime[ContextT]) -> HookResult:
        """`after_model` for `ainvoke`, where it has to differ."""

    def after_agent(self, state: StateT, runtime: Runtime[ContextT]) -> HookResult | Awaitable[HookResult]:
        """Once at the end of a call that did not raise."""

    async def aafter_agent(self, state: StateT, runtime: Runtime[ContextT]) -> HookResult:
        """`after_agent` for `ainvoke`, where it has to differ."""

    def wrap_model_call(
        self, request: ModelRequest[ContextT], handler: ModelHandler
    ) -> ModelCallResult | Awaitable[ModelCallResult]:
        """Around each model call. `handler(request)` makes it."""
        return handler(request)

    async def awrap_model_call(self, request: ModelRequest[ContextT], handler: ModelHandler) -> ModelCallResult:
        """`wrap_model_call` for `ainvoke`, where it has to differ."""
        return await handler(request)

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: ToolHandler
    ) -> ToolMessage | Command[Any] | Awaitable[ToolMessage | Command[Any]]:
        """Around each tool call. `handler(request)` makes it."""
        return handler(request)

    async def awrap_tool_call(self, request: ToolCallRequest, handler: ToolHandler) -> ToolMessage | Command[Any]:
        """`wrap_tool_call` for `ainvoke`, where it has to differ."""
        return await handler(request)
