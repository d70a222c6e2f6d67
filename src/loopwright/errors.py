"""Every error that Loopwright raises, by whose fault it is.

LoopwrightError
├── UsageError                      yours: a call or a definition that cannot work (is also a ValueError)
│   ├── InvalidUpdateError          a node returned what the state cannot take
│   ├── EmptyInputError             nothing to run on
│   ├── InvalidAnswerError          an answer that the question of a paused run cannot take
│   ├── InputTypeError              an input of the wrong kind (is also a TypeError)
│   ├── UnstorableError             a value that no checkpoint can hold; names the path to it (is also a TypeError)
│   ├── ToolDefinitionError         a tool that cannot be offered to a model
│   └── MissingExtraError           an optional package is not installed; names the pip line
├── ModelError                      the model's or its provider's: `status_code`, `retryable`
│   ├── AuthenticationError         401: the key is missing or wrong
│   ├── PermissionDeniedError       403: the key may not do this
│   ├── NotFoundError               404: no such model or address
│   ├── BadRequestError             400, 422: the provider refused the request
│   │   └── ContextLengthError      the conversation does not fit the model
│   ├── RateLimitError              429
│   ├── ServerError                 5xx
│   ├── ModelConnectionError        no answer: DNS, refused, reset
│   ├── ModelTimeoutError           no answer in time (is also a TimeoutError)
│   ├── StreamError                 an error event inside a stream that had begun
│   └── InvalidResponseError        a 200 that is no answer of that API
├── ToolException                   a tool's own word that it failed
│   └── ToolInvocationError         the model's arguments do not fit the tool
├── OutputParserException           text that should have been parsed and could not be
├── LimitReachedError               `on_limit="raise"`: names the limit
├── GraphRecursionError             `recursion_limit` steps were made (is also a RecursionError)
├── ThreadConflictError             another writer was first on this thread
├── StoredDataError                 stored bytes that cannot be read: damaged, or of a later version
│   └── UnknownTypeError            stored data names a class that is not there; names class and path
├── SaverError                      the store's: a full disk, a locked file, a lost server; names it and the remedy
└── InternalError                   ours: please report it

Control flow is not an error. `GraphBubbleUp` and what derives from it (`GraphInterrupt`, `RunCancelled`) are
`BaseException`s, so that an `except Exception` of a tool or a hook cannot swallow a pause or a cancellation.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = [
    "AuthenticationError",
    "BadRequestError",
    "BudgetSpent",
    "ContextLengthError",
    "EmptyInputError",
    "Escalated",
    "GraphBubbleUp",
    "GraphInterrupt",
    "GraphRecursionError",
    "InputTypeError",
    "InternalError",
    "InvalidAnswerError",
    "InvalidResponseError",
    "InvalidUpdateError",
    "LimitReachedError",
    "LoopwrightError",
    "MissingExtraError",
    "ModelConnectionError",
    "ModelError",
    "ModelTimeoutError",
    "NotFoundError",
    "OutputParserException",
    "ParentCommand",
    "PermissionDeniedError",
    "RateLimitError",
    "RunCancelled",
    "SaverError",
    "ServerError",
    "StoredDataError",
    "StreamError",
    "ThreadConflictError",
    "ToolDefinitionError",
    "ToolException",
    "ToolInvocationError",
    "UnknownTypeError",
    "UnstorableError",
    "UsageError",
    "making",
    "no_such_name",
]


class LoopwrightError(Exception):
    """Root of all errors of this library.

    An error that ends a run carries the state so far in `state`; the thread goes on with
    `agent.invoke(None, config)`.
    """

    state: dict[str, Any] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Made again from its words and all it carries, whatever its constructor asks for."""
        return _restored, (type(self), self.args, dict(self.__dict__))


def _restored(kind: type[LoopwrightError], args: tuple[Any, ...], carried: dict[str, Any]) -> LoopwrightError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(carried)
    return error


class UsageError(LoopwrightError, ValueError):
    """A call or a definition that cannot work. The message shows what to write instead."""


class InvalidUpdateError(UsageError):
    """A node, a tool or a caller gave an update that the state cannot take."""


class EmptyInputError(UsageError):
    """A run was asked for without input, and there is nothing saved to go on with."""


