"""`BaseTool`: what all tools have, and how a class of the user's becomes one.

A plain class, so that importing it costs nothing. Rules:

- annotated class attributes are fields: `api_key: str` is a required keyword of the constructor, `limit: int = 5` an
  optional one; names that begin with `_` and `ClassVar`s are not fields. Types of fields are for type checkers;
- a subclass has `_run`, `_arun` or both. Either serves `invoke` and `ainvoke`; with both, each world takes its own;
- a tool that cannot work (no description, a name no provider takes, parameters no model can fill) is an error when it
  is made;
- fields may be set later. What has been derived from them (schema, plan of the call) is derived anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, cast

from loopwright.errors import ToolDefinitionError, ToolException
from loopwright.scope import RunnableConfig
from loopwright.tools.call import Plan, invoke_tool
from loopwright.tools.docstring import clean, parse_docstring
from loopwright.tools.fields import Factory, WithFields, check_fields, fields_of_class, name_mend
from loopwright.tools.gate import Gate
from loopwright.tools.parameters import Signature, is_coroutine_function, read_signature
from loopwright.tools.schema import Arguments, arguments_of

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["BaseTool"]

_DERIVED: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(
        ("func", "coroutine", "args_schema"), ("_signature", "arguments", "json_schema", "openai_tool", "plan")
    ),
    **dict.fromkeys(("name", "description"), ("openai_tool",)),
    **dict.fromkeys(("response_format", "max_result_chars"), ("plan",)),
    "max_concurrency": ("plan", "gate"),
}
"""What is forgotten when a field is set."""
_PORT_KEYWORDS: Final = frozenset(("is_async", "timeout_s"))


class _FromSignature:
    """`tool.args_schema` of a tool that was given none: a pydantic model class, made when somebody asks."""

    def __get__(self, tool: BaseTool | None, cls: type[BaseTool]) -> Any:
        return None if tool is None else tool.tool_call_schema


class BaseTool(WithFields):
    """Something that a model may call. Make one with `@tool`, or subclass this and write `_run` or `_arun`."""

    name: str
    """What the model calls it: letters, digits, `_` and `-`, at most 64."""
    description: str = ""
    """What the model is told about it. Left out, the docstring of the class or function."""
    args_schema: Any = _FromSignature()
    """A pydantic model class or a JSON schema dictionary. Left out or None: made of the function's signature."""
    return_direct: bool = False
    """Whether its result ends the run and is the answer."""
    verbose: bool = False
    callbacks: Any = None
    """Handlers that hear of every call of this tool."""
    tags: list[str] | None = None
    metadata: dict[str, Any] | None = None
    handle_tool_error: bool | str | Callable[[ToolException], Any] | None = False
    """What a `ToolException` becomes: True its words, a string those, a function what it returns; False: the caller's
    affair."""
    handle_validation_error: bool | str | Callable[[Any], Any] | None = False
    """The same for arguments that do not fit; a function is given pydantic's `ValidationError`."""
    response_format: Literal["content", "content_and_artifact"] = "content"
    """With `content_and_artifact` it returns a tuple: what the model reads, and what only programs see."""
    extras: dict[str, Any] | None = None
    """Settings for one provider, handed on as they are."""
    timeout_s: float | None = None
    """Seconds that one call may take. The waiting for `max_concurrency` does not count."""
    max_concurrency: int | None = None
    """How many calls of it run at once in this process."""
    max_result_chars: int | None = 100_000
    """What of a result is longer is cut, with a note. None: no limit."""

    _fields: ClassVar[dict[str, Any]] = {}
    """Name -> default, `...` for a required one."""

    if TYPE_CHECKING:
        # Only for type checkers: a subclass has at least one of them, and says which by writing it.
        def _run(self, *args: Any, **kwargs: Any) -> Any: ...

        async def _arun(self, *args: Any, **kwargs: Any) -> Any: ...

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._fields = fields_of_class(cls)

    def __init__(self, **values: Any) -> None:
        cls = type(self)
        fields = cls._fields
        unknown = values.keys() - fields.keys()
        if unknown:
            raise ToolDefinitionError(
                f"{cls.__name__}(...) has no field {min(unknown)!r}. Its fields: {', '.join(fields)}."
            )
        missing: list[str] = []
        own = self.__dict__
        for field, default in fields.items():
            if field in values:
                own[field] = values[field]
            elif default is ...:
                if field not in own:
                    missing.append(field)
            elif isinstance(default, Factory):
                own[field] = default.make()
        if missing:
            raise ToolDefinitionError(_needs(cls, missing))
        if not self.description:
            own["description"] = clean(cls.__doc__)
        self._settle()

    def __setattr__(self, name: str, value: Any) -> None:
        own = vars(self)
        if "_signature" not in own or name not in type(self)._fields:
            object.__setattr__(self, name, value)
            return
        before = dict(own)
        own[name] = value
        for derived in _DERIVED.get(name, ()):
            own.pop(derived, None)
        try:
            self._settle()
        except ToolDefinitionError:
            own.clear()
            own.update(before)
            raise

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles: without what cannot be copied and is soon made again."""
        return {name: value for name, value in vars(self).items() if name not in ("plan", "gate")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._settle()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r}, description={self.description!r})"

    def _settle(self) -> None:
        """Check the fields, and read what has not been read yet. Raises `ToolDefinitionError`."""
        check_fields(self)
        own = vars(self)
        if "gate" not in own:
            own["gate"] = None if self.max_concurrency is None else Gate(self.max_concurrency)
        if "_signature" in own:
            return
        plain, coroutine = self._functions()
        if plain is None and coroutine is None:
            raise ToolDefinitionError(
                f"{self._where}: there is nothing to run. Write `def _run(self, ...)` or `async def _arun(self, ...)`."
            )
        own["_signature"] = read_signature(plain or coroutine, self._where, has_schema=self._given_schema is not None)

    @property
    def _given_schema(self) -> Any:
        own = vars(self)
        return own["args_schema"] if "args_schema" in own else type(self).args_schema

    @property
    def _where(self) -> str:
        return f"Tool {self.name!r}"

    def _functions(self) -> tuple[Callable[..., Any] | None, Callable[..., Any] | None]:
        """The plain function and the coroutine function."""
        plain: Any = getattr(self, "_run", None)
        coroutine: Any = getattr(self, "_arun", None)
        return (None, coroutine or plain) if is_coroutine_function(plain) else (plain, coroutine)

    @property
    def declares(self) -> tuple[Any, ...]:
        """Where the classes are named that may come out of a call: its schema, and its functions' annotations."""
        return (self._given_schema, *filter(None, self._functions()))

    def _descriptions(self) -> dict[str, str]:
        """What is said of each parameter outside of its type."""
        plain, coroutine = self._functions()
        return parse_docstring(getattr(plain or coroutine, "__doc__", None)).parameters

    # -- derived, once ----------------------------------------------------------------------------------------------

    @cached_property
    def arguments(self) -> Arguments:
        """What its arguments must be. Raises `ToolDefinitionError` for types that a model cannot give."""
        signature: Signature = vars(self)["_signature"]
        return arguments_of(self.name, signature, self._given_schema, self._descriptions(), self._where)

    @cached_property
    def json_schema(self) -> dict[str, Any]:
        """The JSON schema of its arguments, as the model sees it. One dictionary for all who ask: do not change it."""
        return self.arguments.json()

    @cached_property
    def openai_tool(self) -> dict[str, Any]:
        """The tool in OpenAI's form. One dictionary for all who ask: do not change it."""
        about = {"name": self.name, "description": self.description, "parameters": self.json_schema}
        return {"type": "function", "function": about}

    @cached_property
    def plan(self) -> Plan:
        """How it is called."""
        arguments = self.arguments
        plain, coroutine = self._functions()
        limit = self.max_result_chars
        return Plan(
            plain,
            coroutine,
            arguments.check(),
            arguments.injected,
            merges=arguments.merges,
            plain_chars=-1 if self.response_format != "content" else 1 << 60 if limit is None else limit,
            special=self.max_concurrency is not None or not _PORT_KEYWORDS.isdisjoint(arguments.names),
        )

    if TYPE_CHECKING:

        @property
        def gate(self) -> Gate | None:
            """Where calls wait if there are `max_concurrency` already."""
            ...

    # -- what users ask ---------------------------------------------------------------------------------------------

    @property
    def is_single_input(self) -> bool:
        """Whether a bare string is enough to call it."""
        return len(self.arguments.names) == 1

    @property
    def tool_call_schema(self) -> type[BaseModel] | dict[str, Any]:
        """What the model fills, as a pydantic model class; the dictionary, if `args_schema` is one."""
        schema = self.arguments.model()
        if self._given_schema is None and not isinstance(schema, dict):
            schema.__doc__ = self.description
        return schema

    def get_input_schema(self, config: RunnableConfig | None = None) -> type[BaseModel] | dict[str, Any]:
        """The same as `tool_call_schema`: what is injected is nobody's input."""
        return self.tool_call_schema

    @property
    def args(self) -> dict[str, Any]:
        """The properties of the JSON schema, with the titles that pydantic gives."""
        schema = self.tool_call_schema
        whole = schema if isinstance(schema, dict) else schema.model_json_schema()
        return cast("dict[str, Any]", whole.get("properties", {}))

    def invoke(self, input: str | Mapping[str, Any] | None, config: RunnableConfig | None = None, **_: Any) -> Any:
        """Run it: arguments give what it returned, a whole tool call (`"type": "tool_call"`) gives a `ToolMessage`.

        Raises pydantic's `ValidationError` for arguments that do not fit, and whatever the tool raises, unless the tool
        handles it.
        """
        from loopwright.drive.blocking import BlockingPort, run

        return run(invoke_tool(self, input, config, BlockingPort()))

    async def ainvoke(
        self, input: str | Mapping[str, Any] | None, config: RunnableConfig | None = None, **_: Any
    ) -> Any:
        """The same under asyncio. A plain function runs on a helper thread."""
        from loopwright.drive.aio import AioPort, run

        return await run(invoke_tool(self, input, config, AioPort()))

    def batch(
        self,
        inputs: Sequence[Any],
        config: RunnableConfig | None = None,
        *,
        return_exceptions: bool = False,
        **_: Any,
    ) -> list[Any]:
        """Several at once, `config["max_concurrency"]` at most; results in order."""
        from loopwright.drive.blocking import BlockingPort, run

        port = BlockingPort()
        calls = [invoke_tool(self, input, config, port) for input in inputs]
        return _outcomes(run(port.gather(calls, _width(config))) if calls else [], return_exceptions)

    async def abatch(
        self,
        inputs: Sequence[Any],
        config: RunnableConfig | None = None,
        *,
        return_exceptions: bool = False,
        **_: Any,
    ) -> list[Any]:
        """The same under asyncio."""
        from loopwright.drive.aio import AioPort, run

        port = AioPort()
        calls = [invoke_tool(self, input, config, port) for input in inputs]
        return _outcomes(await run(port.gather(calls, _width(config))) if calls else [], return_exceptions)


BaseTool._fields = fields_of_class(BaseTool)  # pyright: ignore[reportPrivateUsage]


def _width(config: RunnableConfig | None) -> int | None:
    return config.get("max_concurrency") if config else None


def _outcomes(results: list[Any], return_exceptions: bool) -> list[Any]:
    if not return_exceptions:
        for result in results:
            if isinstance(result, BaseException):
                raise result
    return results


def _needs(cls: type[BaseTool], missing: Sequence[str]) -> str:
    if "name" in missing:
        return (
            f"{cls.__name__} has no name. Write it in the class, `name: str = {name_mend(cls.__name__)!r}`, "
            f"or give it to the constructor, {cls.__name__}(name=...)."
        )
    example = ", ".join(f"{field}=..." for field in missing)
    return f"{cls.__name__}(...) needs {', '.join(missing)}: {cls.__name__}({example})."
