"""How an agent is asked for an answer in a given form, and the errors when it does not give one.

Three strategies: an answer tool that the model calls (`ToolStrategy`, works with every model that calls tools), the
provider's own JSON output (`ProviderStrategy`), or whichever suits the model (`AutoStrategy`, which a bare schema
means). A schema is a pydantic model, a dataclass, a `TypedDict`, a JSON schema dictionary (not enforced), or a union of
these (`A | B`, `oneOf`), which is asked for with one answer tool each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import UnionType
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast, overload

from loopwright.errors import LoopwrightError, UsageError

if TYPE_CHECKING:
    from loopwright.messages import AIMessage

__all__ = [
    "AutoStrategy",
    "HandleErrors",
    "MissingStructuredOutputError",
    "MultipleStructuredOutputsError",
    "ProviderStrategy",
    "ResponseFormat",
    "StructuredOutputError",
    "StructuredOutputValidationError",
    "ToolStrategy",
]

R = TypeVar("R")

HandleErrors: TypeAlias = bool | str | type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], str]
"""What becomes of an answer that does not fit: True, it goes back to the model with the reason; a text, with that text;
exception classes, only those go back; a function of the error, with what it returns; False, the run raises."""


class StructuredOutputError(LoopwrightError):
    """The model gave no answer of the form that was asked for."""

    ai_message: AIMessage
    """The model's reply."""


class MultipleStructuredOutputsError(StructuredOutputError):
    """The model called answer tools more than once in one reply."""

    def __init__(self, tool_names: list[str], ai_message: AIMessage) -> None:
        super().__init__(
            f"the model gave {len(tool_names)} structured answers at once ({', '.join(tool_names)}); one is wanted"
        )
        self.tool_names = tool_names
        self.ai_message = ai_message


class StructuredOutputValidationError(StructuredOutputError):
    """The model's answer does not fit the schema. `source` is the validator's error."""

    def __init__(self, tool_name: str, source: Exception, ai_message: AIMessage) -> None:
        super().__init__(f"the model's structured answer {tool_name!r} does not fit: {_sentence_of(source)}")
        self.tool_name = tool_name
        self.source = source
        self.ai_message = ai_message
        self.__cause__ = source


class MissingStructuredOutputError(StructuredOutputError):
    """The model answered in words, and again when it was asked for the structured form."""

    def __init__(self, tool_names: list[str], ai_message: AIMessage) -> None:
        reason = ai_message.response_metadata.get("finish_reason")
        cut = f" (its reply ended with finish_reason={reason!r})" if reason in ("length", "content_filter") else ""
        super().__init__(
            f"the model answered in words and did not call {' or '.join(map(repr, tool_names))}{cut}. "
            f"Its words are in error.ai_message; a model that cannot call tools may do with ProviderStrategy"
        )
        self.tool_names = tool_names
        self.ai_message = ai_message


def _sentence_of(error: Exception) -> str:
    """A validator's words without its decoration: each place, what is wrong with it, and what stood there."""
    problems: Any = getattr(error, "errors", None)
    if not callable(problems):
        return str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
    return "; ".join(_problem(each) for each in cast("list[dict[str, Any]]", problems()))


def _problem(problem: Mapping[str, Any]) -> str:
    place = ".".join(map(str, problem["loc"]))
    given = problem.get("input")
    shown = f", not {given!r}" if isinstance(given, (str, int, float, bool)) and len(repr(given)) <= 80 else ""
    return f"{place}: {problem['msg']}{shown}" if place else f"{problem['msg']}{shown}"


class _Strategy(Generic[R]):
    __slots__ = ("plans", "schema")

    schema: Any
    plans: dict[str, Any]
    """What `loopwright.agents.answers` has made of this strategy, so that it is made once."""

    def __init__(self, schema: Any) -> None:
        if isinstance(schema, (ToolStrategy, ProviderStrategy, AutoStrategy)):
            raise UsageError(f"{type(self).__name__} takes a schema, not another strategy: {schema!r}")
        self.schema = schema
        self.plans = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({getattr(self.schema, '__name__', self.schema)})"


class ToolStrategy(_Strategy[R]):
    """Ask with an answer tool for each schema; the model must call one of its tools."""

    __slots__ = ("handle_errors", "tool_message_content")

    @overload
    def __init__(
        self, schema: type[R], *, tool_message_content: str | None = None, handle_errors: HandleErrors = True
    ) -> None: ...
    @overload
    def __init__(
        self: ToolStrategy[dict[str, Any]],
        schema: Mapping[str, Any],
        *,
        tool_message_content: str | None = None,
        handle_errors: HandleErrors = True,
    ) -> None: ...
    @overload
    def __init__(
        self: ToolStrategy[Any],
        schema: UnionType | Any,
        *,
        tool_message_content: str | None = None,
        handle_errors: HandleErrors = True,
    ) -> None: ...
    def __init__(
        self, schema: Any, *, tool_message_content: str | None = None, handle_errors: HandleErrors = True
    ) -> None:
        """`tool_message_content` is the answer call's result in the history, in place of the answer itself."""
        super().__init__(schema)
        self.tool_message_content = tool_message_content
        self.handle_errors = _checked(handle_errors)


class ProviderStrategy(_Strategy[R]):
    """Ask with the provider's own JSON output, and read the reply's text."""

    __slots__ = ("strict",)

    @overload
    def __init__(self, schema: type[R], *, strict: bool | None = None) -> None: ...
    @overload
    def __init__(
        self: ProviderStrategy[dict[str, Any]], schema: Mapping[str, Any], *, strict: bool | None = None
    ) -> None: ...
    def __init__(self, schema: Any, *, strict: bool | None = None) -> None:
        """`strict` asks the provider to hold the model to the schema; None leaves that to the provider."""
        super().__init__(schema)
        self.strict = strict


class AutoStrategy(_Strategy[R]):
    """`ProviderStrategy` where the model's profile says that its provider can, else `ToolStrategy`."""

    __slots__ = ()

    @overload
    def __init__(self, schema: type[R]) -> None: ...
    @overload
    def __init__(self: AutoStrategy[dict[str, Any]], schema: Mapping[str, Any]) -> None: ...
    @overload
    def __init__(self: AutoStrategy[Any], schema: UnionType | Any) -> None: ...
    def __init__(self, schema: Any) -> None:
        super().__init__(schema)


ResponseFormat: TypeAlias = ToolStrategy[R] | ProviderStrategy[R] | AutoStrategy[R]


def _checked(rule: Any) -> HandleErrors:
    if isinstance(rule, (tuple, type)):
        classes = cast("tuple[Any, ...]", rule) if isinstance(rule, tuple) else (rule,)
        good = all(isinstance(each, type) and issubclass(each, Exception) for each in classes)
    else:
        good = isinstance(rule, (bool, str)) or callable(rule)
    if not good:
        raise UsageError(
            f"handle_errors={rule!r}: give True, False, a text, an exception class, a tuple of exception classes, "
            f"or a function of the error that returns a text"
        )
    return cast("HandleErrors", rule)