class InvalidAnswerError(UsageError):
    """An answer that its question cannot take. Raised behind `interrupt()`, it leaves the question open: the caller
    sees this error, and may answer again.
    """


class UnstorableError(UsageError, TypeError):
    """A value that no checkpoint can hold. The message names the path to it: `state["cart"][1].lock`."""


class InputTypeError(UsageError, TypeError):
    """What was given to run on is of the wrong kind. The message shows the right call."""


class ToolDefinitionError(UsageError, TypeError):
    """A function or class that cannot become a tool, with the mend in the message."""


class MissingExtraError(UsageError, ImportError):
    """An optional package is needed and not installed. The message has the pip line."""


class ModelError(LoopwrightError):
    """A model call failed. The provider's own sentence is in the text; keys never are."""

    status_code: int | None
    """HTTP status of the answer; None if there was none."""
    retryable: bool
    """Whether the same call may succeed later."""
    retry_after: float | None
    """Seconds the provider asked to wait; None if it did not say."""

    def __init__(
        self,
        message: str,
        *,
        status_code: int | None = None,
        retryable: bool | None = None,
        retry_after: float | None = None,
        code: str | None = None,
        body: Any = None,
    ) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.retryable = type(self).retryable_by_default if retryable is None else retryable
        self.retry_after = retry_after
        self.code = code
        self.body = body

    retryable_by_default = False


class AuthenticationError(ModelError):
    """401: the API key is missing or wrong."""


class PermissionDeniedError(ModelError):
    """403: the API key is not allowed to do this."""


class NotFoundError(ModelError):
    """404: no such model, or a wrong base URL."""


class BadRequestError(ModelError):
    """400, 413 or 422: the provider refused the request; its sentence says why."""


class ContextLengthError(BadRequestError):
    """The conversation is longer than the model can take."""


class RateLimitError(ModelError):
    """429: too many requests, or no quota left."""

    retryable_by_default = True


class ServerError(ModelError):
    """5xx: the provider is in trouble."""

    retryable_by_default = True


class ModelConnectionError(ModelError, ConnectionError):
    """The provider could not be reached, or the connection broke."""

    retryable_by_default = True


class ModelTimeoutError(ModelError, TimeoutError):
    """The provider did not answer in time."""

    retryable_by_default = True


class StreamError(ModelError):
    """The provider reported an error inside a stream that had already begun."""


class InvalidResponseError(ModelError):
    """A successful status with a body that is no answer of that API."""


class ToolException(LoopwrightError):
    """Raise it in a tool to tell the model that the tool failed.

    `artifact` is kept on the error result, for programs that read it.
    """

    def __init__(self, *args: Any, artifact: Any = None) -> None:
        super().__init__(*args)
        self.artifact = artifact


class ToolInvocationError(ToolException):
    """The arguments that a model sent do not fit the tool. Its text names each place, and only what the model sent."""

    def __init__(self, *args: Any, source: Exception | None = None) -> None:
        super().__init__(*args)
        self.source = source
        """pydantic's `ValidationError`, if there is one."""


class OutputParserException(LoopwrightError, ValueError):
    """Text that should hold a structured answer could not be parsed."""


class LimitReachedError(LoopwrightError):
    """A limit of `Limits` was reached and `on_limit="raise"` was asked for."""

    limit: str

    def __init__(self, message: str, *, limit: str) -> None:
        super().__init__(message)
        self.limit = limit


class GraphRecursionError(LoopwrightError, RecursionError):
    """`config["recursion_limit"]` steps were made and the graph had not ended."""


class ThreadConflictError(LoopwrightError):
    """Another run has claimed this thread: first, and this one has run nothing; or meanwhile, and this one stops."""


class StoredDataError(LoopwrightError):
    """What a saver holds cannot be read: it is damaged, or was written by a later version."""


class UnknownTypeError(StoredDataError):
    """A run would begin with stored data of a class that is not registered here. Names class, path and remedy.

    Nothing is lost: `get_state` shows the rest, and what is not understood is stored again as it was.
    """


