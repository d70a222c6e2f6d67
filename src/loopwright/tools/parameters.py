"""The parameters of a tool's function: which the model fills, which the program fills, and of what type.

Annotations that are text (`from __future__ import annotations`, forward references) are looked up in the function's
module, its closure and the functions that are running around its definition, so classes local to a function are found.
What cannot be found when the tool is made is looked up once more when its schema is needed; then it is an error.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from types import CodeType, FrameType
from typing import Any, Final, ForwardRef, NamedTuple, cast, get_type_hints

from loopwright.errors import ToolDefinitionError
from loopwright.tools.runtime import Injection, injection_of

__all__ = ["Parameter", "Signature", "is_coroutine_function", "name_of", "read_signature"]

_EMPTY: Final = inspect.Parameter.empty
_UNTYPED: Final = frozenset(("runtime", "config", "state", "store"))
"""Names that users of other libraries expect to be injected. Without a type nobody can tell what is meant."""
_KNOWN: Final[tuple[Any, ...]] = (str, int, float, bool, list, dict, list[str], _EMPTY, Any, str | None, int | None)
"""Types that no name needs to be looked up for. Only a shortcut."""


class Parameter(NamedTuple):
    """One parameter. `default` is `...` without one."""

    name: str
    annotation: Any
    """The type; `Any` without an annotation."""
    default: Any
    injection: Injection | None

    @property
    def required(self) -> bool:
        return self.default is ...


class Signature:
    """A function's parameters, in order. Types are looked up when they are first asked for."""

    __slots__ = ("_frames", "_function", "_parameters", "_raw", "open_ended", "where")

    def __init__(
        self, function: Any, raw: list[inspect.Parameter], open_ended: bool, where: str, frames: list[FrameType]
    ) -> None:
        self._function = function
        self._raw = raw
        self._frames = frames
        self._parameters: tuple[Parameter, ...] | None = None
        self.open_ended = open_ended
        """Whether it has `**kwargs`."""
        self.where = where
        try:
            self._resolve()
        except NameError:  # a class defined further down: asked again when the schema is needed
            return

    @property
    def names(self) -> list[str]:
        """All names, known even while the types are not."""
        return [parameter.name for parameter in self._raw]

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Raises `ToolDefinitionError` for a type that cannot be found."""
        if self._parameters is None:
            try:
                return self._resolve()
            except NameError as error:
                raise ToolDefinitionError(
                    f"{self.where}: {error}, so its parameters have no types. Define the class before the tool is "
                    "used, at the top of the module if the tool is made elsewhere, and not below `if TYPE_CHECKING:`."
                ) from None
        return self._parameters

    def namespace(self) -> dict[str, Any]:
        """Names for types that pydantic has to look up: what is local where the function was defined."""
        local: dict[str, Any] = {}
        for frame in reversed(self._frames):
            local.update(frame.f_locals)
        return local

    def release(self) -> None:
        """Let go of the running functions: all types have been found."""
        self._frames = []

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        return None, {name: [] if name == "_frames" else getattr(self, name) for name in self.__slots__}

    def _resolve(self) -> tuple[Parameter, ...]:
        hints = self._hints()
        made: list[Parameter] = []
        for raw in self._raw:
            annotation = hints.get(raw.name, raw.annotation)
            default = ... if raw.default is _EMPTY else raw.default
            if annotation is _EMPTY:
                injection = self._untyped(raw.name, default)
                annotation = Any
            else:
                injection = injection_of(annotation)
            made.append(Parameter(raw.name, annotation, default, injection))
        self._parameters = tuple(made)
        return self._parameters

    def _untyped(self, name: str, default: Any) -> Injection | None:
        if name in ("run_manager", "callbacks") and default is None:
            return Injection("none")
        if name in _UNTYPED:
            raise ToolDefinitionError(
                f"{self.where}: parameter {name!r} has no type. Write `runtime: ToolRuntime` or "
                "`config: RunnableConfig` to have it filled in, or the type of what the model is to give."
            )
        return None

    def _hints(self) -> dict[str, Any]:
        """Types for the annotations that are text or have text inside."""
        annotations = {raw.name: raw.annotation for raw in self._raw if raw.annotation is not _EMPTY}
        if not any(_has_text(annotation) for annotation in annotations.values()):
            return annotations
        function = _innermost(self._function)
        holder = type("annotated", (), {"__annotations__": annotations})
        return get_type_hints(
            holder,
            globalns=getattr(function, "__globals__", {}),
            localns={**self.namespace(), **_closure(function)},
            include_extras=True,
        )


def read_signature(function: Any, where: str, *, has_schema: bool) -> Signature:
    """The parameters of a tool's function. Raises `ToolDefinitionError` for what a model cannot call.

    `has_schema`: the parameters are described elsewhere (`args_schema`), so `**kwargs` may take them.
    """
    try:
        found = list(_signature(function).parameters.values())
    except (TypeError, ValueError):
        if has_schema:
            return Signature(function, [], True, where, [])
        raise ToolDefinitionError(
            f"{where}: Python does not tell the parameters of {function!r}. Wrap it in a function with annotations."
        ) from None
    raw: list[inspect.Parameter] = []
    open_ended = False
    for parameter in found:
        if parameter.kind is parameter.VAR_KEYWORD or parameter.kind is parameter.VAR_POSITIONAL:
            if not has_schema:
                stars = "**" if parameter.kind is parameter.VAR_KEYWORD else "*"
                raise ToolDefinitionError(
                    f"{where}: a model cannot fill {stars}{parameter.name}. Name each parameter, take one "
                    f"`{parameter.name}: dict[str, Any]`, or describe them with args_schema=."
                )
            open_ended = open_ended or parameter.kind is parameter.VAR_KEYWORD
        elif parameter.kind is parameter.POSITIONAL_ONLY:
            raise ToolDefinitionError(
                f"{where}: parameter {parameter.name!r} can only be given by position, and a model gives names. "
                "Remove the `/` from the signature."
            )
        else:
            raw.append(parameter)
    if _yields(function):
        raise ToolDefinitionError(
            f"{where}: it yields, and a tool returns one result. Return a list; to show progress use "
            "runtime.stream_writer."
        )
    needy = has_schema or any(parameter.annotation not in _KNOWN for parameter in raw)
    return Signature(function, raw, open_ended, where, _frames_around(function) if needy else [])


def _signature(function: Any) -> inspect.Signature:
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        return inspect.signature(function, annotation_format=Format.FORWARDREF)
    return inspect.signature(function)


def _has_text(annotation: Any) -> bool:
    if isinstance(annotation, (str, ForwardRef)):
        return True
    if isinstance(annotation, type) and not hasattr(annotation, "__args__"):
        return False
    if getattr(annotation, "__metadata__", None) is not None:
        return _has_text(cast(Any, annotation).__origin__)
    if type(annotation).__name__ == "_LiteralGenericAlias":
        return False
    members = cast("tuple[Any, ...]", getattr(annotation, "__args__", None) or ())
    return any(_has_text(member) for member in members)


def _innermost(function: Any) -> Any:
    """The function that was written, below decorators, partials, bound methods and objects with `__call__`."""
    while True:
        if isinstance(function, _partial()):
            function = function.func
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        elif inspect.ismethod(function):
            function = function.__func__
        elif not inspect.isfunction(function) and inspect.ismethod(getattr(function, "__call__", None)):  # noqa: B004
            function = function.__call__
        else:
            return function


def _partial() -> Any:
    from functools import partial

    return partial


def _closure(function: Any) -> Mapping[str, Any]:
    code: CodeType | None = getattr(function, "__code__", None)
    cells = getattr(function, "__closure__", None) or ()
    found: dict[str, Any] = {}
    for name, cell in zip(code.co_freevars if code is not None else (), cells, strict=False):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return found


def _frames_around(function: Any) -> list[FrameType]:
    """The calls in progress inside of which the function was defined, innermost first."""
    function = _innermost(function)
    name: str = getattr(function, "__qualname__", "")
    scope = getattr(function, "__globals__", None)
    if "<locals>" not in name:
        return []
    found: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        if frame.f_globals is scope and name.startswith(f"{frame.f_code.co_qualname}.<locals>."):
            found.append(frame)
        frame = frame.f_back
    return found


def _yields(function: Any) -> bool:
    inner = _innermost(function)
    return inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner)


def is_coroutine_function(function: Any) -> bool:
    """Whether calling it gives a coroutine: `async def`, a partial of one, an object with `async def __call__`."""
    while isinstance(function, _partial()):
        function = function.func
    if inspect.iscoroutinefunction(function):
        return True
    call = None if inspect.isroutine(function) else getattr(function, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(call)


def name_of(function: Callable[..., Any]) -> str:
    """The name under which a function is known; empty for what has none."""
    inner = function
    while isinstance(inner, _partial()):
        inner = cast(Any, inner).func
    name = getattr(inner, "__name__", None)
    return name if isinstance(name, str) else ""
