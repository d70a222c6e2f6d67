"""Tools made of functions: `StructuredTool`, and `Tool` for a single text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from loopwright.errors import ToolDefinitionError
from loopwright.schema import schema_description
from loopwright.tools.base import BaseTool
from loopwright.tools.docstring import clean, parse_docstring
from loopwright.tools.parameters import is_coroutine_function, name_of

__all__ = ["StructuredTool", "Tool"]

_Function = Callable[..., Any]


class StructuredTool(BaseTool):
    """A tool of a function, a coroutine function, or both. Name and description come from it unless they are given."""

    func: _Function | None = None
    coroutine: _Function | None = None

    def __init__(
        self,
        *,
        func: _Function | None = None,
        coroutine: _Function | None = None,
        name: str | None = None,
        description: str | None = None,
        args_schema: Any = None,
        parse_docstring: bool = True,
        error_on_invalid_docstring: bool = False,
        **fields: Any,
    ) -> None:
        function = func or coroutine
        if function is None:
            raise ToolDefinitionError(f"{type(self).__name__} needs func= or coroutine=: the function to run.")
        if not callable(function):
            raise ToolDefinitionError(f"{function!r} is no function. Give what is to be called, not what it returns.")
        if func is not None and coroutine is None and is_coroutine_function(func):
            func, coroutine = None, func
        name = name_of(function) if name is None else name
        if name == "<lambda>" or not name:
            raise ToolDefinitionError(
                f"A tool of {function!r} needs a name: {type(self).__name__}(..., name='search')."
            )
        text, self._described = _read(function, parse_docstring)
        if description is None:
            description = text or (schema_description(args_schema) if args_schema is not None else "")
        if not description:
            raise ToolDefinitionError(
                f"Tool {name!r} has no description, and the model would not know what it is for. "
                f"Write a docstring below `def {name}`, or give description=..."
            )
        if args_schema is not None:
            fields["args_schema"] = args_schema
        super().__init__(name=name, description=description, func=func, coroutine=coroutine, **fields)
        if error_on_invalid_docstring:
            self._check_docstring()

    @classmethod
    def from_function(
        cls,
        func: _Function | None = None,
        coroutine: _Function | None = None,
        name: str | None = None,
        description: str | None = None,
        return_direct: bool = False,
        args_schema: Any = None,
        infer_schema: bool = True,
        *,
        response_format: str = "content",
        parse_docstring: bool = True,
        error_on_invalid_docstring: bool = False,
        **fields: Any,
    ) -> Self:
        """A tool of a function. `parse_docstring=False`: the whole docstring is the description."""
        return cls(
            func=func,
            coroutine=coroutine,
            name=name,
            description=description,
            return_direct=return_direct,
            args_schema=args_schema,
            response_format=response_format,
            parse_docstring=parse_docstring,
            error_on_invalid_docstring=error_on_invalid_docstring,
            **fields,
        )

    def _functions(self) -> tuple[_Function | None, _Function | None]:
        return self.func, self.coroutine

    def _descriptions(self) -> dict[str, str]:
        return self._described

    def _check_docstring(self) -> None:
        unknown = [name for name in self._described if name not in vars(self)["_signature"].names]
        if unknown:
            raise ToolDefinitionError(
                f"Tool {self.name!r}: the docstring describes {', '.join(unknown)}, which the function does not take."
            )

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        """The plain function, called as it is; for code that wraps tools."""
        if self.func is None:
            raise ToolDefinitionError(
                f"Tool {self.name!r} has only a coroutine function: await tool._arun(...) or use invoke."
            )
        return self.func(*args, **kwargs)

    async def _arun(self, *args: Any, **kwargs: Any) -> Any:
        """The coroutine function, called as it is; without one, the plain function."""
        return self._run(*args, **kwargs) if self.coroutine is None else await self.coroutine(*args, **kwargs)


def _read(function: _Function, parsed: bool) -> tuple[str, dict[str, str]]:
    """Description of the whole, and of each parameter."""
    text = getattr(function, "__doc__", None)
    if hasattr(function, "func") and hasattr(function, "keywords"):  # a partial: what it says of itself is of no use
        text = function.func.__doc__  # pyright: ignore[reportFunctionMemberAccess]
    if not parsed:
        return clean(text), {}
    found = parse_docstring(text)
    return found.description, found.parameters


class Tool(StructuredTool):
    """A tool of a function that takes one text: `Tool("search", function, "Finds pages.")`."""

    def __init__(
        self,
        name: str,
        func: _Function | None = None,
        description: str | None = None,
        *,
        coroutine: _Function | None = None,
        **fields: Any,
    ) -> None:
        super().__init__(name=name, func=func, coroutine=coroutine, description=description, **fields)
        if self._given_schema is None and len(self.arguments.names) != 1:
            names = ", ".join(self.arguments.names) or "nothing"
            raise ToolDefinitionError(
                f"Tool {name!r}: Tool(...) is for a function of one text, and this one takes {names}. "
                "Use StructuredTool.from_function(...) or @tool."
            )

    @classmethod
    def from_function(  # pyright: ignore[reportIncompatibleMethodOverride] - the order its users know
        cls, func: _Function | None, name: str, description: str | None = None, **fields: Any
    ) -> Self:
        """The same with the function first."""
        return cls(name, func, description, **fields)