class SaverError(LoopwrightError):
    """A checkpoint saver's file or server cannot be used: full, locked, read-only, lost, of a newer version.

    Nothing of the call is half stored. The text names the file or the server, never a password, and the remedy;
    the same saver works again when the cause is gone.
    """


class InternalError(LoopwrightError):
    """A bug of this library. Please report it with the traceback."""


class GraphBubbleUp(BaseException):
    """Control flow that passes through nodes, tools and hooks untouched."""


class GraphInterrupt(GraphBubbleUp):
    """Questions on their way from a task to the caller of its run; `interrupts` is what is asked."""

    @property
    def interrupts(self) -> tuple[Any, ...]:
        """The open questions; empty where the caller has asked for the stop."""
        return self.args[0] if self.args else ()


class Escalated(GraphBubbleUp):
    """An error below a tool that is not the tool's own: no result for the model, but the end of the whole run.

    A saver that fails under an agent in a tool, a question that nobody keeps. `error` is what the caller gets.
    """

    @property
    def error(self) -> Exception:
        """The error that ends the run."""
        return self.args[0]


class BudgetSpent(GraphBubbleUp):
    """A limit that the next call of a wrap hook's `handler` would pass, on its way through the hook to the loop."""

    @property
    def reached(self) -> Any:
        """Which limit."""
        return self.args[0]


class RunCancelled(GraphBubbleUp):
    """Thrown into a run whose reader has left or whose caller has cancelled it."""


class ParentCommand(GraphBubbleUp):
    """`Command(graph=Command.PARENT)` on its way from a node to the graph around its own; `command` is its argument."""

    @property
    def command(self) -> Any:
        """What the graph around is to do."""
        return self.args[0]


# --- words that several rooms say ---------------------------------------------


def making(kind: type) -> str:
    """How an instance of a class is made: `SqliteSaver(path)`. Only what must be given is named."""
    from inspect import Parameter, signature

    try:
        parameters = list(signature(kind).parameters.values())
    except (TypeError, ValueError):  # a class that does not tell
        return f"{kind.__name__}()"
    needed = [
        f"{each.name}=…" if each.kind is Parameter.KEYWORD_ONLY else each.name
        for each in parameters
        if each.default is Parameter.empty and each.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    ]
    return f"{kind.__name__}({', '.join(needed)})"


_HOMES: Final = {
    "agents": ("AgentState", "Limits", "create_agent"),
    "agents.middleware": ("AgentMiddleware", "HumanInTheLoopMiddleware", "before_model", "dynamic_prompt"),
    "agents.structured_output": ("ProviderStrategy", "ToolStrategy"),
    "chat_models": ("BaseChatModel", "ChatOpenAI", "init_chat_model"),
    "checkpoint.memory": ("InMemorySaver", "MemorySaver"),
    "checkpoint.postgres": ("AsyncPostgresSaver", "PostgresSaver"),
    "checkpoint.sqlite": ("AsyncSqliteSaver", "SqliteSaver"),
    "config": ("get_config", "get_store", "get_stream_writer"),
    "graph": ("END", "START", "MessagesState", "StateGraph", "add_messages"),
    "messages": ("AIMessage", "AnyMessage", "HumanMessage", "RemoveMessage", "SystemMessage", "ToolMessage"),
    "prebuilt": ("ToolNode", "tools_condition"),
    "runnables": ("RunnableConfig",),
    "runtime": ("Runtime", "get_runtime"),
    "testing": ("ScriptedModel",),
    "tools": ("BaseTool", "InjectedState", "InjectedToolCallId", "StructuredTool", "ToolRuntime", "tool"),
    "types": ("Command", "Interrupt", "RetryPolicy", "Send", "interrupt"),
}
"""Where names are that people look for elsewhere."""


def no_such_name(module: str, name: str) -> Exception:
    """What a module's `__getattr__` raises; it names the right import if the name is one of another module.

    That is an `ImportError`, because `from ... import ...` puts words of its own in the place of an AttributeError's.
    """
    for home, names in _HOMES.items():
        if name in names and f"loopwright.{home}" != module:
            return ImportError(f"{module} has no {name!r}. Write: from loopwright.{home} import {name}", name=name)
    return AttributeError(f"module {module!r} has no attribute {name!r}", name=name)
